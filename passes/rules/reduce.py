"""Reductions: of what was reduced, repeated, moved, scaled or negated before.

Largest and smallest elements, truth, and integers under wrap-around don't depend on the order in
which they are combined, so they take all of this exactly. Sums and products of floats do; for them
most of it needs the flag ``reassoc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, equal, less, product, symbol
from graphc.ir.dtypes import ALL, INTEGERS, DType, bool_, dtype
from graphc.ir.op import OpDef
from graphc.ir.value import Value
from graphc.ops.convert import size_beside
from graphc.ops.declare import like
from graphc.ops.move.shape import broadcast_to_op, permuted, rearranged, with_shape
from graphc.ops.pointwise.arithmetic import negative
from graphc.ops.reduce.axes import all_op, any_op, max_op, min_op, prod_op, sum_op
from graphc.ops.reduce.core import reduced_shape
from passes.rewriting.constants import Known
from passes.rewriting.pattern import Rule, rule
from passes.rules.common import FLOATS, NUMBERS

Axes = tuple[int, ...]

_REASSOC = frozenset({"reassoc"})
_TRUTH: tuple[DType, ...] = (bool_,)
_EXTREMES = ((max_op, ALL), (min_op, ALL), (any_op, _TRUTH), (all_op, _TRUTH))
_EXACT = (*_EXTREMES, (sum_op, INTEGERS), (prod_op, INTEGERS))


def _over(op: OpDef, value: Value, axes: Axes, keepdims: bool) -> Value:
    return apply(op, value, axes=axes, keepdims=keepdims)


def _left(rank: int, axes: Axes) -> list[int]:
    return [axis for axis in range(rank) if axis not in axes]


def _result(value: Value, shape: Sequence[Dim], axes: Axes, keepdims: bool) -> Value:
    """What was reduced without keeping dims, in the shape that keeping them gives."""
    return with_shape(value, reduced_shape(shape, axes, keepdims), ())


# --- one element, no element ---------------------------------------------------------------------


def _one_each(x: Value, axes: Axes, keep: bool) -> bool:
    """Whether the reduced axes have one element each."""
    return all(x.shape[axis] == 1 for axis in axes)


_ONE_SAMPLES = (
    {"x": (3, 1, 2), "axes": (1,), "keep": False},
    {"x": (3, 1, 1), "axes": (1, 2), "keep": True},
    {"x": (1,), "axes": (0,), "keep": False},
    {"x": (0, 1), "axes": (1,), "keep": False},
    {"x": (4, 3), "axes": (), "keep": False},
    {"x": (symbol("n"), 1), "axes": (1,), "keep": False},
)


def _of_one(op: OpDef, dtypes: tuple[DType, ...], suffix: str = "", **details: Any) -> Rule:
    return rule(
        f"{op.name}-of-one{suffix}",
        lambda x, axes, keep: (
            _over(op, x, axes, keep),
            with_shape(x, reduced_shape(x.shape, axes, keep), ()),
        ),
        dtypes=dtypes,
        shapes={"x": (1, 2)},
        free={"axes": (0,), "keep": False},
        when=_one_each,
        samples=_ONE_SAMPLES,
        **details,
    )


# --- of what was reduced -------------------------------------------------------------------------


def _united(inner: Axes, kept: bool, outer: Axes, rank: int) -> Axes:
    """Both axes in the numbering of the tensor that was reduced first."""
    places = list(range(rank)) if kept else _left(rank, inner)
    return tuple(sorted({*inner, *(places[axis] for axis in outer)}))


def _reduced_twice(
    op: OpDef, x: Value, axes: Axes, keep: bool, others: Axes, still: bool
) -> tuple[Value, Value]:
    inner = _over(op, x, axes, keep)
    left = _over(op, inner, others, still)
    united = _united(axes, keep, others, x.ndim)
    if keep and still:
        return left, _over(op, x, united, True)
    return left, with_shape(_over(op, x, united, False), left.shape, ())


_TWICE_SAMPLES = tuple(
    {"x": shape, "axes": axes, "keep": keep, "others": others, "still": still}
    for shape in ((3, 4, 2), (1, 3, 1), (symbol("n"), 2, symbol("m")))
    for axes, others in (((1,), (0,)), ((0,), (1,)), ((2,), (0, 1)), ((0, 2), (0,)))
    for keep in (False, True)
    for still in (False, True)
)
_TWICE_EMPTY = tuple(
    {**sample, "x": shape} for shape in ((0, 3, 2), (2, 3, 0)) for sample in _TWICE_SAMPLES[:8]
)


def _twice(op: OpDef, dtypes: tuple[DType, ...], suffix: str = "", **details: Any) -> Rule:
    empty = () if op in (max_op, min_op) else _TWICE_EMPTY
    return rule(
        f"{op.name}-twice{suffix}",
        lambda x, axes, keep, others, still: _reduced_twice(op, x, axes, keep, others, still),
        dtypes=dtypes,
        shapes={"x": (2, 2, 2, 2)},
        free={"axes": (0, 2), "keep": False, "others": (1,), "still": True},
        samples=(*_TWICE_SAMPLES, *empty),
        exclusive=not details,
        **details,
    )


# --- of what was repeated ------------------------------------------------------------------------


def _repeated(x: Value, shape: Sequence[Dim]) -> list[int] | None:
    """The axes along which a broadcast repeats, if that is known of each."""
    lead = len(shape) - x.ndim
    axes = list(range(lead))
    for axis, dim in enumerate(x.shape, lead):
        if equal(dim, shape[axis]):
            continue
        if dim != 1:
            return None
        axes.append(axis)
    return axes


def _is_repeated(x: Value, shape: tuple[Dim, ...], axes: Axes, keep: bool) -> bool:
    """Whether a reduced axis is repeated, and no such axis is empty."""
    found = _repeated(x, shape)
    if found is None:
        return False
    gone = [shape[axis] for axis in found if axis in axes]
    return bool(gone) and all(less(0, dim) for dim in gone)


def _may_be_empty(x: Value, shape: tuple[Dim, ...], axes: Axes, keep: bool) -> bool:
    """Whether a reduced axis is repeated."""
    found = _repeated(x, shape)
    return found is not None and any(axis in axes for axis in found)


def _of_repeated(
    op: OpDef, x: Value, shape: tuple[Dim, ...], axes: Axes, keep: bool
) -> tuple[Value, Value]:
    """Each repeated element counts once, or in a sum as often as it is there."""
    left = _over(op, _broadcast(x, shape), axes, keep)
    lead = len(shape) - x.ndim
    inner = tuple(axis - lead for axis in axes if axis >= lead)
    once = _over(op, x, inner, False) if inner else x
    if op is sum_op:
        gone = [shape[axis] for axis in _repeated(x, shape) or () if axis in axes]
        once = once * _times(product(gone), x)
    rest = tuple(shape[axis] for axis in _left(len(shape), axes))
    spread = once if once.shape == rest else _broadcast(once, rest)
    return left, _result(spread, shape, axes, keep)


def _times(count: Dim, beside: Value) -> Value:
    """A number of repetitions in a value's dtype; integers wrap as the sum itself would."""
    if isinstance(count, int):
        return like(np.asarray(count).astype(beside.dtype.numpy).item(), beside)
    return size_beside(count, beside.dtype, beside)


