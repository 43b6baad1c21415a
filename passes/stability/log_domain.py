"""Products of exponentials by their logarithms: the algebra behind the pass ``stabilize``.

A value is described as a sum of terms ``factor * exp(exponent)``, where the exponent is an integer
combination of values of the graph ("logs"): ``exp(x)`` has the exponent x, its sum over a row the
exponent logsumexp(x), their quotient x - logsumexp(x); ``1 + exp(x)`` has the exponent softplus(x).
Exponents are added, never exponentiated, so what overflows in the value and cancels in the end
(softmax, sigmoid, and the gradients of all their spellings) never overflows at all.

Invariant: a description holds for the whole shape of its value, to which factors and logs are
broadcast; in real arithmetic it equals what the graph computes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from graphc.ir import attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim
from graphc.ir.op import OpDef
from graphc.ir.types import Shape, TensorType
from graphc.ir.value import Value
from graphc.ops.convert import broadcast_shapes
from graphc.ops.declare import like
from graphc.ops.indexing.core import take_along_axis_op, take_op
from graphc.ops.move.shape import (
    broadcast_to,
    broadcast_to_op,
    inverse_permutation,
    reshape_op,
    transpose_op,
    with_shape,
)
from graphc.ops.move.slicing import slice_op
from graphc.ops.nn.layers import log_softmax_op, softplus
from graphc.ops.pointwise.logic import bitwise_and, equal, where
from graphc.ops.pointwise.math import logaddexp
from graphc.ops.reduce.statistics import logsumexp_op, shares_of_infinite
from passes.stability.terms import MOST_LOGS, Exponent, ExpTerm, Terms, added, alike, merged, size


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What a log is the logsumexp of."""

    value: Value
    axes: tuple[int, ...]

    def matches(self, other: Row | None) -> bool:
        """Whether the other one is the same row."""
        return other is not None and other.value is self.value and other.axes == self.axes


@dataclass(frozen=True, slots=True, eq=False)
class ExponentPair:
    """What a log is the logaddexp of: two different exponents, the second one perhaps 0."""

    left: Exponent
    right: Exponent


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """An op that picks or moves elements of its first operand.

    Attributes:
        op, key: equal ones mean equal picking.
        source: the shape of what is picked from.
        apply: makes the picked value.
        inverse: the key of the view by the same op that moves everything back, if there is one.
    """

    op: OpDef
    key: object
    source: Shape
    apply: Callable[[Value], Value]
    inverse: object = None


def reshaping(source: Shape, shape: Shape) -> Move:
    """The view that gives another shape."""
    return Move(reshape_op, shape, source, lambda value: with_shape(value, shape, ()))


def node_view(
    op: OpDef, others: Sequence[Value], attrs: attributes.Attributes, source: Shape
) -> Move:
    """The view that an application of slice, transpose, take or take_along_axis is."""
    return Move(
        op,
        _view_key(others, attrs),
        source,
        lambda value: apply(op, value, *others, **attrs),
        _inverse(op, attrs, source),
    )


def _view_key(others: Sequence[Value], attrs: attributes.Attributes) -> object:
    return tuple(map(id, others)), attributes.keys(attrs)


def _inverse(op: OpDef, attrs: attributes.Attributes, source: Shape) -> object:
    """The key of the transpose, or reversal of axes, that undoes one."""
    if op is transpose_op:
        return _view_key((), {"axes": inverse_permutation(attrs["axes"])})
    if op is not slice_op or attrs["size"] != source:
        return None
    parts = zip(attrs["start"], attrs["step"], source, strict=True)
    reverses = all((start, step) in ((0, 1), (size - 1, -1)) for start, step, size in parts)
    return _view_key((), attrs) if reverses else None


VIEWS = (slice_op, transpose_op, take_op, take_along_axis_op)
_BROADCAST = broadcast_to_op


def core_shape(shape: Shape) -> Shape:
    """The shape without leading axes of size 1, which broadcasting adds and drops freely."""
    start = 0
    while start < len(shape) and shape[start] == 1:
        start += 1
    return shape[start:]


def fits(shape: Shape, target: Sequence[Dim]) -> bool:
    """Whether a shape broadcasts to another, proved."""
    core = core_shape(shape)
    lead = len(target) - len(core)
    return lead >= 0 and all(
        dim in (1, wanted) for dim, wanted in zip(core, target[lead:], strict=True)
    )


def shaped(value: Value, shape: Shape) -> Value:
    """The value in a shape it broadcasts to, leading axes of size 1 apart."""
    if len(value.shape) > len(shape):
        value = reshaping(value.shape, core_shape(value.shape)).apply(value)
    return value if value.shape == shape else broadcast_to(value, shape)


