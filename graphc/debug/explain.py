"""What the compiler did to a value, and why two values are not computed by one kernel.

    print(exe.explain("loss"))
    print(exe.why_not_fused(a, b))

Invariant: what is said is read off the records, the plan and a replay of fusion with its own
predicates; nothing is guessed from the looks of a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from graphc.base.options import Options
from graphc.base.source import Location
from graphc.base.words import plural
from graphc.compiling.compiled import Compiled
from graphc.debug.lineage import Change, History, Level, Lineage
from graphc.ir.dims.expressions import at_hint
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.lower.estimate import Groups
from graphc.ops.fused import fused_op
from graphc.ops.fusion_contract import OPERANDS
from graphc.ops.move.placing import join_slices_op
from graphc.ops.source import constant_op
from graphc.plan.ir import Launch
from passes.fusion.fusion import PARTS
from passes.fusion.groups import CLOSED, Group, merge_obstacle
from passes.infra.base import Decision


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the compiler did to a value; its text is a report.

    Attributes:
        label: its name or type, and the user's line.
        where: the user's line; None for feeds and variables.
        built: how the user's graph computes it.
        changes: what passes did to it, in order.
        decisions: the decisions about it, and about what it was rewritten into, by pass.
        kernel: which kernel computes it, or why none does.
        memory: where it lives.
        again: for whom it is made again instead of being kept, and what that saves and costs.
        schedule: for each loop of that kernel how it is carried out, and why not otherwise.
    """

    label: str
    where: Location | None
    built: str
    changes: tuple[Change, ...]
    decisions: tuple[tuple[str, Decision], ...]
    kernel: str
    memory: str
    schedule: tuple[str, ...] = ()
    again: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.label, f"  built: {self.built}"]
        lines += [f"  {change}" for change in self.changes]
        if self.decisions:
            lines.append("  decisions:")
            lines += [f"    {line}" for line in _merged(self.decisions)]
        lines.append(f"  kernel: {self.kernel}")
        lines += [f"    {line}" for line in self.schedule]
        lines.append(f"  memory: {self.memory}")
        lines += [f"    {line}" for line in self.again]
        return "\n".join(lines)


def _merged(decisions: Iterable[tuple[str, Decision]]) -> list[str]:
    """A line for each decision; those that differ in nothing but their number share one."""
    alike: dict[tuple[str, str], list[int]] = {}
    for name, decision in decisions:
        text = str(replace(decision, number=0)).removesuffix(", #0")
        alike.setdefault((name, text), []).append(decision.number)
    lines = []
    for (name, text), numbers in alike.items():
        times = f", {len(numbers)} times" if len(numbers) > 1 else ""
        spent = ", ".join(f"#{number}" for number in numbers if number)
        lines.append(f"{name} | {text}{times}{f', {spent}' if spent else ''}")
    return lines


@dataclass(frozen=True, slots=True)
class Fusion:
    """Whether one kernel computes two values, and if not, why; true if it does.

    Attributes:
        fused: whether it does.
        first, second: what the values are.
        reason: which kernel it is, or what forbids it.
    """

    fused: bool
    first: str
    second: str
    reason: str

    def __bool__(self) -> bool:
        return self.fused

    def __str__(self) -> str:
        verb = "are computed by one kernel" if self.fused else "are not computed by one kernel"
        return f"{self.first} and {self.second} {verb}: {self.reason}"


