"""Greedy changes of a plan: more drops where too much is alive, fewer where there is room.

What is dropped next is what relieves the places above the limit most for the work that making it
again takes; what is taken back first is the dearest.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from passes.memory.search import Effort
from passes.recompute.problem import Drops, Gap, Problem, Run, simulated

_MOST_STEPS = 400
"""A value for which more steps would have to run again is kept."""

_MOST_ROUNDS_WITHOUT_GAIN = 25
_MOST_REFUSALS = 6
"""So many repetitions in a row that can't be left out are tried."""


def fitted(
    problem: Problem, limit: int, run: Run, drops: Drops, effort: Effort, share: float
) -> tuple[Run, Drops]:
    """The plan with as many more drops as bring its peak to the limit, or as low as is found.

    Works in rounds. Each takes the best candidates until their own account says that a ``share`` of
    the excess is gone, and makes the sequence anew.
    """
    drops = [list(points) for points in drops]
    best, kept, vain = run, [list(points) for points in drops], 0
    while run.peak > limit and vain < _MOST_ROUNDS_WITHOUT_GAIN:
        if not effort.spend(4 * len(run.sequence)):
            break
        if not _take(run, limit, _Candidates(problem, run, limit).ranked(), drops, share):
            break
        run = simulated(problem, drops)
        vain += 1
        if (max(run.peak, limit), run.excess(limit), run.cost) < (
            max(best.peak, limit), best.excess(limit), best.cost
        ):  # fmt: skip
            best, kept, vain = run, [list(points) for points in drops], 0
    return best, kept


def _take(
    run: Run, limit: int, candidates: Sequence[_Candidate], drops: Drops, share: float
) -> bool:
    """Adds drops of the best candidates; whether there were any."""
    expected = run.profile.astype(np.float64)
    goal = run.excess(limit) * (1.0 - share)
    taken: set[int] = set()
    for candidate in candidates:
        if candidate.step in taken:
            continue
        if all((expected[gap.begin + 1 : gap.end] <= limit).all() for gap in candidate.gaps):
            continue
        for gap, size in zip(candidate.gaps, candidate.sizes, strict=True):
            stage = run.stages[gap.begin]
            if stage not in drops[gap.value]:
                insort(drops[gap.value], stage)
            expected[gap.begin + 1 : gap.end] -= size
        taken.add(candidate.step)
        if share < 1.0 and np.maximum(expected - limit, 0).sum() <= goal:
            break
    return bool(taken)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Idle results of one step that could be dropped until a place where one is read.

    Attributes:
        step: what makes them.
        gaps, sizes: where they are idle, and their bytes.
        gain: bytes that would be relieved, weighted by the excess there, for the work.
    """

    step: int
    gaps: list[Gap]
    sizes: list[int]
    gain: float


class _Candidates:
    """What could be dropped from a run to relieve the places above a limit."""

    def __init__(self, problem: Problem, run: Run, limit: int) -> None:
        self._problem = problem
        self._run = run
        over = np.maximum(run.profile - limit, 0).astype(np.float64)
        self._area: NDArray[np.float64] = np.concatenate(([0.0], np.cumsum(over / over.max())))
        self._gaps: dict[int, list[Gap]] = {}
        for gap in run.gaps:
            self._gaps.setdefault(gap.value, []).append(gap)
        self._ends = {value: [gap.end for gap in gaps] for value, gaps in self._gaps.items()}
        self._remade: dict[int, list[int]] = {}
        for place in run.again:
            for value in problem.makes[run.sequence[place]]:
                self._remade.setdefault(value, []).append(place)
        self._prices: dict[tuple[int, int], tuple[float, float] | None] = {}

    def ranked(self) -> list[_Candidate]:
        """The candidates that gain something, best first."""
        problem, stages = self._problem, self._run.stages
        found: dict[tuple[int, int], list[Gap]] = {}
        for gap in self._run.gaps:
            relieved = self._weight(gap.begin + 1, gap.end) > 0.0
            if relieved and stages[gap.begin] != stages[gap.end] and problem.droppable[gap.value]:
                found.setdefault((problem.makers[gap.value][0], gap.end), []).append(gap)
        candidates = []
        for (step, end), gaps in found.items():
            price = self._price(step, end)
            if price is None:
                continue
            work, burden = price
            gain = self._relief(step, end) - burden
            if gain > 0.0:
                sizes = [problem.size[gap.value] for gap in gaps]
                candidates.append(_Candidate(step, gaps, sizes, gain / max(work, 1.0)))
        candidates.sort(key=lambda each: (-each.gain, each.step, each.gaps[0].end))
        return candidates

    def _weight(self, begin: int, end: int) -> float:
        """The excess over places, as a share of the largest excess of one."""
        return float(self._area[end] - self._area[begin]) if end > begin else 0.0

    def _relief(self, step: int, end: int) -> float:
        """What is not alive if the results of a step are dropped and made again at a place: those
        read there, and those read later."""
        total = 0.0
        for value in self._problem.makes[step]:
            gap = self._gap_at(value, end)
            if gap is not None:
                total += self._problem.size[value] * self._weight(gap.begin + 1, end)
        return total

    def _price(self, step: int, end: int) -> tuple[float, float] | None:
        """The work of running a step again at a place, with what it needs that isn't there, and the
        bytes that are alive longer for it; None if that can't be."""
        key = step, self._run.stages[end]
        if key not in self._prices:
            self._prices[key] = self._counted(step, end)
        return self._prices[key]

    def _counted(self, step: int, end: int) -> tuple[float, float] | None:
        problem = self._problem
        work, burden = float(problem.cost[step]), 0.0
        places = [self._next_remade(value, end + 1) for value in problem.makes[step]]
        if any(places):
            # it runs earlier than now, and what it makes is kept until then
            work = 0.0
            for value, place in zip(problem.makes[step], places, strict=True):
                burden += problem.size[value] * self._weight(end, place or end)
        seen = {step}
        stack = [*problem.reads[step]]
        while stack:
            value = stack.pop()
            maker = problem.makers[value][0]
            if maker in seen or self._gap_at(value, end) is not None:
                continue
            later = self._next_remade(value, end)
            if later is not None:
                seen.add(maker)
                if self._run.stages[later] != self._run.stages[end]:
                    # it is made again earlier than now, and kept until then
                    burden += problem.size[value] * self._weight(end, later)
                continue
            if not problem.droppable[value]:
                burden += problem.size[value] * self._weight(self._last_touch(value, end), end)
                continue
            seen.add(maker)
            if len(seen) > _MOST_STEPS:
                return None
            work += problem.cost[maker]
            stack += problem.reads[maker]
        return work, burden

    def _gap_at(self, value: int, place: int) -> Gap | None:
        """Where a value is idle before a place, or up to it."""
        ends = self._ends.get(value)
        if ends is None:
            return None
        at = bisect_left(ends, place)
        gap = self._gaps[value][at] if at < len(ends) else None
        return gap if gap is not None and gap.begin < place else None

    def _next_remade(self, value: int, place: int) -> int | None:
        places = self._remade.get(value, ())
        at = bisect_left(places, place)
        return places[at] if at < len(places) else None

    def _last_touch(self, value: int, place: int) -> int:
        """Where a value that is kept was read last before a place."""
        ends = [gap.end for gap in self._gaps.get(value, ()) if gap.end <= place]
        return max(ends, default=place)


