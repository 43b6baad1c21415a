"""Non-temporal stores: for results so large that they leave the caches before they are used.

An ordinary store to a line that misses every cache waits for the read for ownership of that line. A
non-temporal store reads nothing, which saves a third of the traffic of a kernel that reads one
array and writes another. It needs whole aligned cache lines, so vector loops start at the first
element of a line. Values are the same either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg, is_literal
from graphc.codegen.llvm.prefetch import LINE
from graphc.codegen.llvm.types import I1, I64
from graphc.ir.dims.expressions import Dim, product
from graphc.kernel.ir import Block, Buffer, Kernel, Size, Statement, Var
from graphc.kernel.schedule.streaming import Streaming
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import accesses_in


def is_always(condition: Reg | None) -> bool:
    """Whether a condition under which stores are non-temporal is known to hold."""
    return condition is not None and condition.value is not None


def streamed_buffers(k: KernelScope, kernel: Kernel) -> dict[Buffer, Reg]:
    """The outputs that are written past the caches, and under which condition; call it at entry."""
    least = {
        buffer: schedule.array
        for store, schedule in kernel.schedule.items()
        if isinstance(schedule, Streaming)
        for buffer in store.writes
    }
    result: dict[Buffer, Reg] = {}
    for buffer in kernel.buffers if least else ():
        if buffer in least:
            size = product((*buffer.type.shape, buffer.type.dtype.bytes))
            condition = at_least(k, size, least[buffer])
            if condition is not None:
                result[buffer] = condition
    return result


def _streaming(
    k: KernelScope, body: Sequence[Statement], index: Var
) -> Iterator[tuple[Access, Streaming, int]]:
    """The stores of a loop's body that are non-temporal where their arrays are large, with the
    bytes that an iteration writes; the first one of those that fill a period."""
    for access in accesses_in(body):
        found = k.kernel.schedule.get(access)
        if isinstance(found, Streaming) and access.buffer in k.streamed:
            count = _neighbours(k, access, index)
            if count:
                yield access, found, count * access.buffer.type.dtype.bytes


def _neighbours(k: KernelScope, store: Access, index: Var) -> int:
    """How many elements each iteration writes from the place of a store on, if iterations write
    neighbours; else 0."""
    stride, period = k.periods.along(store, index)
    if period is None:
        return int(stride == 1)
    return stride if len(period.members) == stride and period.offset(store) == 0 else 0


def at_least(k: KernelScope, size: Dim, bound: int) -> Reg | None:
    """Whether a size reaches a bound; None if it is known not to."""
    if isinstance(size, int):
        return k.e.const(True, I1) if size >= bound else None
    return k.dim(size) >= bound


def both(k: KernelScope, a: Reg, b: Reg) -> Reg:
    """The conjunction of two conditions."""
    if is_always(a):
        return b
    return a if is_always(b) else a & b


def start_of_lines(
    k: KernelScope,
    body: Sequence[Statement],
    index: Var,
    extent: Size,
    lower: Reg,
    *,
    short: bool = False,
) -> Reg | None:
    """Where a vector loop from ``lower`` on starts so that its streamed stores write whole lines.

    Notes in ``k.streaming`` under which condition each store of the body is one; None, with nothing
    noted, if there is none. A loop whose extent is a scalar runs over a block, which is read again
    soon. With ``short``, rows of any length are written so if they begin with a line: then nothing
    is lost at their start.
    """
    if isinstance(extent, Var):
        return None
    e, start = k.e, None
    for store, schedule, size in _streaming(k, body, index):
        long = at_least(k, product((extent, size)), schedule.row)
        if long is None and not short:
            continue
        address = address_at(k, body, index, lower, store)
        if address is None:
            continue
        if short and not is_always(long):
            begins = _begins_line(e, address)
            long = begins if long is None else long | begins
        assert long is not None, "short rows are left out, or begin with a line"
        condition = both(k, k.streamed[store.buffer], long)
        if start is None:
            start = _to_line(e, address, size)
            if size != store.buffer.type.dtype.bytes:
                place = address + start * size
                condition = both(k, condition, _begins_line(e, place))
            if not is_always(condition):
                start = e.select(condition, start, 0)
        else:
            place = address + start * size
            condition = both(k, condition, _begins_line(e, place))
        k.streaming[store] = condition
    return start if start is None or is_literal(lower, 0) else lower + start


def start_of_groups(k: KernelScope, lower: Reg, start: Reg, step: int) -> Reg:
    """``start``, at which cache lines begin, if it is a multiple of ``step``; else ``lower``,
    which always is.

    Then no store is non-temporal. Arrays begin with a multiple of 16 bytes wherever they come from,
    which is such a start.
    """
    fits = (start & (step - 1)).equals(0)
    for store, condition in k.streaming.items():
        k.streaming[store] = both(k, condition, fits)
    return k.e.select(fits, start, lower)


def first_line(k: KernelScope, row: Block, room: int) -> Reg:
    """The first column of a row from which on its first streamed store writes whole lines.

    It is 0 if there is no such store, or that column is not among the first ``room``.
    """
    e, none = k.e, k.e.const(0)
    for store, _, size in _streaming(k, row.body if room else (), row.index):
        address = address_at(k, row.body, row.index, none, store)
        if address is not None:
            gap = _to_line(e, address, size)
            return e.select(gap <= room, gap, none)
    return none


def mark_whole_rows(k: KernelScope, row: Block, start: Reg) -> None:
    """Notes which stores of a vector loop are streamed: those that begin with a line at a column.

    Nothing is lost at the ends of such rows, however short they are.
    """
    for store, _, _ in _streaming(k, row.body, row.index):
        assert not isinstance(row.extent, Var), "rows of a known number of columns"
        address = address_at(k, row.body, row.index, start, store)
        if address is not None:
            k.streaming[store] = both(k, k.streamed[store.buffer], _begins_line(k.e, address))


def _to_line(e: FunctionEmitter, address: Reg, size: int) -> Reg:
    """How many elements lie before the next line."""
    gap = (0 - address) & (LINE - 1)
    return gap.udiv(size)


def _begins_line(e: FunctionEmitter, address: Reg) -> Reg:
    return (address & (LINE - 1)).equals(0)


def address_at(
    k: KernelScope, body: Sequence[Statement], index: Var, value: Reg, access: Access
) -> Reg | None:
    """Where a load or store of the body is at a value of its loop's index, as an integer."""
    e, size = k.e, access.buffer.type.dtype.bytes
    first = element_at(k, body, index, value, access.index)
    if first is None:
        return None
    base = e.assign(I64, f"ptrtoint {k.pointer(access.buffer)} to i64")
    return base + first * size


