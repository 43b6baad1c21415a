"""Comparisons, logic, bits, selection and conversion.

Invariant: comparisons answer bool and are exact for every pair of dtypes, mixed signedness
included; the logical functions take the truth of any number (not 0) and work on bools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply, apply_to
from graphc.ir.dims.expressions import Size
from graphc.ir.dtypes import (
    ALL,
    FLOATS,
    INTEGERS,
    DType,
    DTypeLike,
    bool_,
    dtype,
    kind_of,
    uint64,
)
from graphc.ir.lowering import Decompose, Pointwise
from graphc.ir.op import Algebra, Domain, Flat, Linear, OpDef, register
from graphc.ir.surface import surface
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.scalar import cast
from graphc.ops.complex.arithmetic import both, complex_conversion, either
from graphc.ops.complex.parts import each_part, widened
from graphc.ops.convert import (
    PYTHON_SCALARS,
    as_value,
    broadcast_shapes,
    converted,
    promoted,
)
from graphc.ops.declare import ANY, BITS, like, number_operands, pointwise, refuse

# --- comparisons ---------------------------------------------------------------------------------

_SYMMETRIC = Algebra(commutative=True)

equal_op = pointwise("equal", "x == y; NaN equals nothing.", ANY, result="bool",
                     algebra=_SYMMETRIC, of_complex=both)  # fmt: skip
not_equal_op = pointwise("not_equal", "x != y; true at NaN.", ANY, result="bool",
                         algebra=_SYMMETRIC, of_complex=either)  # fmt: skip
less_op = pointwise("less", "x < y; false at NaN.", ANY, result="bool")
less_equal_op = pointwise("less_equal", "x <= y; false at NaN.", ANY, result="bool")
greater_op = pointwise("greater", "x > y; false at NaN.", ANY, result="bool")
greater_equal_op = pointwise("greater_equal", "x >= y; false at NaN.", ANY, result="bool")

_MIRRORED = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}


def _compare(op: OpDef, x: Any, y: Any) -> Value:
    """Promotes as NumPy does, except where that would lose bits or refuse a Python int."""
    for operand, other, name in ((x, y, op.name), (y, x, _MIRRORED[op.name])):
        if isinstance(operand, Value) and type(other) is int and operand.dtype.is_integer:
            least, greatest = operand.dtype.least, operand.dtype.greatest
            if not least <= other <= greatest:
                return _always(operand, _outside(name, above=other > greatest))
    # a Python scalar takes the dtype beside it, which may hold what no dtype of its own does
    if (_is_array(x) or _is_array(y)) and not (_is_weak(x) or _is_weak(y)):
        left, right = as_value(x, _beside(y)), as_value(y, _beside(x))
        if left.dtype is uint64 and right.dtype.kind == "int":
            return _mixed(_MIRRORED[op.name], right, left)
        if right.dtype is uint64 and left.dtype.kind == "int":
            return _mixed(op.name, left, right)
    return apply_to(op, promoted(x, y))


def _beside(operand: Any) -> Value | None:
    return operand if isinstance(operand, Value) else None


def _is_array(operand: Any) -> bool:
    """False for Python scalars, which are weak."""
    return isinstance(operand, (Value, np.ndarray, np.generic))


def _is_weak(operand: Any) -> bool:
    return isinstance(operand, PYTHON_SCALARS) and not isinstance(operand, np.generic)


def _outside(name: str, above: bool) -> bool:
    """How an integer tensor compares with a Python int that its dtype cannot hold."""
    return name == "not_equal" or ((name in ("less", "less_equal")) == above and name != "equal")


def _always(value: Value, answer: bool) -> Value:
    """The answer in the value's shape: an integer equals itself."""
    return apply(equal_op if answer else not_equal_op, value, value)


def _mixed(name: str, signed: Value, unsigned: Value) -> Value:
    """Exact comparison of a signed integer with a uint64."""
    negative = apply_to(less_op, promoted(signed, 0))
    op = {"equal": equal_op, "not_equal": not_equal_op, "less": less_op,
          "less_equal": less_equal_op, "greater": greater_op,
          "greater_equal": greater_equal_op}[name]  # fmt: skip
    rest = apply(op, converted(signed, uint64), unsigned)
    if name in ("not_equal", "less", "less_equal"):
        return apply(bitwise_or_op, negative, rest)
    return apply(bitwise_and_op, apply(bitwise_not_op, negative), rest)


@surface
def equal(x: Any, y: Any) -> Value:
    """x == y as bool; NaN equals nothing."""
    return _compare(equal_op, x, y)


@surface
def not_equal(x: Any, y: Any) -> Value:
    """x != y as bool; true at NaN."""
    return _compare(not_equal_op, x, y)


@surface
def less(x: Any, y: Any) -> Value:
    """x < y as bool; false at NaN."""
    return _compare(less_op, x, y)


@surface
def less_equal(x: Any, y: Any) -> Value:
    """x <= y as bool; false at NaN."""
    return _compare(less_equal_op, x, y)


@surface
def greater(x: Any, y: Any) -> Value:
    """x > y as bool; false at NaN."""
    return _compare(greater_op, x, y)


