"""One kernel to one LLVM function.

    void name(ptr buffers, ptr dims, ptr status, i64 begin, i64 end, i64 seat)

``buffers`` is an array of pointers in the kernel's order, ``dims`` the int64 values of
``kernel.sizes`` and ``status`` four int64s (code, site, value, bound) of which a failing check
fills in the first to happen. A kernel that is split runs the iterations from ``begin`` to ``end``,
what follows them being one more, and of each scratch buffer uses the copy of its ``seat``; others
run everything.

The kernel's schedule says how loops, loads and stores are carried out; what it does not mention is
emitted in the plainest way.
"""

from __future__ import annotations

from graphc.base.target import CACHE_LINE, Target
from graphc.codegen.kernels.conditional_reduction import emit_iteration, emit_reduce
from graphc.codegen.kernels.loads_stores import EMITTERS as ACCESSES
from graphc.codegen.kernels.loops import emit_plain_loop
from graphc.codegen.kernels.matmul_calls import EMITTERS as PRODUCTS
from graphc.codegen.kernels.nontemporal_stores import finish_stores, streamed_buffers
from graphc.codegen.kernels.routine_calls import EMITTERS as ROUTINES
from graphc.codegen.kernels.scalars import EMITTERS as SCALARS
from graphc.codegen.kernels.scope import Emitters, KernelScope
from graphc.codegen.kernels.table import loop_emitters
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I64, POINTER_ALIGN, PTR
from graphc.ir.dims.expressions import ceil_div
from graphc.kernel.ir import Kernel
from graphc.kernel.statements.blocks import Loop, Reduce

ATTRIBUTES = "nounwind alignstack(64)"
"""Of kernels. What registers have no room for lies on the stack, and so does all that glue saves
around calls: each vector in one line of the cache. Else one now and then lies across the end of
a page, by where the system puts the stack: a chain of functions took five times as long in one
process of twenty."""

_PARAMETERS = {
    "buffers": PTR, "dims": PTR, "status": PTR, "begin": I64, "end": I64, "seat": I64,
}  # fmt: skip


def _emit_loop(k: KernelScope, statement: Loop) -> None:
    schedule = k.kernel.schedule.get(statement) if k.lanes == 1 else None
    if schedule is None:
        emit_plain_loop(k, statement)
    else:
        loop_emitters()[type(schedule)](k, statement, schedule)


EMITTERS = Emitters(
    {
        **SCALARS,
        **ACCESSES,
        **PRODUCTS,
        **ROUTINES,
        Loop: _emit_loop,
        Reduce: emit_reduce,
    },
    emit_iteration,
)


def emit_kernel(module: ModuleEmitter, kernel: Kernel, symbol: str, target: Target) -> None:
    """Defines a kernel's function in a module, as the kernel's schedule says."""
    e = FunctionEmitter(
        module, symbol, _PARAMETERS, attributes=ATTRIBUTES, noalias=("buffers", "dims")
    )
    k = KernelScope(module, e, kernel, target, EMITTERS)
    for position, buffer in enumerate(kernel.buffers):
        slot = e.at(e.parameter("buffers"), "ptr", position)
        k.place(buffer, e.load(slot, PTR, POINTER_ALIGN))
    for position, part in enumerate(kernel.sizes):
        slot = e.at(e.parameter("dims"), "i64", position)
        k.dims.given[part] = e.load(slot, I64, 8)
    for buffer in kernel.buffers:
        if buffer.role == "scratch" and kernel.split is not None:
            lines = k.dim(ceil_div(buffer.type.bytes, CACHE_LINE) * CACHE_LINE)
            copy = lines * e.parameter("seat")
            k.place(buffer, e.at(k.pointer(buffer), "i8", copy))
    k.streamed = streamed_buffers(k, kernel)
    k.iteration(kernel.body)
    finish_stores(k)
    e.finish()


__all__ = ["EMITTERS", "emit_kernel"]
