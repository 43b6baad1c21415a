"""Products of matrices whose blocks have scales, as they are stored in few bits."""

from __future__ import annotations

from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.dtypes import DTypeLike, float32
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.convert import as_value
from graphc.ops.guards import show, unproved
from graphc.ops.linalg.matmul import matmul
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import expand_dims, reshape, with_shape


@surface
def scaled_matmul(
    lhs: Any,
    rhs: Any,
    lhs_scales: Any,
    rhs_scales: Any,
    preferred_element_type: DTypeLike = float32,
) -> Value:
    """``(lhs * its scales) @ (rhs * its scales)ᵀ``, where a scale is that of a block of columns.

    Args:
        lhs: [b, m, k], as of ``gx.float8_e4m3fn`` or ``gx.int4``.
        rhs: [b, n, k].
        lhs_scales: [b, m, k / s]: of s columns each, by which the known k can be divided.
        rhs_scales: [b, n, k / t].
        preferred_element_type: what all are converted to, and computed in.

    Gives [b, m, n] of that dtype.

    Raises:
        ShapeError: for other ranks and sizes; at run time where b, m or n is unknown.
    """
    element = as_dtype(preferred_element_type)
    astype = surface_function("astype")

    def whole(given: Any, factors: Any) -> Value:
        value, scales = as_value(given), as_value(factors)
        shapes = f"{show(value.shape)} and scales {show(scales.shape)}"
        if value.ndim != 3 or scales.ndim != 3:
            raise ShapeError(f"scaled_matmul of {shapes}", where=caller(), hint="of three axes")
        depth, blocks = value.shape[-1], scales.shape[-1]
        is_known = isinstance(depth, int) and isinstance(blocks, int)
        if not is_known or not blocks or depth % blocks:
            raise ShapeError(
                f"scaled_matmul of {shapes}: columns are not shared out among scales",
                where=caller(),
                hint="the last axes are known, and the number of scales divides that of columns",
            )
        message = "scaled_matmul of {} and scales {}"
        pairs = list(zip(scales.shape[:2], value.shape[:2], strict=True))
        guards = unproved(pairs, message, value.shape, scales.shape)
        scales = with_shape(scales, (*value.shape[:2], blocks), guards)
        parts = reshape(astype(value, element), (*value.shape[:2], blocks, depth // blocks))
        return reshape(parts * expand_dims(astype(scales, element), -1), value.shape)

    return matmul(whole(lhs, lhs_scales), matrix_transpose(whole(rhs, rhs_scales)))


__all__ = ["scaled_matmul"]
