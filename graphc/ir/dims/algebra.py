"""The algebra of symbolic dimensions: canonical polynomials over symbols and calls.

Role: the nouns of ``graphc.ir.dims.expressions``, which is what other modules import, and their
sums and products.  An expression is a sum of coefficient * product of atom**power, where an atom is
a bounded symbol or a floor division, remainder, maximum, selection ("eq" or "lt") or broadcast of
other dims.  Dims are made of atoms and atoms of dims, so both are defined here.  Operators find
what is written in this algebra (bounds, division, comparison, text) in ``LATER``.

Invariant: every ``DimExpr`` is canonical and interned, so equal polynomials are one object and
``is`` decides equality; a value known to be constant is always a plain ``int``.  All reasoning
assumes that symbols stay within their bounds and that divisors of evaluated divisions aren't zero.
"""

from __future__ import annotations

import hashlib
import math
import operator
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np

from graphc.base.forks import lock
from graphc.base.weak import WeakTable
from graphc.ir.dims.interval import Interval
from graphc.ir.dims.numbers import Size, asked_within, mixed, refuse
from graphc.ir.surface import functions

Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"
Table: TypeAlias = "dict[Monomial, int]"

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
            found = LATER["interval"](self.terms)
            object.__setattr__(self, "_interval", found)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        reduced: tuple[Any, ...] = LATER["reduced"](self)
        return reduced

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
        return combine(multiply(2, LATER["positive"](self)), self, -1)

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
        text: str = LATER["text"](self)
        return text

    __repr__ = __str__


Dim: TypeAlias = int | DimExpr


LATER: dict[str, Callable[..., Any]] = {}
"""Functions of modules above by name; ``graphc.ir.dims.expressions`` enters them."""

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


def lone_atom(value: Dim, *kinds: str) -> Atom | None:
    """The atom that the value consists of, if it is of one of the kinds (any if none is named)."""
    terms = terms_of(value)
    if len(terms) != 1 or terms[0][1] != 1:
        return None
    return linear_atom(terms[0][0], *kinds)


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
    made = Atom(kind, name, arguments, interval or LATER["call_interval"](kind, arguments))
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
