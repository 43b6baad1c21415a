"""The transforms of rows, as core operations on pairs: real part, imaginary part.

Invariant: rows are along the last axis but one, the pairs along the last. A row takes a table of
its length, which is made once where that is known (``graphc.kernel.routines.fourier``). A table is
an operand, so that a graph from a file may have another: types refuse one that is proved not to
fit, and the routines hold any against the length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, equal, select
from graphc.ir.dtypes import COMPUTED_FLOATS, DType
from graphc.ir.lowering import Native
from graphc.ir.op import Domain, Linear, NotDifferentiable, OpDef, register
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines.fourier import FFT_TABLE, SCALES, by_table, table_of, transformed
from graphc.kernel.routines.fourier_plan import room_size, table_bound, table_size
from graphc.ops.convert import converted
from graphc.ops.guards import guarded, show, unproved
from graphc.ops.source import constant_beside

# --- tables --------------------------------------------------------------------------------------


def _table_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (like,) = inputs
    length, size = attrs["length"], attrs["size"]
    require_floats("fft_table", like)
    if like.rank or type(attrs["real"]) is not bool:
        raise ShapeError("fft_table takes a scalar, and a bool real", where=caller())
    require_some(length, "fft_table")
    needed = table_size(length, like.dtype, attrs["real"])
    if equal(size, needed) is not True:
        raise ShapeError(
            f"the table for rows of {length} has {needed} elements, not {size}", where=caller()
        )
    return [TensorType(like.dtype, (size,))]


def require_floats(name: str, *operands: TensorType) -> None:
    """Checks the dtypes of operands.

    Raises:
        DTypeError: naming the function, for what are no floats of one dtype that it computes in.
    """
    dtypes = {operand.dtype for operand in operands}
    if len(dtypes) > 1 or not dtypes <= {*COMPUTED_FLOATS}:
        found = " and ".join(sorted(map(str, dtypes)))
        raise DTypeError(f"{name} takes float32 or float64, not {found}", where=caller())


def require_some(length: Dim, name: str) -> None:
    """Refuses a transform of no elements, naming the function."""
    if isinstance(length, int) and length < 1:
        raise ShapeError(f"{name}: a transform of {length} numbers", where=caller(), hint=_HINT)


def require_table(name: str, table: TensorType, length: Dim, real: bool) -> None:
    """Checks the size of a table for rows of a length, as far as it is known.

    Raises:
        ShapeError: naming the function, for one that no table of that length has.
    """
    (size,) = table.shape
    # one that was made for a length that was not known is larger
    fitting = table_size(length, table.dtype, real), table_bound(length)
    if all(equal(size, each) is False for each in fitting) and not _is_open(length, size):
        raise ShapeError(
            f"{name}: the table for rows of {length} has {fitting[0]} elements, not {size}",
            where=caller(),
        )


def _is_open(length: Dim, size: Dim) -> bool:
    """Whether a length that is not known may be one whose table has a known size."""
    return not isinstance(length, int) and isinstance(size, int)


def require_scale(name: str, attrs: Attributes) -> None:
    """Refuses a scale that there isn't."""
    if attrs["scale"] not in SCALES:
        raise ShapeError(f"{name}: scale is {shown(attrs['scale'])}", where=caller())


_HINT = "it needs one at least"


def _table_reference(like: Any, length: int, size: int, real: bool, guards: Any = ()) -> Any:
    return FFT_TABLE.reference(np.reshape(like, 1), length, size, real)[0]


def _table_numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    return attrs["length"], attrs["size"], int(attrs["real"])


def _table_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    length = int(rng.integers(1, 80))
    real = bool(rng.integers(2))
    size = table_size(length, element, real)
    return [np.ones((), element.numpy)], {"length": length, "size": size, "real": real}


fft_table_op = register(
    OpDef(
        name="fft_table",
        doc="The plan and the twiddle factors of fft, or if attrs real of rfft and irfft, for rows "
        "of attrs length elements; attrs size elements of the dtype of the input, a scalar that "
        "says nothing else.",
        infer=_table_type,
        reference=_table_reference,
        derivative=NotDifferentiable("it depends on sizes alone"),
        lowering=Native("fft_table", (0, 1), _table_numbers, tabulates=True),
        numerics="R",
        domain=Domain(COMPUTED_FLOATS, example=_table_example),
    )
)


