"""The order of steps that recomputation starts from.

What leads nowhere comes as early as it can: updates of variables, mostly, since behind the whole
backward part all gradients would live until then. What only reads values that are made again for it
comes as late as it can.
"""

from __future__ import annotations

import heapq
from bisect import insort

from passes.recompute.problem import Problem

_STEPS_TO_THE_END = 3
"""What is so near to the end of all that depends on it leads nowhere."""


def order_of(problem: Problem) -> list[int]:
    """The steps in that order."""
    order = _ends_early(problem)
    return _floating(problem, order) if problem.late else order


def _floating(problem: Problem, order: list[int]) -> list[int]:
    """The order with steps before their first readers that keep nothing alive by waiting."""
    late = {(v, step) for v, reasons in problem.late.items() for r in reasons for step in r}
    users: list[list[int]] = [[] for _ in order]
    for step, sources in enumerate(problem.sources):
        for source in sources:
            users[source].append(step)
    floats: set[int] = set()
    for step in order:
        reads = problem.reads[step]
        is_late = problem.repeatable[step] and any((value, step) in late for value in reads)
        if is_late or (reads and all(problem.makers[value][0] in floats for value in reads)):
            floats.add(step)
    place = {step: number for number, step in enumerate(order)}
    ahead: dict[int, list[int]] = {}  # by a place the steps that wait for it, the last first
    for step in reversed(order):
        if step not in floats or not users[step]:
            continue
        until = min(place[user] for user in users[step])
        if all(
            (value, step) in late
            or problem.makers[value][0] in floats
            or max((place[u] for u in problem.users[value] if u != step), default=-1) >= until
            for value in problem.reads[step]
        ):
            place[step] = until
            ahead.setdefault(until, []).append(step)
    waiting = {step for steps in ahead.values() for step in steps}
    result: list[int] = []
    for number, step in enumerate(order):
        if step not in waiting:
            result += [*reversed(ahead.get(number, ())), step]
    return result


def _ends_early(problem: Problem) -> list[int]:
    """The given order, but for steps that add nothing and lead nowhere, which go once they can."""
    count = problem.count
    left = list(map(len, problem.users))
    waiting = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    for step in range(count):
        sources = {*problem.sources[step], *problem.waits[step]}
        waiting[step] = len(sources)
        for source in sources:
            after[source].append(step)
    height = [0] * count
    left_after = [len(others) for others in after]
    open_ends = [step for step in range(count) if not left_after[step]]
    while open_ends:
        step = open_ends.pop()
        for source in {*problem.sources[step], *problem.waits[step]}:
            height[source] = max(height[source], height[step] + 1)
            left_after[source] -= 1
            if not left_after[source]:
                open_ends.append(source)

    def growth(step: int) -> int:
        made = sum(
            problem.size[value]
            for value in problem.makes[step]
            if problem.makers[value][0] == step and problem.users[value]
        )
        return made - sum(problem.size[value] for value in problem.reads[step] if left[value] == 1)

    ready: list[int] = []
    ends: list[int] = []

    def release(step: int) -> None:
        heapq.heappush(ready, step)
        if height[step] <= _STEPS_TO_THE_END:
            insort(ends, step, key=lambda each: (height[each], each))

    for step in range(count):
        if not waiting[step]:
            release(step)
    order: list[int] = []
    done = [False] * count
    while len(order) < count:
        step = next((step for step in ends if growth(step) <= 0), -1)
        while step < 0 or done[step]:
            # where readers of old values wait for new ones, the first that is left goes on
            step = heapq.heappop(ready) if ready else done.index(False)
        if step in ends:
            ends.remove(step)
        done[step] = True
        order.append(step)
        for value in problem.reads[step]:
            left[value] -= 1
        for other in after[step]:
            waiting[other] -= 1
            if not waiting[other]:
                release(other)
    return order