def _broadcast(x: Value, shape: tuple[Dim, ...]) -> Value:
    return apply(broadcast_to_op, x, shape=shape)


_REPEATED_SAMPLES = (
    {"x": (3,), "shape": (4, 3), "axes": (0,), "keep": False},
    {"x": (3,), "shape": (4, 3), "axes": (0, 1), "keep": False},
    {"x": (3, 1), "shape": (2, 3, 5), "axes": (0, 2), "keep": True},
    {"x": (3, 1), "shape": (2, 3, 5), "axes": (1, 2), "keep": False},
    {"x": (), "shape": (2, 300), "axes": (1,), "keep": False},
    {"x": (1, 1), "shape": (1, 7), "axes": (1,), "keep": False},
    {"x": (2, symbol("n")), "shape": (5, 2, symbol("n")), "axes": (0,), "keep": False},
    {"x": (0, 1), "shape": (0, 4), "axes": (1,), "keep": False},
)
_EMPTY_SAMPLES = (
    {"x": (3,), "shape": (0, 3), "axes": (0,), "keep": False},
    {"x": (1, symbol("n")), "shape": (symbol("n"), symbol("n")), "axes": (0,), "keep": False},
)


def _of_broadcast(op: OpDef, dtypes: tuple[DType, ...], suffix: str = "", **details: Any) -> Rule:
    counts = op is sum_op and not suffix
    return rule(
        f"{op.name}-of-broadcast{suffix}",
        lambda x, shape, axes, keep: _of_repeated(op, x, shape, axes, keep),
        dtypes=dtypes,
        shapes={"x": (2,)},
        # An example whose right side is none of the parameters, as in general.
        free={"shape": (3, 2), "axes": (0, 1), "keep": False},
        when=_may_be_empty if counts else _is_repeated,
        samples=(*_REPEATED_SAMPLES, *(_EMPTY_SAMPLES if counts else ())),
        **details,
    )


