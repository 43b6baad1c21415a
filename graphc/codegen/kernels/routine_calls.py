"""Calls of native routines with rows."""

from __future__ import annotations

from graphc.codegen.kernels.scalars import report
from graphc.codegen.kernels.scope import EmitterTable, KernelScope
from graphc.codegen.llvm.storage import storage
from graphc.codegen.llvm.types import I64, PTR
from graphc.codegen.routines import routine_library
from graphc.kernel.routines import routine
from graphc.kernel.statements.routines import Call
from graphc.plan.abi import INDEX_ERROR


def emit_call(k: KernelScope, statement: Call) -> None:
    """Calls the routine of the library that has it."""
    e = k.e
    for buffer in statement.writes:
        k.held.pop(buffer, None)
    dtypes = tuple([span.buffer.type.dtype for span in statement.spans])
    name, library = routine_library(statement.routine, dtypes, k.target)
    k.module.libraries[name] = library
    places = []
    for span in statement.spans:
        offset = k.uniform(span.offset)
        assert offset is not None, "calls stand in scalar loops"
        places.append(e.at(k.pointer(span.buffer), storage(span.buffer.type.dtype), offset))
    room = e.const(0, PTR) if statement.workspace is None else k.pointer(statement.workspace)
    operands = (*places, *[k.size(size) for size in statement.numbers], room)
    result = None if statement.site is None else I64
    types = ", ".join([str(operand.type) for operand in operands])
    k.module.declare(name, "void" if result is None else str(result), types)
    found = e.call(name, result, *operands)
    if statement.site is not None:
        with e.when(found.differs(0)):
            value = routine(statement.routine).reported(found)
            report(k, INDEX_ERROR, statement.site, value, operands[-2])


EMITTERS: EmitterTable = {Call: emit_call}
"""What emits calls of routines."""

__all__ = ["EMITTERS"]
