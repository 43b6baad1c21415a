"""Short forms that the pointwise families use to declare ops and their type rules.

Invariant: what is declared here broadcasts like NumPy and computes each output element from the
operands' elements at the same place, in one dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from graphc.base.errors import DTypeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.dtypes import ALL, FLOATS, INTEGERS, DType, bool_, float32, float64, int8
from graphc.ir.lowering import Decompose, Lowering, PartsRule, Pointwise, PointwiseRule
from graphc.ir.op import (
    Algebra,
    ComplexRule,
    Derivative,
    Domain,
    Flat,
    Numerics,
    OpDef,
    Partials,
    register,
)
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.scalar import PRIMITIVES
from graphc.ops.convert import as_value, broadcast_shapes, converted, promoted
from graphc.ops.source import constant_beside

NUMBERS: tuple[DType, ...] = (*INTEGERS, *FLOATS)
BITS: tuple[DType, ...] = (bool_, *INTEGERS)
ANY: tuple[DType, ...] = ALL

Function = TypeVar("Function", bound=Callable[..., Any])
PartialsRule = Callable[[Sequence[Value], Value, Attributes], Sequence[Value | None]]
Example = Callable[[Any, DType], tuple[Sequence[Any], dict[str, Any]]]
TypeRule = Callable[[Sequence[TensorType], Attributes], list[TensorType]]


def type_rule(
    name: str, dtypes: tuple[DType, ...], result: Literal["same", "bool"] = "same"
) -> TypeRule:
    """Broadcasts operands of one dtype out of ``dtypes``; the result is of it, or bool."""

    names = frozenset(known.name for known in dtypes)

    def infer(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
        first = inputs[0]
        element = first.dtype
        is_alike = True
        for other in inputs:
            if other is not first:
                if other.dtype is not element:
                    shown = " and ".join(str(other.dtype) for other in inputs)
                    raise DTypeError(f"{name} takes operands of one dtype, not {shown}")
                is_alike = is_alike and other.shape == first.shape
        if element.name not in names:
            raise DTypeError(f"{name} does not take {element}", hint=_hint(element))
        if is_alike:
            return [first if result == "same" else TensorType(bool_, first.shape)]
        shape = broadcast_shapes(*[operand.shape for operand in inputs])
        if result == "same":
            for operand in inputs:
                if operand.shape == shape:
                    return [operand]
        return [TensorType(bool_ if result == "bool" else element, shape)]

    return infer


def _hint(element: DType) -> str:
    if element is bool_:
        return "for masks use the logical functions, or convert with astype"
    return "convert with astype"


def through_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference for functions: float32 is computed in float64 and rounded once."""

    def reference(*arrays: Any, **attrs: Any) -> Any:
        element = np.asarray(arrays[0]).dtype
        with np.errstate(all="ignore"):
            wide = function(*(np.asarray(array, np.float64) for array in arrays))
            return np.asarray(wide).astype(element)

    return reference


def primitive_reference(name: str) -> Callable[..., Any]:
    """The meaning of a scalar primitive as a reference that ignores attributes."""
    meaning = PRIMITIVES[name].reference

    def reference(*arrays: Any, **attrs: Any) -> Any:
        return meaning(*(np.asarray(array) for array in arrays))

    return reference


_SHAPES = ((3, 4), (4,), (3, 1))


def _broadcasting(arity: int, low: float, high: float) -> Example:
    """Samples of operands that broadcast, within the interval and the dtype's range."""

    def example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
        arrays = []
        for shape in _SHAPES[:arity]:
            if element.is_float:
                values = rng.uniform(low, high, shape)
            elif element is bool_:
                values = rng.integers(0, 2, shape)
            else:
                values = rng.integers(0 if element.kind == "uint" else int(low), int(high), shape)
            arrays.append(values.astype(element.numpy))
        return arrays, {}

    return example


def pointwise(
    name: str,
    doc: str,
    dtypes: tuple[DType, ...],
    *,
    partials: PartialsRule | None = None,
    derivative: Derivative | None = None,
    primitive: str | None = None,
    scalars: PointwiseRule | None = None,
    parts: PartsRule | None = None,
    reference: Callable[..., Any] | None = None,
    arity: int = 0,
    result: Literal["same", "bool"] = "same",
    numerics: Numerics = "E",
    algebra: Algebra | None = None,
    low: float = -4.0,
    high: float = 4.0,
    differentiable: tuple[float, float] | None = None,
    example: Example | None = None,
    max_ulp: float = 0.0,
    of_complex: ComplexRule | None = None,
) -> OpDef:
    """Declares and registers a pointwise op over operands of one dtype.

    It is Flat unless ``partials`` or ``derivative`` says otherwise. It becomes the scalar primitive
    of its own name, or the one that ``primitive`` names, or what ``scalars`` build for an element;
    with ``parts`` it is coarse, and that is what it stands for. The last two need ``arity`` or an
    ``example``.
    """
    lowering: Lowering = Pointwise(scalars or primitive or name)
    if parts is not None:
        lowering = Decompose(parts)
    spelled = primitive or name
    rule: Derivative = derivative or (Partials(partials) if partials is not None else Flat())
    return register(
        OpDef(
            name=name,
            doc=doc,
            infer=type_rule(name, dtypes, result),
            reference=reference or primitive_reference(spelled),
            derivative=rule,
            lowering=lowering,
            numerics=numerics,
            algebra=algebra or Algebra(),
            domain=Domain(
                dtypes,
                low,
                high,
                differentiable,
                example or _broadcasting(arity or PRIMITIVES[spelled].arity, low, high),
            ),
            max_ulp=max_ulp,
            broadcasts=True,
            of_complex=of_complex,
        )
    )


# --- operands of user-level functions ------------------------------------------------------------


def number_operands(*operands: Any) -> tuple[Value, ...]:
    """Promoted operands; where all are bool they become int8, as in NumPy."""
    values = promoted(*operands)
    if values[0].dtype is bool_:
        return tuple(converted(value, int8) for value in values)
    return values


def float_dtype(element: DType) -> DType:
    """The dtype in which a function of analysis answers.

    Floats and complex numbers keep theirs; bool and 8- and 16-bit integers give float32 (where
    NumPy has float16, which graphc has not, or float32), wider integers float64.
    """
    if element.is_inexact:
        return element
    return float32 if element.bits <= 16 else float64


def float_operand(operand: Any) -> Value:
    """One operand as a float, or as the complex numbers it has."""
    if isinstance(operand, Value) and operand._type.dtype.kind == "float":
        return operand
    value = as_value(operand)
    return converted(value, float_dtype(value.dtype))


def float_operands(*operands: Any) -> tuple[Value, ...]:
    """Promoted operands as floats, or as complex numbers if one is complex."""
    values = promoted(*operands)
    element = float_dtype(values[0].dtype)
    return tuple(converted(value, element) for value in values)


def refuse(message: str, hint: str | None = None) -> DTypeError:
    """A DTypeError at the user's line."""
    return DTypeError(message, where=caller(), hint=hint)


def like(number: complex, value: Value) -> Value:
    """A scalar constant of the value's dtype, in its graph."""
    return constant_beside(number, value.dtype, value)
