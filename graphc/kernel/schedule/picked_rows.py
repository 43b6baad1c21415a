"""Gathered rows: rows that the iterations of a loop pick by number, as in an embedding.

The address of such a row is known only when its number has been read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.kernel.ir import (
    Apply,
    Check,
    Const,
    DimValue,
    Load,
    Loop,
    Reduce,
    Statement,
    Var,
    operands_of,
)

_SCALARS = (Apply, Check, Const, DimValue, Load)


@dataclass(frozen=True, slots=True)
class Picked:
    """A load of rows whose number the loop around reads.

    Attributes:
        load: the load.
        inner: the loop or reduction over the row.
        needed: what leads to the place of the row's first element, in order.
    """

    load: Load
    inner: Loop | Reduce
    needed: Sequence[Statement]


def picked_from(loop: Loop) -> list[Picked]:
    """The loads of inputs whose rows the iterations of a loop pick."""
    if loop.kind != "parallel":
        return []
    found = []
    outer = {s.result: s for s in loop.body if isinstance(s, _SCALARS)}
    for inner in loop.body:
        if not isinstance(inner, (Loop, Reduce)):
            continue
        made = outer | {s.result: s for s in inner.body if isinstance(s, _SCALARS)}
        for load in inner.body:
            if isinstance(load, Load) and load.buffer.role == "in":
                needed = _needed(load.index, made)
                if _is_picked(needed, made):
                    found.append(Picked(load, inner, needed))
    return found


def _needed(wanted: Var, made: Mapping[Var, Statement]) -> list[Statement]:
    """What a scalar follows from, in order; what is not made here counts as known."""
    marked, stack = {wanted}, [wanted]
    while stack:
        statement = made.get(stack.pop())
        if statement is not None:
            new = [var for var in operands_of(statement) if var not in marked]
            marked.update(new)
            stack += new
    return [statement for var, statement in made.items() if var in marked]


def _is_picked(needed: Sequence[Statement], made: Mapping[Var, Statement]) -> bool:
    """Whether a place follows from a checked number that is read at a place known by itself."""
    loads = [s for s in needed if isinstance(s, Load)]
    checks = [s for s in needed if isinstance(s, Check)]
    if not loads or not checks or any(load.condition is not None for load in loads):
        return False
    before = [s for load in loads for s in _needed(load.index, made)]
    return not any(isinstance(s, (Check, Load)) for s in before)


__all__ = ["Picked", "picked_from"]
