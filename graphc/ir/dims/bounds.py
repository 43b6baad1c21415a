"""The bounds of symbolic dimensions.

Role: from the bounds of symbols to those of atoms and sums, which ``DimExpr.interval`` keeps.
Invariant: every value within the symbols' bounds is within these; an end that can't be told is
infinite.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from graphc.ir.dims import interval as dim_interval
from graphc.ir.dims.algebra import (
    Atom,
    Dim,
    Monomial,
    Table,
    Terms,
    linear_atom,
    multiply_monomials,
    term_order,
    terms_of,
)
from graphc.ir.dims.interval import Interval
from graphc.ir.dims.piecewise_linear import Pieces, range_of

# Above this degree a shifted expansion costs more than the bound is worth.
_SHIFT_DEGREE = 6
# So many maxima whose arms are looked at one by one.
_ARMS_DEPTH = 3


def interval_of(value: Dim) -> Interval:
    """Bounds as an internal interval."""
    return (value, value) if isinstance(value, int) else value.interval


def excludes_zero(value: Dim) -> bool:
    """Whether the bounds prove that the value isn't zero."""
    low, high = interval_of(value)
    return low > 0 or high < 0


def _plain_interval(terms: Terms, shifted: bool) -> Interval:
    """Bounds of each term on its own, with atoms counted from their lower end if shifted."""
    total: Interval = (0, 0)
    for monomial, coefficient in terms:
        value: Interval = (coefficient, coefficient)
        for atom, power in monomial:
            ends = atom.interval
            if shifted and ends[0] != -dim_interval.INFINITY:
                ends = (0, ends[1] if isinstance(ends[1], float) else ends[1] - ends[0])
            value = dim_interval.multiply(value, dim_interval.power(ends, power))
        total = dim_interval.add(total, value)
    return total


def _free_interval(terms: Terms) -> Interval:
    """Bounds of a polynomial whose terms count as independent.

    Where products leave an end unknown, every atom is also counted from its lower end: that proves
    n*m - n >= 0 for m >= 1, which the terms on their own can't.
    """
    plain = _plain_interval(terms, False)
    if plain[0] != -dim_interval.INFINITY and plain[1] != dim_interval.INFINITY:
        return plain
    degree = max((sum(power for _, power in monomial) for monomial, _ in terms), default=0)
    if len(terms) < 2 or not 2 <= degree <= _SHIFT_DEGREE:
        return plain
    table: Table = {}
    for monomial, coefficient in terms:
        expanded: list[tuple[Monomial, int]] = [((), coefficient)]
        for atom, power in monomial:
            low = atom.interval[0]
            for _ in range(power):
                grown = [(multiply_monomials(m, ((atom, 1),)), c) for m, c in expanded]
                if low and low != -dim_interval.INFINITY:
                    grown += [(m, c * int(low)) for m, c in expanded]
                expanded = grown
        for product, value in expanded:
            table[product] = table.get(product, 0) + value
    shifted = _plain_interval(tuple(term for term in table.items() if term[1]), True)
    return dim_interval.intersection(plain, shifted)


def multiple_in(table: Mapping[Monomial, int], unit: Terms) -> int | None:
    """The multiple of the unit that the table holds: None if its terms are no one multiple.

    Of a unit of one term any number of it is one.
    """
    monomial, coefficient = unit[0]
    slope, rest = divmod(table.get(monomial, 0), coefficient)
    if rest or any(table.get(m, 0) != slope * c for m, c in unit[1:]):
        return None
    return slope


def terms_interval(terms: Terms, depth: int = _ARMS_DEPTH) -> Interval:
    """Bounds of a polynomial.

    What bends with one unit (``n + 4 - max(n, 4)``) counts together, exactly.  Where a unit and the
    other terms can't be told apart (``m - max(m - n, 0)``), each arm of a maximum is looked at too.
    """
    hinges = [
        (monomial, atom)
        for monomial, _ in terms
        if (atom := linear_atom(monomial, "max")) is not None
    ]
    if not hinges:
        return _free_interval(terms)
    table = dict(terms)
    bends: dict[Terms, list[tuple[int, int]]] = {}
    within: dict[Terms, Interval] = {}
    # The deepest come last and take what belongs to them first.
    for monomial, atom in reversed(hinges):
        unit, place = atom.arguments
        assert isinstance(place, int)
        coefficient = table.pop(monomial, None)
        if coefficient is not None:
            bends.setdefault(terms_of(unit), []).append((place, coefficient))
            within[terms_of(unit)] = interval_of(unit)
    total: Interval = (0, 0)
    torn = False
    for unit_terms, places in bends.items():
        slope = multiple_in(table, unit_terms)
        if slope is None:
            torn, slope = True, 0
        else:
            for monomial, _ in unit_terms:
                table.pop(monomial, None)
        pieces = Pieces(0, slope, tuple(sorted(places)))
        total = dim_interval.add(total, range_of(pieces, within[unit_terms]))
    total = dim_interval.add(total, _free_interval(tuple(table.items())))
    if not torn or not depth or len(hinges) > _ARMS_DEPTH:
        return total
    arms = [terms_interval(arm, depth - 1) for arm in hinge_arms(terms, *hinges[-1])]
    join = dim_interval.maximum if dict(terms)[hinges[-1][0]] > 0 else dim_interval.minimum
    return dim_interval.intersection(total, join(*arms))


def hinge_arms(terms: Terms, monomial: Monomial, hinge: Atom) -> tuple[Terms, Terms]:
    """The two polynomials whose larger one (smaller, if the coefficient is negative) this is."""
    arms = []
    for argument in hinge.arguments:
        table = dict(terms)
        coefficient = table.pop(monomial)
        for part, factor in terms_of(argument):
            table[part] = table.get(part, 0) + coefficient * factor
        arms.append(tuple(sorted((t for t in table.items() if t[1]), key=term_order)))
    return arms[0], arms[1]


def call_interval(kind: str, arguments: tuple[Dim, ...]) -> Interval:
    intervals = [interval_of(argument) for argument in arguments]
    if kind == "floordiv":
        return dim_interval.floor_divide(intervals[0], intervals[1])
    if kind == "mod":
        return dim_interval.modulo(intervals[0], intervals[1])
    if kind == "max":
        return reduce(dim_interval.maximum, intervals)
    if kind == "broadcast":
        return reduce(dim_interval.union, intervals)
    return dim_interval.union(intervals[2], intervals[3])
