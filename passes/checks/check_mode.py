"""Check mode: evaluates graphs before and after each pass, and both sides of each rule that fires.

Role: names the pass, the decision and the user's line that change what a graph computes. A value
that a pass keeps means the same before and after, so each is compared on its own, computed from the
values *before*: a difference is found where it arises, and does not grow on the way. Invariant:
what is not compared, because it would take too long or random inputs don't fit, is recorded.

Exact work must keep every bit, special values included. Where functions and sums of floats are at
work, results of ordinary inputs must agree within ``compare.SLACK`` units in the last place, and a
thousand times what a change of one unit in each operand makes of them. So must they where decisions
of class T are at work, or else be as near to the true value as before, special values included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphc.base.errors import GraphcError, VerifyError
from graphc.base.source import Location
from graphc.checking.compare import Difference, difference, is_as_true, tolerance_of
from graphc.checking.interpreter import Budget, OutOfBudget
from graphc.checking.reaction import ELEMENTS, Lookup, evaluated
from graphc.checking.samples import ORDINARY, cost, feeds
from graphc.checking.sizes import fitting_sizes
from graphc.checking.true_values import true_values
from graphc.checking.unexplained import unexplained
from graphc.ir.attributes import Array
from graphc.ir.dtypes import floating
from graphc.ir.edit import topological
from graphc.ir.graph import Graph, Node
from graphc.ir.text.printer import symbols_in
from graphc.ir.value import Value
from graphc.ops.source import constant_op
from passes.graph.dce import dce
from passes.infra.base import Decision, PassContext, PassFunction
from passes.rewriting.constants import Producer, known
from passes.rewriting.pattern import Rule

LEFT_SIDE = 16
"""A rule's left side is taken to have no more nodes; what lies behind is drawn at random."""

RULE_ROUNDS = 12
"""So many inputs both sides of a rule are tried on; they are small."""


def _inexact_values(nodes: Sequence[Node], common: Lookup) -> set[Value]:
    """Values whose bits are open, for what the nodes compute from common values."""
    result: set[Value] = set()
    for node in nodes:
        if _is_inexact(node) or any(v in result and v not in common for v in node.inputs):
            result.update(node.outputs)
    return result


def _is_inexact(node: Node) -> bool:
    inner = (other for region in node.regions for other in region.walk())
    return node.op.numerics != "E" or any(other.op.numerics != "E" for other in inner)


# --- comparing -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Mismatch:
    """A value that is another one after the change.

    Attributes:
        node: what makes it after the change; before it, where nothing does then.
        value: the value.
        problem: how it differs.
    """

    node: Node | None
    value: Value
    problem: str


