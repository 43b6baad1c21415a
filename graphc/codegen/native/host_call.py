"""From the loop over steps into Python: a native function that calls an object.

It takes the interpreter's lock, which a run gives up, for as long as the call takes. Invariant:
what Python raises stays raised, wherever it comes: it is fetched in native code, since an error
that arises before the first line of a function, as of a handler of signals, no ``try`` in Python
could catch.
"""

from __future__ import annotations

from graphc.base.target import Target
from graphc.codegen.llvm.module import Module, ModuleEmitter
from graphc.codegen.llvm.routine import Routine, Table
from graphc.codegen.llvm.types import I32, I64, PTR
from graphc.plan.abi import HOST_ERROR

HOST_CALL = "graphc_host_call"
"""``void (buffers, sizes, status, callable, functions)``: calls a Python object with the addresses
of buffers and sizes, as ints. Where it raises, the status gets ``HOST_ERROR`` and the three objects
of an error, which belong to whoever reads them. The functions are those of ``HOST_FUNCTIONS``."""

HOST_FUNCTIONS = (
    "PyGILState_Ensure", "PyGILState_Release", "PyLong_FromVoidPtr", "PyObject_Vectorcall",
    "PyErr_Fetch", "Py_DecRef",
)  # fmt: skip
"""Functions of CPython that it calls, in the order of the table."""


def emit_host_call(target: Target) -> Module:
    """The module of the function."""
    module = ModuleEmitter(target)
    parameters = dict.fromkeys(("buffers", "sizes", "status"), PTR)
    parameters |= {"callable": I64, "functions": I64}
    r = Routine(module, HOST_CALL, parameters, linkage="")
    buffers, sizes, status, called, functions = r.parameters
    table = Table(r.address_of(functions), PTR)
    ensure, release, as_int, call, fetch, drop = (table[n] for n in range(len(HOST_FUNCTIONS)))
    arguments, error = Table(r.room(2).at(0), PTR), Table(status).at(1)
    state = r.narrow(r.call_at(ensure, I32))
    for place, address in enumerate((buffers, sizes)):
        arguments[place] = r.call_at(as_int, PTR, address)
    null = r.const(0, PTR)
    made = r.call_at(call, PTR, r.address_of(called), arguments.at(0), 2, null)
    with r.when(made.is_null):
        Table(status)[0] = HOST_ERROR
        places = [Table(error).at(place) for place in range(3)]
        r.call_at(fetch, None, *places)
    for item in (made, arguments[0], arguments[1]):
        with r.when(~item.is_null):
            r.call_at(drop, None, item)
    r.call_at(release, None, state)
    r.finish()
    return module.module()


__all__ = ["HOST_CALL", "HOST_FUNCTIONS", "emit_host_call"]
