"""Equalities of dims that a node needs and that could not be proved: its run-time guards.

Role: a node whose meaning needs ``a == b`` carries the attribute ``guards``, a tuple of ``(a, b)``
or, to say more than that they differ, ``(a, b, kind, …)``:

* ``(a, b, "index", index, axis, size)``: an index into an axis of this size;
* ``(a, b, "empty", name)``: a reduction of an axis that may not be empty;
* ``(a, b, "broadcast", shape, target)``: a shape that must broadcast to another;
* ``(a, b, "axes", subscripts, letter)``: axes that an einsum gives one letter.

Whoever runs a graph evaluates all of them before anything else and raises an error with the node's
line for dims that differ. Invariant: the attribute is there only where something is left to check,
and what is proved or refuted never gets into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

from graphc.base.errors import ShapeError
from graphc.base.source import Location, caller
from graphc.ir.dims import Dim, equal, select
from graphc.plan.ir import Guard

Guards: TypeAlias = tuple[tuple[Any, ...], ...]

_LARGEST_SIZE = 2**63 - 1


def unproved(guards: Iterable[tuple[Any, ...]], message: str) -> Guards:
    """The guards that are left to check at run time, each once.

    Raises:
        ShapeError: with the message, if dims are proved to differ.
    """
    left: dict[tuple[Any, ...], None] = {}
    for guard in guards:
        same = equal(guard[0], guard[1])
        if same is False:
            raise ShapeError(message, where=caller())
        if same is None:
            left[guard] = None
    return tuple(left)


def guarded(guards: Guards) -> dict[str, Any]:
    """The attributes that carry the guards: none where there is nothing to check."""
    return {"guards": guards} if guards else {}


def broadcast_guard(dim: Dim, target: Dim) -> tuple[Dim, Dim]:
    """The pair that is equal just when ``dim`` is 1 or the target."""
    return select("eq", dim, 1, target, dim), target


def index_guard(
    within: Dim, place: Dim, index: Dim, axis: int, size: Dim
) -> tuple[Any, ...]:
    """Holds just when the place that an index means is what it is within the axis."""
    return within, place, "index", index, axis, size


def nonempty_guard(name: str, size: Dim) -> tuple[Any, ...]:
    """Holds just when the size is not 0."""
    return select("eq", size, 0, 1, 0), 0, "empty", name


def run_time_guard(op: str, guard: tuple[Any, ...], where: Location | None) -> Guard:
    """What a plan checks for a guard of a node of this op."""
    left, right, *told = guard
    match told:
        case ["index", index, int(axis), size]:
            text = f"index {{}} is out of range for axis {axis} of size {{}}"
            return Guard(left, right, text, where, shown=(index, size), index=True)
        case ["empty", str(name)]:
            return Guard(left, right, f"{name} of an empty axis has no value", where, shown=())
        case ["broadcast", shape, target]:
            text = f"{op}: shape {_holes(shape)} does not broadcast to {_holes(target)}"
            return Guard(left, right, text, where, shown=(*shape, *target))
        case ["axes", str(subscripts), str(letter)]:
            text = f"einsum {subscripts!r}: the axes {letter!r} are of {{}} and {{}} elements"
            return Guard(left, right, text, where, shown=(left, right))
    return Guard(left, right, f"{op}: dims {left} and {right} must be equal", where)


def operand_guard(
    op: str, shapes: Sequence[Sequence[Dim]], dim: Dim, full: Dim, where: Location | None
) -> Guard:
    """The check of a dim of an operand that must be 1 or that of the result."""
    text = f"{op}: shapes {' and '.join(map(_holes, shapes))} do not broadcast"
    shown = tuple(dim for shape in shapes for dim in shape)
    return Guard(dim, full, text, where, broadcasts=True, shown=shown)


def _holes(shape: Sequence[Dim]) -> str:
    return f"[{', '.join('{}' for _ in shape)}]"


def show(shape: Sequence[Dim]) -> str:
    """A shape as errors print it."""
    return f"[{', '.join(map(str, shape))}]"


def check_size(shape: Sequence[Dim], inputs: Sequence[Sequence[Dim]]) -> None:
    """Refuses a tensor with more elements than an int64 counts.

    Raises:
        ShapeError: naming the shape and the shapes it is made from.
    """
    size: Dim = prod(shape)
    if isinstance(size, int) and size > _LARGEST_SIZE:
        made_from = " and ".join(map(show, inputs))
        raise ShapeError(
            f"a tensor of shape {show(shape)}, made from {made_from}, has {size} elements",
            hint="a tensor has at most 2**63 - 1 elements",
        )
