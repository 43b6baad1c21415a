"""What is made of ``gradients`` and ``jvp``: products with vectors, Jacobians and Hessians.

A Jacobian is a loop over its rows or its columns, whichever are fewer; what does not depend on the
row is computed once, before the loop. Invariant: nothing here differentiates by itself, so that it
can all be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.differentiate import differentiable, gradients, jvp
from graphc.frontend.loops import map_
from graphc.frontend.structure import filled, leaves, rebuild
from graphc.ir.dims.expressions import at_hint
from graphc.ir.dtypes import int64
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.convert import converted
from graphc.ops.creation import iota_beside
from graphc.ops.move.shape import with_shape

Mode = Literal["forward", "reverse"]


def value_and_gradients(
    ys: Any, xs: Any, grad_ys: Any = None, unconnected: Literal["raise", "zeros"] = "raise"
) -> tuple[Any, Any]:
    """``(ys, gradients(ys, xs))``, for who wants both; arguments and errors are those."""
    return ys, gradients(ys, xs, grad_ys, unconnected)


def vjp(ys: Any, xs: Any, cotangents: Any) -> Any:
    """The product of a vector and the Jacobian: the gradient of ys weighed by ``cotangents``.

    Args:
        ys: a float value, or nested lists, tuples and dicts of them.
        xs: what to differentiate by, in the same way.
        cotangents: one for each y, in the structure of ys; each is broadcast to the shape of its y.

    Returns:
        One cotangent per x, of its dtype and shape, in the structure of xs; zeros for an x on which
        no y depends.

    Raises:
        GradientError, DTypeError: as ``gradients``.
    """
    return gradients(ys, xs, cotangents, "zeros")


def hvp(y: Any, xs: Any, vectors: Any) -> Any:
    """The product of the Hessian of a scalar and a vector, for about the cost of two gradients.

    Forward mode over reverse mode: how the gradient changes when xs change by ``vectors``.

    Args:
        y: a float scalar.
        xs: float values, or nested lists, tuples and dicts of them.
        vectors: one for each x, in the structure of xs.

    Raises:
        ShapeError: if y is no scalar.
        GradientError, DTypeError: as ``gradients``.
    """
    return jvp(gradients(_scalar(y, "hvp"), xs), xs, vectors)


def jacobian(y: Any, xs: Any, mode: Mode | None = None) -> Any:
    """The derivative of each element of y by each element of xs.

    Args:
        y: a float value of any shape.
        xs: float values, or nested lists, tuples and dicts of them.
        mode: "reverse" runs a gradient for each element of y, "forward" a ``jvp`` for each of xs;
            left out, whichever are fewer.

    Returns:
        In the structure of xs a tensor of shape ``(*y.shape, *x.shape)`` for each x; zeros for an x
        on which y does not depend.

    Raises:
        GradientError, DTypeError: as ``gradients``.
    """
    value = _value(y, "jacobian")
    if mode not in (None, "forward", "reverse"):
        raise GraphError(
            f"jacobian in mode {shown(mode)}", where=caller(), hint='give "forward" or "reverse"'
        )
    columns = sum(at_hint(x.size) for x in differentiable(xs, "xs"))
    if mode == "forward" or (mode is None and columns < at_hint(value.size)):
        return rebuild(xs, lambda x: _by_columns(value, x))
    return _by_rows(value, xs)


def hessian(y: Any, xs: Any) -> Any:
    """The second derivatives of a scalar: a product with each unit vector of xs.

    Args:
        y: a float scalar.
        xs: float values, or nested lists, tuples and dicts of them.

    Returns:
        For one x a tensor of shape ``(*x.shape, *x.shape)``; else in the structure of xs, for each
        x, in that structure again, a tensor of shape ``(*x.shape, *other.shape)``.

    Raises:
        ShapeError: if y is no scalar.
        GradientError, DTypeError: as ``gradients``.
    """
    slopes = gradients(_scalar(y, "hessian"), xs)
    return rebuild(slopes, lambda slope: jacobian(slope, xs, "forward"))


def _by_rows(y: Value, xs: Any) -> Any:
    def row(unit: Value) -> Any:
        return list(leaves(gradients(y, xs, unit, "zeros")))

    rows = _of_units(y, row)
    shapes = [(*y.shape, *x.shape) for x in leaves(xs)]
    return filled(xs, [with_shape(made, s) for made, s in zip(rows, shapes, strict=True)])


def _by_columns(y: Value, x: Value) -> Value:
    (columns,) = _of_units(x, lambda unit: [jvp(y, x, unit)])
    last: Value = surface_function("moveaxis")(columns, 0, -1)
    return with_shape(last, (*y.shape, *x.shape))


def _of_units(like: Value, function: Callable[[Value], list[Value]]) -> list[Value]:
    """What a function gives for each unit vector of the type of a value, stacked."""
    places = iota_beside((like.size,), 0, int64, like)

    def of_one(place: Value) -> list[Value]:
        unit = iota_beside((like.size,), 0, int64, like) == place
        return function(with_shape(converted(unit, like.dtype), like.shape))

    made: list[Value] = map_(of_one, places)
    return made


def _value(y: Any, what: str) -> Value:
    if not isinstance(y, Value):
        raise DTypeError(
            f"{what} of {shown(y)}, which is no value of a graph",
            where=caller(),
            hint="give one value; gx.concatenate or gx.stack joins several",
        )
    return y


def _scalar(y: Any, what: str) -> Value:
    value = _value(y, what)
    if value.ndim:
        raise ShapeError(
            f"{what} of a value of type {value.type}",
            where=caller(),
            hint="reduce it with .sum(), or take gx.jacobian of it",
        )
    return value
