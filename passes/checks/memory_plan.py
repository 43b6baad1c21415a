"""An independent check of memory plans.

Invariant: shares no code with the planner. ``check`` returns only if the offsets are right for the
problem's sizes and the precedence order keeps every two buffers that are live together apart for
all sizes; else it raises VerifyError naming the buffers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphc.base.errors import VerifyError
from graphc.plan.memory import MemoryProblem, MemorySolution


@dataclass(frozen=True, slots=True)
class _Span:
    """Storage in use during [start, end): `size` bytes for `witness`, in the group of `root`."""

    start: int
    end: int
    size: int
    root: int
    witness: int


def check(problem: MemoryProblem, solution: MemorySolution) -> None:
    """Prove a plan right, in n log n steps for plans of the usual form.

    Raises VerifyError when a table is malformed, alias groups are not honoured, an offset is
    misaligned, two live buffers overlap, the peak or the lower bound is wrong, or the precedence
    order leaves two buffers that are live together unordered.
    """
    _check_tables(problem, solution)
    _check_aliases(problem, solution)
    _check_positions(problem, solution)
    spans = _spans(problem, solution.roots)
    _check_no_overlap(problem, solution, spans)
    _check_bound(solution, spans)
    _check_precedence(problem, solution)


def _label(problem: MemoryProblem, index: int) -> str:
    buffer = problem.buffers[index]
    return f"buffer {index} {buffer.name!r} (live [{buffer.start}, {buffer.end}))"


def _check_tables(problem: MemoryProblem, solution: MemorySolution) -> None:
    count = len(problem.buffers)
    for table, length in (
        ("offsets", len(solution.offsets)),
        ("roots", len(solution.roots)),
        ("alignments", len(solution.alignments)),
        ("predecessors", len(solution.predecessors)),
    ):
        if length != count:
            raise VerifyError(f"memory plan: {length} {table} for {count} buffers")
    indices = (*solution.roots, *solution.order, *(b for p in solution.predecessors for b in p))
    for index in indices:
        if not 0 <= index < count:
            raise VerifyError(f"memory plan: names buffer {index}, there are {count}")


def _check_aliases(problem: MemoryProblem, solution: MemorySolution) -> None:
    """The roots have to describe exactly the partition that the alias constraints generate."""
    adjacent: list[list[int]] = [[] for _ in problem.buffers]
    for group in problem.must_alias:
        for one, two in pairwise(group):
            adjacent[one].append(two)
            adjacent[two].append(one)
    seen = [False] * len(problem.buffers)
    for first in range(len(problem.buffers)):
        if seen[first]:
            continue
        seen[first] = True
        members = [first]
        for member in members:
            for other in adjacent[member]:
                if not seen[other]:
                    seen[other] = True
                    members.append(other)
        alignment = max(problem.buffers[member].alignment for member in members)
        for member in members:
            if solution.roots[member] != first:
                raise VerifyError(
                    f"memory plan: {_label(problem, member)} has to share the storage of "
                    f"{_label(problem, first)} but the plan's root is {solution.roots[member]}"
                )
            if solution.offsets[member] != solution.offsets[first]:
                raise VerifyError(
                    f"memory plan: {_label(problem, member)} at {solution.offsets[member]} and "
                    f"{_label(problem, first)} at {solution.offsets[first]} have to alias"
                )
            if solution.alignments[member] % alignment:
                raise VerifyError(
                    f"memory plan: {_label(problem, member)} is planned with the alignment "
                    f"{solution.alignments[member]}, needed is {alignment}"
                )


def _check_positions(problem: MemoryProblem, solution: MemorySolution) -> None:
    highest = 0
    for index, (buffer, offset) in enumerate(zip(problem.buffers, solution.offsets, strict=True)):
        if offset < 0 or offset % buffer.alignment:
            raise VerifyError(
                f"memory plan: {_label(problem, index)} has the offset {offset}, "
                f"its alignment is {buffer.alignment}"
            )
        highest = max(highest, offset + buffer.size)
    if highest != solution.peak:
        raise VerifyError(f"memory plan: peak given as {solution.peak}, buffers end at {highest}")


def _spans(problem: MemoryProblem, roots: Sequence[int]) -> list[_Span]:
    """Disjoint spans of each group: between its events, the largest member that is then live."""
    grouped: dict[int, list[int]] = {}
    for index, root in enumerate(roots):
        grouped.setdefault(root, []).append(index)
    spans = []
    for root, members in grouped.items():
        if len(members) == 1:
            only = problem.buffers[root]
            spans.append(_Span(only.start, only.end, only.size, root, root))
            continue
        boundaries = sorted(
            {time for m in members for time in (problem.buffers[m].start, problem.buffers[m].end)}
        )
        # Largest members claim their stretches first; `next_free` skips what is taken.
        position = {time: place for place, time in enumerate(boundaries)}
        owner = [-1] * (len(boundaries) - 1)
        next_free = list(range(len(boundaries)))
        for member in sorted(members, key=lambda m: (-problem.buffers[m].size, m)):
            buffer = problem.buffers[member]
            place = _first_free(next_free, position[buffer.start])
            while place < position[buffer.end]:
                owner[place] = member
                next_free[place] = place + 1
                place = _first_free(next_free, place)
        spans.extend(
            _Span(boundaries[place], boundaries[place + 1], _size(problem, member), root, member)
            for place, member in enumerate(owner)
            if member >= 0
        )
    return spans


def _size(problem: MemoryProblem, index: int) -> int:
    return problem.buffers[index].size


def _first_free(next_free: list[int], place: int) -> int:
    free = place
    while next_free[free] != free:
        free = next_free[free]
    while next_free[place] != free and place != free:
        next_free[place], place = free, next_free[place]
    return free


def _timeline(intervals: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(time, 0 for an end and 1 for a start, index), sorted."""
    moments = [(start, 1, index) for index, (start, _) in enumerate(intervals)]
    moments.extend((end, 0, index) for index, (_, end) in enumerate(intervals))
    return sorted(moments)


