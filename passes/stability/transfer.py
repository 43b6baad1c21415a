"""Transfer functions of ops over products of exponentials, for ``stabilize``.

Role: one function an op, from the descriptions of its operands to that of its result
(``passes.stability.log_domain`` says what a description is). None means that the result is
described by itself. Invariant: in real arithmetic a description equals the value; what it takes
apart is put together only on demand, so describing a value changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from graphc.ir.builder import apply
from graphc.ir.dims.expressions import product
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Node
from graphc.ir.op import OpDef
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.convert import size_beside
from graphc.ops.declare import like
from graphc.ops.indexing.core import take_along_axis_op, take_op
from graphc.ops.indexing.scatter import scatter_add_op, scatter_along_op
from graphc.ops.move.shape import broadcast_to_op, reshape_op, sum_to_op
from graphc.ops.move.slicing import pad_op, slice_op
from graphc.ops.nn.layers import softmax_op
from graphc.ops.pointwise.arithmetic import (
    add_op,
    divide_op,
    guarded_multiply,
    guarded_multiply_op,
    multiply_op,
    negative_op,
    subtract_op,
)
from graphc.ops.pointwise.logic import isfinite_op, stop_gradient_op, where_op
from graphc.ops.pointwise.math import exp_op, sigmoid_op
from graphc.ops.reduce.axes import max_op, sum_op
from graphc.ops.reduce.statistics import mean_op
from passes.rewriting.constants import known
from passes.stability.log_domain import (
    VIEWS,
    Logs,
    Move,
    Row,
    fits,
    node_view,
    reshaping,
    shaped,
)
from passes.stability.log_parts import apart, compacted, is_flat
from passes.stability.terms import (
    MAXIMUM_TERMS,
    Exponent,
    ExpTerm,
    Factor,
    Terms,
    added,
    small,
)

MAXIMUM_STEPS = 4
"""Through how many ops the largest element of a row is looked for."""


class Describer:
    """The descriptions so far.

    Attributes:
        editor: the graph being changed.
        logs: makes exponents.
        terms: the values that exponentials go into.
        moved: what has taken the place of a value.
    """

    def __init__(self, editor: GraphEditor) -> None:
        self.editor = editor
        self.logs = Logs()
        self.terms: dict[Value, Terms] = {}
        self.moved: dict[Value, Value] = {}
        self._plain: dict[Value, Terms] = {}

    def describe(self, node: Node) -> Terms | None:
        """The terms of a node's result, if its op is known and they are few."""
        rule = _RULES.get(node.op)
        terms = None if rule is None else rule(self, node)
        if terms is not None and not small(terms):
            terms = compacted(self.logs, terms, node.output)
        return terms if terms is not None and small(terms) else None

    def of(self, value: Value) -> Terms:
        """A value's description; what no exponential goes into is its own factor."""
        found = self.terms.get(value) or self._plain.get(value)
        if found is None:
            found = self._plain[value] = (self._factor(value),)
        return found

    def _factor(self, value: Value) -> ExpTerm:
        constant = known(value, self.editor.producer)
        if constant is not None and constant.single:
            element = constant.array.reshape(())
            if abs(element) == 1:
                return ExpTerm({}, sign=int(element))
        return ExpTerm({}, partial(self.now, value))

    def now(self, value: Value) -> Value:
        """The value, or what has taken its place."""
        return self.moved.get(value, value)

    def is_shifted(self, logs: Exponent) -> bool:
        """Whether this is a logsumexp less the largest element, so between 0 and log(n)."""
        if len(logs) != 2 or set(logs.values()) != {1, -1}:
            return False
        whole, shift = sorted(logs, key=lambda log: -logs[log])
        row = self.logs.rows.get(self.logs.origin(whole)[0])
        return row is not None and row.matches(self.logs.shifts.get(self.logs.origin(shift)[0]))

    def full(self, factor: Factor | None, value: Value) -> Factor:
        """A factor in the full shape of the value it is a factor of."""

        def make() -> Value:
            made = factor() if factor is not None else like(1, value)
            return shaped(made, value.shape)

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
            logs = self._through(term.logs, log)
            if logs is None:
                return None
            made: Factor | None = None
            if term.factor is not None or not bare:
                made = partial(_applied, self.full(term.factor, source), factor)
            result.append(ExpTerm(logs, made, term.depth + 1, term.guarded, term.summed, term.sign))
        return tuple(result)

    def _through(self, logs: Exponent, log: Callable[[Value], Value | None]) -> Exponent | None:
        """An exponent whose logs go through something; of a pair both ends do."""
        result: dict[Value, int] = {}
        for value, count in logs.items():
            pair = self.logs.pairs.get(value)
            if pair is None:
                made = log(value)
                if made is None:
                    return None
                new = self.logs.plain(made)
            else:
                # Ends of pairs are no pairs, so this is one level deep.
                left, right = self._through(pair.left, log), self._through(pair.right, log)
                if left is None or right is None:
                    return None
                new = self.logs.pair(left, right)
            result = added(result, {new: count})
        return result


