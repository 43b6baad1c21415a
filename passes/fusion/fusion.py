"""Fusion: groups of operations become ``fused`` nodes, each of which is lowered as one kernel.

    %1 = add(%0, %b)                    %2 = fused(%0, %b) {
    %2 = exp(%1)             ->           %2 = add(%0, %1); %3 = exp(%2); return %3
                                        }

One walk in topological order: a node joins the groups of its producers where one loop nest can
compute them all. Then groups that read an operand together become one, so that it is read once.
Nothing is computed twice except scalars, views of scalars and counters. ``groups`` says what
may join what; each joining and each merging is a decision of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphc.base.tuning.fusion import FUSION
from graphc.ir.edit import topological
from graphc.ir.graph import Graph, Node, distinct
from graphc.ir.lowering import Reads
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.fusion_contract import JOINING, OPERANDS, Kind
from graphc.ops.move.joining import concatenate_op
from graphc.ops.move.placing import join_slices_op, place_slice_op
from graphc.ops.move.shape import transpose_op
from graphc.ops.source import constant_op
from passes.fusion.bodies import Bodies
from passes.fusion.groups import (
    CYCLE,
    Group,
    are_pieces,
    covers,
    interleaves,
    late_obstacle,
    merge_obstacle,
    place_obstacle,
    pointwise_obstacle,
    product_obstacle,
    reduction_obstacle,
    view_obstacle,
)
from passes.infra.base import PassContext

FUSE, MERGE, SIBLINGS, JOIN = "fuse", "fuse-merge", "fuse-siblings", "fuse-join"
PARTS = frozenset({FUSE, MERGE, SIBLINGS, JOIN})
"""A node joins the group of a producer; a node makes one group of two producers' groups; groups
that read an operand together become one; a group that makes all pieces of a whole makes that."""

Refused = Callable[[Node, Group, str], None]
"""Is told the node that could not join, the group, and why."""


class Fuser:
    """Groups the nodes of one graph.

    Attributes:
        group: the group of each value that a group makes.
    """

    def __init__(self, graph: Graph, context: PassContext, refused: Refused | None = None) -> None:
        self.graph = graph
        self.context = context
        self.group: dict[Value, Group] = {}
        self._refused = refused
        self._rank: dict[Value, int] = {}
        self._cheap: dict[Value, Node] = {}
        self._outputs = set(graph.outputs)
        self._users = graph.users()
        self._position = {
            value: n for n, node in enumerate(graph.nodes) for value in node.outputs
        }
        self._loose: list[Node] = []

    # --- the walk --------------------------------------------------------------------------------

    def run(self) -> Graph:
        """The graph of fused nodes."""
        for node in self.graph.nodes:
            if self._is_cheap(node):
                self._cheap[node.output] = node
            elif node.op is place_slice_op:
                self._place(node)
            else:
                _JOINING[node.op.lowering.reads](self, node)
        self._merge_siblings()
        self._take_joins()
        return self._rebuild()

    def _is_cheap(self, node: Node) -> bool:
        """Scalar constants, views of them, counters: cloned into every group that reads them."""
        if node.op is constant_op:
            return node.output.shape == ()
        lowering = node.op.lowering
        if lowering.is_view or (lowering.is_move and not node.inputs):
            return all(value in self._cheap for value in node.inputs)
        return False

    def _pointwise(self, node: Node) -> None:
        home: Group | None = None
        producers = self._producers(node)
        if len(producers) > 1:
            producers.sort(key=lambda group: -group.rank)
        for group in producers:
            # in a map of one shape it doesn't matter what makes the operands
            alike = group.kind == "map" and group.shape == node.output.shape
            own = [] if alike else self._made_by(group, node)
            obstacle = pointwise_obstacle(group, node, own)
            if obstacle is None:
                if home is None:
                    obstacle = self._dependence(group, node)
                    if obstacle is None and self.context.decide(FUSE, node):
                        home = group
                        _stretch(home, node.output.shape)
                else:
                    obstacle = self._merge_for(node, home, group)
                    if obstacle is None:
                        home = self._present(home)
            self._note(node, group, obstacle)
        if home is None:
            self._alone(node)
            return
        self._join(home, node)

    def _merge_for(self, node: Node, home: Group, group: Group) -> str | None:
        """Merges two groups that the node reads, or says why not; fuel may end it silently."""
        before = group.shape, group.stretched
        _stretch(group, node.output.shape)
        obstacle = late_obstacle(group, node) or merge_obstacle(home, group)
        if obstacle is None and self.context.decide(MERGE, node):
            self._merged(home, group)
        else:
            group.shape, group.stretched = before
        return obstacle

    def _view(self, node: Node) -> None:
        (source,) = node.inputs
        group = self.group.get(source)
        if group is not None:
            obstacle = view_obstacle(group, node, 1) or self._dependence(group, node)
            self._note(node, group, obstacle)
            if obstacle is None and self.context.decide(FUSE, node):
                if group.kind != "rows":
                    group.shape = node.output.shape
                self._join(group, node)
                return
        if node.op.lowering.keeps_memory:
            self._outside(node)
        else:
            self._alone(node)

    def _reduction(self, node: Node) -> None:
        (source,) = node.inputs
        group = self.group.get(source)
        if group is not None:
            obstacle = reduction_obstacle(group, node) or self._dependence(group, node)
            self._note(node, group, obstacle)
            if obstacle is not None or not self.context.decide(FUSE, node):
                group = None
        if group is None:
            group = self._new("rows", node, source.shape)
        group.kind = "rows"
        group.axis = node.attrs["axis"]
        self._join(group, node)

    def _stored(self, node: Node) -> None:
        """A node that reads from memory: a product with what makes its left operand, or alone."""
        group = self.group.get(node.inputs[0])
        if group is not None and node.op.lowering.is_product:
            obstacle = product_obstacle(group, node)
            if obstacle is None and self.group.get(node.inputs[1]) is group:
                obstacle = OPERANDS
            obstacle = obstacle or self._dependence(group, node)
            self._note(node, group, obstacle)
            if obstacle is None and self.context.decide(FUSE, node):
                group.kind = "pair"
                self._join(group, node)
                return
        self._alone(node)

    def _place(self, node: Node) -> None:
        """With what makes the piece; else a kernel of its own that copies it to its slice."""
        (piece,) = node.inputs
        group = self.group.get(piece)
        if group is not None:
            obstacle = place_obstacle(group, node)
            self._note(node, group, obstacle)
            if obstacle is None and self.context.decide(FUSE, node):
                self._join(group, node)
                return
        self._start("map", node, piece.shape)

    def _merge_siblings(self) -> None:
        """Groups that read a value of their whole shape together become one.

        Only when all groups are complete: what they make is then stored in any case. A value that
        could be computed where it is used is not stored for the sake of a common operand.
        """
        readers: dict[Value, list[Group]] = {}
        groups = list(dict.fromkeys(self.group.values()))
        for group in groups:
            for node in group.nodes:
                for value in node.inputs:
                    if value in group.reads and covers(value.shape, group.shape):
                        found = readers.setdefault(value, [])
                        if not found or found[-1] is not group:
                            found.append(group)
        for first, *others in readers.values():
            home = self._present(first)
            for reader in others:
                group = self._present(reader)
                if group is home:
                    continue
                obstacle = merge_obstacle(home, group)
                if obstacle is None and _worth_merging(home, group):
                    if not self.context.decide(SIBLINGS, group.nodes[-1]):
                        return
                    home = self._merged(home, group)
                else:
                    home = group

    def _take_joins(self) -> None:
        """Groups that make all pieces of a whole make the whole, so that one loop stores them.

        Only when all groups are complete: nothing else reads pieces, so nothing becomes a circle.
        Maps that make one piece each become one group where elements of the pieces take turns.
        """
        for node in [node for node in self._loose if node.op is join_slices_op]:
            if any(user.op is join_slices_op for user in self._users.get(node.output, ())):
                # a kernel stores slices of one axis
                continue
            groups = self._producers(node)
            if not self.group.keys() >= set(node.inputs) or groups[0].kind not in JOINING:
                continue
            if len(groups) > 1 and not (interleaves(node) and are_pieces(groups, len(node.inputs))):
                continue
            if self.context.decide(JOIN, node):
                home = groups[0]
                for other in groups[1:]:
                    home = self._merged(home, other)
                self._loose.remove(node)
                self._join(home, node)

    def _present(self, group: Group) -> Group:
        """The group that has taken this one in, or the group itself."""
        return self.group[group.nodes[-1].outputs[0]]

    # --- decisions -------------------------------------------------------------------------------

    def _note(self, node: Node, group: Group, obstacle: str | None) -> None:
        if obstacle is not None and self._refused is not None:
            self._refused(node, group, obstacle)

    def _dependence(self, group: Group, node: Node) -> str | None:
        """None if the node's other operands provably don't depend on the group, and it has not to
        wait for more than they do."""
        obstacle = late_obstacle(group, node)
        if obstacle is not None:
            return obstacle
        highest = -1
        for value in node.inputs:
            other = self.group.get(value)
            if other is not group:
                rank = self._rank.get(value, -1) if other is None else other.rank
                highest = max(highest, rank)
        if highest < group.rank:
            return None
        if group.has_dependents:
            return CYCLE
        group.rank = highest + 1
        return None

    # --- upkeep ----------------------------------------------------------------------------------

    def _producers(self, node: Node) -> list[Group]:
        found: list[Group] = []
        for value in node.inputs:
            group = self.group.get(value)
            if group is not None and group not in found:
                found.append(group)
        return found

    def _made_by(self, group: Group, node: Node) -> list[Value]:
        return [value for value in node.inputs if self.group.get(value) is group]

    def _rank_of(self, value: Value) -> int:
        group = self.group.get(value)
        return self._rank.get(value, -1) if group is None else group.rank

    def _new(self, kind: Kind, node: Node, shape: Shape) -> Group:
        return Group(kind, 1 + max(map(self._rank_of, node.inputs), default=-1), shape)

    def _alone(self, node: Node) -> None:
        """Starts a group of the kind of kernel that the node makes by itself."""
        kind = node.op.lowering.kernel
        assert kind is not None
        self._start(kind, node, node.outputs[0].shape)

    def _start(self, kind: Kind, node: Node, shape: Shape) -> None:
        self._join(self._new(kind, node, shape), node)

    def _join(self, group: Group, node: Node) -> None:
        for value in distinct(node.inputs):
            producer = self.group.get(value)
            if producer is group:
                group.exits -= 1
                continue
            group.reads.add(value)
            if producer is not None:
                producer.has_dependents = True
        group.take(node)
        group.nodes.append(node)
        group.may_fail |= node.may_fail
        made = node.provenance
        group.order = min(group.order, made.order)
        if made.order and made.is_late:
            group.late = max(group.late, made.order)
        group.chooses |= node.op is concatenate_op
        group.transposes |= node.op is transpose_op
        for value in node.outputs:
            self.group[value] = group
            group.exits += len(self._users.get(value, ())) + (value in self._outputs)

    def _merged(self, a: Group, b: Group) -> Group:
        """One group of two."""
        home, other = (b, a) if a.kind == "map" else (a, b)
        home.nodes += other.nodes
        home.roles |= other.roles
        home.exits += other.exits
        home.reads |= other.reads
        home.has_dependents |= other.has_dependents
        home.product = home.product or other.product
        home.may_fail |= other.may_fail
        home.stretched |= other.stretched
        home.chooses |= other.chooses
        home.transposes |= other.transposes
        home.rank = max(home.rank, other.rank)
        home.order = min(home.order, other.order)
        home.late = max(home.late, other.late)
        for member in other.nodes:
            for value in member.outputs:
                self.group[value] = home
        return home

    def _outside(self, node: Node) -> None:
        """A node that stays as it is: control flow, constants, reshapes of stored values."""
        for producer in self._producers(node):
            producer.has_dependents = True
        rank = 1 + max(map(self._rank_of, node.inputs), default=-1)
        for value in node.outputs:
            self._rank[value] = rank
        self._loose.append(node)

    # --- rebuilding ------------------------------------------------------------------------------

    def _rebuild(self) -> Graph:
        groups = list(dict.fromkeys(self.group.values()))
        bodies = Bodies(self._cheap)
        # what nobody reads is left where dce is switched off; it makes no kernel
        for group in groups:
            if group.exits:
                self._fused(group, bodies)
        needed = {value for node in self._loose for value in node.inputs}
        needed.update(self._outputs)
        # cheap values that someone needs in memory become kernels, or constants, of their own
        computed = needed | bodies.reads
        for value, node in self._cheap.items():
            if value in computed and node.op is not constant_op:
                own = Group("map", 0, value.shape)
                own.nodes.append(node)
                self._fused(own, bodies)
        needed |= bodies.reads
        constants = (node for value, node in self._cheap.items() if value in needed)
        nodes = [*self._loose, *bodies.fused()]
        nodes += [node for node in constants if node.op is constant_op]
        nodes.sort(key=lambda node: self._position[node.outputs[0]])
        return self.graph.with_parts(nodes=topological(nodes))

    def _fused(self, group: Group, bodies: Bodies) -> None:
        members = sorted(group.nodes, key=lambda node: self._position[node.outputs[0]])
        own = {value for node in members for value in node.outputs}
        exits = [
            value
            for node in members
            for value in node.outputs
            if value in self._outputs
            or any(user.outputs[0] not in own for user in self._users.get(value, ()))
        ]
        bodies.add(members, exits)


_JOINING: Mapping[Reads | None, Callable[[Fuser, Node], None]] = {
    "same": Fuser._pointwise,
    "moved": Fuser._view,
    "picked": Fuser._alone,
    "row": Fuser._reduction,
    "memory": Fuser._stored,
    None: Fuser._outside,
}
"""What a node may join, by how it reads its operands."""


def _stretch(group: Group, shape: Shape) -> None:
    """Has a map computed at each element of a shape that it broadcasts to."""
    if group.kind == "map" and group.shape != shape:
        group.shape, group.stretched = shape, True


def _worth_merging(a: Group, b: Group) -> bool:
    """False where whole-array work would be cut into blocks or short rows, or go along columns."""
    if a.kind == b.kind:
        return True
    if "product" in (a.kind, b.kind):
        return False
    rows = a if a.kind == "rows" else b
    length = rows.shape[rows.axis]
    is_long = not isinstance(length, int) or length >= FUSION.long_row
    return rows.axis == len(rows.shape) - 1 and is_long


def fusion(graph: Graph, context: PassContext) -> Graph:
    """Groups the operations of one graph level; regions are handled by the pass manager."""
    return Fuser(graph, context).run()
