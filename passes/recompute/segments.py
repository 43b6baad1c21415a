"""Plans for chains: what lies between cuts is made again from what passes through them.

Up to the moment of the natural peak the steps are cut where few bytes pass (T. Chen et al.,
"Training deep nets with sublinear memory cost", 2016, for equal layers). Values that are alive at
that moment are kept where they pass through a cut, and else made again behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from passes.recompute.problem import Drops, Problem, Run

_MOST_SEGMENTS = 128
_TAPERS = (0.0, 0.5)
"""By how much the first part is more than an equal one, and the last less."""


def segmented(problem: Problem, natural: Run) -> Iterator[Drops]:
    """Plans with more and more segments; of a natural run that is in the given order."""
    peak = int(natural.profile.argmax())
    first = problem.first_plan()
    last = [
        max((step for step in (*makers, *users) if step <= peak), default=-1)
        for makers, users in zip(problem.makers, problem.users, strict=True)
    ]
    born = [makers[0] if makers else problem.count for makers in problem.makers]
    crossing = [
        value
        for value, users in enumerate(problem.users)
        if problem.droppable[value] and born[value] <= peak and max(users, default=-1) > peak
    ]
    width, filled = _widths(problem, peak, born, last, crossing)
    local = [
        place
        for place in range(1, peak)
        if width[place - 1] >= width[place] <= width[place + 1]
    ]
    for cuts in _cuts(np.asarray(local, np.int64), filled):
        drops = [list(points) for points in first]
        for value in range(len(problem.size)):
            if born[value] < peak and problem.droppable[value]:
                behind = int(np.searchsorted(cuts, born[value]))
                if behind < len(cuts) and cuts[behind] < last[value]:
                    drops[value] = sorted(problem.always.get(value, ()))
        for value in crossing:
            if drops[value] == first[value] and last[value] not in drops[value]:
                drops[value] = sorted([*drops[value], last[value]])
        yield drops


def _cuts(places: NDArray[np.int64], filled: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Places that part what is alive at the peak into parts that are equal, or less and less: when
    a part is made again, what passes into the parts behind it is no longer kept."""
    count = 2
    while count <= min(len(places) + 1, _MOST_SEGMENTS):
        part = np.arange(1, count) / count
        for taper in _TAPERS:
            goals = filled[-1] * part * (1.0 + taper * (1.0 - part))
            at = np.searchsorted(filled[places], goals).clip(max=len(places) - 1)
            yield np.unique(places[at])
        count += max(1, count // 2)


def _widths(
    problem: Problem, peak: int, born: list[int], last: list[int], crossing: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bytes that pass from each step to the next for the sake of steps up to the peak, and the
    bytes made so far that are alive at it."""
    width = np.zeros(peak + 2, np.int64)
    filled = np.zeros(peak + 2, np.int64)
    for value, size in enumerate(problem.size):
        if born[value] < last[value]:
            width[born[value]] += size
            width[last[value]] -= size
    for value in crossing:
        filled[born[value]] += problem.size[value]
    return np.cumsum(width), np.cumsum(filled)
