"""Reductions of windows that slide over axes: ``reduce_window``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.base.errors import ShapeError, UnsupportedError
from graphc.base.source import caller
from graphc.base.words import is_count, shown
from graphc.ir.dims.expressions import Dim, dim_max
from graphc.ir.dtypes import bool_
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import one_or_more
from graphc.ops.convert import PYTHON_SCALARS, as_value, in_dtype
from graphc.ops.guards import show
from graphc.ops.move.slicing import padded
from graphc.ops.move.windows import covered, windows

_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min",
    "logical_and": "all", "logical_or": "any",
    "bitwise_and": "reduce_and", "bitwise_or": "reduce_or", "bitwise_xor": "reduce_xor",
}  # fmt: skip
"""By the function of two elements what reduces many."""


def _numbers(given: Any, rank: int, what: str, least: int = 1) -> list[int]:
    found = [1] * rank if given is None else list(one_or_more(given, what))
    if len(found) != rank or not all(is_count(number, least) for number in found):
        raise ShapeError(
            f"{what} is {shown(given)} for {rank} axes",
            where=caller(),
            hint=f"give an int of at least {least} for each axis",
        )
    return [int(number) for number in found]


def _margins(
    padding: Any, shape: Sequence[Dim], sizes: Sequence[int], steps: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[Dim, Dim]]:  # fmt: skip
    """How much is added before and after each axis."""
    if isinstance(padding, str) and padding.upper() == "VALID":
        return [(0, 0)] * len(shape)
    if isinstance(padding, str) and padding.upper() == "SAME":
        margins: list[tuple[Dim, Dim]] = []
        for length, size, step, dilation in zip(shape, sizes, steps, dilations, strict=True):
            # as many windows as steps begin within the axis
            count = (length + step - 1) // step
            missing = dim_max((count - 1) * step + covered(size, dilation) - length, 0)
            margins.append((missing // 2, missing - missing // 2))
        return margins
    pairs = list(padding) if isinstance(padding, Sequence) and not isinstance(padding, str) else []
    if len(pairs) != len(shape) or not all(
        isinstance(pair, Sequence) and len(pair) == 2 and all(is_count(n, 0) for n in pair)
        for pair in pairs
    ):
        raise ShapeError(
            f"padding is {shown(padding)} for {len(shape)} axes",
            where=caller(),
            hint='"VALID", "SAME", or a pair of ints that are not negative for each axis',
        )
    return [(int(before), int(after)) for before, after in pairs]


@surface
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    window_dilation: Sequence[int] | None = None,
) -> Value:
    """Windows that slide over all axes, each reduced to an element; as in ``jax.lax``.

    ``gx.reduce_window(x, -np.inf, gx.maximum, (1, 1, 2, 2), (1, 1, 2, 2))`` is a pooling by the
    largest of four, and with ``0, gx.add`` it gives sums.

    Args:
        operand: a tensor of rank n.
        init_value: a number that each window is combined with, and that stands in the margins.
        computation: what combines two elements: ``gx.add``, ``gx.multiply``, ``gx.maximum``,
            ``gx.minimum``, ``gx.logical_and``, ``gx.logical_or``, or the bitwise ones.
        window_dimensions: n sizes.
        window_strides: how far windows begin from each other; 1 along each axis unless given.
        padding: "VALID" for windows within the operand, "SAME" for as many as strides that begin
            in it, or how much is added before and after each axis.
        window_dilation: how far elements of a window are from each other; 1 unless given.

    A sum has the order of sums along an axis that is not the last. The derivative of an extreme is
    shared by equal elements of a window.

    Raises:
        ShapeError: for other numbers of sizes, and for windows larger than the tensor with its
            margins; at run time where sizes are unknown.
        UnsupportedError: for another computation.
    """
    value = as_value(operand)
    name = getattr(computation, "__name__", None)
    name = name.rstrip("_") if isinstance(name, str) else None
    if name not in _REDUCTIONS or surface_function(name) is not computation:
        raise UnsupportedError(
            f"reduce_window by {shown(computation)}",
            where=caller(),
            hint="gx.sliding_window_view has the windows; it can be reduced by what is there for "
            f"whole axes. Known are {', '.join(f'gx.{known}' for known in _REDUCTIONS)}",
        )
    rank = value.ndim
    sizes = _numbers(window_dimensions, rank, "window_dimensions")
    steps = _numbers(window_strides, rank, "window_strides")
    dilations = _numbers(window_dilation, rank, "window_dilation")
    margins = _margins(padding, value.shape, sizes, steps, dilations)
    if not isinstance(init_value, PYTHON_SCALARS):
        number = as_value(init_value, value)
        raise ShapeError(
            f"reduce_window begins with {show(number.shape)} of {number.dtype}",
            where=caller(),
            hint="give a number, as 0 or -np.inf",
        )
    if any(margin != (0, 0) for margin in margins):
        before, after = (tuple(pair[side] for pair in margins) for side in (0, 1))
        value = padded(value, before, after, fill=init_value)
    whole = windows(value, sizes, steps, dilations, "reduce_window")
    axes = tuple(range(rank))
    reduction = surface_function(_REDUCTIONS[name])
    more = {"dtype": value.dtype} if name in ("add", "multiply") else {}
    found = reduction(whole, axes, **more) if axes else value
    # a number beside bools, or bits, would make integers of them
    is_bits = value.dtype is bool_ or name.startswith("bitwise")
    start: Any = in_dtype(init_value, found.dtype, found) if is_bits else init_value
    result: Value = computation(found, start)
    return result


__all__ = ["reduce_window"]
