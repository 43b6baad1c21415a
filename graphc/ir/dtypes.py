"""Element types: bool, (u)int8 to 64, float16 to 64, bfloat16, complex64, complex128; promotion.

float16 and bfloat16 are how numbers are stored and rounded; they are computed with in float32
(``DType.computed``). bfloat16 is there where ``ml_dtypes`` is installed, which has it for NumPy.

Graphs and memory have complex elements, a real part and then an imaginary one. Kernels have real
dtypes alone (``ALL``): an operation on complex operands is recorded as operations on parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from graphc.base.errors import DTypeError
from graphc.base.source import caller
from graphc.base.words import shown

Kind = Literal["bool", "int", "uint", "float", "complex"]


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary format of floating-point numbers: a sign, an exponent field, a fraction.

    Attributes:
        exponent: bits of the exponent field.
        significand: bits of the significand, with the leading one, which is not stored.
    """

    exponent: int
    significand: int

    @property
    def bits(self) -> int:
        """Bits of a word that holds a number."""
        return self.exponent + self.significand

    @property
    def fraction(self) -> int:
        """Stored bits of the significand."""
        return self.significand - 1

    @property
    def bias(self) -> int:
        """The exponent field of 1, and the exponent of the largest numbers."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self) -> int:
        """The word of +inf: all bits of the exponent field."""
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0**-self.fraction) * 2.0**self.bias

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with all bits of the significand."""
        return 2.0 ** (1 - self.bias)

    @property
    def spacing(self) -> float:
        """What lies between 1 and the next larger number."""
        return 2.0**-self.fraction

    @property
    def smallest(self) -> float:
        """The smallest positive number, a subnormal one."""
        return self.smallest_normal * self.spacing

    @property
    def largest_whole(self) -> int:
        """Whole numbers up to this magnitude are all numbers of the format."""
        return 1 << self.significand

    def holds(self, other: FloatFormat) -> bool:
        """Whether every number of another format is one of this."""
        return self.exponent >= other.exponent and self.significand >= other.significand


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. There is one object per type, so ``is`` compares.

    Attributes:
        name: NumPy's name.
        kind: bool, int (signed), uint, float or complex.
        bits: storage width.
        numpy: the NumPy dtype, in native byte order.
        c_type: what C calls it.
        float_format: of floats, how they are stored.
        part: of complex numbers, the dtype of their two parts; of others the dtype itself.
    """

    name: str
    kind: Kind
    bits: int
    numpy: np.dtype[np.generic]
    c_type: str
    float_format: FloatFormat | None = None
    part: DType = field(init=False)

    def __post_init__(self) -> None:
        parts = {"complex64": "float32", "complex128": "float64"}
        own = _BY_NAME[parts[self.name]] if self.kind == "complex" else self
        object.__setattr__(self, "part", own)

    @property
    def bytes(self) -> int:
        """Storage of one element in bytes."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_inexact(self) -> bool:
        """Float or complex: what functions of analysis answer in."""
        return self.kind in ("float", "complex")

    @property
    def computed(self) -> DType:
        """The dtype that arithmetic is done in, whose results are rounded to this one."""
        return float32 if self.is_float and float32.format.bits > self.bits else self

    @property
    def format(self) -> FloatFormat:
        """How floats are stored; for other dtypes a bug."""
        assert self.float_format is not None, f"{self} has no float format"
        return self.float_format

    @property
    def is_rounded(self) -> bool:
        """Whether arithmetic rounds, so that the order of a sum matters; integers wrap instead."""
        return self.is_inexact

    @property
    def is_differentiable(self) -> bool:
        """Whether there are derivatives of and with respect to its values."""
        return self.is_inexact

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer; bool is not one."""
        return self.kind in ("int", "uint")

    @property
    def safetensors(self) -> str:
        """What files of variables and weights call it: ``BOOL``, ``I8``, ``U8``, ``BF16``."""
        if self.is_float:
            return self.name.replace("float", "f").upper()
        return "BOOL" if self.kind == "bool" else f"{self.kind[0].upper()}{self.bits}"

    @property
    def is_signed(self) -> bool:
        """Whether numbers below zero are among its values."""
        return self.kind in ("int", "float", "complex")

    @property
    def digits(self) -> int:
        """Binary digits of a whole number: each of at most as many is a value of the dtype."""
        if self.float_format is not None:
            return self.float_format.significand
        return 1 if self.kind == "bool" else self.bits - self.is_signed

    @property
    def least(self) -> bool | int | float:
        """The least value, -inf for floats."""
        if self.is_float:
            return -math.inf
        if self.kind == "bool":
            return False
        return -(1 << self.digits) if self.is_signed else 0

    @property
    def greatest(self) -> bool | int | float:
        """The greatest value, inf for floats."""
        if self.is_float:
            return math.inf
        return True if self.kind == "bool" else (1 << self.digits) - 1

    def holds(self, other: DType) -> bool:
        """Whether every value of another dtype is a value of this."""
        if self is other or other.kind == "bool":
            return True
        if self.is_complex:
            return self.part.holds(other.part)
        if other.is_complex:
            return False
        if self.kind == "bool" or (other.is_signed and not self.is_signed):
            return False
        if other.is_float:
            return self.is_float and self.format.holds(other.format)
        return self.digits >= other.digits

    @property
    def unwritten(self) -> int | float:
        """What interpreters find where nothing was written: NaN, or a number nobody expects."""
        return math.nan if self.is_inexact else 85

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Equal to itself, and, for users' convenience, to what NumPy calls the same type."""
        if isinstance(other, DType):
            return self is other
        if isinstance(other, (str, type, np.dtype)):
            try:
                return bool(np.dtype(other) == self.numpy)
            except (TypeError, ValueError):
                # NumPy reads some texts as formats that are wrong
                return False
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.numpy)

    def __reduce__(self) -> tuple[object, ...]:
        return (dtype, (self.name,))