def given_back(
    problem: Problem, limit: int, run: Run, drops: Drops, effort: Effort
) -> tuple[Run, Drops]:
    """The plan with drops taken back where there is room for them, dearest first.

    As many as their own account has room for are taken back at once, half as many if that was too
    much.
    """
    drops = [list(points) for points in drops]
    refused: set[tuple[int, int]] = set()
    most, vain = problem.count, 0
    while vain < _MOST_REFUSALS and effort.spend(len(run.sequence)):
        chosen = _together(problem, limit, run, refused, most)
        if not chosen:
            break
        before = {gap.value: drops[gap.value] for _, _, kept in chosen for gap in kept}
        for _, _, kept in chosen:
            for gap in kept:
                begin, end = run.stages[gap.begin], run.stages[gap.end]
                always = problem.always.get(gap.value, ())
                drops[gap.value] = [
                    at for at in drops[gap.value] if at in always or not begin <= at < end
                ]
        trial = simulated(problem, drops)
        if trial.peak <= limit and trial.cost < run.cost:
            run, most, vain = trial, problem.count, 0
            continue
        drops = [before.get(value, points) for value, points in enumerate(drops)]
        if len(chosen) == 1:
            ((step, place, _),) = chosen
            refused.add((step, run.stages[place]))
            vain += 1
        most = max(1, len(chosen) // 2)
    return run, drops


_Kept = tuple[int, int, list[Gap]]
"""A repetition that may be left out: the step, its place, and where its results would be kept."""


def _together(
    problem: Problem, limit: int, run: Run, refused: set[tuple[int, int]], most: int
) -> list[_Kept]:
    """Repetitions that may be left out at once, as far as can be told from the profile."""
    expected = run.profile.copy()
    chosen: list[_Kept] = []
    for step, place, kept in _room(problem, limit, run):
        if len(chosen) == most:
            break
        sizes = [problem.size[gap.value] for gap in kept]
        begin = min(gap.begin for gap in kept) + 1
        least = min(sizes) if not chosen else sum(sizes)
        fits = int(expected[begin:place].max(initial=0)) + least <= limit
        if fits and (step, run.stages[place]) not in refused:
            for gap, size in zip(kept, sizes, strict=True):
                expected[gap.begin + 1 : place] += size
            chosen.append((step, place, kept))
    return chosen


def _room(problem: Problem, limit: int, run: Run) -> list[_Kept]:
    """Repetitions that may be left out, dearest first."""
    again = set(run.again)
    touched: dict[int, int] = {}
    options: list[_Kept] = []
    for place, step in enumerate(run.sequence):
        if place in again:
            kept = [Gap(v, touched[v], place) for v in problem.makes[step] if v in touched]
            begin = min((gap.begin for gap in kept), default=place)
            between = run.profile[begin + 1 : place]
            least = min((problem.size[gap.value] for gap in kept), default=0)
            if len(between) and int(between.max()) + least <= limit:
                options.append((step, place, kept))
        for value in (*problem.makes[step], *problem.reads[step]):
            touched[value] = place
    options.sort(key=lambda option: (-problem.cost[option[0]], option[1]))
    return options
