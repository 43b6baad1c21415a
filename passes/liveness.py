"""Liveness: from which step to which a plan's temporaries hold something that is read later.

A slot that is written before a loop and touched inside stays live to the loop's end, since the loop
may go round again; carried slots are such. Everything else lives from first write to last touch.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.plan.ir import Launch, Plan


def live_intervals(plan: Plan) -> dict[int, tuple[int, int]]:
    """For each temporary and scratch slot the first step and the step past its last."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    placed = [slot.kind in ("temporary", "scratch") for slot in plan.slots]
    touched_by_loop: list[set[int]] = [set() for _ in plan.loops]
    waiting = sorted(range(len(plan.loops)), key=lambda n: (-plan.loops[n][0], plan.loops[n][1]))
    inside: list[int] = []  # the loops around a step, outermost first
    for position, step in enumerate(plan.steps):
        while waiting and plan.loops[waiting[-1]][0] <= position:
            inside.append(waiting.pop())
        while inside and plan.loops[inside[-1]][1] <= position:
            inside.pop()
        if isinstance(step, Launch):
            touched: Sequence[int] = step.arguments
        else:
            touched = [slot for slot, _ in plan.accesses(step)]
        for slot in touched:
            if not placed[slot]:
                continue
            if slot not in first:
                first[slot] = position
            last[slot] = position
            for loop in inside:
                touched_by_loop[loop].add(slot)
    # inner loops end before outer ones, so one pass from the inside out is enough
    order = sorted(range(len(plan.loops)), key=lambda n: plan.loops[n][1] - plan.loops[n][0])
    for loop in order:
        start, end = plan.loops[loop]
        for slot in touched_by_loop[loop]:
            if first[slot] < start:
                last[slot] = max(last[slot], end - 1)
    return {slot: (first[slot], last[slot] + 1) for slot in first}
