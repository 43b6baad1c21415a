"""What floats allow only under flags of fast math; each rule asks for the fewest that do.

Under ``nnan``, ``ninf`` and ``nsz`` the sides agree to the bit as long as no NaN or infinity occurs
on the way, and the sign of zero aside. ``reassoc`` and ``approx`` change bits: by less than the
bound, relative to the largest value on the way.
"""

from __future__ import annotations

import numpy as np

from graphc.ir.dtypes import bool_
from graphc.ir.value import Value
from graphc.ops.creation import full_like, ones_like, zeros_like
from graphc.ops.pointwise.arithmetic import guarded_multiply, sqrt
from graphc.ops.pointwise.logic import isfinite, isinf, isnan, where
from graphc.ops.pointwise.math import exp
from graphc.ops.pointwise.rounding import abs_, maximum, minimum, sign
from passes.rewriting.constants import Known
from passes.rewriting.pattern import Flag, Identity, Rule, rule
from passes.rules.common import FLOATS, combine, normal, spread
from passes.rules.logic import COMPARISONS, NEGATED


def _under(name: str, identity: Identity, *flags: Flag) -> Rule:
    """Bits stay, if what the flags say is true."""
    return rule(name, identity, needs=frozenset(flags), dtypes=FLOATS)


def _regroups(name: str, identity: Identity, *flags: Flag, bound: float = 2.0) -> Rule:
    """Tried where products neither overflow nor underflow."""
    return rule(
        name,
        identity,
        numerics="T",
        needs=frozenset({"reassoc", *flags}),
        bound=bound,
        domain=(0.25, 4.0),
        dtypes=FLOATS,
    )


# --- bits stay -----------------------------------------------------------------------------------


def _not(name: str) -> Rule:
    function, negated = COMPARISONS[name], COMPARISONS[NEGATED[name]]
    return _under(f"not-{name}-without-nan", lambda x, y: (~function(x, y), negated(x, y)), "nnan")


def _difference(name: str) -> Rule:
    function = COMPARISONS[name]
    return _under(f"{name}-difference", lambda x, y: (function(x - y, 0), function(x, y)), "nnan")


def _itself(name: str) -> Rule:
    function, answer = COMPARISONS[name], name in ("eq", "le", "ge")
    return _under(
        f"{name}-self-without-nan", lambda x: (function(x, x), full_like(x, answer, bool_)), "nnan"
    )


def _choice(name: str, flipped: bool) -> Rule:
    """A minimum or maximum that is spelled with where."""
    function = COMPARISONS[name]
    extreme = minimum if (name in ("lt", "le")) is not flipped else maximum
    if flipped:
        return _under(
            f"where-{name}-flipped-without-nan",
            lambda x, y: (where(function(x, y), y, x), extreme(x, y)),
            "nnan", "nsz",
        )  # fmt: skip
    return _under(
        f"where-{name}-without-nan",
        lambda x, y: (where(function(x, y), x, y), extreme(x, y)),
        "nnan", "nsz",
    )  # fmt: skip


def _absolute(name: str) -> Rule:
    function = COMPARISONS[name]
    if name in ("lt", "le"):
        return _under(
            f"where-{name}-zero-unsigned", lambda x: (where(function(x, 0), -x, x), abs_(x)), "nsz"
        )
    return _under(
        f"where-{name}-zero-unsigned", lambda x: (where(function(x, 0), x, -x), abs_(x)), "nsz"
    )


_ASSUMPTIONS: tuple[Rule, ...] = (
    _under("add-zero", lambda x: (x + 0.0, x), "nsz"),
    _under("sub-negative-zero", lambda x: (x - -0.0, x), "nsz"),
    _under("sub-from-zero", lambda x: (0.0 - x, -x), "nsz"),
    _under("neg-sub", lambda x, y: (-(x - y), y - x), "nsz"),
    _under("sub-self", lambda x: (x - x, zeros_like(x)), "nnan"),
    _under("mul-zero", lambda x: (x * 0.0, zeros_like(x)), "nnan", "nsz"),
    _under("zero-div", lambda x: (0.0 / x, zeros_like(x)), "nnan", "nsz"),
    _under("div-self", lambda x: (x / x, ones_like(x)), "nnan"),
    _under("sign-abs", lambda x: (sign(x) * abs_(x), x), "nnan", "nsz"),
    _under("guard-without-nan", lambda x, y: (guarded_multiply(x, y), x * y), "nnan", "nsz"),
    _under("guard-by-one", lambda x: (guarded_multiply(x, 1.0), x), "nsz"),
    _under("max-of-min-without-nan", lambda x, y: (maximum(x, minimum(x, y)), x), "nnan"),
    _under("min-of-max-without-nan", lambda x, y: (minimum(x, maximum(x, y)), x), "nnan"),
    _under("isnan-without-nan", lambda x: (isnan(x), full_like(x, False, bool_)), "nnan"),
    _under("isinf-without-inf", lambda x: (isinf(x), full_like(x, False, bool_)), "ninf"),
    _under("isfinite-without", lambda x: (isfinite(x), full_like(x, True, bool_)), "nnan", "ninf"),
    _under("where-eq-without-sign", lambda x, y: (where(x == y, x, y), y), "nsz"),
    _under("where-ne-without-sign", lambda x, y: (where(x != y, x, y), x), "nsz"),
    *(_not(name) for name in ("lt", "le", "gt", "ge")),
    *(_difference(name) for name in COMPARISONS),
    *(_itself(name) for name in ("eq", "ne", "le", "ge")),
    *(_choice(name, flipped) for name in ("lt", "le", "gt", "ge") for flipped in (False, True)),
    *(_absolute(name) for name in ("lt", "le", "gt", "ge")),
)


