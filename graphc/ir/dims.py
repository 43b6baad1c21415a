"""Symbolic dimensions: integers and polynomials over named sizes.

Role: the arithmetic of shapes whose extents are known only when data arrives.  A ``Dim`` is an
``int`` or a ``DimExpr``: a polynomial over symbols, floor divisions, remainders, minima, maxima and
selections.  Other modules import dims from here alone.

Invariant: expressions are canonical and interned, so ``is`` decides structural equality, and a
value known to be constant is a plain ``int``.  Simplification and ``compare`` rely on the bounds of
the symbols and on divisors not being zero wherever the division counts: results are void for
environments that break either.  A division by zero in the arm that a selection leaves is harmless.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping

from graphc.ir.dim_algebra import (
    Dim,
    DimExpr,
    as_dim,
    build,
    call,
    combine,
    constant_of,
    content_of,
    expression,
    floor_divide,
    intern_atom,
    lone_atom,
    modulo,
    multiply,
    power_of,
)
from graphc.ir.dim_atoms import Atom, atoms_in_order, interval_of, term_order, terms_of
from graphc.ir.dim_compare import RELATIONS, compare, equal, less, less_equal
from graphc.ir.dim_interval import INFINITY
from graphc.ir.dim_text import Instruction, parse_program

__all__ = [
    "HINT",
    "Dim",
    "DimExpr",
    "Instruction",
    "at_hint",
    "bounds",
    "ceil_div",
    "compare",
    "dim_max",
    "dim_min",
    "equal",
    "evaluate",
    "less",
    "less_equal",
    "parse_dim",
    "postfix",
    "product",
    "select",
    "substitute",
    "symbol",
    "symbol_name",
    "symbols_of",
]

_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}
HINT = 32
"""The size a symbolic dim is planned for; any other size is still right."""

# Of a sum or number in text; a single symbol or call has no limit.
_LARGEST_POWER = 64


def symbol(name: str, lower: int = 0, upper: int | None = None) -> DimExpr:
    """The symbol of this name with inclusive bounds; ValueError if no value fits.

    The same name and bounds give the same object.  Symbols of one name with different bounds are
    different expressions that ``evaluate`` and ``substitute`` treat alike.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"a symbol's name is a non-empty string, not {name!r}")
    low = operator.index(lower)
    high = INFINITY if upper is None else operator.index(upper)
    if low > high:
        raise ValueError(f"symbol {name!r} has lower bound {low} above upper bound {high}")
    return expression(intern_atom("symbol", name, (), (low, high)))


def bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Inclusive (lower, upper) that every value satisfies, None where nothing is known."""
    low, high = interval_of(as_dim(dim))
    return (
        None if isinstance(low, float) else low,
        None if isinstance(high, float) else high,
    )


def product(dims: Iterable[Dim]) -> Dim:
    """The product of the dims, 1 if there are none."""
    result: Dim = 1
    for dim in dims:
        result = multiply(result, as_dim(dim))
    return result


def ceil_div(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded to plus infinity."""
    a, b = as_dim(a), as_dim(b)
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    if interval_of(b)[0] >= 1:
        return floor_divide(a + b - 1, b)
    return combine(0, floor_divide(combine(0, a, -1), b), -1)


def dim_min(a: Dim, b: Dim) -> Dim:
    """The smaller of two dims."""
    a, b = as_dim(a), as_dim(b)
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else _extreme("min", a, b)


def dim_max(a: Dim, b: Dim) -> Dim:
    """The larger of two dims."""
    a, b = as_dim(a), as_dim(b)
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else _extreme("max", a, b)


def _extreme(kind: str, a: Dim, b: Dim) -> Dim:
    kept: list[Dim] = []
    for dim in (a, b):
        nested = lone_atom(dim, kind)
        for candidate in nested.arguments if nested else (dim,):
            if any(_wins(kind, other, candidate) for other in kept):
                continue
            kept = [other for other in kept if not _wins(kind, candidate, other)]
            kept.append(candidate)
    if len(kept) == 1:
        return kept[0]
    return call(kind, *sorted(kept, key=_argument_order))


