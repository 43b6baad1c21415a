"""Stability: what overflows on the way, though its result is an ordinary number, is spelled anew.

    %1 = exp(%0)
    %2 = sum(%1) {axes = (1,)}          ->      %3 = logsumexp(%0) {axes = (1,)}
    %3 = log(%2)

The same for exp(x) / sum(exp(x)) (softmax), its logarithm, elements picked from either, and all
products and sums that the gradients of these spellings consist of: they are recognised by
computing with exponents (``passes.log_domain``), not by their looks. Class T: bits change, for the
better; off under ``numerics="strict"``. Runs on the surface graph, where the coarse ops still are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from graphc.ir.builder import apply
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.op import OpDef
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.declare import like
from graphc.ops.indexing import (
    scatter_add_op,
    scatter_along_op,
    take_along_axis_op,
    take_op,
)
from graphc.ops.nn import log_softmax_op, softmax_op
from graphc.ops.pointwise_arithmetic import (
    add_op,
    divide_op,
    guarded_multiply,
    guarded_multiply_op,
    multiply_op,
    negative_op,
    subtract_op,
)
from graphc.ops.pointwise_math import exp, exp_op, log, log_op
from graphc.ops.reduce import sum_op
from graphc.ops.shape import broadcast_to, broadcast_to_op, reshape_op, sum_to_op
from graphc.ops.slicing import pad_op, slice_op
from passes.base import PassContext
from passes.constants import known
from passes.log_domain import (
    VIEWS,
    Factor,
    Logs,
    Share,
    Term,
    Terms,
    View,
    added,
    core_shape,
    fits,
    merged,
    node_view,
    reshaping,
    small,
)

REWRITES = frozenset({"softmax", "log-sum-exp"})
"""What this pass calls its decisions; each can be switched off."""


def stabilize(graph: Graph, context: PassContext) -> Graph:
    """The graph with unstable spellings of softmax and logsumexp replaced; one walk."""
    ops = {node.op for node in graph.nodes}
    if context.options.numerics == "strict" or exp_op not in ops or not ops & {log_op, divide_op}:
        return graph
    return _Stabilizer(graph, context).run()


class _Stabilizer:
    """Describes the values that exponentials go into, and replaces where that helps."""

    def __init__(self, graph: Graph, context: PassContext) -> None:
        self.graph = graph
        self.context = context
        self.editor = GraphEditor(graph, "stabilize")
        self.logs = Logs()
        self.terms: dict[Value, Terms] = {}
        self.moved: dict[Value, Value] = {}
        self.fired = False

    def run(self) -> Graph:
        for node in self.graph.nodes:
            tracked = any(value in self.terms for value in node.inputs)
            if not tracked and node.op is not exp_op:
                continue
            if node.op is log_op:
                self.replace_log(node)
                continue
            describe = _DESCRIPTIONS.get(node.op)
            if describe is None:
                continue
            with self.editor.rewriting(node, "stabilize"):
                terms = describe(self, node)
            if terms is None or not small(terms):
                continue
            self.terms[node.output] = terms
            if self.is_stable(terms) and not all(
                self.is_stable(self.terms[value]) for value in node.inputs if value in self.terms
            ):
                self.replace(node, terms)
        return self.editor.finish() if self.fired else self.graph

    # --- replacing -------------------------------------------------------------------------------

    def is_stable(self, terms: Terms) -> bool:
        """Whether all exponentials are shares of their rows or have cancelled."""
        return any(term.summed for term in terms) and all(
            not term.logs or self.logs.share(term.logs) is not None for term in terms
        )

    def decide(self, rewrite: str, node: Node) -> bool:
        """Whether the options and the fuel let this rewrite of the node happen."""
        return rewrite not in self.context.options.off and self.context.decide(rewrite, node)

    def replace(self, node: Node, terms: Terms) -> None:
        """The node's value from its description."""
        if not self.decide("softmax", node):
            return
        with self.editor.rewriting(node, "softmax"):
            parts = [self.value_of(term, node.output) for term in terms]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            self.substitute(node, total)

    def replace_log(self, node: Node) -> None:
        """The logarithm of one term is its exponent and the logarithm of its factor."""
        terms = self.terms[node.inputs[0]]
        if len(terms) != 1:
            return
        (term,) = terms
        # The logarithm of an exponential alone is left: it is spelled to overflow.
        if not term.summed or not self.decide("log-sum-exp", node):
            return
        with self.editor.rewriting(node, "log-sum-exp"):
            share = self.logs.share(term.logs)
            if share is not None and share.views is not None:
                exponent = self.picked(share, log_softmax_op)
            else:
                exponent = self.exponent(term.logs, node.output)
            if term.factor is not None:
                exponent = exponent + log(term.factor())
            self.substitute(node, exponent)

    def substitute(self, node: Node, value: Value) -> None:
        """Puts an equal value in the place of the node's."""
        value = _shaped(value, node.output.shape)
        self.editor.substitute(node.output, value)
        self.fired = True
        if self.editor.alive(node):
            self.moved[node.output] = value

    def value_of(self, term: Term, like_: Value) -> Value:
        """A stable term as a value."""
        share = self.logs.share(term.logs) if term.logs else None
        if share is None:
            return term.factor() if term.factor is not None else like(1, like_)
        if share.views is not None:
            part = self.picked(share, softmax_op)
        else:
            part = exp(self.exponent(term.logs, like_))
        if term.factor is None:
            return part
        factor = term.factor()
        return guarded_multiply(factor, part) if term.guarded else factor * part

    def picked(self, share: Share, op: OpDef) -> Value:
        """Softmax or its logarithm of the row, and from it what the share is of."""
        value = apply(op, share.row.value, axes=share.row.axes)
        for view in share.views or ():
            value = view.apply(_shaped(value, view.source))
        return value

    def exponent(self, logs: Mapping[Value, int], like_: Value) -> Value:
        """The sum of counted logs: what is positive first, so that differences stay exact."""
        total: Value | None = None
        for value, count in sorted(logs.items(), key=lambda item: -item[1]):
            scaled = value if abs(count) == 1 else value * abs(count)
            if total is None:
                total = scaled if count > 0 else -scaled
            else:
                total = total + scaled if count > 0 else total - scaled
        return like(0, like_) if total is None else total

    # --- describing ------------------------------------------------------------------------------

    def of(self, value: Value) -> Terms:
        """A value's description; what no exponential goes into is its own factor."""
        found = self.terms.get(value)
        if found is not None:
            return found
        constant = known(value, self.editor.producer)
        if constant is not None and constant.single and bool(constant.array.reshape(()) == 1):
            return (Term({}),)
        return (Term({}, partial(self.now, value)),)

    def now(self, value: Value) -> Value:
        """The value, or what has taken its place."""
        return self.moved.get(value, value)

    def full(self, factor: Factor | None, value: Value) -> Factor:
        """A factor in the full shape of the value it is a factor of."""

        def make() -> Value:
            made = factor() if factor is not None else like(1, value)
            return _shaped(made, value.shape)

        return make

    def through(
        self,
        terms: Terms,
        source: Value,
        log: Callable[[Value], Value | None],
        factor: Callable[[Value], Value],
        bare: bool = True,
    ) -> Terms | None:
        """Terms whose logs and factors go through something; if ``bare``, a factor of one stays."""
        result = []
        for term in terms:
            logs: dict[Value, int] = {}
            for value, count in term.logs.items():
                new = log(value)
                if new is None:
                    return None
                logs = added(logs, {self.logs.plain(new): count})
            made: Factor | None = None
            if term.factor is not None or not bare:
                made = partial(_through, self.full(term.factor, source), factor)
            result.append(Term(logs, made, term.depth + 1, term.guarded, term.summed))
        return tuple(result)


