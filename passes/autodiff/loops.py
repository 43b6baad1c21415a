"""Derivatives of ``while``: loops over the derivative of its body.

    while(%i, %x) over n trips      ->  while(%i, %x, %kept): keeps x of every trip
                                        while(%j, %dx): from the last trip to the first

What a trip's derivative reads of the loop variables is kept by a second run of the loop, one row a
trip, and so is what deep products give (``passes.autodiff.residuals``); the rest of the trip is
computed again from that. Where the number of trips is no size, or the
rows would take too much memory, a fixed number of states is kept (``passes.autodiff.checkpoints``).
Variables that follow from the number of the trip are not kept. What many trips add up, the
cotangents of captured values, are loop variables of the way back; where a trip only reads a row of
a captured value, it adds to that row in place (``passes.autodiff.body_gradient``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphc.base.tuning.fusion import MEMORY
from graphc.ir.dims.expressions import Dim, at_hint
from graphc.ir.dtypes import int64
from graphc.ir.graph import Node
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.convert import converted
from graphc.ops.loops import Producer
from graphc.ops.source import constant_beside
from passes.autodiff.body_gradient import BodyGradient
from passes.autodiff.branches import Jvp, Vjp
from passes.autodiff.checkpoints import kept_in_slots
from passes.autodiff.loop import Loop, size_of
from passes.autodiff.region_builder import Groups, Region, at_places, or_zeros, repeat
from passes.autodiff.residuals import residuals, without
from passes.autodiff.weight_gradients import WeightGradients, weight_gradients, without_sums


def pulled(
    node: Node,
    cotangents: Sequence[Value | None],
    flows: Sequence[bool],
    producer: Producer,
    vjp: Vjp,
) -> list[Value | None]:
    """One cotangent per operand of a ``while`` that derivatives flow to."""
    loop = Loop(node, producer)
    given = [place for place, value in enumerate(cotangents) if value is not None]
    useful = loop.useful(given)
    inputs = loop.body.inputs
    variables = sorted(p for p in loop.active(flows) if inputs[p] in useful)
    if not variables:
        return [None] * len(node.inputs)
    shared = [p for p in range(loop.count, len(inputs)) if flows[p] and inputs[p] in useful]
    seeds = tuple([Value(node.outputs[place].type) for place in variables])
    body = loop.body.with_parts(inputs=(*inputs, *seeds))
    ys = [body.outputs[place] for place in variables]
    xs = [inputs[place] for place in (*variables, *shared)]
    grown, results = vjp(body, ys, xs, seeds)
    gradient = BodyGradient(loop, grown, seeds, tuple(variables), tuple(shared), tuple(results))
    first = or_zeros([cotangents[p] for p in variables], [node.outputs[p] for p in variables])
    counter = loop.counter()
    size = loop.size(counter)
    if size == 0:
        ends = [*first, *gradient.first_sums()]
    elif size is not None and _fits(gradient, (), size):
        ends = _kept_in_rows(gradient, first, size)
    else:
        ends = kept_in_slots(gradient, first, counter)
    return at_places(len(node.inputs), (*variables, *shared), ends)


def _fits(gradient: BodyGradient, kept: Sequence[Value], size: Dim) -> bool:
    """Whether rows of the states that a trip's derivative reads, and of ``kept``, take no more
    memory than ``MEMORY.trips_bytes``."""
    inputs = gradient.loop.body.inputs
    states = [inputs[place] for place in gradient.loop.needed(gradient.read())]
    row = sum(at_hint(value.type.bytes) for value in (*states, *kept))
    return row * at_hint(size) <= MEMORY.trips_bytes


def _kept_in_rows(gradient: BodyGradient, first: Sequence[Value], size: Dim) -> list[Value]:
    """Cotangents before the loop and of what is shared; each trip's state is a row of arrays."""
    loop, node = gradient.loop, gradient.loop.node
    behind = weight_gradients(gradient)
    inner = replace(without_sums(gradient, behind.factors), shown=tuple(behind.values))
    if not _fits(inner, inner.shown, size):
        behind, inner = WeightGradients({}), gradient
    kept = residuals(loop.body, inner.graph, inner.wanted)
    lighter = replace(inner, graph=without(inner.graph, kept))
    if kept and _fits(lighter, (*kept, *inner.shown), size):
        inner = lighter
    else:
        kept = []
    places = loop.needed(inner.read())
    rows = _rows(loop, places, kept, size) if places or kept else []
    stacks = dict(zip((*(loop.body.inputs[place] for place in places), *kept), rows, strict=True))
    inner = replace(inner, shown=tuple([v for v in inner.shown if v not in stacks]))
    take, zeros = surface_function("take"), surface_function("zeros")

    def condition(made: Region, own: Groups, outside: Sequence[Value]) -> Value:
        (number,) = own["number"]
        return number < size_of(size, number)

    def body(made: Region, own: Groups, outside: Sequence[Value]) -> Mapping[str, list[Value]]:
        (number,) = own["number"]
        trip = size_of(size, number) - 1 - number
        stacked, operands = outside[: len(rows)], outside[len(rows) :]
        before = [take(row, trip, 0) for row in stacked]
        state = dict(zip(places, before, strict=False))
        given = loop.body_inputs(operands, trip, state)
        given |= zip(kept, before[len(places) :], strict=True)
        cotangents, sums, shown = inner.trip(made, given, own["cotangents"], own["sums"])
        factors = [r.at[trip].set(v) for r, v in zip(own["factors"], shown, strict=True)]
        return {
            "number": [number + 1], "cotangents": cotangents, "sums": sums, "factors": factors
        }  # fmt: skip

    carried = {
        "number": [constant_beside(0, int64, first[0])],
        "cotangents": first,
        "sums": inner.first_sums(),
        "factors": [zeros((size, *value.shape), value.dtype) for value in inner.shown],
    }
    ends = repeat(node, carried, [*rows, *node.inputs], condition, body)
    stacks |= zip(inner.shown, ends["factors"], strict=True)
    sums = dict(zip(inner.shared, ends["sums"], strict=True))
    sums |= behind.computed(stacks, size)
    return [*ends["cotangents"], *(sums[place] for place in gradient.shared)]


