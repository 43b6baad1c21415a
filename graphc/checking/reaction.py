"""How values react to operands that are off by a unit in the last place.

Role: what rounding on the way makes of a result, found by trying. Invariant: what is tried depends
on the nodes and on what they are given alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from graphc.checking.compare import SLACK, same_bits
from graphc.checking.interpreter import Alter, Budget, evaluate_node
from graphc.ir.attributes import Array
from graphc.ir.dtypes import floating
from graphc.ir.graph import Node
from graphc.ir.host import stand_ins
from graphc.ir.value import Value

ELEMENTS = 4_000_000
"""Graphs that make more elements, or loops that run on and on, are not evaluated."""

NUDGES = 3
"""How often a result is computed from operands that are off by one unit, each element up or down at
random, to see how it reacts."""

Lookup: TypeAlias = Mapping[Value, Array]

_Nudge: TypeAlias = Callable[[Array], Array]


def evaluated(
    nodes: Sequence[Node],
    given: Lookup,
    sizes: Mapping[str, int],
    alter: Alter | None = None,
) -> dict[Value, Array]:
    """What the nodes make; an operand is what is given for it, else what a node before made.

    Python functions are not called: nobody has made them for such operands. Each gives zeros.

    Raises:
        GraphcError: whatever a node raises, or OutOfBudget.
    """
    budget = Budget(ELEMENTS)
    made: dict[Value, Array] = {}
    with np.errstate(all="ignore"), stand_ins():
        for node in nodes:
            # packed, since the order of a sum in NumPy may depend on the layout
            operands = [np.array(given[v] if v in given else made[v]) for v in node.inputs]
            results = evaluate_node(node, operands, sizes, budget, alter)
            made.update(zip(node.outputs, results, strict=True))
    return made


def reaction(
    nodes: Sequence[Node], given: Lookup, sizes: Mapping[str, int], expected: Lookup
) -> dict[Value, tuple[Array, Array]]:
    """How values react to operands that are off by one unit in the last place, everywhere.

    Args:
        nodes: what computes the values.
        given: what the nodes read.
        sizes: of the symbolic dims.
        expected: the values as computed from what is given.

    Returns:
        for each value what it may be off by, and where it is another integer or no number then.
    """
    spread = {value: np.zeros(array.shape) for value, array in expected.items()}
    unstable = {value: np.zeros(array.shape, bool) for value, array in expected.items()}
    inner = (other for node in nodes for region in node.regions for other in region.walk())
    count = len(given) + sum(len(node.outputs) for node in (*nodes, *inner))
    for nudge in _nudges(count):
        nudged = {value: nudge(array) for value, array in given.items()}
        moved = evaluated(nodes, nudged, sizes, _altered(nudge))
        for value, array in expected.items():
            if value not in moved:
                continue
            other = ~same_bits(array, moved[value])
            if not floating(array.dtype):
                unstable[value] |= other
                continue
            with np.errstate(all="ignore"):
                distance = np.abs(moved[value].astype(np.float64) - array)
                finite = np.isfinite(distance)
                unstable[value] |= ~finite & other
                spread[value] = np.maximum(spread[value], np.where(finite, distance, 0))
    return {value: (SLACK * spread[value], unstable[value]) for value in expected}


def _altered(nudge: _Nudge) -> Alter:
    return lambda node, operands, results, sizes: [nudge(array) for array in results]


def _nudges(count: int) -> Iterator[_Nudge]:
    """Ways to nudge ``count`` arrays in turn: by element at random, then whole arrays.

    Any two arrays are nudged apart at least once, so that a difference of two shows what it loses.
    """
    for seed in range(NUDGES):
        random = np.random.default_rng(seed)
        yield partial(_nudged_at_random, random)
    for bit in range(count.bit_length()):
        yield partial(_nudged_in_turn, itertools.count(), bit)


def _nudged_at_random(random: np.random.Generator, array: Array) -> Array:
    return _nudged(array, random.random(array.shape) < 0.5)


def _nudged_in_turn(places: Iterator[int], bit: int, array: Array) -> Array:
    return _nudged(array, bool(next(places) >> bit & 1))


def _nudged(array: Array, up: Array | bool) -> Array:
    """Each float off by one unit in the last place, up or down."""
    if not floating(array.dtype):
        return array
    with np.errstate(all="ignore"):
        toward = np.where(up, np.inf, -np.inf).astype(array.dtype)
        return np.where(np.isfinite(array), np.nextafter(array, toward), array)


__all__ = ["ELEMENTS", "Lookup", "evaluated", "reaction"]
