"""The driver of rules: applies a set of them wherever they match, until none does.

Invariant: a replacement has the type of what it replaces; every firing spends fuel and is recorded
with the rule's name and the user's line. The work is linear in nodes and firings: candidates are
found by the op at the root of the pattern, and after a firing only what can have come to match is
looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from graphc.base.errors import VerifyError
from graphc.base.options import Options
from graphc.ir.builder import building
from graphc.ir.dtypes import DType, float32
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.op import OpDef
from graphc.ir.value import Value
from passes.base import PassContext
from passes.constants import Producer
from passes.pattern import Application, Binding, Pattern, Rule, Sketch, match, record


class RuleSet:
    """Rules that are applied together."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Raises VerifyError for two rules of one name."""
        self.rules: tuple[Rule, ...] = tuple(rules)
        self.names = frozenset(rule.name for rule in self.rules)
        if len(self.names) < len(self.rules):
            raise VerifyError("two rules have one name")

    @cached_property
    def _index(self) -> dict[tuple[OpDef, DType | None], list[Pattern]]:
        """By op at the root and dtype of its last operand (the first may be a mask)."""
        result: dict[tuple[OpDef, DType | None], list[Pattern]] = {}
        for rule in self.rules:
            for dtype in rule.dtypes or (float32,):
                pattern = record(rule, dtype)
                last = pattern.last if rule.dtypes else None
                result.setdefault((pattern.root.op, last), []).append(pattern)
        return result

    @cached_property
    def depth(self) -> int:
        """How many ops deep the deepest pattern is."""
        patterns = [pattern for found in self._index.values() for pattern in found]
        return max((_depth(pattern.root) for pattern in patterns), default=0)

    @cached_property
    def roots(self) -> frozenset[OpDef]:
        """The ops that patterns have at their root."""
        return frozenset(op for op, _ in self._index)

    def candidates(self, node: Node) -> Sequence[Pattern]:
        """The patterns that the node may match."""
        if node.op not in self.roots or not node.inputs:
            return ()
        index = self._index
        return (*index.get((node.op, node.inputs[-1].dtype), ()), *index.get((node.op, None), ()))


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
    active = frozenset(rule.name for rule in rules.rules if applies(rule, context.options))
    first = [
        node
        for node in graph.nodes
        if next(_matches(rules, active, node, graph.producers.get), None) is not None
    ]
    if not first:
        return graph
    editor = GraphEditor(graph)
    pending = list(reversed(first))
    while pending:
        # The node may have been put anew since, with other operands.
        node = editor.producer(pending.pop().outputs[0])
        if node is None:
            continue
        found = _first_replacement(rules, active, node, editor.producer)
        if found is None:
            continue
        pattern, sketch, new = found
        if not context.decide(pattern.rule.name, node):
            break
        for made in sketch.needed(new):
            editor.put(made)
        editor.substitute(node.output, new)
        again = editor.take_made()
        if editor.alive(node):
            remove_dead(editor, node)
            again += _readers(editor, again, rules.depth - 2)
        else:
            # The node's own value is computed by the right side now.
            again += _readers(editor, [editor.producer(node.output)], rules.depth - 1)
        pending.extend(reversed(again))
    return editor.finish()


def _matches(
    rules: RuleSet, active: frozenset[str], node: Node, producer: Producer
) -> Iterator[tuple[Pattern, Binding]]:
    for pattern in rules.candidates(node):
        if pattern.rule.name in active:
            binding = match(pattern, node, producer)
            if binding is not None and _fits(pattern, binding, node):
                yield pattern, binding


def _first_replacement(
    rules: RuleSet, active: frozenset[str], node: Node, producer: Producer
) -> tuple[Pattern, Sketch, Value] | None:
    """The first pattern that matches and whose right side has the node's type, with that side."""
    for pattern, binding in _matches(rules, active, node, producer):
        replacement = _replacement(pattern, binding, node)
        if replacement is not None:
            return pattern, *replacement
    return None


def _fits(pattern: Pattern, binding: Binding, node: Node) -> bool:
    """Whether a right side that is one of the values found has the type it must have."""
    if pattern.result is None:
        return True
    value: Value = binding[pattern.result]
    return value.type == node.output.type


def _replacement(pattern: Pattern, binding: Binding, node: Node) -> tuple[Sketch, Value] | None:
    """The right side, and the nodes that make it; None if it has another type."""
    origin = node.provenance
    sketch = Sketch(Provenance(origin.where, pattern.rule.name, origin.parents))
    if pattern.result is not None:
        return sketch, binding[pattern.result]
    with building(sketch):
        _, right = pattern.rule.identity(**binding)
    return (sketch, right) if right.type == node.output.type else None


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


def _readers(editor: GraphEditor, nodes: Sequence[Node | None], levels: int) -> list[Node]:
    """Who reads the nodes, directly or through fewer than ``levels`` ops."""
    found: list[Node] = []
    level = [node for node in nodes if node is not None]
    for _ in range(levels):
        level = [user for node in level for value in node.outputs for user in editor.users(value)]
        found += level
    return found