def _through(inner: Factor, outer: Callable[[Value], Value]) -> Value:
    return outer(inner())


def _shaped(value: Value, shape: Shape) -> Value:
    """A value in a shape it broadcasts to, leading axes of size 1 apart."""
    if len(value.shape) > len(shape):
        value = reshaping(value.shape, core_shape(value.shape)).apply(value)
    return value if value.shape == shape else broadcast_to(value, shape)


Description = Callable[[_Stabilizer, Node], Terms | None]


def _exp(s: _Stabilizer, node: Node) -> Terms:
    return (Term({s.now(node.inputs[0]): 1}),)


def _scaled(factor: Factor | None, other: Factor | None, by: Callable[[Value, Value], Value],
            ) -> Factor | None:  # fmt: skip
    """A product or guarded product of factors."""
    if factor is None or other is None:
        return other if factor is None else factor
    return lambda: by(factor(), other())


def _product(s: _Stabilizer, node: Node) -> Terms | None:
    guarded = node.op is guarded_multiply_op
    left, right = (s.of(value) for value in node.inputs)
    if len(left) * len(right) > 4:
        return None
    by = guarded_multiply if guarded else _times
    return tuple(
        Term(
            added(a.logs, b.logs),
            _scaled(a.factor, b.factor, by),
            1 + max(a.depth, b.depth),
            guarded or a.guarded or b.guarded,
            a.summed or b.summed,
        )
        for a in left
        for b in right
    )


