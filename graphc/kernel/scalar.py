"""The scalar primitives of kernels: the fixed, small set that code generation knows.

An op's lowering is written with these. Every primitive is total: no input traps and none gives an
undefined result. The NumPy reference works on whole arrays and is the meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from graphc.ir.dtypes import (
    COMPUTED_FLOATS,
    DType,
    bool_,
    dtype,
    element_of,
    floating,
)
from graphc.kernel.fused_multiply_add import fma

ResultRule = Literal["same", "bool", "second", "word", "float"]


@dataclass(frozen=True, slots=True)
class Primitive:
    """A scalar operation.

    Attributes:
        name: how kernels spell it.
        arity: number of operands, all of one dtype (``select`` takes a bool first).
        kinds: which dtype kinds it takes.
        result: same as the operands, bool, (select) the second operand's, or of the operand's bits
            the unsigned integer or the float.
        reference: its meaning on arrays, NaN and edges included.
        exact: class E (bits are fixed) or class R (within the documented ulp).
        weight: how many times the work of an elementary function it is.
    """

    name: str
    arity: int
    kinds: frozenset[str]
    result: ResultRule
    reference: Callable[..., Any]
    exact: bool = True
    weight: int = 1

    def result_dtype(self, operands: Sequence[DType]) -> DType:
        """The dtype of the result."""
        if self.result == "bool":
            return bool_
        if self.result == "word":
            return dtype(f"uint{operands[0].bits}")
        if self.result == "float":
            return _FLOAT_OF_BITS[operands[0].bits]
        return operands[1] if self.result == "second" else operands[0]

    def takes(self, element: DType) -> bool:
        """Whether it takes operands of a dtype; narrow floats are chosen, and converted before."""
        if element.kind not in self.kinds:
            return False
        if element.computed is not element:
            return self.result == "second"
        return self.result != "float" or element.bits in _FLOAT_OF_BITS


PRIMITIVES: dict[str, Primitive] = {}
_FLOAT_OF_BITS = {element.bits: element for element in COMPUTED_FLOATS}

_ANY = frozenset({"bool", "int", "uint", "float"})
_NUMBER = frozenset({"int", "uint", "float"})
_INTEGER = frozenset({"int", "uint"})
_FLOAT = frozenset({"float"})
_BITS = frozenset({"bool", "int", "uint"})


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arrays)

    return call


def _declare(
    name: str,
    arity: int,
    kinds: frozenset[str],
    reference: Callable[..., Any],
    result: ResultRule = "same",
    exact: bool = True,
) -> None:
    PRIMITIVES[name] = Primitive(name, arity, kinds, result, _quiet(reference), exact)


def declare_function(
    name: str, arity: int, reference: Callable[..., Any], weight: int = 1
) -> None:
    """A primitive of floats whose bits are open within a bound (class R)."""
    PRIMITIVES[name] = Primitive(
        name, arity, _FLOAT, "same", _quiet(reference), exact=False, weight=weight
    )


def _shift(left: bool) -> Callable[[Any, Any], Any]:
    """Shifts by the width or more give 0 (or the sign, to the right); negative ones likewise."""

    def shift(value: Any, amount: Any) -> Any:
        width = value.dtype.itemsize * 8
        too_far = (amount >= width) | (amount < 0)
        safe = np.where(too_far, 0, amount).astype(value.dtype)
        if left:
            return np.where(too_far, 0, value << safe).astype(value.dtype)
        fill = np.where(value < 0, -1, 0).astype(value.dtype)
        return np.where(too_far, fill, value >> safe).astype(value.dtype)

    return shift


def _integer_power(base: Any, exponent: Any) -> Any:
    """Wraps; a negative exponent gives 0, but ±1 for a base of ±1."""
    negative = exponent < 0
    result = np.power(base, np.where(negative, exponent & 1, exponent).astype(exponent.dtype))
    unit = (base == 1) | (negative & (base == -1)) if base.dtype.kind == "i" else base == 1
    return np.where(negative & ~unit, 0, result).astype(base.dtype)


def _word(x: Any) -> Any:
    """The bits of floats, as unsigned integers."""
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(np.shape(x))


def _from_word(x: Any) -> Any:
    """The floats of such bits."""
    return np.ascontiguousarray(x).view(f"f{x.dtype.itemsize}").reshape(np.shape(x))


def _minimum(a: Any, b: Any) -> Any:
    """NaN from either side; -0 below +0."""
    result = np.minimum(a, b)
    if floating(np.asarray(a).dtype):
        zeros = (a == 0) & (b == 0)
        result = np.where(zeros, np.where(np.signbit(a), a, b), result)
    return result


def _maximum(a: Any, b: Any) -> Any:
    """NaN from either side; +0 above -0."""
    result = np.maximum(a, b)
    if floating(np.asarray(a).dtype):
        zeros = (a == 0) & (b == 0)
        result = np.where(zeros, np.where(np.signbit(a), b, a), result)
    return result


def _erf(x: Any) -> Any:
    from math import erf

    array = np.asarray(x)
    return np.vectorize(erf, otypes=[np.float64])(array).astype(array.dtype)


def _erfc(x: Any) -> Any:
    from math import erfc

    array = np.asarray(x)
    return np.vectorize(erfc, otypes=[np.float64])(array).astype(array.dtype)


def _sigmoid(x: Any) -> Any:
    wide = np.asarray(x, dtype=np.float64)
    small = np.exp(-np.abs(wide))
    result = np.where(wide >= 0, 1 / (1 + small), small / (1 + small))
    return result.astype(np.asarray(x).dtype)


def _exponent(x: Any) -> Any:
    """That of a significand in [1/2, 1), as a float; 0 where there is none."""
    significand, exponent = np.frexp(x)
    return np.where(np.isfinite(significand), exponent, 0).astype(np.asarray(x).dtype)


def _ldexp(x: Any, exponent: Any) -> Any:
    """x·2^exponent, rounded once; the exponent is rounded to a whole number before."""
    # so far from 0 every number has overflowed or vanished
    near = np.clip(np.where(np.isnan(exponent), 0, np.rint(exponent)), -5000, 5000).astype(np.int32)
    return np.where(np.isnan(exponent), np.nan, np.ldexp(x, near)).astype(np.asarray(x).dtype)


def _popcount(x: Any) -> Any:
    """The ones among the bits, those of a negative number in two's complement."""
    return np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype)


