"""What flags of fast math choose: functions of a faster class, multiplication fused with addition.

Only the pass ``relax`` makes these ops, after differentiation. Invariant: an approximate function
means what the accurate one means; it is special values aside only farther from it (``max_ulp``).
"""

from __future__ import annotations

from graphc.ir.builder import apply
from graphc.ir.dtypes import COMPUTED_FLOATS
from graphc.ir.op import NotDifferentiable, OpDef
from graphc.ir.value import Value
from graphc.ops.declare import pointwise
from graphc.ops.pointwise.math import (
    cos_op,
    erf_op,
    erfc_op,
    log_op,
    sigmoid_op,
    sin_op,
    tanh_op,
)

_CHOSEN_LATE = NotDifferentiable("the compiler makes it after differentiation")


def _approximate(accurate: OpDef, max_ulp: float) -> OpDef:
    """The faster twin of a function."""
    return pointwise(
        f"{accurate.name}_approx",
        f"{accurate.name}, faster and less accurate; the flag `approx` lets the compiler take it.",
        accurate.domain.dtypes,
        derivative=_CHOSEN_LATE,
        reference=accurate.reference,
        numerics="R",
        algebra=accurate.algebra,
        low=accurate.domain.low,
        high=accurate.domain.high,
        max_ulp=max_ulp,
    )


APPROXIMATE: dict[OpDef, OpDef] = {
    accurate: _approximate(accurate, max_ulp)
    for accurate, max_ulp in (
        (log_op, 4.5),
        (tanh_op, 7.0),
        (sigmoid_op, 6.0),
        (erf_op, 8.0),
        (erfc_op, 6.5),
        (sin_op, 3.0),
        (cos_op, 3.5),
    )
}
"""The faster twins of functions, by the accurate op."""

fma_op = pointwise(
    "fma",
    "x * y + z, rounded once; the flag `contract` lets the compiler take it.",
    COMPUTED_FLOATS,
    derivative=_CHOSEN_LATE,
)


def approximate(accurate: OpDef, x: Value) -> Value:
    """The faster twin of a function, applied."""
    return apply(APPROXIMATE[accurate], x)


def fma(x: Value, y: Value, z: Value) -> Value:
    """x * y + z, rounded once; the operands broadcast and have one dtype of floats."""
    return apply(fma_op, x, y, z)
