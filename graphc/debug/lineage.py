"""Following values through the passes: what stands for a value of the source graph at each stage.

Role: what ``explain`` and ``why_not_fused`` tell. Invariant: everything is read off the records of
a compilation; nothing is compiled again, and only fusion, which gives the members of a kernel new
values, is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from graphc.base.errors import GraphError, NameLookupError
from graphc.base.lazily import once
from graphc.base.options import Options
from graphc.base.source import Location
from graphc.base.target import Target
from graphc.base.words import known_names
from graphc.ir.graph import Graph, Node
from graphc.ir.text.printer import attribute_text
from graphc.ir.value import Value
from graphc.ops.fused import fused_op
from graphc.ops.lane_loops import runs_loops
from graphc.ops.source import constant_op
from passes.fusion.fusion import Fuser, fusion
from passes.fusion.groups import Group
from passes.infra.base import Decision, PassContext, has_open_regions, on_regions, open_nodes
from passes.infra.manager import PassRecord

_Place = tuple[object, int, int]


class Level:
    """One graph of a compilation, with its control flow, looked up by value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @once
    def producers(self) -> dict[Value, Node]:
        """Which node makes a value; bodies of kernels are closed."""
        return {value: node for node in open_nodes(self.graph) for value in node.outputs}

    @once
    def loops(self) -> dict[Value, Node]:
        """The fused node that computes a value in a loop of its own."""
        return {
            value: node
            for node in open_nodes(self.graph)
            if node.op is fused_op and runs_loops(node.regions[0])
            for inner in node.regions[0].walk()
            for value in inner.outputs
        }

    @once
    def inputs(self) -> set[Value]:
        """What comes into the graph and into the regions of its control flow."""
        return {value for graph, _, _ in self._graphs() for value in graph.inputs}

    @once
    def readers(self) -> dict[Value, list[Node]]:
        """Which nodes read a value."""
        result: dict[Value, list[Node]] = {}
        for node in open_nodes(self.graph):
            for value in dict.fromkeys(node.inputs):
                result.setdefault(value, []).append(node)
        return result

    @once
    def outputs(self) -> dict[_Place, Value]:
        """What each output of the graph and of each region is."""
        return {
            (owner, region, position): value
            for graph, owner, region in self._graphs()
            for position, value in enumerate(graph.outputs)
        }

    @once
    def is_output(self) -> dict[Value, list[_Place]]:
        """Which outputs a value is."""
        result: dict[Value, list[_Place]] = {}
        for place, value in self.outputs.items():
            result.setdefault(value, []).append(place)
        return result

    def _graphs(self) -> Iterator[tuple[Graph, object, int]]:
        yield self.graph, None, 0
        for node in open_nodes(self.graph):
            if has_open_regions(node):
                for number, region in enumerate(node.regions):
                    yield region, node.outputs[0], number

    def has(self, value: Value) -> bool:
        """Whether the graph knows the value."""
        return value in self.producers or value in self.inputs

    def expression(self, value: Value, depth: int = 4) -> str:
        """How a value is computed, as text: ``depth`` operations deep, … beyond."""
        # The recursion is as deep as asked for, whatever the graph.
        node = self.producers.get(value)
        if node is None:
            return value.name or f"{value.type}"
        if node.op is constant_op:
            array = node.attrs["value"].array
            return f"{array}" if array.ndim == 0 else value.name or f"constant {value.type}"
        if not depth:
            return value.name or "…"
        shown = [self.expression(operand, depth - 1) for operand in node.inputs[:4]]
        shown += ["…"] * (len(node.inputs) > 4)
        shown += [f"{key}={_attribute(node, key)}" for key in ("axis", "axes") if key in node.attrs]
        return f"{node.op.name}({', '.join(shown)})"


def _attribute(node: Node, key: str) -> str:
    return attribute_text(node.attrs[key])


@dataclass(frozen=True, slots=True)
class Change:
    """What a pass did to a value.

    Attributes:
        pass_name: the pass and its run, as in ``exe.passes``.
        rule: the rule or pass that did it.
        before, after: how it was computed, and is since.
        kind: ``rewritten`` (it is the same value, computed in another way), ``replaced`` (another
            value stands for it) or ``removed``.
    """

    pass_name: str
    rule: str
    before: str
    after: str
    kind: str

    def __str__(self) -> str:
        # required passes have no rules: what they did bears the name of the pass
        own = self.pass_name.partition("#")[0] == self.rule
        by = self.pass_name if own else f"{self.pass_name}, {self.rule}"
        return f"{by}: {self.before}  ->  {self.after}"