_name: str
_function: Callable[..., Any]
for _name, _function in (("add", np.add), ("multiply", np.multiply)):
    _declare(_name, 2, _ANY, _function)
for _name, _function in (
    ("subtract", np.subtract),
    ("floor_divide", np.floor_divide),
    ("mod", np.mod),
    ("fmod", np.fmod),
):
    _declare(_name, 2, _NUMBER, _function)
_declare("divide", 2, _FLOAT, np.divide)
_declare("minimum", 2, _ANY, _minimum)
_declare("maximum", 2, _ANY, _maximum)
_declare("negative", 1, _NUMBER, np.negative)
_declare("abs", 1, _NUMBER, np.abs)
_declare("sign", 1, _NUMBER, np.sign)
for _name, _function in (
    ("sqrt", np.sqrt),
    ("floor", np.floor),
    ("ceil", np.ceil),
    ("round", np.rint),
    ("trunc", np.trunc),
):
    _declare(_name, 1, _FLOAT, _function)
_declare("copysign", 2, _FLOAT, np.copysign)
_declare("nextafter", 2, _FLOAT, np.nextafter)
_declare("significand", 1, _FLOAT, lambda x: np.frexp(x)[0])
_declare("exponent", 1, _FLOAT, _exponent)
_declare("ldexp", 2, _FLOAT, _ldexp)
_declare("fma", 3, _FLOAT, fma)
for _name, _function in (
    ("exp", np.exp), ("exp2", np.exp2), ("expm1", np.expm1), ("log", np.log), ("log2", np.log2),
    ("log10", np.log10), ("log1p", np.log1p), ("sin", np.sin), ("cos", np.cos), ("tan", np.tan),
    ("tanh", np.tanh), ("sinh", np.sinh), ("cosh", np.cosh), ("arcsin", np.arcsin),
    ("arccos", np.arccos), ("arctan", np.arctan), ("cbrt", np.cbrt), ("erf", _erf), ("erfc", _erfc),
    ("sigmoid", _sigmoid),
):  # fmt: skip
    _declare(_name, 1, _FLOAT, _function, exact=False)
