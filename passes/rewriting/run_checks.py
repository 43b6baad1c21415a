"""Which checks at run time the computing of a value includes, so that no rule drops one.

A run that needs a value fails if an index on the way is out of range, or a matrix singular. A value
that nobody needs is not computed, and nothing of it is checked. A value that was needed stays
checked when a rule finds that its bits don't matter, as those of ``take(x, i) * 0``. Invariant:
linear in the nodes asked about, because sets are shared and large ones are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.indexing.core import take_op
from passes.rewriting.constants import Producer, known

_MANY = 8
"""If at least this many checks lie behind a value, the value itself stands for them: that keeps the
analysis linear."""

_NONE: frozenset[Value] = frozenset()


class RunChecks:
    """The checks behind values; those of a value stay known when a rule redefines it.

    Attributes:
        any: whether a node may fail at all.
    """

    def __init__(self, graph: Graph) -> None:
        # few operations are distinct, so most graphs are settled by these
        ops = {node.op for node in graph.nodes}
        may_check = graph.has_regions or any(op.may_fail for op in ops)
        self.any = may_check and any(node.may_fail_within for node in graph.nodes)
        self._behind: dict[Value, frozenset[Value]] = {}

    def are_lost(self, dropped: Iterable[Value], made: Sequence[Node], new: Value,
                 producer: Producer) -> bool:  # fmt: skip
        """Whether a check behind a dropped value is behind nothing that a right side reads."""
        if not self.any:
            return False
        before = self._of_all(dropped, producer)
        if not before:
            return False
        read = [value for node in made for value in node.inputs] or [new]
        own = {value for node in made for value in node.outputs}
        return not before <= self._of_all((v for v in read if v not in own), producer)

    def _of_all(self, values: Iterable[Value], producer: Producer) -> frozenset[Value]:
        return _NONE.union(*(self._of(value, producer) for value in values))

    def _of(self, value: Value, producer: Producer) -> frozenset[Value]:
        stack = [value]
        while stack:
            current = stack[-1]
            node = producer(current)
            if current in self._behind or node is None:
                self._behind.setdefault(current, _NONE)
                stack.pop()
                continue
            waiting = [operand for operand in node.inputs if operand not in self._behind]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            found = _joined([self._behind[operand] for operand in node.inputs], current)
            if node.may_fail_within and not _holds(node, producer):
                found |= {current}
            self._behind[current] = found
        return self._behind[value]


def _joined(sets: Sequence[frozenset[Value]], value: Value) -> frozenset[Value]:
    """The union, one of the sets themselves where that is all there is."""
    result = _NONE
    for one in sets:
        if one and one is not result:
            result = result | one if result else one
    return result if len(result) < _MANY else frozenset({value})


def _holds(node: Node, producer: Producer) -> bool:
    """Whether all indices are known and in range."""
    if node.op is not take_op:
        return False
    size = node.inputs[0].shape[node.attrs["axis"]]
    indices = known(node.inputs[1], producer)
    if indices is None or not isinstance(size, int):
        return False
    return bool(np.all((indices.array >= -size) & (indices.array < size)))
