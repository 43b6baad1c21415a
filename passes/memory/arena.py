"""Placing a plan's temporaries in one arena: liveness, the memory planner, the checker.

Symbolic sizes are planned at hint sizes, with an eye on larger and smaller ones; the solution's
precedence order gives the offsets for every other size, and the checker proves that it covers every
overlapping pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from graphc.base.errors import UnsupportedError
from graphc.base.target import CACHE_LINE
from graphc.ir.dims.expressions import Dim, at_hint
from graphc.ir.dims.expressions import evaluate as dims_evaluate
from graphc.plan.ir import Layout, Plan
from graphc.plan.memory import Buffer, MemoryProblem, MemorySolution, offsets_for_sizes
from passes.checks.memory_plan import check
from passes.memory.planner import lower_bound, solve_at_many
from passes.plan.liveness import live_intervals

ALIGNMENT = CACHE_LINE
"""Temporaries start on cache lines; smaller ones only stay inside of one."""

SCALES = (8, 256, 1024)
"""Further sizes of the symbolic dims at which the arena is kept near its bound.

Which buffers are the large ones changes with the dims, so an order that is perfect at one size may
be a third above the bound at another."""

EFFORT_PER_BYTE = 100
"""How long to search for a byte less, in array elements touched: a megabyte is worth 0.3 s."""


LARGEST = 2**56
"""More bytes than that no address reaches."""


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


def place_quickly(plan: Plan) -> Plan:
    """The plan with a layout that is made in one pass over the temporaries, without a search.

    Places lie one behind the other. A temporary takes an idle place of its kind, of several the one
    freed last, or a new one. Equal symbolic sizes are one kind, and so are numbers between the same
    powers of two.
    """
    intervals = live_intervals(plan)
    # a slot is first touched in the order of the steps
    slots = tuple(intervals)
    bytes_of = plan.bytes_of(slots)
    sizes = _sizes(plan, slots, bytes_of, at_hint)
    count = len(slots)
    rooms: dict[Dim, list[int]] = {}
    kinds = {size: rooms.setdefault(_kind(size), []) for size in dict.fromkeys(bytes_of)}
    idle = [*map(kinds.__getitem__, bytes_of)]
    roots = [0] * count
    order: list[int] = []
    predecessors: list[tuple[int, ...]] = [()] * count
    ending: list[list[int]] = [[] for _ in range(len(plan.steps) + 1)]
    step = live = bound = 0
    for number, (start, end) in enumerate(intervals.values()):
        while step <= start:
            for other in ending[step]:
                idle[other].append(roots[other])
                live -= sizes[other]
            step += 1
        free = idle[number]
        if free:
            roots[number] = free.pop()
        else:
            roots[number] = number
            predecessors[number] = tuple(order[-1:])
            order.append(number)
        ending[end].append(number)
        live += sizes[number]
        if live > bound:
            bound = live
    alignments = (ALIGNMENT,) * count
    unplaced = MemorySolution(
        (), 0, bound, tuple(roots), alignments, tuple(order), tuple(predecessors), count
    )
    offsets, peak = offsets_for_sizes(unplaced, sizes)
    return replace(
        plan,
        layout=Layout(slots, replace(unplaced, offsets=offsets, peak=peak), tuple(sizes)),
    )


def _sizes(
    plan: Plan, slots: Sequence[int], bytes_of: Sequence[Dim], of: Callable[[Dim], int]
) -> list[int]:
    """The bytes of each slot.

    Raises:
        UnsupportedError: for a size above ``LARGEST``.
    """
    sizes = _evaluated(bytes_of, of)
    if max(sizes, default=0) > LARGEST:
        slot, size = next(pair for pair in zip(slots, sizes, strict=True) if pair[1] > LARGEST)
        raise UnsupportedError(
            f"a temporary of type {plan.slots[slot].type}, which takes {size:,} bytes",
            where=plan.slots[slot].where,
            hint="indices and reductions of so many elements need them in memory",
        )
    return sizes


def _kind(size: Dim) -> Dim:
    return size.bit_length() if isinstance(size, int) else size


def check_layout(plan: Plan) -> None:
    """Proves a layout right by the checker, which shares no code with the planner.

    Raises:
        VerifyError: naming what lies wrong.
    """
    layout = plan.layout
    assert layout is not None, "the plan is placed"
    _, _, problem = _problem(plan, _rooms(layout), at_hint, layout.slots)
    check(problem, layout.solution)


def _rooms(layout: Layout) -> tuple[tuple[int, ...], ...]:
    """The slots that share a place."""
    groups: dict[int, list[int]] = {}
    for slot, root in zip(layout.slots, layout.solution.roots, strict=True):
        groups.setdefault(root, []).append(slot)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def bytes_at(plan: Plan, dims: Mapping[str, int]) -> tuple[int, int, int]:
    """Peak, sum and lower bound of a placed plan's temporaries at given sizes of the dims."""
    layout = plan.layout
    assert layout is not None, "the plan is placed"
    _, _, problem = _problem(
        plan, _rooms(layout), lambda size: dims_evaluate(size, dims), layout.slots
    )
    sizes = [buffer.size for buffer in problem.buffers]
    _, peak = offsets_for_sizes(layout.solution, sizes)
    return peak, sum(sizes), lower_bound(problem)


def _problem(
    plan: Plan,
    must_alias: tuple[tuple[int, ...], ...],
    size_of: Callable[[Dim], int],
    order: Sequence[int] | None = None,
) -> tuple[tuple[int, ...], list[Dim], MemoryProblem]:
    """The slots to place, the bytes of each, and the planner's problem with a buffer for each.

    Buffers are numbered in the order given, or as the slots are.
    """
    intervals = live_intervals(plan)
    slots = tuple(sorted(intervals) if order is None else order)
    number = {slot: position for position, slot in enumerate(slots)}
    bytes_of = plan.bytes_of(slots)
    sizes = _sizes(plan, slots, bytes_of, size_of)
    buffers = tuple(
        Buffer(plan.slots[slot].name or f"slot {slot}", size, *intervals[slot], _alignment(bytes_))
        for slot, bytes_, size in zip(slots, bytes_of, sizes, strict=True)
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
