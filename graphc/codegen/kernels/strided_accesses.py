"""Loads and stores of every second, third or fourth element, as vectors and shuffles.

    %a = load %x[2 i]               low, high = two vectors from x[2 i] on
    %b = load %x[2 i + 1]     ->    a = lanes 0, 2, 4 … of both, b = lanes 1, 3, 5 …

Lane by lane, as gathers and scatters go, the product of 65,536 complex64 numbers takes 198 us; so,
20. Accesses to one period (``graphc.kernel.analysis.periods``) share their vectors. The last vector
begins early enough to end with the last element that is asked for, so nothing beyond an array is
read. What lies between the elements of a store is not written: it is masked, or every element of
the period is there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from graphc.codegen.kernels.lane_values import Binding, LinearLanes, Vectors
from graphc.codegen.kernels.nontemporal_stores import emit_contiguous
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.masked import first_lanes, load_lanes, store_lanes
from graphc.codegen.llvm.storage import storage, to_storage
from graphc.codegen.llvm.types import ltype
from graphc.kernel.analysis.periods import LONGEST, Period
from graphc.kernel.statements.base import Access

Place = tuple[int, int]
"""The number of a vector, and a lane of it."""


def stride_of(index: Binding) -> int:
    """The stride by which lanes are loaded and stored so; 0 where they are not."""
    if not isinstance(index, LinearLanes) or index.stride.value is None:
        return 0
    stride = int(index.stride.value)
    return stride if 1 < abs(stride) <= LONGEST else 0


def load_strided(k: KernelScope, load: Access, index: LinearLanes, stride: int) -> Reg:
    """The elements as they lie in memory, for the current lanes."""
    period = k.periods.of(load, stride)
    offset = period.offset(load)
    found = k.vectors.get(period)
    if load is period.members[0] or found is None or found.context != _context(k, period):
        found = k.vectors[period] = _loaded(k, period, load, index, stride)
    lanes = range(k.lanes) if stride > 0 else reversed(range(k.lanes))
    places = [_lane(abs(stride) * lane + offset, found.starts) for lane in lanes]
    return _picked(k.e, found.vectors, places)


def _context(k: KernelScope, period: Period) -> Hashable:
    """What tells iterations: where indices stand, and which lanes there are.

    Bindings of indices are made anew for each iteration that is emitted.
    """
    return (k.lanes, k.mask, *[k.binding(index) for index in period.indices])


def _loaded(
    k: KernelScope, period: Period, load: Access, index: LinearLanes, stride: int
) -> Vectors:
    """The vectors that hold the elements of a period."""
    e, lanes, dtype = k.e, k.lanes, load.buffer.type.dtype
    vector = ltype(storage(dtype), lanes)
    first = min(0, stride) * (lanes - 1) - period.offset(load)
    size = abs(stride) * (lanes - 1) + period.span
    starts = [lanes * number for number in range(abs(stride))]
    vectors = []
    if k.mask is None:
        starts[-1] = size - lanes
        for start in starts:
            place = _place(k, load, index, first + start)
            vectors.append(e.load(place, vector, dtype.bytes))
    else:
        count = (k.count - 1) * stride + period.span
        for start in starts:
            mask = first_lanes(e, count - start, lanes)
            place = _place(k, load, index, first + start)
            # of one, functions have no rare case
            vectors.append(load_lanes(e, place, vector, mask, e.const(1, vector)))
    return Vectors(_context(k, period), vectors, starts)


def store_strided(k: KernelScope, store: Access, index: LinearLanes, stride: int) -> bool:
    """Writes the current lanes of all stores of a period, where the last of them stands.

    False if that is to be done otherwise: where lanes have no masks, and elements between those
    that are written stay.
    """
    period = k.periods.of(store, stride)
    is_whole = len(period.members) == stride
    if stride < 0 or not (is_whole or k.target.masks):
        return False
    if store is not period.members[-1]:
        return True
    e, lanes, dtype = k.e, k.lanes, store.buffer.type.dtype
    values = [to_storage(e, k.spread(member.value), dtype) for member in period.members]
    source = {offset: number for number, offset in enumerate(period.offsets)}
    streams = next((s for s in map(k.streaming.get, period.members) if s is not None), None)
    for start in range(0, stride * lanes, lanes):
        places = [divmod(start + lane, stride) for lane in range(lanes)]
        wanted = [(source[o], lane) if o in source else None for lane, o in places]
        value = _picked(e, values, wanted)
        place = _place(k, store, index, start - period.offset(store))
        if k.mask is None and is_whole:
            emit_contiguous(e, value, place, dtype.bytes, streams)
            continue
        kept = e.lanes([item is not None for item in wanted], ltype("i1", lanes))
        if k.mask is not None:
            last = (k.count - 1) * stride + period.span
            some = first_lanes(e, last - start, lanes)
            kept = some if is_whole else kept & some
        store_lanes(e, value, place, kept)
    return True


def _place(k: KernelScope, access: Access, index: LinearLanes, offset: int) -> Reg:
    """The address ``offset`` elements behind that of the first lane."""
    base, element = k.pointer(access.buffer), storage(access.buffer.type.dtype)
    first = k.e.at(base, element, index.base)
    return k.e.at(first, element, offset) if offset else first


def _lane(position: int, starts: Sequence[int]) -> Place:
    """Where an element is that has a position among vectors which start at these."""
    number = max(n for n, start in enumerate(starts) if start <= position)
    return number, position - starts[number]


def _picked(e: FunctionEmitter, vectors: Sequence[Reg], places: Sequence[Place | None]) -> Reg:
    """A lane of one of the vectors for each place; by halves, two vectors at a time."""
    lanes = len(places)
    if len(vectors) <= 2:
        order = [None if place is None else place[0] * lanes + place[1] for place in places]
        return e.shuffled(vectors[0], vectors[-1], order)
    half = len(vectors) // 2
    low = [place if place is None or place[0] < half else None for place in places]
    high = [(p[0] - half, p[1]) if p is not None and p[0] >= half else None for p in places]
    if not any(high) or not any(low):
        return _picked(e, vectors[half:], high) if any(high) else _picked(e, vectors[:half], low)
    both = _picked(e, vectors[:half], low), _picked(e, vectors[half:], high)
    order = [
        lane if a is not None else lanes + lane if b is not None else None
        for lane, (a, b) in enumerate(zip(low, high, strict=True))
    ]
    return e.shuffled(*both, order)


__all__ = ["load_strided", "store_strided", "stride_of"]
