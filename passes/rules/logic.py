"""Bits and booleans, comparisons, and selection.

A comparison is negated only where NaN cannot be: ``not (a < b)`` is ``a >= b`` for integers, but
not for floats, where both are false at NaN.
"""

from __future__ import annotations

import numpy as np

from graphc.ir.dtypes import ALL, INTEGERS, bool_
from graphc.ops.creation import full_like, zeros_like
from graphc.ops.declare import BITS
from graphc.ops.pointwise.arithmetic import negative
from graphc.ops.pointwise.logic import (
    equal,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    not_equal,
    where,
)
from graphc.ops.pointwise.rounding import abs_, maximum, minimum
from passes.rewriting.constants import Known
from passes.rewriting.pattern import Identity, Rule, rule
from passes.rules.common import FLOATS, NUMBERS, SIGNED_INTEGERS, Function, is_zero

DISCRETE = BITS
"""What has neither NaN nor two zeros."""

COMPARISONS: dict[str, Function] = {
    "eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater, "ge": greater_equal,
}  # fmt: skip
NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

_BITS: tuple[Rule, ...] = (
    rule("not-not", lambda x: (~(~x), x), dtypes=BITS),
    rule("and-self", lambda x: (x & x, x), dtypes=BITS),
    rule("or-self", lambda x: (x | x, x), dtypes=BITS),
    rule("xor-self", lambda x: (x ^ x, zeros_like(x)), dtypes=BITS),
    rule("and-true", lambda x: (x & True, x), dtypes=(bool_,)),
    rule("and-false", lambda x: (x & False, zeros_like(x)), dtypes=(bool_,)),
    rule("or-false", lambda x: (x | False, x), dtypes=(bool_,)),
    rule("or-true", lambda x: (x | True, full_like(x, True)), dtypes=(bool_,)),
    rule("xor-false", lambda x: (x ^ False, x), dtypes=(bool_,)),
    rule("and-not-self", lambda x: (x & ~x, zeros_like(x)), dtypes=BITS),
    rule("or-not-self", lambda x: (x | ~x, ~zeros_like(x)), dtypes=BITS),
    rule("xor-not-self", lambda x: (x ^ ~x, ~zeros_like(x)), dtypes=BITS),
    rule("and-and-self", lambda x, y: ((x & y) & y, x & y), dtypes=BITS),
    rule("or-or-self", lambda x, y: ((x | y) | y, x | y), dtypes=BITS),
    rule("and-or", lambda x, y: (x & (x | y), x), dtypes=BITS),
    rule("or-and", lambda x, y: (x | (x & y), x), dtypes=BITS),
    rule("and-or-not", lambda x, y: (x & (~x | y), x & y), dtypes=BITS),
    rule("or-and-not", lambda x, y: (x | (~x & y), x | y), dtypes=BITS),
    rule("not-and-not", lambda x, y: (~x & ~y, ~(x | y)), dtypes=BITS, exclusive=True),
    rule("not-or-not", lambda x, y: (~x | ~y, ~(x & y)), dtypes=BITS, exclusive=True),
    rule("not-xor-not", lambda x, y: (~x ^ ~y, x ^ y), dtypes=BITS),
    rule("not-of-and-not", lambda x, y: (~(~x & y), x | ~y), dtypes=BITS, exclusive=True),
    rule("not-of-or-not", lambda x, y: (~(~x | y), x & ~y), dtypes=BITS, exclusive=True),
    rule("not-of-xor-not", lambda x, y: (~(~x ^ y), x ^ y), dtypes=BITS),
    rule("bool-eq-true", lambda x: (equal(x, True), x), dtypes=(bool_,)),
    rule("bool-ne-false", lambda x: (not_equal(x, False), x), dtypes=(bool_,)),
)


def _compared(name: str) -> Rule:
    """A value compared with itself."""
    answer = name in ("eq", "le", "ge")
    function = COMPARISONS[name]
    return rule(
        f"{name}-self",
        lambda x: (function(x, x), full_like(x, answer, bool_)),
        dtypes=ALL if name in ("lt", "gt") else DISCRETE,
    )


def _not(name: str) -> Rule:
    function, negated = COMPARISONS[name], COMPARISONS[NEGATED[name]]
    return rule(
        f"not-{name}",
        lambda x, y: (~function(x, y), negated(x, y)),
        dtypes=ALL if name in ("eq", "ne") else DISCRETE,
    )


def _of_negatives(name: str) -> Rule:
    """Integers of both signs keep only equality, since the smallest has no opposite."""
    function, mirrored = COMPARISONS[name], COMPARISONS[MIRRORED[name]]
    return rule(
        f"{name}-neg-neg",
        lambda x, y: (function(-x, -y), mirrored(x, y)),
        dtypes=NUMBERS if name in ("eq", "ne") else FLOATS,
    )


def _of_negative(name: str) -> Rule:
    function, mirrored = COMPARISONS[name], COMPARISONS[MIRRORED[name]]
    return rule(
        f"{name}-neg-constant",
        lambda x, c: (function(-x, c), mirrored(x, -c)),
        constants=("c",),
        dtypes=NUMBERS if name in ("eq", "ne") else FLOATS,
    )


def _at_limit(name: str, answer: bool, lowest: bool) -> Rule:
    """Integers compared with their least or greatest."""
    function = COMPARISONS[name]

    def limit(x: object, c: Known) -> bool:
        """c is the extreme of the dtype that the name says."""
        info = np.iinfo(c.array.dtype)
        return bool(np.all(c.array == (info.min if lowest else info.max)))

    return rule(
        f"int-{name}-{'lowest' if lowest else 'highest'}",
        lambda x, c: (function(x, c), full_like(x, answer, bool_)),
        constants=("c",),
        when=limit,
        dtypes=INTEGERS,
    )