def _check_no_overlap(
    problem: MemoryProblem, solution: MemorySolution, spans: Sequence[_Span]
) -> None:
    """Sweep over time with the live spans sorted by address: only neighbours can collide."""
    occupied = [span for span in spans if span.size]
    addresses: list[int] = []
    holders: list[_Span] = []
    for _, begins, index in _timeline([(span.start, span.end) for span in occupied]):
        span = occupied[index]
        low = solution.offsets[span.witness]
        at = bisect_left(addresses, low)
        if not begins:
            del addresses[at], holders[at]
            continue
        collision = None
        if at < len(holders) and addresses[at] < low + span.size:
            collision = holders[at]
        elif at and addresses[at - 1] + holders[at - 1].size > low:
            collision = holders[at - 1]
        if collision is not None:
            other_low = solution.offsets[collision.witness]
            raise VerifyError(
                f"memory plan: {_label(problem, collision.witness)} at "
                f"[{other_low}, {other_low + collision.size}) overlaps "
                f"{_label(problem, span.witness)} at [{low}, {low + span.size})"
            )
        addresses.insert(at, low)
        holders.insert(at, span)


def _check_bound(solution: MemorySolution, spans: Sequence[_Span]) -> None:
    total = most = 0
    for _, begins, index in _timeline([(span.start, span.end) for span in spans]):
        total += spans[index].size if begins else -spans[index].size
        most = max(most, total)
    if solution.lower_bound != most:
        raise VerifyError(
            f"memory plan: lower bound given as {solution.lower_bound}, "
            f"the largest sum of live bytes is {most}"
        )


def _check_precedence(problem: MemoryProblem, solution: MemorySolution) -> None:
    """Prove that all groups that are ever live together are ordered, by paths of predecessors.

    A sweep keeps the live groups sorted by their place in `order`. When something is about to end,
    each two neighbours in that list must be connected; then so are all pairs in it, and every
    pair that is live together stands in the list at such a moment. Neighbours that become so
    because a group between them ended are connected through it and need no new proof.
    """
    roots = set(solution.roots)
    place = {root: position for position, root in enumerate(solution.order)}
    if len(place) != len(solution.order) or place.keys() != roots:
        raise VerifyError("memory plan: the order does not list every root once")
    successors: list[list[int]] = [[] for _ in problem.buffers]
    for index, below in enumerate(solution.predecessors):
        if below and index not in roots:
            raise VerifyError(
                f"memory plan: {_label(problem, index)} is not a root but has predecessors"
            )
        for lower in below:
            if lower not in roots or place[lower] >= place[index]:
                raise VerifyError(
                    f"memory plan: {_label(problem, lower)} is a predecessor of "
                    f"{_label(problem, index)} but comes after it or is no root"
                )
            successors[lower].append(index)
    edges = {(lower, upper) for lower, above in enumerate(successors) for upper in above}

    lifetimes: dict[int, tuple[int, int]] = {}
    for root, buffer in zip(solution.roots, problem.buffers, strict=True):
        start, end = lifetimes.get(root, (buffer.start, buffer.end))
        lifetimes[root] = (min(start, buffer.start), max(end, buffer.end))
    groups = list(lifetimes)
    live: list[int] = []
    unproved: set[tuple[int, int]] = set()
    for _, begins, number in _timeline([lifetimes[root] for root in groups]):
        position = place[groups[number]]
        at = bisect_left(live, position)
        if begins:
            lower = live[at - 1] if at else -1
            upper = live[at] if at < len(live) else -1
            live.insert(at, position)
            unproved.discard((lower, upper))
            if lower >= 0:
                unproved.add((lower, position))
            if upper >= 0:
                unproved.add((position, upper))
            continue
        for lower, upper in sorted(unproved):
            one, two = solution.order[lower], solution.order[upper]
            if (one, two) not in edges and not _reaches(place, successors, one, two):
                raise VerifyError(
                    f"memory plan: nothing keeps {_label(problem, one)} and "
                    f"{_label(problem, two)}, live together, apart for other sizes"
                )
        unproved.clear()
        live.pop(at)


def _reaches(
    place: dict[int, int], successors: Sequence[Sequence[int]], lower: int, upper: int
) -> bool:
    """Whether a path of predecessors leads from `upper` to `lower`."""
    seen = {lower}
    pending = [lower]
    while pending:
        for following in successors[pending.pop()]:
            if following == upper:
                return True
            if following not in seen and place[following] < place[upper]:
                seen.add(following)
                pending.append(following)
    return False
