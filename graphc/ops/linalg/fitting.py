"""Polynomials fitted to points, by least squares."""

from __future__ import annotations

from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import switch, whole
from graphc.ops.declare import float_operands
from graphc.ops.guards import show, unproved
from graphc.ops.linalg.least_squares import lstsq
from graphc.ops.linalg.matrices import product
from graphc.ops.linalg.systems import inv
from graphc.ops.move.rolling import matrix_transpose
from graphc.ops.move.shape import expand_dims, with_shape
from graphc.ops.move.triangles import vander
from graphc.ops.reduce.axes import sum_


@surface
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool | str = False,
) -> Any:
    """The coefficients of the polynomial nearest to points, that of the highest power first.

    Args:
        x: where, a vector [n].
        y: the values there, [n], or [n, k] for k polynomials.
        deg: the degree.
        rcond: see ``gx.linalg.lstsq``; n times epsilon unless given.
        full: whether to give the sums of squares of what is left, the rank, the singular values and
            ``rcond``, too.
        w: how much each of the differences counts before it is squared, [n].
        cov: whether to give the covariance of the coefficients, too; "unscaled" for that where w is
            the inverse of the standard deviations.

    Columns of powers are scaled to length 1, as in NumPy. Gives [deg + 1], or [deg + 1, k].

    Raises:
        ShapeError: for other shapes and a negative degree; at run time where sizes are unknown.
    """
    wants_all, degree = switch(full, "full"), whole(deg, "deg")
    points, values = float_operands(x, y)
    if degree < 0 or points.ndim != 1 or values.ndim not in (1, 2):
        raise ShapeError(
            f"polyfit of degree {degree} to {show(points.shape)} and {show(values.shape)}",
            where=caller(),
            hint="x is a vector [n], y is [n] or [n, k], and the degree is not negative",
        )
    message = "polyfit of {} and {}: not as many"
    pairs = [(values.shape[0], points.shape[0])]
    guards = unproved(pairs, message, points.shape, values.shape)
    values = with_shape(values, (points.shape[0], *values.shape[1:]), guards)
    powers = vander(points, degree + 1)
    if w is not None:
        points, weights = float_operands(points, w)
        if weights.ndim != 1:
            raise ShapeError(f"polyfit with weights {show(weights.shape)}", where=caller())
        powers = powers * expand_dims(weights, -1)
        values = values * (expand_dims(weights, -1) if values.ndim == 2 else weights)
    scale = surface_function("sqrt")(sum_(powers * powers, 0))
    powers = powers / scale
    if rcond is None:
        count: Any = points.shape[0]
        rcond = count * powers.dtype.epsilon
    found, left, rank, singular = lstsq(powers, values, rcond)
    across = expand_dims(scale, -1)
    coefficients = found / (across if values.ndim == 2 else scale)
    if wants_all:
        return coefficients, left, rank, singular, rcond
    if cov is False:
        return coefficients
    spread: Value = inv(product(matrix_transpose(powers), powers)) / (across * scale)
    if values.ndim == 2:
        spread = expand_dims(spread, -1)
    if cov != "unscaled":
        free: Any = points.shape[0] - (degree + 1)
        spread = spread * left / free
    return coefficients, spread


__all__ = ["polyfit"]
