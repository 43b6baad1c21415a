"""Placement of blocks with known live intervals: bounds, greedy fits, and the order they imply.

Invariant: every function that returns offsets returns a valid placement; alignment included, no two
blocks that are live at one step share a byte. All of it is deterministic.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphc.plan.memory import align_up

_UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class LiveBlocks:
    """Blocks to place, as columns: live during [start, end), positive sizes."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    sizes: tuple[int, ...]
    alignments: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.sizes)

    def select(self, indices: Sequence[int]) -> LiveBlocks:
        """The blocks at `indices`, in that order."""
        return LiveBlocks(
            tuple(self.starts[i] for i in indices),
            tuple(self.ends[i] for i in indices),
            tuple(self.sizes[i] for i in indices),
            tuple(self.alignments[i] for i in indices),
        )

    def peak(self, offsets: Sequence[int]) -> int:
        """Bytes that a placement takes."""
        return max((o + s for o, s in zip(offsets, self.sizes, strict=True)), default=0)


def events(starts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, bool, int]]:
    """(time, begins, block) in time order; at one time the blocks that end come first."""
    merged = [(time, True, block) for block, time in enumerate(starts)]
    merged += [(time, False, block) for block, time in enumerate(ends)]
    merged.sort()
    return iter(merged)


def live_bytes(blocks: LiveBlocks) -> int:
    """The largest sum of the sizes of blocks that are live at one step."""
    current = largest = 0
    for _, begins, block in events(blocks.starts, blocks.ends):
        current += blocks.sizes[block] if begins else -blocks.sizes[block]
        largest = max(largest, current)
    return largest


def count_overlaps(blocks: LiveBlocks) -> int:
    """The number of pairs of blocks that are live together, without listing them."""
    ends = sorted(blocks.ends)
    return sum(
        started - bisect_right(ends, start) for started, start in enumerate(sorted(blocks.starts))
    )


def overlaps(blocks: LiveBlocks) -> list[list[int]]:
    """For each block the blocks that are live together with it."""
    neighbours: list[list[int]] = [[] for _ in range(len(blocks))]
    live: dict[int, None] = {}
    for _, begins, block in events(blocks.starts, blocks.ends):
        if begins:
            for other in live:
                neighbours[other].append(block)
            neighbours[block].extend(live)
            live[block] = None
        else:
            del live[block]
    return neighbours


def components(blocks: LiveBlocks) -> list[list[int]]:
    """Blocks grouped so that no block of one group is live together with one of another."""
    groups: list[list[int]] = []
    reach = -_UNBOUNDED
    for block in sorted(range(len(blocks)), key=lambda b: (blocks.starts[b], b)):
        if blocks.starts[block] >= reach:
            groups.append([])
        groups[-1].append(block)
        reach = max(reach, blocks.ends[block])
    return groups


