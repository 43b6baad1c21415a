"""The search for the plan of least work under a limit."""

from __future__ import annotations

import random

from passes.memory.search import Effort
from passes.recompute.mend import fitted, given_back
from passes.recompute.problem import Drops, Problem, Run, simulated
from passes.recompute.segments import segmented

_EFFORT_PER_STEP = 300
"""How often each step may be looked at; about a second for a thousand steps."""

_POLISH_PER_STEP = 60
"""How often after that, to better what was found."""

_LEAST_POLISH = 20_000
"""Steps looked at, at least, so that small plans are bettered too."""

_STARTS = 2
"""So many plans for chains are brought to the limit."""

_TRIES = 60
"""So many changes are tried at most."""


def planned(problem: Problem, limit: int | None) -> tuple[Run, Drops]:
    """The run of least work that is found to fit, or else of least peak, and the drops that give
    it. The search has a fixed effort for each step, so it is linear."""
    drops = problem.first_plan()
    run = simulated(problem, drops)
    if limit is None or run.peak <= limit:
        return run, drops
    starts = [(run, drops), *_segments(problem, limit, run)]
    found = []
    for run, drops in starts:
        effort = Effort(_EFFORT_PER_STEP * problem.count)
        found.append(_fitted(problem, limit, run, drops, effort, 0.2))
    run, drops = min(found, key=lambda each: _rank(each[0], limit))
    if run.peak <= limit:
        run, drops = _polished(problem, limit, run, drops)
    return run, drops


def _rank(run: Run, limit: int) -> tuple[int, int]:
    """Less is better: work of what fits, or else the peak."""
    return (0, run.cost) if run.peak <= limit else (1, run.peak)


def _segments(problem: Problem, limit: int, natural: Run) -> list[tuple[Run, Drops]]:
    """The segments that come nearest to the limit from either side."""
    found = [(simulated(problem, drops), drops) for drops in segmented(problem, natural)]
    fitting = [each for each in found if each[0].peak <= limit]
    others = [each for each in found if each[0].peak > limit]
    fitting.sort(key=lambda each: each[0].cost)
    others.sort(key=lambda each: each[0].peak)
    return [*fitting[:1], *others[: _STARTS - len(fitting[:1])]]


def _fitted(
    problem: Problem, limit: int, run: Run, drops: Drops, effort: Effort, share: float
) -> tuple[Run, Drops]:
    """A plan brought to the limit, and given back what there is room for."""
    run, drops = fitted(problem, limit, run, drops, effort, share)
    return given_back(problem, limit, run, drops, effort) if run.peak <= limit else (run, drops)


def _polished(problem: Problem, limit: int, run: Run, drops: Drops) -> tuple[Run, Drops]:
    """A plan that is no worse: what was decided about some neighbours is forgotten, and decided
    anew."""
    source = random.Random(0)
    effort = Effort(max(_LEAST_POLISH, _POLISH_PER_STEP * problem.count))
    first = problem.first_plan()
    for _ in range(_TRIES):
        if not run.again or not effort.remaining:
            break
        trial = [list(points) for points in drops]
        center = run.sequence[source.choice(run.again)]
        if source.random() < 0.7:
            # what is made around a repetition
            width = source.choice((1, 2, 4, 8, 16, max(2, problem.count // 20)))
            begin = center - source.randrange(width + 1)
            forgotten = range(max(0, begin), min(problem.count, begin + width + 1))
            for step in forgotten:
                for value in problem.makes[step]:
                    trial[value] = list(first[value])
        else:
            # it is kept, for what is made again of it
            for value in problem.makes[center]:
                trial[value] = sorted(problem.always.get(value, ()))
        share = source.choice((0.1, 0.3, 1.0))
        found, trial = _fitted(problem, limit, simulated(problem, trial), trial, effort, share)
        if found.peak <= limit and found.cost <= run.cost:
            run, drops = found, trial
    return run, drops