class Logs:
    """Makes log values as nodes, each once, and remembers how, so that views can be undone.

    Attributes:
        rows, pairs: what logs are the logsumexp or the logaddexp of.
        shifts: what is the largest element of which row.
    """

    def __init__(self) -> None:
        self._views: dict[tuple[Value, OpDef, object], Value] = {}
        self._made: dict[Value, tuple[Move, Value]] = {}
        self._sums: dict[tuple[Value, tuple[int, ...]], Value] = {}
        self._pairs: dict[frozenset[frozenset[tuple[Value, int]]], Value] = {}
        self._made_pairs: dict[Value, Value] = {}
        self._gaps: dict[Value, Value] = {}
        self._renamed: dict[Value, Value] = {}
        self.rows: dict[Value, Row] = {}
        self.pairs: dict[Value, ExponentPair] = {}
        self.shifts: dict[Value, Row] = {}

    def rename(self, old: Value, new: Value) -> None:
        """Says that a value which was made here has become another one."""
        self._renamed[old] = new

    def real(self, value: Value) -> Value:
        """The value that stands in the graph for a log."""
        return self._renamed.get(value, value)

    def view(self, view: Move, value: Value) -> Value:
        """What the view picks of a log of the view's source shape."""
        if view.op is reshape_op and value in self._made:
            inner, origin = self._made[value]
            if inner.op is reshape_op:
                shape: Shape = view.key  # type: ignore[assignment]
                if origin.shape == shape:
                    return origin
                return self.view(reshaping(origin.shape, shape), origin)
        if view.inverse is not None and value in self._made:
            inner, origin = self._made[value]
            if inner.op is view.op and inner.key == view.inverse:
                return origin
        place = (value, view.op, view.key)
        if place not in self._views:
            made = view.apply(self.real(value))
            self._views[place] = made
            if made is not value:
                self._made.setdefault(made, (view, value))
        return self._views[place]

    def spread(self, value: Value, shape: Shape) -> Value:
        """A log in the full shape of the value it describes."""
        if len(value.shape) > len(shape):
            tail = value.shape[len(value.shape) - len(shape) :]
            value = self.view(reshaping(value.shape, tail), value)
        if value.shape == shape:
            return value
        view = Move(_BROADCAST, shape, value.shape, lambda source: broadcast_to(source, shape))
        return self.view(view, value)

    def plain(self, value: Value) -> Value:
        """The smallest log that broadcasts to the same."""
        while value in self._made:
            view, source = self._made[value]
            same = core_shape(source.shape) == core_shape(value.shape)
            if view.op is not _BROADCAST and not (view.op is reshape_op and same):
                break
            value = source
        return value

    def undo(self, view: Move, value: Value) -> Value | None:
        """The log that the view picked this one of, None if it did not."""
        made = self._made.get(value)
        if made is None:
            return None
        inner, source = made
        if inner.op is view.op and inner.key == view.key and source.shape == view.source:
            return source
        return None

    def sum(self, value: Value, axes: tuple[int, ...]) -> Value:
        """The logsumexp over axes, which are kept with size 1."""
        place = (value, axes)
        if place not in self._sums:
            made = apply(logsumexp_op, self.real(value), axes=axes, keepdims=True)
            self._sums[place] = made
            self.rows[made] = Row(value, axes)
        return self._sums[place]

    def known_sum(self, value: Value, axes: tuple[int, ...]) -> Value | None:
        """The logsumexp over axes if somebody has wanted it."""
        return self._sums.get((value, axes))

    def is_spelled(self, log: Value) -> bool:
        """Whether it is no log of a sum, nor what a row is shifted by."""
        origin = self.origin(log)[0]
        return not any(origin in made for made in (self.rows, self.pairs, self.shifts))

    def origin(self, value: Value) -> tuple[Value, list[Move]]:
        """What a log is picked of, and by which views, the first one first."""
        views: list[Move] = []
        while value in self._made:
            view, value = self._made[value]
            views.append(view)
        views.reverse()
        return value, views

    def pair(self, left: Exponent, right: Exponent) -> Value:
        """The logaddexp of two exponents: a stand-in of which ``exponent`` makes nodes if need be.

        Most of them cancel.
        """
        place = frozenset((frozenset(left.items()), frozenset(right.items())))
        if place not in self._pairs:
            values = [*left, *right]
            shape = broadcast_shapes(*(value.shape for value in values))
            made = Value(TensorType(values[0].dtype, shape))
            self._pairs[place] = made
            self.pairs[made] = ExponentPair(left, right)
        return self._pairs[place]

    def exponent(self, logs: Exponent, like_: Value) -> Value:
        """The sum of counted logs: what is positive first, so that differences stay exact.

        Logs that cancel in part (of sigmoid(x) * exp(y) these are x - softplus(x)) may be infinite
        or dwarf the rest; their difference comes first, and without cancellation.
        """
        parts, rest = self._parted(logs)
        for log, count in rest.items():
            parts.append((self.real(self._made_pair(log) if log in self.pairs else log), count))
        total: Value | None = None
        for value, count in sorted(parts, key=lambda item: -item[1]):
            scaled = value if abs(count) == 1 else value * abs(count)
            if total is None:
                total = scaled if count > 0 else -scaled
            else:
                total = total + scaled if count > 0 else total - scaled
        return like(0, like_) if total is None else total

    def _parted(self, logs: Exponent) -> tuple[list[tuple[Value, int]], Exponent]:
        """Logarithms of parts of wholes inside an exponent, each with its count, and the rest."""
        rest, parts = dict(logs), list[tuple[Value, int]]()
        for whole in [log for log in logs if log in self.pairs and abs(logs[log]) <= MOST_LOGS]:
            pair, sign = self.pairs[whole], 1 if logs[whole] > 0 else -1
            for _ in range(abs(logs[whole])):
                without = added(rest, {whole: 1}, -sign)
                ends = [added(without, end, sign) for end in (pair.left, pair.right)]
                left = size(ends[0]) <= size(ends[1])
                if size(ends[0 if left else 1]) >= size(without):
                    break
                rest = ends[0 if left else 1]
                parts.append((self.log_of(PairShare(whole, left)), -sign))
        for one, other in itertools.permutations(logs, 2):
            count = min(rest.get(one, 0), -rest.get(other, 0))
            if count <= 0:
                continue
            made, sign = self._difference(one, other), 1
            if made is None:
                made, sign = self._difference(other, one), -1
            if made is not None:
                rest = added(rest, {one: count, other: -count}, -1)
                parts.append((made, sign * count))
        return parts, rest

    def _difference(self, one: Value, other: Value) -> Value | None:
        """One log less another, if they belong to one row and so may cancel."""
        share = self._share({one: 1, other: -1})
        if share is not None and share.part is one:
            return self.log_of(share)
        shift, views = self.origin(other)
        row = self.shifts.get(shift)
        if row is None:
            return None
        value, others = self.origin(one)
        if value is row.value and not others and not views:
            return self.real(value) - self.real(shift)
        if not row.matches(self.rows.get(value)):
            return None
        if core_shape(one.shape) != core_shape(other.shape):
            return None
        made = self.real(row.value) - self.real(shift)
        made = apply(logsumexp_op, shaped(made, row.value.shape), axes=row.axes, keepdims=True)
        for view in others:
            made = view.apply(shaped(made, view.source))
        return made

    def log_of(self, share: Share | PairShare) -> Value:
        """The logarithm of a part of a whole, without cancellation."""
        if isinstance(share, PairShare):
            # log(sigmoid(x)) is -softplus(-x).
            return -softplus(-self.gap(share))
        if share.views is None:
            return self.real(share.part) - self.real(share.whole)
        return self.picked(share, log_softmax_op)

    def picked(self, share: Share, op: OpDef, *, finite: bool = False) -> Value:
        """Softmax or its logarithm of the row, and from it what the share is of.

        With ``finite`` infinite elements have shares too, as they have in gradients.
        """
        source = self.real(share.row.value)
        value = apply(op, source, axes=share.row.axes)
        if finite:
            value = shares_of_infinite(source, share.row.axes, value)
        for view in share.views or ():
            value = view.apply(shaped(value, view.source))
        return value

    def gap(self, share: PairShare, *, finite: bool = False) -> Value:
        """What the share is the sigmoid of: its exponent less the other one.

        With ``finite`` two infinite exponents are no NaN apart, but 0.
        """
        if share.whole not in self._gaps:
            pair = self.pairs[share.whole]
            difference = added(pair.left, pair.right, -1)
            self._gaps[share.whole] = self.exponent(difference, share.whole)
        gap = self.real(self._gaps[share.whole])
        if finite:
            left, right = (
                self.exponent(end, share.whole)
                for end in (self.pairs[share.whole].left, self.pairs[share.whole].right)
            )
            same = bitwise_and(equal(left, math.inf), equal(right, math.inf))
            gap = where(same, like(0, gap), gap)
        return gap if share.left else -gap

    def _made_pair(self, log: Value) -> Value:
        if log not in self._made_pairs:
            left, right = self.pairs[log].left, self.pairs[log].right
            if left and right:
                made = logaddexp(self.exponent(left, log), self.exponent(right, log))
            else:
                made = softplus(self.exponent(left or right, log))
            self._made_pairs[log] = made
        return self._made_pairs[log]

    def shares(self, logs: Exponent) -> list[Share | PairShare] | None:
        """The exponential as a product of parts of wholes, each of them at most one.

        None if it is none; an empty list for exp(0).
        """
        found, rest = self.parted(logs)
        return None if rest else found

    def parted(self, logs: Exponent) -> tuple[list[Share | PairShare], Exponent]:
        """The parts of wholes in an exponential, and the exponent that is left."""
        rest, found = dict(logs), list[Share | PairShare]()
        for whole in [log for log in logs if log in self.pairs]:
            pair = self.pairs[whole]
            count = -rest.pop(whole)
            if not 0 < count <= MOST_LOGS:
                return [], logs
            for _ in range(count):
                ends = [added(rest, end, -1) for end in (pair.left, pair.right)]
                costs = [0 if self._share(end) else size(end) for end in ends]
                left = costs[0] <= costs[1]
                rest = ends[0 if left else 1]
                found.append(PairShare(whole, left))
        for one, other in itertools.permutations(dict(rest), 2):
            count = min(rest.get(one, 0), -rest.get(other, 0))
            share = self._share({one: 1, other: -1}) if 0 < count <= MOST_LOGS else None
            if share is not None and share.part is one:
                found += [share] * count
                rest = added(rest, {one: count, other: -count}, -1)
        return found, rest

    def exponent_of(self, share: Share | PairShare) -> Exponent:
        """What a part of a whole is the exponential of."""
        if isinstance(share, Share):
            return {share.part: 1, share.whole: -1}
        pair = self.pairs[share.whole]
        return added(pair.left if share.left else pair.right, {share.whole: 1}, -1)

    def total(self, terms: Sequence[ExpTerm], beside: Value) -> Terms:
        """The sum of terms; a whole less one part of a pair is the other part."""
        result = list(merged(terms, partial(like, 1, beside)))
        # Each success leaves one term less.
        while (found := self._complement(result)) is not None:
            whole, less, rest = found
            result = [term for term in result if term is not whole and term is not less]
            depth = 1 + max(whole.depth, less.depth)
            result.append(replace(whole, logs=rest, depth=depth, summed=True))
        return tuple(result)

    def _complement(self, terms: Sequence[ExpTerm]) -> tuple[ExpTerm, ExpTerm, Exponent] | None:
        """Two terms, the second one a part of the first and subtracted, and what is left."""
        for whole, less in itertools.permutations(terms, 2):
            if whole.sign == less.sign or not alike((whole, less)):
                continue
            shares = self.shares(added(less.logs, whole.logs, -1)) or []
            if len(shares) == 1 and isinstance(shares[0], PairShare):
                found = shares[0]
                pair = self.pairs[found.whole]
                other = added(pair.right if found.left else pair.left, {found.whole: 1}, -1)
                return whole, less, added(whole.logs, other)
        return None

    def single(self, terms: Terms) -> ExpTerm | None:
        """Terms as one term: two exponentials are the logaddexp of their exponents."""
        if len(terms) == 1:
            return terms[0]
        if len(terms) != 2 or terms[0].sign != terms[1].sign or not alike(terms):
            return None
        left, right = (term.logs for term in terms)
        if any(log in self.pairs for log in (*left, *right)):
            return None
        depth = 1 + max(term.depth for term in terms)
        logs = {self.pair(left, right): 1}
        return replace(terms[0], logs=logs, depth=depth, summed=True)

    def _share(self, logs: Exponent) -> Share | None:
        """What part of its row an exponential is, if the exponent says that: x - logsumexp(x)."""
        if len(logs) != 2:
            return None
        (a, count), (b, other) = logs.items()
        if {count, other} != {1, -1}:
            return None
        part, whole = (a, b) if count == 1 else (b, a)
        value, views = self.origin(part)
        total, others = self.origin(whole)
        row = self.rows.get(total)
        if row is None or row.value is not value:
            return None
        if others and others[0].op is _BROADCAST and others[0].key == value.shape:
            others = others[1:]
        same = [(v.op, v.key) for v in views] == [(v.op, v.key) for v in others]
        aligned = same or core_shape(total.shape) == ()
        return Share(part, whole, row, views if aligned else None)


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """exp(part - whole), where whole is the logsumexp of the row that part is picked from.

    Attributes:
        part, whole: the logs.
        row: the row.
        views: how ``part`` is picked from the row's value, None if ``whole`` is not picked the
            same way.
    """

    part: Value
    whole: Value
    row: Row
    views: list[Move] | None


@dataclass(frozen=True, slots=True, eq=False)
class PairShare:
    """exp(left - whole) or exp(right - whole), where whole is the logaddexp of the two."""

    whole: Value
    left: bool
