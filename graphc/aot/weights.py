"""The weights of a library: embedded into it, or in a file beside it in the format of safetensors.

Either way the arrays lie as the kernels want them, so they are mapped and never copied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from graphc.aot.library import Weights

_NAMES = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8",
    "uint16": "U16", "uint32": "U32", "uint64": "U64", "float16": "F16", "float32": "F32",
    "float64": "F64", "bfloat16": "BF16",
}  # fmt: skip

ALIGNMENT = 64


def weights_file(weights: Weights, names: Sequence[str]) -> tuple[bytes, bytes]:
    """The head and the rest of a file of weights; ``names`` are those of its arrays.

    The format allows no gaps, so what lies between two arrays is an array too. The head ends at a
    multiple of 64 bytes and has a hash of the rest.
    """
    block = weights.block()
    entries: dict[str, object] = {
        "__metadata__": {"writer": "graphc", "sha256": hashlib.sha256(block).hexdigest()}
    }
    ends = [*weights.offsets[1:], len(block)]
    for name, array, start, end in zip(names, weights.arrays, weights.offsets, ends, strict=True):
        stop = start + array.nbytes
        entries[name] = {
            "dtype": _NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
        if stop < end:
            entries[f"{name}.padding"] = {
                "dtype": "U8", "shape": [end - stop], "data_offsets": [stop, end],
            }  # fmt: skip
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, block


def embedding(symbol: str, path: str, triple: str) -> str:
    """LLVM text that defines a symbol as the content of a file, which is read when it is compiled.

    A text of the numbers would take seconds to read for weights of some megabytes.
    """
    quoted = path.replace("\\", "/")
    assert '"' not in quoted and "\n" not in quoted, "the writer chooses the path"
    if "apple" in triple or "macos" in triple:
        label, lines = f"_{symbol}", [".section __TEXT,__const"]
    elif "windows" in triple:
        label, lines = symbol, ['.section .rdata,"dr"']
    elif "wasm" in triple:
        label, lines = symbol, [f'.section .rodata.{symbol},"",@', f".type {symbol},@object"]
    else:
        label, lines = symbol, ['.section .rodata.graphc,"a",@progbits']
    lines += [".p2align 6", f"{label}:", f'.incbin "{quoted}"']
    if "wasm" in triple:
        lines.append(f".size {symbol}, .-{symbol}")
    else:
        lines.append(".text")
    spelled = [line.replace('"', "\\22") for line in lines]
    assembly = "\n".join(f'module asm "{line}"' for line in spelled)
    return f"{assembly}\n@{symbol} = external hidden global i8\n"


__all__ = ["embedding", "weights_file"]
