"""Symbolic dimensions: integers and polynomials over named sizes.

Role: the arithmetic of shapes whose extents are known only when data arrives.  A ``Dim`` is an
``int`` or a ``DimExpr``: a polynomial over symbols, floor divisions, remainders, maxima, selections
and the sizes that operands broadcast to.  Other modules import dims from here alone.

Invariant: expressions are canonical and interned, so ``is`` decides structural equality, and a
value known to be constant is a plain ``int``.  Simplification and ``compare`` rely on the bounds of
the symbols and on divisors not being zero wherever the division counts: results are void for
environments that break either.  A division by zero in the arm that a selection leaves is harmless.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from graphc.ir.dims import choice
from graphc.ir.dims.algebra import (
    LARGEST_POWER,
    LATER,
    UNKNOWN,
    Atom,
    Dim,
    DimExpr,
    as_dim,
    combine,
    expression,
    intern_atom,
    lone_atom,
    multiply,
    power_of,
    terms_of,
)
from graphc.ir.dims.bounds import call_interval, interval_of, terms_interval
from graphc.ir.dims.choice import broadcasts_to, may_be
from graphc.ir.dims.compare import RELATIONS, compare, equal, holds, less, less_equal
from graphc.ir.dims.division import floor_divide, modulo
from graphc.ir.dims.format import format_dim
from graphc.ir.dims.interval import INFINITY
from graphc.ir.dims.numbers import Size, SizeNumber, asked_within
from graphc.ir.dims.pieces import extreme_of, positive
from graphc.ir.dims.read_sizes import ReadDim, Sources, flat, read_off, through, together
from graphc.ir.dims.text import Instruction, parse_program
from graphc.ir.dims.walks import atoms_in_order, flatten, restored

__all__ = [
    "HINT",
    "Dim",
    "DimExpr",
    "Instruction",
    "ReadDim",
    "Size",
    "SizeNumber",
    "Sizes",
    "Sources",
    "apply_call",
    "as_dim",
    "asked_within",
    "at_hint",
    "bounds",
    "broadcast",
    "broadcasts_to",
    "ceil_div",
    "compare",
    "digest",
    "dim_max",
    "dim_min",
    "equal",
    "evaluate",
    "flat",
    "flatten",
    "is_symbol",
    "less",
    "less_equal",
    "may_be",
    "parse_dim",
    "parts_of",
    "product",
    "program",
    "read_off",
    "restored",
    "select",
    "substitute",
    "symbol",
    "symbol_name",
    "symbols_of",
    "together",
]


def _reduced(dim: DimExpr) -> tuple[Any, ...]:
    """How a dim is pickled."""
    return _from_flat, flatten(dim)


def _from_flat(table: Iterable[Sequence[Any]], roots: Iterable[Sequence[Any]]) -> Dim:
    (value,) = restored(table, roots)
    return value


LATER.update(
    interval=terms_interval, call_interval=call_interval, positive=positive, floordiv=floor_divide,
    mod=modulo, holds=holds, text=format_dim, reduced=_reduced,
)  # fmt: skip

broadcast = through(choice.broadcast)
dim_max = through(choice.dim_max)
dim_min = through(choice.dim_min)
select = through(choice.select)

_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}
_STEPS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floor_divide,
    "mod": modulo,
    "min": choice.dim_min,
    "max": choice.dim_max,
    "broadcast": choice.broadcast,
}
HINT = 32
"""The size a symbolic dim is planned for; any other size is still right."""


class _HintValues(dict[Atom, int | None]):
    """The values of atoms where every symbol is ``HINT``, which the atoms themselves hold."""

    def __contains__(self, atom: object) -> bool:
        return isinstance(atom, Atom) and atom.at_hint is not UNKNOWN

    def __missing__(self, atom: Atom) -> int | None:
        value: int | None = atom.at_hint
        return value

    def __setitem__(self, atom: Atom, value: int | None) -> None:
        atom.at_hint = value


class _Hints(dict[str, int]):
    """The hint as the size of every symbol; values are remembered as long as what has them."""

    def __init__(self, hint: int) -> None:
        super().__init__()
        self.hint = hint
        self.known: dict[Atom, int | None]
        self.known = _HintValues() if hint == HINT else {}

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> int:
        return self.hint


_HINTS = _Hints(HINT)
# Of a sum or number in text; a single symbol or call has no limit.


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
    if ReadDim.exist:
        dims = [*dims]
        if ReadDim in map(type, dims):
            return reduce(operator.mul, dims)
    result: Dim = 1
    for dim in dims:
        result = multiply(result, as_dim(dim))
    return result


@through
def ceil_div(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded to plus infinity."""
    a, b = as_dim(a), as_dim(b)
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    if interval_of(b)[0] >= 1:
        return floor_divide(a + b - 1, b)
    return combine(0, floor_divide(combine(0, a, -1), b), -1)


