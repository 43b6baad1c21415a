"""Programs as bytes, and programs of bytes.

An entry is the lengths of two texts, JSON and the plan, the texts, and the bytes of arrays one
after the other, each from a multiple of _ALIGNMENT on.

Invariant: a program that is read is the one that was written; machine code has entries of its own.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from graphc.base.llvm import uninterrupted
from graphc.base.target import Target, host
from graphc.compiling.cached.keys import Labels
from graphc.compiling.compiled import Compiled
from graphc.ir import dtypes
from graphc.ir.attributes import Array, Payload
from graphc.ir.graph import Graph
from graphc.ir.text.printer import large_payloads
from graphc.plan.abi import WALKER, WORKER, kernel_symbols
from graphc.plan.ir import Plan
from graphc.plan.serialize import plan_of, plan_text
from graphc.runtime.address import aligned_empty
from graphc.runtime.cache import Cache
from graphc.runtime.code import Code
from graphc.runtime.jit import Library, key_of, realm_of, shared_library

_ALIGNMENT = 64
_LENGTHS = struct.Struct("<QQ")


def content_of(compiled: Compiled, labels: Labels) -> bytes:
    """The entry of a program; its machine code has entries of its own."""
    from graphc.compiling.loading import walker_text

    plan, text = compiled.plan, compiled.levels.text
    known = large_payloads(compiled.source)
    arrays: list[list[Any]] = []
    blocks: list[bytes | memoryview] = []
    size = 0
    for slot, array in plan.constants.items():
        digest = Payload(array).digest.hex()
        if digest in known:
            arrays.append([slot, digest])
            continue
        arrays.append([slot, array.dtype.name, list(array.shape), size])
        padding = bytes(-array.nbytes % _ALIGNMENT)
        blocks += [array.reshape(-1).view(np.uint8).data, padding]
        size += array.nbytes + len(padding)
    head = {
        "constants": arrays,
        "bytes": size,
        "walker": key_of(walker_text()),
        "libraries": [[each.exports, key_of(each.text)] for each in text.libraries.values()],
        "modules": [[key_of(each.text), each.symbols, each.glue] for each in text.modules],
        "kernels": len(text.symbols),
    }
    texts = json.dumps(head, separators=(",", ":")), plan_text(plan, labels.number_of)
    encoded = [text.encode() for text in texts]
    return b"".join((_LENGTHS.pack(*map(len, encoded)), *encoded, *blocks))


def loaded_from(
    content: bytes, graph: Graph, labels: Labels, target: Target, kept: Cache
) -> tuple[Plan, Code] | None:
    """The program of an entry; None if its machine code is not in the cache."""
    length, plan_length = _LENGTHS.unpack_from(content)
    start = _LENGTHS.size + length
    end = start + plan_length
    head = json.loads(content[_LENGTHS.size : start])
    code = stored_code(head, target, kept)
    if code is None:
        return None
    constants = _constants(head, memoryview(content)[end:], graph)
    return plan_of(content[start:end].decode(), constants, labels.places), code


def _constants(head: Mapping[str, Any], block: memoryview, graph: Graph) -> dict[int, Array]:
    entries = head["constants"]
    known = large_payloads(graph) if any(len(entry) == 2 for entry in entries) else {}
    memory = aligned_empty(len(block))
    memory[:] = np.frombuffer(block, np.uint8)
    memory.flags.writeable = False
    result: dict[int, Array] = {}
    for slot, *rest in entries:
        if len(rest) == 1:
            result[slot] = known[rest[0]].array
            continue
        name, shape, offset = rest
        dtype = dtypes.dtype(name).numpy
        count = int(np.prod(shape, dtype=np.int64))
        piece = memory[offset : offset + count * dtype.itemsize]
        result[slot] = piece.view(dtype).reshape(shape)
    return result


def stored_code(head: Mapping[str, Any], target: Target, kept: Cache) -> Code | None:
    """The machine code that an entry names; None if some of it is not in the cache."""
    return uninterrupted(partial(_stored_code, head, target, kept))


def _stored_code(head: Mapping[str, Any], target: Target, kept: Cache) -> Code | None:
    def image(key: str, target: Target = target, glue: bool = False) -> bytes | None:
        return kept.get(realm_of(target, glue), key).content

    key, here = head["walker"], host()
    walker = shared_library((WALKER, WORKER), key, here, partial(image, key, here))
    if walker is None:
        return None
    libraries = [walker]
    imports: dict[str, int] = {}
    for symbols, key in head["libraries"]:
        found = shared_library(tuple(symbols), key, target, partial(image, key))
        if found is None:
            return None
        libraries.append(found)
        imports |= found.addresses
    for key, symbols, glue in head["modules"]:
        content = image(key, target, glue)
        if content is None:
            return None
        libraries.append(Library(content, symbols, imports))
    return Code.of(libraries, kernel_symbols(head["kernels"]))