_BY_NAME: dict[str, DType] = {}
_BY_NUMPY: dict[np.dtype[Any], DType] = {}


def _make(
    name: str, kind: Kind, bits: int, c_type: str, float_format: FloatFormat | None = None
) -> DType:
    made = DType(name, kind, bits, np.dtype(name), c_type, float_format)
    _BY_NAME[name] = _BY_NUMPY[made.numpy] = made
    return made


def _brain_floats() -> tuple[DType, ...]:
    """bfloat16, where NumPy can be taught it."""
    try:
        import ml_dtypes  # noqa: F401
    except ImportError:
        return ()
    format_ = FloatFormat(exponent=8, significand=8)
    return (_make("bfloat16", "float", 16, "uint16_t", format_),)


def _integer(kind: Literal["int", "uint"], bits: int) -> DType:
    return _make(f"{kind}{bits}", kind, bits, f"{kind}{bits}_t")


bool_ = _make("bool", "bool", 8, "bool")
int8, int16, int32, int64 = (_integer("int", bits) for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_integer("uint", bits) for bits in (8, 16, 32, 64))
float16 = _make("float16", "float", 16, "uint16_t", FloatFormat(exponent=5, significand=11))
float32 = _make("float32", "float", 32, "float", FloatFormat(exponent=8, significand=24))
float64 = _make("float64", "float", 64, "double", FloatFormat(exponent=11, significand=53))

NARROW_FLOATS: tuple[DType, ...] = (float16, *_brain_floats())
"""What is stored and rounded to, and computed with in float32."""
COMPUTED_FLOATS: tuple[DType, ...] = (float32, float64)
"""What arithmetic is done in."""
FLOATS: tuple[DType, ...] = (*NARROW_FLOATS, *COMPUTED_FLOATS)

complex64 = _make("complex64", "complex", 64, "float _Complex")
complex128 = _make("complex128", "complex", 128, "double _Complex")

ALL: tuple[DType, ...] = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, *FLOATS,
)  # fmt: skip
"""What kernels have."""
INTEGERS: tuple[DType, ...] = tuple(d for d in ALL if d.is_integer)
COMPUTED: tuple[DType, ...] = tuple(d for d in ALL if d.computed is d)
"""What kernels compute with."""
COMPLEX: tuple[DType, ...] = (complex64, complex128)
EVERY: tuple[DType, ...] = (*ALL, *COMPLEX)
"""What values have."""

