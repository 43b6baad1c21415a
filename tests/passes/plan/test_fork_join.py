"""Schedules of tasks for several threads: each unit after what it depends on, in linear time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from effort import assert_linear
from hypothesis import given
from hypothesis import strategies as st

from graphc.kernel.analysis.task_size import saved_beside
from passes.plan.fork_join import Work, fork_join


def work(costs: Sequence[int], before: Sequence[Sequence[int]]) -> Work:
    after: list[list[int]] = [[] for _ in costs]
    for later, earlier in enumerate(before):
        for one in earlier:
            after[one].append(later)
    return Work(costs, costs, [False] * len(costs), [9] * len(costs), before, after)


@st.composite
def works(draw: st.DrawFn) -> Work:
    count = draw(st.integers(1, 30))
    before = [
        sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))) if n else [] for n in range(count)
    ]
    costs = [draw(st.integers(0, 60)) * 1_000_000 for _ in range(count)]
    shared = [draw(st.integers(0, 5)) == 0 for _ in costs]
    return replace(
        work(costs, before), shared=shared, sizes=[draw(st.integers(0, 9)) for _ in costs]
    )


@given(works(), st.integers(2, 5), st.integers(0, 100))
def test_schedules_respect_what_depends_on_what(given_work: Work, threads: int, room: int) -> None:
    groups = fork_join(given_work, threads, room)
    assert groups == fork_join(given_work, threads, room)
    done: set[int] = set()
    for tasks in groups:
        for task in tasks:
            here = set(done)
            for unit in task:
                assert set(given_work.before[unit]) <= here
                here.add(unit)
        assert len(tasks) == 1 or not any(given_work.shared[u] for task in tasks for u in task)
        if len(tasks) > 1:
            assert len({unit for task in tasks for unit in task}) == sum(map(len, tasks))
        done |= {unit for task in tasks for unit in task}
    everything = [unit for tasks in groups for task in tasks for unit in task]
    assert sorted(everything) == [*range(len(given_work.costs))]


def test_schedules_of_wide_and_deep_graphs_take_linear_time() -> None:
    def wide(count: int) -> Work:
        costs = [2_000_000] * count + [1_000_000]
        before = [[] for _ in range(count)] + [[*range(count)]]
        return work(costs, before)

    def deep(count: int) -> Work:
        """Two chains with a step between them now and then."""
        before: list[list[int]] = [[], []]
        for unit in range(2, count):
            before.append([unit - 2] if unit % 7 else [unit - 2, unit - 1])
        return work([3_000_000] * count, before)

    def tiny(count: int) -> Work:
        return work([0] * count, [[]] * count)

    def scheduling(make: Callable[[int], Work], count: int) -> Callable[[], object]:
        return partial(fork_join, make(count), 2, 500)

    for make in (wide, deep, tiny):
        groups = fork_join(make(20_000), 2, 500)
        assert sum(len(task) for tasks in groups for task in tasks) >= 20_000
        assert_linear(partial(scheduling, make), 250)


def test_longest_tasks_stand_at_the_ends() -> None:
    costs = [n * 2_000_000 for n in (3, 9, 5, 8, 4)]
    (tasks,) = fork_join(work(costs, [[]] * 5), 2, 100)
    assert tasks == [[1], [2], [0], [4], [3]]


def test_what_saving_is_estimated() -> None:
    assert saved_beside([10_000_000, 10_000_000], 2) == 6_000_000
    assert saved_beside([10_000_000, 1_000_000], 2) < 0
    assert saved_beside([4_000_000] * 4, 2) == 4_000_000
