"""Loops that a lane may leave before others do: in the trips left it keeps what it has.

    while(%i, %z, %goes) {
      condition: %i < 200 and any(%goes)
      body:      %next = where(%goes, %z * %z, %z)
                 return %i + 1, %next, abs(%next) < 2 }

A lane whose ``%goes`` is false is at a fixed point: the body gives it the variables that it had. So
it may run ``while %i < 200 and %goes``. This is proved here: equal values of the body get equal
numbers (value numbering), and what the assumption that ``%goes`` is false decides is folded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from graphc.ir import attributes
from graphc.ir.attributes import Array
from graphc.ir.dtypes import DType, bool_
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.loops import Producer, WhileLoop
from graphc.ops.move.shape import broadcast_to_op, reshape_op
from graphc.ops.pointwise.arithmetic import add_op, subtract_op
from graphc.ops.pointwise.logic import (
    astype_op,
    bitwise_and_op,
    bitwise_not_op,
    bitwise_or_op,
    where_op,
)
from graphc.ops.reduce.core import reduce_any_op
from graphc.ops.source import constant_op

_BEFORE = -1
"""Stands for the variables as they were before a trip."""


def own_condition(loop: WhileLoop) -> Value | None:
    """What says of each lane whether it goes on, in ``while i < bound and any(goes)``: a value of
    the condition's region. None unless a lane that doesn't go on keeps its variables."""
    counter, told = loop.limit()
    goes = None if counter is None or told is None else _asked_of_any(loop.condition, told)
    if goes is None or loop.written_rows() or loop.node.may_fail_within:
        return None
    shapes = [value.shape for value in loop.start]
    if any(shape not in ((), goes.shape) for shape in shapes):
        return None
    lanes = frozenset(place for place, shape in enumerate(shapes) if shape)
    return goes if _keeps(loop, goes, lanes) else None


def _asked_of_any(condition: Graph, told: Value) -> Value | None:
    """The bools of lanes that a bool is the ``any`` of."""
    if told.shape != ():
        return None
    node, asked = condition.producers.get(told), told
    # lanes along several axes are one axis to a reduction, a single lane needs none
    while node is not None and node.op in (reduce_any_op, reshape_op):
        (asked,) = node.inputs
        node = condition.producers.get(asked)
    return asked if asked.shape else None


def _keeps(loop: WhileLoop, goes: Value, lanes: frozenset[int]) -> bool:
    """Whether a lane keeps its variables once it doesn't go on."""
    numbers = _Numbers(loop)
    told = numbers.of(loop.condition, numbers.variables(loop.condition))[goes]
    is_false = {told}
    own = next((place for place in lanes if numbers.variable(place) == told), None)
    if own is not None:
        # from the first trip on it is what the body makes of the other variables
        if not _is_true(loop.start[own], loop.producer):
            return False
        results = {loop.body.outputs[n]: numbers.variable(n) for n in lanes if n != own}
        made = numbers.of(loop.body, {**numbers.before(loop.body), **results})
        told = made[loop.body.outputs[own]]
        is_false.add(told)
    if not numbers.made_of(told) <= lanes - {own}:
        return False
    known = numbers.of(loop.body, numbers.variables(loop.body), is_false)
    kept = {place: numbers.variable(place) for place in lanes}
    if own is not None:
        kept[own] = numbers.zero(bool_)
    return all(known[loop.body.outputs[place]] == number for place, number in kept.items())


def _is_true(value: Value, producer: Producer) -> bool:
    """Whether a value is known to be true everywhere."""
    node = producer(value)
    while node is not None and node.op in (broadcast_to_op, reshape_op):
        node = producer(node.inputs[0])
    return node is not None and node.op is constant_op and bool(node.attrs["value"].array.all())


