"""What ops need of sizes that are known at run time only, and the errors of what is known now.

Role: a node whose meaning needs ``a == b`` is built with the attribute ``guards``, which holds what
``graphc.ir.guard`` makes of it. Invariant: what is proved or refuted while a graph is built never
gets into it, and what is refuted at run time is told with the same words, in numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

from graphc.base.errors import GraphcError, IndexRangeError, ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, equal, select
from graphc.ir.guard import ATTRIBUTE, Data, Guard, data_of, holes

Guards: TypeAlias = tuple[Data, ...]

_LARGEST_SIZE = 2**63 - 1


def unproved(
    pairs: Iterable[tuple[Dim, Dim]],
    message: str,
    *shown: Dim | Sequence[Dim],
    hint: str | None = None,
    index: bool = False,
) -> Guards:
    """What is left to check at run time of dims that must be equal, each condition once.

    Args:
        pairs: the dims.
        message: what is wrong where they differ; each ``{}`` stands for one of those shown.
        shown: dims and shapes.
        hint: how to mend it.
        index: it is indices that are wrong, not shapes.

    Raises:
        ShapeError: with the message, if dims are proved to differ; IndexRangeError for indices.
    """
    left: dict[tuple[Dim, Dim], Data] = {}
    for one, other in pairs:
        same = equal(one, other)
        if same is False:
            raise refusal(message, *shown, hint=hint, index=index)
        if same is None and (one, other) not in left:
            left[one, other] = _told(one, other, message, shown, index)
    return tuple(left.values())


def refusal(
    message: str, *shown: Dim | Sequence[Dim], hint: str | None = None, index: bool = False
) -> GraphcError:
    """The error of what is refuted while a graph is built; arguments as for ``unproved``."""
    text = message.format(*(show(s) if isinstance(s, Sequence) else s for s in shown))
    error = IndexRangeError if index else ShapeError
    return error(text, where=caller(), hint=hint)


def _told(
    left: Dim, right: Dim, message: str, shown: Sequence[Dim | Sequence[Dim]], index: bool = False
) -> Data:
    dims: list[Dim] = []
    texts: list[str] = []
    for item in shown:
        if isinstance(item, Sequence):
            dims += item
            texts.append(holes(item))
        else:
            dims.append(item)
            texts.append("{}")
    return data_of(Guard(left, right, message.format(*texts), None, False, tuple(dims), index))


def guarded(guards: Guards) -> dict[str, Any]:
    """The attributes that carry the guards: none where there is nothing to check."""
    return {ATTRIBUTE: guards} if guards else {}


def broadcast_pair(dim: Dim, target: Dim) -> tuple[Dim, Dim]:
    """The pair that is equal just when ``dim`` is 1 or the target."""
    return select("eq", dim, 1, target, dim), target


def broadcast_guards(
    shapes: Sequence[Sequence[Dim]],
    target: Sequence[Dim],
    message: str,
    *shown: Dim | Sequence[Dim],
    index: bool = False,
) -> Guards:
    """What is left to check of shapes that broadcast to a target; ``unproved`` says how it tells.

    Without ``shown`` the message names the shapes.
    """
    pairs = [
        broadcast_pair(dim, full)
        for shape in shapes
        for dim, full in zip(reversed(shape), reversed(target), strict=False)
    ]
    return unproved(pairs, message, *(shown or shapes), index=index)


def index_guard(within: Dim, place: Dim, index: Dim, axis: int, size: Dim) -> Data:
    """Holds just when the place that an index means is what it is within the axis."""
    text = f"index {{}} is out of range for axis {axis} of size {{}}"
    return _told(within, place, text, (index, size), index=True)


def some_guard(name: str, axis: int, size: Dim, count: Dim) -> Guards:
    """Holds just when an axis of this size has an element, or there is no index into it.

    The code that looks indices up relies on it: one that is out of range is reported, and the
    element at 0 is read in its place.

    Raises:
        IndexRangeError: if the axis is proved empty and there are indices.
    """
    pair = select("eq", size, 0, count, 0), 0
    message = f"{name}: {{}} indices into axis {axis} of size {{}}"
    return unproved([pair], message, count, size, index=True)


def nonempty_pair(size: Dim) -> tuple[Dim, Dim]:
    """The pair that is equal just when the size is not 0."""
    return select("eq", size, 0, 1, 0), 0


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
