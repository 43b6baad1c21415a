"""The panel layout of a product's right operand: how a packed matrix lies in memory.

Invariant: a packed matrix is an ordinary array [blocks, panels, depth, width], so that its type
says how it lies: element (i, j) of the matrix is [i div depth, j div width, i mod depth, j mod
width], and what the matrix does not fill is zero. The micro-kernel walks a panel row by row, one
panel's width of columns at a time, in address order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.target import Target
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType

TILE_VECTORS = 2
"""Vectors in a panel's row."""


def vector_bits(target: Target) -> int:
    """The width of the vectors that products use."""
    return min(target.vector_bits, 512)


def panel_width(dtype: DType, target: Target) -> int:
    """Columns of a panel."""
    return TILE_VECTORS * vector_bits(target) // dtype.bits


def depth_limit(dtype: DType, target: Target) -> int:
    """The longest part of k that is handled at once.

    Wide tiles take long to walk a row of their panel, so it may stream from the second level cache.
    """
    return (4096 if vector_bits(target) == 512 else 2048) // dtype.bytes


def even_depth(k: int, limit: int) -> int:
    """The depth of the fewest equal parts of k, at least 1, that none is deeper than the limit."""
    parts = -(-k // limit)
    return -(-k // parts)


def fits(shape: Sequence[Dim], k: int, n: int) -> bool:
    """Whether an array of this shape is how a [k, n] matrix is packed."""
    if not holds(shape, k):
        return False
    _, panels, _, width = (size for size in shape if isinstance(size, int))
    return panels == -(-n // width)


def holds(shape: Sequence[Dim], k: int) -> bool:
    """Whether an array of this shape holds columns of k elements in panels.

    How many panels there are may be known at run time only.
    """
    if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] <= 0):
        return False
    sizes = [size for size in (shape[0], *shape[2:]) if isinstance(size, int) and size > 0]
    return len(sizes) == 3 and sizes[0] == -(-k // sizes[1])


def pack(matrix: Array, width: int, depth: int) -> Array:
    """A matrix [k, n], neither 0, in panels: [ceil(k / depth), ceil(n / width), depth, width]."""
    k, n = matrix.shape
    blocks, panels = -(-k // depth), -(-n // width)
    if (blocks * depth, panels * width) == (k, n):
        parts = matrix.reshape(blocks, depth, panels, width)
        return parts.transpose(0, 2, 1, 3).copy()
    result: Array = np.zeros((blocks, panels, depth, width), matrix.dtype)
    for block in range(blocks):
        part = matrix[block * depth : (block + 1) * depth]
        for panel in range(panels):
            columns = part[:, panel * width : (panel + 1) * width]
            result[block, panel, : columns.shape[0], : columns.shape[1]] = columns
    return result


def places(shape: tuple[int, ...], k: int, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The flat index in a packed array of this shape of each element of the [k, n] matrix."""
    _, panels, depth, width = shape
    row, column = np.arange(k, dtype=np.int64)[:, None], np.arange(n, dtype=np.int64)
    panel = row // depth * panels + column // width
    return (panel * depth + row % depth) * width + column % width


def unpack(packed: Array, k: int, n: int, into: Array | None = None) -> Array:
    """The matrix [k, n] that was packed, an array of its own or the one that is given."""
    blocks, panels, depth, width = packed.shape
    matrix = np.empty((k, n), packed.dtype) if into is None else into
    for block in range(blocks):
        part = matrix[block * depth : (block + 1) * depth]
        for panel in range(panels):
            columns = part[:, panel * width : (panel + 1) * width]
            columns[...] = packed[block, panel, : columns.shape[0], : columns.shape[1]]
    return matrix
