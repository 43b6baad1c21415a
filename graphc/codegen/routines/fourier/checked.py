"""Whether a table is one for rows of a length, asked before anything that it says is used.

A table is an operand: a file or a feed may have put anything there. Its head must name this length
and a plan that covers it, and what that plan takes must be within the table and the scratch. Roots
steer no access, so they are taken as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Cell
from graphc.codegen.llvm.types import I64
from graphc.codegen.routines.fourier.columns import Vectors
from graphc.kernel.routines.fourier_plan import (
    HEAD,
    LOADING,
    ODD_AT,
    ODD_PARTS,
    PARTS,
    PARTS_AT,
    PIECE_BITS,
    POWER_AT,
    RADICES,
    STRAIGHT,
    WIDEST,
    fixed_room,
)

_NONE = 1 << PIECE_BITS
"""What no element of a head is."""


@dataclass(frozen=True, slots=True)
class Good:
    """The length of the convolution for rows of a length: ``odd << power``."""

    odd: Reg
    power: Reg
    length: Reg


def good_length(f: Builder, length: Reg) -> Good:
    """The least of the lengths that convolutions have."""
    least = length * 2 - 1
    odd, power, best = f.const(0), f.const(0), f.const(1 << 62)
    for each in ODD_PARTS:
        shift = f.most(f.bit_length((least + (each - 1)).udiv(each) - 1), 4)
        size = f.const(each) << shift
        better = size < best
        best = f.select(better, size, best)
        odd = f.select(better, f.const(each), odd)
        power = f.select(better, shift, power)
    return Good(odd, power, best)


def emit_checked(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (table, length, size, room): whether the table is one for complex rows of the length.

    It has ``size`` elements, and the scratch ``room``; both may be less than none.
    """
    f = Builder(module, name, "*table length size room", result=I64)
    table, length, size, room = f.given("table", "length", "size", "room")
    _refuse(f, (length < 1) | (size < HEAD))
    low, high = (_number(f, v, table, place) for place in (0, 1))
    _refuse(f, low.differs(length & (_NONE - 1)) | high.differs(length >> PIECE_BITS))
    parts, odd, power = (_number(f, v, table, at) for at in (PARTS_AT, ODD_AT, POWER_AT))
    is_direct, found = odd.equals(0), Cell(length)
    with f.when(~is_direct):
        good = good_length(f, length)
        _refuse(f, odd.differs(good.odd) | power.differs(good.power))
        found.value = good.length
    whole = found.value
    _refuse(f, ~_is_one_of(f, parts, [n for n in PARTS if n <= v.lanes]))
    columns = whole.udiv(parts)
    blocks = (columns + (v.lanes - 1)).udiv(v.lanes)
    more = f.select(is_direct, 0, whole * 2)
    taken = columns * 2 + parts * (blocks + v.lanes) * 2 + more + HEAD
    taken = taken + f.select(is_direct, 0, length * 2)
    scratch = f.most(columns, v.lanes) * (4 * v.lanes) + more * 2 + fixed_room(v.dtype)
    _refuse(f, (columns * parts).differs(whole) | (taken > size) | (scratch > room))
    first = _number(f, v, table, RADICES)
    loads = _is_one_of(f, first, LOADING) & parts.equals(v.lanes)
    _refuse(f, ~(loads | first.equals(1)))
    covered, place = Cell(first), Cell(f.const(RADICES + 1))
    with f.repeat() as leave_if:
        leave_if((covered.value >= columns) | (place.value >= HEAD))
        radix = _number(f, v, table, place.value)
        is_prime = (radix & 1).equals(1) & (radix > max(STRAIGHT)) & (radix <= parts * WIDEST)
        _refuse(f, ~(_is_one_of(f, radix, STRAIGHT) | is_prime))
        covered.value = covered.value * radix
        place.value = place.value + 1
    f.finish(f.convert("zext", covered.value.equals(columns), "i64"))
    return name


def _refuse(f: Builder, condition: Reg) -> None:
    with f.when(condition):
        f.give(0)


def _number(f: Builder, v: Vectors, table: Reg, place: Reg | int) -> Reg:
    """An element of a head; where it is no integer of as many bits as a piece has, the next one."""
    value = f.load(v.at(f, table, place), v.element, v.dtype.bytes)
    zero = f.const(0.0, v.element)
    # fptosi of what is out of range is poison
    is_fit = (value >= 0.0) & (value < float(_NONE))
    bounded = f.select(is_fit, value, zero)
    number = f.convert("fptosi", bounded, "i64")
    is_whole = f.convert("sitofp", number, v.element.text).equals(bounded)
    return f.select(is_fit & is_whole, number, _NONE)


def _is_one_of(f: Builder, number: Reg, numbers: Iterable[int]) -> Reg:
    """Whether a number that is not negative is one of some that are below 63."""
    members = sum(1 << each for each in numbers)
    return ((f.const(members) >> f.least(number, 63)) & 1).equals(1)


__all__ = ["Good", "emit_checked", "good_length"]
