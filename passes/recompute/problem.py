"""Steps, values and bytes: what recomputation is planned on, and what a plan comes to.

A plan is, for each value, the stages after which it is dropped; a stage is the first run of a step.
Whoever needs a value that is not there makes it again, with what that needs, just before. So every
plan gives a right sequence of steps, and a search only moves drops.

    steps a -> v, b(v) -> w, c(v, w)      v is dropped after stage b
    ->
    a, b, a again, c
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Drops = list[list[int]]
"""For each value the stages after which it is dropped, in order."""

_FOREVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Problem:
    """Steps in an order in which they can run; values lie in the arena.

    Attributes:
        reads, makes: the values of each step. Several steps may make parts of one value.
        size: the bytes of each value.
        scratch: the bytes that a step takes beside its values.
        cost: the work of each step.
        repeatable: whether it may run again.
        sources: the steps that a step needs to have run.
        waits: further steps that it comes after: readers of what it writes over.
        late: the values that nothing is to keep longer than their users need, each with those of
            its readers for which it isn't kept either, by the reason why.
        makers, users: the steps of each value.
        droppable: whether each value can be made again: whole, by one step.
        ends: the steps that write over something, and that no other needs.
        always: the stages after which values are dropped by any plan: after their last use by
            others than those late readers.
    """

    reads: Sequence[Sequence[int]]
    makes: Sequence[Sequence[int]]
    size: Sequence[int]
    scratch: Sequence[int]
    cost: Sequence[int]
    repeatable: Sequence[bool]
    sources: Sequence[Sequence[int]]
    waits: Sequence[Sequence[int]]
    late: Mapping[int, Sequence[Collection[int]]] = field(default_factory=dict)
    makers: list[list[int]] = field(init=False)
    users: list[list[int]] = field(init=False)
    droppable: list[bool] = field(init=False)
    ends: list[int] = field(init=False)
    always: dict[int, set[int]] = field(init=False)

    def __post_init__(self) -> None:
        makers: list[list[int]] = [[] for _ in self.size]
        users: list[list[int]] = [[] for _ in self.size]
        for step, (read, made) in enumerate(zip(self.reads, self.makes, strict=True)):
            for value in made:
                makers[value].append(step)
            for value in read:
                users[value].append(step)
        object.__setattr__(self, "makers", makers)
        object.__setattr__(self, "users", users)
        droppable = [len(of) == 1 and self.repeatable[of[0]] for of in makers]
        object.__setattr__(self, "droppable", droppable)
        needed = {source for sources in self.sources for source in sources}
        ends = [step for step, others in enumerate(self.waits) if others and step not in needed]
        object.__setattr__(self, "ends", ends)
        always: dict[int, set[int]] = {}
        for value, reasons in self.late.items():
            for readers in reasons:
                others = {*makers[value], *users[value]}.difference(readers)
                if max(readers, default=-1) > max(others):
                    always.setdefault(value, set()).add(max(others))
        object.__setattr__(self, "always", always)

    @property
    def count(self) -> int:
        """How many steps there are."""
        return len(self.reads)

    def reordered(self, order: Sequence[int]) -> Problem:
        """The same steps in another order."""
        place = {old: new for new, old in enumerate(order)}

        def moved(of: Sequence[int]) -> list[int]:
            return [of[step] for step in order]

        return Problem(
            [self.reads[step] for step in order],
            [self.makes[step] for step in order],
            self.size,
            moved(self.scratch),
            moved(self.cost),
            [self.repeatable[step] for step in order],
            [[place[other] for other in self.sources[step]] for step in order],
            [[place[other] for other in self.waits[step]] for step in order],
            {
                value: [[place[step] for step in readers] for readers in reasons]
                for value, reasons in self.late.items()
            },
        )

    def kept(self) -> Drops:
        """The plan in which nothing is dropped."""
        return [[] for _ in self.size]

    def first_plan(self) -> Drops:
        """The plan in which nothing is dropped before its last use but what always is.

        Where something always is, what that is made of is kept for it. Else what is made again, and
        needs a value behind its last use, makes that again too.
        """
        drops: Drops = []
        for value, (users, makers) in enumerate(zip(self.users, self.makers, strict=True)):
            ends = {max((*users, *makers), default=-1), *self.always.get(value, ())}
            is_kept = bool(self.late) and value not in self.late
            drops.append([] if is_kept or not self.droppable[value] else sorted(ends))
        return drops


class Gap(NamedTuple):
    """A value that is alive and idle between two positions of a sequence that touch it."""

    value: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The sequence that a plan comes to, and what is alive in it.

    Attributes:
        sequence: steps, with repetitions.
        stages: for each of them, the stage for whose sake it runs.
        profile: the bytes alive while it runs.
        gaps: of all values.
        again: the places of repetitions.
        cost: the work of those.
    """

    sequence: list[int]
    stages: list[int]
    profile: NDArray[np.int64]
    gaps: list[Gap]
    again: list[int]
    cost: int

    @property
    def peak(self) -> int:
        """The most bytes alive at once."""
        return int(self.profile.max(initial=0))

    def excess(self, limit: int) -> float:
        """Bytes above a limit, added up over the sequence."""
        return float(np.maximum(self.profile - limit, 0).sum())


