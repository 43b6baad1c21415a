"""In place: a result takes over the memory of an operand that dies at its launch.

This is about memory alone: values stay pure. It needs that the launch is the operand's last use,
that both have the same dtype and size, and that the kernel provably reads no element of the operand
after it wrote that place.

``commit_step`` does the same for variables: it finds out whether a program may write all their new
values where the old ones lie, and a run still is atomic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from graphc.base.tuning.fusion import MEMORY
from graphc.kernel.analysis.aliasing import safe_pairs
from graphc.plan.ir import Branch, Copy, Jump, Launch, Plan
from passes.plan.liveness import contested, live_intervals

INPLACE = "inplace"
"""The name under which these decisions are recorded and can be switched off."""

May = Callable[[int, int], bool]
"""Whether the second slot may take over the memory of the first."""


def inplace_groups(plan: Plan, may: May) -> tuple[tuple[int, ...], ...]:
    """Groups of slots that share memory, for the memory planner.

    ``may(old, new)`` is asked before a result takes over an operand's slot. Within a group of steps
    each task is in order, so what only one of them touches can be taken over there.
    """
    intervals = live_intervals(replace(plan, groups=()))
    several = contested(plan)
    safe = [safe_pairs(kernel, together=True) for kernel in plan.kernels]
    taken: set[int] = set()
    group_of: dict[int, list[int]] = {}
    for position, step in enumerate(plan.steps):
        if not isinstance(step, Launch):
            continue
        for source, target in safe[step.kernel]:
            old, new = step.arguments[source], step.arguments[target]
            if old in taken or old not in intervals or new not in intervals or new in group_of:
                continue
            dies_here = intervals[old][1] == position + 1
            born_here = intervals[new][0] == position
            alone = step.arguments.count(old) == 1 and old not in several.get(position, ())
            same = plan.slots[old].bytes == plan.slots[new].bytes
            if dies_here and born_here and alone and same and may(old, new):
                taken.add(old)
                group = group_of.setdefault(old, [old])
                group.append(new)
                group_of[new] = group
    distinct = {id(group): tuple(group) for group in group_of.values()}
    return tuple(distinct.values())


def commit_step(plan: Plan, may: Callable[[], bool]) -> int | None:
    """The first step that writes a new value of a variable, if all may lie where the old ones do;
    where it is one of a group, the first of that, since they run at once.

    None if not: where a step from there on may fail or jumps, where an old value is still read when
    it would be gone, or where it is too little to be worth it.

    ``may`` is asked before the decision is made; it is one for all variables.
    """
    old_of = {new: old for old, new in plan.renewed}
    sizes = [plan.slots[slot].type.bytes for slot in old_of]
    if not sizes or sum(size for size in sizes if isinstance(size, int)) < MEMORY.renewal_bytes:
        return None
    kept = set(old_of.values())
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    read: dict[int, int] = {}
    open_until = 0
    for position, step in enumerate(plan.steps):
        if isinstance(step, (Branch, Jump)):
            open_until = max(open_until, position + 1, step.target)
        elif plan.may_fail(step):
            open_until = position + 1
        for slot, is_written in plan.accesses(step):
            if is_written and slot in old_of:
                first.setdefault(slot, position)
                last[slot] = position
            elif slot in kept:
                read[slot] = position
    commit = min(first.values(), default=0)
    around = (group for group in plan.groups if group.bounds[0] <= commit < group.bounds[-1])
    commit = next((group.bounds[0] for group in around), commit)
    if len(first) < len(old_of) or commit < open_until:
        return None
    pairs: dict[int, set[tuple[int, int]]] = {}
    for new, old in old_of.items():
        if old is None or read.get(old, -1) < first[new]:
            continue
        step = plan.steps[first[new]]
        if isinstance(step, Copy) and step.source == old and read[old] == first[new]:
            # which is no copy then
            continue
        if read[old] > first[new] or last[new] > first[new] or not isinstance(step, Launch):
            return None
        if step.kernel not in pairs:
            pairs[step.kernel] = set(safe_pairs(plan.kernels[step.kernel]))
        places = step.arguments.index(old), step.arguments.index(new)
        if step.arguments.count(old) > 1 or places not in pairs[step.kernel]:
            return None
    return commit if may() else None
