"""Minima, maxima and chains of limits.

Both propagate NaN and order the zeros, so they are a distributive lattice to the bit wherever no
NaN comes from the operand that an identity drops.
"""

from __future__ import annotations

import numpy as np

from graphc.ir.dtypes import ALL, INTEGERS
from graphc.ir.value import Value
from graphc.ops.declare import BITS
from graphc.ops.pointwise.rounding import abs_, clip, maximum, minimum
from passes.rewriting.constants import Known
from passes.rewriting.pattern import Rule, rule
from passes.rules.common import FLOATS, combine, spread


def _combine(x: Value, **constants: Known) -> bool:
    """What the constants give is no larger than they are."""
    return combine(*constants.values())


def _ordered(x: Value, c: Known, d: Known) -> bool:
    """d is nowhere below c."""
    return combine(c, d) and bool(np.all(c.array <= d.array))


def _reversed(x: Value, c: Known, d: Known) -> bool:
    """d is nowhere above c."""
    return combine(c, d) and bool(np.all(c.array >= d.array))


def _lowest(x: Value, c: Known) -> bool:
    """c is the least of the dtype."""
    return bool(np.all(c.array == np.iinfo(c.array.dtype).min))


def _highest(x: Value, c: Known) -> bool:
    """c is the greatest of the dtype."""
    return bool(np.all(c.array == np.iinfo(c.array.dtype).max))


_PAIRS: tuple[Rule, ...] = (
    rule("min-self", lambda x: (minimum(x, x), x)),
    rule("max-self", lambda x: (maximum(x, x), x)),
    rule("min-min-self", lambda x, y: (minimum(minimum(x, y), y), minimum(x, y))),
    rule("max-max-self", lambda x, y: (maximum(maximum(x, y), y), maximum(x, y))),
    rule("max-of-min", lambda x, y: (maximum(x, minimum(x, y)), x), dtypes=BITS),
    rule("min-of-max", lambda x, y: (minimum(x, maximum(x, y)), x), dtypes=BITS),
    rule("max-add-min", lambda x, y: (maximum(x, y) + minimum(x, y), x + y)),
    rule("max-mul-min", lambda x, y: (maximum(x, y) * minimum(x, y), x * y)),
    rule(
        "max-sub-min", lambda x, y: (maximum(x, y) - minimum(x, y), abs_(x - y)), dtypes=FLOATS,
        exclusive=True,
    ),
    rule("max-of-negatives", lambda x, y: (-maximum(-x, -y), minimum(x, y)), dtypes=FLOATS),
    rule("min-of-negatives", lambda x, y: (-minimum(-x, -y), maximum(x, y)), dtypes=FLOATS),
    rule(
        "max-neg-neg", lambda x, y: (maximum(-x, -y), -minimum(x, y)), dtypes=FLOATS,
        exclusive=True,
    ),
    rule(
        "min-neg-neg", lambda x, y: (minimum(-x, -y), -maximum(x, y)), dtypes=FLOATS,
        exclusive=True,
    ),
)  # fmt: skip

_SPREAD = {"x": (64,)}
"""Over scalars the constant itself would be the right side."""

_LIMITS: tuple[Rule, ...] = (
    rule("max-lowest", lambda x: (maximum(x, -np.inf), x), dtypes=FLOATS),
    rule("min-highest", lambda x: (minimum(x, np.inf), x), dtypes=FLOATS),
    rule("int-max-lowest", lambda x, c: (maximum(x, c), x), constants=("c",), when=_lowest,
         dtypes=INTEGERS),
    rule("int-min-highest", lambda x, c: (minimum(x, c), x), constants=("c",), when=_highest,
         dtypes=INTEGERS),
    rule("int-max-highest", lambda x, c: (maximum(x, c), spread(c, x)), constants=("c",),
         when=_highest, shapes=_SPREAD, dtypes=INTEGERS),
    rule("int-min-lowest", lambda x, c: (minimum(x, c), spread(c, x)), constants=("c",),
         when=_lowest, shapes=_SPREAD, dtypes=INTEGERS),
    rule("max-of-lower", lambda x, c, d: (maximum(minimum(x, c), d), spread(d, x)),
         constants=("c", "d"), when=_ordered, shapes=_SPREAD, dtypes=BITS),
    rule("min-of-higher", lambda x, c, d: (minimum(maximum(x, c), d), spread(d, x)),
         constants=("c", "d"), when=_reversed, shapes=_SPREAD, dtypes=BITS),
)  # fmt: skip

_CHAINS: tuple[Rule, ...] = tuple(
    rule(name, identity, constants=constants, when=_combine, dtypes=ALL)
    for name, constants, identity in (
        ("min-min", ("c", "d"), lambda x, c, d: (
            minimum(minimum(x, c), d), minimum(x, minimum(c, d)))),
        ("max-max", ("c", "d"), lambda x, c, d: (
            maximum(maximum(x, c), d), maximum(x, maximum(c, d)))),
        ("max-min-max", ("a", "b", "c"), lambda x, a, b, c: (
            maximum(minimum(maximum(x, a), b), c),
            minimum(maximum(x, maximum(a, c)), maximum(b, c)))),
        ("min-max-min", ("a", "b", "c"), lambda x, a, b, c: (
            minimum(maximum(minimum(x, a), b), c),
            maximum(minimum(x, minimum(a, c)), minimum(b, c)))),
        ("clip-clip", ("a", "b", "c", "d"), lambda x, a, b, c, d: (
            clip(clip(x, a, b), c, d), clip(x, maximum(a, c), minimum(maximum(b, c), d)))),
        ("max-of-clip", ("a", "b", "c"), lambda x, a, b, c: (
            maximum(clip(x, a, b), c), clip(x, maximum(a, c), maximum(b, c)))),
        ("min-of-clip", ("a", "b", "c"), lambda x, a, b, c: (
            minimum(clip(x, a, b), c), clip(x, a, minimum(b, c)))),
        ("clip-of-max", ("a", "b", "c"), lambda x, a, b, c: (
            clip(maximum(x, a), b, c), clip(x, maximum(a, b), c))),
        ("clip-of-min", ("a", "b", "c"), lambda x, a, b, c: (
            clip(minimum(x, a), b, c), clip(x, b, minimum(maximum(a, b), c)))),
    )
)  # fmt: skip

RULES: tuple[Rule, ...] = (*_PAIRS, *_LIMITS, *_CHAINS)
