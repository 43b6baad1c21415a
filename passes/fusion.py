"""Fusion: groups of operations become ``fused`` nodes, each of which will be one kernel.

    %1 = add(%0, %b)                    %2 = fused(%0, %b) {
    %2 = exp(%1)             ->           %2 = add(%0, %1); %3 = exp(%2); return %3
                                        }

One walk in topological order: a node joins the groups of its producers where one loop nest can
compute them all. Every group has a rank above those it reads from, which keeps groups free of
cycles without searching. Nothing is computed twice except scalars, views of scalars and counters.

Kinds of groups: ``map`` (pointwise work and views over one shape), ``rows`` (reductions of one axis
of one shape and the work around them, in stages) and ``single`` (matrix products, scans, scatters,
gathers of computed values: closed to others).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from graphc.ir.dims import product
from graphc.ir.edit import topological
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.op import (
    Contraction,
    Element,
    Pointwise,
    Reduction,
    Reshape,
    Scan,
    ScatterAdd,
    View,
)
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.fused import fused_op
from passes.base import PassContext

MAX_NODES = 96
"""Larger groups are cut: code size and compile time grow, speed does not."""


class _Group:
    """A group under construction."""

    __slots__ = ("axis", "has_dependents", "kind", "nodes", "rank", "rows", "shape")

    def __init__(self, kind: Literal["map", "rows", "single"], rank: int, shape: Shape) -> None:
        self.kind = kind
        self.rank = rank
        self.shape = shape
        self.axis = -1
        self.nodes: list[Node] = []
        self.rows: set[Value] = set()
        self.has_dependents = False


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.group: dict[Value, _Group] = {}
        self.rank: dict[Value, int] = {}
        self.cheap: dict[Value, Node] = {}
        self.outputs = set(graph.outputs)
        self.users = graph.users()
        self.position = {node.outputs[0]: n for n, node in enumerate(graph.nodes)}
        self.loose: list[Node] = []

    # --- the walk --------------------------------------------------------------------------------

    def run(self) -> Graph:
        for node in self.graph.nodes:
            lowering = node.op.lowering
            if self._is_cheap(node):
                self.cheap[node.output] = node
            elif isinstance(lowering, Pointwise):
                self._pointwise(node)
            elif isinstance(lowering, (View, Reshape)):
                self._view(node)
            elif isinstance(lowering, Reduction):
                self._reduction(node)
            elif isinstance(lowering, Element):
                self._start("map", node, node.output.shape)
            elif isinstance(lowering, (Contraction, Scan, ScatterAdd)):
                self._start("single", node, node.output.shape)
            else:
                self._outside(node)
        return self._rebuild()

    def _is_cheap(self, node: Node) -> bool:
        """Scalar constants, views of them, counters: cloned into every group that reads them."""
        if node.op.name == "constant":
            return node.output.shape == ()
        if isinstance(node.op.lowering, (View, Reshape)) or (
            isinstance(node.op.lowering, Element) and not node.inputs
        ):
            return all(value in self.cheap for value in node.inputs)
        return False

    def _pointwise(self, node: Node) -> None:
        joinable = [g for g in self._producers(node) if self._fits(g, node)]
        home = self._merge(node, joinable)
        if home is None:
            self._start("map", node, node.output.shape)
            return
        if home.kind == "rows" and self._gives_row(home, node):
            home.rows.add(node.output)
        self._join(home, node)

    def _view(self, node: Node) -> None:
        (source,) = node.inputs
        group = self.group.get(source)
        if group is None:
            if isinstance(node.op.lowering, Reshape):
                self._outside(node)
            else:
                self._start("map", node, node.output.shape)
            return
        if group.kind == "rows" and len(group.nodes) < MAX_NODES:
            if self._row_view(group, node):
                if self._gives_row(group, node):
                    group.rows.add(node.output)
                self._join(group, node)
                return
        elif group.kind == "map" and self._is_only_exit(group, node):
            group.shape = node.output.shape
            self._join(group, node)
            return
        if isinstance(node.op.lowering, Reshape):
            self._outside(node)
        else:
            self._start("map", node, node.output.shape)

    def _reduction(self, node: Node) -> None:
        (source,) = node.inputs
        axis: int = node.attrs["axis"]
        group = self.group.get(source)
        fits = (
            group is not None
            and len(group.nodes) < MAX_NODES
            and group.shape == source.shape
            and (
                group.kind == "map"
                or (group.kind == "rows" and group.axis == axis and source not in group.rows)
            )
            and self._can_take(group, node)
        )
        if fits and group is not None:
            group.kind = "rows"
        else:
            group = self._new("rows", node, source.shape)
        group.axis = axis
        group.rows.add(node.output)
        self._join(group, node)

    # --- legality --------------------------------------------------------------------------------

    def _fits(self, group: _Group, node: Node) -> bool:
        """True if one loop nest computes the group and this pointwise node."""
        if group.kind == "single" or len(group.nodes) >= MAX_NODES:
            return False
        shape = node.output.shape
        if group.kind == "map":
            return group.shape == shape
        if group.shape[group.axis] == 1:
            return False
        own = [value for value in node.inputs if self.group.get(value) is group]
        if shape == group.shape:
            kept = self._kept_shape(group)
            return all(value not in group.rows or self._aligned(value.shape, kept) for value in own)
        return all(value in group.rows and value.shape == shape for value in own)

    def _kept_shape(self, group: _Group) -> Shape:
        """The full shape with 1 in place of the reduced axis."""
        return (*group.shape[: group.axis], 1, *group.shape[group.axis + 1 :])

    @staticmethod
    def _aligned(shape: Shape, kept: Shape) -> bool:
        """True if a row value broadcasts so that each row reads its own element."""
        missing = len(kept) - len(shape)
        return (
            missing >= 0
            and all(dim == 1 for dim in kept[:missing])
            and all(a == b for a, b in zip(shape, kept[missing:], strict=True))
        )

    def _gives_row(self, group: _Group, node: Node) -> bool:
        """True if every operand that the group computes is a row value and so is the result."""
        own = [value for value in node.inputs if self.group.get(value) is group]
        return node.output.shape != group.shape and all(value in group.rows for value in own)

    def _row_view(self, group: _Group, node: Node) -> bool:
        """Reshapes between the row shapes, and broadcasts of a row to the full shape."""
        (source,) = node.inputs
        if source not in group.rows or group.shape[group.axis] == 1:
            return False
        kept, dropped = self._row_shapes(group)
        if isinstance(node.op.lowering, Reshape):
            return node.output.shape in (kept, dropped) and source.shape in (kept, dropped)
        return (
            node.op.name == "broadcast_to"
            and node.output.shape == group.shape
            and self._aligned(source.shape, kept)
        )

    def _is_only_exit(self, group: _Group, node: Node) -> bool:
        """True if all that leaves the group is what this view reads, and only the view reads it.

        Then the group can be computed at the view's index. Views that repeat elements would
        repeat the work.
        """
        if node.op.name == "broadcast_to" or len(group.nodes) >= MAX_NODES:
            return False
        drops = product(node.output.shape) != product(group.shape)
        for member in group.nodes:
            if member.op.checks_indices and drops:
                return False  # all its indices are checked, whatever part is looked at
            for value in member.outputs:
                if value in self.outputs:
                    return False
                for user in self.users.get(value, ()):
                    if user is node:
                        continue
                    inside = self.group.get(user.outputs[0])
                    if inside is not group:
                        return False
        return True

    def _can_take(self, group: _Group | None, node: Node) -> bool:
        """True if the node's other operands don't depend on the group, provably by rank."""
        if group is None:
            return False
        highest = max(
            (self.rank.get(v, -1) for v in node.inputs if self.group.get(v) is not group),
            default=-1,
        )
        if highest < group.rank:
            return True
        if not group.has_dependents:
            self._raise(group, highest + 1)
            return True
        return False

    def _merge(self, node: Node, candidates: Sequence[_Group]) -> _Group | None:
        """The group the node joins, after merging all candidates that can become one."""
        home: _Group | None = None
        for group in sorted(candidates, key=lambda g: -g.rank):
            if home is None:
                if self._can_take(group, node):
                    home = group
                continue
            if not self._mergeable(home, group):
                continue
            rows, other = (home, group) if home.kind == "rows" else (group, home)
            home = self._absorb(rows, other)
        return home

    def _mergeable(self, a: _Group, b: _Group) -> bool:
        """Same loops, or work on the rows of the other, and neither can depend on the other."""
        if len(a.nodes) + len(b.nodes) >= MAX_NODES:
            return False
        if a.kind == b.kind == "rows" and (a.axis != b.axis or not self._share_input(a, b)):
            return False  # without a common operand it would only keep both operands alive
        if a.shape != b.shape and not (self._works_on_rows(a, b) or self._works_on_rows(b, a)):
            return False
        if a.rank == b.rank:
            return True
        lower = a if a.rank < b.rank else b
        return not lower.has_dependents

    @staticmethod
    def _share_input(a: _Group, b: _Group) -> bool:
        """True if the groups read one value of the full shape together."""
        read = {v for n in a.nodes for v in n.inputs if v.shape == a.shape}
        return any(value in read for node in b.nodes for value in node.inputs)

    def _works_on_rows(self, group: _Group, rows: _Group) -> bool:
        """True if a map group has the shape of the other group's row values."""
        if group.kind != "map" or rows.kind != "rows" or rows.shape[rows.axis] == 1:
            return False
        return group.shape in self._row_shapes(rows)

    def _row_shapes(self, group: _Group) -> tuple[Shape, Shape]:
        """The shape of a row value with the reduced axis kept as 1, and dropped."""
        dropped = (*group.shape[: group.axis], *group.shape[group.axis + 1 :])
        return self._kept_shape(group), dropped

    def _absorb(self, home: _Group, other: _Group) -> _Group:
        if other.kind == "map" and home.kind == "rows" and other.shape != home.shape:
            home.rows |= {value for member in other.nodes for value in member.outputs}
        home.nodes += other.nodes
        home.rows |= other.rows
        home.has_dependents |= other.has_dependents
        for member in other.nodes:
            for value in member.outputs:
                self.group[value] = home
        self._raise(home, max(home.rank, other.rank))
        return home

    # --- upkeep ----------------------------------------------------------------------------------

    def _producers(self, node: Node) -> list[_Group]:
        found: list[_Group] = []
        for value in node.inputs:
            group = self.group.get(value)
            if group is not None and group not in found:
                found.append(group)
        return found

    def _raise(self, group: _Group, rank: int) -> None:
        group.rank = rank
        for member in group.nodes:
            for value in member.outputs:
                self.rank[value] = rank

    def _new(self, kind: Literal["map", "rows", "single"], node: Node, shape: Shape) -> _Group:
        rank = 1 + max((self.rank.get(value, -1) for value in node.inputs), default=-1)
        return _Group(kind, rank, shape)

    def _start(self, kind: Literal["map", "rows", "single"], node: Node, shape: Shape) -> None:
        self._join(self._new(kind, node, shape), node)

    def _join(self, group: _Group, node: Node) -> None:
        for value in node.inputs:
            producer = self.group.get(value)
            if producer is not None and producer is not group:
                producer.has_dependents = True
        group.nodes.append(node)
        for value in node.outputs:
            self.group[value] = group
            self.rank[value] = group.rank

    def _outside(self, node: Node) -> None:
        """A node that stays as it is: control flow, constants, reshapes of stored values."""
        for producer in self._producers(node):
            producer.has_dependents = True
        rank = 1 + max((self.rank.get(value, -1) for value in node.inputs), default=-1)
        for value in node.outputs:
            self.rank[value] = rank
        self.loose.append(node)

    # --- rebuilding ------------------------------------------------------------------------------

    def _rebuild(self) -> Graph:
        groups = list(dict.fromkeys(self.group.values()))
        fused = [self._fused(group) for group in groups]
        nodes = [*self.loose, *fused]
        needed = {value for node in nodes for value in node.inputs} | self.outputs
        # cheap values that someone needs in memory become kernels (or constants) of their own
        for value, node in reversed(self.cheap.items()):
            if value in needed:
                if node.op.name == "constant":
                    nodes.append(node)
                else:
                    own = _Group("map", 0, value.shape)
                    own.nodes.append(node)
                    nodes.append(self._fused(own))
        by_key = {node.outputs[0]: node for node in nodes}
        producer = {value: node.outputs[0] for node in nodes for value in node.outputs}
        nodes.sort(key=lambda node: self.position[node.outputs[0]])
        ordered = topological(nodes, by_key, producer)
        return Graph(self.graph.name, self.graph.inputs, ordered, self.graph.outputs)

    def _fused(self, group: _Group) -> Node:
        members = sorted(group.nodes, key=lambda node: self.position[node.outputs[0]])
        inside = {value for node in members for value in node.outputs}
        inner: dict[Value, Value] = {}
        inputs: list[Value] = []
        nodes: list[Node] = []

        def operand(value: Value, may_clone: bool) -> Value:
            if value not in inner:
                if value in self.cheap and value not in inside and may_clone:
                    self._clone(value, inner, nodes)
                else:
                    inner[value] = Value(value.type, value.name)
                    inputs.append(value)
            return inner[value]

        for node in members:
            clone = not isinstance(node.op.lowering, (Element, Contraction, Scan, ScatterAdd))
            operands = tuple(operand(value, clone) for value in node.inputs)
            outputs = tuple(Value(value.type, value.name) for value in node.outputs)
            inner.update(zip(node.outputs, outputs, strict=True))
            nodes.append(Node(node.op, operands, node.attrs, outputs, (), node.provenance))
        exits = [
            value
            for node in members
            for value in node.outputs
            if value in self.outputs
            or any(
                self.group.get(user.outputs[0]) is not group for user in self.users.get(value, ())
            )
        ]
        region = Graph("body", [inner[v] for v in inputs], nodes, [inner[v] for v in exits])
        lines = dict.fromkeys(n.provenance.where for n in members if n.provenance.where)
        first = members[-1].provenance.where
        parents = tuple(line for line in lines if line is not first)
        provenance = Provenance(first, "fusion", parents)
        return Node(fused_op, tuple(inputs), {}, tuple(exits), (region,), provenance)

    def _clone(self, value: Value, inner: dict[Value, Value], nodes: list[Node]) -> None:
        """A cheap value's definition, and those it needs, inside the region."""
        stack = [value]
        while stack:
            current = stack[-1]
            node = self.cheap[current]
            missing = [v for v in node.inputs if v not in inner]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if current in inner:
                continue
            inner[current] = Value(current.type, current.name)
            operands = tuple(inner[v] for v in node.inputs)
            nodes.append(
                Node(node.op, operands, node.attrs, (inner[current],), (), node.provenance)
            )


def fusion(graph: Graph, context: PassContext) -> Graph:
    """Groups the operations of one graph level; regions are handled by the pass manager."""
    return _Fuser(graph).run()
