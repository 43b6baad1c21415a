"""The algebra of symbolic dimensions: atoms, canonical polynomials, floor division, remainder.

Role: the inside of ``graphc.ir.dims``, which is what other modules import.  An expression is a sum
of coefficient * product of atom**power, where an atom is a bounded symbol or a floor division,
remainder, minimum, maximum or selection ("eq" or "lt") of other dims.

Invariant: every ``DimExpr`` is canonical and interned, so equal polynomials are one object and
``is`` decides equality; a value known to be constant is always a plain ``int``.  All reasoning
assumes that symbols stay within their bounds and that divisors of evaluated divisions aren't zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any, ClassVar, NoReturn, TypeAlias

from graphc.base.forks import lock
from graphc.base.weak import WeakTable
from graphc.ir.dim_atoms import (
    Atom,
    Monomial,
    Table,
    Terms,
    call_interval,
    flatten,
    format_dim,
    interval_of,
    linear_atom,
    multiply_monomials,
    term_order,
    terms_interval,
    terms_of,
)
from graphc.ir.dim_interval import Interval


class DimExpr:
    """A canonical, interned, immutable polynomial; build with ``symbol`` and arithmetic.

    ``==`` is structural equality and nothing else: two different expressions that might be equal at
    run time compare False.  Ask ``compare`` what can be proved.
    """

    __slots__ = ("__weakref__", "_hash", "interval", "terms")
    # Makes numpy scalars hand mixed arithmetic to the reflected operators.
    __array_ufunc__: ClassVar[None] = None

    terms: Terms
    interval: Interval
    _hash: int

    def __new__(cls) -> DimExpr:
        raise TypeError("DimExpr is not constructed directly; use symbol() and arithmetic")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("DimExpr is immutable")

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return (restore, flatten(self))

    def __add__(self, other: object) -> Dim:
        operand = _operand(other)
        return NotImplemented if operand is None else combine(self, operand, 1)

    __radd__ = __add__

    def __sub__(self, other: object) -> Dim:
        operand = _operand(other)
        return NotImplemented if operand is None else combine(self, operand, -1)

    def __rsub__(self, other: object) -> Dim:
        operand = _operand(other)
        return NotImplemented if operand is None else combine(operand, self, -1)

    def __neg__(self) -> Dim:
        return intern_terms(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __pos__(self) -> Dim:
        return self

    def __mul__(self, other: object) -> Dim:
        operand = _operand(other)
        return NotImplemented if operand is None else multiply(self, operand)

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Dim:
        operand = _operand(other)
        return NotImplemented if operand is None else floor_divide(self, operand)

    def __rfloordiv__(self, other: object) -> Dim:
        operand = _operand(other)
        return NotImplemented if operand is None else floor_divide(operand, self)

    def __mod__(self, other: object) -> Dim:
        operand = _operand(other)
        return NotImplemented if operand is None else modulo(self, operand)

    def __rmod__(self, other: object) -> Dim:
        operand = _operand(other)
        return NotImplemented if operand is None else modulo(operand, self)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"the truth of symbolic dimension {self} is unknown; use compare()")

    def __int__(self) -> NoReturn:
        raise TypeError(f"symbolic dimension {self} has no integer value; use evaluate()")

    def _unordered(self, other: object) -> NoReturn:
        raise TypeError(f"symbolic dimension {self} has no order with {other}; use compare()")

    __lt__ = __le__ = __gt__ = __ge__ = _unordered

    def __str__(self) -> str:
        return format_dim(self)

    __repr__ = __str__


Dim: TypeAlias = int | DimExpr

# Identity tables, not state: they only make equal things the same thing.
_LOCK = lock()
_ATOMS: WeakTable[tuple[Any, ...], Atom] = WeakTable()
_EXPRESSIONS: WeakTable[Terms, DimExpr] = WeakTable()


def intern_terms(terms: Terms) -> DimExpr:
    """The one expression with these canonical, sorted, non-constant terms."""
    found = _EXPRESSIONS.get(terms)
    if found is not None:
        return found
    made: DimExpr = object.__new__(DimExpr)
    object.__setattr__(made, "terms", terms)
    object.__setattr__(made, "_hash", hash(terms))
    object.__setattr__(made, "interval", terms_interval(terms))
    with _LOCK:
        return _EXPRESSIONS.setdefault(terms, made)


def intern_atom(
    kind: str, name: str, arguments: tuple[Dim, ...], interval: Interval | None
) -> Atom:
    key = (kind, name, arguments, interval)
    found = _ATOMS.get(key)
    if found is not None:
        return found
    made = Atom(kind, name, arguments, interval or call_interval(kind, arguments))
    with _LOCK:
        return _ATOMS.setdefault(key, made)


def expression(atom: Atom) -> DimExpr:
    return intern_terms(((((atom, 1),), 1),))


def call(kind: str, *arguments: Dim) -> DimExpr:
    return expression(intern_atom(kind, "", arguments, None))


def _operand(value: object) -> Dim | None:
    if type(value) is int or type(value) is DimExpr:
        return value
    return int(index(value)) if hasattr(value, "__index__") else None


def as_dim(value: object) -> Dim:
    operand = _operand(value)
    if operand is None:
        raise TypeError(f"a dimension is an int or DimExpr, not {type(value).__name__}")
    return operand


def build(table: Table) -> Dim:
    live = [term for term in table.items() if term[1]]
    if not live:
        return 0
    if len(live) == 1:
        if not live[0][0]:
            return live[0][1]
    else:
        live.sort(key=term_order)
    return intern_terms(tuple(live))


def combine(a: Dim, b: Dim, scale: int) -> Dim:
    """``a + scale * b``."""
    if type(a) is int and type(b) is int:
        return a + scale * b
    if isinstance(a, int) and scale == 1:
        a, b = b, a
    if isinstance(b, int) and not isinstance(a, int):
        terms = a.terms
        constant = scale * b
        if not terms[-1][0]:
            constant += terms[-1][1]
            terms = terms[:-1]
        return intern_terms((*terms, ((), constant)) if constant else terms)
    table = dict(terms_of(a))
    for monomial, coefficient in terms_of(b):
        table[monomial] = table.get(monomial, 0) + scale * coefficient
    return build(table)


def multiply(a: Dim, b: Dim) -> Dim:
    if type(a) is int and type(b) is int:
        return a * b
    table: Table = {}
    for left, left_coefficient in terms_of(a):
        for right, right_coefficient in terms_of(b):
            monomial = multiply_monomials(left, right)
            table[monomial] = table.get(monomial, 0) + left_coefficient * right_coefficient
    return build(table)


def power_of(base: Dim, exponent: int) -> Dim:
    result: Dim = 1
    square = base
    while exponent:
        if exponent & 1:
            result = multiply(result, square)
        exponent >>= 1
        if exponent:
            square = multiply(square, square)
    return result


def lone_atom(value: Dim, *kinds: str) -> Atom | None:
    """The atom that the value consists of, if it is of one of the kinds (any if none is named)."""
    terms = terms_of(value)
    if len(terms) != 1 or terms[0][1] != 1:
        return None
    return linear_atom(terms[0][0], *kinds)


def content_of(value: Dim) -> int:
    """The greatest common divisor of the coefficients of all terms but the constant."""
    return math.gcd(*(coefficient for monomial, coefficient in terms_of(value) if monomial))


def constant_of(value: Dim) -> int:
    """The constant term."""
    terms = terms_of(value)
    return terms[-1][1] if terms and not terms[-1][0] else 0


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
        return whole + floor_divide(inner + inner_divisor * others, inner_divisor * divisor)
    return whole + call("floordiv", rest, divisor)


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


def excludes_zero(value: Dim) -> bool:
    """Whether the bounds prove that the value isn't zero."""
    low, high = interval_of(value)
    return low > 0 or high < 0


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
        return whole + floor_divide(_pull_exactly(rest, factor), _pull_exactly(b, factor))
    if _is_residue(rest, b):
        return whole
    return whole + call("floordiv", rest, b)


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


def restore(table: Iterable[tuple[Any, ...]], root: tuple[Any, ...]) -> Dim:
    """Intern again what ``flatten`` wrote."""
    atoms: list[Atom] = []

    def polynomial(flat: tuple[Any, ...]) -> Dim:
        return build(
            {
                tuple((atoms[place], power) for place, power in monomial): coefficient
                for monomial, coefficient in flat
            }
        )

    for kind, name, arguments, interval in table:
        parts = tuple(polynomial(argument) for argument in arguments)
        atoms.append(intern_atom(kind, name, parts, interval))
    return polynomial(root)
