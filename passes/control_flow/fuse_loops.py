"""Loop fusion: a loop whose lanes do not meet becomes one kernel, with the loop inside.

    %3 = while(%x, %r) {               %3 = fused(%x, %r) {
      condition, body            ->      %2 = while(%0, %1) { condition, body }
    }                                    return %2 }

``graphc.ops.lane_loops`` says what such a loop is. A launch can't be interrupted, so one is kept
short: a loop of more trips, or of nobody knows how many, stays, and each of its trips runs as many
trips in a kernel as take some milliseconds.

    while(%i, %x) { ... }   ->   while(%i, %x) {
                                   fused(%i, %x) { while(0, %i, %x) { at most 4096 trips } } }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from graphc.base.tuning.fusion import FUSION
from graphc.ir.attributes import Array, Payload
from graphc.ir.dims.choice import dim_max
from graphc.ir.dims.expressions import Dim, at_hint, product
from graphc.ir.dtypes import int64
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.op import OpDef
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.scalar import PRIMITIVES
from graphc.ops.control import while_op
from graphc.ops.fused import fused_op
from graphc.ops.lane_loops import ALIKE, COUNTED, LaneForm, lane_form, obstacle
from graphc.ops.loops import Producer, WhileLoop
from graphc.ops.move.shape import broadcast_to_op
from graphc.ops.pointwise.arithmetic import add_op
from graphc.ops.pointwise.logic import bitwise_and_op, less_op
from graphc.ops.source import constant_op, dim_op
from passes.control_flow.counted_checks import without_proved_checks
from passes.control_flow.regions import carried_count, with_captured
from passes.infra.base import PassContext

REPEATED = "each lane would compute functions of what lanes share"


def fuse_loops(graph: Graph, context: PassContext) -> Graph:
    """The graph with its loops of lanes as fused nodes; linear."""
    if all(node.op is not while_op for node in graph.nodes):
        return graph
    read = {value for node in graph.nodes for value in node.inputs}.union(graph.outputs)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.extend(_fused(graph, node, read, context) if node.op is while_op else (node,))
    return graph.rebuilt(nodes)


def _fused(
    graph: Graph, node: Node, read: Collection[Value], context: PassContext
) -> Sequence[Node]:
    """What takes the place of a loop, of whose results these are read; itself, if it is no loop of
    lanes."""
    proved = without_proved_checks(WhileLoop(node, graph.producers.get))
    constants, moved = _with_constants_outside(proved)
    loop = WhileLoop(moved, graph.producers.get)
    stays = _counted(node, loop)
    found = obstacle(loop)
    if found is not None:
        context.decline(fuse_loops.__name__, node, found)
        return (stays,)
    if not any(value in read for value in node.outputs):
        # passes before may have left nothing of it that is needed
        return (node,) if node.may_fail_within else ()
    form = lane_form(loop)
    found = _reason_against(loop, form, read)
    if found is not None:
        context.decline(fuse_loops.__name__, node, found)
        return (stays,)
    if not context.decide(fuse_loops.__name__, node):
        return (stays,)
    trips, most = _trips(loop, form), _most_trips(loop, form)
    if trips is None or at_hint(trips) > most.expected:
        return *constants, _in_turns(moved, most.dim)
    places = [p for p, v in enumerate(node.outputs) if v in read or p in form.stacks]
    return *constants, _kernel(loop, form, places)


def _trips(loop: WhileLoop, form: LaneForm) -> Dim | None:
    """How many trips there are, or at most, where lanes end by themselves."""
    return loop.size(loop.counter() if form.goes_on is None else loop.limit()[0])


def _counted(node: Node, loop: WhileLoop) -> Node:
    """A loop with the number of its trips if that is known: it is no longer seen once regions are
    fused."""
    trips = loop.size(loop.counter())
    return node.with_attrs({**node.attrs, "trips": trips}) if isinstance(trips, int) else node


class _Most(NamedTuple):
    """Trips that one launch may run.

    Attributes:
        dim: how many, in a run.
        expected: how many, with many lanes where their number is symbolic.
    """

    dim: Dim
    expected: int


def _most_trips(loop: WhileLoop, form: LaneForm) -> _Most:
    """Trips that one launch may run."""
    # a body may do nothing but exchange variables
    work = max(1, sum(map(_work, loop.body.nodes)))

    def most(lanes: Dim) -> Dim:
        return dim_max(1, FUSION.loop_work // (work * dim_max(FUSION.loop_least_lanes, lanes)))

    return _Most(most(product(form.shape)), at_hint(most(_expected_lanes(form))))


def _expected_lanes(form: LaneForm) -> int:
    """How many lanes there are; many, if their number is symbolic."""
    lanes = product(form.shape)
    return lanes if isinstance(lanes, int) else FUSION.loop_symbolic_lanes


def _work(node: Node) -> int:
    """What an element takes, in operations."""
    if not node.op.is_heavy or node.op.lowering.updates is not None:
        # what writes a row is a store
        return 1
    primitive = PRIMITIVES.get(node.op.name)
    return FUSION.loop_function * (1 if primitive is None else primitive.weight)


def _reason_against(loop: WhileLoop, form: LaneForm, read: Collection[Value]) -> str | None:
    """Why a loop of lanes had better stay, of whose results these are read."""
    if form.goes_on is not None:
        if any(value in read and not value.shape for value in loop.node.outputs):
            return COUNTED
        trips = _trips(loop, form)
        if trips is None or at_hint(trips) > _most_trips(loop, form).expected:
            return ALIKE
    return REPEATED if _repeats_much(loop, form) else None


def _repeats_much(loop: WhileLoop, form: LaneForm) -> bool:
    """Whether elementary functions of what many lanes share would be computed by each of them."""
    lanes = _expected_lanes(form)
    repeated = sum(
        _work(node)
        for node in loop.body.nodes
        if _work(node) > 1 and node.output.shape != form.shape
        if at_hint(product(node.output.shape)) < lanes
    )
    return repeated * lanes > FUSION.loop_repeated


def _with_constants_outside(node: Node) -> tuple[list[Node], Node]:
    """The loop with arrays that its regions hold captured, and what makes them."""
    made: list[Node] = []
    captured: list[tuple[int, Value, Value]] = []
    regions = list(node.regions)
    for number, region in enumerate(regions):
        arrays = [each for each in region.nodes if each.op is constant_op and each.output.shape]
        for each in arrays:
            outside = Value(each.output.type, each.output.name)
            made.append(replace(each, outputs=(outside,)))
            captured.append((number, each.output, outside))
        if arrays:
            gone = set(arrays)
            kept = [each for each in region.nodes if each not in gone]
            regions[number] = region.with_parts(nodes=kept)
    return (made, with_captured(node, regions, captured)) if captured else (made, node)


# --- one kernel ----------------------------------------------------------------------------------


def _kernel(loop: WhileLoop, form: LaneForm, places: Sequence[int]) -> Node:
    """The fused node that runs a loop, with these of its results."""
    node = loop.node
    body = LoopBody(loop.producer)
    inputs = []
    for place, value in enumerate(node.inputs):
        if place in form.filled:
            # no row of it is read
            inputs.append(body.everywhere(0, value.type))
        elif place == form.own:
            # that all lanes begin is to be seen here as well
            inputs.append(body.everywhere(1, value.type))
        elif place not in form.stacks:
            inputs.append(body.cheap(value))
        else:
            inputs.append(body.read(value))
    outputs = body.copied(node, inputs)
    region = Graph("body", [*body.inputs.values()], body.nodes, [outputs[p] for p in places])
    provenance = Provenance(node.provenance.where, fuse_loops.__name__)
    return Node(
        fused_op,
        tuple(body.inputs),
        {},
        tuple([node.outputs[place] for place in places]),
        (region,),
        provenance,
    )


class LoopBody:
    """A fused body while it is made.

    Attributes:
        inputs: for each value outside that it reads its own.
        nodes: what it computes.
    """

    def __init__(self, producer: Producer) -> None:
        self.inputs: dict[Value, Value] = {}
        self.nodes: list[Node] = []
        self._producer = producer

    def read(self, value: Value) -> Value:
        """A value from outside."""
        return self.inputs.setdefault(value, Value(value.type, value.name))

    def cheap(self, value: Value) -> Value:
        """A value from outside, made here if it is a number or a size, or a number everywhere."""
        node = self._producer(value)
        if node is not None and node.op is broadcast_to_op:
            (source,) = node.inputs
            made = self._producer(source)
            if made is not None and made.op is constant_op and source.size == 1:
                return self.copied(node, self.copied(made, ()))[0]
        if node is not None and node.op in (constant_op, dim_op) and value.shape == ():
            return self.copied(node, ())[0]
        return self.read(value)

    def everywhere(self, number: int, type_: TensorType) -> Value:
        """An array of one number, which need not be made."""
        made = np.full((), number, type_.dtype.numpy)
        element = _constant(made, type_.with_shape(()))
        whole = Value(type_)
        attrs = {"shape": type_.shape}
        self.nodes += [element, Node(broadcast_to_op, element.outputs, attrs, (whole,))]
        return whole

    def copied(self, node: Node, inputs: Sequence[Value]) -> Sequence[Value]:
        """What a node gives for these operands; what the body of a fused one holds, here."""
        if node.op is not fused_op:
            outputs = tuple([Value(value.type, value.name) for value in node.outputs])
            self.nodes.append(replace(node, inputs=tuple(inputs), outputs=outputs))
            return outputs
        (region,) = node.regions
        made = dict(zip(region.inputs, inputs, strict=True))
        for inner in region.nodes:
            results = self.copied(inner, [made[value] for value in inner.inputs])
            made.update(zip(inner.outputs, results, strict=True))
        return [made[value] for value in region.outputs]


# --- several kernels, in turns -------------------------------------------------------------------


def _in_turns(node: Node, most: Dim) -> Node:
    """The loop with at most so many of its trips in a kernel, which one trip of it runs."""
    condition, body = node.regions
    count = carried_count(node)
    inner = _limited(node, most)
    given = [Value(value.type, value.name) for value in body.inputs]
    results = [Value(value.type, value.name) for value in inner.outputs]
    zero = _constant(np.zeros((), np.int64), TensorType(int64, ()))
    run = replace(inner, inputs=(zero.output, *given), outputs=tuple(results))
    producers = {zero.output: zero}
    loop = WhileLoop(run, producers.get)
    fused = _kernel(loop, lane_form(loop), range(1, count + 1))
    turn = Graph(body.name, given, [fused], results[1:])
    return replace(node, regions=(condition, turn))


def _limited(node: Node, most: Dim) -> Node:
    """The loop with a counter of its trips before its variables, of which there are few."""
    condition, body = node.regions
    type_ = TensorType(int64, ())
    own, bound, goes_on = Value(type_), _size(most, type_), condition.outputs[0]
    below = _made(less_op, own, bound.output)
    both = _made(bitwise_and_op, below.output, goes_on)
    nodes = [*condition.nodes, bound, below, both]
    told = Graph(condition.name, [own, *condition.inputs], nodes, both.outputs)
    count, one = Value(type_), _constant(np.int64(1), type_)
    following = _made(add_op, count, one.output)
    trip = Graph(
        body.name,
        [count, *body.inputs],
        [*body.nodes, one, following],
        [following.output, *body.outputs],
    )
    return replace(
        node,
        inputs=(own, *node.inputs),
        attrs={**node.attrs, "carried": carried_count(node) + 1},
        outputs=(Value(type_), *node.outputs),
        regions=(told, trip),
    )


def _constant(array: Array | np.generic, type_: TensorType) -> Node:
    return Node(constant_op, (), {"value": Payload(np.asarray(array))}, (Value(type_),))


def _size(dim: Dim, type_: TensorType) -> Node:
    if isinstance(dim, int):
        return _constant(np.int64(dim), type_)
    return Node(dim_op, (), {"dim": dim}, (Value(type_),))


def _made(op: OpDef, *operands: Value) -> Node:
    (type_,) = op.infer([value.type for value in operands], {})
    return Node(op, operands, {}, (Value(type_),))


__all__ = ["LoopBody", "fuse_loops"]
