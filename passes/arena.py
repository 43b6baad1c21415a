"""Placing a plan's temporaries in one arena: liveness, the memory planner, the checker.

Symbolic sizes are planned at hint sizes, with an eye on larger and smaller ones; the solution's
precedence order gives the offsets for every other size, and the checker proves that it covers every
overlapping pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from graphc.ir.dims import Dim, at_hint
from graphc.ir.dims import evaluate as dims_evaluate
from graphc.plan.ir import Layout, Plan
from graphc.plan.memory import Buffer, MemoryProblem, offsets_for_sizes
from passes.liveness import live_intervals
from passes.memory_plan import lower_bound, solve_at_many
from passes.plan_check import check

ALIGNMENT = 64
"""Temporaries start on cache lines; smaller ones only stay inside of one."""

SCALES = (1, 512, 2048)
"""Further sizes of the symbolic dims at which the arena is kept near its bound.

Which buffers are the large ones changes with the dims, so an order that is perfect at one size may
be a third above the bound at another."""

EFFORT_PER_BYTE = 100
"""How long to search for a byte less, in array elements touched: a megabyte is worth 0.3 s."""


def place(plan: Plan, must_alias: tuple[tuple[int, ...], ...] = ()) -> Plan:
    """The plan with a layout; slots in a group of ``must_alias`` share their memory."""
    slots, bytes_of, problem = _problem(plan, must_alias, at_hint)
    others = []
    if not all(isinstance(size, int) for size in bytes_of):
        others = [_evaluated(bytes_of, partial(at_hint, hint=hint)) for hint in SCALES]
    solution = solve_at_many(problem, others, effort_per_byte=EFFORT_PER_BYTE)
    check(problem, solution)
    sizes = tuple(buffer.size for buffer in problem.buffers)
    return replace(plan, layout=Layout(slots, solution, sizes))


def bytes_at(plan: Plan, dims: Mapping[str, int]) -> tuple[int, int, int]:
    """Peak, sum and lower bound of a placed plan's temporaries at given sizes of the dims."""
    layout = plan.layout
    assert layout is not None, "the plan is placed"
    groups: dict[int, list[int]] = {}
    for slot, root in zip(layout.slots, layout.solution.roots, strict=True):
        groups.setdefault(root, []).append(slot)
    together = tuple(tuple(group) for group in groups.values() if len(group) > 1)
    _, _, problem = _problem(plan, together, lambda size: dims_evaluate(size, dims))
    sizes = [buffer.size for buffer in problem.buffers]
    _, peak = offsets_for_sizes(layout.solution, sizes)
    return peak, sum(sizes), lower_bound(problem)


def _problem(
    plan: Plan, must_alias: tuple[tuple[int, ...], ...], size_of: Callable[[Dim], int]
) -> tuple[tuple[int, ...], list[Dim], MemoryProblem]:
    """The slots to place, the bytes of each, and the planner's problem with a buffer for each."""
    intervals = live_intervals(plan)
    slots = tuple(sorted(intervals))
    number = {slot: position for position, slot in enumerate(slots)}
    rooms = [(plan.slots[slot].type, plan.slots[slot].copies) for slot in slots]
    one_of_each = dict(zip(rooms, slots, strict=True))
    bytes_by_room = {room: plan.slots[slot].bytes for room, slot in one_of_each.items()}
    bytes_of = [bytes_by_room[room] for room in rooms]
    buffers = tuple(
        Buffer(plan.slots[slot].name or f"slot {slot}", size, *intervals[slot], _alignment(bytes_))
        for slot, bytes_, size in zip(slots, bytes_of, _evaluated(bytes_of, size_of), strict=True)
    )
    groups = tuple(tuple(number[slot] for slot in group) for group in must_alias)
    return slots, bytes_of, MemoryProblem(buffers, groups)


def _evaluated(sizes: Sequence[Dim], size_of: Callable[[Dim], int]) -> list[int]:
    """Sizes as numbers; equal dims, of which there are few, are evaluated once."""
    known = {size: size_of(size) for size in dict.fromkeys(sizes)}
    return [known[size] for size in sizes]


def _alignment(size: Dim) -> int:
    """A cache line, or for what is known to be smaller the power of two that holds it."""
    if isinstance(size, int) and size < ALIGNMENT:
        return 1 << max(0, size - 1).bit_length()
    return ALIGNMENT
