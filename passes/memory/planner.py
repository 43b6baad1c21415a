"""The memory planner: offsets in one arena for buffers with known live intervals.

Invariant: plain data in, plain data out, deterministic; the result is valid for the sizes given
and, through its precedence order, for all others. ``passes.checks.memory_plan`` proves both
independently.

    buffers a [0,2) 64 B, b [1,3) 64 B, c [2,4) 64 B
    ->
    offsets a 0, b 64, c 0; peak 128 = lower bound; c lies below b, a lies below b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import product

from graphc.plan.memory import (
    Buffer,
    MemoryProblem,
    MemorySolution,
    align_up,
    offsets_for_sizes,
)
from passes.memory.fit import (
    LiveBlocks,
    address_order,
    components,
    count_overlaps,
    live_bytes,
    overlaps,
    place_in_order,
    place_in_time,
    precedence,
)
from passes.memory.orders import MAX_BLOCKS, improved_order
from passes.memory.search import Effort, improve

# Work of the improving search, in array elements touched: about 0.3 s of one core.
QUICK_EFFORT = 100_000_000
# Steps to improve an order that is to suit many sizes: about 0.1 s.
ORDER_EFFORT = 1_000_000
# Beyond these, listing the pairs of overlapping blocks, or a beam over them, costs too much.
_PAIR_LIMIT = 250_000
_SEARCH_LIMIT = 1_500


@dataclass(frozen=True, slots=True)
class _Groups:
    """Alias groups: the root of each buffer, and for each root the members of its group."""

    roots: tuple[int, ...]
    members: dict[int, list[int]]


def solve(
    problem: MemoryProblem,
    *,
    effort: int = QUICK_EFFORT,
    slack: float = 0.02,
    effort_per_byte: int | None = None,
) -> MemorySolution:
    """Place all buffers of a problem.

    Greedy fits in time order come first, near-linear in the number of buffers. While the best
    peak is more than `slack` above the lower bound and the problem is small enough, greedy fits
    by size, area, lifetime and start follow, then a search that spends at most `effort`. With
    `effort_per_byte` it also spends at most that for each byte between peak and bound, so that it
    takes no longer than what it can save is worth.
    """
    groups = _alias_groups(problem)
    roots = list(groups.members)
    everything = _blocks(problem, groups, roots)
    occupied = [position for position, size in enumerate(everything.sizes) if size]
    blocks = everything if len(occupied) == len(roots) else everything.select(occupied)
    placed, steps = _place(blocks, effort, slack, effort_per_byte)

    # Buffers without bytes lie at 0, below all others, where they can't lift anything.
    sized = {roots[position]: at for position, at in zip(occupied, placed, strict=True)}
    order = address_order(everything, [sized.get(root, 0) for root in roots])
    return _solution(problem, groups, everything, order, steps)


def _solution(
    problem: MemoryProblem,
    groups: _Groups,
    everything: LiveBlocks,
    order: Sequence[int],
    steps: int,
) -> MemorySolution:
    """The solution of an order of all groups, lower ones first."""
    roots = list(groups.members)
    below = precedence(everything, order)
    predecessors: list[tuple[int, ...]] = [()] * len(problem.buffers)
    alignments = [1] * len(problem.buffers)
    for position, root in enumerate(roots):
        predecessors[root] = tuple(sorted(roots[lower] for lower in below[position]))
        for member in groups.members[root]:
            alignments[member] = everything.alignments[position]
    unplaced = MemorySolution(
        offsets=(),
        peak=0,
        lower_bound=_lower_bound(problem, groups),
        roots=groups.roots,
        alignments=tuple(alignments),
        order=tuple(roots[position] for position in order),
        predecessors=tuple(predecessors),
        steps=steps,
    )
    offsets, peak = offsets_for_sizes(unplaced, [buffer.size for buffer in problem.buffers])
    return replace(unplaced, offsets=offsets, peak=peak)


def solve_at_many(
    problem: MemoryProblem,
    others: Sequence[Sequence[int]],
    *,
    slack: float = 0.02,
    effort_per_byte: int | None = None,
) -> MemorySolution:
    """A solution of a problem that also suits other sizes of its buffers.

    `others` lists the sizes of all buffers, once for each binding. If the order found for the
    problem leaves the arena more than `slack` above the bound at some of them, orders are also
    looked for there, then with the aim of reaching the bound, until one is within `slack` at all.
    Of all orders the one is kept whose worst excess over all sizes is least; if that is not enough,
    it is improved.
    Raises ValueError when the number of sizes is wrong or one is negative.
    """
    if not others:
        return solve(problem, slack=slack, effort_per_byte=effort_per_byte)
    problems = [problem]
    for sizes in others:
        if len(sizes) != len(problem.buffers):
            raise ValueError(f"{len(sizes)} sizes for {len(problem.buffers)} buffers")
        buffers = tuple(
            Buffer(b.name, size, b.start, b.end, b.alignment)
            for b, size in zip(problem.buffers, sizes, strict=True)
        )
        problems.append(MemoryProblem(buffers, problem.must_alias))
    groups = _alias_groups(problem)
    bounds = [_lower_bound(each, groups) for each in problems]

    def worst(solution: MemorySolution) -> float:
        return max(
            offsets_for_sizes(solution, [b.size for b in each.buffers])[1] / max(1, bound)
            for each, bound in zip(problems, bounds, strict=True)
        )

    best: MemorySolution | None = None
    excess = 0.0
    steps = 0
    # In large problems a higher aim finds nothing more: no search follows the greedy fits there.
    aims = (slack, 0.0) if len(problem.buffers) <= _SEARCH_LIMIT else (slack,)
    for aim, each in product(aims, problems):
        found = solve(each, slack=aim, effort_per_byte=effort_per_byte)
        steps += found.steps
        now = worst(found)
        if best is None or now < excess:
            best, excess = found, now
        if excess <= 1.0 + slack:
            break
    assert best is not None, "there is at least the problem itself"
    roots = list(groups.members)
    if excess > 1.0 + slack and len(roots) <= MAX_BLOCKS:
        sized = [_blocks(each, groups, roots) for each in problems]
        number = {root: position for position, root in enumerate(roots)}
        start = [number[root] for root in best.order]
        order, more = improved_order(sized, bounds, start, slack, ORDER_EFFORT)
        best = _solution(problem, groups, sized[0], order, steps + more)
        steps += more
    offsets, peak = offsets_for_sizes(best, [buffer.size for buffer in problem.buffers])
    return replace(best, offsets=offsets, peak=peak, lower_bound=bounds[0], steps=steps)


def _alias_groups(problem: MemoryProblem) -> _Groups:
    parent = list(range(len(problem.buffers)))

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for group in problem.must_alias:
        for other in group[1:]:
            one, two = find(group[0]), find(other)
            parent[max(one, two)] = min(one, two)
    roots = tuple(find(index) for index in range(len(problem.buffers)))
    members: dict[int, list[int]] = {}
    for index, root in enumerate(roots):
        members.setdefault(root, []).append(index)
    return _Groups(roots, members)


def _blocks(problem: MemoryProblem, groups: _Groups, roots: Sequence[int]) -> LiveBlocks:
    """One block for each group: its whole interval, its largest size and alignment."""
    members = [[problem.buffers[member] for member in groups.members[root]] for root in roots]
    if all(len(group) == 1 for group in members):
        alone = [buffer for (buffer,) in members]
        return LiveBlocks(
            tuple([buffer.start for buffer in alone]),
            tuple([buffer.end for buffer in alone]),
            tuple([buffer.size for buffer in alone]),
            tuple([buffer.alignment for buffer in alone]),
        )
    return LiveBlocks(
        tuple(min(buffer.start for buffer in group) for group in members),
        tuple(max(buffer.end for buffer in group) for group in members),
        tuple(max(buffer.size for buffer in group) for group in members),
        tuple(max(buffer.alignment for buffer in group) for group in members),
    )


def lower_bound(problem: MemoryProblem) -> int:
    """The largest sum of live bytes; no placement can be smaller."""
    return _lower_bound(problem, _alias_groups(problem))


def _lower_bound(problem: MemoryProblem, groups: _Groups) -> int:
    """The largest sum of live bytes, a group counting as its largest member then live."""
    changes: list[tuple[int, int]] = []
    for members in groups.members.values():
        if len(members) == 1:
            alone = problem.buffers[members[0]]
            changes += ((alone.start, alone.size), (alone.end, -alone.size))
            continue
        live: list[tuple[int, int]] = []
        current = 0
        buffers = sorted((problem.buffers[member] for member in members), key=lambda b: b.start)
        times = sorted({time for buffer in buffers for time in (buffer.start, buffer.end)})
        arrived = 0
        for time in times:
            while arrived < len(buffers) and buffers[arrived].start == time:
                heappush(live, (-buffers[arrived].size, buffers[arrived].end))
                arrived += 1
            while live and live[0][1] <= time:
                heappop(live)
            size = -live[0][0] if live else 0
            if size != current:
                changes.append((time, size - current))
                current = size
    largest = total = 0
    for _, change in sorted(changes):
        total += change
        largest = max(largest, total)
    return largest


def _place(
    blocks: LiveBlocks, effort: int, slack: float, effort_per_byte: int | None
) -> tuple[list[int], int]:
    """Offsets of blocks of positive size, and the work done."""
    if not len(blocks):
        return [], 0
    # Every block but the topmost is in effect rounded up to the alignment that all share.
    step = min(blocks.alignments)
    bound = live_bytes(
        LiveBlocks(
            blocks.starts, blocks.ends,
            tuple(align_up(size, step) for size in blocks.sizes), blocks.alignments,
        )
    )  # fmt: skip
    acceptable = bound + int(bound * slack)
    best, steps = place_in_time(blocks)
    if blocks.peak(best) > acceptable:
        backwards, more = place_in_time(blocks, reverse=True)
        steps += more
        best = min(best, backwards, key=blocks.peak)
    if blocks.peak(best) <= acceptable or count_overlaps(blocks) > _PAIR_LIMIT:
        return best, steps
    # Parts that are never live together share nothing, and the worst one decides the peak: once
    # the largest is done, the others need only match it.
    parts = [
        part
        for part in sorted(components(blocks), key=lambda part: (-len(part), part[0]))
        if blocks.select(part).peak([best[block] for block in part]) > acceptable
    ]
    if effort_per_byte is not None:
        effort = min(effort, effort_per_byte * (blocks.peak(best) - bound))
    unspent = effort
    for position, part in enumerate(parts):
        selected = blocks.select(part)
        offsets = [best[block] for block in part]
        if selected.peak(offsets) > acceptable:
            allowance = unspent // (len(parts) - position)
            budget = Effort(allowance)
            offsets, more = _refine(selected, offsets, acceptable, budget)
            unspent -= allowance - budget.remaining
            steps += more
            acceptable = max(acceptable, selected.peak(offsets))
            for block, offset in zip(part, offsets, strict=True):
                best[block] = offset
    return best, steps + effort - unspent


def _refine(
    blocks: LiveBlocks, offsets: list[int], acceptable: int, budget: Effort
) -> tuple[list[int], int]:
    """Better offsets for blocks of which the greedy fits in time order took too much."""
    neighbours = overlaps(blocks)
    pairs = sum(len(others) for others in neighbours)
    lifetimes = [end - start for start, end in zip(blocks.starts, blocks.ends, strict=True)]
    indices = range(len(blocks))
    steps = 0
    for order in (
        sorted(indices, key=lambda b: (-blocks.sizes[b], blocks.starts[b], b)),
        sorted(indices, key=lambda b: (-blocks.sizes[b] * lifetimes[b], blocks.starts[b], b)),
        sorted(indices, key=lambda b: (-lifetimes[b], -blocks.sizes[b], b)),
        sorted(indices, key=lambda b: (blocks.starts[b], -blocks.sizes[b], b)),
    ):
        if blocks.peak(offsets) <= acceptable:
            return offsets, steps
        steps += pairs
        offsets = min(offsets, place_in_order(blocks, neighbours, order), key=blocks.peak)
    if blocks.peak(offsets) > acceptable and len(blocks) <= _SEARCH_LIMIT:
        offsets = improve(blocks, neighbours, offsets, acceptable, budget)
    return offsets, steps
