"""The driver of rules: applies a set of them wherever they match, until none does.

Invariant: a replacement has the type of what it replaces; every firing spends fuel and is recorded
with the rule's name and the user's line. The work is linear in nodes and firings: candidates are
found by the op at the root of the pattern, and after a firing only what can have come to match is
looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

from graphc.base.errors import VerifyError
from graphc.base.options import Options
from graphc.ir.attributes import Payload
from graphc.ir.builder import apply, building
from graphc.ir.dtypes import DType, bool_, float32
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.op import OpDef
from graphc.ir.value import Value
from graphc.ops.shape import broadcast_to_op
from graphc.ops.source import constant_op
from passes.base import PassContext
from passes.constants import Producer, element_of, is_exact, known
from passes.pattern import (
    Application,
    Binding,
    Pattern,
    Readers,
    Rule,
    Sketch,
    Variable,
    match,
    record,
)

CONSTANT: OpDef = constant_op
"""In a pattern's heads: an operand that must be constant, whatever makes it."""

_Key: TypeAlias = tuple[OpDef, DType | None]


class RuleSet:
    """Rules that are applied together."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Raises VerifyError for two rules of one name."""
        self.rules: tuple[Rule, ...] = tuple(rules)
        self.names = frozenset(rule.name for rule in self.rules)
        if len(self.names) < len(self.rules):
            raise VerifyError("two rules have one name")
        self._found: dict[_Key, tuple[tuple[Pattern, frozenset[OpDef]], ...]] = {}

    @cached_property
    def _recorded(self) -> tuple[Pattern, ...]:
        """Each rule's left side, for one of its dtypes: they tell what stands at the root."""
        return tuple(
            record(rule, float32 if float32 in rule.dtypes or not rule.dtypes else rule.dtypes[0])
            for rule in self.rules
        )

    @cached_property
    def _by_root(self) -> dict[OpDef, list[Pattern]]:
        result: dict[OpDef, list[Pattern]] = {}
        for pattern in self._recorded:
            result.setdefault(pattern.root.op, []).append(pattern)
        return result

    @cached_property
    def depth(self) -> int:
        """How many ops deep the deepest pattern is."""
        return max((_depth(pattern.root) for pattern in self._recorded), default=0)

    def patterns(
        self, op: OpDef, last: DType
    ) -> Sequence[tuple[Pattern, frozenset[OpDef]]]:
        """The patterns of that root whose last operand has that dtype, each with its heads.

        They are recorded when first asked for, so that a graph pays for the dtypes it has.
        """
        if op not in self._by_root:
            return ()
        found = self._found.get((op, last))
        if found is None:
            made = [pattern for base in self._by_root[op] for pattern in _of_last(base, last)]
            found = tuple((pattern, _heads(pattern.root)) for pattern in made)
            self._found[op, last] = found
        return found


def _of_last(base: Pattern, last: DType) -> list[Pattern]:
    """A rule's patterns for all dtypes that give its root a last operand of that dtype."""
    dtypes = base.rule.dtypes
    if not dtypes:
        return [base]
    if base.last is base.dtype and base.dtype is not bool_:
        return [base.of(last)] if last in dtypes else []
    return [p for p in (base.of(dtype) for dtype in dtypes) if p.last is last]


def _heads(pattern: Application) -> frozenset[OpDef]:
    """What must make the operands of a match."""
    return frozenset(
        operand.op if isinstance(operand, Application) else CONSTANT
        for operand in pattern.operands
        if not isinstance(operand, Variable) or operand.constant
    )


def _depth(pattern: Application) -> int:
    inner = [_depth(p) for p in pattern.operands if isinstance(p, Application)]
    return 1 + max(inner, default=0)


class Selection:
    """The patterns of the rules that the options let run, by what a node and its operands are."""

    def __init__(self, rules: RuleSet, options: Options) -> None:
        self._rules = rules
        self._active = frozenset(rule.name for rule in rules.rules if applies(rule, options))
        self._chosen: dict[tuple[Any, ...], tuple[Pattern, ...]] = {}

    @property
    def exclusive(self) -> bool:
        """Whether a rule asks who reads the values."""
        return any(rule.exclusive and rule.name in self._active for rule in self._rules.rules)

    def candidates(self, node: Node, producer: Producer) -> Sequence[Pattern]:
        """The patterns that the node may match."""
        if not node.inputs:
            return ()
        makers = tuple(None if made is None else made.op for made in map(producer, node.inputs))
        key = (node.op, node.inputs[-1].dtype, *makers)
        chosen = self._chosen.get(key)
        if chosen is None:
            present = {op for op in makers if op is not None}
            if broadcast_to_op in present:
                present.add(CONSTANT)
            chosen = tuple(
                pattern
                for pattern, heads in self._rules.patterns(node.op, node.inputs[-1].dtype)
                if pattern.rule.name in self._active and heads <= present
            )
            self._chosen[key] = chosen
        return chosen


