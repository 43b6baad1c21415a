"""Equalities of dims that a node needs and that could not be proved: its run-time guards.

Role: a node whose meaning needs ``a == b`` carries the attribute ``guards``, a tuple of pairs of
dims. Whoever runs a graph evaluates all pairs before anything else and raises ShapeError with the
node's line for a pair that differs. Invariant: the attribute is there only where something is left
to check, and pairs that are proved or refuted never get into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.dims import Dim, dim_max, dim_min, equal, product, select

Guards: TypeAlias = tuple[tuple[Dim, Dim], ...]

_LARGEST_SIZE = 2**63 - 1


def unproved(pairs: Iterable[tuple[Dim, Dim]], message: str) -> Guards:
    """The pairs that are left to check at run time, each once.

    Raises:
        ShapeError: with the message, if a pair is proved to differ.
    """
    left: dict[tuple[Dim, Dim], None] = {}
    for one, other in pairs:
        same = equal(one, other)
        if same is False:
            raise ShapeError(message, where=caller())
        if same is None:
            left[one, other] = None
    return tuple(left)


def guarded(guards: Guards) -> dict[str, Any]:
    """The attributes that carry the guards: none where there is nothing to check."""
    return {"guards": guards} if guards else {}


def broadcast_guard(dim: Dim, target: Dim) -> tuple[Dim, Dim]:
    """The pair that is equal just when ``dim`` is 1 or the target."""
    return select("eq", dim, 1, target, dim), target


def index_guard(index: Dim, bound: Dim) -> tuple[Dim, Dim]:
    """The pair that is equal just when the index, an int below 0 from the end, is in the axis."""
    if isinstance(index, int) and index < 0:
        return dim_max(bound + index, 0), bound + index
    return dim_min(bound - 1, index), index


def show(shape: Sequence[Dim]) -> str:
    """A shape as errors print it."""
    return f"[{', '.join(map(str, shape))}]"


def check_size(shape: Sequence[Dim], inputs: Sequence[Sequence[Dim]]) -> None:
    """Refuses a tensor with more elements than an int64 counts.

    Raises:
        ShapeError: naming the shape and the shapes it is made from.
    """
    size = product(shape)
    if isinstance(size, int) and size > _LARGEST_SIZE:
        made_from = " and ".join(map(show, inputs))
        raise ShapeError(
            f"a tensor of shape {show(shape)}, made from {made_from}, has {size} elements",
            hint="a tensor has at most 2**63 - 1 elements",
        )
