"""Gradients kept within bounds."""

from __future__ import annotations

from typing import Any

from graphc.base.errors import DTypeError, GraphError
from graphc.base.source import caller
from graphc.frontend.structure import leaves, rebuild
from graphc.ir.value import Value
from graphc.ops.arguments import number
from graphc.ops.complex.parts import squared_size
from graphc.ops.convert import converted
from graphc.ops.pointwise.arithmetic import sqrt
from graphc.ops.pointwise.rounding import maximum as larger
from graphc.ops.reduce.axes import sum_
from graphc.optim.steps import Number


def clip_by_global_norm(gradients: Any, maximum: Number) -> tuple[Any, Value]:
    """Gradients scaled together so that their common norm is at most ``maximum``.

        n = √Σ |g|², g · maximum / max(n, maximum)

    Gradients within the bound keep their bits. If a gradient is infinite or NaN, so is the norm,
    and all results are of no use.

    Args:
        gradients: float or complex values, a list, tuple or dict of them, or nested ones.
        maximum: a number, or a scalar value, above 0.

    Returns:
        The clipped gradients in the same structure, and the norm before clipping, a scalar.

    Raises:
        GraphError: if there are no gradients, or ``maximum`` is a number that is not above 0.
        DTypeError: for values that are neither floats nor complex.
    """
    values = list(leaves(gradients))
    if not values:
        raise GraphError("there are no gradients to clip", where=caller())
    for value in values:
        if not isinstance(value, Value) or not value.dtype.is_differentiable:
            raise DTypeError(f"{value!r} is not a gradient, a float value", where=caller())
    if not isinstance(maximum, Value):
        maximum = number(maximum, "the largest norm")
        if not maximum > 0:
            raise GraphError(
                f"the largest norm must be above 0, not {maximum}",
                where=caller(),
                hint="give a number above 0, such as 1.0",
            )
    total = sum_(squared_size(values[0]))
    for value in values[1:]:
        total = total + sum_(squared_size(value))
    norm = sqrt(total)
    factor = maximum / larger(norm, maximum)
    return rebuild(gradients, lambda value: value * converted(factor, value.dtype)), norm

__all__ = ["clip_by_global_norm"]