class _Numbers:
    """Numbers for the values of a loop's regions: equal numbers are equal values."""

    def __init__(self, loop: WhileLoop) -> None:
        self._loop = loop
        self._numbers: dict[Hashable, int] = {}
        self._made_of: list[frozenset[int]] = []
        self._constants: set[int] = set()

    def variable(self, place: int) -> int:
        """A variable of the loop."""
        return self._number(("variable", place), {place})

    def zero(self, dtype: DType) -> int:
        """Zero of a dtype; of bools what is false."""
        return self._constant(np.zeros((), dtype.numpy))

    def made_of(self, number: int) -> frozenset[int]:
        """The places of the variables that a value is computed of."""
        return self._made_of[number]

    def variables(self, region: Graph) -> dict[Value, int]:
        """The inputs of a region that runs with these variables."""
        own = region.inputs[: self._loop.count]
        named = {value: self.variable(place) for place, value in enumerate(own)}
        return named | self._captured(region)

    def before(self, region: Graph) -> dict[Value, int]:
        """The inputs of a region that makes the variables of others."""
        own = region.inputs[: self._loop.count]
        named = {v: self._number(("before", n), {_BEFORE}) for n, v in enumerate(own)}
        return named | self._captured(region)

    def _captured(self, region: Graph) -> dict[Value, int]:
        outside = zip(region.inputs[self._loop.count :], self._loop.captured, strict=True)
        return {own: self._number(("captured", value), ()) for own, value in outside}

    def of(
        self, region: Graph, known: Mapping[Value, int], is_false: Iterable[int] = ()
    ) -> Mapping[Value, int]:
        """The numbers of all values of a region.

        Args:
            known: those that need not be looked at, its inputs among them.
            is_false: those of bools that are assumed to be false.
        """
        assumed = dict.fromkeys(is_false, self.zero(bool_))
        found = {value: assumed.get(number, number) for value, number in known.items()}
        for node in region.nodes:
            for value in node.outputs:
                if value not in found:
                    number = self._of(node, value, [found[v] for v in node.inputs])
                    found[value] = assumed.get(number, number)
        return found

    def _of(self, node: Node, value: Value, operands: Sequence[int]) -> int:
        """The number of what a node makes of values of these numbers."""
        if node.op is constant_op and value.size == 1:
            return self._constant(node.attrs["value"].array)
        folded = self._folded(node, value, operands)
        if folded is not None:
            return folded
        made_of = frozenset[int]().union(*map(self.made_of, operands))
        if node.regions:
            return self._number(("alone", value), {*made_of, _BEFORE})
        place = node.outputs.index(value)
        # a constant has one number in all shapes, on which pointwise work alone does not depend
        shapes = () if node.op.lowering.is_pointwise else tuple([v.shape for v in node.inputs])
        key = (node.op, place, attributes.keys(node.attrs), shapes, *operands)
        return self._number(key, made_of)

    def _folded(self, node: Node, value: Value, operands: Sequence[int]) -> int | None:
        """The number that the operands decide; None if they don't."""
        op, true, false = node.op, self._constant(np.ones((), bool)), self.zero(bool_)
        first = operands[0] if operands else None
        if op is broadcast_to_op and node.inputs[0].size == 1 and first in self._constants:
            return first
        if op is where_op and first in (true, false):
            return operands[1] if first == true else operands[2]
        if op is astype_op and first == false:
            return self.zero(value.dtype)
        if op is bitwise_not_op and first in (true, false):
            return false if first == true else true
        if op in (bitwise_and_op, bitwise_or_op) and value.dtype is bool_:
            decides, other = (false, true) if op is bitwise_and_op else (true, false)
            if decides in operands:
                return decides
            return self._without(other, operands)
        if op in (add_op, subtract_op) and value.dtype.is_integer:
            zero = self.zero(value.dtype)
            if op is add_op or operands[1] == zero:
                return self._without(zero, operands)
        return None

    @staticmethod
    def _without(neutral: int, operands: Sequence[int]) -> int | None:
        """The other one of two operands, if one changes nothing."""
        one, other = operands
        return other if one == neutral else one if other == neutral else None

    def _constant(self, array: Array) -> int:
        number = self._number(("constant", array.dtype.name, array.tobytes()), ())
        self._constants.add(number)
        return number

    def _number(self, key: Hashable, made_of: Iterable[int]) -> int:
        number = self._numbers.setdefault(key, len(self._made_of))
        if number == len(self._made_of):
            self._made_of.append(frozenset(made_of))
        return number


__all__ = ["own_condition"]
