"""Kernels of loops that run lane by lane (``graphc.ops.lane_loops``).

    for lane in lanes:                       a vector loop, which threads share
        variables = first values[lane]
        for trip in trips:                   in registers
            stacks[trip, lane] = rows
            variables = successors
        results[lane] = variables

With the lanes outside, a trip costs no launch, no load and no store of a variable. Scalars, on
which all lanes agree, are computed in each of them; those that are wanted behind the loop have a
nest of their own.

A gradient is two loops, the second of which reads rows of a stack backwards. A lane runs both, and
the stack is a tape in scratch, which a block of neighbouring lanes shares with the next block: it
stays in the second-level cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from graphc.base.tuning.fusion import FUSION
from graphc.ir.dims.choice import select
from graphc.ir.dims.expressions import Dim, ceil_div, product
from graphc.ir.dtypes import int64
from graphc.ir.graph import Graph, Node
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, Kernel, Role, Site, Var
from graphc.lower.evaluate import Evaluator
from graphc.lower.index import Index, flat_index
from graphc.lower.launch_fission import Series, launched, series_of
from graphc.lower.region import kernel_name, open_loop, open_loops
from graphc.ops.indexing.core import take_op
from graphc.ops.lane_loops import LaneForm, lane_body
from graphc.ops.loops import WhileLoop


def lower_lane_loops(region: Graph) -> Series:
    """The launch of a fused body that runs loops.

    It updates stacks that hold their first rows already: where these are no longer needed, the plan
    copies nothing. Where every row is written, nothing is copied either.
    """
    nests = _Nests(region, "out")
    whole = nests.kernel()
    if not nests.begun:
        return series_of(whole)
    copied = tuple((source, len(region.inputs) + number) for number, source in nests.begun.items())
    update = _Nests(region, "update").kernel()
    rooms = tuple(buffer for buffer in whole.buffers if buffer.is_room)
    return Series(whole, (launched(update),), rooms, copied=copied)


class _Trips:
    """The trips of a loop.

    Attributes:
        counter: the variable that counts them.
        first: the counter before the first trip.
        most: how many trips there are at most.
        told: what else says whether there is another one: a bool of all lanes, or of each.
        variable: the place of the variable that it is, if it is one of a lane.
    """

    def __init__(self, loop: WhileLoop, form: LaneForm) -> None:
        counter, told = loop.limit()
        self.told = told if form.goes_on is None else form.goes_on
        self.variable = form.own
        most = loop.size(counter)
        assert counter is not None and most is not None, "the contract says so"
        self.counter, self.first, self.most = counter.place, loop.first_number(counter), most

    @property
    def is_worked_out(self) -> bool:
        """Whether something works out if there is another trip."""
        return self.told is not None and self.variable is None


class _Nests:
    """One kernel while it is made; stacks with first rows take these first if ``role`` is "out".

    Attributes:
        begun: by the number of a result that is a stack with first rows, that of their operand.
        tapes: scratch for the stacks that are no results.
        trips: of each loop.
    """

    def __init__(self, region: Graph, role: Role) -> None:
        self.region = region
        self.body = body = lane_body(region)
        self.b = b = KernelBuilder(f"loop_{kernel_name(next(iter(body.loops.values())).body)}")
        self.outer = Evaluator(b, region)
        for position, value in enumerate(region.inputs):
            self.outer.buffers[value] = b.buffer(f"x{position}", "in", value.type)
        self.trips = {node: _Trips(loop, body.forms[node]) for node, loop in body.loops.items()}
        stacks = [
            (node.outputs[place], body.loops[node].start[place], place in form.filled)
            for node, form in body.forms.items()
            for place in form.stacks
        ]
        operand = {value: number for number, value in enumerate(region.inputs)}
        first = {stack: operand[start] for stack, start, is_filled in stacks if not is_filled}
        self.begun = {n: first[v] for n, v in enumerate(region.outputs) if v in first}
        self.results: dict[Value, Buffer] = {}
        for number, value in enumerate(region.outputs):
            of = role if number in self.begun else "out"
            self.results[value] = b.buffer(f"y{number}", of, value.type)
        self._stacks = dict.fromkeys(stack for stack, _, _ in stacks)
        self._copied = self.begun if role == "out" else {}
        self.outer.buffers.update({v: self.results[v] for v in self._stacks if v in self.results})
        self._width, self.tapes = self._made_tapes()

    def _made_tapes(self) -> tuple[Dim, dict[Value, Buffer]]:
        """The lanes of a block, and scratch for the tapes of one."""
        shape = self.body.shape
        tapes = [value for value in self._stacks if value in self.body.read]
        tapes = [value for value in tapes if value not in self.results]
        if not tapes or not shape:
            width: Dim = 1
        else:
            width = self._block(max(value.dtype.bytes for value in tapes))
            if isinstance(shape[-1], int) and shape[-1] <= width:
                width = shape[-1]
        types = [TensorType(value.dtype, (value.shape[0], width)) for value in tapes]
        return width, {
            value: self.b.buffer(f"tape{number}", "scratch", type_)
            for number, (value, type_) in enumerate(zip(tapes, types, strict=True))
        }

    def _block(self, widest: int) -> int:
        """Lanes of a block: as many as run side by side, of elements of so many bytes."""
        counts = [
            len(loop.start) - len(self.body.forms[node].stacks) - 1
            for node, loop in self.body.loops.items()
        ]
        lanes = FUSION.tape_bytes // (widest * max(1, *counts))
        return max(16, 1 << lanes.bit_length() - 1)

    def kernel(self) -> Kernel:
        """All of it."""
        b, shape, region = self.b, self.body.shape, self.region
        for number, source in self._copied.items():
            out, first = self.results[region.outputs[number]], region.inputs[source]
            with ExitStack() as loops:
                (element,) = open_loops(b, self.outer, loops, (out.type.size,))
                b.store(out, element, b.load(self.outer.buffers[first], element))
        scalars = [value for value in self.results if not value.shape]
        lanes = [value for value in self.results if value.shape]
        if shape and scalars:
            self._lane((), b.constant(0, int64), scalars)
        elif shape:
            self._without_lanes()
        if lanes and self._pays_in_blocks():
            self._in_blocks(lanes)
        elif lanes or not shape:
            with ExitStack() as loops:
                self._lane(*self._opened(loops), lanes if shape else [*self.results])
        return b.finish()

    def _opened(self, loops: ExitStack) -> tuple[Index, Var]:
        """Loops over all lanes: the index of one, and its place in its block."""
        b, shape = self.b, self.body.shape
        if not self.tapes or not shape or shape[-1] == self._width:
            index = open_loops(b, self.outer, loops, shape)
            return index, index[-1] if shape else b.constant(0, int64)
        outside, first, count = self._blocks(loops, self._width)
        place = open_loop(b, self.outer, loops, count, "vector")
        return (*outside, b.apply("add", first, place)), place

    def _blocks(self, loops: ExitStack, width: Dim) -> tuple[Index, Var, Var]:
        """Loops over blocks of lanes: the index before the last axis, the first lane of a block
        along that axis, and how many there are."""
        b, (*before, last) = self.b, self.body.shape
        outside = open_loops(b, self.outer, loops, before, "parallel")
        block = open_loop(b, self.outer, loops, ceil_div(last, width), "parallel")
        first = b.apply("multiply", block, b.dim(width))
        left = b.apply("subtract", b.dim(last), first)
        return outside, first, b.apply("minimum", left, b.dim(width))

    def _lane(self, index: Index, place: Var, wanted: Sequence[Value]) -> None:
        """A lane, or the scalars alone, through all loops, and the results that are wanted."""
        for value, tape in self.tapes.items():
            self._place(self.outer, value, tape, place)
        for loop in self.body.loops.values():
            _Lane(self, loop, index, place).run(wanted)
        self._store(index, wanted)

    def _without_lanes(self) -> None:
        """The checks of indices where there are no lanes to do them."""
        loops, zero = self.body.loops.values(), self.b.constant(0, int64)
        if not any(loop.node.may_fail_within for loop in loops):
            return
        self.outer.push()
        for loop in loops:
            lane = _Lane(self, loop, (), zero)
            trips = select("eq", product(self.body.shape), 0, lane.trips.most, 0)
            if trips != 0:
                lane.know(lane.trips_from(lane.first(), (), zero, trips))
        self.outer.pop()

    def _store(self, index: Index, wanted: Sequence[Value]) -> None:
        """Writes what a lane has come to; rows of stacks are there."""
        b, outer = self.b, self.outer
        for value in wanted:
            if value not in self._stacks:
                at = index if value.shape else ()
                b.store(self.results[value], flat_index(b, at, value.shape), outer.at(value, at))

    # --- blocks of trips -------------------------------------------------------------------------

    def _pays_in_blocks(self) -> bool:
        """Whether rows of many lanes are read or written, so that a few lanes through all trips
        would touch a page for each."""
        loops = [*self.body.loops.values()]
        if len(loops) != 1 or not self.body.shape:
            return False
        (loop,), last = loops, self.body.shape[-1]
        trips = self.trips[loop.node]
        most = trips.most
        if trips.told is not None or (isinstance(most, int) and most < 2 * FUSION.lane_block_trips):
            return False
        if isinstance(last, int) and last < FUSION.least_block_lanes:
            return False
        scalars = sum(not value.shape for value in loop.start)
        # a row is at a place that a run computes, which nothing else of a body is
        has_rows = any(node.op.lowering.reads == "picked" for node in loop.body.nodes)
        return scalars == 1 and (has_rows or bool(self._stacks))

    def _in_blocks(self, wanted: Sequence[Value]) -> None:
        """A few trips of many lanes, then the next trips; variables are in scratch in between."""
        b, (loop,) = self.b, self.body.loops.values()
        most, trips = self.trips[loop.node].most, FUSION.lane_block_trips
        widest = max(value.dtype.bytes for value in loop.start if value.shape)
        width = FUSION.lane_block_bytes // widest
        with ExitStack() as loops:
            outside, first, count = self._blocks(loops, width)
            held: dict[int, Buffer] = {}

            def lane(inside: ExitStack) -> _Lane:
                place = open_loop(b, self.outer, inside, count, "vector")
                index = (*outside, b.apply("add", first, place))
                return _Lane(self, loop, index, place)

            with ExitStack() as inside:
                one = lane(inside)
                for number, var in one.first().items():
                    type_ = TensorType(var.dtype, (width,))
                    held[number] = b.buffer(f"v{number}", "scratch", type_)
                    b.store(held[number], one.place, var)

            def some(base: Var, number: Dim) -> None:
                with ExitStack() as inside:
                    one = lane(inside)
                    variables = {n: b.load(buffer, one.place) for n, buffer in held.items()}
                    for n, var in one.trips_from(variables, wanted, base, number).items():
                        b.store(held[n], one.place, var)

            with ExitStack() as blocks:
                block = open_loop(b, self.outer, blocks, most // trips, "serial")
                some(b.apply("multiply", block, b.constant(trips, int64)), trips)
            whole = most // trips * trips
            if whole != most:
                some(b.dim(whole), most - whole)
            with ExitStack() as inside:
                one = lane(inside)
                one.know({n: b.load(buffer, one.place) for n, buffer in held.items()})
                self._store(one.index, wanted)

    def put(self, inner: Evaluator, own: Value, value: Value, place: Var) -> None:
        """Tells an evaluator inside a loop where a value is that it has as one of its own."""
        outer = self.outer
        if value in self.tapes:
            self._place(inner, own, self.tapes[value], place)
        elif value in outer.buffers or value in self._stacks:
            inner.buffers[own] = outer.buffers[value]
        else:
            inner.elsewhere[own] = partial(outer.at, value)

    def _place(self, evaluator: Evaluator, value: Value, tape: Buffer, place: Var) -> None:
        """Tells an evaluator that a value is a tape, of which a lane has this column."""
        evaluator.buffers[value] = tape
        evaluator.places[value] = lambda at: flat_index(self.b, (at[0], place), tape.type.shape)


class _Lane:
    """One lane through one loop, or the scalars alone, if the index is of no lane.

    Args:
        nests: the kernel.
        index: the lane.
        place: its place in its block.
    """

    def __init__(self, nests: _Nests, loop: WhileLoop, index: Index, place: Var) -> None:
        self.nests = nests
        self.b = nests.b
        self.loop = loop
        self.form: LaneForm = nests.body.forms[loop.node]
        self.trips = nests.trips[loop.node]
        self.index = index
        self.place = place
        self.alone = alone = len(index) < len(nests.body.shape)
        self.carried = [
            number
            for number, value in enumerate(loop.start)
            if number not in self.form.stacks
            and number != self.trips.counter
            and not (alone and value.shape)
        ]

    def run(self, wanted: Sequence[Value]) -> None:
        """All trips."""
        self.know(self.trips_from(self.first(), wanted, self.b.constant(0, int64), self.trips.most))

    def first(self) -> dict[int, Var]:
        """The variables before the first trip."""
        outer, start = self.nests.outer, self.loop.start
        return {number: outer.at(start[number], self._at(number)) for number in self.carried}

    def know(self, variables: Mapping[int, Var]) -> None:
        """Tells the evaluator around the loop what it gives."""
        outer, results = self.nests.outer, self.loop.node.outputs
        for number, var in variables.items():
            outer.know(results[number], self._at(number), var)
        last = self._count(self.b.dim(self.trips.most))
        outer.know(results[self.trips.counter], (), last)

    def trips_from(
        self, variables: Mapping[int, Var], wanted: Sequence[Value], base: Var, number: Dim
    ) -> dict[int, Var]:
        """The variables behind some trips.

        Args:
            variables: before them.
            wanted: the results, of whose stacks rows are written.
            base: the number of the first trip.
            number: how many there are at most.
        """
        b, body, results = self.b, self.loop.body, self.loop.node.outputs
        given = self.nests.tapes.keys() | set(wanted)
        stacks = [place for place in self.form.stacks if results[place] in given and not self.alone]
        going = [self._goes_on(variables, base)] if self.trips.is_worked_out else []
        inner = self._inside(body)
        for place in stacks:
            self.nests.put(inner, body.inputs[place], results[place], self.place)
        outer = self.nests.outer
        with b.loop(number, "serial", [*variables.values(), *going], checks=True) as scope:
            inner.push()
            outer.push()
            trip = b.apply("add", base, scope.index)
            self._know(inner, dict(zip(self.carried, scope.arguments, strict=False)), trip)
            following = {n: inner.at(body.outputs[n], self._at(n)) for n in self.carried}
            if self.alone:
                for node in body.nodes:
                    self._check(inner, node)
            # a trip reads rows as they were before it
            rows = [self._row(inner, place) for place in stacks]
            for buffer, where, element in rows:
                b.store(buffer, where, element)
            if self.trips.told is not None:
                own = self.trips.variable
                scope.lasts = scope.arguments[-1 if own is None else self.carried.index(own)]
            if going:
                after = b.apply("add", trip, b.constant(1, int64))
                going = [self._goes_on(following, after)]
            scope.following = [*following.values(), *going]
            outer.pop()
            inner.pop()
        return dict(zip(self.carried, scope.results, strict=False))

    def _at(self, number: int) -> Index:
        """The index of the lane in a variable."""
        return self.index if self.loop.start[number].shape else ()

    def _inside(self, region: Graph) -> Evaluator:
        """An evaluator of a region of the loop, with what that captures."""
        inner, loop = Evaluator(self.b, region), self.loop
        for own, value in zip(region.inputs[loop.count :], loop.captured, strict=True):
            self.nests.put(inner, own, value, self.place)
        return inner

    def _know(self, inner: Evaluator, variables: Mapping[int, Var], trip: Var) -> None:
        """Tells an evaluator the variables before a trip."""
        inputs = inner.region.inputs
        for number, var in variables.items():
            inner.know(inputs[number], self._at(number), var)
        inner.know(inputs[self.trips.counter], (), self._count(trip))

    def _count(self, trip: Var) -> Var:
        """The counter before a trip."""
        b, start = self.b, self.loop.start[self.trips.counter]
        return b.cast(b.apply("add", trip, b.constant(self.trips.first, int64)), start.dtype)

    def _goes_on(self, variables: Mapping[int, Var], trip: Var) -> Var:
        """What says whether there is a trip of this number."""
        inside, told = self._inside(self.loop.condition), self.trips.told
        assert told is not None, "a condition ends the loop"
        known = {n: v for n, v in variables.items() if told.shape or not self.loop.start[n].shape}
        self._know(inside, known, trip)
        return inside.at(told, self.index if told.shape else ())

    def _row(self, inner: Evaluator, number: int) -> tuple[Buffer, Var, Var]:
        """Where an element of a stack is written in a trip, and what."""
        b, (scatter, how, _) = self.b, self.form.stacks[number]
        base, _, row = scatter.inputs
        trip = self._place(inner, scatter)
        where = inner.place(base, (trip, *self.index))
        element, buffer = inner.at(row, self.index), inner.buffers[base]
        if how != "set":
            element = b.apply(how, b.load(buffer, where), element)
        return buffer, where, element

    def _place(self, inner: Evaluator, node: Node) -> Var:
        """The index of a row, checked."""
        base, places = node.inputs[:2]
        axis, wraps = node.attrs["axis"], node.attrs.get("wraps", True)
        site = Site(axis, node.op.name, node.provenance.where)
        return self.b.check(inner.at(places, ()), base.shape[axis], site, wraps)

    def _check(self, inner: Evaluator, node: Node) -> None:
        """The checks of a node, which lanes would do."""
        if not node.may_fail:
            return
        if node.op is take_op or node.op.lowering.updates is not None:
            self._place(inner, node)
        else:
            inner.at(node.output, ())
