"""The weights of a library: embedded into it, or in a file beside it in the format of safetensors.

Either way the arrays lie as the kernels want them, so they are mapped and never copied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from graphc.aot.library import Weights
from graphc.aot.native.records import ALIGNMENT
from graphc.ir.dtypes import dtype
from graphc.ir.types import TensorType

METADATA, PADDING = "__metadata__", ".padding"
"""What no array may be called, and what no array's name may end in."""


def weights_file(weights: Weights, names: Sequence[str]) -> tuple[bytes, bytes]:
    """The head and the rest of a file of weights; ``names`` are those of its arrays.

    The format allows no gaps, so what lies between two arrays is an array too. The head ends at a
    multiple of 64 bytes and has a hash of the rest.
    """
    block = weights.block()
    entries: dict[str, object] = {
        METADATA: {"writer": "graphc", "sha256": hashlib.sha256(block).hexdigest()}
    }
    ends = [*weights.offsets[1:], len(block)][: len(names)]
    for name, array, start, end in zip(names, weights.arrays, weights.offsets, ends, strict=True):
        stop = start + array.nbytes
        # of what the format lacks, complex128 is two floats each, and storage is words
        stored = TensorType(dtype(array.dtype), array.shape).stored
        entries[name] = {
            "dtype": stored.dtype.safetensors or f"U{stored.dtype.bits}",
            "shape": list(stored.shape),
            "data_offsets": [start, stop],
        }
        if stop < end:
            entries[f"{name}{PADDING}"] = {
                "dtype": "U8", "shape": [end - stop], "data_offsets": [stop, end],
            }  # fmt: skip
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, block


_MARK = hashlib.sha512(b"the weights of a graphc library end here").digest()


def embedding(symbol: str, size: int) -> str:
    """LLVM text that defines a symbol as ``size`` bytes, of which ``filled`` makes the weights.

    Written out, weights would take seconds to read for each few megabytes, and LLVM has no
    assembler, which can include a file, for other processors than that of this machine.
    """
    mark = "".join(f"\\{byte:02X}" for byte in _MARK)
    parts = f"[{size} x i8]", f"[{len(_MARK)} x i8]"
    return (
        f"@{symbol} = hidden constant <{{ {parts[0]}, {parts[1]} }}> "
        f'<{{ {parts[0]} zeroinitializer, {parts[1]} c"{mark}" }}>, align {ALIGNMENT}\n'
    )


def filled(image: bytes, block: bytes) -> bytes:
    """An object of a text with an ``embedding``, with the weights in it."""
    end = image.index(_MARK)
    start = end - len(block)
    assert not image[start:end].strip(b"\0"), "the weights take the place of zeros"
    assert image.find(_MARK, end + 1) < 0, "there is one embedding"
    return b"".join((memoryview(image)[:start], block, memoryview(image)[end:]))


__all__ = ["METADATA", "PADDING", "embedding", "filled", "weights_file"]