def simulated(problem: Problem, drops: Drops) -> Run:
    """The sequence that these drops come to, and its exact liveness.

    Linear in the length of the sequence.
    """
    sequence, stages = _sequence(problem, drops)
    sequence, stages = _behind_readers(problem, sequence, stages)
    again = [place for place, step in enumerate(sequence) if step != stages[place]]
    profile, gaps = _alive(problem, sequence)
    cost = sum(problem.cost[sequence[place]] for place in again)
    return Run(sequence, stages, profile, gaps, again, cost)


def _sequence(problem: Problem, drops: Drops) -> tuple[list[int], list[int]]:
    reads, makes, makers = problem.reads, problem.makes, problem.makers
    until = [-1] * len(problem.size)  # the last stage in which a value is there
    sequence: list[int] = []
    stages: list[int] = []

    def run(step: int, stage: int) -> None:
        sequence.append(step)
        stages.append(stage)
        for value in makes[step]:
            points = drops[value]
            at = bisect_left(points, stage)
            until[value] = points[at] if at < len(points) else _FOREVER

    for stage, read in enumerate(reads):
        # a step is looked at a second time when what it reads has been seen to
        stack = [(makers[value][0], False) for value in read if until[value] < stage]
        while stack:
            step, ready = stack.pop()
            if all(until[made] >= stage for made in makes[step]):
                continue
            if ready:
                run(step, stage)
                continue
            stack.append((step, True))
            stack += [(makers[value][0], False) for value in reads[step] if until[value] < stage]
        run(stage, stage)
    return sequence, stages


def _behind_readers(
    problem: Problem, sequence: list[int], stages: list[int]
) -> tuple[list[int], list[int]]:
    """The sequence with steps that write over something behind all that read it."""
    last: dict[int, int] = {}
    for place, (step, stage) in enumerate(zip(sequence, stages, strict=True)):
        if step != stage:
            last[step] = place
    late: dict[int, list[int]] = {}  # by place the steps that move behind it
    moved: set[int] = set()
    if last:
        first = {step: place for place, step in enumerate(sequence) if step == stages[place]}
        for step in problem.ends:
            place = max(last.get(other, -1) for other in problem.waits[step])
            if place > first[step]:
                late.setdefault(place, []).append(step)
                moved.add(step)
    if not moved:
        return sequence, stages
    order: list[tuple[int, int]] = []
    for place, pair in enumerate(zip(sequence, stages, strict=True)):
        if pair[0] != pair[1] or pair[0] not in moved:
            order.append(pair)
        order += [(step, step) for step in late.get(place, ())]
    return [step for step, _ in order], [stage for _, stage in order]


def _alive(problem: Problem, sequence: Sequence[int]) -> tuple[NDArray[np.int64], list[Gap]]:
    """An instance of a value lives from when it is first written to its last touch before it is
    made again. One that nobody reads is not made."""
    size, makers, reads, makes = problem.size, problem.makers, problem.reads, problem.makes
    change = [0] * (len(sequence) + 1)
    first = [-1] * len(size)
    last = [-1] * len(size)
    gaps: list[Gap] = []
    # what nobody reads is left out of what can be made again, if others read it at times
    spared = [may and bool(problem.users[value]) for value, may in enumerate(problem.droppable)]
    for place, step in enumerate(sequence):
        for value in reads[step]:
            before = last[value]
            if place - before > 1:
                gaps.append(Gap(value, before, place))
            last[value] = place
        for value in makes[step]:
            begin, end = first[value], last[value]
            if begin >= 0:
                if makers[value][0] != step or end == place:
                    # a further part of it; or it is read and written by this step
                    last[value] = place
                    continue
                if begin != end or not spared[value]:
                    change[begin] += size[value]
                    change[end + 1] -= size[value]
            first[value] = last[value] = place
    for value, begin in enumerate(first):
        if begin >= 0 and (begin != last[value] or not spared[value]):
            change[begin] += size[value]
            change[last[value] + 1] -= size[value]
    scratch = problem.scratch
    beside = np.array([scratch[step] for step in sequence], np.int64)
    return np.cumsum(np.array(change[:-1], np.int64)) + beside, gaps