def _is_counted(c: Known, shape: tuple[Dim, ...], axes: Axes, keep: bool) -> bool:
    """Whether every partial sum of as many ``c`` as the axes have elements is exact."""
    count = product(shape[axis] for axis in axes)
    if not c.single or not isinstance(count, int) or count == 0:
        return False
    number = float(c.array.reshape(()))
    if not number.is_integer() or number == 0:
        return False
    return abs(number) * count <= dtype(c.array.dtype).format.largest_whole


def _counted(c: Value, shape: tuple[Dim, ...], axes: Axes, keep: bool) -> tuple[Value, Value]:
    left = _over(sum_op, _broadcast(c, shape), axes, keep)
    count = product(shape[axis] for axis in axes)
    assert isinstance(count, int)
    return left, _broadcast(c * like(count, c), left.shape)


# --- of what was moved ---------------------------------------------------------------------------


def _of_moved(op: OpDef, x: Value, p: Axes, axes: Axes, keep: bool) -> tuple[Value, Value]:
    left = _over(op, permuted(x, p), axes, keep)
    inner = tuple(sorted(p[axis] for axis in axes))
    moved = _over(op, x, inner, keep)
    if keep:
        return left, rearranged(moved, p)
    old = _left(x.ndim, inner)
    return left, rearranged(moved, [old.index(p[axis]) for axis in _left(x.ndim, axes)])


def _moves_less(x: Value, p: Axes, axes: Axes, keep: bool) -> bool:
    """Whether an axis is reduced."""
    return bool(axes)


_MOVED_SAMPLES = tuple(
    {"x": shape, "p": p, "axes": axes, "keep": keep}
    for shape in ((2, 3, 4), (1, 3, 1), (symbol("n"), 2, symbol("m")))
    for p, axes in (((2, 0, 1), (0,)), ((1, 0, 2), (0, 1)), ((2, 1, 0), (0, 1, 2)))
    for keep in (False, True)
)


def _of_transpose(op: OpDef, dtypes: tuple[DType, ...]) -> Rule:
    return rule(
        f"{op.name}-of-transpose",
        lambda x, p, axes, keep: _of_moved(op, x, p, axes, keep),
        dtypes=dtypes,
        shapes={"x": (2, 2, 2)},
        free={"p": (0, 2, 1), "axes": (0, 1), "keep": False},
        when=_moves_less,
        # Others that read the moved tensor are computed beside this reduction, in one kernel.
        exclusive=True,
        samples=_MOVED_SAMPLES,
    )


def _is_all(x: Value, shape: tuple[Dim, ...], axes: Axes) -> bool:
    """Whether all axes are reduced."""
    return axes == tuple(range(len(shape))) and bool(axes) and x.ndim > 0


def _of_all(op: OpDef, dtypes: tuple[DType, ...]) -> Rule:
    """All elements are combined in row-major order, whatever the shape."""
    samples: list[dict[str, Any]] = [
        {"x": (2, 6), "shape": (3, 4), "axes": (0, 1)},
        {"x": (1, 1), "shape": (1,), "axes": (0,)},
        {"x": (40, 2), "shape": (80,), "axes": (0,)},
        {"x": (symbol("n"), 4), "shape": (2, 2 * symbol("n")), "axes": (0, 1)},
    ]
    if op not in (max_op, min_op):
        samples.append({"x": (0, 3), "shape": (5, 0), "axes": (0, 1)})
    return rule(
        f"{op.name}-of-reshape",
        lambda x, shape, axes: (
            _over(op, with_shape(x, shape, ()), axes, False),
            _over(op, x, tuple(range(x.ndim)), False),
        ),
        dtypes=dtypes,
        shapes={"x": (2, 2)},
        free={"shape": (4,), "axes": (0,)},
        when=_is_all,
        exclusive=True,
        samples=samples,
    )


# --- of what was scaled or negated ---------------------------------------------------------------


def _is_scale(x: Value, c: Value, axes: Axes, keep: bool) -> bool:
    """Whether the factor is a single number."""
    return c.ndim == 0 and x.ndim > 0 and bool(axes)


_SCALE_SAMPLES = (
    {"x": (4, 6), "c": (), "axes": (1,), "keep": False},
    {"x": (4, 6), "c": (), "axes": (0, 1), "keep": True},
    {"x": (2, symbol("n")), "c": (), "axes": (1,), "keep": False},
)
_SCALE_EMPTY = ({"x": (3, 0), "c": (), "axes": (1,), "keep": False},)


