"""Strength reduction: powers, and division by powers of two.

A power is replaced by a few products, quotients and roots, which take a tenth of the time. One of
these alone is correctly rounded, so the result gets better. Where several round (the powers 3, 4,
-2 and -1/2) it is off by up to the bound, and a power by half a unit in float32 and one in float64;
that is the price. All are of class T. Where powers and their replacement differ at -0 and -inf, the
replacement says so.
"""

from __future__ import annotations

import numpy as np

from graphc.ir.value import Value
from graphc.ops.creation import ones_like
from graphc.ops.pointwise.arithmetic import power, sqrt
from graphc.ops.pointwise.logic import equal, where
from graphc.ops.pointwise.math import exp2
from passes.rewriting.constants import Known
from passes.rewriting.pattern import Rule, rule
from passes.rules.common import FLOATS, normal, powers_of_two


def _square(x: Value) -> Value:
    return x * x


def _exact_reciprocal(x: Value, c: Known) -> bool:
    """c is a power of two, and it and its reciprocal are normal numbers."""
    if not powers_of_two(c.array) or not normal(c.array):
        return False
    with np.errstate(all="ignore"):
        return normal(np.divide(1, c.array, dtype=c.array.dtype))


RULES: tuple[Rule, ...] = (
    rule("power-zero", lambda x: (power(x, 0), ones_like(x)), dtypes=FLOATS),
    rule("power-of-one", lambda x: (power(1, x), ones_like(x)), dtypes=FLOATS),
    rule("power-one", lambda x: (power(x, 1), x), numerics="T", bound=1.0, dtypes=FLOATS),
    rule("power-two", lambda x: (power(x, 2), x * x), numerics="T", bound=1.0, dtypes=FLOATS),
    rule("power-three", lambda x: (power(x, 3), x * x * x), numerics="T", bound=2.0, dtypes=FLOATS),
    rule(
        "power-four", lambda x: (power(x, 4), _square(x * x)), numerics="T", bound=2.5,
        dtypes=FLOATS,
    ),
    rule(
        "power-minus-one", lambda x: (power(x, -1), 1 / x), numerics="T", bound=1.0, dtypes=FLOATS
    ),
    rule(
        "power-minus-two", lambda x: (power(x, -2), _square(1 / x)), numerics="T", bound=2.5,
        dtypes=FLOATS,
    ),
    rule(
        "power-half-without-zero", lambda x: (power(x, 0.5), sqrt(x)), numerics="T", bound=1.0,
        needs=frozenset({"ninf", "nsz"}), dtypes=FLOATS,
    ),
    rule(
        "power-half",
        lambda x: (power(x, 0.5), where(equal(x, -np.inf), np.inf, sqrt(x + 0.0))),
        numerics="T", bound=1.0, dtypes=FLOATS,
    ),
    rule(
        "power-minus-half",
        lambda x: (power(x, -0.5), where(equal(x, -np.inf), 0.0, 1 / sqrt(x + 0.0))),
        numerics="T", bound=2.0, dtypes=FLOATS,
    ),
    rule("power-of-two", lambda x: (power(2, x), exp2(x)), numerics="T", bound=2.0, dtypes=FLOATS),
    rule(
        "div-power-of-two", lambda x, c: (x / c, x * (1 / c)), constants=("c",),
        when=_exact_reciprocal, dtypes=FLOATS,
    ),
)  # fmt: skip