class Explainer:
    """Answers about one compilation.

    Args:
        extracted: the user's graph; the program may have been compiled from an equal one.
        compiled: the program.
        options: what it was compiled with.
        place: the line of whoever asks, for errors.
    """

    def __init__(
        self, extracted: Graph, compiled: Compiled, options: Options, place: Location | None
    ) -> None:
        self._compiled = compiled
        self._options = options
        self._history = History(extracted, compiled.source, compiled.records, place)
        self._replay = self._history.replay_fusion(options, compiled.target)
        self._made = Level(compiled.graph).producers

    # --- explaining ------------------------------------------------------------------------------

    def explain(self, item: Value | str) -> Explanation:
        """What became of a value.

        Raises:
            NameLookupError: for a name that not exactly one value bears.
            GraphError: for a value that the program does not compute.
        """
        lineage = self._history.follow(self._history.find(item))
        decisions = list(lineage.decisions)
        current = lineage.current
        schedule: list[str] = []
        again: list[str] = []
        if current is None:
            gone = "none: it is not computed"
            kernel, memory = gone, "none"
        else:
            about = {current, *lineage.parts}
            for record in self._compiled.records[self._history.graph_passes :]:
                decisions += [(record.name, d) for d in record.decisions if d.value in about]
            kernel, memory = self._kernel(current), self._memory(current)
            schedule += self._schedule(current)
            again += self._again(current)
            carried = self._compiled.carried.get(current)
            memory += f"; from trip to trip {carried}" if carried is not None else ""
        return Explanation(
            lineage.label, lineage.where, lineage.text, tuple(lineage.changes), tuple(decisions),
            kernel, memory, tuple(schedule), tuple(again),
        )  # fmt: skip

    def _kernel(self, value: Value) -> str:
        group = self._replay.group.get(value)
        if group is None:
            return f"none: {self._outside(value)}"
        node = self._fused_node(group)
        lines = dict.fromkeys(
            str(member.provenance.where) for member in group.nodes if member.provenance.where
        )
        launch = self._launch(node)
        size = f"{len(group.nodes)} operation{'s' * (len(group.nodes) != 1)}"
        return f"{launch}, {size} of {', '.join(lines) or 'no line'}"

    def _schedule(self, value: Value) -> Iterator[str]:
        """What is said of the loops of the kernels that make a value."""
        group = self._replay.group.get(value)
        node = self._made.get(value) if group is None else self._fused_node(group)
        plan, steps = self._compiled.plan, self._compiled.launches.get(node) if node else None
        for number in steps or ():
            step = plan.steps[number]
            if isinstance(step, Launch):
                yield from self._compiled.schedule_lines(step.kernel)

    def _again(self, value: Value) -> Iterator[str]:
        """Where a value is made again, for which readers."""
        made = self._compiled.levels.recomputed
        groups = Groups(self._compiled.target, self._options.thread_count)
        level = Level(self._compiled.graph)
        for copy in made.copies.get(value, ()) if made is not None else ():
            reader = next(iter(level.readers.get(copy, ())), None)
            where = reader.provenance.where if reader is not None else None
            node = self._made[copy]
            step = self._compiled.launches[node].start
            cost = groups.estimate(node).work * 1e-9
            yield (
                f"made again in step {step} for {where or 'no line'}, saves "
                f"{at_hint(value.type.bytes):,} bytes, costs {cost:.3g} ms"
            )

    def _outside(self, value: Value) -> str:
        """What a value is that no group makes."""
        node = self._made.get(value)
        level = self._history.fused_from
        if value in level.inputs:
            return "it is fed, a variable, or passed into a branch or loop"
        if node is None:
            return "it is so cheap that each kernel that reads it computes it"
        if node.op is constant_op:
            return "it is a constant"
        if node.op.lowering.keeps_memory:
            return "it is another shape of a stored value"
        if node.op is fused_op:
            return f"{self._launch(node)}, alone"
        if node.op is join_slices_op:
            return "it is the memory that its pieces are computed in"
        return f"{node.op.name} is control flow, whose parts are kernels"

    def _fused_node(self, group: Group) -> Node:
        """The node of the final graph that the group has become."""
        found = (self._made.get(value) for node in group.nodes for value in node.outputs)
        return next(node for node in found if node is not None and node.op is fused_op)

    def _launch(self, node: Node) -> str:
        plan, names = self._compiled.plan, []
        steps = self._compiled.launches[node]
        for number in steps:
            step = plan.steps[number]
            assert isinstance(step, Launch), "fused nodes are launched"
            names.append(plan.kernels[step.kernel].name)
        beside = self._beside(steps)
        if len(steps) == 1:
            return f"{names[0]!r} in step {steps[0]}{beside}"
        return f"{names[0]!r} to {names[-1]!r} in steps {steps[0]} to {steps[-1]}{beside}"

    def _beside(self, steps: range) -> str:
        """What threads may run meanwhile."""
        for group in self._compiled.plan.groups:
            if group.bounds[0] <= steps.start < group.bounds[-1]:
                tasks = plural(len(group.works), "task")
                first, last = group.bounds[0], group.bounds[-1] - 1
                return f", among {tasks} side by side in steps {first} to {last}"
        return ""

    def _memory(self, value: Value) -> str:
        plan = self._compiled.plan
        number = self._compiled.slots.get(value)
        if number is None:
            if value in self._replay.group:
                return "none: it stays inside its kernel"
            return "none of its own"
        slot = plan.slots[number]
        if slot.kind not in ("temporary", "scratch"):
            return {
                "output": "the caller's, as a result of the program",
                "feed": "the caller's, as fed",
                "state": "the session's, as a variable",
                "constant": "the program's, as a constant",
            }[slot.kind]
        layout = plan.layout
        assert layout is not None, "a compiled plan is placed"
        solution = layout.solution
        place = layout.slots.index(number)
        text = (
            f"{layout.sizes[place]} bytes at {solution.offsets[place]} of the arena of "
            f"{solution.peak}"
        )
        names = {slot: value for value, slot in self._compiled.slots.items()}
        others = [
            names[other].name or f"{names[other].type} at {plan.slots[other].where or 'no line'}"
            for other, root in zip(layout.slots, solution.roots, strict=True)
            if root == solution.roots[place] and other != number and other in names
        ]
        return f"{text}, in place with {', '.join(others)}" if others else text

    # --- fusion ----------------------------------------------------------------------------------

    def why_not_fused(self, a: Value | str, b: Value | str) -> Fusion:
        """Whether one kernel computes both values, and if not, why.

        Raises:
            NameLookupError: for a name that not exactly one value bears.
            GraphError: for a value that the program does not compute.
        """
        first, second = (self._history.follow(self._history.find(item)) for item in (a, b))
        fused, reason = self._reason(first, second)
        return Fusion(fused, first.label, second.label, reason)

    def _reason(self, first: Lineage, second: Lineage) -> tuple[bool, str]:
        values: list[Value] = []
        groups: list[Group] = []
        for lineage in (first, second):
            current = lineage.current
            made = self._history.source.producers.get(lineage.value)
            if made is not None and made.op is constant_op:
                return False, f"{lineage.label} is made by no kernel: it is a constant"
            if current is None:
                change = lineage.changes[-1]
                rule = f"{change.pass_name}, {change.rule}"
                return False, f"{lineage.label} is not computed, see {rule}: {change.after}"
            group = self._replay.group.get(current)
            if group is None:
                return False, f"{lineage.label} is made by no kernel: {self._outside(current)}"
            values.append(current)
            groups.append(group)
        one, other = groups
        if one is other:
            return True, self._launch(self._fused_node(one))
        off = sorted(PARTS & self._options.off)
        if off:
            return False, f"{', '.join(off)} is switched off"
        direct = self._refused(one, other) or self._closed(one, other)
        if direct is not None:
            return False, direct
        return False, self._apart(one, other)

    def _refused(self, one: Group, other: Group) -> str | None:
        """What fusion said when a member of one could have joined the other."""
        sides = {id(one), id(other)}
        for refusal in self._replay.refusals:
            home = self._replay.group.get(refusal.node.outputs[0])
            if home is None:
                continue
            if home is not self._replay.now(refusal.group) and sides == {
                id(home),
                id(self._replay.now(refusal.group)),
            }:
                return f"{_told(refusal.node)} did not join: {refusal.reason}"
        return None

    def _closed(self, one: Group, other: Group) -> str | None:
        """If one reads the other, why its first operation starts a kernel."""
        for reader, source in ((one, other), (other, one)):
            made = {value for node in source.nodes for value in node.outputs}
            for node in reader.nodes:
                if made.isdisjoint(node.inputs):
                    continue
                told, lowering = _told(node), node.op.lowering
                if lowering.is_product:
                    return f"{told}: {OPERANDS}"
                if lowering.kernel == "single":
                    return f"{told}: {CLOSED}"
                if lowering.reads == "picked":
                    return f"{told} reads elements at places of its own, so what it reads is stored"
                return f"{told} was not joined: no fuel was left"
        return None

    def _apart(self, one: Group, other: Group) -> str:
        """Groups of which none reads the other: what stands between, or that nothing does."""
        for source, target in ((one, other), (other, one)):
            path = self._path(source, target)
            if path:
                return f"between them stands {', '.join(path)}"
        shared = one.reads & other.reads
        if any(value.shape == one.shape for value in shared):
            obstacle = merge_obstacle(one, other)
            return f"they read one operand, but {obstacle}" if obstacle is not None else (
                "they read one operand, but work on the whole array would be cut into rows"
            )  # fmt: skip
        return "neither reads the other, and they read no operand of their whole shape in common"

    def _path(self, source: Group, target: Group) -> list[str]:
        """The operations that carry values from one group to another; empty without a way."""
        readers = self._history.fused_from.readers
        start = [value for node in source.nodes for value in node.outputs]
        goal = {node.outputs[0] for node in target.nodes}
        came: dict[Value, tuple[Node, Value]] = {}
        pending = list(start)
        seen = set(start)
        for value in pending:
            for node in readers.get(value, ()):
                for made in node.outputs:
                    if made not in seen:
                        seen.add(made)
                        came[made] = node, value
                        pending.append(made)
                if node.outputs[0] in goal:
                    return self._between(came, value)
        return []

    @staticmethod
    def _between(came: Mapping[Value, tuple[Node, Value]], value: Value) -> list[str]:
        names: list[str] = []
        while value in came:
            node, value = came[value]
            names.append(_told(node))
        return list(dict.fromkeys(reversed(names)))


def _told(node: Node) -> str:
    """An operation and its line; a matrix product is one however its operands are stored."""
    is_product = node.op.lowering.is_product
    name = "the matrix product" if is_product else node.op.name
    return f"{name} at {node.provenance.where or 'no line'}"


__all__ = ["Explainer", "Explanation", "Fusion"]