for _name in ("log", "tanh", "sigmoid", "erf", "erfc", "sin", "cos"):
    _declare(f"{_name}_approx", 1, _FLOAT, PRIMITIVES[_name].reference, exact=False)
_declare("power", 2, _FLOAT, np.power, exact=False)
_declare("integer_power", 2, _INTEGER, _integer_power)
for _name, _function in (
    ("equal", np.equal),
    ("not_equal", np.not_equal),
    ("less", np.less),
    ("less_equal", np.less_equal),
    ("greater", np.greater),
    ("greater_equal", np.greater_equal),
):
    _declare(_name, 2, _ANY, _function, "bool")
_declare("isnan", 1, _FLOAT, np.isnan, "bool")
_declare("isinf", 1, _FLOAT, np.isinf, "bool")
_declare("isfinite", 1, _FLOAT, np.isfinite, "bool")
_declare("signbit", 1, _FLOAT, np.signbit, "bool")
_declare("and", 2, _BITS, np.bitwise_and)
_declare("or", 2, _BITS, np.bitwise_or)
_declare("xor", 2, _BITS, np.bitwise_xor)
_declare("not", 1, _BITS, np.bitwise_not)
_declare("popcount", 1, _INTEGER, _popcount)
_declare("gcd", 2, _INTEGER, np.gcd)
_declare("left_shift", 2, _INTEGER, _shift(left=True))
_declare("right_shift", 2, _INTEGER, _shift(left=False))
_declare("word", 1, _FLOAT, _word, "word")
_declare("from_word", 1, frozenset({"uint"}), _from_word, "float")
_declare("select", 3, _ANY, np.where, "second")


def stop_between(source: DType, target: DType) -> DType | None:
    """The dtype by way of which a conversion goes; None for one that is a step by itself.

    What is not computed with as it is is converted to and from what it is computed in. Numbers that
    it does not hold are rounded to a narrow float at once, since rounding twice may differ. Floats
    become integers of any width at once, since they saturate.
    """
    if source.computed is not source:
        return None if target is source.computed else source.computed
    if target.computed in (source, target) or (source.is_float and target.is_integer):
        return None
    return None if target.is_float and not target.computed.holds(source) else target.computed


def cast(array: Any, dtype: DType) -> Any:
    """Conversion: float to int truncates and saturates, NaN gives 0; ints wrap; bool is != 0."""
    array = np.asarray(array)
    target = dtype.numpy
    source = element_of(array.dtype)
    between = None if source is None else stop_between(source, dtype)
    if between is not None:
        array = array.astype(between.numpy)
    with np.errstate(all="ignore"):
        if dtype.is_integer and floating(array.dtype):
            least, greatest = int(dtype.least), int(dtype.greatest)
            whole = np.trunc(array)
            # the largest float not above the maximum; the maximum itself may round up
            top = array.dtype.type(greatest)
            over = whole >= top if int(top) > greatest else whole > top
            under = whole <= array.dtype.type(least)
            safe = np.where(over | under | np.isnan(array), 0, whole).astype(target)
            clipped = np.where(under, target.type(least), safe)
            return np.where(over, target.type(greatest), clipped)
        return array.astype(target)
