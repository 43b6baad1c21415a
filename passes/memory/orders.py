"""Orders of blocks that suit several sizes at once.

An order says which of two blocks that are live together lies below. Stacking blocks in that order
gives offsets for any sizes. An order that is perfect at one size may waste a third at another. So
the best order is improved: one block of the chain that makes the worst peak is moved.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.plan.memory import align_up
from passes.memory.fit import LiveBlocks, overlaps

MAX_BLOCKS = 200
"""Problems of more blocks are not improved: each trial stacks them all."""


def improved_order(
    sizes: Sequence[LiveBlocks],
    bounds: Sequence[int],
    order: Sequence[int],
    slack: float,
    steps: int,
) -> tuple[list[int], int]:
    """An order whose worst excess over the bounds is no greater, and the steps that were taken.

    Args:
        sizes: the same blocks at several sizes.
        bounds: the lower bound at each.
        order: of all blocks, lower ones first.
        slack: an excess that is good enough.
        steps: pairs of blocks that may be looked at.
    """
    search = _Search(sizes, bounds)
    best = list(order)
    excess = search.excess(best)
    while search.steps < steps and max(excess) > 1.0 + slack:
        better = search.step(best, excess, steps)
        if better is None:
            break
        best, excess = better
    return best, search.steps


class _Search:
    """Trials on one list of blocks; counts the pairs they look at."""

    def __init__(self, sizes: Sequence[LiveBlocks], bounds: Sequence[int]) -> None:
        self._sizes = sizes
        self._bounds = bounds
        self._neighbours = overlaps(sizes[0])
        self.steps = 0

    def _stacked(self, blocks: LiveBlocks, order: Sequence[int]) -> tuple[list[int], list[int]]:
        """The end of each block, and the block it lies on (-1: on the ground)."""
        ends, on = [-1] * len(order), [-1] * len(order)
        for block in order:
            offset = 0
            for other in self._neighbours[block]:
                if ends[other] > offset:  # those not placed yet end below the ground
                    offset, on[block] = ends[other], other
            ends[block] = align_up(offset, blocks.alignments[block]) + blocks.sizes[block]
        return ends, on

    def excess(self, order: Sequence[int]) -> list[float]:
        """By size, the peak in terms of the bound."""
        self.steps += sum(map(len, self._neighbours)) * len(self._sizes)
        return [
            max(self._stacked(blocks, order)[0]) / max(1, bound)
            for blocks, bound in zip(self._sizes, self._bounds, strict=True)
        ]

    def step(
        self, order: list[int], excess: list[float], steps: int
    ) -> tuple[list[int], list[float]] | None:
        """A better order by moving one block of the chain below the worst peak, if there is one."""
        merit = max(excess), sum(excess)
        ends, on = self._stacked(self._sizes[excess.index(max(excess))], order)
        block = ends.index(max(ends))
        place = {other: position for position, other in enumerate(order)}
        while block >= 0:
            targets = sorted(place[other] for other in self._neighbours[block])
            for target in targets:
                moved = list(order)
                moved.insert(target, moved.pop(place[block]))
                found = self.excess(moved)
                if (max(found), sum(found)) < merit:
                    return moved, found
                if self.steps >= steps:
                    return None
            block = on[block]
        return None
