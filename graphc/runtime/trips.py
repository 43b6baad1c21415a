"""Several runs of a program in a row: where their operands lie, and the native loop over them."""

from __future__ import annotations

import ctypes
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphc.base.target import host
from graphc.ir.attributes import Array
from graphc.plan.abi import TRIPS
from graphc.runtime.address import address_of

Addresses: TypeAlias = NDArray[np.int64] | int
"""Where an operand lies: one address for each run, or one for all."""


class Stacked(NamedTuple):
    """A feed or a result of several runs.

    Attributes:
        array: packed; the runs are its first axis if it ``varies``, else it is that of all.
        varies: whether each run has one of its own.
    """

    array: Array
    varies: bool = True

    def at(self, run: int) -> Array:
        """That of one run."""
        return self.array[run, ...] if self.varies else self.array

    def addresses(self, first: int, count: int) -> Addresses:
        """Where so many runs have it."""
        start = address_of(self.array)
        if not self.varies:
            return start
        size = self.array.nbytes // len(self.array)
        return start + size * np.arange(first, first + count)


_POINTER, _WORD = ctypes.c_void_p, ctypes.c_int64
_TRIPS = ctypes.CFUNCTYPE(
    _WORD, _POINTER, _POINTER, _WORD, *[_POINTER] * 4, _WORD, _POINTER, _POINTER, _WORD, _POINTER,
    _WORD, _POINTER,
)  # fmt: skip


@cache
def native_trips() -> ctypes._CFunctionType:
    """The function of ``graphc.codegen.native.trips``, compiled when it is first needed."""
    from graphc.codegen.native.trips import emit_trips
    from graphc.runtime.jit import compile_object, key_of, shared_library

    text = emit_trips(host()).text
    library = shared_library((TRIPS,), key_of(text), host(), partial(compile_object, text))
    assert library is not None, "what is compiled is there"
    return _TRIPS(library.addresses[TRIPS])


__all__ = ["Addresses", "Stacked", "native_trips"]
