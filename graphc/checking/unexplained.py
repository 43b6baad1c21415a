"""Whether the freedom of class R explains the difference of two computations of one value.

Rounding on the way explains some differences (``reaction``), partial results that leave the range
explain others (``partial_results``). Both are looked for only where a difference is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphc.checking.compare import Difference, difference, tolerance_of
from graphc.checking.partial_results import open_places
from graphc.checking.reaction import Lookup, reaction
from graphc.ir.attributes import Array
from graphc.ir.graph import Node
from graphc.ir.value import Value


def unexplained(
    nodes: Sequence[Node],
    given: Lookup,
    sizes: Mapping[str, int],
    value: Value,
    expected: Array,
    array: Array,
    *,
    loose: bool = True,
    finite: bool = False,
    accepted: Array | bool = False,
    judged: Array | bool = False,
) -> Difference | None:
    """The difference of a value that is computed in two ways; None if what is open explains it.

    Args:
        nodes: what computes the value of what is given.
        given: arrays by value.
        sizes: of the symbolic dims.
        value: what is compared.
        expected: what the nodes give.
        array: what the other way gives.
        loose: whether any bits are open.
        finite: judge only where ``expected`` is finite, if bits are open.
        accepted: where ``array`` is right whatever it is.
        judged: where ``array`` counts even if partial results leave the range.

    Raises:
        GraphcError: whatever a node raises, or OutOfBudget.
    """
    if not loose:
        return difference(expected, array, accepted=accepted)
    tolerance = tolerance_of(expected.dtype)
    found = difference(expected, array, tolerance, finite=finite, accepted=accepted)
    if found is None:
        return None
    # where a tiny change makes another integer, or a number of a NaN, both results are right
    spread, unstable = reaction(nodes, given, sizes, {value: expected})[value]
    accepted = accepted | unstable
    found = difference(
        expected, array, tolerance, allowance=spread, finite=finite, accepted=accepted
    )
    if found is None:
        return None
    left = open_places(nodes, given, sizes, value)
    accepted = accepted | np.logical_and(left, np.logical_not(judged))
    return difference(
        expected, array, tolerance, allowance=spread, finite=finite, accepted=accepted
    )


__all__ = ["unexplained"]