def _equality(name: str, identity: Identity) -> Rule:
    """A comparison with zero; the literal 0 beside uint64 would be spelled as mixed signs."""
    return rule(
        name,
        identity,
        constants=("c",),
        when=is_zero,
        dtypes=INTEGERS,
    )


def _signless(name: str, function: Function, change: Function) -> Rule:
    return rule(name, lambda x: (function(change(x)), function(x)), dtypes=FLOATS)


_COMPARISONS: tuple[Rule, ...] = (
    *(_compared(name) for name in COMPARISONS),
    *(_not(name) for name in COMPARISONS),
    *(_of_negatives(name) for name in COMPARISONS),
    *(_of_negative(name) for name in COMPARISONS),
    _at_limit("lt", False, True),
    _at_limit("ge", True, True),
    _at_limit("gt", False, False),
    _at_limit("le", True, False),
    rule("lt-or-eq", lambda x, y: (less(x, y) | equal(x, y), less_equal(x, y)), dtypes=ALL),
    rule("gt-or-eq", lambda x, y: (greater(x, y) | equal(x, y), greater_equal(x, y)), dtypes=ALL),
    rule("lt-or-gt", lambda x, y: (less(x, y) | greater(x, y), not_equal(x, y)), dtypes=DISCRETE),
    rule(
        "le-and-ge", lambda x, y: (less_equal(x, y) & greater_equal(x, y), equal(x, y)),
        dtypes=ALL,
    ),
    rule("le-and-ne", lambda x, y: (less_equal(x, y) & not_equal(x, y), less(x, y)), dtypes=ALL),
    rule(
        "ge-and-ne", lambda x, y: (greater_equal(x, y) & not_equal(x, y), greater(x, y)),
        dtypes=ALL,
    ),
    _equality("int-eq-difference", lambda x, y, c: (equal(x - y, c), equal(x, y))),
    _equality("int-ne-difference", lambda x, y, c: (not_equal(x - y, c), not_equal(x, y))),
    _equality("int-eq-xor-zero", lambda x, y, c: (equal(x ^ y, c), equal(x, y))),
    _equality("int-ne-xor-zero", lambda x, y, c: (not_equal(x ^ y, c), not_equal(x, y))),
    rule(
        "abs-eq-zero", lambda x: (equal(abs_(x), 0), equal(x, 0)),
        dtypes=(*SIGNED_INTEGERS, *FLOATS),
    ),
    rule("finite-spelled", lambda x: (~(isnan(x) | isinf(x)), isfinite(x)), dtypes=FLOATS),
    rule(
        "nan-or-inf", lambda x: (isnan(x) | isinf(x), ~isfinite(x)),
        dtypes=FLOATS, exclusive=True,
    ),
    *(
        _signless(f"{name}-{sign}", function, change)
        for name, function in (("isnan", isnan), ("isinf", isinf), ("isfinite", isfinite))
        for sign, change in (("neg", negative), ("abs", abs_))
    ),
)


def _choice(name: str, flipped: bool) -> Rule:
    """A minimum or maximum that is spelled with where."""
    function = COMPARISONS[name]
    extreme = minimum if (name in ("lt", "le")) is not flipped else maximum
    if flipped:
        return rule(
            f"where-{name}-flipped",
            lambda x, y: (where(function(x, y), y, x), extreme(x, y)),
            dtypes=INTEGERS,
        )
    return rule(
        f"where-{name}", lambda x, y: (where(function(x, y), x, y), extreme(x, y)), dtypes=INTEGERS
    )


def _absolute(name: str, negative_first: bool) -> Rule:
    function = COMPARISONS[name]
    if negative_first:
        return rule(
            f"where-{name}-zero", lambda x: (where(function(x, 0), -x, x), abs_(x)),
            dtypes=SIGNED_INTEGERS,
        )  # fmt: skip
    return rule(
        f"where-{name}-zero", lambda x: (where(function(x, 0), x, -x), abs_(x)),
        dtypes=SIGNED_INTEGERS,
    )  # fmt: skip


_WHERE: tuple[Rule, ...] = (
    rule("where-same", lambda c, x: (where(c, x, x), x), masks=("c",)),
    rule("where-true", lambda x, y: (where(True, x, y), x)),
    rule("where-false", lambda x, y: (where(False, x, y), y)),
    rule("where-not", lambda c, x, y: (where(~c, x, y), where(c, y, x)), masks=("c",)),
    rule("where-itself", lambda c: (where(c, True, False), c), dtypes=(bool_,)),
    rule(
        "where-where-first",
        lambda c, x, y, z: (where(c, where(c, x, y), z), where(c, x, z)),
        masks=("c",),
    ),
    rule(
        "where-where-second",
        lambda c, x, y, z: (where(c, x, where(c, y, z)), where(c, x, z)),
        masks=("c",),
    ),
    rule("where-eq", lambda x, y: (where(equal(x, y), x, y), y), dtypes=DISCRETE),
    rule("where-ne", lambda x, y: (where(not_equal(x, y), x, y), x), dtypes=DISCRETE),
    *(_choice(name, flipped) for name in ("lt", "le", "gt", "ge") for flipped in (False, True)),
    *(_absolute(name, name in ("lt", "le")) for name in ("lt", "le", "gt", "ge")),
)

RULES: tuple[Rule, ...] = (*_BITS, *_COMPARISONS, *_WHERE)
