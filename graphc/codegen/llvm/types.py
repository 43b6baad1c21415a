"""LLVM's first-class types, and how their constants are spelled."""

from __future__ import annotations

import struct
from functools import cache

from graphc.ir.dtypes import float16, float32, float64
from graphc.ir.float_formats import FloatFormat

_FLOATS = {"half": float16.format, "float": float32.format, "double": float64.format}


class LType:
    """An LLVM first-class type: an element type and a number of lanes (1 is a scalar).

    ``ltype`` gives the one object there is of each, so they compare by identity.

    Attributes:
        text: its spelling.
        is_float: whether elements are half, float or double.
        bits: width of one element.
        suffix: how intrinsics spell the type: f32, v16f32, i64.
        truth: the type of what a comparison of two such operands gives.
    """

    __slots__ = ("bits", "element", "is_float", "lanes", "suffix", "text", "truth")

    def __init__(self, element: str, lanes: int) -> None:
        self.element = element
        self.lanes = lanes
        self.text = element if lanes == 1 else f"<{lanes} x {element}>"
        self.is_float = element in _FLOATS
        if self.is_float:
            self.bits = self.format.bits
        else:
            self.bits = 64 if element == "ptr" else int(element[1:])
        base = f"{'f' if self.is_float else 'i'}{self.bits}"
        self.suffix = base if lanes == 1 else f"v{lanes}{base}"
        self.truth: LType = self if element == "i1" else ltype("i1", lanes)

    @property
    def format(self) -> FloatFormat:
        """How float elements are stored."""
        return _FLOATS[self.element]

    def of(self, element: str) -> LType:
        """The same lanes of another element type."""
        return ltype(element, self.lanes)

    def __str__(self) -> str:
        return self.text


def ltype(element: str, lanes: int = 1) -> LType:
    """The (shared) type object."""
    return _shared_type(element, lanes)


@cache
def _shared_type(element: str, lanes: int) -> LType:
    # a cache tells a default from the same value given
    return LType(element, lanes)


I1, I8, I32, I64, PTR = (ltype(name) for name in ("i1", "i8", "i32", "i64", "ptr"))
F32, F64 = ltype("float"), ltype("double")

POINTER_ALIGN = 4
"""Alignment of pointers in memory on every target; those of wasm32 take four bytes."""


def float_literal(value: float, bits: int) -> str:
    """LLVM's hexadecimal spelling; a float32 is written as the double of the same value.

    NaN keeps its sign and payload where ``value`` is a Python float of the right bits.
    """
    if bits == 32:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def constant_text(value: bool | int | float, type_: LType) -> str:
    """A number as LLVM spells it, in all lanes of a type; 0 as an address is null."""
    if type_.is_float:
        text = float_literal(float(value), type_.bits)
    elif type_.element == "i1":
        text = "true" if value else "false"
    elif type_.element == "ptr":
        assert value == 0, "the only address that is known is null"
        text = "null"
    else:
        text = str(int(value))
    return text if type_.lanes == 1 else f"splat ({type_.element} {text})"
