"""The algebra of symbolic dimensions: canonical polynomials, and what bends with one integer.

Role: the inside of ``graphc.ir.dims.expressions``, which is what other modules import.  An
expression is a sum of coefficient * product of atom**power, where an atom is a bounded symbol or a
floor division, remainder, minimum, maximum or selection ("eq" or "lt") of other dims.

Invariant: every ``DimExpr`` is canonical and interned, so equal polynomials are one object and
``is`` decides equality; a value known to be constant is always a plain ``int``.  All reasoning
assumes that symbols stay within their bounds and that divisors of evaluated divisions aren't zero.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn, TypeAlias

import numpy as np

from graphc.base.forks import lock
from graphc.base.weak import WeakTable
from graphc.ir.dims.atoms import (
    Atom,
    Monomial,
    Table,
    Terms,
    call_interval,
    extreme_arms,
    flatten,
    interval_of,
    linear_atom,
    multiple_in,
    multiply_monomials,
    term_order,
    terms_interval,
    terms_of,
)
from graphc.ir.dims.format import format_dim
from graphc.ir.dims.interval import Interval
from graphc.ir.dims.numbers import Size, asked_within, mixed, refuse
from graphc.ir.dims.piecewise_linear import Pieces, positive_part
from graphc.ir.surface import functions


class DimExpr(Size):
    """A canonical, interned, immutable polynomial; build with ``symbol`` and arithmetic.

    To users a dim is a number that the run tells: ``==`` and the like answer only if they are
    right for every size, and raise ConcreteValueError otherwise.  Within graphc ``==`` is identity:
    shapes and types are keys, compared everywhere, and two dims that may or may not be equal are
    not one dim; ``compare`` says what is proved.  Which is meant is read off the calling frame.
    """

    __slots__ = ("__weakref__", "_hash", "_interval", "terms")

    terms: Terms
    _hash: int
    _interval: Interval | None

    def __new__(cls) -> DimExpr:
        raise TypeError("DimExpr is not constructed directly; use symbol() and arithmetic")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("DimExpr is immutable")

    def __hash__(self) -> int:
        return self._hash

    @property
    def interval(self) -> Interval:
        """Its bounds, found when they are first asked for: most sums are terms of another one."""
        found = self._interval
        if found is None:
            found = terms_interval(self.terms)
            object.__setattr__(self, "_interval", found)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, flatten(self))

    def __add__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("add", self, other)
        return combine(self, operand, 1)

    def __radd__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("add", other, self)
        return combine(self, operand, 1)

    def __sub__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("subtract", self, other)
        return combine(self, operand, -1)

    def __rsub__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("subtract", other, self)
        return combine(operand, self, -1)

    def __neg__(self) -> Dim:
        return intern_terms(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __pos__(self) -> Dim:
        return self

    def __abs__(self) -> Dim:
        return combine(multiply(2, positive(self)), self, -1)

    def __mul__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("multiply", self, other)
        return multiply(self, operand)

    def __rmul__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("multiply", other, self)
        return multiply(self, operand)

    def __floordiv__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("floor_divide", self, other)
        return LATER["floordiv"](self, operand)

    def __rfloordiv__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("floor_divide", other, self)
        return LATER["floordiv"](operand, self)

    def __mod__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("mod", self, other)
        return LATER["mod"](self, operand)

    def __rmod__(self, other: object) -> Any:
        operand = _operand(other)
        if operand is None:
            return mixed("mod", other, self)
        return LATER["mod"](operand, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 <= other <= LARGEST_POWER:
            return power_of(self, other)
        return super().__pow__(other)

    def __eq__(self, other: object) -> Any:
        return self is other or self._compared("==", other, sys._getframe(1))

    def __ne__(self, other: object) -> Any:
        return self is not other and self._compared("!=", other, sys._getframe(1))

    def __lt__(self, other: object) -> Any:
        return self._compared("<", other, sys._getframe(1))

    def __le__(self, other: object) -> Any:
        return self._compared("<=", other, sys._getframe(1))

    def __gt__(self, other: object) -> Any:
        return self._compared(">", other, sys._getframe(1))

    def __ge__(self, other: object) -> Any:
        return self._compared(">=", other, sys._getframe(1))

    def _compared(self, sign: str, other: object, frame: FrameType) -> Any:
        """What is known of a relation; within graphc, whether these are not the same dim."""
        if sign in ("==", "!=") and asked_within(frame):
            return sign == "!="
        operand = _operand(other)
        if isinstance(other, (float, np.floating)):
            # Of a whole number the two rounded ones are the same.
            if not math.isfinite(other) or (sign in ("==", "!=") and other % 1):
                return _SIGNS[sign](0.0, float(other))
            operand = math.ceil(other) if sign in ("<", ">=") else math.floor(other)
        if operand is None:
            if isinstance(other, np.ndarray):
                return functions[_FUNCTIONS[sign]](self, other)
            return NotImplemented
        known = LATER["holds"](sign, self, operand)
        if known is None:
            what = f"{self} {sign} {operand}"
            refuse(f"whether {what} is not known", "gx.dim(size), a tensor, and compare that")
        return known

    def __bool__(self) -> bool:
        known = LATER["holds"]("!=", self, 0)
        if known is None:
            refuse(f"whether {self} is 0 is not known", "gx.dim(size), a tensor, and compare that")
        return bool(known)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions make tensors; sums, products and quotients of ints stay dims."""
        sign = next((s for s, name in _FUNCTIONS.items() if name == ufunc.__name__), None)
        if sign is not None and len(inputs) == 2 and inputs[1] is self:
            return self._compared(_MIRRORED[sign], inputs[0], sys._getframe(1))
        if sign is not None and len(inputs) == 2:
            return self._compared(sign, inputs[1], sys._getframe(1))
        operation = _UFUNCS.get(ufunc.__name__)
        operands = [o if isinstance(o, DimExpr) else _operand(o) for o in inputs]
        if operation is not None and not options and all(o is not None for o in operands):
            return operation(*operands)
        return super().__array_ufunc__(ufunc, method, *inputs, **options)

    def __str__(self) -> str:
        return format_dim(self)

    __repr__ = __str__


