"""Reading numbers of the text form: floats bit for bit, and the arrays of small constants."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.dtypes import DType, float64
from graphc.ir.float_formats import FloatFormat

_HEXADECIMAL = re.compile(r"-?0x[0-9a-f]")
_LONGEST = 400


def nan_bits(token: str, format_: FloatFormat) -> int | None:
    """The bits that ``nan:0x…`` gives, in a float of that format; None for other numbers.

    Raises:
        ValueError: if these bits are not a NaN of that format.
    """
    if not token.startswith("nan:0x"):
        return None
    bits = int(token[6:], 16) if len(token) <= 6 + 16 else 1 << 64
    if bits >> format_.bits or not format_.is_nan(bits):
        raise ValueError(f"{token} is not a NaN of {format_.bits} bits")
    return bits


def float_of(token: str) -> float:
    """A float64: hexadecimal, decimal, ``inf``, ``nan`` or ``nan:0x`` with its bits.

    Raises:
        ValueError: if the number is finite but too large, or ill-formed.
    """
    bits = nan_bits(token, float64.format)
    if bits is not None:
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    if len(token) > _LONGEST:
        raise ValueError("number too long")
    try:
        value = float.fromhex(token) if _HEXADECIMAL.match(token) else float(token)
    except OverflowError as error:
        raise ValueError(f"{token} is too large for a float") from error
    if math.isinf(value) and "inf" not in token:
        raise ValueError(f"{token} is too large for a float")
    return value


def _float_array(tokens: Sequence[str], dtype: DType) -> Array:
    array = np.empty(len(tokens), dtype.numpy)
    bits_view = array.view(f"u{dtype.bytes}")
    for place, token in enumerate(tokens):
        if token in ("True", "False"):
            raise ValueError(f"{token} is not a {dtype}")
        bits = nan_bits(token, dtype.format)
        if bits is not None:
            bits_view[place] = bits
            continue
        value = float_of(token)
        with np.errstate(over="ignore", under="ignore"):
            array[place] = value
        rounded = float(array[place])
        exact = _HEXADECIMAL.match(token) is not None
        if (exact and rounded != value) or (math.isinf(rounded) and not math.isinf(value)):
            raise ValueError(f"{token} is not a {dtype}")
    return array


def array_of(tokens: Sequence[str], dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array of these elements. Hexadecimal floats must fit exactly, decimal ones are rounded.

    Complex elements are two floats each.

    Raises:
        ValueError: for elements the dtype does not hold.
    """
    if dtype.is_complex:
        return _float_array(tokens, dtype.part).view(dtype.numpy).reshape(shape)
    if dtype.is_float:
        return _float_array(tokens, dtype).reshape(shape)
    values: list[bool | int] = []
    for token in tokens:
        if dtype.kind == "bool":
            if token not in ("True", "False"):
                raise ValueError(f"{token} is not a bool")
            values.append(token == "True")
            continue
        if not re.fullmatch(r"-?[0-9]{1,20}", token):
            raise ValueError(f"{token:.40} is not an {dtype}")
        number = int(token)
        if not dtype.least <= number <= dtype.greatest:
            raise ValueError(f"{token} is not an {dtype}")
        values.append(number)
    return np.array(values, dtype.numpy).reshape(shape)
