"""Running reductions along one axis: the core ops ``cumsum`` and ``cumprod``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import DType, int64
from graphc.ir.lowering import Combine, Scan
from graphc.ir.op import Derivative, Domain, Linear, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.convert import as_value, axis_of
from graphc.ops.creation import iota_beside
from graphc.ops.declare import like
from graphc.ops.derive import of_one_input
from graphc.ops.reduce.core import NUMBERS, exclusive_product, require_dtype, sample, widened


def _scan_reference(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(array: Any, axis: int) -> Any:
        values = np.asarray(array)
        with np.errstate(all="ignore"):
            return function(values, axis=axis, dtype=values.dtype)

    return reference


def _cumsum_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    flip, axis = surface_function("flip"), attrs["axis"]
    return (flip(cumsum(flip(cotangent, axis), axis), axis),)


def _jacobian(value: Value, axis: int) -> Value:
    """d cumprod(x)[i] / d x[j] as [..., j, ..., i] over the scanned axis, moved to the end.

    Column j is the product of the elements before j, times the running product of those after
    j: no division, so zeros are right. Its size is the square of the axis: there is no linear
    scan of products that stays right at zeros.
    """
    expand = surface_function("expand_dims")
    rank, size = value.ndim, value.shape[axis]
    last = surface_function("swapaxes")(value, axis, rank - 1)
    rows = iota_beside((size, size), 0, int64, value)
    columns = iota_beside((size, size), 1, int64, value)
    later = columns > rows
    factors = surface_function("where")(later, expand(last, rank - 1), like(1, value))
    before = expand(exclusive_product(last, rank - 1), rank)
    running = before * cumprod(factors, rank)
    result: Value = surface_function("where")(columns >= rows, running, 0)
    return result


def _cumprod_vjp(cotangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    swap, rank, axis = surface_function("swapaxes"), value.ndim, attrs["axis"]
    row = surface_function("expand_dims")(swap(cotangent, axis, rank - 1), rank - 1)
    terms = row * _jacobian(value, axis)
    result: Value = swap(surface_function("sum")(terms, axis=rank), axis, rank - 1)
    return result


def _cumprod_jvp(tangent: Value, value: Value, output: Value, attrs: Attributes) -> Value:
    swap, rank, axis = surface_function("swapaxes"), value.ndim, attrs["axis"]
    column = surface_function("expand_dims")(swap(tangent, axis, rank - 1), rank)
    terms = column * _jacobian(value, axis)
    result: Value = swap(surface_function("sum")(terms, axis=rank - 1), axis, rank - 1)
    return result


def _scan_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    require_dtype("a running sum or product", inputs[0], NUMBERS)
    return [inputs[0]]


def _scan_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    arrays, attrs = sample(rng, element)
    return arrays, {"axis": attrs["axis"]}


def _scan(name: str, doc: str, combine: Combine, function: Any, derivative: Derivative) -> OpDef:
    return register(
        OpDef(
            name=name,
            doc=doc,
            infer=_scan_type,
            reference=_scan_reference(function),
            derivative=derivative,
            lowering=Scan(combine),
            numerics="R",
            domain=Domain(NUMBERS, example=_scan_example),
        )
    )


cumsum_op = _scan("cumsum", "Running sums along attrs axis, one after the other.", "add",
                  np.cumsum, Linear(_cumsum_transpose))  # fmt: skip
cumprod_op = _scan("cumprod", "Running products along attrs axis, one after the other.", "multiply",
                   np.cumprod, of_one_input(_cumprod_jvp, _cumprod_vjp))  # fmt: skip


def _scanned(op: OpDef, x: Any, axis: int | None) -> Value:
    value = widened(as_value(x))
    if axis is None:
        value, axis = surface_function("reshape")(value, (-1,)), 0
    return apply(op, value, axis=axis_of(axis, value.ndim))


@surface
def cumsum(x: Any, axis: int | None = None) -> Value:
    """Running sums along an axis, of all elements in row-major order where it is None.

    Small integers widen to 64 bits and wrap.
    """
    return _scanned(cumsum_op, x, axis)


@surface
def cumprod(x: Any, axis: int | None = None) -> Value:
    """Running products along an axis, of all elements in row-major order where it is None.

    Small integers widen to 64 bits and wrap. The derivative is right where elements are 0 and
    needs memory for the square of the axis.
    """
    return _scanned(cumprod_op, x, axis)