def _above(x: Value, c: Known, d: Known) -> bool:
    """d is nowhere below c."""
    return combine(c, d) and bool(np.all(c.array <= d.array))


def _below(x: Value, c: Known, d: Known) -> bool:
    """d is nowhere above c."""
    return combine(c, d) and bool(np.all(c.array >= d.array))


_LIMITS: tuple[Rule, ...] = (
    rule(
        "max-of-lower-without-nan",
        lambda x, c, d: (maximum(minimum(x, c), d), spread(d, x)),
        constants=("c", "d"), when=_above, shapes={"x": (64,)}, needs=frozenset({"nnan"}),
        dtypes=FLOATS,
    ),
    rule(
        "min-of-higher-without-nan",
        lambda x, c, d: (minimum(maximum(x, c), d), spread(d, x)),
        constants=("c", "d"), when=_below, shapes={"x": (64,)}, needs=frozenset({"nnan"}),
        dtypes=FLOATS,
    ),
)  # fmt: skip

# --- bits change ---------------------------------------------------------------------------------


def _finite_sums(x: Value, c: Known, d: Known) -> bool:
    """c and d are nowhere 0, and their sum and differences finite."""
    if not (np.all(c.array != 0) and np.all(d.array != 0)):
        return False
    with np.errstate(all="ignore"):
        return combine(c, d) and bool(
            np.all(np.isfinite(c.array + d.array)) and np.all(np.isfinite(c.array - d.array))
        )


def _usual_product(x: Value, c: Known, d: Known) -> bool:
    """c, d and their product are normal numbers."""
    with np.errstate(all="ignore"):
        return (
            combine(c, d)
            and normal(c.array)
            and normal(d.array)
            and normal(np.multiply(c.array, d.array))
        )


def _usual_quotients(x: Value, c: Known, d: Known) -> bool:
    """c, d and their quotients are normal numbers."""
    with np.errstate(all="ignore"):
        return (
            combine(c, d)
            and normal(c.array)
            and normal(d.array)
            and normal(np.divide(c.array, d.array))
            and normal(np.divide(d.array, c.array))
        )


def _usual_reciprocal(x: Value, c: Known) -> bool:
    """c and its reciprocal are normal numbers."""
    with np.errstate(all="ignore"):
        return normal(c.array) and normal(np.divide(1, c.array, dtype=c.array.dtype))


def _constants(
    name: str, identity: Identity, when: object, *, bound: float = 3.0
) -> Rule:
    return rule(
        name,
        identity,
        constants=("c", "d"),
        when=when,
        numerics="T",
        needs=frozenset({"reassoc"}),
        bound=bound,
        domain=(0.25, 4.0),
        dtypes=FLOATS,
    )


