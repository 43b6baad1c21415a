"""Spellings that cancel or overflow on the way, and the functions that do not.

Class T throughout: what is rewritten gets more accurate, or finite where it was not, and is
elsewhere within the bound. Spellings that need more than their looks to be recognised, all those
with sums over rows and all gradients, are the business of ``passes.stability.transfer`` and, for
roots of sums of squares, of ``passes.stability.scaled_norms``.

Left alone: ``log(x * y)``. A sum of logarithms is less accurate wherever the product is a number.
"""

from __future__ import annotations

from functools import partial

from graphc.ops.pointwise.arithmetic import sqrt
from graphc.ops.pointwise.math import cosh, erf, erfc, exp, expm1, log, log1p, sigmoid, sinh, tanh
from graphc.ops.pointwise.rounding import abs_
from passes.rewriting.pattern import Rule, rule
from passes.rules.common import FLOATS

_better = partial(rule, numerics="T", dtypes=FLOATS, bound=8.0, domain=(0.5, 4.0))
"""The domain is where nothing cancels yet; beyond it only the right side is accurate."""

_NEAR_ZERO: tuple[Rule, ...] = (
    _better("log1p", lambda x: (log(x + 1), log1p(x))),
    _better("log1p-minus", lambda x: (log(1 - x), log1p(-x)), domain=(-4.0, -0.5)),
    _better("expm1", lambda x: (exp(x) - 1, expm1(x))),
    _better("expm1-add", lambda x: (exp(x) + -1, expm1(x))),
    _better("one-minus-exp", lambda x: (1 - exp(x), -expm1(x))),
)

_HYPERBOLIC: tuple[Rule, ...] = (
    _better("sinh", lambda x: ((exp(x) - exp(-x)) * 0.5, sinh(x))),
    _better("sinh-halves", lambda x: ((exp(x) - exp(-x)) / 2, sinh(x))),
    _better("cosh", lambda x: ((exp(x) + exp(-x)) * 0.5, cosh(x))),
    _better("cosh-halves", lambda x: ((exp(x) + exp(-x)) / 2, cosh(x))),
    _better("tanh-sinh", lambda x: (sinh(x) / cosh(x), tanh(x))),
    _better("tanh-exp", lambda x: ((exp(x) - exp(-x)) / (exp(x) + exp(-x)), tanh(x))),
    _better("tanh-expm1", lambda x: (expm1(x * 2) / (exp(x * 2) + 1), tanh(x))),
    _better("tanh-half-expm1", lambda x: (expm1(x) / (exp(x) + 1), tanh(x * 0.5))),
    _better("tanh-expm1-minus", lambda x: ((-expm1(x * -2)) / (exp(x * -2) + 1), tanh(x))),
    _better("tanh-half-expm1-minus", lambda x: ((-expm1(x)) / (exp(x) + 1), tanh(x * -0.5))),
    _better("tanh-sigmoid", lambda x: (sigmoid(x * 2) * 2 - 1, tanh(x))),
    _better("tanh-two-sigmoids", lambda x: (sigmoid(x) - sigmoid(-x), tanh(x * 0.5))),
    _better("tanh-half-sigmoid", lambda x: (sigmoid(x) * 2 - 1, tanh(x * 0.5))),
)

_ROOTS: tuple[Rule, ...] = (
    _better("root-of-square", lambda x: (sqrt(x * x), abs_(x))),
)

_ERRORS: tuple[Rule, ...] = (
    _better("erfc", lambda x: (1 - erf(x), erfc(x)), domain=(-4.0, -0.5)),
    _better("erfc-minus", lambda x: (erf(x) + 1, erfc(-x))),
    _better("minus-erfc", lambda x: (erf(x) - 1, -erfc(x)), domain=(-4.0, -0.5)),
    _better("minus-erfc-add", lambda x: (erf(x) + -1, -erfc(x)), domain=(-4.0, -0.5)),
    _better("erf", lambda x: (1 - erfc(x), erf(x))),
)

RULES: tuple[Rule, ...] = (*_NEAR_ZERO, *_HYPERBOLIC, *_ROOTS, *_ERRORS)
