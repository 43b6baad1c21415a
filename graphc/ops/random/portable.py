"""Functions of floats with the same bits on every target, for draws that are made by rejection.

Other functions of graphc use fused multiply-add where there is one, so their last bits differ
between processors. A comparison of such bits would let draws differ altogether.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import COMPUTED_FLOATS, FLOATS, float64
from graphc.ir.lowering import ElementBuilder, Scalar
from graphc.ir.op import NotDifferentiable, OpDef
from graphc.ir.value import Value
from graphc.ops.declare import pointwise
from graphc.ops.lanes import Lane, array_of, lanes
from graphc.ops.random.elements import exp_any, log_any


def _portable(
    name: str, doc: str, dtypes: Any, formula: Callable[[Lane], Lane], low: float, high: float
) -> OpDef:
    """A function of one float by a formula of exact operations."""

    def scalars(b: ElementBuilder, operands: Sequence[Scalar], attrs: Attributes) -> Scalar:
        found: Scalar = formula(Lane(b, operands[0])).scalar
        return found

    def reference(x: Any, **attrs: Any) -> Any:
        array = np.asarray(x)
        (lane,) = lanes(array)
        return array_of(formula(lane), array.shape)

    return pointwise(
        name,
        doc,
        dtypes,
        scalars=scalars,
        reference=reference,
        derivative=NotDifferentiable("it is a step of draws that are made by rejection"),
        numerics="R",
        max_ulp=2.0,
        arity=1,
        low=low,
        high=high,
    )


log_op = _portable(
    "portable_log",
    "The natural logarithm within 2 ulp, with the same bits on every target.",
    COMPUTED_FLOATS, log_any, 0.0, 9.0,
)  # fmt: skip

exp_op = _portable(
    "portable_exp",
    "e to the power of x within 2 ulp, with the same bits on every target; 0 below -708.",
    (float64,), exp_any, -9.0, 9.0,
)  # fmt: skip

rejected_op = pointwise(
    "rejected",
    "Its operand: what was drawn by rejection.",
    FLOATS,
    scalars=lambda b, operands, attrs: operands[0],
    reference=lambda x, **attrs: x,
    derivative=NotDifferentiable(
        "draws of gamma, beta, dirichlet and truncated_normal are made by rejection, so they are "
        "no smooth function of their parameters; scale or shift draws of fixed ones, or give the "
        "gradient of the expectation by the logarithm of the density"
    ),
    arity=1,
)


def log(x: Value) -> Value:
    """The natural logarithm."""
    return apply(log_op, x)


def exp(x: Value) -> Value:
    """e to the power of a float64."""
    return apply(exp_op, x)


def rejected(x: Value) -> Value:
    """The draws themselves, of which asking for a derivative tells why there is none."""
    return apply(rejected_op, x)


__all__ = ["exp", "log", "rejected"]
