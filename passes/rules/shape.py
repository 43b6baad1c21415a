"""Slices and margins: one after the other they are one, and what is cut off again was never added.

All of it only moves elements and so keeps every bit; the conditions are proved for all sizes, or
the rule does not fire. Reshapes, transposes and broadcasts are joined by
``passes.graph.canonicalize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, equal, less_equal, symbol
from graphc.ir.dtypes import ALL
from graphc.ir.value import Value
from graphc.ops.move.shape import broadcast_to_op
from graphc.ops.move.slicing import pad_op, slice_op, sliced
from passes.rewriting.pattern import Rule, rule

Dims = tuple[Dim, ...]
Steps = tuple[int, ...]


def _slice(x: Value, start: Dims, step: Steps, size: Dims) -> Value:
    return apply(slice_op, x, start=start, step=step, size=size)


def _pad(x: Value, before: Dims, after: Dims, interior: Steps, value: Any) -> Value:
    attrs: dict[str, Any] = {"before": before, "after": after, "interior": interior}
    return apply(pad_op, x, mode="constant", value=value, **attrs)


# --- slices --------------------------------------------------------------------------------------


def _of_slice(
    x: Value, a: Dims, s: Steps, n: Dims, b: Dims, t: Steps, m: Dims
) -> tuple[Value, Value]:
    start = [first + place * step for first, place, step in zip(a, b, s, strict=True)]
    steps = [one * other for one, other in zip(s, t, strict=True)]
    return _slice(_slice(x, a, s, n), b, t, m), sliced(x, start, steps, m)


_N = symbol("n")

_SLICES: tuple[dict[str, Any], ...] = (
    {"x": (9, 8), "a": (1, 7), "s": (2, -1), "n": (4, 8), "b": (3, 1), "t": (-1, 2), "m": (4, 3)},
    {"x": (5,), "a": (4,), "s": (-1,), "n": (5,), "b": (4,), "t": (-1,), "m": (5,)},
    {"x": (1, 5), "a": (0, 1), "s": (1, 1), "n": (1, 4), "b": (0, 0), "t": (1, 3), "m": (1, 2)},
    {"x": (0, 4), "a": (0, 1), "s": (1, 1), "n": (0, 3), "b": (0, 1), "t": (1, 1), "m": (0, 2)},
    {"x": (6,), "a": (2,), "s": (1,), "n": (3,), "b": (0,), "t": (1,), "m": (0,)},
    {
        "x": (_N, 3), "a": (_N - 1, 0), "s": (-1, 1), "n": (_N, 3), "b": (_N - 1, 1), "t": (-1, 1),
        "m": (_N, 2),
    },
)  # fmt: skip


# --- what a broadcast repeats --------------------------------------------------------------------


def _repeats_or_keeps(x: Value, shape: Dims, a: Dims, s: Steps, n: Dims) -> bool:
    """Whether each axis is known to be repeated, or known not to be."""
    lead = len(shape) - x.ndim
    return all(dim == 1 or equal(dim, shape[lead + axis]) for axis, dim in enumerate(x.shape))


def _of_broadcast(x: Value, shape: Dims, a: Dims, s: Steps, n: Dims) -> tuple[Value, Value]:
    wide = apply(broadcast_to_op, x, shape=shape)
    lead = len(shape) - x.ndim
    start, step, size = list(a[lead:]), list(s[lead:]), list(n[lead:])
    for axis, dim in enumerate(x.shape):
        if dim == 1:
            start[axis], step[axis], size[axis] = 0, 1, 1
    part = sliced(x, start, step, size)
    right = part if part.shape == n else apply(broadcast_to_op, part, shape=n)
    return _slice(wide, a, s, n), right


_BROADCASTS: tuple[dict[str, Any], ...] = (
    {"x": (3, 1), "shape": (2, 3, 4), "a": (0, 2, 1), "s": (1, -2, 1), "n": (1, 2, 3)},
    {"x": (), "shape": (5,), "a": (1,), "s": (1,), "n": (2,)},
    {"x": (1, 4), "shape": (2, 4), "a": (0, 1), "s": (1, 1), "n": (1, 2)},
    {"x": (1,), "shape": (3,), "a": (0,), "s": (1,), "n": (0,)},
    {"x": (0,), "shape": (3, 0), "a": (1, 0), "s": (1, 1), "n": (2, 0)},
    {"x": (_N,), "shape": (4, _N), "a": (1, _N - 1), "s": (1, -1), "n": (2, _N)},
)


# --- margins -------------------------------------------------------------------------------------


def _is_joint(
    x: Value, b: Dims, a: Dims, c: Dims, d: Dims, gap: Steps, v: Any
) -> bool:
    """Whether nothing is cut off in between, so that both margins lie side by side."""
    grown = all(less_equal(0, width) for width in (*b, *a))
    whole = (one + other for one, other in (*zip(b, c, strict=True), *zip(a, d, strict=True)))
    return not any(gap) and grown and all(less_equal(0, width) for width in whole)


def _of_pad(
    x: Value, b: Dims, a: Dims, c: Dims, d: Dims, gap: Steps, v: Any
) -> tuple[Value, Value]:
    left = _pad(_pad(x, b, a, gap, v), c, d, gap, v)
    before = tuple(one + other for one, other in zip(b, c, strict=True))
    after = tuple(one + other for one, other in zip(a, d, strict=True))
    if any(width != 0 for width in (*before, *after)):
        return left, _pad(x, before, after, gap, v)
    return left, x


_PADS: tuple[dict[str, Any], ...] = tuple(
    {"x": x, "b": b, "a": a, "c": c, "d": d, "gap": (0, 0), "v": 0}
    for x, b, a, c, d in (
        ((2, 3), (1, 0), (2, 1), (1, 1), (0, 2)),
        ((2, 3), (2, 0), (1, 1), (-1, 0), (-1, -1)),
        ((2, 3), (2, 0), (1, 1), (-2, 0), (-1, -1)),
        ((0, 1), (1, 0), (1, 0), (0, 2), (0, 1)),
        ((_N, 3), (_N, 0), (1, 1), (1, 1), (0, 2)),
    )
)


def _inside(x: Value, b: Dims, d: Dims, gap: Steps, v: Any, a: Dims, s: Steps, n: Dims) -> bool:
    """Whether a slice takes nothing but what is inside the margins."""
    if any(gap):
        return False
    for dim, before, first, step, count in zip(x.shape, b, a, s, n, strict=True):
        ends = (first - before, first - before + (count - 1) * step)
        low, high = ends if step > 0 else ends[::-1]
        if not (count == 0 or (less_equal(0, low) and less_equal(high, dim - 1))):
            return False
    return True


def _slice_of_pad(
    x: Value, b: Dims, d: Dims, gap: Steps, v: Any, a: Dims, s: Steps, n: Dims
) -> tuple[Value, Value]:
    left = _slice(_pad(x, b, d, gap, v), a, s, n)
    start = [first - before for first, before in zip(a, b, strict=True)]
    return left, sliced(x, start, s, n)


_CROPS: tuple[dict[str, Any], ...] = tuple(
    {"x": x, "b": b, "d": d, "gap": gap, "v": 0, "a": a, "s": s, "n": n}
    for x, b, d, gap, a, s, n in (
        ((4, 3), (1, 2), (0, 1), (0, 0), (1, 2), (1, 1), (4, 3)),
        ((4, 3), (1, 2), (0, 1), (0, 0), (4, 3), (-2, 1), (2, 2)),
        ((4,), (1,), (1,), (0,), (0,), (1,), (0,)),
        ((0, 2), (1, 1), (1, 1), (0, 0), (0, 1), (1, 1), (0, 1)),
        ((5, _N), (2, 1), (0, 3), (0, 0), (3, 1), (1, 1), (2, _N)),
    )
)


def _pad_example(names: Sequence[str]) -> dict[str, Any]:
    """Widths that are all different, so that each attribute is told from the others."""
    return {name: (11 + number,) for number, name in enumerate(names)}


RULES: tuple[Rule, ...] = (
    rule(
        "slice-of-slice",
        _of_slice,
        dtypes=ALL,
        shapes={"x": (900,)},
        free={"a": (1,), "s": (2,), "n": (50,), "b": (3,), "t": (4,), "m": (5,)},
        samples=_SLICES,
    ),
    rule(
        "slice-of-broadcast",
        _of_broadcast,
        dtypes=ALL,
        shapes={"x": (1, 90)},
        free={"shape": (30, 90), "a": (1, 2), "s": (2, 3), "n": (4, 5)},
        when=_repeats_or_keeps,
        samples=_BROADCASTS,
    ),
    rule(
        "pad-of-pad",
        _of_pad,
        dtypes=ALL,
        shapes={"x": (90,)},
        free={**_pad_example("bacd"), "gap": (0,), "v": 0.5},
        when=_is_joint,
        samples=_PADS,
    ),
    rule(
        "slice-of-pad",
        _slice_of_pad,
        dtypes=ALL,
        shapes={"x": (90,)},
        free={**_pad_example("bd"), "gap": (0,), "v": 0.5, "a": (14,), "s": (2,), "n": (5,)},
        when=_inside,
        samples=_CROPS,
    ),
)
