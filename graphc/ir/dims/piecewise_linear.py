"""Functions of one integer that are linear in pieces: what extremes and selections of sizes are.

Role: the normal form below ``graphc.ir.dims.algebra``.  A size that slices and concatenations have
made of another one bends at a few places and is linear in between, whatever its spelling.
Invariant: on the range it was made for, a function has one form, so equal ones compare equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphc.ir.dims.interval import INFINITY, Interval


@dataclass(frozen=True, slots=True)
class Pieces:
    """``constant + slope * x + sum(bend * max(x, place))``, places ascending."""

    constant: int
    slope: int
    bends: tuple[tuple[int, int], ...] = ()

    def __call__(self, x: int) -> int:
        return self.constant + self.slope * x + sum(bend * max(x, at) for at, bend in self.bends)

    def __sub__(self, other: Pieces) -> Pieces:
        bends = dict(self.bends)
        for place, bend in other.bends:
            bends[place] = bends.get(place, 0) - bend
        kept = tuple(sorted(item for item in bends.items() if item[1]))
        return Pieces(self.constant - other.constant, self.slope - other.slope, kept)


def sampled(value: Callable[[int], int], places: Iterable[int], within: Interval) -> Pieces:
    """The pieces of a function that is linear between neighbouring places and beyond the last."""
    low, high = within
    inner = sorted({place for place in places if low < place < high})
    first, last = _ends(inner, within)
    points = [first, *inner, last]
    values = [value(point) for point in points]
    slopes = [
        (b - a) // (q - p) if q > p else 0
        for (p, q), (a, b) in zip(pairwise(points), pairwise(values), strict=True)
    ]
    steps = zip(inner, pairwise(slopes), strict=True)
    bends = tuple((place, after - before) for place, (before, after) in steps if after != before)
    constant = values[0] - slopes[0] * first - sum(bend * place for place, bend in bends)
    return Pieces(constant, slopes[0], bends)


def _ends(inner: Sequence[int], within: Interval) -> tuple[int, int]:
    """The ends of the range, or points beyond all bends where it has none."""
    low, high = within
    if isinstance(low, int):
        first = low
    elif inner:
        first = inner[0] - 1
    else:
        first = high - 1 if isinstance(high, int) else 0
    if isinstance(high, int):
        return first, high
    return first, (inner[-1] if inner else first) + 1


def range_of(pieces: Pieces, within: Interval) -> Interval:
    """The least and the greatest value on a range."""
    low, high = within
    inner = [place for place, _ in pieces.bends if low < place < high]
    first, last = _ends(inner, within)
    values = [pieces(point) for point in (first, *inner, last)]
    lowest: float = min(values)
    highest: float = max(values)
    if not isinstance(low, int):
        before = pieces(first) - pieces(first - 1)
        lowest, highest = _towards(-before, lowest, highest)
    if not isinstance(high, int):
        after = pieces(last + 1) - pieces(last)
        lowest, highest = _towards(after, lowest, highest)
    return lowest, highest


def _towards(slope: int, lowest: float, highest: float) -> Interval:
    """The range of a function that goes on for ever with this slope."""
    return (-INFINITY if slope < 0 else lowest), (INFINITY if slope > 0 else highest)


def turns(pieces: Pieces) -> list[int]:
    """Places between which the function is linear and its sign, and whether it is 0, the same."""
    places: list[int] = []
    bends = [place for place, _ in pieces.bends]
    for place in bends:
        places += (place - 1, place, place + 1)
    # One point of each piece: the outer ones reach beyond the bends.
    points = [bends[0] - 1, *bends] if bends else [0]
    for point in points:
        value, slope = pieces(point), pieces(point + 1) - pieces(point)
        if slope:
            root = point - value // slope
            places += (root - 2, root - 1, root, root + 1, root + 2)
    return places


def positive_part(pieces: Pieces, within: Interval) -> Pieces:
    """``max(f(x), 0)``."""
    return sampled(lambda x: max(pieces(x), 0), turns(pieces), within)


def chosen(
    holds: Callable[[int], bool], gap: Pieces, change: Pieces, within: Interval
) -> Pieces:
    """``change(x)`` where ``holds(gap(x))``, which depends on the sign of the gap, else 0."""
    places = [*turns(gap), *(place for place, _ in change.bends)]
    return sampled(lambda x: change(x) if holds(gap(x)) else 0, places, within)