def symbols_of(*dims: Dim, seen: dict[Any, None] | None = None) -> frozenset[DimExpr]:
    """The symbols that the dims mention, as expressions.

    Without those of parts that calls with the same ``seen``, empty at first, have met before.
    """
    known = {} if seen is None else seen
    found: list[Atom] = []
    for dim in dims:
        atoms = atoms_in_order(as_dim(dim), known=known)
        known.update(dict.fromkeys(atoms))
        found += atoms
    return frozenset(expression(atom) for atom in found if atom.kind == "symbol")


def parts_of(dims: Iterable[Dim]) -> list[DimExpr]:
    """What the dims are computed from: symbols, and sets of sizes that broadcast as a whole.

    These come in the order of names and then of sets, the same in every process.
    """
    found: dict[Atom, None] = {}
    seen: set[Atom] = set()
    stack: list[Dim] = list(map(as_dim, dims))
    while stack:
        for monomial, _ in terms_of(stack.pop()):
            for atom, _ in monomial:
                if atom.kind in ("symbol", "broadcast"):
                    found[atom] = None
                elif atom not in seen:
                    seen.add(atom)
                    stack += atom.arguments
    return [expression(atom) for atom in sorted(found, key=lambda atom: atom.key)]


def is_symbol(dim: Dim) -> bool:
    """Whether the dim is one symbol and nothing else."""
    return lone_atom(dim, "symbol") is not None


def symbol_name(dim: Dim) -> str:
    """The name of a symbol; ValueError if the dim is anything else."""
    atom = lone_atom(dim, "symbol")
    if atom is None:
        raise ValueError(f"dimension {dim} is not a symbol")
    return atom.name


class Sizes(dict[str, int]):
    """Sizes of symbols by name that remember what they make of dims: each distinct part is worked
    out once.  They don't change once a dim was evaluated.

    Attributes:
        known: the value of each atom met so far; None stands for a division by zero.
    """

    __slots__ = ("known",)

    known: dict[Atom, int | None]

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__(sizes)
        self.known = {}


def digest(dim: Dim) -> str:
    """A short text that only this dim has, whatever the size of its own: for hashing."""
    if isinstance(dim, int) or is_symbol(dim):
        return str(dim)
    return " ".join(
        f"{coefficient}{''.join(f'*{atom.key[3]}^{power}' for atom, power in monomial)}"
        for monomial, coefficient in dim.terms
    )


def evaluate(dim: Dim, environment: Mapping[str, int]) -> int:
    """The value for the sizes in the environment, which must lie within the symbols' bounds.

    Who evaluates many dims gives ``Sizes``.  Raises KeyError for a missing symbol and
    ZeroDivisionError where the value needs a division by zero.
    """
    dim = as_dim(dim)
    if isinstance(dim, int):
        return dim
    values: dict[Atom, int | None] = {}
    if isinstance(environment, (Sizes, _Hints)):
        values = environment.known

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

    for atom in atoms_in_order(dim, known=values):
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
    if kind == "max":
        return max(known)
    if kind == "broadcast":
        return next((value for value in known if value != 1), 1)
    return _ARITHMETIC[kind](known[0], known[1]) if known[1] else None


