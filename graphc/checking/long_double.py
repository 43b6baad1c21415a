"""Elementary functions in the machine's long double, for whoever wants more than float64.

On x86 it has 64 bits and a range to 1e4932; on some machines it is float64, see ``IS_WIDE``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.ir.dtypes import DType, float64
from graphc.kernel.scalar import PRIMITIVES
from graphc.ops.lanes import Arrays, Computed, Lane
from graphc.ops.special.declared import FORMULAS

IS_WIDE = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant
"""Whether a long double has more bits than a float64."""


def erf(x: Any) -> Any:
    """2/sqrt(pi) exp(-x²) times the sum over n of 2^n x^(2n+1) / (2n+1)!!.

    All terms have one sign, so nothing cancels (Abramowitz and Stegun, 7.1.6). From 7 on the
    result is 1 to more bits than a long double has.
    """
    near = np.where(np.abs(x) < 7, x, 0)
    term = total = near
    for n in range(1, 200):
        term = term * (2 * near * near) / (2 * n + 1)
        total = total + term
    root = np.sqrt(np.arctan2(np.longdouble(0), np.longdouble(-1)))
    return np.where(np.abs(x) < 7, 2 / root * np.exp(-near * near) * total, np.sign(x))


def erfc(x: Any) -> Any:
    """1 - erf(x) up to 1; beyond, exp(-x²) times a continued fraction (A. and S., 7.1.14)."""
    far = np.where(x > 1, x, 1)
    fraction = far
    for n in range(400, 0, -1):
        fraction = far + np.longdouble(n) / 2 / fraction
    root = np.sqrt(np.arctan2(np.longdouble(0), np.longdouble(-1)))
    return np.where(x > 1, np.exp(-far * far) / (root * fraction), 1 - erf(np.minimum(x, 1)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "arcsin": np.arcsin, "arccos": np.arccos,
    "arctan": np.arctan, "cbrt": np.cbrt, "erf": erf, "erfc": erfc, "power": np.power,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "trunc": np.trunc, "sign": np.sign, "mod": np.mod, "fmod": np.fmod,
    "floor_divide": np.floor_divide, "copysign": np.copysign, "portable_exp": np.exp,
    "portable_log": np.log, "rejected": np.positive,
    "fma": lambda a, b, c: a * b + c,
    "ldexp": PRIMITIVES["ldexp"].reference,
    "frexp_significand": PRIMITIVES["significand"].reference,
    "frexp_exponent": PRIMITIVES["exponent"].reference,
}  # fmt: skip
"""By the name of the op."""


class _LongArrays(Arrays):
    """Computes formulas in long doubles; their coefficients are those of float64."""

    def constant(self, value: bool | int | float, dtype: DType) -> Computed:
        return Computed(dtype, np.longdouble(value))

    def apply(self, primitive: str, *operands: Any) -> Computed:
        definition = PRIMITIVES[primitive]
        function = FUNCTIONS.get(primitive, definition.reference)
        with np.errstate(all="ignore"):
            found = function(*[operand.array for operand in operands])
        return Computed(definition.result_dtype([x.dtype for x in operands]), np.asarray(found))


def _by_formula(formula: Callable[..., Lane]) -> Callable[..., Any]:
    def function(*arrays: Any) -> Any:
        b = _LongArrays()
        return formula(*(Lane(b, Computed(float64, array)) for array in arrays)).scalar.array

    return function


FUNCTIONS.update({name: _by_formula(formula) for name, formula in FORMULAS.items()})


__all__ = ["FUNCTIONS", "IS_WIDE", "erf", "erfc"]
