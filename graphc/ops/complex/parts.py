"""Complex values and their parts.

Complex numbers are a matter of graphs and memory. ``real``, ``imag`` and ``complex`` lead from them
to floats and back; every other operation on complex operands is recorded as operations on the parts
(``OpDef.of_complex``), so that a chain of them is one kernel of floats without complex values in
between. ``view_as_real`` and ``view_as_complex`` keep the memory, where an element is its real part
and then its imaginary one.

Derivatives are JAX's: a cotangent of z = x + iy is dL/dx - i dL/dy, and products with it conjugate
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply, apply_to
from graphc.ir.dims.expressions import equal
from graphc.ir.dtypes import COMPLEX, COMPUTED_FLOATS, DType, complex_of
from graphc.ir.lowering import Decompose, Reinterpret
from graphc.ir.op import Domain, Linear, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.convert import converted
from graphc.ops.guards import guarded, show, unproved


def _sample(random: Any, dtype: DType, *shape: int) -> Any:
    values = random.uniform(-4, 4, (*shape, 2)).astype(dtype.part.numpy)
    return values.view(dtype.numpy)[..., 0] if dtype.is_complex else values[..., 0]


def _needs(name: str, given: TensorType, is_complex: bool) -> None:
    if given.dtype not in (COMPLEX if is_complex else COMPUTED_FLOATS):
        kind = "complex numbers" if is_complex else "floats"
        raise DTypeError(f"{name} takes {kind}, not {given.dtype}", hint="convert with astype")


# --- the memory of complex numbers ---------------------------------------------------------------


def viewed_as_complex(value: Value) -> Value:
    """The memory of floats as complex numbers; that the last axis is 2 may be left to the run."""
    message = "view_as_complex of {}, whose last axis is not 2"
    sizes = [(value.shape[-1], 2)] if value.ndim else []
    guards = unproved(sizes, message, value.shape)
    value = converted(value, value.dtype.computed)
    return apply(view_as_complex_op, value, **guarded(guards))


def _as_real_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    _needs("view_as_real", inputs[0], True)
    return [inputs[0].stored]


def _as_complex_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (given,) = inputs
    _needs("view_as_complex", given, False)
    if not given.rank or equal(given.shape[-1], 2) is False:
        raise ShapeError(
            f"view_as_complex takes real and imaginary parts along a last axis of 2, "
            f"not {show(given.shape)}"
        )
    return [TensorType(complex_of(given.dtype), given.shape[:-1])]


def _as_real_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    return [conj(apply(view_as_complex_op, cotangent))]


def _as_complex_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> list[Value | None]:
    return [apply(view_as_real_op, conj(cotangent))]


def _as_real(x: Any) -> Any:
    return np.stack((x.real, x.imag), -1)


def _as_complex(x: Any, guards: Any = ()) -> Any:
    x = np.asarray(x)
    result = np.empty(x.shape[:-1], np.result_type(x.dtype, np.complex64))
    result.real, result.imag = x[..., 0], x[..., 1]
    return result


view_as_real_op = register(
    OpDef(
        name="view_as_real",
        doc="The memory of complex numbers as floats: real and imaginary part along a last axis.",
        infer=_as_real_type,
        reference=_as_real,
        derivative=Linear(_as_real_transpose),
        lowering=Reinterpret(),
        domain=Domain(COMPLEX, example=lambda random, dtype: ([_sample(random, dtype, 3, 4)], {})),
        of_complex="whole",
    )
)
view_as_complex_op = register(
    OpDef(
        name="view_as_complex",
        doc="The memory of floats as complex numbers, whose parts lie along the last axis, of 2.",
        infer=_as_complex_type,
        reference=_as_complex,
        derivative=Linear(_as_complex_transpose),
        lowering=Reinterpret(),
        domain=Domain(
            COMPUTED_FLOATS, example=lambda random, dtype: ([_sample(random, dtype, 3, 2)], {})
        ),
        of_complex="whole",
    )
)

# --- parts ---------------------------------------------------------------------------------------


def _part_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    _needs("a part", inputs[0], True)
    return [inputs[0].with_dtype(inputs[0].dtype.part)]


def _complex_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    re, im = inputs
    for part in inputs:
        _needs("complex", part, False)
    if re.dtype is not im.dtype:
        raise DTypeError(f"complex takes parts of one dtype, not {re.dtype} and {im.dtype}")
    if re.rank != im.rank or any(
        equal(one, other) is False for one, other in zip(re.shape, im.shape, strict=True)
    ):
        raise ShapeError(f"parts of shapes {show(re.shape)} and {show(im.shape)} do not fit")
    return [re.with_dtype(complex_of(re.dtype))]


def _plane(number: int) -> Any:
    """What a part stands for: every second element of the memory."""

    def parts(inputs: Sequence[Value], attrs: Attributes) -> Value:
        (value,) = inputs
        result: Value = apply(view_as_real_op, value)[..., number]
        return result

    return parts


def _interleaved(inputs: Sequence[Value], attrs: Attributes) -> Value:
    stacked = surface_function("stack")(
        [surface_function("reshape")(part, inputs[0].shape) for part in inputs], -1
    )
    return apply(view_as_complex_op, stacked)


def _zero(part: Value) -> Value:
    result: Value = surface_function("zeros_like")(part)
    return result


real_op = register(
    OpDef(
        name="real",
        doc="The real part of complex numbers.",
        infer=_part_type,
        reference=lambda x: np.real(x).copy(),
        derivative=Linear(lambda ct, inputs, output, attrs: [joined(ct, _zero(ct))]),
        lowering=Decompose(_plane(0)),
        domain=Domain(COMPLEX, example=lambda random, dtype: ([_sample(random, dtype, 3, 4)], {})),
        of_complex="whole",
    )
)
imag_op = register(
    OpDef(
        name="imag",
        doc="The imaginary part of complex numbers.",
        infer=_part_type,
        reference=lambda x: np.imag(x).copy(),
        derivative=Linear(lambda ct, inputs, output, attrs: [joined(_zero(ct), -ct)]),
        lowering=Decompose(_plane(1)),
        domain=Domain(COMPLEX, example=lambda random, dtype: ([_sample(random, dtype, 3, 4)], {})),
        of_complex="whole",
    )
)
complex_op = register(
    OpDef(
        name="complex",
        doc="The complex numbers of these real and imaginary parts, of one shape.",
        infer=_complex_type,
        reference=lambda re, im: _as_complex(np.stack((re, im), -1)),
        derivative=Linear(
            lambda ct, inputs, output, attrs: [apply(real_op, ct), -apply(imag_op, ct)]
        ),
        lowering=Decompose(_interleaved),
        domain=Domain(
            COMPUTED_FLOATS,
            example=lambda random, dtype: (
                [_sample(random, dtype, 3, 4), _sample(random, dtype, 3, 4)],
                {},
            ),
        ),
        of_complex="whole",
    )
)


def halves(value: Value) -> tuple[Value, Value]:
    """The real and the imaginary part of a complex value."""
    return apply(real_op, value), apply(imag_op, value)


def joined(re: Value, im: Value) -> Value:
    """The complex value of two parts of one shape."""
    return apply(complex_op, *(converted(part, part.dtype.computed) for part in (re, im)))


def squared_size(value: Value) -> Value:
    """|x|² of real or complex numbers, without a root."""
    if not value.dtype.is_complex:
        return value * value
    re, im = halves(value)
    return re * re + im * im


def conj(value: Value) -> Value:
    """The complex conjugate of a complex value."""
    re, im = halves(value)
    return joined(re, -im)


def widened(value: Value, element: DType) -> Value:
    """A real value as a complex one whose imaginary part is 0."""
    part: Value = surface_function("astype")(value, element.part)
    return joined(part, _zero(part))


# --- what operations become ----------------------------------------------------------------------


def _half(op: OpDef, operand: Value) -> Value:
    return apply(op, operand) if operand.dtype.is_complex else operand


def each_part(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The operation on the real parts and on the imaginary ones: moves, sums, choices."""
    re = apply_to(op, [_half(real_op, operand) for operand in operands], attrs)
    im = apply_to(op, [_half(imag_op, operand) for operand in operands], attrs)
    return joined(re, im)


def as_decomposed(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """What a coarse operation stands for, which holds for complex numbers too."""
    (value,) = op.lowering.parts(operands, attrs)
    return value
