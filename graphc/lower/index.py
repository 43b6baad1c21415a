"""Index arithmetic of lowering: row-major offsets, broadcasting, reshapes.

Offsets are built in Horner form, ((i·n1 + j)·n2 + k), so that equal prefixes are shared and hoisted
by the builder.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import int64
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Var

Index = tuple[Var, ...]


def flat_index(
    b: KernelBuilder,
    index: Sequence[Var],
    shape: Sequence[Dim],
    starts: Sequence[Dim] | None = None,
) -> Var:
    """Row-major offset of an index, counted from ``starts`` if they are given."""
    result = b.constant(0, int64)
    for axis, (var, dim) in enumerate(zip(index, shape, strict=True)):
        if axis:
            result = b.apply("multiply", result, b.dim(dim))
        if starts is not None and starts[axis] != 0:
            result = b.apply("add", result, b.dim(starts[axis]))
        result = b.apply("add", result, var)
    return result


def split_index(b: KernelBuilder, flat: Var, shape: Sequence[Dim]) -> Index:
    """The index that lies at a row-major offset."""
    result: list[Var] = []
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            result.append(b.constant(0, int64))
        elif all(dim == 1 for dim in shape[:axis]):
            result.append(flat)
        else:
            size = b.dim(shape[axis])
            result.append(b.apply("mod", flat, size))
            flat = b.apply("floor_divide", flat, size)
    return tuple(reversed(result))


def broadcast_index(
    b: KernelBuilder, index: Sequence[Var], target: Sequence[Dim], shape: Sequence[Dim]
) -> Index:
    """The operand's element for an element of the broadcast result.

    Dims not known to be equal or 1 select at run time.
    """
    if shape == target and 1 not in shape:
        return tuple(index)
    offset = len(target) - len(shape)
    result: list[Var] = []
    for axis, dim in enumerate(shape):
        var = index[axis + offset]
        if dim == 1:
            result.append(b.constant(0, int64))
        elif dim == target[axis + offset]:
            result.append(var)
        else:
            moves = expressions.select("eq", dim, 1, 0, 1)
            result.append(b.apply("multiply", var, b.dim(moves)))
    return tuple(result)


def reshape_index(
    b: KernelBuilder, index: Sequence[Var], shape: Sequence[Dim], source: Sequence[Dim]
) -> Index:
    """The element of ``source`` with the same row-major offset as ``index`` in ``shape``.

    Equal axes at the end stay. The others are matched in groups of equal size from the left, so
    only axes that are really regrouped cost divisions.
    """
    alike = 0
    while alike < min(len(shape), len(source)) and shape[-1 - alike] == source[-1 - alike]:
        alike += 1
    last = tuple(index[len(shape) - alike :])
    shape, source = shape[: len(shape) - alike], source[: len(source) - alike]
    result: list[Var] = []
    i = j = 0
    while i < len(shape) or j < len(source):
        if i < len(shape) and shape[i] == 1:
            i += 1
            continue
        if j < len(source) and source[j] == 1:
            result.append(b.constant(0, int64))
            j += 1
            continue
        left, right = i + 1, j + 1
        while expressions.product(shape[i:left]) != expressions.product(source[j:right]):
            a, c = expressions.product(shape[i:left]), expressions.product(source[j:right])
            grow_left = expressions.compare("lt", a, c)
            if grow_left and left < len(shape):
                left += 1
            elif grow_left is False and right < len(source):
                right += 1
            else:
                left, right = len(shape), len(source)
                break
        flat = flat_index(b, index[i:left], shape[i:left])
        result += split_index(b, flat, source[j:right])
        i, j = left, right
    return (*result, *last)