def place_in_time(blocks: LiveBlocks, *, reverse: bool = False) -> tuple[list[int], int]:
    """Best fit in time order, as an allocator would at run time: (offsets, steps).

    Blocks that start together are placed largest first. `reverse` runs time backwards. Free
    holes stand in a list ordered by size, and in tables by first and last byte so that a
    freed block joins its neighbours; near-linear in the number of blocks.
    """
    if reverse:
        starts, ends = [-end for end in blocks.ends], [-start for start in blocks.starts]
    else:
        starts, ends = list(blocks.starts), list(blocks.ends)
    arrivals = sorted(range(len(blocks)), key=lambda b: (starts[b], -blocks.sizes[b], b))
    departures = sorted(range(len(blocks)), key=lambda b: (ends[b], b))
    offsets = [0] * len(blocks)
    by_size = [(_UNBOUNDED, 0)]
    size_at = {0: _UNBOUNDED}
    start_before = {_UNBOUNDED: 0}
    steps = 0

    def add_hole(at: int, size: int) -> None:
        insort(by_size, (size, at))
        size_at[at] = size
        start_before[at + size] = at

    def take_hole(at: int) -> int:
        size = size_at.pop(at)
        del start_before[at + size]
        by_size.pop(bisect_left(by_size, (size, at)))
        return size

    gone = 0
    for block in arrivals:
        while ends[departures[gone]] <= starts[block]:
            freed = departures[gone]
            gone += 1
            low, high = offsets[freed], offsets[freed] + blocks.sizes[freed]
            if low in start_before:
                low = start_before[low]
                take_hole(low)
            if high in size_at:
                high += take_hole(high)
            add_hole(low, high - low)
            steps += 1
        need, alignment = blocks.sizes[block], blocks.alignments[block]
        probe = bisect_left(by_size, (need, 0))
        while True:
            steps += 1
            hole_size, hole_at = by_size[probe]
            offset = align_up(hole_at, alignment)
            if offset + need <= hole_at + hole_size:
                break
            probe += 1
        take_hole(hole_at)
        if offset > hole_at:
            add_hole(hole_at, offset - hole_at)
        if hole_at + hole_size > offset + need:
            add_hole(offset + need, hole_at + hole_size - offset - need)
        offsets[block] = offset
    return offsets, steps


def place_in_order(
    blocks: LiveBlocks, neighbours: Sequence[Sequence[int]], order: Sequence[int]
) -> list[int]:
    """Place blocks one after another, each into the tightest gap that its neighbours leave.

    `neighbours` is the result of `overlaps`; `order` lists every block once.
    """
    occupied: list[list[tuple[int, int]]] = [[] for _ in range(len(blocks))]
    offsets = [-1] * len(blocks)
    for block in order:
        need, alignment = blocks.sizes[block], blocks.alignments[block]
        position, chosen, tightest = 0, -1, _UNBOUNDED
        for low, high in occupied[block]:
            if low - position >= need:
                gap = low - position
                if gap < tightest:
                    chosen, tightest = position, gap
            if high > position:
                position = align_up(high, alignment)
        offset = position if chosen < 0 else chosen
        offsets[block] = offset
        extent = (offset, offset + need)
        for other in neighbours[block]:
            if offsets[other] < 0:
                insort(occupied[other], extent)
    return offsets


def address_order(blocks: LiveBlocks, offsets: Sequence[int]) -> list[int]:
    """Blocks by address; those of size 0 come first at an address, since they fit below any."""
    return sorted(
        range(len(blocks)), key=lambda b: (offsets[b], blocks.sizes[b] > 0, blocks.starts[b], b)
    )


def precedence(blocks: LiveBlocks, order: Sequence[int]) -> list[set[int]]:
    """For each block the blocks directly below it: a reduced form of "lives with and is below".

    A sweep over time keeps the live blocks in address order. A block that begins gets an edge from
    its neighbour below and one to its neighbour above; the edge between those two, if no block has
    ended since it was made, then follows from the new ones and is dropped. A block that ends leaves
    neighbours whose order follows from edges through it. So every pair that is ever live together
    is connected by a path, with at most two edges for each block.
    """
    below: list[set[int]] = [set() for _ in range(len(blocks))]
    rank = [0] * len(blocks)
    for position, block in enumerate(order):
        rank[block] = position
    live: list[int] = []
    fresh: set[tuple[int, int]] = set()
    for _, begins, block in events(blocks.starts, blocks.ends):
        at = bisect_left(live, rank[block])
        if not begins:
            live.pop(at)
            fresh.clear()
            continue
        lower = order[live[at - 1]] if at else None
        upper = order[live[at]] if at < len(live) else None
        live.insert(at, rank[block])
        if lower is not None:
            below[block].add(lower)
            fresh.add((lower, block))
        if upper is not None:
            below[upper].add(block)
            fresh.add((block, upper))
            if lower is not None and (lower, upper) in fresh:
                fresh.discard((lower, upper))
                below[upper].discard(lower)
    return below
