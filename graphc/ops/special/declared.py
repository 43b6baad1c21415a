"""How the special functions are declared: each by one formula in float64.

Invariant: a result is the formula's, rounded once to the dtype of the operands. So narrower floats
are right to about half a unit in the last place wherever float64 has digits to spare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.dtypes import FLOATS, float64
from graphc.ir.lowering import ElementBuilder, Scalar
from graphc.ir.op import Algebra, Derivative, OpDef
from graphc.kernel.scalar import declare_function
from graphc.ops.declare import Example, PartialsRule, pointwise, through_float64
from graphc.ops.lanes import Lane, array_of, lanes, polynomial

NAN, INFINITY = math.nan, math.inf

FORMULAS: dict[str, Callable[..., Lane]] = {}
"""By the name of the operation, for whoever computes in wider numbers."""


CALLED: dict[str, Callable[..., Lane]] = {}
"""Those that kernels call, by the name of the primitive."""


def by_formula(
    name: str,
    doc: str,
    formula: Callable[..., Lane],
    *,
    max_ulp: float,
    partials: PartialsRule | None = None,
    derivative: Derivative | None = None,
    arity: int = 1,
    algebra: Algebra | None = None,
    low: float = -4.0,
    high: float = 4.0,
    differentiable: tuple[float, float] | None = None,
    example: Example | None = None,
    weight: int = 0,
) -> OpDef:
    """Declares a function of floats by a formula over float64 scalars.

    With a ``weight``, how many elementary functions take as long, kernels call it: the formula is a
    function of its own, and may have loops (``graphc.ops.lanes.repeated``).
    """

    FORMULAS[name] = formula

    def scalars(b: ElementBuilder, operands: Sequence[Scalar], attrs: Attributes) -> Scalar:
        given = operands[0].dtype
        wide = [Lane(b, x).to(float64) for x in operands]
        result = wide[0].of(name, *wide[1:]) if weight else formula(*wide)
        found: Scalar = result.to(given).scalar
        return found

    def of_arrays(*arrays: Any) -> Any:
        wide = np.broadcast_arrays(*arrays)
        return array_of(formula(*lanes(*wide)), wide[0].shape)

    meaning = through_float64(of_arrays)
    if weight:
        CALLED[name] = formula
        declare_function(name, arity, meaning, weight)

    def reference(*arrays: Any, **attrs: Any) -> Any:
        return meaning(*arrays)

    return pointwise(
        name,
        doc,
        FLOATS,
        scalars=scalars,
        reference=reference,
        partials=partials,
        derivative=derivative,
        numerics="R",
        algebra=algebra,
        arity=arity,
        low=low,
        high=high,
        differentiable=differentiable,
        example=example,
        max_ulp=max_ulp,
    )


def quotient(x: Lane, top: Sequence[float], bottom: Sequence[float]) -> Lane:
    """Of two polynomials, the highest power first."""
    return polynomial(x, top) / polynomial(x, bottom)


def is_whole(x: Lane) -> Lane:
    """Where there is nothing behind the point; infinities are whole."""
    return x.of("equal", x.of("floor"))


def is_odd(whole: Lane) -> Lane:
    """Which of whole numbers are odd."""
    half = whole * 0.5
    return half.of("not_equal", half.of("floor"))


def squared_apart(x: Lane) -> tuple[Lane, Lane]:
    """x² as a sum of two, the first of which is exact: a square of x to sixteenths.

    What is added is small, so that exp(x²) is right though x² would be rounded.
    """
    near = (x * 16.0).of("round") * 0.0625
    return near * near, (x - near) * (x + near)


__all__ = [
    "CALLED",
    "FORMULAS",
    "INFINITY",
    "NAN",
    "by_formula",
    "is_odd",
    "is_whole",
    "quotient",
    "squared_apart",
]