def _wins(kind: str, a: Dim, b: Dim) -> bool | None:
    return less_equal(a, b) if kind == "min" else less_equal(b, a)


def _argument_order(dim: Dim) -> tuple[object, ...]:
    # The coefficient last: ints, which have no monomial, follow every expression.
    return isinstance(dim, int), [(term_order(term), term[1]) for term in terms_of(dim)]


def select(relation: str, left: Dim, right: Dim, if_true: Dim, if_false: Dim) -> Dim:
    """``if_true`` where ``left relation right`` holds, else ``if_false``; relations of compare.

    A symbolic result keeps only "eq" and "lt", reduced to lowest terms.
    """
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


def symbols_of(dim: Dim) -> frozenset[DimExpr]:
    """The symbols that the dim mentions, as expressions."""
    return frozenset(
        expression(atom) for atom in atoms_in_order(as_dim(dim)) if atom.kind == "symbol"
    )


def symbol_name(dim: Dim) -> str:
    """The name of a symbol; ValueError if the dim is anything else."""
    atom = lone_atom(dim, "symbol")
    if atom is None:
        raise ValueError(f"dimension {dim} is not a symbol")
    return atom.name


def evaluate(dim: Dim, environment: Mapping[str, int]) -> int:
    """The value for the sizes in the environment, which must lie within the symbols' bounds.

    Raises KeyError for a missing symbol and ZeroDivisionError where the value needs a division by
    zero.
    """
    dim = as_dim(dim)
    if isinstance(dim, int):
        return dim
    # None stands for the outcome of a division by zero.
    values: dict[Atom, int | None] = {}

    def polynomial(part: Dim) -> int | None:
        total = 0
        for monomial, coefficient in terms_of(part):
            term = coefficient
            for atom, power in monomial:
                value = values[atom]
                if value is None:
                    return None
                term *= value if power == 1 else value**power
            total += term
        return total

    for atom in atoms_in_order(dim):
        if atom.kind == "symbol":
            if atom.name not in environment:
                raise KeyError(f"no value for symbol {atom.name!r} of dimension {dim}")
            values[atom] = int(operator.index(environment[atom.name]))
        else:
            values[atom] = _evaluate_call(atom.kind, [polynomial(part) for part in atom.arguments])
    result = polynomial(dim)
    if result is None:
        raise ZeroDivisionError(f"dimension {dim} divides by zero")
    return result


def _evaluate_call(kind: str, arguments: list[int | None]) -> int | None:
    known = [value for value in arguments if value is not None]
    if kind in RELATIONS:
        if arguments[0] is None or arguments[1] is None:
            return None
        return arguments[2 if RELATIONS[kind](arguments[0], arguments[1]) else 3]
    if len(known) < len(arguments):
        return None
    if kind in ("min", "max"):
        return min(known) if kind == "min" else max(known)
    return _ARITHMETIC[kind](known[0], known[1]) if known[1] else None


def at_hint(dim: Dim, hint: int = HINT) -> int:
    """The dim's value where every symbol is the hint: for planners, which need some number."""
    if isinstance(dim, int):
        return dim
    return evaluate(dim, {symbol_name(symbol): hint for symbol in symbols_of(dim)})


def substitute(dim: Dim, mapping: Mapping[str, Dim]) -> Dim:
    """The dim with named symbols replaced at once, simplified; other symbols stay."""
    dim = as_dim(dim)
    if isinstance(dim, int):
        return dim
    values: dict[Atom, Dim] = {}

    def polynomial(part: Dim) -> Dim:
        if all(values[atom] is expression(atom) for m, _ in terms_of(part) for atom, _ in m):
            return part
        total: Dim = 0
        for monomial, coefficient in terms_of(part):
            term: Dim = coefficient
            for atom, power in monomial:
                term = term * power_of(values[atom], power)
            total = total + term
        return total

    for atom in atoms_in_order(dim):
        if atom.kind == "symbol":
            named = mapping.get(atom.name)
            values[atom] = expression(atom) if named is None else as_dim(named)
            continue
        arguments = [polynomial(part) for part in atom.arguments]
        if all(new is old for new, old in zip(arguments, atom.arguments, strict=True)):
            values[atom] = expression(atom)
        else:
            values[atom] = _apply(atom.kind, arguments)
    return polynomial(dim)