def _of_scaled(suffix: str = "", samples: Any = _SCALE_SAMPLES, **details: Any) -> Rule:
    return rule(
        f"sum-of-scaled{suffix}",
        lambda x, c, axes, keep: (
            _over(sum_op, x * c, axes, keep),
            _over(sum_op, x, axes, keep) * c,
        ),
        shapes={"x": (2, 2)},
        free={"axes": (0,), "keep": False},
        when=_is_scale,
        samples=samples,
        **details,
    )


def _is_reduced(x: Value, axes: Axes, keep: bool) -> bool:
    """Whether an axis is reduced."""
    return bool(axes)


def _of_negative(
    op: OpDef, other: OpDef, dtypes: tuple[DType, ...], suffix: str = "", **details: Any
) -> Rule:
    return rule(
        f"{op.name}-of-negative{suffix}",
        lambda x, axes, keep: (
            _over(op, negative(x), axes, keep),
            negative(_over(other, x, axes, keep)),
        ),
        dtypes=dtypes,
        shapes={"x": (2, 2)},
        free={"axes": (0,), "keep": False},
        when=_is_reduced,
        samples=[{name: s[name] for name in ("x", "axes", "keep")} for s in _SCALE_SAMPLES],
        **details,
    )


def _of_not(op: OpDef, other: OpDef) -> Rule:
    return rule(
        f"{op.name}-of-not",
        lambda x, axes, keep: (_over(op, ~x, axes, keep), ~_over(other, x, axes, keep)),
        dtypes=_TRUTH,
        shapes={"x": (2, 2)},
        free={"axes": (0,), "keep": False},
        when=_is_reduced,
        samples=[
            {name: s[name] for name in ("x", "axes", "keep")}
            for s in (*_SCALE_SAMPLES, *_SCALE_EMPTY)
        ],
    )


RULES: tuple[Rule, ...] = (
    *(_of_one(op, dtypes) for op, dtypes in (*_EXTREMES, (sum_op, INTEGERS), (prod_op, NUMBERS))),
    # A sum of -0.0 alone is -0.0 in a kernel and 0.0 in NumPy.
    _of_one(sum_op, FLOATS, "-float", needs=frozenset({"nsz"})),
    *(_twice(op, dtypes) for op, dtypes in _EXACT),
    _twice(sum_op, FLOATS, "-float", needs=_REASSOC, bound=64.0, domain=(-4.0, 4.0)),
    _twice(prod_op, FLOATS, "-float", needs=_REASSOC, bound=64.0, domain=(0.5, 2.0)),
    *(_of_broadcast(op, dtypes) for op, dtypes in (*_EXTREMES, (sum_op, INTEGERS))),
    rule(
        "sum-of-count",
        _counted,
        dtypes=FLOATS,
        constants=("c",),
        free={"shape": (3, 2), "axes": (0,), "keep": False},
        when=_is_counted,
        samples=(
            {"c": np.asarray(1.0), "shape": (4, 3), "axes": (0, 1), "keep": False},
            {"c": np.asarray(-3.0), "shape": (1, 7), "axes": (1,), "keep": True},
            {"c": np.asarray(2.0), "shape": (1000, 1000), "axes": (0, 1), "keep": False},
            {"c": np.asarray(2.0), "shape": (0, 5), "axes": (1,), "keep": False},
        ),
    ),
    _of_broadcast(sum_op, FLOATS, "-float", needs=_REASSOC, bound=512.0, domain=(0.5, 4.0)),
    *(_of_transpose(op, dtypes) for op, dtypes in _EXACT),
    *(_of_all(op, dtypes) for op, dtypes in (*_EXTREMES, (sum_op, NUMBERS), (prod_op, NUMBERS))),
    _of_scaled(samples=(*_SCALE_SAMPLES, *_SCALE_EMPTY), dtypes=INTEGERS),
    _of_scaled("-float", dtypes=FLOATS, needs=_REASSOC, bound=64.0, domain=(0.5, 4.0)),
    _of_negative(sum_op, sum_op, INTEGERS, exclusive=True),
    _of_negative(sum_op, sum_op, FLOATS, "-float", needs=frozenset({"nsz"})),
    _of_negative(max_op, min_op, FLOATS, exclusive=True),
    _of_negative(min_op, max_op, FLOATS, exclusive=True),
    _of_not(any_op, all_op),
    _of_not(all_op, any_op),
)
