"""Sums, products, quotients and signs, to the bit.

Floats take only what is right at NaN, infinities and both zeros: ``x + 0``, ``x * 0``, ``x - x``
and ``x / x`` are not here, since they are wrong somewhere; ``fast_math`` has them, with the
assumption each needs.
"""

from __future__ import annotations

from graphc.ops.creation import zeros_like
from graphc.ops.nn.layers import relu
from graphc.ops.pointwise.arithmetic import guarded_multiply, negative
from graphc.ops.pointwise.math import (
    arctan,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    sigmoid,
    sin,
    sinh,
    tan,
    tanh,
)
from graphc.ops.pointwise.rounding import abs_, ceil, floor, maximum, round_, sign, trunc
from passes.rewriting.pattern import Rule, rule
from passes.rules.common import (
    FLOATS,
    NUMBERS,
    SIGNED,
    UNSIGNED,
    Function,
    is_nowhere_zero,
    is_zero,
)

_SIGNS: tuple[Rule, ...] = (
    rule("neg-neg", lambda x: (negative(negative(x)), x), dtypes=NUMBERS),
    rule("add-neg", lambda x, y: (x + (-y), x - y), dtypes=NUMBERS),
    rule("sub-neg", lambda x, y: (x - (-y), x + y), dtypes=NUMBERS),
    rule("mul-neg-neg", lambda x, y: ((-x) * (-y), x * y), dtypes=NUMBERS),
    rule("div-neg-neg", lambda x, y: ((-x) / (-y), x / y), dtypes=FLOATS),
    rule("mul-neg-constant", lambda x, c: ((-x) * c, x * -c), constants=("c",), dtypes=NUMBERS),
    rule("div-neg-constant", lambda x, c: ((-x) / c, x / -c), constants=("c",), dtypes=FLOATS),
    rule("constant-div-neg", lambda x, c: (c / (-x), -c / x), constants=("c",), dtypes=FLOATS),
    rule(
        "mul-neg-product", lambda x, y, c: ((-x) * (y * c), x * (y * -c)), constants=("c",),
        dtypes=NUMBERS, exclusive=True,
    ),
    rule("neg-mul-constant", lambda x, c: (-(x * c), x * -c), constants=("c",), dtypes=NUMBERS),
    rule("neg-div-constant", lambda x, c: (-(x / c), x / -c), constants=("c",), dtypes=FLOATS),
    rule("neg-constant-div", lambda x, c: (-(c / x), -c / x), constants=("c",), dtypes=FLOATS),
    rule("neg-sub-constant", lambda x, c: (-x - c, -c - x), constants=("c",), dtypes=NUMBERS),
    rule("abs-neg", lambda x: (abs_(-x), abs_(x)), dtypes=SIGNED),
    rule("abs-unsigned", lambda x: (abs_(x), x), dtypes=UNSIGNED),
    rule("abs-mul-self", lambda x: (abs_(x) * abs_(x), x * x), dtypes=SIGNED),
    rule("abs-of-square", lambda x: (abs_(x * x), x * x), dtypes=FLOATS),
    rule(
        "abs-mul-abs", lambda x, y: (abs_(x) * abs_(y), abs_(x * y)), dtypes=FLOATS, exclusive=True
    ),
    rule(
        "abs-div-abs", lambda x, y: (abs_(x) / abs_(y), abs_(x / y)), dtypes=FLOATS, exclusive=True
    ),
)  # fmt: skip

_NEUTRAL: tuple[Rule, ...] = (
    rule("mul-one", lambda x: (x * 1, x), dtypes=NUMBERS),
    rule("mul-minus-one", lambda x: (x * -1, -x), dtypes=SIGNED),
    rule("div-one", lambda x: (x / 1, x), dtypes=FLOATS),
    rule("div-minus-one", lambda x: (x / -1, -x), dtypes=FLOATS),
    rule("sub-zero", lambda x: (x - 0.0, x), dtypes=FLOATS),
    rule("add-negative-zero", lambda x: (x + -0.0, x), dtypes=FLOATS),
    rule("sub-from-negative-zero", lambda x: (-0.0 - x, -x), dtypes=FLOATS),
)

