"""Aliasing: which buffers of a kernel may be one memory, a result in the place of an operand.

Invariant: of every pair given here the kernel reads no element of the operand after it wrote that
place, in whatever order its iterations run and however they are cut into tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.dims.expressions import Dim
from graphc.kernel.ir import Buffer, Kernel, Size, Statement, Var, walk
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import blocks_in


@dataclass(frozen=True, slots=True)
class _Place:
    """An index: the same scalar, or the same row base and a position in the row."""

    base: Var | None
    extent: Size
    position: Var


def safe_pairs(kernel: Kernel, together: bool = False) -> list[tuple[int, int]]:
    """Pairs (input, output) of buffer positions whose memory may be the same.

    Any of them may be together, as long as no buffer is in two: with ``together`` only such are
    looked for, for each output the first input that is free.
    """
    number = {buffer: n for n, buffer in enumerate(kernel.buffers)}
    order = {id(statement): n for n, statement in enumerate(walk(kernel.body))}
    surroundings = _surroundings(kernel.body)
    sums = {s.results[0]: s.operands for s in walk(kernel.body) if s.primitive == "add"}
    extents = {block.index: block.extent for block in blocks_in(walk(kernel.body))}
    loads: dict[Buffer, list[Access]] = {}
    used: set[Buffer] = set()
    stores: dict[Buffer, list[Access]] = {}
    for statement in walk(kernel.body):
        access = statement.access
        if access is not None:
            kind = loads if access.reads else stores
            kind.setdefault(access.buffer, []).append(access)
        else:
            # blocks of a product read the whole of its operands
            used.update(statement.reads)

    def place(index: Var) -> _Place:
        if index in sums:
            base, position = sums[index]
            if position in extents:
                return _Place(base, extents[position], position)
        return _Place(None, extents.get(index, 0), index)

    def harmless(load: Access, store: Access) -> bool:
        """The load reads its place before the store writes it, in every iteration."""
        if order[id(load)] > order[id(store)]:
            return False
        (read_in, around_load), (stored_in, around_store) = (
            surroundings[id(statement)] for statement in (load, store)
        )
        if load.index is store.index:
            return read_in is stored_in
        a, b = place(load.index), place(store.index)
        if a.base is None or a.base is not b.base or a.extent != b.extent:
            return False
        # the whole row is read before any of it is written: neither is done for each of the other
        return b.position not in around_load and a.position not in around_store

    alike: dict[tuple[str, Dim], list[Buffer]] = {}
    for source, read in loads.items():
        if source.role == "in" and source not in used and all(r.condition is None for r in read):
            alike.setdefault((source.type.dtype.name, source.type.bytes), []).append(source)
    result: list[tuple[int, int]] = []
    for target, written in stores.items():
        if target.role != "out" or len(written) != 1:
            continue
        for source in alike.get((target.type.dtype.name, target.type.bytes), ()):
            if source in used:
                continue
            if all(harmless(load, written[0]) for load in loads[source]):
                result.append((number[source], number[target]))
                if together:
                    used.add(source)
                    break
    return result


def _surroundings(
    body: tuple[Statement, ...],
) -> dict[int, tuple[tuple[Statement, ...], tuple[Var, ...]]]:
    """By identity, the body in which each statement stands, and the indices of loops around it."""
    result: dict[int, tuple[tuple[Statement, ...], tuple[Var, ...]]] = {}
    stack: list[tuple[tuple[Statement, ...], tuple[Var, ...]]] = [(body, ())]
    while stack:
        block, indices = stack.pop()
        for statement in block:
            result[id(statement)] = block, indices
            inner = statement.block
            if inner is not None:
                stack.append((inner.body, (*indices, inner.index)))
    return result


__all__ = ["safe_pairs"]