def _apply(kind: str, arguments: list[Dim]) -> Dim:
    if kind in RELATIONS:
        return select(kind, *arguments)
    step = {"floordiv": floor_divide, "mod": modulo, "min": dim_min, "max": dim_max}[kind]
    result = arguments[0]
    for argument in arguments[1:]:
        result = step(result, argument)
    return result


def postfix(dim: Dim) -> list[Instruction]:
    """A program for a stack machine whose one result is the dim's value.

    ``("const", n)`` and ``("symbol", name)`` push; ``("add",) ("mul",) ("floordiv",) ("mod",)
    ("min",) ("max",)`` replace two values by one; ``("select", relation)`` replaces left, right,
    if_true, if_false, pushed in that order.  Both arms are computed: a division by zero in the arm
    not taken must give some value, not a trap.
    """
    program: list[Instruction] = []
    # Work still to emit, next on top: instructions, atoms and dims.
    work: list[Instruction | Atom | Dim] = [as_dim(dim)]
    while work:
        item = work.pop()
        if isinstance(item, int):
            program.append(("const", item))
        elif isinstance(item, tuple):
            program.append(item)
        elif isinstance(item, Atom):
            work.extend(reversed(_call_program(item)))
        else:
            steps: list[Instruction | Atom | Dim] = []
            for place, (monomial, coefficient) in enumerate(item.terms):
                factors: list[Instruction | Atom | Dim] = []
                if coefficient != 1 or not monomial:
                    factors.append(coefficient)
                for atom, power in monomial:
                    factors.extend([atom] * power)
                for count, factor in enumerate(factors):
                    steps.append(factor)
                    if count:
                        steps.append(("mul",))
                if place:
                    steps.append(("add",))
            work.extend(reversed(steps))
    return program


def _call_program(atom: Atom) -> list[Instruction | Atom | Dim]:
    if atom.kind == "symbol":
        return [("symbol", atom.name)]
    if atom.kind in RELATIONS:
        return [*atom.arguments, ("select", atom.kind)]
    steps: list[Instruction | Atom | Dim] = [atom.arguments[0]]
    for argument in atom.arguments[1:]:
        steps.extend((argument, (atom.kind,)))
    return steps


def parse_dim(text: str, symbols: Mapping[str, Dim] | None = None) -> Dim:
    """Read what ``str(dim)`` prints; ValueError names the position of a mistake.

    Text doesn't carry bounds: names not in ``symbols`` become symbols with the default bounds.
    """
    known = symbols or {}
    stack: list[Dim] = []
    for instruction, position in parse_program(text):
        kind = instruction[0]
        if kind == "const":
            stack.append(instruction[1])
        elif kind == "symbol":
            name: str = instruction[1]
            stack.append(as_dim(known[name]) if name in known else symbol(name))
        elif kind == "power":
            exponent: int = instruction[1]
            if exponent > _LARGEST_POWER and lone_atom(stack[-1]) is None:
                raise ValueError(f"power too large at position {position} of dimension {text!r}")
            stack.append(power_of(stack.pop(), exponent))
        else:
            _run(stack, instruction, text, position)
    return stack[0]


def _run(stack: list[Dim], instruction: Instruction, text: str, position: int) -> None:
    kind = instruction[0]
    if kind == "select":
        left, right, if_true, if_false = stack[-4:]
        del stack[-4:]
        stack.append(select(instruction[1], left, right, if_true, if_false))
        return
    right = stack.pop()
    left = stack.pop()
    if kind == "add":
        stack.append(left + right)
    elif kind == "mul":
        stack.append(left * right)
    elif kind in ("floordiv", "mod") and right == 0 and isinstance(right, int):
        raise ValueError(f"division by zero at position {position} of dimension {text!r}")
    else:
        stack.append(_apply(kind, [left, right]))