@dataclass(slots=True, eq=False)
class Lineage:
    """What became of a value up to fusion.

    Attributes:
        parts: the values that rewriting it has brought into the graph.
        value: the value of the source graph.
        where: the user's line.
        text: how it was built.
        current: what stands for it when fusion begins; None if it is gone.
        changes: what passes did to it.
        decisions: the decisions about it, and about what it was rewritten into, by pass.
    """

    value: Value
    where: Location | None
    text: str
    current: Value | None
    parts: set[Value] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    decisions: list[tuple[str, Decision]] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Its name or type, and the user's line."""
        name = f"{self.value.name!r} " if self.value.name is not None else ""
        place = f" at {self.where}" if self.where is not None else ""
        return f"{name}{self.value.type}{place}"


class History:
    """The stages of a compilation.

    Attributes:
        source: the user's graph, as extracted.
        fused_from: what fusion begins with.
        graph_passes: how many records there are before that of fusion.
    """

    def __init__(
        self,
        extracted: Graph,
        compiled: Graph,
        records: Sequence[PassRecord],
        place: Location | None,
    ) -> None:
        """Of a compilation of the graph ``compiled``, whose records these are.

        Equal graphs share a program, so the user's graph may be another one of the same structure.
        ``place`` is the line of whoever asks, for errors.
        """
        self.source = Level(extracted)
        self._place = place
        self._twin = dict(zip(_values(extracted), _values(compiled), strict=True))
        self._stages: list[tuple[PassRecord, Level, Level]] = []
        self._lost: list[dict[Value, tuple[str, Value]]] = []
        before = Level(compiled)
        lost: dict[Value, tuple[str, Value]] = {}
        for record in records:
            if record.name.partition("#")[0] == fusion.__name__:
                break
            if record.graph is before.graph:
                after = before
            else:
                after = Level(record.graph)
                lost = lost | _losses(before, after)
            self._stages.append((record, before, after))
            self._lost.append(lost)
            before = after
        self.fused_from = before
        self.graph_passes = len(self._stages)

    def find(self, item: Value | str) -> Value:
        """The value of the source graph that is meant.

        Raises:
            NameLookupError: no value, or more than one, has that name.
            GraphError: for a value that the fetches don't need.
        """
        known = [*self.source.inputs, *self.source.producers]
        if isinstance(item, str):
            found = [value for value in known if value.name == item]
            if len(found) == 1:
                return found[0]
            hint: str | None
            if not found:
                names = (value.name for value in known if value.name is not None)
                hint = known_names(item, names) or "its values have no names; give the value itself"
                message = f"no value of this program is called {item!r}"
            else:
                lines = ", ".join(str(self.where(value)) for value in found)
                hint = "use the value itself instead of its name"
                message = f"{len(found)} values are called {item!r}, built at {lines}"
            raise NameLookupError(message, where=self._place, hint=hint)
        if not isinstance(item, Value):
            raise GraphError(
                f"{item!r} is not a value", where=self._place, hint="give a value or its name"
            )
        if not self.source.has(item):
            raise GraphError(
                f"{item!r} is not computed by this program: its fetches don't need it",
                where=self._place,
                hint="print(exe.source) shows what it computes",
            )
        return item

    def where(self, value: Value) -> Location | None:
        """The user's line of a value of the source graph."""
        node = self.source.producers.get(value)
        return None if node is None else node.provenance.where

    def follow(self, value: Value) -> Lineage:
        """What became of a value of the source graph."""
        text = self.source.expression(value)
        lineage = Lineage(value, self.where(value), text, self._twin[value])
        for (record, before, after), lost in zip(self._stages, self._lost, strict=True):
            current = lineage.current
            if current is None:
                break
            about = {current, *lineage.parts}
            lineage.decisions += [(record.name, d) for d in record.decisions if d.value in about]
            if after is before:
                continue
            lineage.current = _stands_for(current, before, after)
            if lineage.current is None:
                rule, text = _removal(current, before, after, lost)
                lineage.changes.append(
                    Change(record.name, rule, before.expression(current), text, "removed")
                )
            elif lineage.current is not current:
                rule = _rule(record, current, record.name.partition("#")[0])
                other = after.producers.get(lineage.current)
                text = after.expression(lineage.current)
                if other is not None and other.provenance.where is not None:
                    text += f" of {other.provenance.where}"
                lineage.changes.append(
                    Change(record.name, rule, before.expression(current), text, "replaced")
                )
            else:
                old, new = before.producers.get(current), after.producers.get(current)
                if old is not None and new is not None and not _same(old, new):
                    lineage.parts |= _new_parts(new, before, after)
                    texts = before.expression(current), after.expression(current)
                    rule = _rule(record, current, new.provenance.cause)
                    lineage.changes.append(Change(record.name, rule, *texts, "rewritten"))
        return lineage

    def replay_fusion(self, options: Options, target: Target) -> FusionReplay:
        """The decisions of fusion once more, with what was refused."""
        spent = sum(1 for r, _, _ in self._stages for d in r.decisions if d.number)
        return FusionReplay(self.fused_from, PassContext(options, target, spent=spent))


