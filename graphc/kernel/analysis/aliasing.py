"""Aliasing: which buffers of a kernel may be one memory, a result in the place of an operand.

Invariant: of every pair given here the kernel reads no element of the operand after it wrote that
place, in whatever order its iterations run and however they are cut into tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.dims.expressions import Dim
from graphc.kernel.ir import (
    Apply,
    Buffer,
    Contract,
    Kernel,
    Load,
    Loop,
    Reduce,
    Size,
    Statement,
    Store,
    Var,
    walk,
)


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
    definitions = {s.result: s for s in walk(kernel.body) if isinstance(s, Apply)}
    extents = {s.index: s.extent for s in walk(kernel.body) if isinstance(s, (Loop, Reduce))}
    loads: dict[Buffer, list[Load]] = {}
    used: set[Buffer] = set()
    stores: dict[Buffer, list[Store]] = {}
    for statement in walk(kernel.body):
        if isinstance(statement, Load):
            loads.setdefault(statement.buffer, []).append(statement)
        elif isinstance(statement, Contract):
            # blocks of a product read the whole of its operands
            used |= {statement.a.buffer, statement.b.buffer}
        elif isinstance(statement, Store):
            stores.setdefault(statement.buffer, []).append(statement)

    def place(index: Var) -> _Place:
        definition = definitions.get(index)
        if definition is not None and definition.primitive == "add":
            base, position = definition.operands
            if position in extents:
                return _Place(base, extents[position], position)
        return _Place(None, extents.get(index, 0), index)

    def harmless(load: Load, store: Store) -> bool:
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
            if isinstance(statement, (Loop, Reduce)):
                stack.append((statement.body, (*indices, statement.index)))
    return result


__all__ = ["safe_pairs"]
