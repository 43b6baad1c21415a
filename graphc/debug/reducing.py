"""Reducing: a smaller graph that still shows what a given one shows.

Delta debugging on graphs. Outputs are dropped, results in between become outputs, values become
inputs that are fed what the interpreter computes for them, operations are bypassed and sizes made
smaller, as long as a predicate holds. Invariant: every graph that the predicate is asked about
passes the verifier, and the one given back satisfies the predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphc.base.errors import GraphcError
from graphc.checking.interpreter import evaluate
from graphc.debug.case import Case
from graphc.ir.attributes import Array
from graphc.ir.builder import make_node
from graphc.ir.dims import expressions
from graphc.ir.graph import Graph, Node
from graphc.ir.text.printer import symbols_in
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ir.verify import verify
from passes.graph.dce import dce
from passes.infra.base import PassContext

TRIES = 600
"""So many graphs are tried at most."""

Predicate = Callable[[Case], bool]


def reduce(case: Case, shows: Predicate, tries: int = TRIES) -> Case:
    """The smallest case found for which ``shows`` holds.

    Args:
        case: one for which it holds.
        shows: whether a case still shows what is looked for.
        tries: how many cases to try at most.
    """
    return _Reducer(case, shows, tries).run()


class _Reducer:
    def __init__(self, case: Case, shows: Predicate, tries: int) -> None:
        self.case = case
        self.shows = shows
        self.left = tries

    def run(self) -> Case:
        """Applies every way of shrinking until none helps any more."""
        while True:
            before = self.case
            for way in (self._outputs, self._suffixes, self._prefixes, self._nodes, self._sizes):
                way()
            if self.case is before or self.left <= 0:
                self._simple_inputs()
                return self.case

    def accept(self, candidate: Case | None) -> bool:
        """Makes the candidate the current case if it is valid and still shows it."""
        if candidate is None or self.left <= 0:
            return False
        self.left -= 1
        try:
            verify(candidate.graph)
            good = self.shows(candidate)
        except GraphcError:
            return False
        if good:
            self.case = candidate
        return good

    # --- ways to shrink --------------------------------------------------------------------------

    def _outputs(self) -> None:
        """Fewer outputs: one alone, or without one."""
        outputs = self.case.graph.outputs
        if len(outputs) > 1:
            for output in outputs:
                if self.accept(with_outputs(self.case, [output])):
                    return
            for output in outputs:
                rest = [value for value in self.case.graph.outputs if value is not output]
                self.accept(with_outputs(self.case, rest) if rest else None)

    def _suffixes(self) -> None:
        """What is computed first becomes input; half of what is left at a time."""
        values = self._values()
        if values is None:
            return
        step = len(self.case.graph.nodes)
        while step > 0:
            nodes = self.case.graph.nodes
            cut = {value for node in nodes[:step] for value in node.outputs}
            if step < len(nodes) and self.accept(with_inputs(self.case, cut, values)):
                step = len(self.case.graph.nodes)
                continue
            step //= 2

    def _prefixes(self) -> None:
        """A result in between becomes the only output; the earliest that still shows it."""
        step = len(self.case.graph.nodes) // 2
        while step > 0:
            nodes = self.case.graph.nodes
            position = len(nodes) - 1 - step
            if position >= 0 and self.accept(with_outputs(self.case, nodes[position].outputs)):
                step = min(step, len(self.case.graph.nodes) // 2)
                continue
            step //= 2

    def _nodes(self) -> None:
        """Single nodes: their results become inputs, or an operand of the type stands for them."""
        values = self._values()
        if values is None:
            return
        for node in reversed(self.case.graph.nodes):
            if self.case.graph.producers.get(node.outputs[0]) is not node:
                continue
            if self.accept(with_inputs(self.case, set(node.outputs), values)):
                continue
            for operand in dict.fromkeys(node.inputs):
                if self.accept(bypassed(self.case, node, operand)):
                    break

    def _sizes(self) -> None:
        """Smaller sizes: symbols first, then each number that stands in the inputs' shapes."""
        case = self.case
        for symbol in symbols_in(case.graph):
            for size in (1, 2, 3):
                if self.accept(with_symbol(case, expressions.symbol_name(symbol), size)):
                    break
            case = self.case
        sizes = {d for v in case.graph.inputs for d in v.shape if isinstance(d, int) and d > 1}
        for size in sorted(sizes, reverse=True):
            for smaller in (1, 2, 3, size // 2):
                if smaller < size and self.accept(_fitting(with_size(self.case, size, smaller))):
                    break

    def _simple_inputs(self) -> None:
        """Inputs that are easier to read: ones, or small whole numbers."""
        for position, array in enumerate(self.case.arrays):
            counted = np.arange(array.size).reshape(array.shape)
            for simple in (np.ones_like(array), np.asarray(counted % 7 + 1, array.dtype)):
                arrays = list(self.case.arrays)
                arrays[position] = simple
                if self.accept(replace(self.case, arrays=tuple(arrays))):
                    break

    def _values(self) -> dict[Value, Array] | None:
        """What the interpreter computes for every value; None if it ends with an error."""
        graph = self.case.graph
        made = [value for node in graph.nodes for value in node.outputs]
        try:
            with np.errstate(all="ignore"):
                results = evaluate(
                    graph.with_parts(outputs=made), self.case.arrays
                )
        except GraphcError:
            return None
        return dict(zip(made, results, strict=True))


# --- cases made of cases -------------------------------------------------------------------------


def _pruned(case: Case, graph: Graph, arrays: Sequence[Array]) -> Case:
    """The case of a graph, without nodes and inputs that nothing needs."""
    live = dce(graph, PassContext())
    read = {value for node in live.nodes for value in node.inputs} | set(live.outputs)
    sized = {symbol for value in live.inputs if value in read for symbol in _given(value.type)}
    kept = []
    for position, value in enumerate(live.inputs):
        own = _given(value.type)
        if value in read or not own <= sized:
            # an input that is not read may still be what gives a symbol its size
            sized |= own
            kept.append(position)
    inputs = [live.inputs[position] for position in kept]
    feeds = len(case.graph.inputs) - case.states
    states = sum(1 for position in kept if feeds <= position < len(case.graph.inputs))
    order = sorted(range(len(kept)), key=lambda n: feeds <= kept[n] < len(case.graph.inputs))
    return replace(
        case,
        graph=live.with_parts(inputs=[inputs[n] for n in order]),
        arrays=tuple(arrays[kept[n]] for n in order),
        states=states,
    )


def _given(type_: TensorType) -> set[expressions.Dim]:
    """The symbols that an array of the type gives sizes: those that are a whole dim of it."""
    return {dim for dim in type_.shape if expressions.is_symbol(dim)}


def with_outputs(case: Case, outputs: Sequence[Value]) -> Case:
    """The case with other values of its graph as outputs."""
    graph = case.graph
    return _pruned(case, graph.with_parts(outputs=outputs), case.arrays)


def with_inputs(case: Case, cut: set[Value], values: dict[Value, Array]) -> Case | None:
    """The case with some values fed, not computed; None if an output is among them."""
    graph = case.graph
    if cut.intersection(graph.outputs):
        return None
    nodes = [node for node in graph.nodes if not cut.issuperset(node.outputs)]
    made = {value for node in nodes for value in node.outputs}
    read = dict.fromkeys(value for node in nodes for value in node.inputs)
    new = [value for value in read if value in cut and value not in made]
    if any(value in made for value in cut):
        return None
    inputs = (*graph.inputs, *new)
    arrays = (*case.arrays, *(values[value].copy() for value in new))
    return _pruned(case, graph.with_parts(inputs=inputs, nodes=nodes), arrays)


def bypassed(case: Case, node: Node, operand: Value) -> Case | None:
    """The case with an operand in place of a node's result; None if the types differ."""
    if len(node.outputs) > 1 or operand.type != node.output.type:
        return None
    graph = case.graph

    def changed(values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(operand if value is node.output else value for value in values)

    nodes = [replace(n, inputs=changed(n.inputs)) for n in graph.nodes if n is not node]
    changed_graph = graph.with_parts(nodes=nodes, outputs=changed(graph.outputs))
    return _pruned(case, changed_graph, case.arrays)


def with_symbol(case: Case, name: str, size: int) -> Case | None:
    """The case with the arrays cut where a symbol is their size; None if they are no larger."""
    arrays = []
    for value, array in zip(case.graph.inputs, case.arrays, strict=True):
        index = []
        for dim, extent in zip(value.shape, array.shape, strict=True):
            if expressions.is_symbol(dim):
                own = expressions.symbol_name(dim) == name
                if own and extent <= size:
                    return None
                index.append(slice(size if own else None))
            elif isinstance(dim, int):
                index.append(slice(None))
            else:
                return None
        arrays.append(array[tuple(index)].copy())
    return replace(case, arrays=tuple(arrays))


def with_size(case: Case, size: int, smaller: int) -> Case | None:
    """The case with a number in place of another in all shapes; None if that is no graph."""
    graph = case.graph
    renamed: dict[Value, Value] = {}
    inputs, arrays = [], []
    for value, array in zip(graph.inputs, case.arrays, strict=True):
        shape = tuple(smaller if dim == size else dim for dim in value.shape)
        renamed[value] = Value(value.type.with_shape(shape), value.name)
        inputs.append(renamed[value])
        index = tuple(slice(smaller if dim == size else None) for dim in value.shape)
        arrays.append(array[index].copy())
    nodes = []
    try:
        for node in graph.nodes:
            if node.regions:
                return None
            operands = [renamed[value] for value in node.inputs]
            attrs = {
                key: _resized(item, size, smaller) if key == "shape" else item
                for key, item in node.attrs.items()
            }
            new = make_node(node.op, operands, attrs, (), node.provenance)
            renamed.update(zip(node.outputs, new.outputs, strict=True))
            nodes.append(new)
    except (GraphcError, LookupError, ValueError):
        return None
    outputs = [renamed[value] for value in graph.outputs]
    made = Graph(graph.name, inputs, nodes, outputs)
    return replace(case, graph=made, arrays=tuple(arrays))


def _fitting(case: Case | None) -> Case | None:
    """The case, None if its sizes contradict each other.

    Types alone don't tell where a number was part of an expression of symbols.
    """
    try:
        if case is not None:
            case.interpreted()
    except (LookupError, ValueError, TypeError):
        return None
    return case


def _resized(item: Any, size: int, smaller: int) -> Any:
    if isinstance(item, tuple):
        return tuple(smaller if part == size else part for part in item)
    return item


def sizes(case: Case) -> Iterator[tuple[str, int]]:
    """What counts as the size of a case, for people."""
    yield "nodes", sum(1 for _ in case.graph.walk())
    yield "inputs", len(case.arrays)
    yield "elements", sum(array.size for array in case.arrays)


__all__ = ["Predicate", "reduce", "sizes", "with_inputs", "with_outputs", "with_size"]
