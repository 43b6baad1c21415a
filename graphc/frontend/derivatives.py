"""What is made of ``gradients`` and ``jvp``: products with vectors, Jacobians and Hessians.

A Jacobian is a loop over its rows or its columns, whichever are fewer; what does not depend on the
row is computed once, before the loop. Invariant: nothing here differentiates by itself, so that it
can all be differentiated again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.differentiate import differentiable, gradients, jvp
from graphc.frontend.loops import map_
from graphc.frontend.structure import filled, leaves, leaves_like, rebuild
from graphc.ir.builder import builder_for, building
from graphc.ir.dims.expressions import at_hint
from graphc.ir.dtypes import int64
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.convert import converted
from graphc.ops.creation import iota_beside
from graphc.ops.guards import show
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


def jacobian(y: Any, xs: Any, mode: Mode | None = None, sparsity: Any = None) -> Any:
    """The derivative of each element of y by each element of xs.

    Args:
        y: a float value of any shape.
        xs: float values, or nested lists, tuples and dicts of them.
        mode: "reverse" runs a gradient for each element of y, "forward" a ``jvp`` for each of xs;
            left out, whichever are fewer.
        sparsity: bools of the shape of the result, in the structure of xs: where it may be other
            than zero. Columns that share no row, or rows that share no column, are then computed
            together, by greedy colouring (Curtis, Powell and Reid, "On the Estimation of Sparse
            Jacobian Matrices", IMA Journal of Applied Mathematics 13, 1974); sizes are known. What
            is other than zero elsewhere gets into wrong places: compare once with the result
            without it.

    Returns:
        In the structure of xs a tensor of shape ``(*y.shape, *x.shape)`` for each x; zeros for an x
        on which y does not depend.

    Raises:
        GradientError: as ``gradients``.
        DTypeError: as ``gradients``, and for a sparsity that is no array of bools.
        ShapeError: for a sparsity of another structure or shape, and for sizes that are not known.
    """
    value = _value(y, "jacobian")
    if mode not in (None, "forward", "reverse"):
        raise GraphError(
            f"jacobian in mode {shown(mode)}", where=caller(), hint='give "forward" or "reverse"'
        )
    given = differentiable(xs, "xs")
    if sparsity is not None:
        patterns = leaves_like(xs, sparsity, "the sparsity of jacobian is")
        pairs = zip(given, patterns, strict=True)
        return _relying(filled(xs, [_coloured(value, x, own, mode) for x, own in pairs]), value)
    columns = sum(at_hint(x.size) for x in given)
    if mode == "forward" or (mode is None and columns < at_hint(value.size)):
        return _relying(rebuild(xs, lambda x: _by_columns(value, x)), value)
    return _relying(_by_rows(value, xs), value)


def _relying(made: Any, y: Value) -> Any:
    """What is made of y, which does not exist where y has no value since sizes don't fit: not even
    without a row, so that no gradient is computed."""
    for value in leaves(made):
        owner: Recorder | None = value.graph
        if owner is not None:
            owner.rely(value, [y])
    return made


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


def _coloured(y: Value, x: Value, sparsity: Any, mode: Mode | None) -> Value:
    """The Jacobian by columns or by rows, of which those of one colour are computed together."""
    pattern, shape = np.asarray(sparsity), (*y.shape, *x.shape)
    if pattern.dtype != np.bool_:
        raise DTypeError(
            f"the sparsity of jacobian is {shown(sparsity)}",
            where=caller(),
            hint="give a NumPy array of bools: where the result may be other than zero",
        )
    if pattern.shape != shape:
        raise ShapeError(
            f"the sparsity of jacobian has shape {show(pattern.shape)}, the result {show(shape)}",
            where=caller(),
            hint="give one of the result's shape; its sizes are known",
        )
    sizes = math.prod(pattern.shape[: y.ndim]), math.prod(pattern.shape[y.ndim :])
    table = pattern.reshape(sizes)
    of_columns = None if mode == "reverse" else _colours(table)
    of_rows = None if mode == "forward" else _colours(table.T)
    is_by_rows = of_columns is None or (of_rows is not None and len(of_rows) < len(of_columns))
    seeds = of_rows if is_by_rows else of_columns
    assert seeds is not None, "one of both is there"
    like = y if is_by_rows else x
    zeros, constant = surface_function("zeros"), surface_function("constant")
    if not len(seeds):
        nothing: Value = zeros(shape, y.dtype)
        return nothing

    def together(seed: Value) -> Value:
        units = with_shape(converted(seed, like.dtype), like.shape)
        made: Value = gradients(y, x, units, "zeros") if is_by_rows else jvp(y, x, units)
        return made

    with building(builder_for([y, x])):
        packed = map_(together, constant(seeds))
        where, take = surface_function("where"), surface_function("take")
        flat = with_shape(packed, (len(seeds), sizes[1 if is_by_rows else 0]))
        # the line of the colour of each row, or of each column
        spread = take(flat, constant(seeds.argmax(0)), 0)
        chosen = where(constant(table), spread if is_by_rows else spread.T, 0)
    return with_shape(chosen, shape)


def _colours(table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Columns of a pattern in groups that share no row: a line for each, True for its columns.

    The fullest come first; each joins the first group that it may.
    """
    rows = np.zeros((0, table.shape[0]), np.bool_)
    groups: list[list[int]] = []
    for column in np.argsort(-table.sum(0), kind="stable"):
        own = table[:, column]
        if not own.any():
            break
        is_free = ~(rows & own).any(1)
        place = int(is_free.argmax()) if is_free.any() else len(groups)
        if place == len(groups):
            rows = np.concatenate([rows, own[None]])
            groups.append([])
        rows[place] |= own
        groups[place].append(int(column))
    seeds = np.zeros((len(groups), table.shape[1]), np.bool_)
    for place, columns in enumerate(groups):
        seeds[place, columns] = True
    return seeds


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
