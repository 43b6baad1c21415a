"""The transforms of real rows, and back, as core operations: the first half of the elements.

Invariant: real rows are along the last axis, n elements; their transforms along the last axis but
one, n // 2 + 1 pairs. Element n - k is the conjugate of element k. What comes back ignores the
imaginary part of the first element and, if n is even, of the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, equal
from graphc.ir.dtypes import COMPUTED_FLOATS, DType, int64
from graphc.ir.lowering import Native
from graphc.ir.op import Domain, Linear, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.routines.fourier import (
    SCALES,
    by_table,
    half_transformed,
    real_transformed,
    table_of,
)
from graphc.kernel.routines.fourier_plan import table_size
from graphc.ops.convert import converted, size_beside
from graphc.ops.creation import iota_beside
from graphc.ops.fft.core import (
    require_floats,
    require_scale,
    require_some,
    require_table,
    sizes_of,
    table_for,
)
from graphc.ops.guards import show, unproved
from graphc.ops.move.shape import with_shape


def half_of(length: Dim) -> Dim:
    """How many elements the first half of a transform has."""
    return length // 2 + 1


def _example(rng: Any, element: DType) -> tuple[int, Any, str]:
    length = int(rng.integers(1, 60))
    table = table_of(length, int(table_size(length, element, True)), element, True)
    return length, table, SCALES[int(rng.integers(len(SCALES)))]


# --- forward -------------------------------------------------------------------------------------


def _rfft_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    rows, table = inputs
    if rows.rank < 1 or table.rank != 1:
        raise ShapeError(
            f"rfft takes rows [..., n] and a table, not {show(rows.shape)} and {show(table.shape)}",
            where=caller(),
        )
    _require("rfft", rows, table, rows.shape[-1], attrs)
    return [rows.with_shape((*rows.shape[:-1], half_of(rows.shape[-1]), 2))]


def _require(
    name: str, operand: TensorType, table: TensorType, length: Dim, attrs: Attributes
) -> None:
    require_floats(name, operand, table)
    require_some(length, name)
    require_table(name, table, length, True)
    require_scale(name, attrs)


def _rfft_reference(rows: Any, table: Any, scale: str) -> Any:
    result = half_transformed(rows, SCALES.index(scale))
    return by_table(result, table, rows.shape[-1], True)


def _rfft_numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    rows, table = inputs
    return *sizes_of(rows.shape[-1], table, True), SCALES.index(attrs["scale"])


def _rfft_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    rows, table = inputs
    length = rows.shape[-1]
    halves = _weighted(cotangent, length, 0.5)
    return apply(irfft_op, halves, table, length=length, scale=attrs["scale"]), None


def _rfft_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    length, table, scale = _example(rng, element)
    return [rng.normal(size=(3, length)).astype(element.numpy), table], {"scale": scale}


rfft_op = register(
    OpDef(
        name="rfft",
        doc="The first half of the Fourier transforms of real rows along the last axis, n // 2 + 1 "
        "elements, which are pairs along a new last axis; the second input is the table of n, and "
        "with another rows are NaN. attrs scale: what results are divided by, none, the length n, "
        "or its square root.",
        infer=_rfft_type,
        reference=_rfft_reference,
        derivative=Linear(_rfft_transpose, fixed=(1,)),
        lowering=Native("rfft", (1, 1, 2), _rfft_numbers),
        numerics="R",
        domain=Domain(COMPUTED_FLOATS, example=_rfft_example),
    )
)

# --- back ----------------------------------------------------------------------------------------


def _irfft_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    pairs, table = inputs
    length = attrs["length"]
    fits = pairs.rank >= 2 and table.rank == 1
    if not fits or False in (
        equal(pairs.shape[-1], 2), equal(pairs.shape[-2], half_of(length))
    ):  # fmt: skip
        raise ShapeError(
            f"irfft of {length} elements takes pairs [..., {half_of(length)}, 2] and a table, not "
            f"{show(pairs.shape)} and {show(table.shape)}",
            where=caller(),
        )
    _require("irfft", pairs, table, length, attrs)
    return [pairs.with_shape((*pairs.shape[:-2], length))]


def _irfft_reference(pairs: Any, table: Any, length: int, scale: str) -> Any:
    result = real_transformed(pairs, length, SCALES.index(scale))
    return by_table(result, table, length, True)


def _irfft_numbers(inputs: Sequence[TensorType], attrs: Attributes) -> Sequence[Dim]:
    return *sizes_of(attrs["length"], inputs[1], True), SCALES.index(attrs["scale"])


def _irfft_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    transformed = apply(rfft_op, cotangent, inputs[1], scale=attrs["scale"])
    return _weighted(transformed, attrs["length"], 2.0), None


def _irfft_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    length, table, scale = _example(rng, element)
    pairs = rng.normal(size=(3, half_of(length), 2)).astype(element.numpy)
    return [pairs, table], {"length": length, "scale": scale}


irfft_op = register(
    OpDef(
        name="irfft",
        doc="Real rows of attrs length elements from the first half of their Fourier transforms, "
        "which are pairs along the last axis, with positive exponents; the second input is the "
        "table of the length, as for rfft. The imaginary part of the first element, and if the "
        "length is even of the last, is ignored. attrs scale: as for rfft.",
        infer=_irfft_type,
        reference=_irfft_reference,
        derivative=Linear(_irfft_transpose, fixed=(1,)),
        lowering=Native("irfft", (2, 1, 1), _irfft_numbers),
        numerics="R",
        domain=Domain(COMPUTED_FLOATS, example=_irfft_example),
    )
)


def _weighted(pairs: Value, length: Dim, inner: float) -> Value:
    """Elements times ``inner`` where the whole transform has them twice."""
    places = iota_beside((pairs.shape[-2], 1), 0, int64, pairs)
    size = size_beside(length, int64, pairs)
    equals, where = surface_function("equal"), surface_function("where")
    once = equals(places, 0) | equals(places * 2, size)
    weights = converted(where(once, 1.0, inner), pairs.dtype)
    result: Value = pairs * weights
    return result


# --- functions -----------------------------------------------------------------------------------


def real_to_pairs(rows: Value, scale: str, name: str) -> Value:
    """The first halves of the transforms of rows [..., n], as pairs [..., n // 2 + 1, 2].

    Raises:
        ShapeError: for rows without an element, naming the function.
    """
    table = table_for(rows, rows.shape[-1], name, real=True)
    return apply(rfft_op, rows, table, scale=scale)


def pairs_to_real(pairs: Value, length: Dim, scale: str, name: str) -> Value:
    """Rows [..., length] from the first halves of their transforms, length // 2 + 1 pairs.

    Raises:
        ShapeError: for rows without an element, naming the function, and for another number of
            pairs: now, or when the graph runs.
    """
    half = half_of(length)
    message = f"{name} of {{}} elements takes {{}} pairs, not {{}}"
    guards = unproved([(pairs.shape[-2], half)], message, length, half, pairs.shape[-2])
    pairs = with_shape(pairs, (*pairs.shape[:-2], half, 2), guards)
    table = table_for(pairs, length, name, real=True)
    return apply(irfft_op, pairs, table, length=length, scale=scale)


__all__ = ["half_of", "irfft_op", "pairs_to_real", "real_to_pairs", "rfft_op"]