@surface
def greater_equal(x: Any, y: Any) -> Value:
    """x >= y as bool; false at NaN."""
    return _compare(greater_equal_op, x, y)


# --- bits and logic ------------------------------------------------------------------------------

_LATTICE = Algebra(commutative=True, idempotent=True)

bitwise_and_op = pointwise("bitwise_and", "x & y; of bools logical and.", BITS, primitive="and",
                           algebra=_LATTICE)  # fmt: skip
bitwise_or_op = pointwise("bitwise_or", "x | y; of bools logical or.", BITS, primitive="or",
                          algebra=_LATTICE)  # fmt: skip
bitwise_xor_op = pointwise("bitwise_xor", "x ^ y; of bools exclusive or.", BITS, primitive="xor",
                           algebra=_SYMMETRIC)  # fmt: skip
bitwise_not_op = pointwise("bitwise_not", "~x; of bools logical not.", BITS, primitive="not",
                           algebra=Algebra(involution=True))  # fmt: skip
left_shift_op = pointwise(
    "left_shift",
    "x shifted left by y bits; 0 where y is negative or not less than the width.",
    INTEGERS,
    low=0,
    high=70,
)
right_shift_op = pointwise(
    "right_shift",
    "x shifted right by y bits, keeping the sign; where y is negative or not less than the width "
    "only the sign remains.",
    INTEGERS,
    low=0,
    high=70,
)


def _bit_operands(name: str, *operands: Any) -> tuple[Value, ...]:
    values = promoted(*operands)
    if values[0].dtype.is_inexact:
        raise refuse(f"{name} does not take {values[0].dtype}", "convert with astype")
    return values


@surface
def bitwise_and(x: Any, y: Any) -> Value:
    """x & y of integers or bools."""
    return apply(bitwise_and_op, *_bit_operands("bitwise_and", x, y))


@surface
def bitwise_or(x: Any, y: Any) -> Value:
    """x | y of integers or bools."""
    return apply(bitwise_or_op, *_bit_operands("bitwise_or", x, y))


@surface
def bitwise_xor(x: Any, y: Any) -> Value:
    """x ^ y of integers or bools."""
    return apply(bitwise_xor_op, *_bit_operands("bitwise_xor", x, y))


@surface
def bitwise_not(x: Any) -> Value:
    """~x of integers; of bools logical not."""
    return apply(bitwise_not_op, *_bit_operands("bitwise_not", x))


@surface
def left_shift(x: Any, y: Any) -> Value:
    """x << y of integers; 0 where y is negative or not less than the width; bools become int8."""
    _bit_operands("left_shift", x, y)
    return apply(left_shift_op, *number_operands(x, y))


@surface
def right_shift(x: Any, y: Any) -> Value:
    """x >> y of integers, keeping the sign; bools become int8."""
    _bit_operands("right_shift", x, y)
    return apply(right_shift_op, *number_operands(x, y))


def _truth(operand: Any, beside: Any = None) -> Value:
    return converted(as_value(operand, _beside(beside)), bool_)


@surface
def logical_and(x: Any, y: Any) -> Value:
    """Whether both are true (not 0), as bool."""
    return apply(bitwise_and_op, _truth(x, y), _truth(y, x))


@surface
def logical_or(x: Any, y: Any) -> Value:
    """Whether one is true (not 0), as bool."""
    return apply(bitwise_or_op, _truth(x, y), _truth(y, x))


@surface
def logical_xor(x: Any, y: Any) -> Value:
    """Whether exactly one is true (not 0), as bool."""
    return apply(bitwise_xor_op, _truth(x, y), _truth(y, x))


@surface
def logical_not(x: Any) -> Value:
    """Whether x is 0, as bool."""
    return apply(bitwise_not_op, _truth(x))


# --- classification ------------------------------------------------------------------------------

isnan_op = pointwise("isnan", "Whether x is NaN.", FLOATS, result="bool", of_complex=either)
isinf_op = pointwise("isinf", "Whether x is an infinity.", FLOATS, result="bool", of_complex=either)
isfinite_op = pointwise("isfinite", "Whether x is neither infinite nor NaN.", FLOATS, result="bool",
                        of_complex=both)  # fmt: skip


@surface
def isnan(x: Any) -> Value:
    """Whether x is NaN, as bool; integers never are."""
    value = as_value(x)
    return apply(isnan_op, value) if value.dtype.is_inexact else _always(value, False)


@surface
def isinf(x: Any) -> Value:
    """Whether x is an infinity, as bool; integers never are."""
    value = as_value(x)
    return apply(isinf_op, value) if value.dtype.is_inexact else _always(value, False)


@surface
def isfinite(x: Any) -> Value:
    """Whether x is neither infinite nor NaN, as bool; integers always are."""
    value = as_value(x)
    return apply(isfinite_op, value) if value.dtype.is_inexact else _always(value, True)


# --- selection -----------------------------------------------------------------------------------


