"""Changes of a graph here and there, with its producers and users at hand.

Invariant: between calls every value has at most one producer, and use lists are exact. A node is
known by its first output, since nodes are immutable and get replaced when their operands change.
Guards of new nodes join those of the graph; none is ever dropped with the node that needed it.
A rewrite that keeps the type redefines the same Value, so users, fetches, names and diffs stay put.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from graphc.base.errors import VerifyError
from graphc.ir.attributes import Attributes
from graphc.ir.builder import building, make_node
from graphc.ir.graph import UNKNOWN, Graph, Node, Provenance
from graphc.ir.guard import Guard, merged
from graphc.ir.node_guards import bare, may_demand
from graphc.ir.op import OpDef
from graphc.ir.value import Value


class GraphEditor:
    """Edits one graph; ``finish()`` freezes the result.

    Attributes:
        cause: what new nodes give as their cause (a rule or pass name).
        records: new nodes keep their guards, since they are going to be recorded.
        producer: gives the node that makes a value; None for graph inputs.
    """

    def __init__(self, graph: Graph, cause: str = "edit", records: bool = False) -> None:
        self._graph = graph
        self._records = records
        self.cause = cause
        self._origin: Provenance = UNKNOWN
        self._nodes: dict[Value, Node] = {node.outputs[0]: node for node in graph.nodes}
        self._producer: dict[Value, Node] = dict(graph.producers)
        # passes ask for each operand: a method of Python takes three times as long
        self.producer: Callable[[Value], Node | None] = self._producer.get
        self._use_lists: dict[Value, dict[Value, None]] | None = None
        self.inputs: list[Value] = list(graph.inputs)
        self.outputs: list[Value] = list(graph.outputs)
        self._fetched: set[Value] = set(graph.outputs)
        self._guards: list[Guard] = []
        self._made: dict[Value, Node] = {}
        self._changed = False
        self._ordered = True

    # --- reading ---------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """A snapshot of all nodes; those of the original graph first, in its order."""
        return list(self._nodes.values())

    def is_fetched(self, value: Value) -> bool:
        """True if the value is a graph output."""
        return value in self._fetched

    def users(self, value: Value) -> list[Node]:
        """The nodes that read the value."""
        return [self._nodes[key] for key in self._users.get(value, ())]

    def only_user(self, value: Value) -> Node | None:
        """The one node that reads the value; None if none or several do, or it is an output."""
        users = self._users.get(value, {})
        if len(users) != 1 or value in self._fetched:
            return None
        return self._nodes[next(iter(users))]

    def is_used(self, value: Value) -> bool:
        """True if a node reads the value or it is a graph output."""
        return bool(self._users.get(value)) or value in self._fetched

    def alive(self, node: Node) -> bool:
        """True while exactly this node stands in the graph."""
        return self._nodes.get(node.outputs[0]) is node

    def take_made(self) -> list[Node]:
        """The nodes added or changed since the last call, that still stand."""
        made, self._made = self._made, {}
        return [node for node in made.values() if self.alive(node)]

    # --- writing ---------------------------------------------------------------------------------

    @contextmanager
    def rewriting(
        self, node: Node | None, cause: str | None = None, derives: bool = False
    ) -> Iterator[None]:
        """Makes this editor the current builder; new nodes inherit the node's source line.

        They stand for the node, or, if it ``derives``, for its derivative.
        """
        previous = self._origin, self.cause
        origin = node.provenance if node is not None else UNKNOWN
        self._origin = origin.derived() if derives else origin
        self.cause = cause if cause is not None else self.cause
        try:
            with building(self):
                yield
        finally:
            self._origin, self.cause = previous

    def add(
        self,
        op: OpDef,
        inputs: Sequence[Value],
        attrs: Attributes,
        regions: Sequence[Graph] = (),
        name: str | None = None,
    ) -> Node:
        """Adds a node; its provenance is that of the node being rewritten, with this cause."""
        provenance = self._origin.by(self.cause)
        node = self._bare(make_node(op, inputs, attrs, regions, provenance, name=name))
        self._enter(node)
        return node

    def home(self, inputs: Sequence[Value]) -> GraphEditor:
        """While an editor is current it gets every node."""
        return self

    def put(self, node: Node) -> None:
        """Enters a ready node, in place of the one with the same first output, if any."""
        old = self._nodes.get(node.outputs[0])
        if (
            old is not None
            and old.outputs is node.outputs
            and {*map(id, old.inputs)} == {*map(id, node.inputs)}
        ):
            # all readers and the order stay as they are; operands that change places broadcast
            # as they did
            alike = old.op is node.op and old.attrs is node.attrs
            self._stand(node if alike else self._bare(node))
            return
        if old is not None:
            self._unlink(old)
        self._enter(self._bare(node))

    def require(self, guards: Iterable[Guard]) -> None:
        """Further guards of the graph, which come with nodes of another one."""
        self._guards += guards

    def redefine(
        self, value: Value, op: OpDef, inputs: Sequence[Value], attrs: Attributes
    ) -> Node:
        """Makes a single-output value be computed by another op; users don't notice."""
        old = self.producer(value)
        if any(value is given for given in self.inputs) or (
            old is not None and len(old.outputs) > 1
        ):
            raise VerifyError(f"{self.cause} redefines a graph input or one of several outputs")
        origin = old.provenance if old is not None else self._origin
        provenance = origin.by(self.cause)
        node = make_node(op, inputs, attrs, (), provenance)
        if node.output.type != value.type:
            raise VerifyError(
                f"{self.cause} turns a value of type {value.type} into {node.output.type}"
            )
        self.put(replace(node, outputs=(value,)))
        return self._nodes[value]

    def substitute(self, old: Value, new: Value) -> None:
        """Everyone who read ``old`` now reads the equal ``new``.

        Where ``new`` was made just now and nobody else reads it, ``old`` takes over its
        definition instead, and so keeps its identity and name.
        """
        if old is new:
            return
        if old.type != new.type:
            raise VerifyError(f"{self.cause} replaces {old.type} by {new.type}")
        node = self.producer(new)
        fresh = (
            node is not None
            and len(node.outputs) == 1
            and self._made.get(new) is node
            and not self.is_used(new)
            and old in self._nodes
            and len(self._nodes[old].outputs) == 1
        )
        if fresh and node is not None:
            self.remove(node)
            self.put(replace(node, outputs=(old,)))
            return
        for user in self.users(old):
            self.put(user.with_inputs([new if value is old else value for value in user.inputs]))
        if old in self._fetched:
            self._fetched.discard(old)
            self._fetched.add(new)
            self.outputs = [new if output is old else output for output in self.outputs]
            self._changed = True

    def remove(self, node: Node) -> None:
        """Takes out a node that nobody reads."""
        if not self.alive(node):
            raise VerifyError(f"{self.cause} removes a node that no longer stands: {node!r}")
        for value in node.outputs:
            if self.is_used(value):
                raise VerifyError(f"{self.cause} removes a node that is still read: {node!r}")
        self._forget(node)

    def remove_unused(self, root: Node) -> None:
        """Takes out a node if nobody reads it, and what only it read."""
        stack = [root]
        while stack:
            node = stack.pop()
            if not self.alive(node) or any(self.is_used(value) for value in node.outputs):
                continue
            self.remove(node)
            producers = (self.producer(value) for value in node.inputs)
            stack.extend(producer for producer in producers if producer is not None)

    def supplant(self, node: Node, new: Value) -> None:
        """An equal value takes the place of the node's only one; what only the node read goes."""
        self.substitute(node.output, new)
        for old in (node, *map(self.producer, node.inputs)):
            if old is not None:
                self.remove_unused(old)

    def finish(self) -> Graph:
        """The edited graph, in topological order; the identical one if nothing changed."""
        ends = [*self.inputs, None, *self.outputs]
        original = [*self._graph.inputs, None, *self._graph.outputs]
        same_ends = len(ends) == len(original) and all(map(operator.is_, ends, original))
        if not self._changed and same_ends:
            return self._graph
        nodes = list(self._nodes.values())
        if not self._ordered:
            nodes = topological(nodes)
        guards = self._graph.guards
        if self._guards:
            guards = merged((*guards, *self._guards))
        return Graph(self._graph.name, self.inputs, nodes, self.outputs, guards)

    # --- upkeep ----------------------------------------------------------------------------------

    @property
    def _users(self) -> dict[Value, dict[Value, None]]:
        """The nodes that read each value, by their keys; made when first needed."""
        if self._use_lists is None:
            self._use_lists = {}
            for key, node in self._nodes.items():
                for value in node.inputs:
                    self._use_lists.setdefault(value, {})[key] = None
        return self._use_lists

    def _bare(self, node: Node) -> Node:
        """The node without guards, which join those of the graph."""
        if self._records:
            return node
        if may_demand(node):
            node, guards = bare(node)
            self._guards += guards
        return node

    def _enter(self, node: Node) -> None:
        key = node.outputs[0]
        users = self._users
        for value in node.outputs:
            if value in self._producer:
                raise VerifyError(f"{self.cause} gives {value!r} a second producer: {node!r}")
        for value in node.inputs:
            users.setdefault(value, {})[key] = None
        self._stand(node)
        self._ordered = False

    def _stand(self, node: Node) -> None:
        """From now on this is the node that makes its values."""
        key = node.outputs[0]
        self._nodes[key] = self._made[key] = node
        for value in node.outputs:
            self._producer[value] = node
        self._changed = True

    def _forget(self, node: Node) -> None:
        self._unlink(node)
        del self._nodes[node.outputs[0]]

    def _unlink(self, node: Node) -> None:
        # Leaves the entry, so that the node that takes its place stands where it stood.
        key = node.outputs[0]
        use_lists = self._users
        for value in node.outputs:
            self._producer.pop(value, None)
        for value in node.inputs:
            users = use_lists.get(value)
            if users is not None:
                users.pop(key, None)
        self._changed = True


def topological(nodes: Sequence[Node]) -> list[Node]:
    """Producers before consumers, otherwise in the order given; depth-first without recursion.

    Raises:
        VerifyError: for a cycle.
    """
    waiting = {value: node for node in nodes for value in node.outputs}
    open_: set[Node] = set()
    order: list[Node] = []
    for root in nodes:
        if root.outputs[0] not in waiting:
            continue
        if waiting.keys().isdisjoint(root.inputs):
            order.append(root)
            for value in root.outputs:
                del waiting[value]
            continue
        stack: list[tuple[Node, Iterator[Value]]] = [(root, iter(root.inputs))]
        while stack:
            node, operands = stack[-1]
            for value in operands:
                if value in waiting:
                    producer = waiting[value]
                    open_.add(node)
                    if producer in open_:
                        raise VerifyError(f"the graph has a cycle through {producer!r}")
                    stack.append((producer, iter(producer.inputs)))
                    break
            else:
                stack.pop()
                open_.discard(node)
                order.append(node)
                for value in node.outputs:
                    del waiting[value]
    return order
