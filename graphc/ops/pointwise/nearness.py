"""Whether arrays are equal, or nearly so, as NumPy asks it."""

from __future__ import annotations

from typing import Any

from graphc.ir.dims.expressions import dim_min
from graphc.ir.dims.expressions import equal as equal_dims
from graphc.ir.dtypes import bool_, float64, int64
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import switch
from graphc.ops.convert import as_value, converted, promoted, size_beside
from graphc.ops.move.slicing import part
from graphc.ops.pointwise.logic import equal, isfinite, isnan
from graphc.ops.pointwise.rounding import abs_
from graphc.ops.source import constant_beside


@surface
def isclose(
    x: Any, y: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Value:
    """Whether |x - y| <= atol + rtol * |y|, element by element, as bool.

    Infinities are close to themselves alone, and NaN to nothing, but to NaN with ``equal_nan``.
    Integers and bools are compared in float64.
    """
    left, right = promoted(x, y)
    if not left.dtype.is_inexact:
        left, right = converted(left, float64), converted(right, float64)
    within = (abs_(left - right) <= abs_(right) * rtol + atol) & isfinite(right)
    result: Value = within | equal(left, right)
    if switch(equal_nan, "equal_nan"):
        result = result | (isnan(left) & isnan(right))
    return result


@surface
def allclose(
    x: Any, y: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Value:
    """Whether all elements are close, as one bool; see ``isclose``."""
    result: Value = surface_function("all")(isclose(x, y, rtol, atol, equal_nan))
    return result


@surface
def array_equal(x: Any, y: Any, equal_nan: bool = False) -> Value:
    """Whether two tensors have one shape and equal elements, as one bool.

    Sizes that are not known are compared when the graph runs, and may differ.
    """
    left = as_value(x, y if isinstance(y, Value) else None)
    right = as_value(y, left)
    nan_too = switch(equal_nan, "equal_nan")
    is_known = left.ndim != right.ndim or any(
        equal_dims(*pair) is False for pair in zip(left.shape, right.shape, strict=True)
    )
    if is_known:
        return constant_beside(False, bool_, left)
    same = constant_beside(True, bool_, left)
    # what both have is compared, and the sizes by themselves
    for axis, (size, other) in enumerate(zip(left.shape, right.shape, strict=True)):
        if equal_dims(size, other) is not True:
            same = same & equal(size_beside(size, int64, left), size_beside(other, int64, left))
            common = dim_min(size, other)
            left, right = part(left, axis, 0, common), part(right, axis, 0, common)
    alike = equal(left, right)
    if nan_too and left.dtype.is_inexact and right.dtype.is_inexact:
        alike = alike | (isnan(left) & isnan(right))
    result: Value = same & surface_function("all")(alike)
    return result


@surface
def array_equiv(x: Any, y: Any) -> Value:
    """Whether two tensors have equal elements when broadcast against each other, as one bool.

    Raises:
        ShapeError: if the shapes don't broadcast, where NumPy says False.
    """
    result: Value = surface_function("all")(equal(x, y))
    return result
