"""What chooses among sizes: minimum, maximum, selection, and the size that operands broadcast to.

Role: canonical forms of choices, above ``graphc.ir.dims.algebra``.  Minima and maxima of two are
sums with one kind of atom, the larger of a unit and a number, and so are selections that bend where
an extreme does; what remains of selections keeps "eq" and "lt", reduced to lowest terms.
"""

from __future__ import annotations

from graphc.ir.dims.algebra import (
    Dim,
    DimExpr,
    as_dim,
    build,
    call,
    combine,
    lone_atom,
    term_order,
    terms_of,
)
from graphc.ir.dims.bounds import excludes_zero
from graphc.ir.dims.compare import RELATIONS, compare, equal, less_equal
from graphc.ir.dims.division import floor_divide
from graphc.ir.dims.pieces import (
    as_pieces,
    constant_of,
    content_of,
    of_pieces,
    pieces_over,
    positive,
)
from graphc.ir.dims.piecewise_linear import chosen


def dim_min(a: Dim, b: Dim) -> Dim:
    """The smaller of two dims."""
    a, b = as_dim(a), as_dim(b)
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return combine(a, _excess(a, b), -1)


def dim_max(a: Dim, b: Dim) -> Dim:
    """The larger of two dims."""
    a, b = as_dim(a), as_dim(b)
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return combine(a, _excess(b, a), 1)


def _excess(a: Dim, b: Dim) -> Dim:
    """``max(a - b, 0)``."""
    gap = combine(a, b, -1)
    if isinstance(gap, int):
        return max(gap, 0)
    is_none = less_equal(gap, 0)
    if is_none:
        return 0
    if is_none is False or less_equal(0, gap):
        return gap
    return positive(gap)


def select(relation: str, left: Dim, right: Dim, if_true: Dim, if_false: Dim) -> Dim:
    """``if_true`` where ``left relation right`` holds, else ``if_false``; relations of compare."""
    left, right, if_true, if_false = map(as_dim, (left, right, if_true, if_false))
    decided = compare(relation, left, right)
    if decided is not None:
        return if_true if decided else if_false
    if if_true == if_false:
        return if_true
    if relation == "ne":
        relation, if_true, if_false = "eq", if_false, if_true
    gap = right - left
    if relation == "le":
        relation, gap = "lt", gap + 1
    arms = if_false - if_true
    if relation == "eq" and arms in (gap, -gap):
        return if_false
    # Arms apart by the gap, or by gap - 1, which is >= 0 just when the gap is > 0.
    if relation == "lt" and arms in (gap, gap - 1):
        return dim_min(if_true, if_false)
    if relation == "lt" and -arms in (gap, gap - 1):
        return dim_max(if_true, if_false)
    bent = _as_sum(relation, gap, if_true, if_false)
    if bent is not None:
        return bent
    low, high = _condition(relation, gap)
    parts = (
        low,
        high,
        _arm(relation, low, high, if_true, 2),
        _arm(relation, low, high, if_false, 3),
    )
    # The reduced form may simplify further.
    if parts != (left, right, if_true, if_false):
        return select(relation, *parts)
    return call(relation, *parts)


def _as_sum(relation: str, gap: Dim, if_true: Dim, if_false: Dim) -> Dim | None:
    """The selection as a sum of maxima, if that takes one more than its parts have at most."""
    assert isinstance(gap, DimExpr)
    unit, shape = as_pieces(gap)
    change = pieces_over(unit, combine(if_true, if_false, -1))
    if change is None:
        return None
    holds = RELATIONS[relation]
    pieces = chosen(lambda distance: holds(0, distance), shape, change, unit.interval)
    if len(pieces.bends) > 1 + len(shape.bends) + len(change.bends):
        return None
    return if_false + of_pieces(unit, pieces)


def _condition(relation: str, gap: Dim) -> tuple[Dim, Dim]:
    """Sides without a common term or factor, equal (or ordered) just when gap = 0 (or > 0)."""
    content = content_of(gap)
    constant = constant_of(gap)
    variable = floor_divide(gap - constant, content)
    # content*v + c > 0 just when v + ceil(c / content) > 0.
    gap = variable - (-constant // content)
    if relation == "eq" and terms_of(gap)[0][1] > 0:
        gap = -gap
    low = build({monomial: -value for monomial, value in terms_of(gap) if value < 0})
    return low, gap + low


def _arm(relation: str, low: Dim, high: Dim, arm: Dim, place: int) -> Dim:
    """The arm, or what it selects if it selects by the same condition."""
    nested = lone_atom(arm, relation)
    if nested is not None and nested.arguments[0] == low and nested.arguments[1] == high:
        return nested.arguments[place]
    return arm


def broadcast(a: Dim, b: Dim) -> Dim:
    """The size that two sizes broadcast to, where at most one isn't 1 or both are equal.

    Of unknown sizes that is a set, whatever the order: ``broadcast(n, m, k)`` is the one that isn't
    1.  Sets share what they have in common (each is a treap of its members, ordered as terms are
    and balanced by their hashes), so that a sum of many operands costs no more than these.
    """
    a, b = as_dim(a), as_dim(b)
    if a == 1 or b == 1:
        return b if a == 1 else a
    # A size that is never 1 is the result.
    for fixed in sorted((a, b), key=lambda dim: not isinstance(dim, int)):
        if excludes_zero(fixed - 1):
            return fixed
    if equal(a, b):
        return a
    return _union(a, b)


def broadcasts_to(dim: Dim, target: Dim) -> bool:
    """Whether it is plain that one size broadcasts to another: where a target of several sizes
    stands, guards say that each of these is 1 or the target."""
    if dim == 1 or dim is target or dim == target:
        return True
    if isinstance(dim, int) or lone_atom(target, "broadcast") is None:
        return False
    return _union(target, dim) is target


def may_be(dim: Dim, full: Dim) -> bool:
    """Whether a size is another, or may well be: it is unknown and plainly broadcasts to that."""
    return dim == full or (not isinstance(dim, int) and broadcasts_to(dim, full))


def _member(tree: Dim) -> tuple[Dim, Dim, Dim]:
    """The member at the root, and the trees of those before and after it, 1 if there are none."""
    atom = lone_atom(tree, "broadcast")
    if atom is None:
        return tree, 1, 1
    member, before, after = atom.arguments
    return member, before, after


def _tree(member: Dim, before: Dim, after: Dim) -> Dim:
    return member if before == 1 and after == 1 else call("broadcast", member, before, after)


def _order(dim: Dim) -> tuple[object, ...]:
    # The coefficient last: ints, which have no monomial, follow every expression.
    return isinstance(dim, int), [(term_order(term), term[1]) for term in terms_of(dim)]


def _union(a: Dim, b: Dim) -> Dim:
    if a == 1 or b == 1 or a is b:
        return b if a == 1 else a
    (top, before, after), (other, *_) = _member(a), _member(b)
    if (hash(other), _order(other)) > (hash(top), _order(top)):
        a, b = b, a
        top, before, after = _member(a)
    smaller, larger = _parted(b, top)
    return _tree(top, _union(before, smaller), _union(after, larger))


def _parted(tree: Dim, by: Dim) -> tuple[Dim, Dim]:
    """The members before and after one, without it."""
    if tree == 1:
        return 1, 1
    member, before, after = _member(tree)
    if member is by:
        return before, after
    if _order(by) < _order(member):
        smaller, larger = _parted(before, by)
        return smaller, _tree(member, larger, after)
    smaller, larger = _parted(after, by)
    return _tree(member, before, smaller), larger