_GUARDS: tuple[Rule, ...] = (
    rule("guard-one", lambda x: (guarded_multiply(1, x), x), dtypes=FLOATS),
    rule("guard-minus-one", lambda x: (guarded_multiply(-1, x), -x), dtypes=FLOATS),
    rule(
        "guard-zero",
        lambda x, c: (guarded_multiply(c, x), zeros_like(x)),
        constants=("c",),
        when=is_zero,
        dtypes=FLOATS,
    ),
    rule(
        "guard-constant",
        lambda x, c: (guarded_multiply(c, x), x * c),
        constants=("c",),
        when=is_nowhere_zero,
        dtypes=FLOATS,
    ),
)


def _twice(name: str, function: Function) -> Rule:
    dtypes = NUMBERS if name in ("sign", "relu") else SIGNED if name == "abs" else FLOATS
    return rule(f"{name}-twice", lambda x: (function(function(x)), function(x)), dtypes=dtypes)


def _whole(outer: str, inner: str, first: Function, second: Function) -> Rule:
    """What is whole stays what it is, however it is rounded."""
    return rule(f"{outer}-of-{inner}", lambda x: (first(second(x)), second(x)), dtypes=FLOATS)


def _odd(name: str, function: Function) -> Rule:
    return rule(f"{name}-odd", lambda x: (-function(-x), function(x)), dtypes=FLOATS)


def _even(name: str, function: Function) -> tuple[Rule, Rule]:
    return (
        rule(f"{name}-neg", lambda x: (function(-x), function(x)), dtypes=FLOATS),
        rule(f"{name}-abs", lambda x: (function(abs_(x)), function(x)), dtypes=FLOATS),
    )


def _positive(name: str, function: Function) -> tuple[Rule, ...]:
    """Of a function that is never below +0."""
    return (
        rule(f"max-of-{name}", lambda x: (maximum(function(x), 0), function(x)), dtypes=FLOATS),
        rule(f"relu-of-{name}", lambda x: (relu(function(x)), function(x)), dtypes=FLOATS),
    )


def _absolute(name: str, function: Function) -> Rule:
    return rule(f"abs-of-{name}", lambda x: (abs_(function(x)), function(x)), dtypes=FLOATS)


_POSITIVE: dict[str, Function] = {"abs": abs_, "exp": exp, "exp2": exp2, "sigmoid": sigmoid}
_ROUNDINGS: dict[str, Function] = {"floor": floor, "ceil": ceil, "trunc": trunc, "round": round_}
_ODD: dict[str, Function] = {
    "sin": sin, "tan": tan, "sinh": sinh, "tanh": tanh, "arctan": arctan, "erf": erf,
    "round": round_, "trunc": trunc,
}  # fmt: skip

_FUNCTIONS: tuple[Rule, ...] = (
    *(_twice(n, f) for n, f in {"abs": abs_, "sign": sign, "relu": relu, **_ROUNDINGS}.items()),
    *(
        _whole(outer, inner, first, second)
        for outer, first in _ROUNDINGS.items()
        for inner, second in _ROUNDINGS.items()
        if outer != inner
    ),
    *(_odd(name, function) for name, function in _ODD.items()),
    rule("floor-odd", lambda x: (-floor(-x), ceil(x)), dtypes=FLOATS),
    rule("ceil-odd", lambda x: (-ceil(-x), floor(x)), dtypes=FLOATS),
    *_even("cos", cos),
    *_even("cosh", cosh),
    *(r for name, function in _POSITIVE.items() for r in _positive(name, function)),
    *(_absolute(n, f) for n, f in {**_POSITIVE, "relu": relu}.items() if f is not abs_),
    rule("max-of-square", lambda x: (maximum(x * x, 0), x * x), dtypes=FLOATS),
    rule("relu-of-square", lambda x: (relu(x * x), x * x), dtypes=FLOATS),
)

RULES: tuple[Rule, ...] = (*_SIGNS, *_NEUTRAL, *_GUARDS, *_FUNCTIONS)
