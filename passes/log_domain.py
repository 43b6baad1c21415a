"""Products of exponentials by their logarithms: the algebra behind the pass ``stabilize``.

A value is described as a sum of terms ``factor * exp(exponent)``, where the exponent is an integer
combination of values of the graph ("logs"): ``exp(x)`` has the exponent x, its sum over a row the
exponent logsumexp(x), their quotient x - logsumexp(x). Exponents are added, never exponentiated, so
what overflows in the value and cancels in the end (softmax, and the gradients of all its
spellings) never overflows at all.

Invariant: a description holds for the whole shape of its value, to which factors and logs are
broadcast; in real arithmetic it equals what the graph computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from graphc.ir import attributes
from graphc.ir.builder import apply
from graphc.ir.dims import Dim
from graphc.ir.op import OpDef
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.indexing import take_along_axis_op, take_op
from graphc.ops.shape import (
    broadcast_to,
    broadcast_to_op,
    inverse_permutation,
    reshape_op,
    transpose_op,
    with_shape,
)
from graphc.ops.slicing import slice_op
from graphc.ops.statistics import logsumexp_op

Factor: TypeAlias = Callable[[], Value]
"""Makes the factor when it is wanted: most descriptions are never turned into nodes."""

MAXIMUM_TERMS = 4
MAXIMUM_LOGS = 6
MAXIMUM_DEPTH = 32
"""How many factors may be waiting to be made inside each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """factor * exp(sum of count * log).

    Attributes:
        logs: the exponent: how often each value counts, never 0 times.
        factor: None is one.
        depth: how many factors are inside the factor.
        guarded: the factor is 0 where a cotangent is, whatever it is multiplied with.
        summed: a sum of exponentials went into the exponent.
    """

    logs: Mapping[Value, int]
    factor: Factor | None = None
    depth: int = 0
    guarded: bool = False
    summed: bool = False


Terms: TypeAlias = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """What a log is the logsumexp of."""

    value: Value
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class View:
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


def reshaping(source: Shape, shape: Shape) -> View:
    """The view that gives another shape."""
    return View(reshape_op, shape, source, lambda value: with_shape(value, shape, ()))


def node_view(
    op: OpDef, others: Sequence[Value], attrs: attributes.Attributes, source: Shape
) -> View:
    """The view that an application of slice, transpose, take or take_along_axis is."""
    plain = {name: given for name, given in attrs.items() if name != "guards"}
    return View(
        op,
        _view_key(others, plain),
        source,
        lambda value: apply(op, value, *others, **plain),
        _inverse(op, plain, source),
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


class Logs:
    """Makes log values as nodes, each once, and remembers how, so that views can be undone."""

    def __init__(self) -> None:
        self._views: dict[tuple[Value, OpDef, object], Value] = {}
        self._made: dict[Value, tuple[View, Value]] = {}
        self._sums: dict[tuple[Value, tuple[int, ...]], Value] = {}
        self.rows: dict[Value, Row] = {}

    def view(self, view: View, value: Value) -> Value:
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
            made = view.apply(value)
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
        view = View(_BROADCAST, shape, value.shape, lambda source: broadcast_to(source, shape))
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

    def undo(self, view: View, value: Value) -> Value | None:
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
            # Without guards: an axis that turns out empty gives -inf, as the sum's logarithm.
            made = apply(logsumexp_op, value, axes=axes, keepdims=True)
            self._sums[place] = made
            self.rows[made] = Row(value, axes)
        return self._sums[place]

    def origin(self, value: Value) -> tuple[Value, list[View]]:
        """What a log is picked of, and by which views, the first one first."""
        views: list[View] = []
        while value in self._made:
            view, value = self._made[value]
            views.append(view)
        views.reverse()
        return value, views


    def share(self, logs: Mapping[Value, int]) -> Share | None:
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


@dataclass(frozen=True, slots=True)
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
    views: list[View] | None


# --- arithmetic of terms -------------------------------------------------------------------------


def added(a: Mapping[Value, int], b: Mapping[Value, int], sign: int = 1) -> dict[Value, int]:
    """a + sign * b."""
    result = dict(a)
    for value, count in b.items():
        total = result.get(value, 0) + sign * count
        if total:
            result[value] = total
        else:
            result.pop(value, None)
    return result


def same_logs(a: Mapping[Value, int], b: Mapping[Value, int]) -> bool:
    """Equal exponents."""
    return len(a) == len(b) and all(b.get(value) == count for value, count in a.items())


def merged(terms: Sequence[Term], add: Callable[[Value, Value], Value],
           one: Callable[[], Value]) -> Terms:  # fmt: skip
    """Terms of one exponent are one term."""
    result: list[Term] = []
    for term in terms:
        for place, other in enumerate(result):
            if same_logs(term.logs, other.logs):
                result[place] = _joined(other, term, add, one)
                break
        else:
            result.append(term)
    return tuple(result)


def _joined(a: Term, b: Term, add: Callable[[Value, Value], Value],
            one: Callable[[], Value]) -> Term:  # fmt: skip
    left, right = a.factor or one, b.factor or one
    return Term(
        a.logs,
        lambda: add(left(), right()),
        1 + max(a.depth, b.depth),
        a.guarded and b.guarded,
        a.summed or b.summed,
    )


def small(terms: Terms) -> bool:
    """Whether a description is worth keeping."""
    return (
        0 < len(terms) <= MAXIMUM_TERMS
        and all(len(t.logs) <= MAXIMUM_LOGS and t.depth <= MAXIMUM_DEPTH for t in terms)
    )


def fits(shape: Shape, target: Sequence[Dim]) -> bool:
    """Whether a shape broadcasts to another, proved."""
    core = core_shape(shape)
    lead = len(target) - len(core)
    return lead >= 0 and all(
        dim in (1, wanted) for dim, wanted in zip(core, target[lead:], strict=True)
    )
