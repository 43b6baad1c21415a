"""Formulas over scalars that are both the lowering of an operation and its meaning in NumPy.

A formula is written once with Python's operators on ``Lane``. Over the builder of kernels it emits
scalars; over ``Arrays`` it computes whole arrays by the references of the same primitives. Where
these are exact both agree to the bit, on every target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from graphc.ir.dtypes import DType
from graphc.ir.dtypes import dtype as as_dtype
from graphc.kernel.scalar import PRIMITIVES, cast


@dataclass(frozen=True, slots=True)
class Computed:
    """What ``Arrays`` takes for a scalar: the scalars of all elements at once."""

    dtype: DType
    array: Any


class Arrays:
    """The builder of scalars that computes them at once, in NumPy."""

    def constant(self, value: bool | int | float, dtype: DType) -> Computed:
        return Computed(dtype, np.asarray(value, dtype.numpy))

    def apply(self, primitive: str, *operands: Any) -> Computed:
        definition = PRIMITIVES[primitive]
        result = definition.result_dtype([operand.dtype for operand in operands])
        found = definition.reference(*[operand.array for operand in operands])
        return Computed(result, np.asarray(found))

    def cast(self, operand: Any, dtype: DType) -> Computed:
        return Computed(dtype, np.asarray(cast(operand.array, dtype)))

    def repeated(
        self,
        rows: Sequence[Sequence[float]],
        state: Sequence[Any],
        step: Callable[..., Sequence[Any]],
    ) -> Sequence[Any]:
        element = state[0].dtype
        for row in rows:
            state = step(state, *(self.constant(number, element) for number in row))
        return state


class Lane:
    """A scalar under construction, with operators; numbers beside it are of its dtype."""

    __slots__ = ("b", "scalar")

    def __init__(self, b: Any, scalar: Any) -> None:
        self.b = b
        self.scalar = scalar

    @property
    def dtype(self) -> DType:
        found: DType = self.scalar.dtype
        return found

    def __bool__(self) -> NoReturn:
        raise TypeError("what a scalar is only a run tells; use where")

    def like(self, other: Lane | float) -> Lane:
        """A number as a scalar of this dtype."""
        if isinstance(other, Lane):
            return other
        return Lane(self.b, self.b.constant(other, self.dtype))

    def of(self, primitive: str, *others: Lane | float) -> Lane:
        """A primitive of this and others."""
        operands = [self.scalar, *[self.like(other).scalar for other in others]]
        return Lane(self.b, self.b.apply(primitive, *operands))

    def to(self, dtype: DType) -> Lane:
        """The value in another dtype."""
        return Lane(self.b, self.b.cast(self.scalar, dtype))

    def __add__(self, other: Lane | float) -> Lane:
        return self.of("add", other)

    def __sub__(self, other: Lane | float) -> Lane:
        return self.of("subtract", other)

    def __rsub__(self, other: float) -> Lane:
        return self.like(other).of("subtract", self)

    def __mul__(self, other: Lane | float) -> Lane:
        return self.of("multiply", other)

    def __truediv__(self, other: Lane | float) -> Lane:
        return self.of("divide", other)

    def __rtruediv__(self, other: float) -> Lane:
        return self.like(other).of("divide", self)

    def __neg__(self) -> Lane:
        return self.of("negative")

    def __and__(self, other: Lane | int) -> Lane:
        return self.of("and", other)

    def __or__(self, other: Lane | int) -> Lane:
        return self.of("or", other)

    def __xor__(self, other: Lane | int) -> Lane:
        return self.of("xor", other)

    def __invert__(self) -> Lane:
        return self.of("not")

    def __lshift__(self, count: Lane | int) -> Lane:
        return self.of("left_shift", count)

    def __rshift__(self, count: Lane | int) -> Lane:
        return self.of("right_shift", count)

    def where(self, one: Lane | float, other: Lane) -> Lane:
        """Of two values the one where this holds, else the other."""
        chosen = other.like(one).scalar
        return Lane(self.b, self.b.apply("select", self.scalar, chosen, other.scalar))


def repeated(
    rows: Sequence[Sequence[float]],
    state: Sequence[Lane],
    step: Callable[..., Sequence[Lane]],
) -> list[Lane]:
    """A state of scalars after a step for each row of a table: a loop in machine code.

    Args:
        rows: numbers, as many in each row.
        state: scalars of one dtype of floats, which the numbers become too.
        step: ``step(state, *row)`` gives the next state.
    """
    b = state[0].b

    def scalars(state: Sequence[Any], *row: Any) -> list[Any]:
        given = [Lane(b, scalar) for scalar in state]
        return [lane.scalar for lane in step(given, *(Lane(b, number) for number in row))]

    found = b.repeated(rows, [lane.scalar for lane in state], scalars)
    return [Lane(b, scalar) for scalar in found]


def lanes(*arrays: Any) -> list[Lane]:
    """Arrays as scalars of a formula."""
    b = Arrays()
    return [Lane(b, Computed(as_dtype(array.dtype), np.asarray(array))) for array in arrays]


def array_of(lane: Lane, shape: Sequence[int]) -> Any:
    """What a formula over arrays gives, in a shape that it broadcasts to."""
    return np.broadcast_to(lane.scalar.array, tuple(shape)).copy()


def polynomial(x: Lane, coefficients: Sequence[float]) -> Lane:
    """By Horner's rule, the highest power first."""
    result = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result
