"""What is computed otherwise at last: faster functions, and multiplication fused with addition.

These rules run when no other rule looks any more, so that none has to know their right sides.
Whether a product is also needed by itself makes no difference, as what is fetched should make none.
"""

from __future__ import annotations

from graphc.ir.builder import apply
from graphc.ir.dtypes import DType, float32
from graphc.ir.op import OpDef
from graphc.ops.pointwise.fast import approximate, fma
from graphc.ops.pointwise.math import (
    cos_op,
    erf_op,
    erfc_op,
    log_op,
    sigmoid_op,
    sin_op,
    tanh_op,
)
from passes.rewriting.pattern import Identity, Rule, rule
from passes.rules.common import FLOATS


def _faster(accurate: OpDef, dtypes: tuple[DType, ...] = FLOATS) -> Rule:
    """For the dtypes in which the twin takes at least 15 % less time."""
    return rule(
        f"approximate-{accurate.name}",
        lambda x: (apply(accurate, x), approximate(accurate, x)),
        numerics="T",
        needs=frozenset({"approx"}),
        bound=8.0,
        dtypes=dtypes,
    )


def _fused(name: str, identity: Identity) -> Rule:
    """Off by the rounding of the product, which may be large beside what is left of a sum."""
    return rule(
        name,
        identity,
        numerics="T",
        needs=frozenset({"contract"}),
        bound=1.0,
        domain=(0.25, 4.0),
        dtypes=FLOATS,
    )


FUNCTIONS: tuple[Rule, ...] = (
    *(_faster(op) for op in (log_op, tanh_op, sin_op, cos_op)),
    *(_faster(op, (float32,)) for op in (sigmoid_op, erf_op, erfc_op)),
)
"""Of any target."""

FUSED: tuple[Rule, ...] = (
    _fused("fuse-multiply-add", lambda x, y, z: (x * y + z, fma(x, y, z))),
    _fused("fuse-multiply-sub", lambda x, y, z: (x * y - z, fma(x, y, -z))),
    _fused("fuse-sub-multiply", lambda x, y, z: (z - x * y, fma(-x, y, z))),
)
"""Of targets that have the instruction."""

RULES: tuple[Rule, ...] = (*FUNCTIONS, *FUSED)