def _applied(inner: Factor, outer: Callable[[Value], Value]) -> Value:
    return outer(inner())


def negated(terms: Terms) -> Terms:
    """The terms with the other sign."""
    return tuple(replace(term, sign=-term.sign) for term in terms)


Rule = Callable[[Describer, Node], Terms | None]


def _exp(s: Describer, node: Node) -> Terms:
    value = s.now(node.inputs[0])
    source = s.editor.producer(value)
    if source is not None and source.op is subtract_op:
        origin, shift = source.inputs
        row = _largest(s, shift)
        if row is not None and row.value is origin and is_flat(shift, origin.shape, row.axes):
            shift = s.logs.plain(shift)
            s.logs.shifts[shift] = row
            return (ExpTerm({origin: 1, shift: -1}),)
    return (ExpTerm({value: 1}),)


def _largest(s: Describer, value: Value) -> Row | None:
    """The row that a value is the largest element of, 0 in the place of an infinite one or not."""
    for _ in range(MAXIMUM_STEPS):
        node = s.editor.producer(value)
        if node is None:
            return None
        if node.op is max_op:
            return Row(node.inputs[0], node.attrs["axes"])
        if node.op in (broadcast_to_op, reshape_op, stop_gradient_op):
            (value,) = node.inputs
        elif node.op is where_op and _is_finite(s, node.inputs[0], node.inputs[1]):
            value = node.inputs[1]
        else:
            return None
    return None


def _is_finite(s: Describer, mask: Value, value: Value) -> bool:
    """Whether the mask says where the value is finite."""
    node = s.editor.producer(mask)
    return node is not None and node.op is isfinite_op and node.inputs[0] is value


def _softmax(s: Describer, node: Node) -> Terms:
    value = s.now(node.inputs[0])
    return (ExpTerm({value: 1, s.logs.sum(value, node.attrs["axes"]): -1}, summed=True),)


def _sigmoid(s: Describer, node: Node) -> Terms:
    value = s.now(node.inputs[0])
    return (ExpTerm({value: 1, s.logs.pair({value: 1}, {}): -1}, summed=True),)


def _scaled(factor: Factor | None, other: Factor | None, by: Callable[[Value, Value], Value],
            ) -> Factor | None:  # fmt: skip
    """A product or guarded product of factors."""
    if factor is None or other is None:
        return other if factor is None else factor
    return lambda: by(factor(), other())


def _product(s: Describer, node: Node) -> Terms | None:
    guarded = node.op is guarded_multiply_op
    left, right = (s.of(value) for value in node.inputs)
    if len(left) * len(right) > MAXIMUM_TERMS:
        left, right = (
            compacted(s.logs, terms, value)
            for terms, value in zip((left, right), node.inputs, strict=True)
        )
    if len(left) * len(right) > MAXIMUM_TERMS:
        return None
    by = guarded_multiply if guarded else _times
    return tuple(
        ExpTerm(
            added(a.logs, b.logs),
            _scaled(a.factor, b.factor, by),
            1 + max(a.depth, b.depth),
            guarded or a.guarded or b.guarded,
            a.summed or b.summed,
            a.sign * b.sign,
        )
        for a in left
        for b in right
    )


