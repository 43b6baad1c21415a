"""Arrays of indices, by NumPy's names: of triangles and diagonals, and open meshes.

They are constants: how many indices there are depends on sizes, which so must be known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.arguments import whole
from graphc.ops.convert import as_value
from graphc.ops.guards import show
from graphc.ops.move.shape import reshape
from graphc.ops.source import constant

LARGEST = 2**24
"""How many indices there may be: they stand in the graph."""


def _size(given: Any, name: str, what: str) -> int:
    size = whole(given, f"{what} of {name}")
    if size < 0:
        raise ShapeError(f"{what} of {name} is {size}", where=caller(), hint="it is 0 or more")
    return size


def _known(x: Any, name: str, rank: int | None) -> list[int]:
    """The sizes of an array, which must be known."""
    value = as_value(x)
    known = [size for size in value.shape if isinstance(size, int)]
    if len(known) < value.ndim or value.ndim != (rank or value.ndim) or value.ndim < 2:
        raise ShapeError(
            f"{name} of an array of shape {show(value.shape)}",
            where=caller(),
            hint="indices are made when the graph is built: give known sizes of "
            f"{'two axes' if rank else 'two axes or more'}",
        )
    return known


def _constants(arrays: Any, name: str, count: int) -> tuple[Value, ...]:
    if count > LARGEST:
        raise ShapeError(
            f"{name} of {count:,} indices", where=caller(), hint="mask with gx.tri or gx.eye"
        )
    return tuple(constant(np.asarray(array, np.int64)) for array in arrays())


def _triangle(
    make: Callable[..., Any], name: str, n: Any, k: Any, m: Any
) -> tuple[Value, ...]:
    rows, offset = _size(n, name, "n"), whole(k, f"k of {name}")
    columns = rows if m is None else _size(m, name, "m")
    # beyond the corners there is no diagonal
    offset = min(max(offset, -rows - 1), columns + 1)
    return _constants(lambda: make(rows, offset, columns), name, rows * columns)


@surface
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Value, ...]:
    """The rows and columns of what ``tril`` keeps of an n by m matrix."""
    return _triangle(np.tril_indices, "tril_indices", n, k, m)


@surface
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Value, ...]:
    """The rows and columns of what ``triu`` keeps of an n by m matrix."""
    return _triangle(np.triu_indices, "triu_indices", n, k, m)


@surface
def tril_indices_from(arr: Any, k: int = 0) -> tuple[Value, ...]:
    """``tril_indices`` of the sizes of a matrix, which must be known."""
    rows, columns = _known(arr, "tril_indices_from", 2)
    return tril_indices(rows, k, columns)


@surface
def triu_indices_from(arr: Any, k: int = 0) -> tuple[Value, ...]:
    """``triu_indices`` of the sizes of a matrix, which must be known."""
    rows, columns = _known(arr, "triu_indices_from", 2)
    return triu_indices(rows, k, columns)


@surface
def diag_indices(n: int, ndim: int = 2) -> tuple[Value, ...]:
    """The indices of the diagonal of an array of ``ndim`` axes of size n."""
    size, rank = _size(n, "diag_indices", "n"), _size(ndim, "diag_indices", "ndim")
    if rank > 64:
        raise ShapeError(f"ndim of diag_indices is {rank}", where=caller(), hint="at most 64")
    (index,) = _constants(lambda: (np.arange(size),), "diag_indices", size)
    return (index,) * rank


@surface
def diag_indices_from(arr: Any) -> tuple[Value, ...]:
    """``diag_indices`` of an array whose axes are of one size, which must be known."""
    sizes = _known(arr, "diag_indices_from", None)
    if len(set(sizes)) > 1:
        raise ShapeError(
            f"diag_indices_from of {show(tuple(sizes))}", where=caller(), hint="give equal sizes"
        )
    return diag_indices(sizes[0], len(sizes))


@surface
def ix_(*args: Any) -> tuple[Value, ...]:
    """Vectors of indices as an open mesh: each along an axis of its own.

    Raises:
        ShapeError: for what is no vector.
    """
    made = []
    for place, given in enumerate(args):
        value = as_value(given)
        if value.ndim != 1 or value.dtype.is_float:
            raise ShapeError(
                f"ix_ takes vectors of integers, not {shown(given)}",
                where=caller(),
                hint="choose by a mask with gx.compress, which needs size=",
            )
        shape = tuple(-1 if axis == place else 1 for axis in range(len(args)))
        made.append(reshape(value, shape))
    return tuple(made)