def _times(x: Value, y: Value) -> Value:
    return x * y


def _quotient(s: _Stabilizer, node: Node) -> Terms | None:
    above, below = (s.of(value) for value in node.inputs)
    if len(below) != 1:
        return None
    (divisor,) = below
    one = partial(like, 1, node.output)

    def factor(term: Term) -> Factor | None:
        if divisor.factor is None:
            return term.factor
        upper, lower = term.factor or one, divisor.factor
        return lambda: upper() / lower()

    return tuple(
        Term(
            added(term.logs, divisor.logs, -1),
            factor(term),
            1 + max(term.depth, divisor.depth),
            term.guarded,
            term.summed or divisor.summed,
        )
        for term in above
    )


def _negated(s: _Stabilizer, terms: Terms, beside: Value) -> Terms:
    one = partial(like, 1, beside)

    def factor(term: Term) -> Factor:
        inner = term.factor or one
        return lambda: -inner()

    return tuple(
        Term(term.logs, factor(term), term.depth + 1, term.guarded, term.summed) for term in terms
    )


def _negative(s: _Stabilizer, node: Node) -> Terms:
    return _negated(s, s.of(node.inputs[0]), node.output)


def _sum_of_two(s: _Stabilizer, node: Node) -> Terms | None:
    left, right = (s.of(value) for value in node.inputs)
    if node.op is subtract_op:
        right = _negated(s, right, node.output)
    return merged((*left, *right), lambda x, y: x + y, partial(like, 1, node.output))


def _reduced(s: _Stabilizer, node: Node) -> Terms | None:
    """A sum over axes: exponents that don't vary along them stay; one exponential alone sums up."""
    (source,) = node.inputs
    axes: tuple[int, ...] = node.attrs["axes"]
    keep: bool = node.attrs["keepdims"]
    terms = s.of(source)
    if all(_flat(log, source.shape, axes) for term in terms for log in term.logs):
        return s.through(
            terms,
            source,
            lambda log: log if keep else _dropped(s, log, source.shape, axes),
            lambda factor: apply(sum_op, factor, **node.attrs),
            bare=False,
        )
    if len(terms) != 1 or terms[0].factor is not None or not axes:
        return None
    exponent = _shaped(s.exponent(terms[0].logs, source), source.shape)
    if any(source.shape[axis] == 0 for axis in axes):
        return None
    total = s.logs.sum(exponent, axes)
    if not keep:
        total = s.logs.view(reshaping(total.shape, node.output.shape), total)
    return (Term({s.logs.plain(total): 1}, summed=True),)


