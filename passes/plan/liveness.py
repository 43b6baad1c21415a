"""Liveness: the live range of each temporary, as an interval of steps.

A slot that is written before a loop and touched inside stays live to the loop's end, because the
loop may go round again; carried slots are such. Slots that a concurrent group touches live for all
of it, because its steps run at the same time. Other slots live from first write to last touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from graphc.plan.ir import Launch, Plan


def live_intervals(plan: Plan) -> dict[int, tuple[int, int]]:
    """For each temporary and scratch slot the first step and the step past its last.

    They come in the order of their first steps.
    """
    placed = [slot.kind in ("temporary", "scratch") for slot in plan.slots]
    touched: list[Sequence[int]] = [
        step.arguments if isinstance(step, Launch) else [slot for slot, _ in plan.accesses(step)]
        for step in plan.steps
    ]
    last = {slot: step for step, slots in enumerate(touched) for slot in slots if placed[slot]}
    steps = range(len(touched) - 1, -1, -1)
    first = {slot: step for step in steps for slot in touched[step]}
    if plan.groups:
        _stretch(plan, touched, first, last)
    if plan.loops:
        _stay(plan, touched, first, last)
    if plan.groups:
        order = sorted(last, key=lambda slot: (first[slot], slot))
        return {slot: (first[slot], last[slot] + 1) for slot in order}
    return {slot: (first[slot], end + 1) for slot, end in last.items()}


def contested(plan: Plan) -> dict[int, set[int]]:
    """By each step of a group the slots that several of its tasks touch."""
    result: dict[int, set[int]] = {}
    for group in plan.groups:
        task_of: dict[int, int] = {}
        several: set[int] = set()
        for task, (start, stop) in enumerate(pairwise(group.bounds)):
            for step in plan.steps[start:stop]:
                for slot, _ in plan.accesses(step):
                    if task_of.setdefault(slot, task) != task:
                        several.add(slot)
        result |= dict.fromkeys(range(group.bounds[0], group.bounds[-1]), several)
    return result


def _stretch(
    plan: Plan, touched: Sequence[Sequence[int]], first: dict[int, int], last: dict[int, int]
) -> None:
    """Makes what a group touches last as long as it does."""
    for group in plan.groups:
        start, end = group.bounds[0], group.bounds[-1]
        for slot in {slot for slots in touched[start:end] for slot in slots}:
            if slot in last:
                first[slot] = min(first[slot], start)
                last[slot] = max(last[slot], end - 1)


def _stay(
    plan: Plan, touched: Sequence[Sequence[int]], first: dict[int, int], last: dict[int, int]
) -> None:
    """Makes what is written before a loop and touched inside last to its end."""
    touched_by_loop: list[set[int]] = [set() for _ in plan.loops]
    waiting = sorted(range(len(plan.loops)), key=lambda n: (-plan.loops[n][0], plan.loops[n][1]))
    inside: list[int] = []  # the loops around a step, outermost first
    for position, slots in enumerate(touched):
        while waiting and plan.loops[waiting[-1]][0] <= position:
            inside.append(waiting.pop())
        while inside and plan.loops[inside[-1]][1] <= position:
            inside.pop()
        for loop in inside:
            touched_by_loop[loop].update(slots)
    # inner loops end before outer ones, so one pass from the inside out is enough
    order = sorted(range(len(plan.loops)), key=lambda n: plan.loops[n][1] - plan.loops[n][0])
    for loop in order:
        start, end = plan.loops[loop]
        for slot in touched_by_loop[loop]:
            if slot in last and first[slot] < start:
                last[slot] = max(last[slot], end - 1)
