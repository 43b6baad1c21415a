"""Affine steps that follow each other: ((x * a + b) * c + d) is one product and one sum.

Under ``reassoc`` only: each result rounds differently. Sums of constants that this leaves behind
are merged by ``passes.rules.fast_math``. What stands around a matrix product of constant weights
needs no flag and is the business of ``passes.graph.fold_scales_into_weights``, which looks at the
weights.
"""

from __future__ import annotations

import numpy as np

from graphc.ir.value import Value
from passes.rewriting.constants import Known
from passes.rewriting.pattern import Identity, Rule, rule
from passes.rules.common import FLOATS, combine, normal


def _usual_products(x: Value, a: Known, b: Known, c: Known) -> bool:
    with np.errstate(all="ignore"):
        return _usable(a, b, c) and normal(a.array * c.array) and normal(b.array * c.array)


def _usual_quotients(x: Value, a: Known, b: Known, c: Known) -> bool:
    with np.errstate(all="ignore"):
        return _usable(a, b, c) and normal(a.array / c.array) and normal(b.array / c.array)


def _usable(a: Known, b: Known, c: Known) -> bool:
    """The new constants are no larger than those there are; signs are a matter of other rules."""
    return combine(a, b, c) and not np.all(np.abs(c.array) == 1)


def _affine(name: str, identity: Identity, when: object) -> Rule:
    """Tried where the two terms do not cancel: the bound is relative to the larger one."""
    return rule(
        name,
        identity,
        constants=("a", "b", "c"),
        when=when,
        numerics="T",
        needs=frozenset({"reassoc"}),
        bound=4.0,
        domain=(0.25, 4.0),
        dtypes=FLOATS,
    )


RULES: tuple[Rule, ...] = (
    _affine("affine-mul", lambda x, a, b, c: ((x * a + b) * c, x * (a * c) + b * c),
            _usual_products),
    _affine("affine-sub-mul", lambda x, a, b, c: ((x * a - b) * c, x * (a * c) - b * c),
            _usual_products),
    _affine("affine-from-mul", lambda x, a, b, c: ((b - x * a) * c, b * c - x * (a * c)),
            _usual_products),
    _affine("affine-div", lambda x, a, b, c: ((x * a + b) / c, x * (a / c) + b / c),
            _usual_quotients),
    _affine("affine-sub-div", lambda x, a, b, c: ((x * a - b) / c, x * (a / c) - b / c),
            _usual_quotients),
    _affine("affine-from-div", lambda x, a, b, c: ((b - x * a) / c, b / c - x * (a / c)),
            _usual_quotients),
)  # fmt: skip