def _where_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    condition, x, y = inputs
    if condition.dtype is not bool_ or x.dtype is not y.dtype:
        shown = ", ".join(str(operand.dtype) for operand in inputs)
        raise DTypeError(f"where takes a bool and two operands of one dtype, not {shown}")
    return [TensorType(x.dtype, broadcast_shapes(condition.shape, x.shape, y.shape))]


def _where_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    """Selects, never multiplies: nothing of the branch not taken leaks."""
    condition = inputs[0]
    zero = like(0, cotangent)
    return (
        None,
        apply(where_op, condition, cotangent, zero),
        apply(where_op, condition, zero, cotangent),
    )


def _where_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    values = rng.uniform(-4, 4, (2, 3, 4)).astype(element.numpy)
    return (rng.integers(0, 2, (3, 1)).astype(np.bool_), values[0], values[1, :1]), {}


where_op = register(
    OpDef(
        name="where",
        doc="x where the condition holds, else y; all three broadcast. Attr seldom says that it "
        "hardly ever holds: work for x alone is then put off until it is known to be needed.",
        infer=_where_type,
        reference=lambda condition, x, y, seldom=False: np.where(condition, x, y),
        derivative=Linear(_where_transpose, fixed=(0,)),
        lowering=Pointwise("select", keeps_words=True),
        of_complex=each_part,
        domain=Domain(ALL, example=_where_example),
    )
)


@surface
def where(condition: Any, x: Any, y: Any) -> Value:
    """x where ``condition`` is true (not 0), else y; broadcast, x and y promoted.

    The derivative selects too, so that a NaN or infinity of the branch not taken never leaks.
    """
    operands = [operand for operand in (condition, x, y) if isinstance(operand, Value)]
    beside = operands[0] if operands else None
    mask = converted(as_value(condition, beside), bool_)
    if not isinstance(x, (Value, Size)) and not isinstance(y, (Value, Size)):
        x, y = _in_graph(x, y, mask)
    return apply(where_op, mask, *promoted(x, y, beside=mask))


def _in_graph(x: Any, y: Any, beside: Value) -> tuple[Value, Value]:
    """Both operands as promoted constants in the graph of the condition."""
    from graphc.ops.source import constant_beside

    left, right = np.asarray(x), np.asarray(y)
    if _is_array(x) or _is_array(y):
        # NumPy's own rule for one weak operand
        common = np.result_type(x, y)
    else:
        common = np.result_type(left, right)
        weak = {"f": np.dtype(np.float32), "c": np.dtype(np.complex64)}
        common = weak.get(kind_of(common), common)
    element = dtype(common)
    return constant_beside(left, element, beside), constant_beside(right, element, beside)


# --- conversion ----------------------------------------------------------------------------------


def _astype_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return [inputs[0].with_dtype(attrs["dtype"])]


def _astype_transpose(
    cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    source = inputs[0].dtype
    return (converted(cotangent, source),) if source.is_differentiable else (None,)


def _astype_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    target = ALL[int(rng.integers(len(ALL)))]
    low = 0.0 if element.kind == "uint" or target.kind == "uint" else -100.0
    return (rng.uniform(low, 100, (3, 4)).astype(element.numpy),), {"dtype": target}


astype_op = register(
    OpDef(
        name="astype",
        doc="Conversion to attrs dtype. Floats to integers truncate and saturate, NaN gives 0; "
        "integers wrap; to bool it is x != 0. From float to float the derivative is converted "
        "back; to and from other kinds it is zero.",
        infer=_astype_type,
        reference=lambda x, dtype: cast(x, dtype),
        derivative=Linear(_astype_transpose),
        lowering=Pointwise(
            lambda b, operands, attrs: b.cast(operands[0], attrs["dtype"]), keeps_words=True
        ),
        of_complex=complex_conversion,
        domain=Domain(ALL, example=_astype_example),
    )
)


@surface
def astype(x: Any, dtype_: DTypeLike) -> Value:
    """x converted to another dtype; x itself if it has it.

    Floats to integers truncate and saturate and NaN gives 0 (NumPy leaves those undefined);
    integers wrap; to bool it is ``x != 0``.

    Raises:
        DTypeError: for complex numbers to real ones.
    """
    value, target = as_value(x), dtype(dtype_)
    if value.dtype is target:
        return value
    if target.is_complex and not value.dtype.is_complex:
        return widened(value, target)
    if value.dtype.is_complex and not (target.is_complex or target is bool_):
        raise refuse(
            f"astype would lose the imaginary parts of {value.dtype} in {target}",
            "take gx.real(x) or gx.abs(x) first",
        )
    return apply(astype_op, value, dtype=target)


stop_gradient_op = register(
    OpDef(
        name="stop_gradient",
        doc="x, whose derivative counts as zero.",
        infer=lambda inputs, attrs: inputs,
        reference=np.asarray,
        derivative=Flat(),
        lowering=Decompose(lambda inputs, attrs: inputs[0], keeps_words=True),
        of_complex=each_part,
        domain=Domain(ALL, example=lambda rng, element: (_where_example(rng, element)[0][1:2], {})),
    )
)


@surface
def stop_gradient(x: Any) -> Value:
    """x itself, treated as a constant by differentiation."""
    return apply(stop_gradient_op, as_value(x))
