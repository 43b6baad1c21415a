"""In which order to multiply several tensors that share labelled axes.

Role: the plan of ``einsum``. Up to ``EXACT`` operands the order with the fewest multiplications is
found by dynamic programming over subsets (the bushy-tree search of query planning); beyond that the
pair that shrinks the data most goes first. Invariant: the order depends on labels and sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

_Volume: TypeAlias = Callable[[int], int]

EXACT = 8
"""The largest number of operands whose best order is searched for."""


def contraction_order(
    operands: Sequence[Collection[Hashable]],
    output: Collection[Hashable],
    sizes: Mapping[Hashable, int],
) -> list[tuple[int, int]]:
    """Pairs of tensors to contract: operands by position, then the results, numbered onwards.

    Args:
        operands: the labels of each tensor.
        output: the labels that stay; others are summed as soon as no other tensor has them.
        sizes: the length of each label's axis; empty ones count as 1.
    """
    bits = {label: 1 << number for number, label in enumerate(sizes)}
    lengths = [max(size, 1) for size in sizes.values()]

    def mask(labels: Collection[Hashable]) -> int:
        result = 0
        for label in labels:
            result |= bits[label]
        return result

    @cache
    def volume(labels: int) -> int:
        """The number of elements of a tensor with these labels."""
        result = 1
        while labels:
            lowest = labels & -labels
            result *= lengths[lowest.bit_length() - 1]
            labels ^= lowest
        return result

    masks = [mask(labels) for labels in operands]
    if len(masks) <= EXACT:
        return _exact(masks, mask(output), volume)
    return _greedy(masks, mask(output), volume)


def _exact(masks: Sequence[int], output: int, volume: _Volume) -> list[tuple[int, int]]:
    """The cheapest tree; among equals the one whose intermediate tensors are smaller in sum."""
    count = len(masks)
    whole = (1 << count) - 1
    union = [0] * (whole + 1)
    for subset in range(1, whole + 1):
        lowest = subset & -subset
        union[subset] = union[subset ^ lowest] | masks[lowest.bit_length() - 1]
    # What of a subset's labels is left once it is one tensor.
    left = [union[s] & (union[whole ^ s] | output) for s in range(whole + 1)]
    costs: list[tuple[int, int]] = [(0, 0)] * (whole + 1)
    splits = [0] * (whole + 1)
    for subset in range(1, whole + 1):
        lowest = subset & -subset
        others = subset ^ lowest
        if not others:
            continue
        best: tuple[int, int] | None = None
        rest = others
        while rest:
            first = subset ^ rest
            work = volume(left[first] | left[rest])
            cost = (
                costs[first][0] + costs[rest][0] + work,
                costs[first][1] + costs[rest][1] + volume(left[subset]),
            )
            if best is None or cost < best:
                best, splits[subset] = cost, first
            rest = (rest - 1) & others
        assert best is not None
        costs[subset] = best
    return _steps(whole, splits, count)


def _steps(whole: int, splits: Sequence[int], count: int) -> list[tuple[int, int]]:
    """The contractions of a tree of subsets, inner ones first."""
    numbers = {1 << position: position for position in range(count)}
    order: list[tuple[int, int]] = []
    stack = [whole]
    while stack:
        subset = stack[-1]
        if subset in numbers:
            stack.pop()
            continue
        parts = (splits[subset], subset ^ splits[subset])
        missing = [part for part in parts if part not in numbers]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        numbers[subset] = count + len(order)
        order.append((numbers[parts[0]], numbers[parts[1]]))
    return order


def _greedy(masks: Sequence[int], output: int, volume: _Volume) -> list[tuple[int, int]]:
    """The pair that shrinks the data most, again and again; among equals the one of less work."""
    tensors = dict(enumerate(masks))
    order: list[tuple[int, int]] = []
    for number in range(len(masks), 2 * len(masks) - 1):
        once = twice = thrice = 0
        for labels in tensors.values():
            thrice |= twice & labels
            twice |= once & labels
            once |= labels
        beside, beyond = twice | output, thrice | output
        choices = []
        items = list(tensors.items())
        for place, (first, a) in enumerate(items):
            for second, b in items[place + 1 :]:
                result = (a & b & beyond) | ((a ^ b) & beside)
                growth = volume(result) - volume(a) - volume(b)
                choices.append((growth, volume(a | b), first, second, result))
        _, _, first, second, result = min(choices)
        del tensors[first], tensors[second]
        tensors[number] = result
        order.append((first, second))
    return order
