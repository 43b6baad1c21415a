"""Late pointwise work: what derivatives read is computed late, where fewer bytes are kept.

    %a, %d = gelu(%h), gelu'(%h)         %a = gelu(%h)
    ... what follows, and back ...   ->  ... what follows, and back ...
    %w = contract(%a, %g)                %a2, %d = gelu(%h), gelu'(%h)
    %e = multiply(%d, %g)                %w = contract(%a2, %g); %e = multiply(%d, %g)

A pointwise function and its derivative depend on the forward part alone, so fusion computes both
there, and what the backward part reads is kept until then: four values for each GELU. They are
functions of one value, their *root*. Where it takes at most half of their bytes, it is kept in
their place, or one of them is from which the others follow. The rest is computed again next to
what reads it; fusion keeps that out of kernels of the forward part. Bits are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from graphc.base.tuning.fusion import FUSION
from graphc.ir.dims.expressions import at_hint
from graphc.ir.graph import Graph, Node, distinct
from graphc.ir.value import Value
from graphc.ops.source import constant_op
from passes.infra.base import PassContext

SMALL = 16
"""A value of so many times fewer bytes than another counts for nothing beside it."""


def late_pointwise(graph: Graph, context: PassContext) -> Graph:
    """The graph with pointwise work moved or copied to where the backward part reads it; linear."""
    if not any(node.provenance.order for node in graph.nodes):
        return graph
    families = _Families(graph)
    moved = [
        late
        for family in families.found()
        if (late := families.late(family)) is not None
        and context.decide(late_pointwise.__name__, late.nodes[0])
    ]
    return _rewritten(graph, families, moved) if moved else graph


@dataclass(slots=True, eq=False)
class _Family:
    """The values that are functions of one root.

    Attributes:
        root: the value that they are functions of, beside small and constant ones.
        members: what makes them, in order.
        operands: of each member those that are of the family.
        read: those that the backward part reads.
        is_kept: whether some are kept until a product of the backward part, or its control flow,
            has run.
    """

    root: Value
    members: list[Node] = field(default_factory=list)
    operands: dict[Node, list[Value]] = field(default_factory=dict)
    read: dict[Value, None] = field(default_factory=dict)
    is_kept: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Late:
    """What of a family is computed late: these nodes, for these values."""

    nodes: Sequence[Node]
    values: frozenset[Value]


class _Families:
    """The families of a graph.

    Attributes:
        back: the nodes of derivatives that are not functions of the forward part by pointwise work.
    """

    def __init__(self, graph: Graph) -> None:
        self.back: set[Node] = set()
        self._free = set(graph.inputs)
        self._outputs = set(graph.outputs)
        self._bytes: dict[Value, int] = {}
        self._family: dict[Value, _Family] = {value: _Family(value) for value in graph.inputs}
        self._forward = set(graph.inputs)
        # what comes of products of the backward part, or of its control flow
        self._awaited: set[Value] = set()
        # what is made of small values and constants alone
        self._spread: dict[Value, Node] = {}
        self._place: dict[Node, int] = {}
        # the values whose memory reshapes show in another form
        self._memory: dict[Value, Value] = {}
        for node in graph.nodes:
            self._add(node)

    def found(self) -> Sequence[_Family]:
        """Those of which the backward part reads something, each once."""
        return [each for each in dict.fromkeys(self._family.values()) if each.is_kept]

    # --- building --------------------------------------------------------------------------------

    def _add(self, node: Node) -> None:
        if node.op is constant_op:
            self._forward.add(node.output)
            return
        lowering = node.op.lowering
        if lowering.keeps_memory:
            (source,) = node.inputs
            self._memory[node.output] = self._memory.get(source, source)
        repeats = (lowering.is_pointwise or lowering.is_view) and not node.may_fail
        # gx.checkpoint says by itself what is kept
        repeats = repeats and not node.provenance.checkpoints
        self._place[node] = len(self._place)
        known = all(value in self._forward for value in node.inputs)
        if node.provenance.order and not (repeats and known):
            self.back.add(node)
            self._note_read(node)
            return
        self._forward.update(node.outputs)
        large = self._large(node) if repeats else []
        if repeats and not large:
            self._spread[node.output] = node
            return
        families = [*{self._family[value]: None for value in large}]
        computed = [family for family in families if family.root not in self._free] or families
        if len(computed) == 1:
            (family,) = computed
            self._family[node.output] = family
            family.members.append(node)
            family.operands[node] = [v for v in large if self._family[v] is family]
        else:
            self._family.update((value, _Family(value)) for value in node.outputs)

    def _note_read(self, node: Node) -> None:
        """Notes what a node of the way back reads, and whether it waits for a product there."""
        waits = not self._awaited.isdisjoint(node.inputs)
        for value in distinct(node.inputs):
            if value in self._family:
                family = self._family[value]
                family.read[value] = None
                family.is_kept |= waits
        if waits or node.op.lowering.is_product or node.regions:
            self._awaited.update(node.outputs)

    def _large(self, node: Node) -> list[Value]:
        """The operands that are about as large as the result, constants aside."""
        own = self._size(node.output)
        return [
            value
            for value in distinct(node.inputs)
            if value in self._family and self._size(value) * SMALL > own
        ]

    def _size(self, value: Value) -> int:
        found = self._bytes.get(value)
        if found is None:
            found = self._bytes[value] = at_hint(value.type.bytes)
        return found

    # --- choosing --------------------------------------------------------------------------------

    def late(self, family: _Family) -> _Late | None:
        """What of a family is worth being computed late; None if nothing is."""
        now = self._kept(family.read)
        if now < FUSION.late_bytes or len(family.members) > FUSION.late_members:
            return None
        least, chosen = now // 2, None
        for source in (family.root, *(node.output for node in family.members)):
            made = self._made_from(source, family)
            kept = self._kept([source, *(value for value in family.read if value not in made)])
            if kept <= least:
                least, chosen = kept, source
        return None if chosen is None else self._late_from(chosen, family, now - least)

    def _kept(self, values: Iterable[Value]) -> int:
        """The bytes that are there late for the sake of these values alone."""
        stored = {self._memory.get(value, value) for value in values}
        return sum(self._size(value) for value in stored - self._free - self._outputs)

    def _made_from(self, source: Value, family: _Family) -> set[Value]:
        """The members that follow from one of the family."""
        made = {source}
        for node in family.members:
            if made.issuperset(family.operands[node]):
                made.add(node.output)
        made.discard(source)
        return made

    def _late_from(self, source: Value, family: _Family, saved: int) -> _Late | None:
        """What is computed late of one member, if that costs little for the bytes it saves."""
        made = self._made_from(source, family)
        wanted = frozenset(family.read) & made - self._outputs
        members = {node.output: node for node in family.members if node.output in made}
        nodes: set[Node] = set()
        pending = [*wanted]
        while pending:
            value = pending.pop()
            node = members.get(value) or self._spread.get(value)
            if node is not None and node not in nodes:
                nodes.add(node)
                pending += node.inputs
        work = sum(self._work(node) for node in nodes if not node.provenance.order)
        if not wanted or work > FUSION.late_work * saved:
            return None
        return _Late(sorted(nodes, key=self._place.__getitem__), wanted)

    def _work(self, node: Node) -> int:
        """Operations that a node takes."""
        if not node.op.lowering.is_pointwise:
            return 0
        each = FUSION.loop_function if node.op.is_heavy else 1
        return each * at_hint(node.output.type.size)


def _rewritten(graph: Graph, families: _Families, moved: Sequence[_Late]) -> Graph:
    """The graph in which the backward part reads what is computed for it."""
    order = _Order(families.back, moved)
    for node in graph.nodes:
        order.add(node)
    read = set(graph.outputs)
    kept: list[Node] = []
    replaced = {node for late in moved for node in late.nodes}
    for node in reversed(order.finished()):
        if node not in replaced or not read.isdisjoint(node.outputs):
            read.update(node.inputs)
            kept.append(node)
    return graph.rebuilt(kept[::-1])


class _Order:
    """The nodes of a graph in an order in which fusion computes late work beside its readers.

    That work joins the kernel of pointwise work that reads it. Others that read it, as a product
    does, read what that kernel stores, so they come after it, and so does what reads their results.
    """

    def __init__(self, back: Collection[Node], moved: Sequence[_Late]) -> None:
        self._back = back
        self._due = {value: late for late in moved for value in late.values}
        # copies of values, and of which work there are some
        self._copies: dict[Value, Value] = {}
        self._begun: set[_Late] = set()
        self._nodes: list[Node] = []
        self._joined = {
            late for node in back if node.op.lowering.is_pointwise for late in self._read(node)
        }
        # what waits for pointwise readers; a node waits for the last of those it has to wait for
        self._waiting: dict[_Late, list[Node]] = {}
        self._held: dict[Value, _Late] = {}

    def add(self, node: Node) -> None:
        """The next node."""
        read = self._read(node)
        held = {self._held[value] for value in node.inputs if value in self._held}
        if read and node.op.lowering.is_pointwise:
            self._release(held)
            self._emit(node)
            self._release(read)
            return
        ahead = [late for late in read if late in self._joined and late not in self._begun]
        held.update(ahead)
        if not held:
            self._emit(node)
            return
        for late in ahead:
            self._waiting.setdefault(late, [])
        last = [late for late in self._waiting if late in held][-1]
        self._waiting[last].append(node)
        self._held.update(dict.fromkeys(node.outputs, last))

    def finished(self) -> list[Node]:
        """All nodes."""
        self._release([*self._waiting])
        return self._nodes

    def _read(self, node: Node) -> list[_Late]:
        """The work of which a node reads values."""
        if node not in self._back:
            return []
        return [self._due[value] for value in node.inputs if value in self._due]

    def _release(self, lates: Collection[_Late]) -> None:
        """Lets those go on that wait for this work, and for what comes before it."""
        last = [place for place, late in enumerate(self._waiting) if late in lates]
        for late in [*self._waiting][: last[-1] + 1] if last else ():
            for node in self._waiting.pop(late):
                for value in node.outputs:
                    del self._held[value]
                self._emit(node)

    def _emit(self, node: Node) -> None:
        if self._read(node):
            for value in node.inputs:
                if value in self._due:
                    self._copy(value, self._due[value])
            node = node.with_inputs([self._copies.get(value, value) for value in node.inputs])
        self._nodes.append(node)

    def _copy(self, value: Value, late: _Late) -> None:
        """Copies what makes a value, as far as that is not done."""
        self._begun.add(late)
        if value in self._copies:
            return
        wanted = {value}
        nodes: list[Node] = []
        for node in reversed(late.nodes):
            if node.output in wanted and node.output not in self._copies:
                wanted.update(node.inputs)
                nodes.append(node)
        for node in reversed(nodes):
            old = node.output
            self._copies[old] = Value(old.type, old.name)
            self._nodes.append(
                replace(
                    node,
                    inputs=tuple([self._copies.get(v, v) for v in node.inputs]),
                    outputs=(self._copies[old],),
                    provenance=node.provenance.later(late_pointwise.__name__),
                )
            )


__all__ = ["late_pointwise"]