def applies(rule: Rule, options: Options) -> bool:
    """Whether the options let a rule run."""
    return (
        rule.name not in options.off
        and not (rule.numerics == "T" and options.numerics == "strict")
        and rule.needs <= options.fast_math
    )


def rewrite(graph: Graph, rules: RuleSet, context: PassContext) -> Graph:
    """The graph after all rules have been applied as often as they match."""
    selection = Selection(rules, context.options)
    readers = _readers_of(graph) if selection.exclusive else _unasked
    first = [
        node
        for node in graph.nodes
        if next(_matches(selection, node, graph.producers.get, readers), None) is not None
    ]
    if not first:
        return graph
    editor = GraphEditor(graph)
    kept = set(graph.outputs)

    def readers_now(value: Value) -> Sequence[Node] | None:
        return None if value in kept else editor.users(value)

    pending = list(reversed(first))
    while pending:
        # The node may have been put anew since, with other operands.
        node = editor.producer(pending.pop().outputs[0])
        if node is None:
            continue
        found = _first_replacement(selection, node, editor.producer, readers_now)
        if found is None:
            continue
        pattern, made, new = found
        if not context.decide(pattern.rule.name, node):
            break
        for part in made:
            editor.put(part)
        editor.substitute(node.output, new)
        again = editor.take_made()
        if editor.alive(node):
            if node.output in kept:
                kept.add(new)
            remove_dead(editor, node)
            again += _through(editor, again, rules.depth - 2)
        else:
            # The node's own value is computed by the right side now.
            again += _through(editor, [editor.producer(node.output)], rules.depth - 1)
        pending.extend(reversed(again))
    return editor.finish()


def _unasked(value: Value) -> Sequence[Node] | None:
    raise VerifyError("no active rule asks who reads a value")


def _readers_of(graph: Graph) -> Readers:
    """Who reads the values of a graph that is not being edited."""
    table: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(node.inputs):
            table.setdefault(value, []).append(node)
    outputs = set(graph.outputs)
    return lambda value: None if value in outputs else table.get(value, ())


def _matches(
    selection: Selection, node: Node, producer: Producer, readers: Readers
) -> Iterator[tuple[Pattern, Binding]]:
    for pattern in selection.candidates(node, producer):
        binding = match(pattern, node, producer, readers)
        if binding is not None and _fits(pattern, binding, node):
            yield pattern, binding


def _first_replacement(
    selection: Selection, node: Node, producer: Producer, readers: Readers
) -> tuple[Pattern, list[Node], Value] | None:
    """The first pattern that matches and whose right side has the node's type, with that side."""
    for pattern, binding in _matches(selection, node, producer, readers):
        replacement = _replacement(pattern, binding, node, producer)
        if replacement is not None:
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
    origin = node.provenance
    sketch = Sketch(Provenance(origin.where, pattern.rule.name, origin.parents))
    with building(sketch):
        _, right = pattern.rule.identity(**binding)
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
            scalar = apply(constant_op, value=Payload(element))
            new = scalar if node.output.shape == () else _spread(scalar, node.output)
        for part in sketch.needed(new):
            part = replace(part, provenance=node.provenance)
            made[part.output] = part
        last = replace(made.pop(new), outputs=(node.output,))
        made[node.output] = last
    needed = Sketch()
    needed.producers = made
    return needed.needed(root)


def _spread(scalar: Value, like: Value) -> Value:
    return apply(broadcast_to_op, scalar, shape=like.shape)


def remove_dead(editor: GraphEditor, root: Node) -> None:
    """Takes out a node that nobody reads, and what only it read."""
    stack = [root]
    while stack:
        node = stack.pop()
        if not editor.alive(node) or any(editor.is_used(value) for value in node.outputs):
            continue
        editor.remove(node)
        producers = (editor.producer(value) for value in node.inputs)
        stack.extend(producer for producer in producers if producer is not None)


def _through(editor: GraphEditor, nodes: Sequence[Node | None], levels: int) -> list[Node]:
    """Who reads the nodes, directly or through fewer than ``levels`` ops."""
    found: list[Node] = []
    level = [node for node in nodes if node is not None]
    for _ in range(levels):
        level = [user for node in level for value in node.outputs for user in editor.users(value)]
        found += level
    return found
