"""Complex numbers that are only made to be taken apart: chains of operations on them compute with
floats from the first to the last."""

from __future__ import annotations

from graphc.ir.dtypes import COMPLEX, COMPUTED_FLOATS
from graphc.ir.value import Value
from graphc.ops.complex.parts import halves, joined
from passes.rewriting.pattern import Rule, rule


def _alike(x: Value, y: Value) -> bool:
    """The parts are spelled alike, so each has the type of the whole."""
    return x.shape == y.shape


RULES: tuple[Rule, ...] = (
    rule(
        "real-of-complex", lambda x, y: (halves(joined(x, y))[0], x),
        dtypes=COMPUTED_FLOATS, when=_alike,
    ),
    rule(
        "imag-of-complex", lambda x, y: (halves(joined(x, y))[1], y),
        dtypes=COMPUTED_FLOATS, when=_alike,
    ),
    rule("complex-of-parts", lambda x: (joined(*halves(x)), x), dtypes=COMPLEX),
)
"""What ``simplify`` applies."""

__all__ = ["RULES"]
