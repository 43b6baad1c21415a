"""Python functions of a plan, for the native loop over steps.

A step has the address of a native function (``graphc.codegen.native.host_call``), the object that
it calls, and the functions of CPython that this takes. What a function raises is in the status of
the run when the loop has come back, and is raised there.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial
from typing import NamedTuple, NoReturn

import numpy as np

from graphc.base.errors import GraphcError
from graphc.ir.attributes import Array
from graphc.plan.ir import HostCall, Plan
from graphc.runtime.address import address_of
from graphc.runtime.interrupt import in_python


class _Native(NamedTuple):
    """What calls Python from native code.

    Attributes:
        address: of the native function.
        functions: the addresses of CPython's functions that it calls.
        kept: keeps it loaded.
    """

    address: int
    functions: ctypes.Array[ctypes.c_uint64]
    kept: object


@cache
def _native() -> _Native:
    from graphc.base.target import host
    from graphc.codegen.native.host_call import HOST_CALL, HOST_FUNCTIONS, emit_host_call
    from graphc.runtime.jit import load

    library = load(emit_host_call(host()).text, (HOST_CALL,))
    pointers = (getattr(ctypes.pythonapi, name) for name in HOST_FUNCTIONS)
    found = [ctypes.cast(pointer, ctypes.c_void_p).value or 0 for pointer in pointers]
    table = (ctypes.c_uint64 * len(found))(*found)
    return _Native(library.addresses[HOST_CALL], table, library)


class HostCalls:
    """What a plan's steps call.

    Attributes:
        rows: for each step that calls Python, in the order of the plan, what the loop reads: the
            native function, the object, the functions of CPython.
    """

    def __init__(self, plan: Plan) -> None:
        self._called = [_Call(plan, step) for step in plan.host_calls]
        self.rows: list[tuple[int, int, int]] = []
        if self._called:
            native = _native()
            functions = ctypes.addressof(native.functions)
            self.rows = [(native.address, id(each), functions) for each in self._called]


def raise_failure(step: HostCall, error: tuple[int, int, int]) -> NoReturn:
    """Raises the error that a status holds: its type, value and traceback, which it owns.

    An error of graphc gets the user's line.
    """
    try:
        # a function of CPython that raises, as far as ctypes sees
        ctypes.pythonapi.PyErr_Restore(*map(ctypes.c_void_p, error))
    except GraphcError as raised:
        raised.where = raised.where or step.where
        raise
    raise AssertionError("a call of Python failed without an error")


class _Call:
    """A step, worked out as far as its sizes allow; native code calls it."""

    def __init__(self, plan: Plan, step: HostCall) -> None:
        self.function = step.function
        types = [plan.slots[slot].type for slot in (*step.given, *step.made)]
        self._given, self._ordered = len(step.given), step.ordered
        self._dtypes = [type_.dtype for type_ in types]
        self._ranks = [type_.rank for type_ in types]
        self._pointers = ctypes.c_uint64 * (len(step.arguments) + len(step.results))
        self._sizes = ctypes.c_int64 * sum(self._ranks)

    def __call__(self, buffers: int, sizes: int) -> None:
        in_python(partial(self.run, buffers, sizes))

    def run(self, buffers: int, sizes: int) -> None:
        """Calls the function with copies of what it gets, and copies what it gives."""
        pointers = list(self._pointers.from_address(buffers))
        dims = tuple(self._sizes.from_address(sizes)) if self._ranks else ()
        shapes, place = [], 0
        for rank in self._ranks:
            shapes.append(dims[place : place + rank])
            place += rank
        if self._ordered:
            del pointers[0]
            ctypes.c_bool.from_address(pointers.pop(self._given)).value = True
        count = self._given
        given: list[Array] = []
        for dtype, shape, pointer in zip(self._dtypes, shapes, pointers[:count], strict=False):
            array = np.empty(shape, dtype.numpy)
            ctypes.memmove(address_of(array), pointer, array.nbytes)
            given.append(array)
        made = self.function(given, self._dtypes[count:], shapes[count:])
        for array, pointer in zip(made, pointers[count:], strict=True):
            packed = np.ascontiguousarray(array)
            ctypes.memmove(pointer, address_of(packed), packed.nbytes)


__all__ = ["HostCalls", "raise_failure"]
