"""Symbolic dimensions that bend with one integer: what maxima and minima are made of.

Role: between dims and the functions of one integer of ``graphc.ir.dims.piecewise_linear``.
Invariant: a dim that is such a function of its unit has one form, a sum with ``max(unit, number)``
as the only bends.
"""

from __future__ import annotations

import math

from graphc.ir.dims.algebra import (
    Dim,
    DimExpr,
    Table,
    Terms,
    build,
    intern_atom,
    linear_atom,
    terms_of,
)
from graphc.ir.dims.bounds import hinge_arms, interval_of, multiple_in
from graphc.ir.dims.piecewise_linear import Pieces, positive_part


def content_of(value: Dim) -> int:
    """The greatest common divisor of the coefficients of all terms but the constant."""
    return math.gcd(*(coefficient for monomial, coefficient in terms_of(value) if monomial))


def constant_of(value: Dim) -> int:
    """The constant term."""
    terms = terms_of(value)
    return terms[-1][1] if terms and not terms[-1][0] else 0


def as_pieces(value: DimExpr) -> tuple[DimExpr, Pieces]:
    """The value as a function of one integer, its unit: that of its maxima, if they have one.

    Otherwise the unit is what is left without the constant and the common factor.
    """
    hinges = [atom for m, _ in value.terms if (atom := linear_atom(m, "max")) is not None]
    if hinges:
        # The deepest come last: the others may be in its unit.
        unit = hinges[-1].arguments[0]
        pieces = pieces_over(unit, value)
        if pieces is not None and isinstance(unit, DimExpr):
            return unit, pieces
    factor = content_of(value)
    if value.terms[0][1] < 0:
        factor = -factor
    whole = build({m: c // factor for m, c in value.terms if m})
    assert isinstance(whole, DimExpr)
    return whole, Pieces(constant_of(value), factor)


def pieces_over(unit: Dim, value: Dim) -> Pieces | None:
    """The value as a function of the unit, if it is one."""
    table = {monomial: c for monomial, c in terms_of(value) if monomial}
    bends: list[tuple[int, int]] = []
    for monomial in [*table]:
        atom = linear_atom(monomial, "max")
        if atom is not None and atom.arguments[0] is unit:
            place = atom.arguments[1]
            assert isinstance(place, int)
            bends.append((place, table.pop(monomial)))
    unit_terms = terms_of(unit)
    slope = multiple_in(table, unit_terms)
    if slope is None or len(table) > (len(unit_terms) if slope else 0):
        return None
    return Pieces(constant_of(value), slope, tuple(sorted(bends)))


def of_pieces(unit: DimExpr, pieces: Pieces) -> Dim:
    """The dim that is this function of the unit."""
    table: Table = {monomial: pieces.slope * c for monomial, c in unit.terms}
    table[()] = pieces.constant
    for place, bend in pieces.bends:
        table[((intern_atom("max", "", (unit, place), None), 1),)] = bend
    return build(table)


def positive(value: Dim) -> Dim:
    """``max(value, 0)``, of which all minima and maxima are made."""
    low, high = interval_of(value)
    if low >= 0:
        return value
    if high <= 0 or isinstance(value, int):
        return 0
    unit, pieces = as_pieces(value)
    return of_pieces(unit, positive_part(pieces, unit.interval))


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


def extreme_of(value: DimExpr) -> tuple[str, Dim, Dim] | None:
    """The two dims whose "min" or "max" the value is, if that says the same with fewer terms."""
    arms = extreme_arms(value.terms)
    return None if arms is None else (arms[0], build(dict(arms[1])), build(dict(arms[2])))
