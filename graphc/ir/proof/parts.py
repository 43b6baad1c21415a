"""What proofs do with dims: walk them, put others in their place, and see which way they go.

The size that operands broadcast to counts as one thing here, whatever it is a set of: a proof about
one of a thousand operands so takes no longer than about one of two. Judgements go by bounds alone;
what takes more is found by cases and by eliminating.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.ir.dims.algebra import (
    Atom,
    Monomial,
    Table,
    build,
    expression,
    linear_atom,
    lone_atom,
    multiply,
    multiply_monomials,
    power_of,
    terms_of,
)
from graphc.ir.dims.bounds import hinge_arms, interval_of
from graphc.ir.dims.division import floor_divide
from graphc.ir.dims.expressions import Dim, DimExpr, apply_call


def parts_in(*among: Dim) -> dict[Atom, None]:
    """The atoms of dims, each after those of its arguments; none of those in a broadcast."""
    found: dict[Atom, None] = {}
    stack = [atom for dim in reversed(among) for m, _ in terms_of(dim) for atom, _ in m]
    while stack:
        atom = stack[-1]
        if atom in found:
            stack.pop()
            continue
        inner = () if atom.kind == "broadcast" else atom.arguments
        missing = [
            part
            for argument in inner
            for monomial, _ in terms_of(argument)
            for part, _ in monomial
            if part not in found
        ]
        if missing:
            stack += missing
        else:
            found[stack.pop()] = None
    return found


def mentions(dim: Dim, symbol: DimExpr) -> bool:
    """Whether a symbol is among the parts of a dim."""
    return lone_atom(symbol) in parts_in(dim)


def at_least(value: Dim, bound: int) -> bool:
    """Whether bounds say that the value is never below this one."""
    return interval_of(value)[0] >= bound


def is_negative(value: Dim) -> bool:
    """Whether bounds say that the value is always below 0."""
    return interval_of(value)[1] < 0


def are_equal(left: Dim, right: Dim) -> bool | None:
    """Whether two dims are plainly the same, or plainly not."""
    if left is right or left == right:
        return True
    low, high = interval_of(left - right)
    return False if low > 0 or high < 0 else None


def divided(goal: Dim) -> Dim:
    """The goal without sizes that all its terms are multiples of: these are at least 0."""
    terms = [dict(monomial) for monomial, _ in terms_of(goal)]
    if not terms:
        return goal
    common = {
        atom: min(term.get(atom, 0) for term in terms)
        for atom in terms[0]
        if atom.interval[0] >= 0
    }
    if not any(common.values()):
        return goal
    return build(
        {
            tuple((a, p - common.get(a, 0)) for a, p in monomial if p > common.get(a, 0)): value
            for monomial, value in terms_of(goal)
        }
    )


def replaced(dim: Dim, new: Mapping[Atom, Dim]) -> Dim:
    """The dim with others in the place of some of its parts."""
    if isinstance(dim, int):
        return dim
    found = parts_in(dim)
    if new.keys().isdisjoint(found):
        return dim
    known = dict(new)
    for atom in found:
        if atom in known or atom.kind in ("symbol", "broadcast"):
            continue
        arguments = [_substituted(argument, known) for argument in atom.arguments]
        if any(one is not other for one, other in zip(arguments, atom.arguments, strict=True)):
            known[atom] = apply_call(atom.kind, arguments)
    return _substituted(dim, known)


def _substituted(value: Dim, known: Mapping[Atom, Dim]) -> Dim:
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


def scaled(goal: Dim, symbol: DimExpr, value: Dim, divisor: int) -> Dim | None:
    """The goal with value / divisor in the place of a symbol, all of whose factors are multiples of
    the divisor; None if they aren't."""
    known: dict[Atom, Dim] = {}
    atom = lone_atom(symbol)
    whole = True

    def polynomial(part: Dim) -> Dim:
        nonlocal whole
        total: Dim = 0
        for monomial, coefficient in terms_of(part):
            term: Dim = coefficient
            for factor, power in monomial:
                if factor is not atom:
                    term = term * power_of(known[factor], power)
                elif power == 1 and coefficient % divisor == 0:
                    term = (coefficient // divisor) * value if term == coefficient else (
                        floor_divide(term, divisor) * value
                    )
                else:
                    whole = False
            total = total + term
        return total

    for part in parts_in(goal):
        if part is atom:
            continue
        if part.kind in ("symbol", "broadcast"):
            known[part] = expression(part)
        else:
            known[part] = apply_call(part.kind, [polynomial(a) for a in part.arguments])
    result = polynomial(goal)
    return result if whole else None


def direction_of(value: Dim, index: DimExpr) -> int | None:
    """1 where the value never falls as the index grows, -1 where it never grows, 0 where it does
    not depend on it; None if that is not known."""
    found = _direction_of_terms(value, index)
    if found is not None:
        return found
    terms = terms_of(value)
    for monomial, _ in terms:
        hinge = linear_atom(monomial, "max")
        if hinge is not None and _of_atom(hinge, index) != 0:
            # i + max(n - i, 4) is the greater one of n and i + 4
            arms = hinge_arms(terms, monomial, hinge)
            return _agreed([direction_of(build(dict(arm)), index) for arm in arms])
    return None


def _direction_of_terms(value: Dim, index: DimExpr) -> int | None:
    """The direction in which all terms go, each on its own."""
    total = 0
    factors: Table = {}
    for monomial, coefficient in terms_of(value):
        direction = 0
        rest = []
        for atom, power in monomial:
            step = _of_atom(atom, index)
            if step is None or (step and direction and step != direction):
                return None
            if not step:
                rest.append((atom, power))
                continue
            if (power > 1 or direction) and interval_of(expression(atom))[0] < 0:
                return None
            direction = step
        if not direction:
            continue
        if (lone_atom(index), 1) in monomial:
            # what the index itself is multiplied by may have a sign as a whole only
            factors[tuple(rest)] = factors.get(tuple(rest), 0) + coefficient
            continue
        low, high = interval_of(build({tuple(rest): coefficient}))
        if low < 0 < high:
            return None
        direction = direction if low >= 0 else -direction
        if total and total != direction:
            return None
        total = direction
    if factors:
        low, high = interval_of(divided(build(factors)))
        if low < 0 < high or (total and total != (1 if low >= 0 else -1)):
            return None
        total = 1 if low >= 0 else -1
    return total


def _of_atom(atom: Atom, index: DimExpr) -> int | None:
    if atom.kind == "symbol":
        return int(expression(atom) is index)
    if atom.kind == "broadcast":
        return 0
    steps = [direction_of(argument, index) for argument in atom.arguments]
    if atom.kind == "floordiv":
        return steps[0] if steps[1] == 0 and at_least(atom.arguments[1], 0) else (
            0 if steps == [0, 0] else None
        )
    if atom.kind == "max":
        return _agreed(steps)
    if atom.kind in ("eq", "lt") and steps[:2] == [0, 0]:
        return _agreed(steps[2:])
    return 0 if all(step == 0 for step in steps) else None


def _agreed(steps: Sequence[int | None]) -> int | None:
    found = {step for step in steps if step != 0}
    if len(found) > 1:
        return None
    return found.pop() if found else 0


