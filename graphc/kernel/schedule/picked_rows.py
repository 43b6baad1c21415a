"""Gathered rows: rows that the iterations of a loop pick by number, as in an embedding.

The address of such a row is known only when its number has been read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.kernel.ir import Block, Statement, Var
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import blocks_in, loads_in


def _leads(statement: Statement) -> bool:
    """Whether it may lead to a place: index arithmetic, a number that is read, or its check."""
    return statement.is_arithmetic or statement.may_fail or bool(statement.reads)


@dataclass(frozen=True, slots=True)
class Picked:
    """A load of rows whose number the loop around reads.

    Attributes:
        load: the load.
        inner: the loop or reduction over the row.
        needed: the statements that compute the place of the row's first element, in order.
    """

    load: Access
    inner: Block
    needed: Sequence[Statement]


def picked_from(loop: Block) -> list[Picked]:
    """The loads of inputs whose rows the iterations of a loop pick."""
    if loop.kind != "parallel":
        return []
    found = []
    outer = _made(loop.body)
    for inner in blocks_in(loop.body):
        made = outer | _made(inner.body)
        for load in loads_in(inner.body):
            if load.buffer.role == "in":
                needed = _needed(load.index, made)
                if _is_picked(needed, made):
                    found.append(Picked(load, inner, needed))
    return found


def _made(body: Sequence[Statement]) -> dict[Var, Statement]:
    """The statements that may compute a place, by their results."""
    return {s.results[0]: s for s in body if s.is_scalar and _leads(s)}


def _needed(wanted: Var, made: Mapping[Var, Statement]) -> list[Statement]:
    """The statements of ``made`` that a scalar depends on, in order."""
    marked, stack = {wanted}, [wanted]
    while stack:
        statement = made.get(stack.pop())
        if statement is not None:
            new = [var for var in statement.operands if var not in marked]
            marked.update(new)
            stack += new
    return [statement for var, statement in made.items() if var in marked]


def _is_picked(needed: Sequence[Statement], made: Mapping[Var, Statement]) -> bool:
    """Whether a place follows from a checked number that is read at a place known by itself."""
    loads = loads_in(needed)
    checks = [s for s in needed if s.may_fail]
    if not loads or not checks or any(load.condition is not None for load in loads):
        return False
    before = [s for load in loads for s in _needed(load.index, made)]
    return all(s.is_arithmetic for s in before)


__all__ = ["Picked", "picked_from"]