def _times(x: Value, y: Value) -> Value:
    return x * y


def _quotient(s: Describer, node: Node) -> Terms | None:
    above, below = (s.of(value) for value in node.inputs)
    divisor = s.logs.single(below)
    if divisor is None:
        return None
    one = partial(like, 1, node.output)

    def factor(term: ExpTerm) -> Factor | None:
        if divisor.factor is None:
            return term.factor
        upper, lower = term.factor or one, divisor.factor
        return lambda: upper() / lower()

    return tuple(
        ExpTerm(
            added(term.logs, divisor.logs, -1),
            factor(term),
            1 + max(term.depth, divisor.depth),
            term.guarded,
            term.summed or divisor.summed,
            term.sign * divisor.sign,
        )
        for term in above
    )


def _negative(s: Describer, node: Node) -> Terms:
    return negated(s.of(node.inputs[0]))


def _sum_of_two(s: Describer, node: Node) -> Terms:
    left, right = (s.of(value) for value in node.inputs)
    if node.op is subtract_op:
        right = negated(right)
    return s.logs.total((*left, *right), node.output)


def _reduced(s: Describer, node: Node) -> Terms | None:
    """A sum over axes: exponents that don't vary along them stay; one exponential alone sums up."""
    (source,) = node.inputs
    axes: tuple[int, ...] = node.attrs["axes"]
    keep: bool = node.attrs["keepdims"]
    terms = s.of(source)
    ones = all(source.shape[axis] == 1 for axis in axes)
    single = len(terms) == 1 and terms[0].bare
    flat = all(is_flat(log, source.shape, axes) for term in terms for log in term.logs)
    if (flat and not (ones and single)) or not (flat or single):
        stays = partial(is_flat, shape=source.shape, axes=axes)
        through = terms if flat else apart(s.logs, terms, source, stays, axes)
        return through and s.through(
            through,
            source,
            lambda log: log if keep else _dropped(s, log, source.shape, axes),
            lambda factor: apply(node.op, factor, **node.attrs),
            bare=False,
        )
    if not axes:
        return None
    if any(source.shape[axis] == 0 for axis in axes) or s.logs.shares(terms[0].logs) is not None:
        return None
    logs = terms[0].logs
    shifts = {log: count for log, count in logs.items() if log in s.logs.shifts}
    rest = added(logs, shifts, -1)
    if not all(rest == {s.logs.shifts[shift].value: 1} and s.logs.shifts[shift].axes == axes
               for shift in shifts):  # fmt: skip
        shifts, rest = {}, dict(logs)
    total = s.logs.sum(shaped(s.logs.exponent(rest, source), source.shape), axes)
    result: dict[Value, int] = {}
    for log, count in {**shifts, total: 1}.items():
        kept = log if keep else _dropped(s, log, source.shape, axes)
        result[s.logs.plain(kept)] = count
    return (ExpTerm(result, summed=True),)


def _averaged(s: Describer, node: Node) -> Terms | None:
    """A sum divided by the number of its terms."""
    terms = _reduced(s, node)
    (source,) = node.inputs
    if terms is None or not terms[0].bare:
        return terms
    axes: tuple[int, ...] = node.attrs["axes"]

    def share() -> Value:
        size = product(source.shape[axis] for axis in axes)
        return like(1, node.output) / size_beside(size, source.dtype, node.output)

    return (replace(terms[0], factor=share, depth=terms[0].depth + 1),)


def _dropped(s: Describer, log: Value, shape: Shape, axes: Sequence[int]) -> Value:
    lead = (1,) * (len(shape) - len(log.shape))
    full = (*lead, *log.shape)[len(lead) + len(log.shape) - len(shape) :]
    rest = tuple(dim for axis, dim in enumerate(full) if axis not in axes)
    return log if rest == log.shape else s.logs.view(reshaping(log.shape, rest), log)


