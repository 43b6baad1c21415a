"""The namespace of the Python array API standard, version 2024.12, for symbolic values.

``x.__array_namespace__()`` gives it. Role: names and signatures of the standard over the functions
of ``gx``, which differ from them in some; nothing is computed here. The default dtypes are float32
and int64, and there is one device.
"""

from __future__ import annotations

import builtins
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.base.errors import DTypeError, UnsupportedError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dtypes import (
    COMPLEX,
    COMPUTED,
    COMPUTED_FLOATS,
    INTEGERS,
    DType,
    bool_,
    complex64,
    float32,
    int64,
    promote,
    promote_weak,
)
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.surface import functions, surface_names
from graphc.ir.value import Value
from graphc.ops.convert import as_value, converted
from graphc.ops.fft import functions as transforms

__array_api_version__ = "2024.12"

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
_DTYPES = (*COMPUTED, *COMPLEX)
"""The standard's dtypes; it has no floats of 16 bits."""

# Python's bool is ``builtins.bool`` here
globals().update({element.name: element for element in _DTYPES})

_SAME = """
    abs acos acosh add all any argmax argmin argsort asin asinh atan atan2 atanh bitwise_and
    bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_to ceil
    concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide equal
    exp expand_dims expm1 flip floor floor_divide greater greater_equal hypot imag isfinite isinf
    isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or
    logical_xor matmul matrix_transpose max maximum mean min minimum moveaxis multiply negative
    nextafter nonzero not_equal permute_dims positive pow prod real reciprocal remainder repeat
    roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack subtract sum take
    take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts unique_inverse
    unique_values unstack vecdot where
"""
"""What is called alike, and takes the arguments of the standard."""


def _missing(name: str) -> Any:
    """A function of the standard that is one of ``gx``."""
    if name in _SAME.split() and name in surface_names():
        globals()[name] = functions[name]
        return functions[name]
    raise AttributeError(f"module 'graphc.array_api' has no attribute {name!r}", name=name)


if not TYPE_CHECKING:
    __getattr__ = _missing


def __dir__() -> list[str]:
    """What there is of the standard."""
    own = [name for name in globals() if not name.startswith("_") and name not in _OWN]
    there = [name for name in _SAME.split() if name in surface_names()]
    return sorted({*own, *there, "__array_api_version__", "__array_namespace_info__"})


def _function(name: str) -> Callable[..., Any]:
    return functions[name]


def _check_device(device: Any) -> None:
    """There is the CPU.

    Raises:
        UnsupportedError: for another device.
    """
    if device is not None and device != "cpu":
        raise UnsupportedError(f"device {shown(device)}", where=caller(), hint="there is 'cpu'")


