"""The atoms of symbolic dimensions and what is read off polynomials over them.

Role: the data below ``graphc.ir.dims.algebra``: atoms, terms, bounds, orders and a flat form.
Invariant: nothing here makes or simplifies an expression; every order is the same in every process,
and no walk recurses over nested atoms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from graphc.ir.dims import interval as dim_interval
from graphc.ir.dims.interval import Interval
from graphc.ir.dims.piecewise_linear import Pieces, range_of

if TYPE_CHECKING:
    from graphc.ir.dims.algebra import Dim

Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"
Table: TypeAlias = "dict[Monomial, int]"

# Above this degree a shifted expansion costs more than the bound is worth.
_SHIFT_DEGREE = 6
# So many maxima whose arms are looked at one by one.
_ARMS_DEPTH = 3


UNKNOWN = object()
"""Stands for a value that nobody has worked out yet."""


DIVIDING = ("floordiv", "mod")
"""The kinds of atoms that have no value where their second argument is 0."""


class Atom:
    """A symbol or call, interned; ``key`` orders atoms the same way in every process.

    ``at_hint`` is its value where every symbol has the size that is planned for, once it was asked
    for: None if it divides by zero.

    Attributes:
        divide: whether an atom of this process divides by what is no number. Most programs have
            none that does, and look for none then.
    """

    divide: ClassVar[bool] = False

    __slots__ = ("__weakref__", "_hash", "arguments", "at_hint", "interval", "key", "kind", "name")

    def __init__(self, kind: str, name: str, arguments: tuple[Dim, ...], interval: Interval):
        self.kind = kind
        self.name = name
        self.arguments = arguments
        self.interval = interval
        self.at_hint: Any = UNKNOWN
        if kind in DIVIDING and not isinstance(arguments[1], int):
            Atom.divide = True
        content = [repr((kind, name, interval if kind == "symbol" else None))]
        depth = 0
        for argument in arguments:
            content.append("|")
            for monomial, coefficient in terms_of(argument):
                content.append(str(coefficient))
                for atom, power in monomial:
                    depth = max(depth, atom.key[0] + 1)
                    content.append(f"*{atom.key[3]}^{power}")
                content.append(";")
        digest = hashlib.blake2b("".join(content).encode("utf-8", "surrogatepass"), digest_size=16)
        self.key: tuple[int, str, str, str] = (depth, name, kind, digest.hexdigest())
        self._hash = int.from_bytes(digest.digest()[:7], "big")

    def __hash__(self) -> int:
        return self._hash


def terms_of(value: Dim) -> Terms:
    if isinstance(value, int):
        return (((), value),) if value else ()
    return value.terms


def term_order(term: tuple[Monomial, int]) -> tuple[Any, ...]:
    """Graded lexicographic, constant last; long division needs this to be a monomial order."""
    monomial = term[0]
    degree = 0
    keys = []
    for atom, power in monomial:
        degree -= power
        keys.append((atom.key, -power))
    return degree, keys


def multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda factor: factor[0].key))


def linear_atom(monomial: Monomial, *kinds: str) -> Atom | None:
    """The atom that the monomial consists of, if it is of one of the kinds (any if none)."""
    if len(monomial) == 1 and monomial[0][1] == 1 and (not kinds or monomial[0][0].kind in kinds):
        return monomial[0][0]
    return None


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


def extreme_arms(terms: Terms) -> tuple[str, Terms, Terms] | None:
    """``min`` or ``max`` of two polynomials, if that says the same with fewer terms."""
    hinges = [
        (monomial, coefficient, atom)
        for monomial, coefficient in terms
        if (atom := linear_atom(monomial, "max")) is not None
    ]
    if len(hinges) != 1 or hinges[0][1] not in (1, -1):
        return None
    ((monomial, sign, hinge),) = hinges
    arms = hinge_arms(terms, monomial, hinge)
    plain = len(terms) - 1 + sum(len(terms_of(a)) for a in hinge.arguments)
    if sum(map(len, arms)) >= plain:
        return None
    left, right = sorted(arms, key=lambda arm: all(not m for m, _ in arm))
    return ("max" if sign > 0 else "min"), left, right


def interval_of(value: Dim) -> Interval:
    """Bounds as an internal interval."""
    return (value, value) if isinstance(value, int) else value.interval


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


def atoms_in_order(value: Dim, known: Container[Atom] = ()) -> list[Atom]:
    """All atoms of the dim but those known, each after the atoms of its arguments."""
    done: dict[Atom, None] = {}
    stack = [atom for atom in _atoms(value) if atom not in known]
    while stack:
        atom = stack[-1]
        missing = (
            []
            if atom in done
            else [
                need
                for argument in atom.arguments
                for need in _atoms(argument)
                if need not in done and need not in known
            ]
        )
        if missing:
            stack.extend(missing)
        else:
            done[stack.pop()] = None
    return list(done)


def _atoms(value: Dim) -> list[Atom]:
    return [atom for monomial, _ in terms_of(value) for atom, _ in monomial]


def flatten(*values: Dim) -> tuple[Any, ...]:
    """The dims as a flat table of atoms and a list of sums, for ``algebra.restored``."""
    places: dict[Atom, int] = {}
    for value in values:
        for atom in atoms_in_order(value, known=places):
            places[atom] = len(places)

    def flat(part: Dim) -> tuple[Any, ...]:
        return tuple(
            (tuple((places[atom], power) for atom, power in monomial), coefficient)
            for monomial, coefficient in terms_of(part)
        )

    table = tuple(
        (
            atom.kind,
            atom.name,
            tuple(flat(argument) for argument in atom.arguments),
            atom.interval if atom.kind == "symbol" else None,
        )
        for atom in places
    )
    return table, tuple(map(flat, values))
