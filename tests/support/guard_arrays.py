"""Arrays that end where a page begins which nobody may read, or begin where such a page ends.

What lies beside an array in its own pages is filled with bytes that make a NaN of a float and -1 of
an integer; ``touched`` says whether somebody wrote there.
"""

from __future__ import annotations

import ctypes
import mmap
from math import prod
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Edge = Literal["begin", "end"]

_PAGE = mmap.PAGESIZE
_FILL = 0xFF
_LIBC = ctypes.CDLL(None, use_errno=True)


class GuardedArray:
    """An array in pages of its own between two that are neither readable nor writable."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, edge: Edge) -> None:
        element = np.dtype(dtype)
        count = prod(shape)
        used = count * element.itemsize
        # an empty array lies at the edge of a page that is there
        room = max(_PAGE, -(-used // _PAGE) * _PAGE)
        self._memory = mmap.mmap(-1, room + 2 * _PAGE)
        self._whole = np.frombuffer(self._memory, np.uint8)
        address = self._whole.ctypes.data
        self._whole[_PAGE : _PAGE + room] = _FILL
        for place in (address, address + _PAGE + room):
            if _LIBC.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(_PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        start = _PAGE if edge == "begin" else _PAGE + room - used
        self._beside = [self._whole[_PAGE:start], self._whole[start + used : _PAGE + room]]
        self.array: Array = np.frombuffer(self._memory, element, count, start).reshape(shape)

    @property
    def touched(self) -> bool:
        """Whether a byte beside the array is not what it was."""
        return any(bool(np.any(part != _FILL)) for part in self._beside)


def guarded(array: Array, edge: Edge) -> GuardedArray:
    """A copy of an array in guarded pages."""
    made = GuardedArray(array.shape, array.dtype, edge)
    made.array[...] = array
    return made


__all__ = ["Array", "Edge", "GuardedArray", "guarded"]