def _flat(log: Value, shape: Shape, axes: Sequence[int]) -> bool:
    """Whether a log is the same all along the axes of the shape."""
    lead = len(shape) - len(log.shape)
    return all(axis < lead or log.shape[axis - lead] == 1 for axis in axes)


def _dropped(s: _Stabilizer, log: Value, shape: Shape, axes: Sequence[int]) -> Value:
    lead = (1,) * (len(shape) - len(log.shape))
    full = (*lead, *log.shape)[len(lead) + len(log.shape) - len(shape) :]
    rest = tuple(dim for axis, dim in enumerate(full) if axis not in axes)
    return log if rest == log.shape else s.logs.view(reshaping(log.shape, rest), log)


def _summed_to(s: _Stabilizer, node: Node) -> Terms | None:
    (source,) = node.inputs
    shape = node.output.shape
    return s.through(
        s.of(source),
        source,
        lambda log: log if fits(log.shape, shape) else None,
        lambda factor: apply(sum_to_op, factor, **node.attrs),
        bare=False,
    )


def _spread(s: _Stabilizer, node: Node) -> Terms:
    return s.of(node.inputs[0])


def _viewed(s: _Stabilizer, node: Node, view: View) -> Terms | None:
    source = node.inputs[0]

    def pick(log: Value) -> Value:
        return s.logs.view(view, s.logs.spread(log, source.shape))

    return s.through(s.of(source), source, pick, view.apply)


def _reshape(s: _Stabilizer, node: Node) -> Terms | None:
    return _viewed(s, node, reshaping(node.inputs[0].shape, node.output.shape))


def _view(s: _Stabilizer, node: Node) -> Terms | None:
    source, *others = node.inputs
    if source not in s.terms:
        return None
    return _viewed(s, node, node_view(node.op, others, node.attrs, source.shape))


def _placed(s: _Stabilizer, source: Value, view: View, place: Callable[[Value], Value],
            ) -> Terms | None:  # fmt: skip
    """Elements put in their places among zeros, by the transpose of a view.

    Where the exponent is picked by that view, its origin does as well: what it is elsewhere is
    multiplied by zero.
    """

    def lift(log: Value) -> Value | None:
        origin = s.logs.undo(view, s.logs.spread(log, source.shape))
        if origin is None and core_shape(log.shape) == ():
            return log
        return origin

    return s.through(s.of(source), source, lift, place, bare=False)


def _pad(s: _Stabilizer, node: Node) -> Terms | None:
    attrs = node.attrs
    (source,) = node.inputs
    if attrs["mode"] != "constant" or attrs["value"] != 0:
        return None
    picking = {
        "start": attrs["before"],
        "step": tuple(gap + 1 for gap in attrs["interior"]),
        "size": source.shape,
    }
    view = node_view(slice_op, (), picking, node.output.shape)
    return _placed(s, source, view, lambda factor: apply(pad_op, factor, **attrs))


def _scatter(s: _Stabilizer, node: Node) -> Terms | None:
    base, indices, source = node.inputs
    constant = known(base, s.editor.producer)
    if source not in s.terms or constant is None or not constant.single or constant.array.any():
        return None
    picks = take_op if node.op is scatter_add_op else take_along_axis_op
    view = node_view(picks, (indices,), {"axis": node.attrs["axis"]}, base.shape)
    return _placed(
        s, source, view, lambda factor: apply(node.op, base, indices, factor, **node.attrs)
    )


_DESCRIPTIONS: dict[OpDef, Description] = {
    exp_op: _exp,
    multiply_op: _product,
    guarded_multiply_op: _product,
    divide_op: _quotient,
    negative_op: _negative,
    add_op: _sum_of_two,
    subtract_op: _sum_of_two,
    sum_op: _reduced,
    sum_to_op: _summed_to,
    broadcast_to_op: _spread,
    reshape_op: _reshape,
    **dict.fromkeys(VIEWS, _view),
    pad_op: _pad,
    scatter_add_op: _scatter,
    scatter_along_op: _scatter,
}