Dim: TypeAlias = int | DimExpr


# Division and comparison are written in the arithmetic of this module and put themselves here.
LATER: dict[str, Callable[..., Any]] = {}

# Comparisons: of floats, by NumPy's and graphc's name, and with the sides exchanged.
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_FUNCTIONS = {
    "==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
    ">=": "greater_equal",
}  # fmt: skip
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UFUNCS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "negative": operator.neg,
}  # fmt: skip
# Of a sum or number, in text as well; a single symbol or call has no limit there.
LARGEST_POWER = 64

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
    object.__setattr__(made, "_interval", None)
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
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, DimExpr):
        return intern_terms(value.terms)
    # A comparison with NumPy's number arrives with an array of no axes.
    is_number = isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu"
    return int(value) if is_number else None  # type: ignore[call-overload]


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


def substituted(value: Dim, known: Mapping[Atom, Dim]) -> Dim:
    """The polynomial with dims in the place of some atoms, outside of calls."""
    table: Table = {}
    for monomial, coefficient in terms_of(value):
        product: Dim = 1
        rest: Monomial = ()
        for atom, power in monomial:
            other = known.get(atom)
            if other is None:
                rest = (*rest, (atom, power))
            else:
                product = multiply(product, power_of(other, power))
        for factor, number in terms_of(product):
            made = multiply_monomials(rest, factor)
            table[made] = table.get(made, 0) + coefficient * number
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


def extreme_of(value: DimExpr) -> tuple[str, Dim, Dim] | None:
    """The two dims whose "min" or "max" the value is, if that says the same with fewer terms."""
    arms = extreme_arms(value.terms)
    return None if arms is None else (arms[0], build(dict(arms[1])), build(dict(arms[2])))


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


def excludes_zero(value: Dim) -> bool:
    """Whether the bounds prove that the value isn't zero."""
    low, high = interval_of(value)
    return low > 0 or high < 0


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


def restored(table: Iterable[Sequence[Any]], roots: Iterable[Sequence[Any]]) -> list[Dim]:
    """Intern again what ``flatten`` wrote, tuples or lists."""
    atoms: list[Atom] = []

    def polynomial(flat: Sequence[Any]) -> Dim:
        return build(
            {
                tuple((atoms[place], power) for place, power in monomial): coefficient
                for monomial, coefficient in flat
            }
        )

    for kind, name, arguments, interval in table:
        parts = tuple(polynomial(argument) for argument in arguments)
        atoms.append(intern_atom(kind, name, parts, interval and tuple(interval)))
    return [polynomial(root) for root in roots]


def _restored(table: Iterable[Sequence[Any]], roots: Iterable[Sequence[Any]]) -> Dim:
    (value,) = restored(table, roots)
    return value
