"""Stability: spellings that overflow on the way, though their result is a number, are replaced.

    %1 = exp(%0)
    %2 = sum(%1) {axes = (1,)}          ->      %3 = logsumexp(%0) {axes = (1,)}
    %3 = log(%2)

The same for exp(x) / sum(exp(x)) (softmax), 1 / (1 + exp(-x)) (sigmoid), their logarithms, elements
picked from either, and all products and sums that the gradients of these spellings consist of: they
are recognised by computing with exponents (``passes.stability.log_domain``,
``passes.stability.transfer``), not by their looks. Spellings that need no such computation are
rules, in ``passes.rules.stability``, and come first. Class T: bits change, for the better; off
under ``numerics="strict"``. Runs on the surface graph, where the coarse ops still are.
"""

from __future__ import annotations

from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.nn.layers import softmax_op
from graphc.ops.pointwise.arithmetic import add_op, divide_op, subtract_op
from graphc.ops.pointwise.math import exp_op, log, log1p_op, log_op, sigmoid_op
from passes.infra.base import PassContext
from passes.rewriting.rewrite import rewrite
from passes.rules import STABILITY
from passes.stability.log_domain import shaped
from passes.stability.log_parts import added_up, has_parts, part_of, scaled
from passes.stability.scaled_norms import NAME as ROOTS
from passes.stability.scaled_norms import scale_roots
from passes.stability.terms import ExpTerm, Terms, alike
from passes.stability.transfer import Describer

PARTS = frozenset({"softmax", "log-sum-exp", "sigmoid", "softplus", ROOTS}) | STABILITY.names
"""What this pass calls its decisions; each can be switched off."""

_SOURCES = {exp_op, softmax_op, sigmoid_op}
_SINKS = {log_op, log1p_op, divide_op}
"""Without an op of either kind nothing can be unstable in a way that can be mended."""


def stabilize(graph: Graph, context: PassContext) -> Graph:
    """The graph with unstable spellings replaced."""
    if context.options.numerics == "strict":
        return graph
    graph = scale_roots(rewrite(graph, STABILITY, context), context)
    ops = {node.op for node in graph.nodes}
    if not (ops & _SOURCES and ops & _SINKS):
        return graph
    result = _Stabilizer(graph, context).run()
    return graph if result is graph else rewrite(result, STABILITY, context)


class _Stabilizer:
    """Describes the values that exponentials go into, and replaces where that helps."""

    def __init__(self, graph: Graph, context: PassContext) -> None:
        self.graph = graph
        self.context = context
        self.editor = GraphEditor(graph, "stabilize")
        self.known = Describer(self.editor)
        self.logs = self.known.logs
        self.terms = self.known.terms
        self.replaced: set[Value] = set()

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if node.op not in _SOURCES and not any(value in self.terms for value in node.inputs):
                continue
            with self.editor.rewriting(node, "stabilize"):
                if node.op is log_op or node.op is log1p_op:
                    self.replace_log(node)
                    continue
                terms = self.known.describe(node)
            if terms is None:
                continue
            self.terms[node.output] = terms
            if self.is_stable(terms) and self.is_gain(node, terms):
                self.replace(node, terms)
        return self.editor.finish() if self.replaced else self.graph

    # --- replacing -------------------------------------------------------------------------------

    def is_stable(self, terms: Terms) -> bool:
        """Whether all exponentials have parts of wholes, or have cancelled where others are left.

        Where all have cancelled nothing would be left of a NaN.
        """
        return any(term.summed and term.logs for term in terms) and all(
            has_parts(self.logs, term.logs) for term in terms
        )

    def is_gain(self, node: Node, terms: Terms) -> bool:
        """Whether something on the way is unstable, or cancels though it was replaced already."""
        given = [self.terms[value] for value in node.inputs if value in self.terms]
        if node.op not in _SOURCES and not all(map(self.is_stable, given)):
            return True
        sums = node.op is add_op or node.op is subtract_op
        cancels = sums and len(terms) < sum(map(len, given))
        return cancels and not self.replaced.isdisjoint(node.inputs)

    def replace(self, node: Node, terms: Terms) -> None:
        """The node's value from its description."""
        paired = any(log in self.logs.pairs for term in terms for log in term.logs)
        name = "sigmoid" if paired else "softmax"
        if not self.context.decide(name, node):
            return
        with self.editor.rewriting(node, name):
            self.substitute(node, self.value_of(terms, node.output))

    def replace_log(self, node: Node) -> None:
        """The logarithm of one term is its exponent and the logarithm of its factor."""
        terms = self.terms[node.inputs[0]]
        if node.op is log1p_op:
            terms = self.logs.total((*terms, ExpTerm({})), node.output)
        term = self.logs.single(terms)
        # The logarithm of an exponential alone is left: it is spelled to overflow.
        if term is None or not term.summed or term.sign < 0 or not term.logs:
            return
        if self.known.is_shifted(term.logs):
            return
        paired = any(log in self.logs.pairs for log in term.logs)
        name = "softplus" if paired else "log-sum-exp"
        if not self.context.decide(name, node):
            return
        with self.editor.rewriting(node, name):
            exponent = self.log_of(term, node.output)
            if term.factor is not None:
                exponent = exponent + log(term.factor())
            self.substitute(node, exponent)

    def substitute(self, node: Node, value: Value) -> None:
        """Puts an equal value in the place of the node's."""
        value = shaped(value, node.output.shape)
        made = self.editor.producer(value) is not None
        self.editor.substitute(node.output, value)
        self.replaced.add(node.output)
        if made and self.editor.producer(value) is None:
            self.logs.rename(value, node.output)
        if self.editor.alive(node):
            self.known.moved[node.output] = value

    def value_of(self, terms: Terms, like_: Value) -> Value:
        """Stable terms as a value; what is a factor of all is multiplied with once."""
        common = alike(terms)
        make = self.part_of if common else self.product_of
        total = added_up(terms, lambda term: make(term, like_))
        return scaled(terms[0], total) if common else total

    def product_of(self, term: ExpTerm, like_: Value) -> Value:
        """A term, its sign apart."""
        if not term.logs and term.factor is not None:
            return term.factor()
        return scaled(term, self.part_of(term, like_))

    def part_of(self, term: ExpTerm, like_: Value) -> Value:
        """The exponential of a stable term."""
        return part_of(self.logs, term.logs, like_, finite=term.guarded)

    def log_of(self, term: ExpTerm, like_: Value) -> Value:
        """The logarithm of a term without its factor; of a part of a whole without cancellation."""
        total: Value | None = None
        for share in self.logs.shares(term.logs) or ():
            made = self.logs.log_of(share)
            total = made if total is None else total + made
        return self.logs.exponent(term.logs, like_) if total is None else total