def at_hint(dim: Dim, hint: int = HINT) -> int:
    """The dim's value where every symbol is the hint: for planners, which need some number."""
    if isinstance(dim, int):
        return dim
    return evaluate(dim, _HINTS if hint == HINT else _Hints(hint))


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
            values[atom] = apply_call(atom.kind, arguments)
    return polynomial(dim)


def apply_call(kind: str, arguments: Sequence[Dim]) -> Dim:
    """The call of an atom of this kind, simplified."""
    if kind in RELATIONS:
        return choice.select(kind, *arguments)
    return reduce(_STEPS[kind], arguments)


def program(
    dims: Iterable[Dim], given: Sequence[DimExpr] = ()
) -> tuple[list[Instruction], list[int]]:
    """Straight-line code for dims, and which instruction's value each dim is.

    An instruction is ``("const", n)``, ``("symbol", name)``, ``("given", n)`` for the nth of the
    symbols and sets given, or an operation on the values of
    earlier instructions, by number: ``("add", a, b)``, likewise ``mul``, ``floordiv``, ``mod``,
    ``min`` and ``max``, and ``("select", relation, left, right, if_true, if_false)``.  None is
    there twice.  Both arms of a selection are computed: a division by zero in the arm not taken
    must give some value, not a trap.
    """
    places: dict[Instruction, int] = {}
    values: dict[Atom, int] = {}

    def step(*instruction: Any) -> int:
        return places.setdefault(instruction, len(places))

    def polynomial(part: Dim) -> int:
        if isinstance(part, int):
            return step("const", part)
        arms = extreme_of(part)
        if arms is not None:
            return step(arms[0], *map(polynomial, arms[1:]))
        total = -1
        for monomial, coefficient in part.terms:
            factors = [values[atom] for atom, power in monomial for _ in range(power)]
            if coefficient != 1 or not monomial:
                factors.insert(0, step("const", coefficient))
            term = reduce(lambda a, b: step("mul", a, b), factors)
            total = term if total < 0 else step("add", total, term)
        return total

    for number, part in enumerate(given):
        atom = lone_atom(part)
        assert atom is not None, "what is given is one symbol or set"
        values[atom] = step("given", number)
    results = []
    for dim in map(as_dim, dims):
        for atom in atoms_in_order(dim, known=values):
            if atom.kind == "symbol":
                values[atom] = step("symbol", atom.name)
                continue
            parts = [polynomial(argument) for argument in atom.arguments]
            if atom.kind in RELATIONS:
                values[atom] = step("select", atom.kind, *parts)
            elif atom.kind == "broadcast":
                # The one that isn't 1, of those there are.
                one = step("const", 1)
                first, *others = [part for part in parts if part != one]
                for other in others:
                    first = step("select", "eq", first, one, other, first)
                values[atom] = first
            else:
                values[atom] = step(atom.kind, *parts)
        results.append(polynomial(dim))
    return list(places), results


def parse_dim(text: str, symbols: Mapping[str, Dim] | None = None) -> Dim:
    """Read what ``str(dim)`` prints; ValueError names the position of a mistake.

    Text doesn't carry bounds: names not in ``symbols`` become symbols with the default bounds.
    """
    known = symbols or {}
    defined: dict[str, Dim] = {}
    stack: list[Dim] = []
    for instruction, position in parse_program(text):
        kind = instruction[0]
        if kind == "const":
            stack.append(instruction[1])
        elif kind == "symbol":
            name: str = instruction[1]
            if name in defined:
                stack.append(defined[name])
            else:
                stack.append(as_dim(known[name]) if name in known else symbol(name))
        elif kind == "define":
            defined[instruction[1]] = stack.pop()
        elif kind == "forget":
            for _ in range(instruction[1]):
                defined.popitem()
        elif kind == "power":
            exponent: int = instruction[1]
            if exponent > LARGEST_POWER and lone_atom(stack[-1]) is None:
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
        stack.append(apply_call(kind, [left, right]))
