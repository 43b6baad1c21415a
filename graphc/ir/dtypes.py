"""Element types: bool, (u)int8 to 64, float16 to 64, bfloat16, complex64, complex128, and those
for storage alone; promotion.

float16 and bfloat16 are how numbers are stored and rounded; they are computed with in float32
(``DType.computed``). Floats of 8 bits and integers of 2 and 4 (``STORAGE``) are moved and
converted, and nothing else: they have neither arithmetic nor a common dtype with others. NumPy has
these and bfloat16 from ``ml_dtypes``, and they are there where it is installed.

Graphs and memory have complex elements, a real part and then an imaginary one. Kernels have real
dtypes alone: an operation on complex operands is recorded as operations on parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from graphc.base.errors import DTypeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.float_formats import FloatFormat

Kind = Literal["bool", "int", "uint", "float", "complex"]


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
        width: of integers, the bits of a number; those above it in memory are 0, and not read.
        safetensors: what files of variables and weights call it, as ``I8`` or ``BF16``; None if
            they have no such dtype.
        is_storage: whether it is for storage alone, so that nothing is computed with it.
        part: of complex numbers, the dtype of their two parts; of others the dtype itself.
        computed: the dtype that arithmetic is done in, whose results are rounded to this one; of
            one for storage that by way of which it is converted.
    """

    name: str
    kind: Kind
    bits: int
    numpy: np.dtype[np.generic]
    c_type: str
    float_format: FloatFormat | None = None
    width: int = 0
    safetensors: str | None = None
    is_storage: bool = False
    part: DType = field(init=False)
    computed: DType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", self.width or self.bits)
        parts = {"complex64": "float32", "complex128": "float64"}
        own = _BY_NAME[parts[self.name]] if self.kind == "complex" else self
        object.__setattr__(self, "part", own)
        computed = self
        if self.is_float and self.bits < 32:
            computed = float32
        elif self.width < self.bits:
            computed = _BY_NAME[f"{self.kind}{self.bits}"]
        object.__setattr__(self, "computed", computed)

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
    def is_taught(self) -> bool:
        """Whether NumPy has it from ``ml_dtypes``."""
        return self.numpy.isbuiltin == 2

    @property
    def format(self) -> FloatFormat:
        """How floats are stored; for other dtypes a bug."""
        assert self.float_format is not None, f"{self} has no float format"
        return self.float_format

    @property
    def epsilon(self) -> float:
        """By what the number after 1 is larger; of a complex dtype that of its parts."""
        return float(2.0**-self.part.format.fraction)

    @property
    def is_rounded(self) -> bool:
        """Whether arithmetic rounds, so that the order of a sum matters; integers wrap instead."""
        return self.is_inexact

    @property
    def is_differentiable(self) -> bool:
        """Whether there are derivatives of and with respect to its values."""
        return self.is_inexact and not self.is_storage

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer; bool is not one."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        """Whether numbers below zero are among its values."""
        return self.kind in ("int", "float", "complex")

    @property
    def digits(self) -> int:
        """Binary digits of a whole number: each of at most as many is a value of the dtype."""
        if self.float_format is not None:
            return self.float_format.significand
        return 1 if self.kind == "bool" else self.width - self.is_signed

    @property
    def least(self) -> bool | int | float:
        """The least value; -inf for floats, whether or not they have it."""
        if self.is_float:
            return -math.inf
        if self.kind == "bool":
            return False
        return -(1 << self.digits) if self.is_signed else 0

    @property
    def greatest(self) -> bool | int | float:
        """The greatest value; inf for floats, whether or not they have it."""
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
        return math.nan if self.is_inexact else 85 & int(self.greatest)

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


def _make(name: str, kind: Kind, bits: int, c_type: str, **more: Any) -> DType:
    made = DType(name, kind, bits, np.dtype(name), c_type, **more)
    _BY_NAME[name] = _BY_NUMPY[made.numpy] = made
    return made


def _integer(kind: Literal["int", "uint"], bits: int) -> DType:
    file = f"{kind[0].upper()}{bits}"
    return _make(f"{kind}{bits}", kind, bits, f"{kind}{bits}_t", safetensors=file)


def _float(bits: int, c_type: str, exponent: int, significand: int) -> DType:
    format_ = FloatFormat(exponent, significand)
    name = f"float{bits}"
    return _make(name, "float", bits, c_type, float_format=format_, safetensors=f"F{bits}")


bool_ = _make("bool", "bool", 8, "bool", safetensors="BOOL")
int8, int16, int32, int64 = (_integer("int", bits) for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_integer("uint", bits) for bits in (8, 16, 32, 64))
float32 = _float(32, "float", 8, 24)
float64 = _float(64, "double", 11, 53)
float16 = _float(16, "uint16_t", 5, 11)
complex64 = _make("complex64", "complex", 64, "float _Complex", safetensors="C64")
complex128 = _make("complex128", "complex", 128, "double _Complex")

# --- what NumPy has from ml_dtypes ---------------------------------------------------------------


def _stored(kind: Kind, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "bits": 8, "c_type": "uint8_t", "is_storage": True, **more}


def _float8(format_: FloatFormat, safetensors: str | None = None) -> dict[str, Any]:
    return _stored("float", float_format=format_, safetensors=safetensors)


_TAUGHT: dict[str, dict[str, Any]] = {
    "bfloat16": {
        "kind": "float", "bits": 16, "c_type": "uint16_t", "float_format": FloatFormat(8, 8),
        "safetensors": "BF16",
    },
    "float8_e3m4": _float8(FloatFormat(3, 5)),
    "float8_e4m3": _float8(FloatFormat(4, 4)),
    "float8_e4m3b11fnuz": _float8(FloatFormat(4, 4, "fnuz", shift=4)),
    "float8_e4m3fn": _float8(FloatFormat(4, 4, "fn"), "F8_E4M3"),
    "float8_e4m3fnuz": _float8(FloatFormat(4, 4, "fnuz", shift=1), "F8_E4M3FNUZ"),
    "float8_e5m2": _float8(FloatFormat(5, 3), "F8_E5M2"),
    "float8_e5m2fnuz": _float8(FloatFormat(5, 3, "fnuz", shift=1), "F8_E5M2FNUZ"),
    "int2": _stored("int", width=2),
    "int4": _stored("int", width=4),
    "uint2": _stored("uint", width=2),
    "uint4": _stored("uint", width=4),
}  # fmt: skip
STORAGE_NAMES = tuple(name for name, more in _TAUGHT.items() if "is_storage" in more)
"""The dtypes for storage alone, whether or not they are there; in the order of libraries, so new
ones come last."""


def _taught() -> tuple[DType, ...]:
    """Those that are there; older releases round some numbers twice."""
    try:
        import ml_dtypes
    except ImportError:
        return ()
    if tuple(map(int, ml_dtypes.__version__.split(".")[:2])) < (0, 7):
        return ()
    return tuple(_make(name, **_TAUGHT[name]) for name in _TAUGHT if hasattr(ml_dtypes, name))


_PRESENT = _taught()

NARROW_FLOATS: tuple[DType, ...] = (
    float16, *(dtype for dtype in _PRESENT if not dtype.is_storage),
)  # fmt: skip
"""What is stored and rounded to, and computed with in float32."""
COMPUTED_FLOATS: tuple[DType, ...] = (float32, float64)
"""What arithmetic is done in."""
FLOATS: tuple[DType, ...] = (*NARROW_FLOATS, *COMPUTED_FLOATS)

ALL: tuple[DType, ...] = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, *FLOATS,
)  # fmt: skip
"""What kernels compute with, as it is or once it is converted."""
INTEGERS: tuple[DType, ...] = tuple(d for d in ALL if d.is_integer)
COMPUTED: tuple[DType, ...] = tuple(d for d in ALL if d.computed is d)
"""What kernels compute with as it is."""
STORAGE: tuple[DType, ...] = tuple(dtype for dtype in _PRESENT if dtype.is_storage)
"""What is for storage alone: moved and converted."""
COMPLEX: tuple[DType, ...] = (complex64, complex128)
EVERY: tuple[DType, ...] = (*ALL, *COMPLEX, *STORAGE)
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
        if isinstance(spec, str) and spec in _TAUGHT:
            hint = "NumPy has it from ml_dtypes, 0.7 or newer: pip install -U ml_dtypes"
        raise DTypeError(f"{shown(spec)} is not a supported dtype", where=caller(), hint=hint)
    return found


def complex_of(part: DType) -> DType:
    """The complex dtype whose parts are of a float dtype, or of what that is computed in."""
    return complex64 if part.computed is float32 else complex128


def __getattr__(name: str) -> DType:
    """The dtypes of ``ml_dtypes``, which not every installation has."""
    if name not in _TAUGHT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return dtype(name)


def floating(element: np.dtype[Any]) -> bool:
    """Whether arrays of NumPy's dtype hold floats, of a dtype of graphc or a wider one."""
    found = element_of(element)
    return element.kind == "f" if found is None else found.is_float


def kind_of(element: np.dtype[Any]) -> str:
    """NumPy's letter for a kind of dtype, of those that it was taught, too."""
    found = element_of(element)
    return element.kind if found is None else found.kind[0]


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


_PROMOTED: dict[tuple[DType, DType], DType] = {
    (a, b): _common(a, b) for a in EVERY for b in EVERY if not (a.is_storage or b.is_storage)
}


def promote(*types: DType) -> DType:
    """NumPy 2's common type of strong types; at least one is needed.

    Raises:
        DTypeError: for one for storage alone and another.
    """
    result = types[0]
    for other in types[1:]:
        if other is not result:
            common = _PROMOTED.get((result, other))
            if common is None:
                raise storage_alone(f"{result} and {other} have no common dtype", result, other)
            result = common
    return result


def storage_alone(message: str, *types: DType) -> DTypeError:
    """The error for what would compute with a dtype for storage alone, one of those given."""
    stored = next(each for each in types if each.is_storage)
    return DTypeError(
        f"{message}: {stored} is for storage alone",
        where=caller(),
        hint=f'convert first, as with x.astype("{stored.computed}")',
    )


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
