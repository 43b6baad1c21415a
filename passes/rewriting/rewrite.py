"""The driver of rules: applies a set of them wherever they match, until none does.

Invariant: a replacement has the type of what it replaces; every firing spends fuel and is recorded
with the rule's name and the user's line. The work is linear in nodes and firings: candidates are
found by the op at the root of the pattern, and after a firing only what can have come to match is
looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphc.base.errors import VerifyError
from graphc.base.options import Options
from graphc.ir.builder import building
from graphc.ir.dtypes import DType, bool_, float32
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.op import OpDef
from graphc.ir.value import Value
from graphc.ops.move.shape import broadcast_to_op
from graphc.ops.source import constant_op
from passes.infra.base import PassContext
from passes.rewriting.constants import Producer, element_of, is_exact, known, new_constant
from passes.rewriting.pattern import (
    Application,
    Binding,
    Element,
    Pattern,
    Readers,
    Rule,
    Sketch,
    Variable,
    complete,
    element_key,
    match,
    record,
)
from passes.rewriting.run_checks import RunChecks


class RuleSet:
    """Rules that are applied together."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Raises VerifyError for two rules of one name."""
        self.rules: tuple[Rule, ...] = tuple(rules)
        self.names = frozenset(rule.name for rule in self.rules)
        self.inexact = frozenset(rule.name for rule in self.rules if rule.is_inexact)
        if len(self.names) < len(self.rules):
            raise VerifyError("two rules have one name")
        self._recorded: dict[str, Pattern] = {}
        self._selections: dict[frozenset[str], Selection] = {}
        self._asked: dict[tuple[Any, ...], Selection] = {}

    def pattern(self, rule: Rule, dtype: DType) -> Pattern:
        """A rule's left side; what can be is kept from another dtype."""
        base = self._recorded.get(rule.name)
        if base is None:
            # In a pattern for bool the symbols' dtype can't be told from that of comparisons.
            others = (other for other in rule.dtypes if other is not bool_)
            first = next(others, dtype) if dtype is bool_ else dtype
            base = self._recorded[rule.name] = record(rule, first)
        return base.of(dtype)

    def selection(self, options: Options) -> Selection:
        """The rules that the options let run."""
        asked = (options.numerics, options.fast_math, options.off)
        found = self._asked.get(asked)
        if found is None:
            active = tuple(rule for rule in self.rules if applies(rule, options))
            names = frozenset(rule.name for rule in active)
            found = self._selections.get(names)
            if found is None:
                found = self._selections[names] = Selection(self, active)
            self._asked[asked] = found
        return found