def _rows(
    loop: Loop, places: Sequence[int], kept: Sequence[Value], size: Dim
) -> list[Value]:
    """For each of these variables what it was before each trip, and for each of these values of the
    body what it was in each, stacked, by the loop run again."""
    counter = loop.counter()
    assert counter is not None, "the number of trips is a size"
    first = loop.first_number(counter)
    zeros = surface_function("zeros")
    types = [*(loop.start[p].type for p in places), *(value.type for value in kept)]
    stacks = [zeros((size, *type_.shape), type_.dtype) for type_ in types]

    def keep(own: Groups, made: Sequence[Value]) -> Mapping[str, list[Value]]:
        state = own["state"]
        trip = converted(state[counter.place], int64) - first
        elements = [*(state[place] for place in places), *made]
        pairs = zip(own["kept"], elements, strict=True)
        return {"kept": [rows.at[trip].set(element) for rows, element in pairs]}

    return loop.again({"kept": stacks}, keep, kept)["kept"]


def pushed(
    node: Node, tangents: Sequence[Value | None], producer: Producer, jvp: Jvp
) -> list[Value | None]:
    """One tangent per result of a ``while``; None for those that do not change."""
    loop = Loop(node, producer)
    variables = sorted(loop.active([tangent is not None for tangent in tangents]))
    captured = [p for p in range(loop.count, len(node.inputs)) if tangents[p] is not None]
    inputs = loop.body.inputs
    changing = [*variables, *captured]
    directions = [Value(node.inputs[place].type) for place in changing]
    body_graph = loop.body.with_parts(inputs=(*inputs, *directions))
    ys = [body_graph.outputs[place] for place in variables]
    grown, results = jvp(body_graph, ys, [inputs[place] for place in changing], directions)
    count = len(loop.captured)

    def condition(made: Region, own: Groups, outside: Sequence[Value]) -> Value:
        return loop.goes_on(made, own["state"], outside[:count])

    def body(made: Region, own: Groups, outside: Sequence[Value]) -> Mapping[str, list[Value]]:
        given = dict(zip(inputs, (*own["state"], *outside[:count]), strict=True))
        given |= dict(zip(directions, (*own["tangents"], *outside[count:]), strict=True))
        values = made.derived(grown, given, [*loop.body.outputs, *results])
        following = or_zeros(values, [*own["state"], *own["tangents"]])
        return {"state": following[: loop.count], "tangents": following[loop.count :]}

    first = or_zeros([tangents[p] for p in changing], [node.inputs[p] for p in changing])
    carried = {"state": loop.start, "tangents": first[: len(variables)]}
    beside = [*loop.captured, *first[len(variables) :]]
    ends = repeat(node, carried, beside, condition, body)
    return at_places(len(node.outputs), variables, ends["tangents"])
