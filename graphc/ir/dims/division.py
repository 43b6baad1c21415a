"""Floor division and remainder of symbolic dimensions.

Role: canonical forms of quotients, above ``graphc.ir.dims.algebra``.  What divides exactly is
divided; the rest is an atom in lowest terms.
"""

from __future__ import annotations

import math

from graphc.ir.dims.algebra import (
    Dim,
    DimExpr,
    Monomial,
    Table,
    build,
    call,
    combine,
    expression,
    linear_atom,
    lone_atom,
    multiply,
    terms_of,
)
from graphc.ir.dims.bounds import excludes_zero, interval_of
from graphc.ir.dims.pieces import as_pieces, constant_of, content_of, positive


def _divide_terms(value: Dim, divisor: int) -> Dim:
    """Floor division of every coefficient on its own."""
    return build({monomial: coefficient // divisor for monomial, coefficient in terms_of(value)})


def _split(value: Dim, divisor: int, every: bool) -> tuple[Dim, Dim]:
    """(q, r) with value = divisor*q + r: the constant of r in [0, divisor), others truncated.

    Truncation keeps (stop - start)//step recognisable; the constant has one canonical residue.
    Terms with calls are split only if they divide exactly, or if ``every`` is set: where q stays
    next to r, a call in both would double the text of each further step of a chain.
    """
    quotient: Table = {}
    for monomial, coefficient in terms_of(value):
        if not monomial:
            quotient[monomial] = coefficient // divisor
        elif (
            every
            or coefficient % divisor == 0
            or all(atom.kind == "symbol" for atom, _ in monomial)
        ):
            part = abs(coefficient) // divisor
            quotient[monomial] = part if coefficient > 0 else -part
    whole = build(quotient)
    return whole, combine(value, whole, -divisor)


def _divide_by_constant(value: Dim, divisor: int) -> Dim:
    if divisor < 0:
        return floor_divide(combine(0, value, -1), -divisor)
    whole, rest = _split(value, divisor, every=False)
    content = math.gcd(divisor, content_of(rest))
    if content > 1:
        rest = _divide_terms(rest, content)
        divisor //= content
    low, high = interval_of(rest)
    if divisor == 1:
        return whole + rest
    if isinstance(low, int) and isinstance(high, int) and low // divisor == high // divisor:
        return whole + low // divisor
    if isinstance(rest, DimExpr):
        unit, pieces = as_pieces(rest)
        if len(pieces.bends) == 1:
            ((place, bend),) = pieces.bends
            if pieces.slope in (0, -bend):
                # max(n, 3) // 2 is max(n // 2, 1): rounding keeps order, and one arm is a number.
                limit = pieces(place) // divisor
                fixed = pieces.constant + (bend * place if pieces.slope else 0)
                moving = combine(fixed, multiply(unit, pieces.slope or bend), 1)
                gap = combine(floor_divide(moving, divisor), limit, -1)
                sign = 1 if bend > 0 else -1
                return whole + limit + sign * positive(sign * gap)
    nested = [
        atom
        for monomial, coefficient in terms_of(rest)
        if coefficient == 1
        and (atom := linear_atom(monomial, "floordiv")) is not None
        and isinstance(atom.arguments[1], int)
    ]
    if len(nested) == 1:
        inner, inner_divisor = nested[0].arguments
        others = combine(rest, expression(nested[0]), -1)
        total = combine(inner, multiply(others, inner_divisor), 1)
        return combine(whole, floor_divide(total, multiply(inner_divisor, divisor)), 1)
    return combine(whole, call("floordiv", rest, divisor), 1)


def _modulo_constant(value: Dim, divisor: int) -> Dim:
    if divisor < 0:
        return combine(0, modulo(combine(0, value, -1), -divisor), -1)
    for monomial, coefficient in terms_of(value):
        atom = linear_atom(monomial, "mod")
        if atom is not None and isinstance(atom.arguments[1], int):
            inner, inner_divisor = atom.arguments
            if inner_divisor % divisor == 0:
                replaced = combine(value, expression(atom), -coefficient)
                return modulo(combine(replaced, inner, coefficient), divisor)
    rest = _split(value, divisor, every=True)[1]
    low, high = interval_of(rest)
    if isinstance(low, int) and isinstance(high, int) and low // divisor == high // divisor:
        return rest - divisor * (low // divisor)
    content = math.gcd(divisor, content_of(rest))
    if content > 1:
        inside = modulo(_divide_terms(rest, content), divisor // content)
        return content * inside + constant_of(rest) % content
    return call("mod", rest, divisor)


def _monomial_quotient(a: Monomial, b: Monomial) -> Monomial | None:
    powers = dict(a)
    for atom, power in b:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        powers[atom] = left
    return tuple(factor for factor in powers.items() if factor[1])


def _pull(value: Dim, divisor: DimExpr) -> tuple[Dim, Dim]:
    """(q, r) with value = q*divisor + r by long division, q = 0 if a sum doesn't divide exactly."""
    lead, lead_coefficient = divisor.terms[0]
    whole: Dim = 0
    rest = value
    left: Table = {}
    while rest != 0:
        monomial, coefficient = terms_of(rest)[0]
        quotient = _monomial_quotient(monomial, lead)
        if quotient is not None and coefficient % lead_coefficient == 0:
            step = build({quotient: coefficient // lead_coefficient})
            whole = whole + step
            rest = rest - step * divisor
        elif len(divisor.terms) > 1:
            return 0, value
        else:
            left[monomial] = coefficient
            rest = combine(rest, build({monomial: coefficient}), -1)
    return whole, build(left)


def _common_factor(a: Dim, b: DimExpr) -> Dim:
    """A factor of both, positive integer times atoms that can't be zero."""
    terms = [*terms_of(a), *b.terms]
    powers = {atom: power for atom, power in b.terms[0][0] if excludes_zero(expression(atom))}
    for monomial, _ in terms:
        own = dict(monomial)
        powers = {atom: min(power, own[atom]) for atom, power in powers.items() if atom in own}
    content = math.gcd(*(coefficient for _, coefficient in terms))
    return build({tuple(powers.items()): content})


def _is_residue(value: Dim, divisor: DimExpr) -> bool:
    """Whether 0 <= value < divisor is plain to see."""
    if interval_of(value)[0] < 0:
        return False
    remainder = lone_atom(value, "mod")
    if remainder is not None and remainder.arguments[1] is divisor and divisor.interval[0] >= 0:
        return True
    return interval_of(combine(divisor, value, -1))[0] >= 1


def floor_divide(a: Dim, b: Dim) -> Dim:
    """``a // b`` rounded to minus infinity; ZeroDivisionError if b is the constant 0."""
    if isinstance(b, int):
        if b == 0:
            raise ZeroDivisionError("division of a dimension by zero")
        if isinstance(a, int):
            return a // b
        return a if b == 1 else _divide_by_constant(a, b)
    if b.terms[0][1] < 0:
        return floor_divide(combine(0, a, -1), -b)
    whole, rest = _pull(a, b)
    if rest == 0:
        if excludes_zero(b):
            return whole
        whole, rest = 0, a
    factor = _common_factor(rest, b)
    if factor != 1:
        quotient = floor_divide(_pull_exactly(rest, factor), _pull_exactly(b, factor))
        return combine(whole, quotient, 1)
    if _is_residue(rest, b):
        return whole
    return combine(whole, call("floordiv", rest, b), 1)


def modulo(a: Dim, b: Dim) -> Dim:
    """``a % b`` with the sign of b; ZeroDivisionError if b is the constant 0."""
    if isinstance(b, int):
        if b == 0:
            raise ZeroDivisionError("remainder of a dimension by zero")
        if isinstance(a, int):
            return a % b
        return 0 if b == 1 else _modulo_constant(a, b)
    if b.terms[0][1] < 0:
        return combine(0, modulo(combine(0, a, -1), -b), -1)
    rest = _pull(a, b)[1]
    if rest == 0:
        if excludes_zero(b):
            return 0
        rest = a
    factor = _common_factor(rest, b)
    if factor != 1:
        return factor * modulo(_pull_exactly(rest, factor), _pull_exactly(b, factor))
    if _is_residue(rest, b):
        return rest
    return call("mod", rest, b)


def _pull_exactly(value: Dim, factor: Dim) -> Dim:
    """The quotient by a factor known to divide."""
    return _divide_terms(value, factor) if isinstance(factor, int) else _pull(value, factor)[0]
