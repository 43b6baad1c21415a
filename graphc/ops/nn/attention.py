"""Scaled dot-product attention, spelled with products, a mask and softmax.

Invariant: it is no operation of its own. Fusion makes one kernel of this spelling as of any other,
and its derivative is that of the parts.
"""

from __future__ import annotations

from math import inf
from typing import Any

from graphc.ir.dtypes import bool_, int64
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.arguments import switch
from graphc.ops.convert import as_value, size_beside
from graphc.ops.creation import iota_beside
from graphc.ops.declare import float_operands, like, refuse
from graphc.ops.linalg.matmul import matmul
from graphc.ops.move.shape import reshape, swapaxes
from graphc.ops.nn.layers import softmax
from graphc.ops.pointwise.arithmetic import rsqrt
from graphc.ops.pointwise.logic import logical_and, where


@surface
def attention(
    q: Any, k: Any, v: Any, mask: Any = None, scale: Any = None, causal: bool = False
) -> Value:
    """softmax(q @ kᵀ * scale) @ v: for each query the mean of the values, weighted by the keys.

    Shapes: q [*B, m, d], k [*B, n, d], v [*B, n, e] give [*B, m, e]; leading dims broadcast as in
    ``matmul``. ``scale`` is 1 / sqrt(d) unless given. A mask of bools is true where a query may
    look at a key, one of floats is added to the scores; it broadcasts to [*B, m, n]. With
    ``causal`` query i looks at keys 0 to i only. The scores of what may not be looked at are -inf,
    so a query that may look at no key gives NaN.

    Raises:
        ShapeError: for shapes that do not fit, or operands that are no matrices.
        DTypeError: for a mask of integers.
    """
    queries, keys, values = float_operands(q, k, v)
    scores = matmul(queries, swapaxes(keys, -1, -2))
    if scale is None:
        depth = queries.shape[-1]
        scale = _root_of(queries) if not isinstance(depth, int) else depth**-0.5 if depth else inf
    scores = scores * scale
    looked: Value | None = None
    if mask is not None:
        given = as_value(mask, queries)
        if given.dtype is bool_:
            looked = given
        elif given.dtype.is_float:
            scores = scores + given
        else:
            raise refuse(
                f"attention takes a mask of bools or floats, not {given.dtype}",
                "compare with 0 to get bools: mask != 0",
            )
    if switch(causal, "causal"):
        past = _past(scores)
        looked = past if looked is None else logical_and(looked, past)
    if looked is not None:
        scores = where(looked, scores, like(float("-inf"), scores))
    result: Value = matmul(softmax(scores), values)
    return result


def _root_of(queries: Value) -> Value:
    """1 / sqrt of a depth known only at run time."""
    root: Value = rsqrt(size_beside(queries.shape[-1], queries.dtype, queries))
    return root


def _past(scores: Value) -> Value:
    """[m, n]: whether key j comes no later than query i."""
    rows, columns = scores.shape[-2:]
    query = reshape(iota_beside((rows,), 0, int64, scores), (rows, 1))
    past: Value = query >= iota_beside((columns,), 0, int64, scores)
    return past


__all__ = ["attention"]
