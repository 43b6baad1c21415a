"""Reductions to the order that ``graphc.kernel.ir`` defines, whatever the vector width.

``lanes`` reductions run their term with all logical lanes at once, fold the lanes and add the terms
of the incomplete last step, in order where that matters; ``chain`` reductions keep one accumulator
per lane of the enclosing vector loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.kernels.lane_values import LinearLanes
from graphc.codegen.kernels.loop_tail import lanes_for, some_lanes
from graphc.codegen.kernels.primitives import emit_primitive
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import LType, ltype
from graphc.ir.dtypes import int64
from graphc.kernel.cascade import by_words, cascades, level_count, parts_of
from graphc.kernel.ir import CHUNK, Block, joining, lanes
from graphc.kernel.reference_reductions import combine_nothing, neutral_element
from graphc.kernel.statements.base import Reducer

Accumulator = tuple[Reg, ...]
"""One register, or value and position for argmin and argmax; for extremes of floats three words.
Terms that are products, as of squares, are two factors."""

_EXTREMES = ("smax", "smin", "umax")
"""Which words of floats are kept: the greatest and the least as signed integers, and the greatest
as unsigned. Floats that are not negative are ordered as their words, negative ones the other way
round, so these three hold the extreme: -0.0 below 0.0, and NaN of either sign before all numbers.
Each takes one instruction, where a maximum of floats takes six and an ordered integer four."""


def _extreme(e: FunctionEmitter, reducer: Reducer, accumulator: Accumulator) -> Reg:
    """The float that the words of an accumulator say."""
    greatest, least, unsigned = accumulator
    kind = greatest.type
    zero = e.const(0, kind)
    infinity = reducer.term.dtype.format.infinity
    if reducer.combine == "maximum":
        # a negative NaN lies beyond the word of -inf
        is_nan = e.icmp("ugt", unsigned, infinity - (1 << (kind.bits - 1)))
        word = e.select(greatest >= zero, greatest, least)
        word = e.select(is_nan, unsigned, word)
    else:
        is_nan = greatest > infinity
        word = e.select(least < zero, unsigned, least)
        word = e.select(is_nan, greatest, word)
    return e.convert("bitcast", word, element_of(reducer.term.dtype))


def _neutral(e: FunctionEmitter, reducer: Reducer, width: int) -> Accumulator:
    dtype = reducer.term.dtype
    if by_words(reducer):
        # an infinity, which takes part without a trace, and which is what no terms give
        infinity = dtype.format.infinity
        word = infinity if reducer.combine == "minimum" else infinity - (1 << (dtype.bits - 1))
        return tuple(e.const(word, ltype(f"i{dtype.bits}", width)) for _ in _EXTREMES)
    value = e.const(neutral_element(reducer.combine, dtype), ltype(element_of(dtype), width))
    if reducer.combine.startswith("arg"):
        return (value, e.const(0, ltype("i64", width)))
    return (value,)


def _combine(
    e: FunctionEmitter, reducer: Reducer, a: Accumulator, b: Accumulator, ordered: bool
) -> Accumulator:
    """``a`` then ``b``; with ``ordered`` the positions of b all come after those of a."""
    dtype = reducer.term.dtype
    if by_words(reducer):
        return tuple(
            e.intrinsic(name, x.type, x, y) for name, x, y in zip(_EXTREMES, a, b, strict=True)
        )
    if len(b) == 2 and len(a) == 1:
        return (e.fma(*b, a[0]),)
    if len(a) == 1:
        return (emit_primitive(e, joining(reducer.combine), (a[0], b[0]), dtype),)
    (best, place), (term, position) = a, b
    relation = "greater" if reducer.combine == "argmax" else "less"
    better = emit_primitive(e, relation, (term, best), dtype)
    if dtype.is_float:
        term_nan, best_nan = e.fcmp("uno", term, term), e.fcmp("uno", best, best)
        no_nan = e.const(False, best_nan.type)
        first_nan = e.select(best_nan, no_nan, term_nan)
        better = better | first_nan
    if not ordered:
        same = emit_primitive(e, "equal", (term, best), dtype)
        if dtype.is_float:
            same = same | (term_nan & best_nan)
        earlier = position < place
        better = better | (same & earlier)
    return (e.select(better, term, best), e.select(better, position, place))


def _is_free(reducer: Reducer) -> bool:
    """True if terms may be combined in any order to the same bits."""
    return not cascades(reducer) and not reducer.combine.startswith("arg")


def _is_sum(reducer: Reducer) -> bool:
    return reducer.term.dtype.is_float and reducer.combine == "add"


State = list[Accumulator]


def flat(state: State) -> list[Reg]:
    """The registers of a state."""
    return [reg for accumulator in state for reg in accumulator]


def grouped(reducers: Sequence[Reducer], regs: Sequence[Reg]) -> State:
    """The state that registers make up."""
    result, position = [], 0
    for reducer in reducers:
        count = parts_of(reducer)
        result.append(tuple(regs[position : position + count]))
        position += count
    return result


def emit_whole_reduce(k: KernelScope, statement: Block) -> None:
    """Emits a reduction, whatever its condition, and binds its results."""
    state = (_lanes_reduce if statement.order == "lanes" else _chain_reduce)(k, statement)
    bind_results(k, statement, state, k.size(statement.extent))


def results_of_nothing(e: FunctionEmitter, reducers: Sequence[Reducer], width: int) -> list[Reg]:
    """What reductions without terms give."""
    result = []
    for reducer in reducers:
        dtype = reducer.result.dtype
        value = combine_nothing(reducer.combine, reducer.term.dtype, dtype).item()
        result.append(e.const(value, ltype(element_of(dtype), width)))
    return result


def neutral_state(e: FunctionEmitter, reducers: Sequence[Reducer], width: int) -> State:
    """What reductions start from."""
    return [_neutral(e, reducer, width) for reducer in reducers]


def terms(k: KernelScope, reducers: Sequence[Reducer], position: Reg) -> State:
    """The terms of one iteration.

    What is added beside sums of squares goes by the units that multiply, times one to the same
    bits: those that add have the squares' deviations and their sum. Mean and variance of 4096 x
    1024 floats take 240 us with AVX-512 in place of 274.
    """
    result: State = []
    squared = {reducer.term for reducer in reducers if reducer.combine == "squares"}
    by_multiplying = squared and k.lanes > 1 and k.target.scales
    for reducer in reducers:
        term = k.spread(reducer.term)
        if by_words(reducer):
            word = k.e.convert("bitcast", term, f"i{term.type.bits}")
            result.append((word,) * len(_EXTREMES))
        elif reducer.combine == "squares":
            result.append((term, term))
        elif by_multiplying and _is_sum(reducer) and reducer.term not in squared:
            one = k.e.opaque(k.e.const(1.0, ltype(term.type.element)))
            result.append((term, k.e.splat(one, k.lanes)))
        else:
            result.append((term, position) if reducer.combine.startswith("arg") else (term,))
    return result


def combined(k: KernelScope, reducers: Sequence[Reducer], state: State, other: State) -> State:
    """A state and the one of all later terms."""
    return [
        _combine(k.e, reducer, a, b, ordered=True)
        for reducer, a, b in zip(reducers, state, other, strict=True)
    ]


def cascade(
    k: KernelScope,
    reducers: Sequence[Reducer],
    steps: Reg,
    known_steps: int | None,
    body: Callable[[Reg, State], State],
) -> State:
    """The cascade of reductions over ``steps`` steps, each of which ``body(step, state)`` adds."""
    e = k.e

    def level(depth: int, lower: Reg, upper: Reg) -> State:
        size = CHUNK**depth
        start = neutral_state(e, reducers, k.lanes)
        with e.loop(lower, upper, size, flat(start)) as loop:
            state = grouped(reducers, loop.carries)
            if depth == 0:
                state = body(loop.index, state)
            else:
                end = loop.index + size
                end = e.least(end, upper)
                state = combined(k, reducers, state, level(depth - 1, loop.index, end))
            loop.yields = flat(state)
        return grouped(reducers, loop.results)

    return level(level_count(reducers, known_steps) - 1, e.const(0), steps)


def _chain_reduce(k: KernelScope, statement: Block) -> State:
    e, reducers = k.e, statement.reducers
    extent = k.size(statement.extent)

    def body(index: Reg, state: State) -> State:
        k.bind(statement.index, index)
        k.statements(statement.body)
        position = e.splat(index, k.lanes)
        return combined(k, reducers, state, terms(k, reducers, position))

    known = statement.extent if isinstance(statement.extent, int) else None
    return cascade(k, reducers, extent, known, body)


def _lanes_reduce(k: KernelScope, statement: Block) -> State:
    assert k.lanes == 1, "lane reductions stand in scalar loops"
    e, reducers = k.e, statement.reducers
    width = max(lanes(reducer.term.dtype) for reducer in reducers)
    extent = k.size(statement.extent)
    known = statement.extent if isinstance(statement.extent, int) else None
    if known is not None and all(_is_free(reducer) for reducer in reducers):
        # any order gives the same bits, and more accumulators hide the latency of combining
        bits = max(reducer.term.dtype.bits for reducer in reducers)
        width = k.tuning.free_registers * k.target.vector_bits // max(bits, 8)
        if k.target.masks and known <= width:
            # less than a step: some lanes of one vector, with nothing to combine them with
            width = min(1 << known.bit_length(), _most_at_once(k, statement))
        else:
            while width > k.tuning.free_lanes and known < 8 * width:
                width //= 2
    if known is not None and known < width:
        # no full step: a plain chain
        state = neutral_state(e, reducers, 1)
        whole = e.const(0)
    else:
        shift = width.bit_length() - 1
        if known is not None:
            full, whole = e.const(known // width), e.const(known - known % width)
        else:
            full = extent >> shift
            whole = full << shift

        def body(step: Reg, state: State) -> State:
            start = step << shift
            k.bind(statement.index, LinearLanes(start, e.const(1), width))
            k.statements(statement.body)
            position = k.spread(statement.index)
            return combined(k, reducers, state, terms(k, reducers, position))

        k.lanes = width
        vectors = cascade(k, reducers, full, None if known is None else known // width, body)
        k.lanes = 1
        state = [folded(e, reducer, acc) for reducer, acc in zip(reducers, vectors, strict=True)]
    if known is None or known % width:
        left = None if known is None else known % width
        rest = last_terms(k, statement, whole, extent, width, left)
        state = combined(k, reducers, state, rest)
    return state


def _most_at_once(k: KernelScope, statement: Block) -> int:
    """How many lanes a step may have: as many registers of what is computed for the terms as of
    these.

    Whether a condition of eight functions of doubles holds in any of 255 columns was one step of
    256: 32 registers for each value. LLVM took 0.58 s for that in place of 0.09, and the rows a
    fifth longer.
    """
    computed = [var.dtype for s in statement.body if s.primitive for var in s.results]
    floats = [dtype.bits for dtype in computed if dtype.is_float]
    return k.tuning.free_registers * k.target.vector_bits // max(floats, default=8)


def last_terms(
    k: KernelScope, statement: Block, lower: Reg, upper: Reg, width: int, left: int | None
) -> State:
    """The terms from ``lower`` to ``upper``, fewer than ``width``: ``left``, if that is known."""
    e, reducers = k.e, statement.reducers
    start = neutral_state(e, reducers, 1)
    lanes = 1 if _is_best_alone(statement) else lanes_for(k, width, left)
    if left is not None and lanes > 1:
        k.bind(statement.index, LinearLanes(lower, e.const(1)))
        with some_lanes(k, left, lanes):
            k.statements(statement.body)
            return _added(k, reducers, start, terms(k, reducers, lower), left)
    with e.loop(lower, upper, lanes, flat(start)) as loop:
        state = grouped(reducers, loop.carries)
        if lanes == 1:
            k.bind(statement.index, loop.index)
            k.statements(statement.body)
            state = combined(k, reducers, state, terms(k, reducers, loop.index))
        else:
            k.bind(statement.index, LinearLanes(loop.index, e.const(1)))
            count = upper - loop.index
            count = e.least(count, lanes)
            with some_lanes(k, count, lanes):
                k.statements(statement.body)
                state = _added(k, reducers, state, terms(k, reducers, loop.index), count)
        loop.yields = flat(state)
    return grouped(reducers, loop.results)


def _is_best_alone(statement: Block) -> bool:
    """Whether terms are taken one by one: they are as soon read so as from the stack, where order
    matters and nothing is computed for them; and positions of extremes are."""
    reducers = statement.reducers
    if any(reducer.combine.startswith("arg") for reducer in reducers):
        return True
    reads = all(
        bool(s.reads) or (s.primitive is not None and s.results[0].dtype is int64)
        for s in statement.body
    )
    return reads and any(map(cascades, reducers))


def _added(
    k: KernelScope, reducers: Sequence[Reducer], state: State, several: State, count: Reg | int
) -> State:
    """A state with the terms of the first ``count`` lanes: at once where the order is free, else
    one by one from the stack."""
    e, mask = k.e, k.mask
    chained: list[tuple[int, list[tuple[Reg, LType]]]] = []
    result = list(state)
    for number, (reducer, term) in enumerate(zip(reducers, several, strict=True)):
        if _is_free(reducer):
            half = k.lanes // 2
            has_halves = mask is not None and reducer.combine in ("minimum", "maximum")
            if has_halves and isinstance(count, int) and count >= half:
                # lanes that both halves have do no harm
                first = tuple(_part(e, x, 0, half) for x in term)
                last = tuple(_part(e, x, count - half, half) for x in term)
                term = _combine(e, reducer, first, last, ordered=False)
            elif mask is not None:
                none = _neutral(e, reducer, k.lanes)
                term = tuple(e.select(mask, x, y) for x, y in zip(term, none, strict=True))
            total = folded(e, reducer, term)
            result[number] = _combine(e, reducer, state[number], total, ordered=True)
            continue
        places: list[tuple[Reg, LType]] = []
        for part in term:
            place = e.alloca(part.type)
            e.store(part, place, 64)
            places.append((place, ltype(part.type.element)))
        chained.append((number, places))
    if not chained:
        return result

    def one(lane: Reg, sums: State) -> State:
        parts: State = [
            tuple(
                e.load(e.at(place, type_.element, lane), type_, type_.bits // 8)
                for place, type_ in places
            )
            for _, places in chained
        ]
        return [
            _combine(e, reducers[number], a, b, ordered=True)
            for (number, _), a, b in zip(chained, sums, parts, strict=True)
        ]

    sums = [state[number] for number, _ in chained]
    if isinstance(count, int):
        for lane in range(count):
            sums = one(e.const(lane), sums)
    else:
        kept = [reducers[number] for number, _ in chained]
        with e.loop(0, count, 1, flat(sums)) as loop:
            loop.yields = flat(one(loop.index, grouped(kept, loop.carries)))
        sums = grouped(kept, loop.results)
    for (number, _), total in zip(chained, sums, strict=True):
        result[number] = total
    return result


def folded(e: FunctionEmitter, reducer: Reducer, accumulator: Accumulator) -> Accumulator:
    """Lane i with lane i + half, until one is left."""
    width = accumulator[0].type.lanes
    while width > 1:
        half = width // 2
        parts = [(_part(e, reg, 0, half), _part(e, reg, half, half)) for reg in accumulator]
        low, high = tuple(p[0] for p in parts), tuple(p[1] for p in parts)
        accumulator = _combine(e, reducer, low, high, ordered=False)
        width = half
    return accumulator


def _part(e: FunctionEmitter, reg: Reg, start: int, count: int) -> Reg:
    if count == 1:
        return e.assign(ltype(reg.type.element), f"extractelement {reg}, i64 {start}")
    order = ", ".join(f"i32 {start + lane}" for lane in range(count))
    target: LType = ltype(reg.type.element, count)
    return e.assign(target, f"shufflevector {reg}, {reg.type} poison, <{count} x i32> <{order}>")


def bind_results(k: KernelScope, statement: Block, state: State, extent: Reg) -> None:
    """Says what the results of a reduction are."""
    e = k.e
    for reducer, accumulator in zip(statement.reducers, state, strict=True):
        result = accumulator[-1]
        if by_words(reducer):
            result = _extreme(e, reducer, accumulator)
        if reducer.combine == "add" and reducer.term.dtype.is_float:
            if not isinstance(statement.extent, int):
                empty = extent.equals(0)
                result = e.select(e.splat(empty, result.type.lanes), 0.0, result)
            elif statement.extent == 0:
                result = e.const(0.0, result.type)
        k.bind(reducer.result, result)
