"""Floats rounded as if they had fewer digits and a smaller range (reduce_precision)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError
from graphc.base.source import caller
from graphc.base.words import is_count, shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dtypes import FLOATS, DType, float64
from graphc.ir.lowering import ElementBuilder, Pointwise, Scalar
from graphc.ir.op import Domain, Linear, OpDef, register
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.convert import as_value
from graphc.ops.declare import refuse, type_rule
from graphc.ops.lanes import Lane, array_of, lanes

_ALL = 64
"""More bits than any float has: nothing is rounded, or cut from the range."""


def _rounded(x: Lane, exponent_bits: int, mantissa_bits: int) -> Lane:
    """Rounding on the word: a carry goes into the exponent field, and so to infinity."""
    format_ = x.dtype.format
    word = x.of("word")
    sign = word & format_.sign
    magnitude = word & (format_.sign - 1)
    result = magnitude
    dropped = format_.fraction - mantissa_bits
    if dropped > 0:
        odd = (magnitude >> dropped) & 1
        up = odd + ((1 << (dropped - 1)) - 1)
        result = (magnitude + up) & (format_.sign - (1 << dropped))
    if exponent_bits < format_.exponent:
        bias = (1 << (exponent_bits - 1)) - 1
        field = result & format_.infinity
        largest = (format_.bias + bias) << format_.fraction
        least = (format_.bias - bias) << format_.fraction
        result = field.of("greater", largest).where(format_.infinity, result)
        result = field.of("less_equal", least).where(0, result)
    # rounding might carry a NaN to other words
    nan = format_.nan if mantissa_bits else format_.infinity
    result = magnitude.of("greater", format_.infinity).where(nan, result)
    return (result | sign).of("from_word")


def _rule(b: ElementBuilder, operands: Sequence[Scalar], attrs: Attributes) -> Scalar:
    found: Scalar = _rounded(Lane(b, operands[0]), **attrs).scalar
    return found


def _reference(x: Any, **attrs: Any) -> Any:
    return array_of(_rounded(lanes(x)[0], **attrs), np.shape(x))


def _example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    values = (rng.normal(size=(3, 4)) * 10.0 ** rng.integers(-3, 4, (3, 4))).astype(element.numpy)
    if element is float64:
        # finite differences, which are of float64, see steps and no slope where it rounds
        return [values], {"exponent_bits": _ALL, "mantissa_bits": _ALL}
    return [values], {
        "exponent_bits": int(rng.choice([4, 5, _ALL])),
        "mantissa_bits": int(rng.choice([1, 3, 7, _ALL])),
    }


reduce_precision_op: OpDef = register(
    OpDef(
        name="reduce_precision",
        doc="x rounded to the nearest number with attrs mantissa_bits behind the point and an "
        "exponent field of attrs exponent_bits, at a tie to the even one; beyond that range it is "
        "infinite, and below its normal numbers 0.",
        infer=type_rule("reduce_precision", FLOATS),
        reference=_reference,
        derivative=Linear(
            lambda ct, inputs, output, attrs: (apply(reduce_precision_op, ct, **attrs),)
        ),
        lowering=Pointwise(_rule),
        domain=replace(Domain(FLOATS), example=_example),
    )
)


@surface
def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Value:
    """Floats as a format of fewer bits has them, in their own dtype; as in ``jax.lax``.

    Args:
        operand: floats.
        exponent_bits: of the exponent field, at least 1.
        mantissa_bits: stored bits of the significand. With 0 NaN becomes infinite, since a format
            without has none.

    Rounded to nearest, at a tie to even; what is beyond the range is infinite, and subnormal
    numbers of the format are 0. The derivative is rounded likewise.

    Raises:
        DTypeError: for what is no float, and for numbers of bits that are none.
    """
    value = as_value(operand)
    if not value.dtype.is_float:
        raise refuse(f"reduce_precision does not take {value.dtype}", "convert with astype")
    for name, bits, least in (
        ("exponent_bits", exponent_bits, 1), ("mantissa_bits", mantissa_bits, 0)
    ):  # fmt: skip
        if not is_count(bits, least):
            raise DTypeError(
                f"{name} is {shown(bits)}", where=caller(), hint=f"an int of at least {least}"
            )
    format_ = value.dtype.format
    return apply(
        reduce_precision_op,
        value,
        exponent_bits=_ALL if exponent_bits >= format_.exponent else int(exponent_bits),
        mantissa_bits=_ALL if mantissa_bits >= format_.fraction else int(mantissa_bits),
    )


__all__ = ["reduce_precision", "reduce_precision_op"]