# --- creation ------------------------------------------------------------------------------------


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None
) -> Value:
    """A value as it is, anything else as a constant; ``copy`` is of no meaning."""
    _check_device(device)
    value = as_value(obj)
    return value if dtype is None else converted(value, as_dtype(dtype))


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Value:
    """See ``gx.arange``."""
    _check_device(device)
    result: Value = _function("arange")(start, stop, step, dtype)
    return result


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Value:
    """Zeros, which cost nothing until they are used."""
    return full(shape, 0, dtype=dtype or float32, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Value:
    """See ``gx.zeros``."""
    return full(shape, 0, dtype=dtype or float32, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Value:
    """See ``gx.ones``."""
    return full(shape, 1, dtype=dtype or float32, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Value:
    """See ``gx.full``."""
    _check_device(device)
    result: Value = _function("full")(shape, fill_value, dtype)
    return result


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Value:
    """Zeros in the shape of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Value:
    """See ``gx.zeros_like``."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Value:
    """See ``gx.ones_like``."""
    return full_like(x, 1, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Value:
    """See ``gx.full_like``."""
    _check_device(device)
    result: Value = _function("full_like")(x, fill_value, dtype)
    return result


def eye(
    n_rows: Any, n_cols: Any = None, /, *, k: Any = 0, dtype: Any = None, device: Any = None
) -> Value:
    """See ``gx.eye``."""
    _check_device(device)
    result: Value = _function("eye")(n_rows, n_cols, k, dtype or float32)
    return result


def linspace(
    start: Any,
    stop: Any,
    /,
    num: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: builtins.bool = True,
) -> Value:
    """See ``gx.linspace``."""
    _check_device(device)
    result: Value = _function("linspace")(start, stop, num, endpoint, dtype=dtype)
    return result


def from_dlpack(
    x: Any, /, *, device: Any = None, copy: builtins.bool | None = None
) -> Value:
    """A constant of an array of another library, read through NumPy."""
    _check_device(device)
    return as_value(x if isinstance(x, Value) else np.from_dlpack(x))


# --- what has other arguments --------------------------------------------------------------------


def astype(x: Any, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Value:
    """See ``gx.astype``; ``copy`` is of no meaning."""
    _check_device(device)
    result: Value = _function("astype")(x, dtype)
    return result


def clip(x: Any, /, min: Any = None, max: Any = None) -> Value:
    """x limited to [min, max], in the dtype of x; see ``gx.clip``."""
    value = as_value(x)
    low, high = (
        bound if bound is None else converted(as_value(bound, value), value.dtype)
        if isinstance(bound, (Value, np.ndarray, np.generic)) else bound
        for bound in (min, max)
    )  # fmt: skip
    result: Value = _function("clip")(value, low, high)
    return result


def broadcast_arrays(*arrays: Any) -> list[Value]:
    """See ``gx.broadcast_arrays``."""
    return list(_function("broadcast_arrays")(*arrays))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Value]:
    """See ``gx.meshgrid``."""
    return list(_function("meshgrid")(*arrays, indexing=indexing))


def reshape(x: Any, /, shape: Any, *, copy: builtins.bool | None = None) -> Value:
    """See ``gx.reshape``; ``copy`` is of no meaning."""
    result: Value = _function("reshape")(x, shape)
    return result


def std(
    x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Value:
    """See ``gx.std``, whose ``ddof`` is ``correction``."""
    result: Value = _function("std")(x, axis, keepdims, correction)
    return result


def var(
    x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Value:
    """See ``gx.var``, whose ``ddof`` is ``correction``."""
    result: Value = _function("var")(x, axis, keepdims, correction)
    return result


# --- linear algebra ------------------------------------------------------------------------------


class Linalg:
    """The standard's extension of linear algebra, but for what has complex results."""

    _SAME = """
        cholesky det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_transpose
        outer pinv qr slogdet solve svdvals tensordot trace vecdot vector_norm
    """
    """What takes the arguments of the standard."""

    def __getattr__(self, name: str) -> Any:
        if name in self._SAME.split():
            return getattr(importlib.import_module("graphc.linalg"), name)
        raise AttributeError(f"graphc.array_api.linalg has no {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted([*self._SAME.split(), "cross", "matrix_rank", "svd"])

    @staticmethod
    def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Value:
        """See ``gx.cross``."""
        result: Value = _function("cross")(x1, x2, axis=axis)
        return result

    @staticmethod
    def matrix_rank(x: Any, /, *, rtol: Any = None) -> Value:
        """See ``gx.linalg.matrix_rank``."""
        result: Value = importlib.import_module("graphc.linalg").matrix_rank(x, rtol=rtol)
        return result

    @staticmethod
    def svd(x: Any, /, *, full_matrices: builtins.bool = True) -> Any:
        """See ``gx.linalg.svd``."""
        return importlib.import_module("graphc.linalg").svd(x, full_matrices)


linalg = Linalg()

# --- Fourier transforms --------------------------------------------------------------------------


class Fourier:
    """The standard's extension of Fourier transforms, which are those of ``gx.fft``."""

    _SAME = (
        "fft", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn",
        "rfft", "rfftn",
    )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name in self._SAME:
            return getattr(transforms, name)
        raise AttributeError(f"graphc.array_api.fft has no {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted([*self._SAME, "fftfreq", "rfftfreq"])

    @staticmethod
    def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Value:
        """See ``gx.fft.fftfreq``."""
        _check_device(device)
        return transforms.fftfreq(n, d, dtype=dtype)

    @staticmethod
    def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Value:
        """See ``gx.fft.rfftfreq``."""
        _check_device(device)
        return transforms.rfftfreq(n, d, dtype=dtype)


fft = Fourier()

# --- dtypes --------------------------------------------------------------------------------------

_KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (bool_,),
    "signed integer": tuple(d for d in INTEGERS if d.is_signed),
    "unsigned integer": tuple(d for d in INTEGERS if not d.is_signed),
    "integral": INTEGERS,
    "real floating": COMPUTED_FLOATS,
    "complex floating": COMPLEX,
    "numeric": (*INTEGERS, *COMPUTED_FLOATS, *COMPLEX),
}


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """What ``finfo`` says of a dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """What ``iinfo`` says of a dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(given: Any) -> DType:
    return given.dtype if isinstance(given, Value) else as_dtype(given)


def finfo(type: Any, /) -> FloatInfo:
    """The range and the precision of a float dtype, of complex parts, or of a value.

    Raises:
        DTypeError: for other dtypes.
    """
    element = _dtype_of(type).part
    if not element.is_float:
        raise DTypeError(f"finfo of {element}", where=caller(), hint="iinfo is for integers")
    format_ = element.format
    top = format_.largest
    least = format_.smallest_normal
    return FloatInfo(element.bits, element.epsilon, top, -top, least, element)


def iinfo(type: Any, /) -> IntegerInfo:
    """The range of an integer dtype, or that of a value.

    Raises:
        DTypeError: for other dtypes.
    """
    element = _dtype_of(type)
    if not element.is_integer:
        raise DTypeError(f"iinfo of {element}", where=caller(), hint="finfo is for floats")
    return IntegerInfo(element.width, int(element.greatest), int(element.least), element)


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is another one, or of a kind such as "integral", or one of several of both.

    Raises:
        DTypeError: for kinds that there are not.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    unknown = [k for k in kinds if isinstance(k, str) and k not in _KINDS]
    if unknown:
        raise DTypeError(
            f"{unknown[0]!r} is no kind of dtypes", where=caller(), hint=f"kinds are {[*_KINDS]}"
        )
    element = as_dtype(dtype)
    # the standard's own ``any`` may be here by now
    return builtins.any(
        element in _KINDS[each] if isinstance(each, str) else element is as_dtype(each)
        for each in kinds
    )


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether promotion leads from one dtype, or that of a value, to another."""
    target = as_dtype(to)
    return promote(_dtype_of(from_), target) is target


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that values, dtypes and Python's numbers promote to.

    Raises:
        DTypeError: for nothing, and for what has no dtype.
    """
    scalars = (builtins.bool, int, float, complex)
    numbers = [item for item in arrays_and_dtypes if isinstance(item, scalars)]
    strong = [
        _dtype_of(item)
        for item in arrays_and_dtypes
        if not isinstance(item, scalars)
    ]
    if not arrays_and_dtypes:
        raise DTypeError("result_type of nothing", where=caller())
    if not strong:
        if builtins.any(isinstance(number, complex) for number in numbers):
            return complex64
        if builtins.any(isinstance(number, float) for number in numbers):
            return float32
        return bool_ if builtins.all(isinstance(n, builtins.bool) for n in numbers) else int64
    result = promote(*strong)
    for number in numbers:
        result = promote(result, promote_weak(result, number))
    return result


# --- what there is -------------------------------------------------------------------------------


class Info:
    """What ``__array_namespace_info__`` says."""

    def capabilities(self) -> dict[str, Any]:
        """Shapes may depend on numbers where their size is given, and there is no limit of axes."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 32}

    def default_device(self) -> str:
        """The only device there is."""
        return "cpu"

    def devices(self) -> list[str]:
        """The only device there is."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """float32, complex64 and int64."""
        _check_device(device)
        return {
            "real floating": float32, "complex floating": complex64, "integral": int64,
            "indexing": int64,
        }  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """All dtypes, or those of a kind or of several, by name."""
        _check_device(device)
        chosen = [element for element in _DTYPES if kind is None or isdtype(element, kind)]
        return {element.name: element for element in chosen}


def __array_namespace_info__() -> Info:
    """What dtypes, devices and capabilities there are."""
    return Info()


_OWN = frozenset({
    "Any", "Callable", "DType", "DTypeError", "FloatInfo", "Fourier", "Info", "IntegerInfo",
    "Linalg", "TYPE_CHECKING", "UnsupportedError", "Value", "COMPLEX", "COMPUTED",
    "COMPUTED_FLOATS", "INTEGERS", "annotations", "as_dtype", "as_value", "bool_", "builtins",
    "caller", "converted", "dataclass", "functions", "math", "np", "promote", "promote_weak",
    "shown", "surface_names", "transforms",
})  # fmt: skip
"""What is no part of the standard here."""
