"""Where an array's elements start, and memory that starts on a cache line.

CPython's object header is followed, in an array object, by the pointer to the elements. Reading it
there takes a tenth of the time of the documented way, which builds a dict and a tuple; a run asks
for every feed, variable and result. Invariant: the direct way is taken only if, when this module is
loaded, it gave the documented way's answer for arrays of several kinds.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np

from graphc.base.target import CACHE_LINE
from graphc.ir.attributes import Array

_HEADER = object.__basicsize__
"""Bytes of an object before what its type adds; larger in free-threaded builds."""

_Word = ctypes.c_size_t
_word_at = _Word.from_address


def documented_address(array: Array) -> int:
    """The address by NumPy's array interface; right with every interpreter."""
    address: int = array.__array_interface__["data"][0]
    return address


def direct_address(array: Array) -> int:
    """The address as the array object has it; only where ``can_read_directly``."""
    return _word_at(id(array) + _HEADER).value


def can_read_directly(direct: Callable[[Array], int] = direct_address) -> bool:
    """Whether the direct way gives right addresses with this interpreter and this NumPy."""
    # In other interpreters an id is no address: nothing may be read there.
    if sys.implementation.name != "cpython":
        return False
    if np.ndarray.__basicsize__ < _HEADER + ctypes.sizeof(_Word):
        return False
    whole = np.zeros((4, 6), np.float32)
    frozen = np.arange(3)
    frozen.flags.writeable = False
    samples = (whole, whole[1:, ::-2], whole.T, np.zeros((), np.int8), np.zeros((0, 3)), frozen)
    return all(direct(array) == documented_address(array) for array in samples)


address_of: Callable[[Array], int] = direct_address if can_read_directly() else documented_address
"""Where an array's elements start; the array must stay alive while the address is used."""


def aligned_empty(size: int) -> Array:
    """Uninitialised bytes that start on a cache line; NumPy asks for huge pages where they pay."""
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -address_of(raw) % CACHE_LINE
    return raw[start : start + size]