def _summed_to(s: Describer, node: Node) -> Terms | None:
    (source,) = node.inputs
    shape = node.output.shape
    lead = len(source.shape) - len(shape)
    axes = tuple(
        axis for axis, dim in enumerate(source.shape)
        if axis < lead or (shape[axis - lead] == 1 and dim != 1)
    )  # fmt: skip
    terms = apart(s.logs, s.of(source), source, lambda log: fits(log.shape, shape), axes)
    return terms and s.through(
        terms,
        source,
        lambda log: log,
        lambda factor: apply(sum_to_op, factor, **node.attrs),
        bare=False,
    )


def _spread(s: Describer, node: Node) -> Terms:
    return s.of(node.inputs[0])


def _viewed(s: Describer, node: Node, view: Move) -> Terms | None:
    source = node.inputs[0]

    def pick(log: Value) -> Value:
        return s.logs.view(view, s.logs.spread(log, source.shape))

    return s.through(s.of(source), source, pick, view.apply)


def _reshape(s: Describer, node: Node) -> Terms | None:
    return _viewed(s, node, reshaping(node.inputs[0].shape, node.output.shape))


def _view(s: Describer, node: Node) -> Terms | None:
    source, *others = node.inputs
    if source not in s.terms or "drop" in node.attrs:
        return None
    return _viewed(s, node, node_view(node.op, others, node.attrs, source.shape))


def _placed(
    s: Describer,
    source: Value,
    view: Move,
    axes: Sequence[int],
    place: Callable[[Value], Value],
) -> Terms | None:
    """Elements put in other places along axes, among zeros, by the transpose of a view.

    Where the exponent is picked by that view, its origin does as well: what it is elsewhere is
    multiplied by zero. So does an exponent that is the same along the axes.
    """

    def lift(log: Value) -> Value | None:
        origin = s.logs.undo(view, s.logs.spread(log, source.shape))
        return log if origin is None and is_flat(log, source.shape, axes) else origin

    terms = apart(s.logs, s.of(source), source, lambda log: lift(log) is not None)
    return terms and s.through(terms, source, lift, place, bare=False)


def _pad(s: Describer, node: Node) -> Terms | None:
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
    margins = zip(attrs["before"], attrs["after"], attrs["interior"], strict=True)
    axes = [axis for axis, margin in enumerate(margins) if margin != (0, 0, 0)]
    return _placed(s, source, view, axes, lambda factor: apply(pad_op, factor, **attrs))


def _scatter(s: Describer, node: Node) -> Terms | None:
    base, indices, source = node.inputs
    constant = known(base, s.editor.producer)
    if source not in s.terms or constant is None or not constant.single or constant.array.any():
        return None
    if "drop" in node.attrs:
        return None
    picks = take_op if node.op is scatter_add_op else take_along_axis_op
    view = node_view(picks, (indices,), {"axis": node.attrs["axis"]}, base.shape)
    # indices of several axes, or of none, are in the places of one
    axes = (node.attrs["axis"],) if source.ndim == base.ndim else range(source.ndim)
    return _placed(
        s, source, view, axes, lambda factor: apply(node.op, base, indices, factor, **node.attrs)
    )


_RULES: dict[OpDef, Rule] = {
    exp_op: _exp,
    softmax_op: _softmax,
    sigmoid_op: _sigmoid,
    multiply_op: _product,
    guarded_multiply_op: _product,
    divide_op: _quotient,
    negative_op: _negative,
    add_op: _sum_of_two,
    subtract_op: _sum_of_two,
    sum_op: _reduced,
    mean_op: _averaged,
    sum_to_op: _summed_to,
    broadcast_to_op: _spread,
    reshape_op: _reshape,
    **dict.fromkeys(VIEWS, _view),
    pad_op: _pad,
    scatter_add_op: _scatter,
    scatter_along_op: _scatter,
}
