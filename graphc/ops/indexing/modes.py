"""What an index out of range means, as users choose it by ``mode=``.

* ``"error"``: IndexRangeError. NumPy's ``"raise"`` is the same, and so is JAX's
  ``"promise_in_bounds"``, for which nothing is gained by not looking.
* ``"clip"``: the nearest place. ``"wrap"``: modulo the length.
* ``"drop"`` and ``"fill"``: no place. An update is left out, and what is read is a fill value.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from graphc.base.errors import UnsupportedError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType, bool_, int64, uint64
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.convert import converted, size_beside

_MODES: Final = {
    None: "error", "error": "error", "raise": "error", "promise_in_bounds": "error",
    "clip": "clip", "wrap": "wrap", "drop": "drop", "fill": "drop",
}  # fmt: skip


def mode_of(mode: Any) -> str:
    """One of error, clip, wrap and drop.

    Raises:
        UnsupportedError: for any other mode.
    """
    if not isinstance(mode, (str, type(None))) or mode not in _MODES:
        raise UnsupportedError(
            f"mode {shown(mode)} for indices out of range",
            where=caller(),
            hint="modes are 'error', 'clip', 'wrap', 'drop' and 'fill'",
        )
    return _MODES[mode]


def wide(indices: Value) -> Value:
    """Indices as int64; what that doesn't hold is beyond every axis, and stays so."""
    if indices.dtype is uint64:
        largest = np.uint64(np.iinfo(np.int64).max)
        indices = surface_function("minimum")(indices, largest)
    return converted(indices, int64)


def brought_in(indices: Value, size: Dim, mode: str, wraps: bool = True) -> Value:
    """Indices as they are, or moved into the axis if the mode does so.

    Args:
        indices: of any integers.
        size: of the axis.
        mode: as ``mode_of`` gives it.
        wraps: whether ``clip`` lets negative ones count from the end first.
    """
    if mode not in ("clip", "wrap"):
        return indices
    where, number = surface_function("where"), wide(indices)
    length = size_beside(size, int64, indices)
    if mode == "wrap":
        return number % length
    if wraps:
        number = where(number < 0, number + length, number)
    lowest = surface_function("maximum")(number, 0)
    result: Value = surface_function("minimum")(lowest, length - 1)
    return result


def default_fill(dtype: DType) -> bool | int | float:
    """What is read where there is nothing, as JAX has it: NaN, the least of signed integers, the
    greatest of unsigned ones, True."""
    if dtype.is_inexact:
        return float("nan")
    if dtype is bool_:
        return True
    return int(dtype.least if dtype.is_signed else dtype.greatest)


__all__ = ["brought_in", "default_fill", "mode_of", "wide"]
