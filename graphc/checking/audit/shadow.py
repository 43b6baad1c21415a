"""Shadows: what a node would give if numbers had more digits.

Role: the arithmetic of the numerics audit. A shadow holds floats wider than the program does and
evaluates one node on them. Invariant: integers, bools and whatever else is discrete are those of
the audited program, so that a shadow never takes another branch, mask or index than the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphc.checking.interpreter import resolve
from graphc.ir.attributes import Array
from graphc.ir.graph import Node
from graphc.ir.value import Value
from graphc.ops.pointwise.arithmetic import add_op, subtract_op
from graphc.ops.pointwise.logic import astype_op
from graphc.ops.pointwise.precision import reduce_precision_op
from graphc.ops.reduce.axes import sum_op
from graphc.ops.reduce.core import reduce_sum_op
from graphc.ops.reduce.statistics import mean_op

Wide: TypeAlias = Array
"""A shadow of an array of floats, in a form that only its ``Shadow`` knows."""

Doubles: TypeAlias = NDArray[np.float64]

_SUMS = frozenset({add_op, sum_op, mean_op, reduce_sum_op})


class Shadow(Protocol):
    """An arithmetic wider than the audited one."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def digits(self) -> int:
        """Bits of its significands."""

    def widen(self, array: Array) -> Wide:
        """The same numbers."""

    def evaluate(
        self, node: Node, operands: Sequence[Array], sizes: Mapping[str, int]
    ) -> list[Wide | None]:
        """The node's float outputs from wide floats and plain others; None for other outputs.

        ``sizes`` are those of the symbolic dims.

        Raises:
            UnsupportedError: for an op that this arithmetic does not have.
        """

    def parts(self, wide: Wide) -> tuple[Doubles, Doubles]:
        """The numbers as sums of a float64 and a remainder below half its last place."""


class DoubleShadow:
    """float64, by the references of the ops; for programs that compute in float32."""

    name = "float64"
    digits = 53

    def widen(self, array: Array) -> Wide:
        """The same numbers in float64."""
        return np.asarray(array, np.float64)

    def evaluate(
        self, node: Node, operands: Sequence[Array], sizes: Mapping[str, int]
    ) -> list[Wide | None]:
        """The node's reference on float64."""
        if node.op is astype_op or node.op is reduce_precision_op:
            return [np.asarray(operands[0], np.float64)]
        with np.errstate(all="ignore"):
            results = node.op.reference(*operands, **numeric_attributes(node, sizes))
        if not isinstance(results, tuple):
            results = (results,)
        return [
            np.asarray(result, np.float64) if value.dtype.is_float else None
            for value, result in zip(node.outputs, results, strict=True)
        ]

    def parts(self, wide: Wide) -> tuple[Doubles, Doubles]:
        """The numbers, and zeros."""
        return wide, np.zeros_like(wide)


def numeric_attributes(node: Node, sizes: Mapping[str, int]) -> dict[str, Any]:
    """What the node's reference takes beside its operands: no dims are symbolic any more."""
    return {name: resolve(attribute, sizes) for name, attribute in node.attrs.items()}


def is_float(value: Value) -> bool:
    """True for values that have a shadow."""
    return value.dtype.is_float


def sum_of_magnitudes(
    node: Node, operands: Sequence[Doubles], sizes: Mapping[str, int]
) -> Doubles | None:
    """Of an op that adds: what it would give if all terms had one sign; None for other ops.

    Its ratio to the real sum is what cancellation loses.
    """
    magnitudes = [np.abs(operand) for operand in operands]
    with np.errstate(all="ignore"):
        if node.op is subtract_op:
            return np.asarray(np.add(*magnitudes))
        kind = node.op.lowering
        if node.op in _SUMS or kind.is_product or kind.running == "add":
            return np.asarray(node.op.reference(*magnitudes, **numeric_attributes(node, sizes)))
    return None
