"""Parts of wholes as values, and sums of products that have such parts.

A part of a whole, as an element of a softmax or a sigmoid, is in the range whatever it is made of.
Invariant: descriptions stay equal to the values in real arithmetic, as in
``passes.stability.log_domain``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.declare import like
from graphc.ops.nn.layers import softmax_op
from graphc.ops.pointwise.arithmetic import guarded_multiply
from graphc.ops.pointwise.math import exp, sigmoid
from passes.stability.log_domain import Logs, PairShare, Share
from passes.stability.terms import Exponent, ExpTerm, Terms, added


def has_parts(logs: Logs, exponent: Exponent) -> bool:
    """Whether an exponential is of parts of wholes and of exponentials that are as spelled.

    Not so without parts, but for exp(0).
    """
    parts, rest = logs.parted(exponent)
    spelled = all(count > 0 and logs.is_spelled(log) for log, count in rest.items())
    return not rest or (bool(parts) and spelled)


def part_of(logs: Logs, exponent: Exponent, like_: Value, *, finite: bool = False) -> Value:
    """The exponential of an exponent, by the parts of wholes that are in it.

    With ``finite`` infinite elements have parts too, as they have in gradients.
    """
    shares, rest = logs.parted(exponent)
    if any(isinstance(share, Share) and share.whole not in exponent for share in shares):
        # A part of a row that is itself a part of a pair: the row may be -inf throughout.
        return exp(logs.exponent(exponent, like_))
    part: Value | None = None
    for share in shares:
        if isinstance(share, PairShare):
            made = sigmoid(logs.gap(share, finite=finite))
        elif share.views is not None:
            made = logs.picked(share, softmax_op, finite=finite)
        else:
            made = exp(logs.exponent({share.part: 1, share.whole: -1}, like_))
        part = made if part is None else part * made
    if rest:
        made = exp(logs.exponent(rest, like_))
        part = made if part is None else part * made
    return like(1, like_) if part is None else part


def scaled(term: ExpTerm, part: Value) -> Value:
    """The term's factor times something."""
    if term.factor is None:
        return part
    factor = term.factor()
    return guarded_multiply(factor, part) if term.guarded else factor * part


def added_up(terms: Sequence[ExpTerm], made: Callable[[ExpTerm], Value]) -> Value:
    """The sum of what is made of terms, their signs apart; those above 0 come first."""
    total: Value | None = None
    for term in sorted(terms, key=lambda term: -term.sign):
        part = made(term)
        if total is None:
            total = part if term.sign > 0 else -part
        else:
            total = total + part if term.sign > 0 else total - part
    assert total is not None
    return total


def is_flat(log: Value, shape: Shape, axes: Sequence[int]) -> bool:
    """Whether a log is the same all along the axes of the shape."""
    lead = len(shape) - len(log.shape)
    return all(axis < lead or log.shape[axis - lead] == 1 for axis in axes)


def apart(
    logs: Logs,
    terms: Terms,
    source: Value,
    stays: Callable[[Value], bool],
    axes: tuple[int, ...] | None = None,
) -> Terms | None:
    """Terms with exponents of logs that stay; the factors have the exponentials of the others.

    Those are made of parts of wholes: with 1 / sum(exp(x)) staying, exp(x) / sum(exp(x)) ** 2 is
    softmax(x) beside it. Other exponentials are as they are spelled.

    Args:
        logs: makes exponents.
        terms: the description of the source.
        source: a value.
        stays: whether a log may stay.
        axes: along which logs that stay are the same. Then exp(x) is softmax(x) beside its sum
            over the axes, if that is a log by now.

    Returns:
        None if quotients or sums would be in the factors, or if nothing else would be left.
    """
    if all(stays(log) for term in terms for log in term.logs):
        return terms
    result = [_apart(logs, term, source, stays, axes) for term in terms]
    found = tuple(term for term in result if term is not None)
    return found if len(found) == len(terms) and any(term.logs for term in found) else None


def _apart(
    logs: Logs,
    term: ExpTerm,
    source: Value,
    stays: Callable[[Value], bool],
    axes: tuple[int, ...] | None,
) -> ExpTerm | None:
    if all(map(stays, term.logs)):
        return term
    part = dict[Value, int]()
    for share in logs.parted(term.logs)[0]:
        exponent = logs.exponent_of(share)
        if not all(map(stays, exponent)):
            part = added(part, exponent)
    for log, count in added(term.logs, part, -1).items():
        if stays(log):
            continue
        # what may cancel is not made yet
        if count < 0 or not logs.is_spelled(log):
            return None
        part = added(part, {log: count})
        whole = None
        if axes is not None and log.shape == source.shape:
            whole = logs.known_sum(log, axes)
        if whole is not None:
            part = added(part, {whole: -count})

    def factor() -> Value:
        return scaled(term, part_of(logs, part, source, finite=term.guarded))

    rest = added(term.logs, part, -1)
    return replace(term, logs=rest, factor=factor, depth=term.depth + 1, summed=True)


def compacted(logs: Logs, terms: Terms, like_: Value) -> Terms:
    """The same in fewer terms: parts of wholes go into factors, and what is left is merged."""
    groups: dict[tuple[object, bool], list[tuple[ExpTerm, Exponent]]] = {}
    for term in terms:
        rest = logs.parted(term.logs)[1]
        groups.setdefault((frozenset(rest.items()), term.guarded), []).append((term, rest))
    return tuple(_merged(logs, group, like_) for group in groups.values())


def _merged(logs: Logs, group: list[tuple[ExpTerm, Exponent]], like_: Value) -> ExpTerm:
    first, rest = group[0]
    if len(group) == 1:
        return first

    def product(term: ExpTerm) -> Value:
        part = part_of(logs, added(term.logs, rest, -1), like_, finite=term.guarded)
        return scaled(term, part)

    def factor() -> Value:
        return added_up([term for term, _ in group], product)

    depth = 1 + max(term.depth for term, _ in group)
    return replace(first, logs=rest, factor=factor, depth=depth, summed=True, sign=1)


__all__ = ["added_up", "apart", "compacted", "has_parts", "is_flat", "part_of", "scaled"]