class Selection:
    """Those rules of a set that run, found by what a node is and what makes its operands.

    Left sides are recorded when a graph is first seen to have their dtype, so that a process pays
    for the dtypes it uses.

    Attributes:
        depth: how many ops deep the deepest left side is, of those recorded.
        roots: the ops that left sides end in, of those recorded.
    """

    def __init__(self, rules: RuleSet, active: Sequence[Rule]) -> None:
        self._rules = rules
        self._active = active
        self.depth = 0
        self.roots: set[OpDef] = set()
        self._dtypes: set[str] = set()
        self._index: dict[tuple[OpDef, DType | None], list[_Entry]] = {}
        self._chosen: dict[tuple[Any, ...], tuple[Pattern, ...]] = {}

    def may_match(self, graph: Graph) -> list[Node]:
        """The nodes that end in the op of a left side."""
        for dtype in graph.dtypes:
            self.learn(dtype)
        roots = self.roots
        return [node for node in graph.nodes if node.op in roots]

    def candidates(self, node: Node, producer: Producer) -> Sequence[Pattern]:
        """The patterns that the node may match, in the order of the rules."""
        if not node.inputs:
            return ()
        key: list[Any] = [node.op, node.inputs[0] is node.inputs[-1]]
        for value in node.inputs:
            maker = producer(value)
            key += (value._type.dtype.name, None if maker is None else maker.op)
        asked = tuple(key)
        found = self._chosen.get(asked)
        if found is None:
            for value in node.inputs:
                self.learn(value.type.dtype)
            found = self._chosen[asked] = self._choose(node, set(key[3::2]))
        return found

    def _choose(self, node: Node, makers: set[OpDef | None]) -> tuple[Pattern, ...]:
        if broadcast_to_op in makers:
            makers.add(constant_op)
        last = node.inputs[-1].dtype
        found = (*self._index.get((node.op, last), ()), *self._index.get((node.op, None), ()))
        return tuple(
            entry.pattern
            for entry in sorted(found, key=lambda entry: entry.place)
            if entry.heads <= makers
            and (not entry.repeats or node.inputs[0] is node.inputs[-1])
        )

    def learn(self, dtype: DType) -> None:
        """Records the left sides for a dtype, if that is new."""
        # By name, since the hash of a dtype is NumPy's and slow.
        if dtype.name in self._dtypes:
            return
        first = not self._dtypes
        self._dtypes.add(dtype.name)
        self._chosen.clear()
        for place, rule in enumerate(self._active):
            if not (dtype in rule.dtypes or (first and not rule.dtypes)):
                continue
            pattern = self._rules.pattern(rule, dtype if rule.dtypes else float32)
            entries = self._index.setdefault((pattern.root.op, pattern.last), [])
            # What holds whatever the dtype is recorded once.
            if all(entry.pattern is not pattern for entry in entries):
                entries.append(_Entry(place, pattern, _heads(pattern.root), _repeats(pattern.root)))
                self.roots.add(pattern.root.op)
                self.depth = max(self.depth, _depth(pattern.root))


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A pattern, its rule's place among the rules, and what it asks of operands at first sight.

    Attributes:
        heads: what must make operands of a match.
        repeats: whether all operands are the one value.
    """

    place: int
    pattern: Pattern
    heads: frozenset[OpDef]
    repeats: bool


def _heads(pattern: Application) -> frozenset[OpDef]:
    """What must make the operands of a match; ``constant`` stands for whatever is constant."""
    return frozenset(
        operand.op if isinstance(operand, Application) else constant_op
        for operand in pattern.operands
        if not isinstance(operand, Variable) or operand.constant
    )


def _repeats(pattern: Application) -> bool:
    """Whether the operands of a match are one value given several times."""
    names = [operand.name for operand in pattern.operands if isinstance(operand, Variable)]
    return len(names) == len(pattern.operands) > 1 and len(set(names)) == 1


def _depth(pattern: Application) -> int:
    inner = [_depth(p) for p in pattern.operands if isinstance(p, Application)]
    return 1 + max(inner, default=0)


def applies(rule: Rule, options: Options) -> bool:
    """Whether the options let a rule run."""
    return (
        rule.name not in options.off
        and not (rule.numerics == "T" and options.numerics == "strict")
        and rule.needs <= options.fast_math
    )


def rewrite(graph: Graph, rules: RuleSet, context: PassContext) -> Graph:
    """The graph after all rules have been applied as often as they match."""
    selection = rules.selection(context.options)
    editor: GraphEditor | None = None

    def readers(value: Value) -> Sequence[Node] | None:
        nonlocal editor
        if editor is None:
            editor = GraphEditor(graph)
        return None if editor.is_fetched(value) else editor.users(value)

    producer = graph.producers.get
    first = [
        node
        for node in selection.may_match(graph)
        for patterns in (selection.candidates(node, producer),)
        if patterns and next(_matches(patterns, node, producer, readers), None) is not None
    ]
    if not first:
        return graph
    if editor is None:
        editor = GraphEditor(graph)
    checks = RunChecks(graph)
    pending = list(reversed(first))
    while pending:
        # The node may have been put anew since, with other operands.
        node = editor.producer(pending.pop().outputs[0])
        if node is None:
            continue
        found = _first_replacement(selection, node, editor.producer, readers, checks)
        if found is None:
            continue
        pattern, made, new = found
        if not context.decide(pattern.rule.name, node):
            break
        context.observe(pattern.rule, node, made, new, editor.producer)
        for part in made:
            editor.put(part)
        # What only the left side read goes, as it must not count as a reader of anything.
        editor.supplant(node, new)
        again = editor.take_made()
        own = editor.producer(node.output)
        if own is None:
            again += _through(editor, again, selection.depth - 2)
        else:
            # The right side computes the node's own value now.
            again += _through(editor, [own], selection.depth - 1)
        pending.extend(reversed(again))
    return editor.finish()


def _matches(
    patterns: Sequence[Pattern], node: Node, producer: Producer, readers: Readers
) -> Iterator[tuple[Pattern, Binding]]:
    present: set[Element] | None = None
    for pattern in patterns:
        if pattern.elements:
            if present is None:
                operands = [known(value, producer) for value in node.inputs]
                present = {element_key(o.array) for o in operands if o is not None and o.single}
            if not pattern.elements <= present:
                continue
        binding = match(pattern, node, producer, readers)
        if binding is not None and _fits(pattern, binding, node):
            yield pattern, binding


def _first_replacement(
    selection: Selection, node: Node, producer: Producer, readers: Readers, checks: RunChecks
) -> tuple[Pattern, list[Node], Value] | None:
    """The first pattern that matches and whose right side has the node's type, with that side.

    A right side that would leave out a check of indices is none.
    """
    patterns = selection.candidates(node, producer)
    for pattern, binding in _matches(patterns, node, producer, readers):
        replacement = _replacement(pattern, binding, node, producer)
        given = [value for value in binding.values() if isinstance(value, Value)]
        if replacement is not None and not checks.are_lost(given, *replacement, producer):
            return pattern, *replacement
    return None


def _fits(pattern: Pattern, binding: Binding, node: Node) -> bool:
    """Whether a right side that is one of the values found has the type it must have."""
    if pattern.result is None:
        return True
    value: Value = binding[pattern.result]
    return value.type == node.output.type


def _replacement(
    pattern: Pattern, binding: Binding, node: Node, producer: Producer
) -> tuple[list[Node], Value] | None:
    """The nodes that make the right side, and its value; None if it has another type."""
    if pattern.result is not None:
        return [], binding[pattern.result]
    sketch = Sketch(node.provenance.by(pattern.rule.name))
    with building(sketch):
        _, right = pattern.rule.identity(**complete(pattern.rule, binding, producer))
    if right.type != node.output.type:
        return None
    made = sketch.needed(right)
    return (_computed(made, right, producer) if pattern.rule.constants else made), right


def _computed(nodes: Sequence[Node], root: Value, producer: Producer) -> list[Node]:
    """A right side in which what depends on single constants only is constant.

    A chain of regrouped constants collapses so within one run of the rules.
    """
    made: dict[Value, Node] = {}

    def lookup(value: Value) -> Node | None:
        return made.get(value) or producer(value)

    sketch = Sketch()
    for node in nodes:
        operands = [known(value, lookup) for value in node.inputs]
        constants = [operand for operand in operands if operand is not None]
        element = None
        if operands and len(constants) == len(operands) and is_exact(node):
            element = element_of(node, constants)
        if element is None:
            made[node.output] = node
            continue
        with building(sketch):
            new = new_constant(element, node.output.shape)
        for part in sketch.needed(new):
            part = replace(part, provenance=node.provenance)
            made[part.output] = part
        last = replace(made.pop(new), outputs=(node.output,))
        made[node.output] = last
    needed = Sketch()
    needed.producers = made
    return needed.needed(root)


def _through(editor: GraphEditor, nodes: Sequence[Node], levels: int) -> list[Node]:
    """Who reads the nodes, directly or through fewer than ``levels`` ops."""
    found: list[Node] = []
    level = list(nodes)
    for _ in range(levels):
        level = [user for node in level for value in node.outputs for user in editor.users(value)]
        found += level
    return found
