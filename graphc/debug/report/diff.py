"""What a pass changed: two graphs side by side, row by row.

A node is known by its first output, since a rewriting that keeps the type redefines the same value.
Nodes that are on both sides in the same order share a row; what is on one side only, or stands
elsewhere on the other, has a row of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal

Sign = Literal["=", "~", "-", "+", "<", ">"]
"""Same, changed, removed, added; moved: its place before, its place after."""

Run = tuple[Sign, int, int, int]
"""Rows of one sign: first place before, first place after, how many."""


def rows_between(before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]) -> list[Run]:
    """The rows of a comparison, n log n. Nodes are given as (value, content), both numbers."""
    old = {value: place for place, (value, _) in enumerate(before)}
    shared = [(old[value], place) for place, (value, _) in enumerate(after) if value in old]
    aligned = _longest_ascending(shared)
    new = {value for value, _ in after}
    rows: list[tuple[Sign, int, int]] = []
    at_old = at_new = 0
    for left, right in (*aligned, (len(before), len(after))):
        for place in range(at_old, left):
            rows.append(("<" if before[place][0] in new else "-", place, at_new))
        for place in range(at_new, right):
            rows.append((">" if after[place][0] in old else "+", left, place))
        if left < len(before):
            same = before[left][1] == after[right][1]
            rows.append(("=" if same else "~", left, right))
        at_old, at_new = left + 1, right + 1
    return _runs(rows)


def _longest_ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most pairs, ordered by the second, whose first ascend too (patience sorting)."""
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for number, (first, _) in enumerate(pairs):
        place = bisect_left(ends, first)
        previous.append(last[place - 1] if place else -1)
        if place == len(ends):
            ends.append(first)
            last.append(number)
        else:
            ends[place], last[place] = first, number
    result = []
    number = last[-1] if last else -1
    while number >= 0:
        result.append(pairs[number])
        number = previous[number]
    return result[::-1]


def _runs(rows: Sequence[tuple[Sign, int, int]]) -> list[Run]:
    """Rows of one sign that follow each other, as one entry."""
    result: list[Run] = []
    for sign, left, right in rows:
        if result and result[-1][0] == sign:
            _, first_left, first_right, count = result[-1]
            step_left = count if sign not in "+>" else 0
            step_right = count if sign not in "-<" else 0
            if (left, right) == (first_left + step_left, first_right + step_right):
                result[-1] = (sign, first_left, first_right, count + 1)
                continue
        result.append((sign, left, right, 1))
    return result
