"""The atoms of symbolic dimensions and what is read off polynomials over them.

Role: the data below ``graphc.ir.dim_algebra``: atoms, terms, bounds, orders, text and a flat form.
Invariant: nothing here makes or simplifies an expression; every order is the same in every process,
and no walk recurses over nested atoms.
"""

from __future__ import annotations

import hashlib
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from graphc.ir import dim_interval
from graphc.ir.dim_interval import Interval
from graphc.ir.dim_text import RELATION_TEXT, AtomText, format_name, format_polynomial

if TYPE_CHECKING:
    from graphc.ir.dim_algebra import Dim

Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"
Table: TypeAlias = "dict[Monomial, int]"

# Above this degree a shifted expansion costs more than the bound is worth.
_SHIFT_DEGREE = 6


class Atom:
    """A symbol or call, interned; ``key`` orders atoms the same way in every process."""

    __slots__ = ("__weakref__", "_hash", "arguments", "interval", "key", "kind", "name")

    def __init__(self, kind: str, name: str, arguments: tuple[Dim, ...], interval: Interval):
        self.kind = kind
        self.name = name
        self.arguments = arguments
        self.interval = interval
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


def terms_interval(terms: Terms) -> Interval:
    """Bounds of a polynomial.

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


def interval_of(value: Dim) -> Interval:
    """Bounds as an internal interval."""
    return (value, value) if isinstance(value, int) else value.interval


def call_interval(kind: str, arguments: tuple[Dim, ...]) -> Interval:
    intervals = [interval_of(argument) for argument in arguments]
    if kind == "floordiv":
        return dim_interval.floor_divide(intervals[0], intervals[1])
    if kind == "mod":
        return dim_interval.modulo(intervals[0], intervals[1])
    if kind == "min":
        return reduce(dim_interval.minimum, intervals)
    if kind == "max":
        return reduce(dim_interval.maximum, intervals)
    return dim_interval.union(intervals[2], intervals[3])


def atoms_in_order(*roots: Dim) -> list[Atom]:
    """All atoms of the dims, each after the atoms of its arguments, without recursion."""
    done: dict[Atom, None] = {}
    stack = [atom for root in roots for atom in _atoms(root)]
    while stack:
        atom = stack[-1]
        missing = (
            []
            if atom in done
            else [need for value in atom.arguments for need in _atoms(value) if need not in done]
        )
        if missing:
            stack.extend(missing)
        else:
            done[stack.pop()] = None
    return list(done)


def _atoms(value: Dim) -> list[Atom]:
    return [atom for monomial, _ in terms_of(value) for atom, _ in monomial]


def format_dim(value: Dim) -> str:
    """The text of a dim; see ``graphc.ir.dims.parse_dim``."""
    texts: dict[Atom, AtomText] = {}

    def polynomial(part: Dim) -> AtomText:
        return format_polynomial(
            [
                (coefficient, [(texts[atom], power) for atom, power in monomial])
                for monomial, coefficient in terms_of(part)
            ]
        )

    for atom in atoms_in_order(value):
        if atom.kind == "symbol":
            texts[atom] = AtomText(format_name(atom.name))
            continue
        operands = [polynomial(argument) for argument in atom.arguments]
        if atom.kind in ("floordiv", "mod"):
            sign = "//" if atom.kind == "floordiv" else " % "
            text = f"{operands[0].tight()}{sign}{operands[1].tight()}"
            texts[atom] = AtomText(text, compound=True)
            continue
        plain = [operand.text for operand in operands]
        if atom.kind in RELATION_TEXT:
            plain[:2] = [f"{plain[0]} {RELATION_TEXT[atom.kind]} {plain[1]}"]
            texts[atom] = AtomText(f"select({', '.join(plain)})")
        else:
            texts[atom] = AtomText(f"{atom.kind}({', '.join(plain)})")
    return polynomial(value).text


def flatten(value: Dim) -> tuple[Any, ...]:
    """The expression as a flat table of atoms and a root, for ``dim_algebra.restore``."""
    atoms = atoms_in_order(value)
    places = {atom: place for place, atom in enumerate(atoms)}

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
        for atom in atoms
    )
    return table, flat(value)