_REGROUPED: tuple[Rule, ...] = (
    *(
        _constants(name, identity, _finite_sums)
        for name, identity in (
            ("add-add", lambda x, c, d: ((x + c) + d, x + (c + d))),
            ("add-then-sub", lambda x, c, d: ((x + c) - d, x + (c - d))),
            ("sub-then-add", lambda x, c, d: ((x - c) + d, x + (d - c))),
            ("sub-then-sub", lambda x, c, d: ((x - c) - d, x - (c + d))),
            ("from-then-add", lambda x, c, d: ((c - x) + d, (c + d) - x)),
            ("from-then-sub", lambda x, c, d: ((c - x) - d, (c - d) - x)),
            ("from-sum", lambda x, c, d: (d - (x + c), (d - c) - x)),
            ("from-difference", lambda x, c, d: (d - (x - c), (d + c) - x)),
            ("from-from", lambda x, c, d: (d - (c - x), x + (d - c))),
            ("factor-constants", lambda x, c, d: (x * c + x * d, x * (c + d))),
            ("factor-constants-sub", lambda x, c, d: (x * c - x * d, x * (c - d))),
        )
    ),
    *(
        _constants(name, identity, _usual_product)
        for name, identity in (
            ("mul-mul", lambda x, c, d: ((x * c) * d, x * (c * d))),
            ("div-div-constants", lambda x, c, d: ((x / c) / d, x / (c * d))),
            ("from-div-then-mul", lambda x, c, d: ((c / x) * d, (c * d) / x)),
            ("div-by-product", lambda x, c, d: (d / (x / c), (c * d) / x)),
        )
    ),
    *(
        _constants(name, identity, _usual_quotients)
        for name, identity in (
            ("mul-then-div", lambda x, c, d: ((x * c) / d, x * (c / d))),
            ("div-then-mul", lambda x, c, d: ((x / c) * d, x * (d / c))),
            ("from-div-then-div", lambda x, c, d: ((c / x) / d, (c / d) / x)),
            ("from-product", lambda x, c, d: (d / (x * c), (d / c) / x)),
            ("from-div-div", lambda x, c, d: (d / (c / x), x * (d / c))),
        )
    ),
)

_REASSOCIATED: tuple[Rule, ...] = (
    *(
        rule(
            name, identity, constants=("c",), numerics="T", needs=frozenset({"reassoc"}),
            bound=2.0, domain=(0.25, 4.0), dtypes=FLOATS,
        )
        for name, identity in (
            ("multiple-add", lambda x, c: (x * c + x, x * (c + 1))),
            ("multiple-sub", lambda x, c: (x * c - x, x * (c - 1))),
            ("sub-multiple", lambda x, c: (x - x * c, x * (1 - c))),
        )
    ),
    _regroups("factor-add", lambda x, y, z: (x * z + y * z, (x + y) * z)),
    _regroups("factor-sub", lambda x, y, z: (x * z - y * z, (x - y) * z)),
    _regroups("factor-div-add", lambda x, y, z: (x / z + y / z, (x + y) / z)),
    _regroups("factor-div-sub", lambda x, y, z: (x / z - y / z, (x - y) / z)),
    _regroups("add-sub", lambda x, y: ((x + y) - y, x), "nnan", "nsz"),
    _regroups("sub-add", lambda x, y: ((x - y) + y, x), "nnan", "nsz"),
    _regroups("sub-sub", lambda x, y: (x - (x - y), y), "nnan", "nsz"),
    _regroups("sub-sum", lambda x, y: (x - (x + y), -y), "nnan", "nsz"),
    _regroups("difference-sub", lambda x, y: ((x - y) - x, -y), "nnan", "nsz"),
    _regroups("mul-div", lambda x, y: ((x * y) / y, x), "nnan", "ninf"),
    _regroups("div-mul", lambda x, y: ((x / y) * y, x), "nnan", "ninf"),
    _regroups("div-div", lambda x, y, z: ((x / y) / z, x / (y * z)), "ninf"),
    _regroups("div-quotient", lambda x, y, z: (x / (y / z), (x * z) / y), "nnan", "ninf"),
    _regroups("inverse-twice", lambda x: (1 / (1 / x), x), "ninf"),
    _regroups("sqrt-mul-self", lambda x: (sqrt(x) * sqrt(x), x), "nnan", "nsz"),
    _regroups("sqrt-mul", lambda x, y: (sqrt(x) * sqrt(y), sqrt(x * y)), "nnan", "ninf"),
    _regroups("sqrt-div", lambda x, y: (sqrt(x) / sqrt(y), sqrt(x / y)), "nnan", "ninf"),
    _regroups("div-sqrt", lambda x: (x / sqrt(x), sqrt(x)), "nnan"),
    _regroups("exp-mul", lambda x, y: (exp(x) * exp(y), exp(x + y)), "ninf", bound=12.0),
    _regroups("exp-div", lambda x, y: (exp(x) / exp(y), exp(x - y)), "nnan", "ninf", bound=12.0),
    rule(
        "div-constant", lambda x, c: (x / c, x * (1 / c)), constants=("c",),
        when=_usual_reciprocal,
        numerics="T", needs=frozenset({"approx"}), bound=1.0, domain=(0.25, 4.0), dtypes=FLOATS,
    ),
)  # fmt: skip

RULES: tuple[Rule, ...] = (*_ASSUMPTIONS, *_LIMITS, *_REGROUPED, *_REASSOCIATED)
