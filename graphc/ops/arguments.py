"""Arguments of operations that are no tensors: numbers, switches and sequences that must be known.

Invariant: what is none of its kind is an error at the user's line that names the argument; nothing
is rounded or taken for true because Python could.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dims.expressions import DimExpr


def is_whole(item: Any) -> bool:
    """Whether it is an int of Python or NumPy; a bool is none."""
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def one_or_more(given: Any, what: str) -> tuple[Any, ...]:
    """The items of a sequence, or the one int, dim or text that is given instead.

    Raises:
        ShapeError: for what is neither.
    """
    if isinstance(given, (int, np.integer, DimExpr, str)):
        return (given,)
    return items_of(given, what)


def items_of(given: Any, what: str) -> tuple[Any, ...]:
    """The items of a sequence.

    Raises:
        ShapeError: for what is none.
    """
    if isinstance(given, Iterable) and not isinstance(given, (str, Mapping, Set)):
        return tuple(given)
    raise ShapeError(
        f"{what} is {shown(given)}, not a sequence", where=caller(), hint="give a list or a tuple"
    )


def whole(given: Any, what: str) -> int:
    """An int that shapes or dtypes depend on, so that it must be known.

    Raises:
        DTypeError: for anything else.
    """
    if is_whole(given):
        return int(given)
    raise DTypeError(f"{what} is {shown(given)}", where=caller(), hint="it must be an int")


_BESIDE_ALL = 1 << 62


def beside_all(place: int) -> int:
    """The place, or one that is as far beside every tensor and can be added to sizes in 64 bits."""
    return max(-_BESIDE_ALL, min(place, _BESIDE_ALL))


MOST_TIMES = 1000
"""How often something may be done over and over, where each time is an operation of the graph."""


def repetitions(given: Any, what: str) -> int:
    """How often something is built, each time as operations.

    Raises:
        DTypeError: for what is no int.
        ShapeError: for a negative number, and one above 1,000.
    """
    count = whole(given, what)
    if 0 <= count <= MOST_TIMES:
        return count
    raise ShapeError(
        f"{what} is {shown(count)}",
        where=caller(),
        hint=f"it is at least 0 and at most {MOST_TIMES:,}: each time is operations of the graph",
    )


def number(
    given: Any,
    what: str,
    hint: str = "it must be a number; what is computed in the graph can't stand here",
) -> float:
    """A number that is part of an operation, so that it must be known.

    Raises:
        DTypeError: for what is no number, or too large for a float.
    """
    if isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, bool):
        with suppress(OverflowError):
            return float(given)
    raise DTypeError(f"{what} is {shown(given)}", where=caller(), hint=hint)


def switch(given: Any, what: str) -> bool:
    """A choice that is part of an operation; 0 and 1 are taken for False and True.

    Raises:
        DTypeError: for anything else.
    """
    if isinstance(given, (int, np.bool_, np.integer)) and given in (0, 1):
        return bool(given)
    raise DTypeError(f"{what} is {shown(given)}", where=caller(), hint="it must be True or False")


__all__ = ["beside_all", "is_whole", "items_of", "number", "one_or_more", "switch", "whole"]
