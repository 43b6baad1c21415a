"""Loads and stores of kernels: scalar, contiguous, reversed, gathered, guarded; and loads ahead.

bool is a byte in memory and an i1 in registers. Buffers are aligned to their element only.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.kernels.lane_values import Held, LinearLanes
from graphc.codegen.kernels.nontemporal_stores import emit_contiguous, is_always
from graphc.codegen.kernels.scope import EmitterTable, KernelScope
from graphc.codegen.kernels.strided_accesses import load_strided, store_strided, stride_of
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg, is_literal
from graphc.codegen.llvm.masked import every_lane, first_lanes, load_lanes, store_lanes
from graphc.codegen.llvm.prefetch import prefetch
from graphc.codegen.llvm.storage import from_storage, storage, to_storage
from graphc.codegen.llvm.types import PTR, ltype
from graphc.kernel.ir import Statement, Var
from graphc.kernel.schedule.prefetched import Prefetched
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import accesses_in, loads_in
from graphc.kernel.statements.memory import Load, Store


def _mask(k: KernelScope) -> Reg:
    """The lanes there are."""
    return every_lane(k.e, k.lanes) if k.mask is None else k.mask


def emit_load(k: KernelScope, statement: Load) -> None:
    """Binds what a load gives."""
    k.bind(statement.result, _loaded(k, statement))


def _loaded(k: KernelScope, statement: Load) -> Reg:
    """A load for the current lanes; uniform where the index and the condition are."""
    e, dtype = k.e, statement.buffer.type.dtype
    base, element = k.pointer(statement.buffer), storage(dtype)
    align = dtype.bytes
    tile = k.tiles.get(statement)
    if tile is not None:
        return from_storage(e, e.load(tile, ltype(element, k.lanes), align), dtype)
    index = k.binding(statement.index)
    scalar_index = k.uniform(statement.index)
    guarded = statement.condition is not None
    if scalar_index is not None and not guarded:
        pointer = e.at(base, element, scalar_index)
        return from_storage(e, e.load(pointer, ltype(element), align), dtype)
    if k.lanes == 1 or (scalar_index is not None and _all_uniform(k, statement)):
        return _guarded_scalar(k, statement, base, element)
    vector = ltype(element, k.lanes)
    held = k.held.get(statement.buffer)
    if held is not None and not guarded and held.is_at(base, index, k.mask):
        return held.value
    if not guarded and k.mask is None and isinstance(index, LinearLanes):
        if is_literal(index.stride, 1):
            pointer = e.at(base, element, index.base)
            return from_storage(e, e.load(pointer, vector, align), dtype)
        if is_literal(index.stride, -1):
            lowest = index.base + (1 - k.lanes)
            raw = e.load(e.at(base, element, lowest), vector, align)
            return from_storage(e, _reversed(e, raw), dtype)
        if index.stride in k.dims.zero_or_one:
            return from_storage(e, _broadcast_lanes(k, index, base, element), dtype)
    stride = stride_of(index)
    if stride and not guarded and (stride > 0 or k.mask is None):
        assert isinstance(index, LinearLanes)
        return from_storage(e, load_strided(k, statement, index, stride), dtype)
    mask, through = _mask(k), e.poison(vector)
    if k.mask is not None:
        # of one, functions have no rare case
        through = e.const(1, vector)
    if statement.condition is not None and statement.other is not None:
        condition = k.spread(statement.condition)
        mask = condition if k.mask is None else condition & k.mask
        through = to_storage(e, k.spread(statement.other), dtype)
    if isinstance(index, LinearLanes) and is_literal(index.stride, 1):
        place = e.at(base, element, index.base)
    else:
        place = _addresses(k, statement.index, base, element)
    return from_storage(e, load_lanes(e, place, vector, mask, through), dtype)


def _broadcast_lanes(k: KernelScope, index: LinearLanes, base: Reg, element: str) -> Reg:
    """Lanes of an array that is read in order, or one element of it in all of them: which, only
    the run tells. Much cheaper than a gather."""
    e = k.e
    moves = index.stride.equals(1)
    mask = e.select(moves, every_lane(e, k.lanes), first_lanes(e, 1, k.lanes))
    vector = ltype(element, k.lanes)
    place = e.at(base, element, index.base)
    lanes = load_lanes(e, place, vector, mask, e.poison(vector))
    alone = e.assign(ltype(element), f"extractelement {lanes}, i64 0")
    return e.select(moves, lanes, e.splat(alone, k.lanes))


def prefetch_streams(k: KernelScope, body: Sequence[Statement], width: int) -> None:
    """Prefetches for the iterations of a vector loop with non-temporal stores.

    Call it where the loop's lanes are bound.
    """
    conditions = [k.streaming[store] for store in accesses_in(body) if store in k.streaming]
    if not conditions:
        return
    schedule = k.kernel.schedule
    loads = [load for load in loads_in(body) if isinstance(schedule.get(load), Prefetched)]
    if not loads:
        return
    if is_always(conditions[0]):
        prefetch_loads(k, loads, width)
        return
    with k.e.when(conditions[0]):
        prefetch_loads(k, loads, width)


def prefetch_loads(k: KernelScope, loads: Sequence[Access], width: int) -> None:
    """Prefetches of what neighbouring lanes, bound at present, read as far on as schedules say."""
    for load in loads:
        schedule, place = k.kernel.schedule.get(load), k.binding(load.index)
        if not isinstance(schedule, Prefetched) or not isinstance(place, LinearLanes):
            continue
        stride = max(stride_of(place), 1)
        if stride > 1 or is_literal(place.stride, 1) or place.stride in k.dims.zero_or_one:
            size = load.buffer.type.dtype.bytes
            far = place.base + schedule.distance // size
            base, element = k.pointer(load.buffer), storage(load.buffer.type.dtype)
            address = k.e.assign(PTR, f"getelementptr {element}, {base}, {far}")
            prefetch(k.e, address, width * stride * size, near=schedule.level == 1)


def _all_uniform(k: KernelScope, statement: Load) -> bool:
    extra = (statement.condition, statement.other)
    return all(var is None or k.uniform(var) is not None for var in extra)


def _guarded_scalar(k: KernelScope, statement: Load, base: Reg, element: str) -> Reg:
    """Branches around the load: nothing is read where the condition fails."""
    e, dtype = k.e, statement.buffer.type.dtype
    assert statement.condition is not None and statement.other is not None
    condition, other = k.uniform(statement.condition), k.uniform(statement.other)
    index = k.uniform(statement.index)
    assert condition is not None and other is not None and index is not None

    def read() -> list[Reg]:
        raw = e.load(e.at(base, element, index), ltype(element), dtype.bytes)
        return [from_storage(e, raw, dtype)]

    (result,) = e.merged(condition, (other,), read, "read")
    return result


def _reversed(e: FunctionEmitter, value: Reg) -> Reg:
    lanes = value.type.lanes
    order = ", ".join(f"i32 {lane}" for lane in reversed(range(lanes)))
    return e.assign(
        value.type, f"shufflevector {value}, {value.type} poison, <{lanes} x i32> <{order}>"
    )


def _addresses(k: KernelScope, index: Var, base: Reg, element: str) -> Reg:
    offsets = k.spread(index)
    pointers = ltype("ptr", k.lanes)
    return k.e.assign(pointers, f"getelementptr inbounds {element}, {base}, {offsets}")


def emit_store(k: KernelScope, statement: Store) -> None:
    """A store for the current lanes."""
    k.held.pop(statement.buffer, None)
    e, dtype = k.e, statement.buffer.type.dtype
    base, element = k.pointer(statement.buffer), storage(dtype)
    scalar_index = k.uniform(statement.index)
    if scalar_index is not None:
        value = k.uniform(statement.value)
        assert value is not None, "lanes that differ need places that differ"
        pointer = e.at(base, element, scalar_index)
        e.store(to_storage(e, value, dtype), pointer, dtype.bytes)
        return
    index = k.binding(statement.index)
    stride = stride_of(index)
    if stride:
        assert isinstance(index, LinearLanes)
        if store_strided(k, statement, index, stride):
            return
    value = to_storage(e, k.spread(statement.value), dtype)
    if isinstance(index, LinearLanes) and is_literal(index.stride, 1):
        pointer = e.at(base, element, index.base)
        streams = k.streaming.get(statement)
        if k.mask is None and streams is None and value.text in k.halves:
            _store_converted(k, value, pointer, dtype.bytes)
        elif k.mask is None:
            emit_contiguous(e, value, pointer, dtype.bytes, streams)
        else:
            store_lanes(e, value, pointer, k.mask)
            if statement.buffer.role == "scratch":
                k.held[statement.buffer] = Held(base, index, k.mask, k.spread(statement.value))
        return
    places = _addresses(k, statement.index, base, element)
    store_lanes(e, value, places, _mask(k))


def _store_converted(k: KernelScope, value: Reg, pointer: Reg, align: int) -> None:
    """A contiguous vector store of float16, a part from each register of float32: the instruction
    that converts it writes it, too, where putting the parts together would take others."""
    e, lanes = k.e, value.type.lanes
    part = min(k.target.vector_bits // 32, lanes)
    for first in range(0, lanes, part):
        piece = e.shuffled(value, value, range(first, first + part)) if part < lanes else value
        e.store(piece, e.at(pointer, value.type.element, first), align)


EMITTERS: EmitterTable = {Load: emit_load, Store: emit_store}
"""What emits loads and stores."""
