"""Loop-invariant code: what every trip of a loop would compute alike is computed once before it.

    %3 = while(%i, %w) {                        %2 = exp(%w)
      body: %1 = exp(%w)                ->      %3 = while(%i, %w, %2) {
            %2 = add(%x, %1) ... }                body: %2 = add(%x, %e) ... }

A loop may run no trip at all, so only what cannot fail moves: no checks, no loops, nothing of
sizes that the loop has guards of.
And only what pays: matrix products, reductions, scans, branches and functions always do; arithmetic
does if its result takes no more memory than its operands, and a view if what reads it needs it in
memory. Scalars, counters, constants and other views stay, since kernels recompute them for nothing.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from graphc.ir.dims.expressions import DimExpr, at_hint
from graphc.ir.graph import Graph, Node
from graphc.ir.text.printer import symbols_of
from graphc.ir.value import Value
from graphc.ops.source import constant_op
from passes.control_flow.regions import captured_values, is_loop, with_captured
from passes.infra.base import PassContext, has_open_regions


def loop_invariants(graph: Graph, context: PassContext) -> Graph:
    """The graph with invariant nodes of its loops before them; linear."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if has_open_regions(node) and is_loop(node):
            nodes.extend(_with_invariants_outside(node, context))
        else:
            nodes.append(node)
    return graph.rebuilt(nodes)


def _with_invariants_outside(node: Node, context: PassContext) -> list[Node]:
    """What is computed before the loop, then the loop."""
    outside: list[Node] = []
    captured: list[tuple[int, Value, Value]] = []
    regions = list(node.regions)
    for number, region in enumerate(node.regions):
        given = captured_values(node, region)
        moved = _Invariants(region, given, context).moved
        if not moved:
            continue
        clones = _clones(region, given, moved, outside)
        kept = [inner for inner in region.nodes if inner not in moved]
        read = {value for inner in kept for value in inner.inputs} | set(region.outputs)
        for inner in region.nodes:
            if inner in moved:
                captured += [(number, v, clones[v]) for v in inner.outputs if v in read]
        regions[number] = region.with_parts(nodes=kept)
    return [*outside, with_captured(node, regions, captured)] if captured else [node]


def _clones(
    region: Graph, given: dict[Value, Value], moved: set[Node], outside: list[Node]
) -> dict[Value, Value]:
    """Appends what moves, and what that reads, as nodes outside; gives what stands for each."""
    needed = set(moved)
    wanted = {value for node in moved for value in node.inputs}
    for node in reversed(region.nodes):
        if any(value in wanted for value in node.outputs):
            needed.add(node)
            wanted.update(node.inputs)
    clones = dict(given)
    for node in region.nodes:
        if node in needed:
            outputs = tuple(Value(value.type, value.name) for value in node.outputs)
            clones.update(zip(node.outputs, outputs, strict=True))
            inputs = tuple(clones[value] for value in node.inputs)
            provenance = replace(node.provenance, cause="loop_invariants")
            outside.append(
                replace(node, inputs=inputs, outputs=outputs, provenance=provenance)
            )
    return clones


class _Invariants:
    """The nodes of a region that give the same in every trip.

    Attributes:
        moved: those that pay to be moved.
    """

    def __init__(self, region: Graph, given: dict[Value, Value], context: PassContext) -> None:
        self.moved: set[Node] = set()
        self._made: set[Value] = set()
        self._stored = {value: at_hint(value.type.bytes) for value in given}
        users = region.users()
        unsure = {symbol for guard in region.guards for symbol in guard.symbols}
        for node in region.nodes:
            if not all(value in self._stored for value in node.inputs) or not _movable(
                node, unsure
            ):
                continue
            stored = sum(self._stored[value] for value in dict.fromkeys(node.inputs))
            if self._pays(node, stored, users) and context.decide("loop_invariants", node):
                self.moved.add(node)
                self._made.update(node.outputs)
            for value in node.outputs:
                size = at_hint(value.type.bytes)
                # a value that is not stored costs at most what it is made from
                kept = node in self.moved or node.op is constant_op
                self._stored[value] = size if kept else min(size, stored)

    def _pays(self, node: Node, stored: int, users: dict[Value, list[Node]]) -> bool:
        if has_open_regions(node) or node.op.is_heavy:
            return True
        follows = any(value in self._made for value in node.inputs)
        if node.op.lowering.keeps_memory:
            return follows
        readers = users.get(node.output, ())
        # what is read from memory is made there, however cheap it would be
        if node.inputs and any(user.op.lowering.reads == "memory" for user in readers):
            return True
        if node.op.lowering.is_view or not node.inputs:
            return False
        if node.output.size == 1:
            return follows
        arithmetic = node.op.lowering.is_pointwise or node.op.lowering.is_move
        return arithmetic and at_hint(node.output.type.bytes) <= stored


def _movable(node: Node, unsure: Set[DimExpr]) -> bool:
    """True for what may run although the loop would not have run it.

    Sizes that are ``unsure`` are those that the loop checks: before it they may be of any kind.
    """
    if not has_open_regions(node):
        fails = node.may_fail or not unsure.isdisjoint(_symbols_of(node))
        return node.op.effect == "pure" and not node.regions and not fails
    if any(region.guards for region in node.regions):
        return False
    owners = (node, *(inner for region in node.regions for inner in region.walk()))
    return not any(
        is_loop(inner) if has_open_regions(inner) else not _movable(inner, unsure)
        for inner in owners
    )


def _symbols_of(node: Node) -> Set[DimExpr]:
    """The symbols of a node's shapes and attributes."""
    mentioned: list[object] = [value.shape for value in (*node.inputs, *node.outputs)]
    mentioned += node.attrs.values()
    return set[DimExpr]().union(*map(symbols_of, mentioned))
