"""Gradients kept within bounds."""

from __future__ import annotations

from typing import Any

from graphc.base.errors import DTypeError, GraphError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.structure import leaves, rebuild
from graphc.ir.value import Value
from graphc.ops.complex.parts import squared_size
from graphc.ops.convert import converted
from graphc.ops.pointwise.arithmetic import sqrt
from graphc.ops.pointwise.rounding import clip
from graphc.ops.pointwise.rounding import maximum as larger
from graphc.ops.reduce.axes import sum_
from graphc.optim.steps import Number, check_positive


def clip_by_value(gradients: Any, maximum: Number) -> Any:
    """Gradients with each element between -maximum and maximum; a NaN stays one.

    Args:
        gradients: float values, a list, tuple or dict of them, or nested ones.
        maximum: a number, or a scalar value, above 0.

    Returns:
        The clipped gradients in the same structure.

    Raises:
        GraphError: if there are no gradients, or ``maximum`` is a number that is not above 0.
        DTypeError: for values that are no floats.
    """
    for value in _gradients(gradients):
        if value.dtype.is_complex:
            raise DTypeError(
                f"{value!r} is complex, and has no order",
                where=caller(),
                hint="clip_by_norm and clip_by_global_norm keep its direction",
            )
    bound = _bound(maximum, "the largest value")

    def clipped(value: Value) -> Value:
        most = converted(bound, value.dtype) if isinstance(bound, Value) else bound
        return clip(value, -most, most)

    return rebuild(gradients, clipped)


def clip_by_norm(gradients: Any, maximum: Number) -> Any:
    """Gradients each scaled so that its own norm is at most ``maximum``.

        n = √Σ |g|², g · maximum / max(n, maximum)

    Args:
        gradients: float or complex values, a list, tuple or dict of them, or nested ones.
        maximum: a number, or a scalar value, above 0.

    Returns:
        The clipped gradients in the same structure. Those within the bound keep their bits; all
        elements of one that has an infinity or NaN are of no use.

    Raises:
        GraphError: if there are no gradients, or ``maximum`` is a number that is not above 0.
        DTypeError: for values that are neither floats nor complex.
    """
    _gradients(gradients)
    bound = _bound(maximum, "the largest norm")

    def clipped(value: Value) -> Value:
        return value * converted(bound / larger(norm_of([value]), bound), value.dtype)

    return rebuild(gradients, clipped)


def clip_by_global_norm(gradients: Any, maximum: Number) -> tuple[Any, Value]:
    """Gradients scaled together so that their common norm is at most ``maximum``.

        n = √Σ |g|², g · maximum / max(n, maximum)

    Gradients within the bound keep their bits. If a gradient is infinite or NaN, so is the norm,
    and all results are of no use.

    Args:
        gradients: float or complex values, a list, tuple or dict of them, or nested ones.
        maximum: a number, or a scalar value, above 0.

    Returns:
        The clipped gradients in the same structure, and the norm before clipping, a scalar; it is
        float32 for gradients that are narrower.

    Raises:
        GraphError: if there are no gradients, or ``maximum`` is a number that is not above 0.
        DTypeError: for values that are neither floats nor complex.
    """
    values = _gradients(gradients)
    bound = _bound(maximum, "the largest norm")
    norm = norm_of(values)
    factor = bound / larger(norm, bound)
    return rebuild(gradients, lambda value: value * converted(factor, value.dtype)), norm


def norm_of(values: list[Value]) -> Value:
    """The root of all squares of all values; squares of float16 would overflow, so in float32."""
    total = sum_(squared_size(converted(values[0], values[0].dtype.computed)))
    for value in values[1:]:
        total = total + sum_(squared_size(converted(value, value.dtype.computed)))
    return sqrt(total)


def _gradients(given: Any) -> list[Value]:
    """The values of a structure of gradients."""
    values = list(leaves(given))
    if not values:
        raise GraphError("there are no gradients to clip", where=caller(), hint="give at least one")
    for value in values:
        if not isinstance(value, Value) or not value.dtype.is_differentiable:
            raise DTypeError(
                f"{shown(value)} is not a gradient, a float value",
                where=caller(),
                hint="clip what gx.gradients gives",
            )
    return values


def _bound(given: Number, what: str) -> Number:
    if isinstance(given, Value):
        return given
    return check_positive(given, what)


__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value", "norm_of"]
