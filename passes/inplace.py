"""In-place: which results of a kernel may take over the memory of an operand that dies there.

A decision about memory alone: values stay pure. It is taken where the operand's last use is the
launch that makes the result, both have the same dtype and size, and the kernel provably reads no
element of the operand after it wrote that place.

Variables are the other half: ``commit_step`` finds out whether a program may write their new values
where the old ones lie, all of them, so that a run still is atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from graphc.ir.dims import Dim
from graphc.kernel.ir import (
    Apply,
    Buffer,
    Contract,
    Kernel,
    Load,
    Loop,
    Reduce,
    Size,
    Statement,
    Store,
    Var,
    walk,
)
from graphc.plan.ir import Branch, Jump, Launch, Plan
from passes.liveness import contested, live_intervals

INPLACE = "inplace"
"""The name under which these decisions are recorded and can be switched off."""

SMALLEST_RENEWAL = 64 << 10
"""Bytes of variables from which on their new values take the place of the old ones. For less, two
blocks that take turns cost nothing."""

May = Callable[[int, int], bool]
"""Whether the second slot may take over the memory of the first."""


def inplace_groups(plan: Plan, may: May) -> tuple[tuple[int, ...], ...]:
    """Groups of slots that share memory, for the memory planner.

    ``may(old, new)`` is asked before a result takes over an operand's slot. Within a group of steps
    each task is in order, so what only one of them touches can be taken over there.
    """
    intervals = live_intervals(replace(plan, groups=()))
    several = contested(plan)
    safe = [_safe_pairs(kernel, together=True) for kernel in plan.kernels]
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


def commit_step(
    plan: Plan, renewed: Sequence[tuple[int | None, int]], may: Callable[[], bool]
) -> int | None:
    """The first step that writes a new value of a variable, if all may lie where the old ones do;
    where it is one of a group, the first of that, since they run at once.

    None if not: where a step from there on may fail or jumps, where an old value is still read when
    it would be gone, or where it is too little to be worth it.

    Args:
        plan: with its kernels.
        renewed: for each variable written its position in ``plan.feeds``, None if it is not read,
            and the position of its new value in ``plan.outputs``.
        may: is asked before the decision is made; it is one for all variables.
    """
    old_of = {plan.outputs[n]: None if m is None else plan.feeds[m] for m, n in renewed}
    sizes = [plan.slots[slot].type.bytes for slot in old_of]
    if sum(size for size in sizes if isinstance(size, int)) < SMALLEST_RENEWAL:
        return None
    kept = set(old_of.values())
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    read: dict[int, int] = {}
    open_until = 0
    for position, step in enumerate(plan.steps):
        if isinstance(step, (Branch, Jump)):
            open_until = max(open_until, position + 1, step.target)
        elif isinstance(step, Launch) and plan.kernels[step.kernel].sites:
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
        if read[old] > first[new] or last[new] > first[new] or not isinstance(step, Launch):
            return None
        if step.kernel not in pairs:
            pairs[step.kernel] = set(_safe_pairs(plan.kernels[step.kernel]))
        places = step.arguments.index(old), step.arguments.index(new)
        if step.arguments.count(old) > 1 or places not in pairs[step.kernel]:
            return None
    return commit if may() else None


@dataclass(frozen=True, slots=True)
class _Place:
    """An index: the same scalar, or the same row base and a position in the row."""

    base: Var | None
    extent: Size
    position: Var


def _safe_pairs(kernel: Kernel, together: bool = False) -> list[tuple[int, int]]:
    """Pairs (input, output) of buffer positions whose memory may be the same.

    Any of them may be together, as long as no buffer is in two: with ``together`` only such are
    looked for, for each output the first input that is free.
    """
    number = {buffer: n for n, buffer in enumerate(kernel.buffers)}
    order = {id(statement): n for n, statement in enumerate(walk(kernel.body))}
    surroundings = _surroundings(kernel.body)
    definitions = {s.result: s for s in walk(kernel.body) if isinstance(s, Apply)}
    extents = {s.index: s.extent for s in walk(kernel.body) if isinstance(s, (Loop, Reduce))}
    loads: dict[Buffer, list[Load]] = {}
    used: set[Buffer] = set()
    stores: dict[Buffer, list[Store]] = {}
    for statement in walk(kernel.body):
        if isinstance(statement, Load):
            loads.setdefault(statement.buffer, []).append(statement)
        elif isinstance(statement, Contract):
            # blocks of a product read the whole of its operands
            used |= {statement.a.buffer, statement.b.buffer}
        elif isinstance(statement, Store):
            stores.setdefault(statement.buffer, []).append(statement)

    def place(index: Var) -> _Place:
        definition = definitions.get(index)
        if definition is not None and definition.primitive == "add":
            base, position = definition.operands
            if position in extents:
                return _Place(base, extents[position], position)
        return _Place(None, extents.get(index, 0), index)

    def harmless(load: Load, store: Store) -> bool:
        """The load reads its place before the store writes it, in every iteration."""
        if order[id(load)] > order[id(store)]:
            return False
        (read_in, around_load), (stored_in, around_store) = (
            surroundings[id(statement)] for statement in (load, store)
        )
        if load.index is store.index:
            return read_in is stored_in
        a, b = place(load.index), place(store.index)
        if a.base is None or a.base is not b.base or a.extent != b.extent:
            return False
        # the whole row is read before any of it is written: neither is done for each of the other
        return b.position not in around_load and a.position not in around_store

    alike: dict[tuple[str, Dim], list[Buffer]] = {}
    for source, read in loads.items():
        if source.role == "in" and source not in used and all(r.condition is None for r in read):
            alike.setdefault((source.type.dtype.name, source.type.bytes), []).append(source)
    result: list[tuple[int, int]] = []
    for target, written in stores.items():
        if target.role != "out" or len(written) != 1:
            continue
        for source in alike.get((target.type.dtype.name, target.type.bytes), ()):
            if source in used:
                continue
            if all(harmless(load, written[0]) for load in loads[source]):
                result.append((number[source], number[target]))
                if together:
                    used.add(source)
                    break
    return result


def _surroundings(
    body: tuple[Statement, ...],
) -> dict[int, tuple[tuple[Statement, ...], tuple[Var, ...]]]:
    """By identity, the body in which each statement stands, and the indices of loops around it."""
    result: dict[int, tuple[tuple[Statement, ...], tuple[Var, ...]]] = {}
    stack: list[tuple[tuple[Statement, ...], tuple[Var, ...]]] = [(body, ())]
    while stack:
        block, indices = stack.pop()
        for statement in block:
            result[id(statement)] = block, indices
            if isinstance(statement, (Loop, Reduce)):
                stack.append((statement.body, (*indices, statement.index)))
    return result