def _values(graph: Graph) -> Iterator[Value]:
    """All values, regions included, in an order that equal graphs share."""
    yield from graph.inputs
    for node in graph.walk():
        yield from node.outputs
        for region in node.regions:
            yield from region.inputs


def _same(old: Node, new: Node) -> bool:
    """Whether a value is computed as before; other operands don't count, other attributes do."""
    return old.op is new.op and old.provenance is new.provenance


def _rule(record: PassRecord, value: Value, otherwise: str) -> str:
    """The last decision that a pass made about a value, if it made one."""
    made = [d.rule for d in record.decisions if d.value is value and d.number]
    return made[-1] if made else otherwise


def _losses(before: Level, after: Level) -> dict[Value, tuple[str, Value]]:
    """Operands that a rewritten node does not read any more: by which rule, and what it makes."""
    result: dict[Value, tuple[str, Value]] = {}
    for value, node in after.producers.items():
        old = before.producers.get(value)
        if old is None or old is node or _same(old, node):
            continue
        for operand in old.inputs:
            if all(operand is not kept for kept in node.inputs):
                result[operand] = (node.provenance.cause, value)
    return result


def _stands_for(value: Value, before: Level, after: Level) -> Value | None:
    """The value itself, or what those who read it read instead; None if it is gone.

    For what a loop computes inside of a kernel, it is the first result of that.
    """
    if after.has(value):
        return value
    for reader in before.readers.get(value, ()):
        now = after.producers.get(reader.outputs[0])
        if now is None or not _same(reader, now):
            continue
        for old, new in zip(reader.inputs, now.inputs, strict=True):
            if old is value and new.type == value.type:
                return new
    for place in before.is_output.get(value, ()):
        found = after.outputs.get(place)
        if found is not None:
            return found
    loop = after.loops.get(value)
    return None if loop is None else loop.outputs[0]


def _removal(
    value: Value, before: Level, after: Level, lost: dict[Value, tuple[str, Value]]
) -> tuple[str, str]:
    """Whose rewriting made a value superfluous: the rule, and what is computed instead."""
    seen = {value}
    pending = [value]
    for current in pending:
        found = lost.get(current)
        if found is not None:
            rule, reader = found
            if after.has(reader):
                return rule, f"nothing: {after.expression(reader)} does not need it"
        for node in before.readers.get(current, ()):
            fresh = [output for output in node.outputs if output not in seen]
            seen.update(fresh)
            pending.extend(fresh)
    return "dce", "nothing: nobody needs it"


def _new_parts(node: Node, before: Level, after: Level) -> set[Value]:
    """The values that a rewritten node brought into the graph."""
    found: set[Value] = set()
    pending = list(node.inputs)
    while pending:
        value = pending.pop()
        if value in found or before.has(value) or value not in after.producers:
            continue
        found.add(value)
        pending.extend(after.producers[value].inputs)
    return found


# --- fusion --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that could not join a group, or a group that could not be merged with its home."""

    node: Node
    group: Group
    reason: str


class FusionReplay:
    """The groups of fusion, in the graph and in its control flow.

    Attributes:
        group: the group of each value that a group makes.
        refusals: what was considered and not done.
    """

    def __init__(self, level: Level, context: PassContext) -> None:
        self.group: dict[Value, Group] = {}
        self.refusals: list[Refusal] = []

        def note(node: Node, group: Group, reason: str) -> None:
            self.refusals.append(Refusal(node, group, reason))

        def recorded(graph: Graph, context: PassContext) -> Graph:
            fuser = Fuser(graph, context, note)
            result = fuser.run()
            self.group.update(fuser.group)
            return result

        self.graph = on_regions(recorded)(level.graph, context)

    def now(self, group: Group) -> Group:
        """The group that has taken in another."""
        return self.group[group.nodes[0].outputs[0]]