def table_for(rows: Value, length: Dim, name: str, real: bool = False) -> Value:
    """The table for rows of a length, of the dtype of a value and in its graph.

    Raises:
        ShapeError: for rows without an element, naming the function: now, or when the graph runs.
    """
    message = f"{name}: a transform of {{}} numbers"
    # an empty half comes back as -2 numbers
    some = select("lt", length, 1, 1, 0), 0
    guards = unproved([some], message, length, hint=_HINT)
    like = constant_beside(1.0, rows.dtype, rows)
    size = table_size(length, rows.dtype, real)
    return apply(fft_table_op, like, length=length, size=size, real=real, **guarded(guards))


# --- complex transforms ---------------------------------------------------------------


def _fft_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    pairs, table = inputs
    if pairs.rank < 2 or table.rank != 1 or equal(pairs.shape[-1], 2) is False:
        raise ShapeError(
            f"fft takes pairs [..., n, 2] and a table, not {show(pairs.shape)} and "
            f"{show(table.shape)}",
            where=caller(),
        )
    length = pairs.shape[-2]
    require_floats("fft", pairs, table)
    require_some(length, "fft")
    require_table("fft", table, length, False)
    require_scale("fft", attrs)
    if type(attrs["inverse"]) is not bool:
        raise ShapeError(f"fft: inverse is {shown(attrs['inverse'])}, no bool", where=caller())
    return [pairs.with_shape((*pairs.shape[:-1], 2))]


def _fft_reference(pairs: Any, table: Any, inverse: bool, scale: str) -> Any:
    result = transformed(pairs, inverse, SCALES.index(scale))
    return by_table(result, table, pairs.shape[-2])


def sizes_of(length: Dim, table: TensorType, real: bool) -> tuple[Dim, Dim, Dim]:
    """The numbers of a routine that are sizes: the length, and elements of table and scratch."""
    return length, table.shape[0], room_size(length, table.dtype, real)


def _fft_numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    pairs, table = inputs
    sizes = sizes_of(pairs.shape[-2], table, False)
    return *sizes, int(attrs["inverse"]), SCALES.index(attrs["scale"])


def _fft_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    # of a complex symmetric matrix, in pairs, the transpose is that of its conjugate
    inverse, scale = not attrs["inverse"], attrs["scale"]
    return apply(fft_op, cotangent, inputs[1], inverse=inverse, scale=scale), None


def _fft_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    length = int(rng.integers(1, 60))
    rows = rng.normal(size=(3, length, 2)).astype(element.numpy)
    table = table_of(length, int(table_size(length, element)), element)
    scale = SCALES[int(rng.integers(len(SCALES)))]
    return [rows, table], {"inverse": bool(rng.integers(2)), "scale": scale}


fft_op = register(
    OpDef(
        name="fft",
        doc="Discrete Fourier transforms of rows along the last axis but one, of elements that are "
        "pairs along the last; the second input is the table of the length, and with another rows "
        "are NaN. attrs inverse: the sign of exponents is positive; attrs scale: what results are "
        "divided by, none, the length, or its square root.",
        infer=_fft_type,
        reference=_fft_reference,
        derivative=Linear(_fft_transpose, fixed=(1,)),
        lowering=Native("fft", (2, 1, 2), _fft_numbers),
        numerics="R",
        domain=Domain(COMPUTED_FLOATS, example=_fft_example),
    )
)


def transform_pairs(pairs: Value, inverse: bool, scale: str, name: str) -> Value:
    """The transforms of rows [..., n, 2]; the scale is one of ``SCALES``.

    Those of narrow floats are computed in float32, as NumPy's are.

    Raises:
        ShapeError: for rows without an element, naming the function.
    """
    pairs = converted(pairs, pairs.dtype.computed)
    table = table_for(pairs, pairs.shape[-2], name)
    return apply(fft_op, pairs, table, inverse=inverse, scale=scale)


__all__ = ["fft_op", "fft_table_op", "table_for", "transform_pairs"]