def element_at(
    k: KernelScope, body: Sequence[Statement], index: Var, value: Reg, wanted: Var
) -> Reg | None:
    """A scalar of the body at a value of its loop's index, if only indices lead to it."""
    definitions = {s.results[0]: s for s in body if s.is_arithmetic}
    others = {s.results[0] for s in body if s.is_scalar and not s.is_arithmetic}
    needed: set[Var] = set()
    stack = [wanted]
    while stack:
        var = stack.pop()
        if var is index or var in needed:
            continue
        statement = definitions.get(var)
        if statement is None:
            if var in others or k.uniform(var) is None:
                return None
            continue
        if var.dtype.is_float:
            return None
        needed.add(var)
        stack.extend(statement.operands)
    k.bind(index, value)
    k.statements([s for var, s in definitions.items() if var in needed])
    return k.uniform(wanted)


def emit_contiguous(
    e: FunctionEmitter, value: Reg, pointer: Reg, align: int, streams: Reg | None
) -> None:
    """A contiguous vector store, non-temporal where the condition of the stream holds."""
    lines = min(LINE, value.type.lanes * align)
    if streams is None:
        e.store(value, pointer, align)
    elif is_always(streams):
        e.store_streamed(value, pointer, lines)
    else:
        past, through, done = e.label("past"), e.label("through"), e.label("done")
        e.branch(streams, past, through)
        e.start(past)
        e.store_streamed(value, pointer, lines)
        e.jump(done)
        e.start(through)
        e.store(value, pointer, align)
        e.jump(done)
        e.start(done)


def finish_stores(k: KernelScope) -> None:
    """Orders streamed stores before all that follows the kernel."""
    if not k.streamed:
        return
    k.module.declare("llvm.x86.sse.sfence", "void", "")
    condition = next(iter(k.streamed.values()))
    for other in k.streamed.values():
        if not is_always(condition):
            condition = other if is_always(other) else condition | other
    if is_always(condition):
        k.e.call("llvm.x86.sse.sfence", None)
        return
    with k.e.when(condition):
        k.e.call("llvm.x86.sse.sfence", None)
