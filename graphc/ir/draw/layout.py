"""Places for the vertices of a layered drawing, in time n log n.

The steps are those of Sugiyama, Tagawa and Toda (1981): rows, order in each row by the mean of
neighbours, then positions. Edges over several rows are led around vertices by bends, but only up
to ``LONGEST`` rows, since a bend in every row would be quadratic. Positions in a row are the least
squares fit to the neighbours' that keeps the gaps, by pooling adjacent violators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEIGHT = 52
"""Height of a vertex."""

ROW = 92
"""From the top of a row to the top of the next."""

GAP = 26
"""Least room between neighbours in a row."""

LONGEST = 8
"""Edges over more rows than this get no bends; they are drawn as stubs at both ends."""

PER_ROW = 24
"""A row with more vertices is broken into several."""

_SWEEPS = 4
_BEND = 12.0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where things are, in pixels.

    Attributes:
        x, y: the upper left corner of each vertex.
        bends: for an edge, by its number, the points between its ends, if it has any.
        width, height: of the whole drawing.
    """

    x: tuple[int, ...]
    y: tuple[int, ...]
    bends: dict[int, tuple[tuple[int, int], ...]]
    width: int
    height: int

    def is_long(self, source: int, target: int) -> bool:
        """Whether an edge between two vertices goes over more than ``LONGEST`` rows."""
        return self.y[target] - self.y[source] > LONGEST * ROW


def layered(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> Placement:
    """Places vertices of the given widths; every edge goes from a smaller number to a larger."""
    if not widths:
        return Placement((), (), {}, 0, 0)
    rows_of = _broken(_rows(len(widths), edges))
    work = _Work(widths, edges, rows_of)
    for _ in range(_SWEEPS):
        work.order(downwards=True)
        work.order(downwards=False)
    work.settle()
    left = min(work.center[v] - work.widths[v] / 2 for v in range(len(work.widths)))
    right = max(work.center[v] + work.widths[v] / 2 for v in range(len(work.widths)))
    x = tuple(round(work.center[v] - width / 2 - left) for v, width in enumerate(widths))
    y = tuple(work.row_of[v] * ROW for v in range(len(widths)))
    bends = {
        edge: tuple((round(work.center[v] - left), work.row_of[v] * ROW + HEIGHT // 2) for v in via)
        for edge, via in work.via.items()
    }
    return Placement(x, y, bends, round(right - left), (len(work.rows) - 1) * ROW + HEIGHT)


def _rows(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The row of each vertex: below all it takes from; what takes nothing stands right above its
    first user."""
    row = [0] * count
    has_source = [False] * count
    below: list[int | None] = [None] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        row[target] = max(row[target], row[source] + 1)
        has_source[target] = True
    for source, target in edges:
        nearest = below[source]
        below[source] = row[target] if nearest is None else min(nearest, row[target])
    for vertex, nearest in enumerate(below):
        if not has_source[vertex] and nearest is not None:
            row[vertex] = nearest - 1
    return row


def _broken(row: Sequence[int]) -> list[int]:
    """The rows with those of more than ``PER_ROW`` vertices broken into several."""
    counts: dict[int, int] = {}
    for number in row:
        counts[number] = counts.get(number, 0) + 1
    first: dict[int, int] = {}
    total = 0
    for number in sorted(counts):
        first[number] = total
        total += -(-counts[number] // PER_ROW)
    seen: dict[int, int] = {}
    result = []
    for number in row:
        position = seen.get(number, 0)
        seen[number] = position + 1
        result.append(first[number] + position // PER_ROW)
    return result


class _Work:
    """Vertices and bends in rows, being ordered and placed."""

    def __init__(
        self, widths: Sequence[float], edges: Sequence[tuple[int, int]], row_of: list[int]
    ) -> None:
        self.widths = list(widths)
        self.row_of = list(row_of)
        self.via: dict[int, list[int]] = {}
        links: list[tuple[int, int]] = []
        for number, (source, target) in enumerate(edges):
            span = self.row_of[target] - self.row_of[source]
            if span > LONGEST:
                continue
            if span == 1:
                links.append((source, target))
                continue
            previous = source
            self.via[number] = []
            for row in range(self.row_of[source] + 1, self.row_of[target]):
                bend = len(self.widths)
                self.widths.append(_BEND)
                self.row_of.append(row)
                self.via[number].append(bend)
                links.append((previous, bend))
                previous = bend
            links.append((previous, target))
        count = len(self.widths)
        self.above: list[list[int]] = [[] for _ in range(count)]
        self.below: list[list[int]] = [[] for _ in range(count)]
        for source, target in links:
            self.above[target].append(source)
            self.below[source].append(target)
        self.rows: list[list[int]] = [[] for _ in range(max(self.row_of) + 1)]
        for vertex in range(count):
            self.rows[self.row_of[vertex]].append(vertex)
        self.center = [0.0] * count
        for members in self.rows:
            self._pack(members)

    def _pack(self, row: Sequence[int]) -> None:
        """Side by side in their order, the middle at 0."""
        at = -(sum(self.widths[v] for v in row) + GAP * (len(row) - 1)) / 2
        for vertex in row:
            self.center[vertex] = at + self.widths[vertex] / 2
            at += self.widths[vertex] + GAP

    def _mean(self, vertex: int, neighbours: Sequence[int]) -> float:
        if not neighbours:
            return self.center[vertex]
        return sum(self.center[other] for other in neighbours) / len(neighbours)

    def order(self, downwards: bool) -> None:
        """Sorts every row by the mean place of what is above it, or below it."""
        neighbours = self.above if downwards else self.below
        for row in self.rows if downwards else reversed(self.rows):
            wanted = {vertex: self._mean(vertex, neighbours[vertex]) for vertex in row}
            row.sort(key=wanted.__getitem__)
            self._pack(row)

    def settle(self) -> None:
        """Moves vertices towards their neighbours; the order in the rows stays."""
        for neighbours, rows in (
            (self.above, self.rows),
            (self.below, self.rows[::-1]),
            (self.above, self.rows),
            (self.below, self.rows[::-1]),
        ):
            for row in rows:
                self._fit(row, [self._mean(vertex, neighbours[vertex]) for vertex in row])

    def _fit(self, row: Sequence[int], wanted: Sequence[float]) -> None:
        """The places nearest to those wanted, by least squares, that keep order and gaps."""
        shift: list[float] = []
        for position, vertex in enumerate(row):
            if position == 0:
                shift.append(0.0)
                continue
            room = (self.widths[row[position - 1]] + self.widths[vertex]) / 2 + GAP
            shift.append(shift[-1] + room)
        # blocks of (sum, count) whose means ascend
        blocks: list[tuple[float, int]] = []
        for goal, moved in zip(wanted, shift, strict=True):
            total, count = goal - moved, 1
            while blocks and blocks[-1][0] * count >= total * blocks[-1][1]:
                before, more = blocks.pop()
                total, count = total + before, count + more
            blocks.append((total, count))
        position = 0
        for total, count in blocks:
            for _ in range(count):
                self.center[row[position]] = total / count + shift[position]
                position += 1