DTypeLike: TypeAlias = "DType | str | type | np.dtype[np.generic]"


def dtype(spec: DTypeLike) -> DType:
    """The DType for a DType, a NumPy dtype or scalar type, a name, or one of Python's numbers.

    Raises:
        DTypeError: for anything graphc has no element type for.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in _BY_NAME:
        return _BY_NAME[spec]
    if isinstance(spec, np.dtype) and spec in _BY_NUMPY:
        return _BY_NUMPY[spec]
    try:
        # NumPy takes None for float64
        found = None if spec is None else _BY_NUMPY.get(np.dtype(spec).newbyteorder("="))
    except (TypeError, ValueError):
        found = None
    if found is None:
        names = ", ".join(d.name for d in EVERY)
        hint = f"supported are {names}"
        if isinstance(spec, str) and spec == "bfloat16":
            hint = "install ml_dtypes, which has it for NumPy: pip install ml_dtypes"
        raise DTypeError(f"{shown(spec)} is not a supported dtype", where=caller(), hint=hint)
    return found


def complex_of(part: DType) -> DType:
    """The complex dtype whose parts are of a float dtype, or of what that is computed in."""
    return complex64 if part.computed is float32 else complex128


def __getattr__(name: str) -> DType:
    """bfloat16, which not every installation has."""
    if name != "bfloat16":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return dtype(name)


def floating(element: np.dtype[Any]) -> bool:
    """Whether arrays of NumPy's dtype hold floats, of a dtype of graphc or a wider one."""
    found = element_of(element)
    return element.kind == "f" if found is None else found.is_float


def kind_of(element: np.dtype[Any]) -> str:
    """NumPy's letter for a kind of dtype; ``f`` for floats that it was taught, too."""
    return "f" if floating(element) else element.kind


def element_of(element: np.dtype[Any]) -> DType | None:
    """The dtype of arrays of NumPy's dtype; None if graphc has none."""
    return _BY_NUMPY.get(element)


def named(name: str) -> DType | None:
    """The dtype of exactly this name."""
    return _BY_NAME.get(name)


def _common(a: DType, b: DType) -> DType:
    """NumPy's common type of two; of bfloat16 it knows none with most others.

    A narrow float stays where it holds all values of the other, and counts as float32 elsewhere,
    which is what NumPy does with float16.
    """
    for narrow, other in ((a, b), (b, a)):
        if narrow in NARROW_FLOATS:
            return narrow if narrow.holds(other) else _common(float32, other)
    return _BY_NUMPY[np.promote_types(a.numpy, b.numpy)]


_PROMOTED: dict[tuple[DType, DType], DType] = {(a, b): _common(a, b) for a in EVERY for b in EVERY}


def promote(*types: DType) -> DType:
    """NumPy 2's common type of strong types; at least one is needed."""
    result = types[0]
    for other in types[1:]:
        if other is not result:
            result = _PROMOTED[result, other]
    return result


def scalar_dtype(value: complex) -> DType:
    """The dtype of a Python scalar where nothing else decides: bool, int64, float32, complex64."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int64
    return float32 if isinstance(value, float) else complex64


def promote_weak(strong: DType, value: complex) -> DType:
    """NumPy 2's result of a strong type with a Python scalar, which only lends its kind.

    Raises:
        DTypeError: for an int that the integer type cannot hold (NumPy raises OverflowError).
    """
    if isinstance(value, bool):
        return strong
    if isinstance(value, int):
        if strong is bool_:
            return int64
        if strong.is_integer and not strong.least <= value <= strong.greatest:
            raise DTypeError(
                f"Python integer {value} is out of bounds for {strong}",
                hint="cast the tensor, or write the number as an array of a wider dtype",
            )
        return strong
    wide = strong if strong.is_inexact else float64
    return wide if isinstance(value, float) or wide.is_complex else complex_of(wide)
