"""The values that a program really computes, those in between included.

Role: runs the nodes of a graph natively, some at a time, and gives all their values. Invariant:
compiled under ``numerics="strict"`` and without fast math a value has the same bits in whatever
group of nodes it is computed, so these are the bits of the whole strict program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.base.errors import UnsupportedError
from graphc.base.options import Options
from graphc.base.target import Target
from graphc.checking.interpreter import resolve
from graphc.compiling.compiler import compile_graph
from graphc.compiling.extraction import Extraction
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import DimExpr
from graphc.ir.equal import Structure, structure
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.source import constant_op
from graphc.runtime.program import Program

PART_NODES = 96
PART_BYTES = 64 << 20
"""A part of a graph is cut here, so that not all values of a large graph exist at once."""

LARGEST_BYTES = 1 << 30
"""A program may compute larger values without ever storing them; the audit would have to."""


def strict(options: Options) -> Options:
    """The options with nothing that may change bits."""
    return replace(
        options, numerics="strict", fast_math=frozenset(), fuel=None, dump=(), time=False
    )


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Consecutive nodes of a graph.

    Attributes:
        nodes: one node with regions, or several without.
        program: computes all values of the nodes but constants; None for a node with regions.
        inputs: what the program takes.
        outputs: what it gives.
        dying: values that nothing after this part reads.
    """

    nodes: tuple[Node, ...]
    program: Program | None
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    dying: tuple[Value, ...]

    def run(self, arrays: Mapping[Value, Array]) -> dict[Value, Array]:
        """The values of its nodes, constants included."""
        assert self.program is not None, "control flow is walked, not run"
        made = {node.output: node.attrs["value"].array for node in self.nodes if is_constant(node)}
        results = self.program.run([arrays[value] for value in self.inputs])
        return made | dict(zip(self.outputs, results, strict=True))


def is_constant(node: Node) -> bool:
    """True for nodes whose value is known without running anything."""
    return node.op is constant_op


class PartCompiler:
    """Cuts graphs and regions into parts and compiles them, each once."""

    def __init__(self, options: Options, target: Target, arguments: Mapping[Value, Array]) -> None:
        """``arguments`` are the audited graph's inputs, which bind the symbolic dims."""
        self._options = strict(options)
        self._target = target
        self.dims = {
            value: array
            for value, array in arguments.items()
            if any(isinstance(dim, DimExpr) for dim in value.shape)
        }
        self._parts: dict[Graph, tuple[Part, ...]] = {}
        self._programs: dict[Structure, Program] = {}

    def parts(self, graph: Graph, sizes: Mapping[str, int]) -> tuple[Part, ...]:
        """The graph in parts, in order.

        Raises:
            UnsupportedError: for a value too large to store.
        """
        known = self._parts.get(graph)
        if known is None:
            known = self._parts[graph] = tuple(self._cut(graph, sizes))
        return known

    def _cut(self, graph: Graph, sizes: Mapping[str, int]) -> list[Part]:
        groups: list[list[Node]] = []
        held = 0
        for node in graph.nodes:
            size = sum(int(resolve(value.type.bytes, sizes)) for value in node.outputs)
            if size > LARGEST_BYTES:
                raise UnsupportedError(
                    f"an audit stores every value, and this one has {size} bytes",
                    where=node.provenance.where,
                    node=repr(node),
                    hint="audit the program at smaller sizes",
                )
            full = not groups or len(groups[-1]) >= PART_NODES or held + size > PART_BYTES
            if full or node.regions or groups[-1][-1].regions:
                groups.append([])
                held = 0
            groups[-1].append(node)
            held += size
        last: dict[Value, int] = {}
        for position, group in enumerate(groups):
            for node in group:
                last.update(dict.fromkeys((*node.inputs, *node.outputs), position))
        for value in graph.outputs:
            last.pop(value, None)
        dying: list[list[Value]] = [[] for _ in groups]
        for value, position in last.items():
            dying[position].append(value)
        return [self._part(group, tuple(dead)) for group, dead in zip(groups, dying, strict=True)]

    def _part(self, nodes: Sequence[Node], dying: tuple[Value, ...]) -> Part:
        if nodes[0].regions:
            return Part(tuple(nodes), None, (), (), dying)
        inside = {value for node in nodes for value in node.outputs}
        read = {value: None for node in nodes for value in node.inputs if value not in inside}
        inputs = tuple(dict.fromkeys((*self.dims, *read)))
        outputs = tuple(v for node in nodes if not is_constant(node) for v in node.outputs)
        graph = Graph("part", inputs, nodes, outputs)
        # The audited program has checked guards and indices of the same numbers before, so no
        # error can arise that would have to name the right one of several equal parts.
        known = self._programs.get(structure(graph))
        if known is None:
            extraction = Extraction(graph, inputs, (), ())
            known = compile_graph(extraction, self._options, self._target).program
            self._programs[structure(graph)] = known
        return Part(tuple(nodes), known, inputs, outputs, dying)
