"""Python functions of a plan as native functions, which the loop over steps calls.

A native function takes the interpreter's lock, which a run gives up, for as long as the function
runs. Invariant: nothing is lost of what a function raises. It is kept until the loop has come back,
which ends there; an exception that comes between, as Ctrl-C may, leaves the status filled in, so
the run fails too.
"""

from __future__ import annotations

import ctypes
from functools import partial

import numpy as np

from graphc.base.errors import GraphcError
from graphc.ir.attributes import Array
from graphc.plan.abi import HOST_ERROR
from graphc.plan.ir import HostCall, Plan
from graphc.runtime.address import address_of
from graphc.runtime.interrupt import in_python

_NATIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class HostCalls:
    """What calls the Python functions of a plan.

    Attributes:
        addresses: of the native function of each step, in the order of the plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._failures: dict[int, BaseException] = {}
        self._kept = [_NATIVE(partial(_call, self._failures, _Call(plan, step)))
                      for step in plan.host_calls]
        self.addresses = [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in self._kept]

    def failure(self, status: int, step: HostCall) -> BaseException:
        """What ended the run of a status at a step."""
        error = self._failures.pop(status, None)
        if error is None:
            # it came before the function did, or behind it: only a signal does
            return KeyboardInterrupt()
        if isinstance(error, GraphcError):
            error.where = error.where or step.where
        return error


class _Call:
    """A step, worked out as far as its sizes allow."""

    def __init__(self, plan: Plan, step: HostCall) -> None:
        self.function = step.function
        types = [plan.slots[slot].type for slot in (*step.given, *step.made)]
        self._given, self._ordered = len(step.given), step.ordered
        self._dtypes = [type_.dtype for type_ in types]
        self._ranks = [type_.rank for type_ in types]
        self._pointers = ctypes.c_uint64 * (len(step.arguments) + len(step.results))
        self._sizes = ctypes.c_int64 * sum(self._ranks)

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


def _call(
    failures: dict[int, BaseException], step: _Call, buffers: int, sizes: int, status: int
) -> None:
    """The native function: leaves the status filled in where it fails."""
    try:
        in_python(partial(step.run, buffers, sizes))
        ctypes.c_int64.from_address(status).value = 0
    except BaseException as error:
        failures[status] = error
        # a signal may have come behind the last line
        ctypes.c_int64.from_address(status).value = HOST_ERROR


__all__ = ["HostCalls"]