class _Comparison:
    """A graph before and after a change, on one set of inputs."""

    def __init__(
        self, before: Graph, after: Graph, arrays: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        self.before, self.after, self.sizes = before, after, sizes
        self.given = dict(zip(before.inputs, arrays, strict=True))
        self.base = self.given | evaluated(before.nodes, self.given, sizes)
        old = {node.outputs[0]: node for node in before.nodes}
        new = {node.outputs[0]: node for node in after.nodes}
        self.changed = [n for n in after.nodes if old.get(n.outputs[0]) is not n]
        kept = {value: self.base[value] for value in before.inputs}
        kept |= {v: self.base[v] for n in after.nodes for v in n.outputs if v in self.base}
        self.kept: dict[Value, Array] = kept
        self.replaced = [n for n in before.nodes if new.get(n.outputs[0]) is not n]

    def mismatch(self, special: bool, inexact: bool) -> Mismatch | None:
        """The first value that is another one.

        Args:
            special: the inputs hold special values, which functions and sums are not judged by.
            inexact: the bits of all that changed are open, within what is nearer to the truth.
        """
        open_ = _inexact_values(self.replaced, self.kept) | _inexact_values(
            self.changed, self.base
        )
        try:
            made = evaluated(self.changed, self.base, self.sizes)
        except OutOfBudget:
            raise
        except GraphcError as error:
            node = self.changed[-1]
            return Mismatch(node, node.outputs[0], f"now raises: {error.message}")
        precomputed = self._precomputed()
        producers = self.after.producers
        pairs = [(v, v) for n in self.changed for v in n.outputs if v in self.base]
        pairs += [
            (old, new)
            for old, new in zip(self.before.outputs, self.after.outputs, strict=True)
            if old is not new
        ]
        for old, new in pairs:
            given = made[new] if new in made else self.base[new]
            loose = inexact or old in open_ or new in open_ or old in precomputed
            if special and loose and not (inexact and old.dtype.is_rounded):
                continue
            found = self._difference(old, given, loose, inexact, old in precomputed)
            if found is not None:
                maker = producers.get(new) or self.before.producers.get(old)
                return Mismatch(maker, old, str(found))
        return None

    def _precomputed(self) -> set[Value]:
        """Inexact values that are constants now: they come from other operands than the base's."""
        constants = {n.output for n in self.changed if n.op is constant_op}
        return constants & _inexact_values(self.before.nodes, {}) if constants else set()

    def _difference(
        self, value: Value, given: Array, loose: bool, inexact: bool, from_inputs: bool
    ) -> Difference | None:
        expected = self.base[value]
        if not loose:
            return difference(expected, given)
        tolerance = tolerance_of(expected.dtype)
        found = difference(expected, given, tolerance)
        if found is None or expected.shape != given.shape or expected.dtype != given.dtype:
            return found
        # what a decision computes anew need not go through what is kept
        local = not (from_inputs or inexact)
        nodes = self.replaced if local else self.before.nodes
        operands = self.kept if local else self.given
        accepted: Array | bool = False
        if inexact and floating(expected.dtype):
            kept = {v: array for v, array in self.kept.items() if v is not value}
            kept = {} if from_inputs else kept
            budget = Budget(ELEMENTS)
            true = true_values(self.before.nodes, self.given, kept, self.sizes, budget)
            accepted = is_as_true(expected, given, true[value])
            found = difference(expected, given, tolerance, accepted=accepted)
            if found is None:
                return None
        # what class T gives must be a number where it can, whatever the spelling leaves open
        judged = np.isfinite(given) if inexact and floating(expected.dtype) else False
        return unexplained(
            nodes, operands, self.sizes, value, expected, given,
            accepted=accepted, judged=judged,
        )  # fmt: skip


def sizes_for(graph: Graph) -> list[dict[str, int]]:
    """Small sizes of the symbolic dims that the graph's guards allow, to be tried in turn."""
    return fitting_sizes(symbols_in(graph), graph.guards)


def compare(
    before: Graph,
    after: Graph,
    *,
    inexact: bool = False,
    limited: bool = False,
    sizes: Sequence[Mapping[str, int]] | None = None,
    rounds: int = 3,
    interval: tuple[float, float] = ORDINARY,
) -> tuple[Mismatch | None, str]:
    """The first value that a change makes another one, on random inputs.

    Args:
        before: the graph before the change.
        after: the graph after it; values of both are the same values.
        inexact: the change may change bits, as decisions of class T do.
        limited: the change is right for ordinary numbers alone.
        sizes: of the symbolic dims, to be tried in turn; small ones that the guards of ``before``
            allow unless given.
        rounds: how many inputs to try.
        interval: where ordinary floats lie.

    Returns:
        the mismatch, if any, and why nothing could be compared, if nothing could.
    """
    reason = "no sizes were found that the guards allow"
    for chosen in sizes_for(before) if sizes is None else sizes:
        if cost(before, chosen) + cost(after, chosen) > ELEMENTS:
            return None, f"more than {ELEMENTS} elements"
        compared = False
        for special, arrays in feeds(before, chosen, rounds, interval):
            if special and limited:
                continue
            try:
                comparison = _Comparison(before, after, arrays, chosen)
                found = comparison.mismatch(special, inexact)
            except GraphcError as error:
                reason = f"random inputs don't fit: {error.message}"
                continue
            if found is not None:
                return found, ""
            compared = True
        if compared:
            return None, ""
    return None, reason


# --- the instrument ------------------------------------------------------------------------------


class Check:
    """Compares around each pass, and both sides of each rule."""

    def __init__(self, context: PassContext) -> None:
        self._context = context
        self._graph: Graph | None = None
        self._run: PassFunction | None = None
        self._decided = 0
        self._limited: str | None = None
        self._sizes: list[dict[str, int]] = []
        self._changing: frozenset[str] = frozenset()

    def before(
        self, name: str, graph: Graph, run: PassFunction, inexact: frozenset[str]
    ) -> Graph:
        """Remembers the graph and the pass."""
        self._graph, self._run = graph, run
        self._changing, self._limited = inexact, None
        self._sizes = sizes_for(graph)
        self._decided = len(self._context.decisions)
        return graph

    def after(self, name: str, graph: Graph, holds: Sequence[Callable[[Node], bool]]) -> None:
        """Raises VerifyError, naming pass, decision and line, if a value is another one now."""
        before, run = self._graph, self._run
        if before is None or run is None or graph is before or not before.nodes:
            return
        made = self._context.decisions[self._decided :]
        inexact = any(d.number and d.rule in self._changing for d in made)
        if self._limited is not None:
            reason = f"{self._limited} does not hold everywhere; it was checked where it does"
            self._context.decline("check", before.nodes[-1], f"{name} is not checked: {reason}")
            return
        found, reason = compare(before, graph, inexact=inexact, sizes=self._sizes)
        if found is None:
            if reason:
                self._context.decline("check", before.nodes[-1], f"{name} is not checked: {reason}")
            return
        decision = self._guilty(before, run, inexact)
        guilty = f"the pass {name}"
        where = found.node.provenance.where if found.node is not None else None
        hint = None
        if decision is not None:
            guilty = f"{decision.rule!r} in {name}, decision #{decision.number},"
            where = decision.where or where
            hint = f"GRAPHC=off={decision.rule} leaves it out"
        raise _error(guilty, found, where, hint)

    def _guilty(self, graph: Graph, run: PassFunction, inexact: bool) -> Decision | None:
        """The first decision of the pass after which a value is another one."""
        made = [d for d in self._context.decisions[self._decided :] if d.number]

        def is_bad(fuel: int) -> bool:
            options = replace(self._context.options, fuel=fuel, check=False, decisions=None)
            result = run(graph, PassContext(options, self._context.target, self._context.execute))
            return compare(graph, result, inexact=inexact, sizes=self._sizes)[0] is not None

        good, bad = 0, len(made)
        if not made or is_bad(0):
            return None
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if is_bad(middle) else (middle, bad)
        return made[bad - 1]

    def fired(
        self, rule: Rule, node: Node, made: Sequence[Node], new: Value, producer: Producer
    ) -> None:
        """Compares both sides of a rule; raises VerifyError if they differ."""
        inexact = rule.numerics != "E" or bool(rule.needs)
        if inexact:
            self._changing |= {rule.name}
        limited = bool(rule.needs)
        if limited:
            self._limited = rule.name
        left, right = _sides(node, made, new, producer)
        interval = rule.domain or ORDINARY
        found, reason = compare(
            left, right, inexact=inexact, limited=limited, sizes=self._sizes,
            rounds=RULE_ROUNDS, interval=interval,
        )  # fmt: skip
        if found is not None:
            hint = f"GRAPHC=off={rule.name} leaves it out"
            guilty = f"the rule {rule.name!r}"
            raise _error(guilty, replace(found, node=node), node.provenance.where, hint)
        if reason:
            self._context.decline("check", node, f"{rule.name} is not checked: {reason}")


def _error(
    guilty: str, found: Mismatch, where: Location | None, hint: str | None
) -> VerifyError:
    name = f" {found.value.name!r}" if found.value.name is not None else ""
    return VerifyError(
        f"{guilty} changes the value{name} of type {found.value.type}: {found.problem}",
        where=where,
        node=repr(found.node) if found.node is not None else None,
        hint=hint,
    )


def _upstream(
    roots: Sequence[Node], producer: Producer, wanted: Callable[[Value, int], bool]
) -> list[Node]:
    """The roots and the nodes they depend on, producers first.

    ``wanted(value, count)`` says whether to go on to the producer of a value, when ``count`` nodes
    have been found; constants are always wanted.
    """
    found = {root.outputs[0]: root for root in roots}
    level = list(roots)
    while level:
        operands = [value for other in level for value in other.inputs]
        level = []
        for value in operands:
            other = producer(value)
            if other is None or other.regions or other.outputs[0] in found:
                continue
            is_constant = other.op is constant_op or known(value, producer) is not None
            if is_constant or wanted(value, len(found)):
                found[other.outputs[0]] = other
                level.append(other)
    return topological(list(found.values()))


def _sides(
    node: Node, made: Sequence[Node], new: Value, producer: Producer
) -> tuple[Graph, Graph]:
    """Both sides of a rule as graphs of the same inputs.

    The left side ends at what the right side reads: rules know nothing of their surroundings but
    constants, so that what they read may be anything. Where something read is computed from another
    thing read, it stays so.
    """
    made_here = {value for other in made for value in other.outputs}
    ends = {v for other in made for v in other.inputs if v not in made_here}
    ends.add(new)
    around = _upstream([node], producer, lambda value, count: count < LEFT_SIDE)
    dependent: set[Value] = set()
    for other in around:
        if any(value in ends or value in dependent for value in other.inputs):
            dependent.update(other.outputs)
    nodes = _upstream(
        [node],
        producer,
        lambda value, count: count < LEFT_SIDE and (value not in ends or value in dependent),
    )
    own = {value for other in (*nodes, *made) for value in other.outputs}
    read = (value for other in (*nodes, *made) for value in other.inputs)
    inputs = [value for value in dict.fromkeys((*read, new)) if value not in own]
    left = Graph("left", inputs, nodes, node.outputs)
    rest = [other for other in nodes if other is not node]
    outputs = [new if value is node.output else value for value in node.outputs]
    return left, dce(Graph("right", inputs, [*rest, *made], outputs), PassContext())


__all__ = ["Check", "Mismatch", "compare"]
