"""The bits of elements as elements of another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import equal
from graphc.ir.dtypes import ALL, DType, DTypeLike, bool_
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.lowering import Bitcast
from graphc.ir.op import Domain, Flat, OpDef, register
from graphc.ir.surface import surface
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.convert import as_value
from graphc.ops.guards import guarded, unproved


def _require_words(element: DType, name: str) -> None:
    if element.is_complex or element.width < element.bits:
        kind = "its parts are two" if element.is_complex else "a byte holds more than it"
        hint = "use gx.view_as_real first" if element.is_complex else "convert with astype"
        raise DTypeError(f"{name} does not take {element}: {kind}", where=caller(), hint=hint)


def _type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (given,), target = inputs, attrs["dtype"]
    if target.bytes == given.dtype.bytes:
        return [given.with_dtype(target)]
    if target.bytes < given.dtype.bytes:
        parts = given.dtype.bytes // target.bytes
        return [TensorType(target, (*given.shape, parts))]
    parts = target.bytes // given.dtype.bytes
    if not given.rank or equal(given.shape[-1], parts) is False:
        raise ShapeError(
            f"bitcast_convert_type of {given} to {target}: the last axis is not {parts}",
            hint=f"the parts of an element lie along a last axis of {parts}",
        )
    return [TensorType(target, given.shape[:-1])]


def _reference(x: Any, dtype: DType, guards: Any = ()) -> Any:
    x = np.ascontiguousarray(x).reshape(np.shape(x))
    size = x.dtype.itemsize
    if dtype.bytes == size:
        return x.view(dtype.numpy)
    if dtype.bytes < size:
        return x[..., None].view(dtype.numpy)
    return x.view(dtype.numpy)[..., 0] if x.size else np.empty(x.shape[:-1], dtype.numpy)


def _example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    targets = [each for each in ALL if each is not bool_ and each.bytes <= element.bytes]
    values = rng.integers(0, 2, (3, 4)) if element is bool_ else rng.uniform(0, 100, (3, 4))
    return [values.astype(element.numpy)], {"dtype": targets[int(rng.integers(len(targets)))]}


bitcast_op = register(
    OpDef(
        name="bitcast_convert_type",
        doc="The bits of elements as elements of attrs dtype, in the order of memory: of a smaller "
        "one several along a new last axis, of a larger one those along the last axis.",
        infer=_type,
        reference=_reference,
        derivative=Flat(),
        lowering=Bitcast(),
        domain=Domain(ALL, example=_example),
    )
)


@surface
def bitcast_convert_type(operand: Any, new_dtype: DTypeLike) -> Value:
    """The bits of elements as elements of another dtype, as in ``jax.lax``.

    Args:
        operand: a tensor of n axes, of bools or real numbers of whole bytes.
        new_dtype: of as many bits; of fewer, so that several along a new last axis hold an
            element, the lowest bits first; or of more, where the last axis has the parts of one.

    Which bits a NaN has is open (docs/numerics.md), and so is what they are as another dtype.

    Raises:
        DTypeError: for complex numbers, for integers of less than a byte, and to bool.
        ShapeError: for a last axis of another size; at run time where it is unknown.
    """
    value, target = as_value(operand), as_dtype(new_dtype)
    for element in (value.dtype, target):
        _require_words(element, "bitcast_convert_type")
    if target is value.dtype:
        return value
    if target is bool_:
        raise DTypeError(
            "bitcast_convert_type to bool, of which few bytes are one",
            where=caller(),
            hint="compare with 0",
        )
    parts = target.bytes // value.dtype.bytes
    sizes = [(value.shape[-1], parts)] if parts > 1 and value.ndim else []
    message = f"bitcast_convert_type of {{}} to {target}: the last axis is not {parts}"
    return apply(bitcast_op, value, dtype=target, **guarded(unproved(sizes, message, value.shape)))


__all__ = ["bitcast_convert_type", "bitcast_op"]
