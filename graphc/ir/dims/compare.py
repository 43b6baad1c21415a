"""What can be proved about symbolic dimensions.

Role: ``compare`` and its prover.  Invariant: an answer is a proof for every assignment within the
symbols' bounds; None says only that the prover, whose effort is bounded, found none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from graphc.ir.dims.algebra import Atom, Dim, DimExpr, as_dim, build, combine, power_of, terms_of
from graphc.ir.dims.bounds import excludes_zero, interval_of
from graphc.ir.dims.division import floor_divide
from graphc.ir.dims.pieces import constant_of, content_of
from graphc.ir.dims.text import RELATION_TEXT

RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
}

# Case splits and relaxations that one proof may try.
_PROOF_STEPS = 16


def compare(relation: str, a: Dim, b: Dim) -> bool | None:
    """Whether ``a relation b`` ("eq", "ne", "lt", "le") is proved, refuted, or None: unknown.

    Raises ValueError for another relation.
    """
    if relation not in RELATIONS:
        raise ValueError(f"unknown relation {relation!r}; expected one of {', '.join(RELATIONS)}")
    a, b = as_dim(a), as_dim(b)
    if isinstance(a, int) and isinstance(b, int):
        return RELATIONS[relation](a, b)
    if a is b:
        return relation in ("eq", "le")
    difference = combine(a, b, -1)
    if isinstance(difference, int):
        return RELATIONS[relation](difference, 0)
    if relation == "lt":
        return _is_negative(difference)
    if relation == "le":
        return _is_negative(difference - 1)
    same = _is_zero(difference)
    return same if same is None or relation == "eq" else not same


def holds(sign: str, a: Dim, b: Dim) -> bool | None:
    """``compare`` by Python's sign, which may be ``>`` or ``>=`` too."""
    if sign in (">", ">="):
        a, b, sign = b, a, "<" if sign == ">" else "<="
    return compare({text: name for name, text in RELATION_TEXT.items()}[sign], a, b)


def equal(a: Dim, b: Dim) -> bool | None:
    """``compare("eq", a, b)``."""
    if type(a) is int and type(b) is int:
        return a == b
    return compare("eq", a, b)


def less(a: Dim, b: Dim) -> bool | None:
    """``compare("lt", a, b)``."""
    return compare("lt", a, b)


def less_equal(a: Dim, b: Dim) -> bool | None:
    """``compare("le", a, b)``."""
    return compare("le", a, b)


def _is_negative(value: Dim) -> bool | None:
    low, high = interval_of(value)
    if high < 0:
        return True
    if low >= 0:
        return False
    if not _calls(value):
        return None
    if _proved_nonnegative(combine(-1, value, -1)):
        return True
    return False if _proved_nonnegative(value) else None


def _is_zero(value: DimExpr) -> bool | None:
    if excludes_zero(value) or constant_of(value) % content_of(value):
        return False
    if not _calls(value):
        return None
    above, below = _proved_nonnegative(value), _proved_nonnegative(-value)
    if above and below:
        return True
    if not below and _proved_nonnegative(value - 1):
        return False
    if not above and _proved_nonnegative(combine(-1, value, -1)):
        return False
    return None


def _proved_nonnegative(value: Dim) -> bool:
    """Prove ``value >= 0`` by bounds, case splits and relaxations of the outermost atoms."""
    budget = _PROOF_STEPS
    # Alternatives, each a list of goals that must all hold.
    alternatives: list[list[Dim]] = [[value]]
    while alternatives:
        goals = alternatives.pop()
        while goals and interval_of(goals[-1])[0] >= 0:
            goals.pop()
        if not goals:
            return True
        if budget == 0 or interval_of(goals[-1])[1] < 0:
            continue
        budget -= 1
        goal = goals.pop()
        alternatives.extend([*goals, *step] for step in reversed(_proof_steps(goal)))
    return False


def _calls(value: Dim) -> set[Atom]:
    """The outermost calls that can be taken apart; else the bounds are all that is known."""
    return {
        atom
        for monomial, _ in terms_of(value)
        for atom, _ in monomial
        if atom.kind not in ("symbol", "broadcast")
    }


def _proof_steps(goal: Dim) -> list[list[Dim]]:
    """Ways to prove ``goal >= 0``: each lists the goals that together imply it."""
    for atom in sorted(_calls(goal), key=lambda atom: atom.key, reverse=True):
        choices = atom.arguments
        if atom.kind in ("floordiv", "mod"):
            divisor = choices[1]
            if not isinstance(divisor, int):
                # For y > 0: x % y <= y - 1, and x // y <= x if x >= 0.
                ceiling = divisor - 1 if atom.kind == "mod" else choices[0]
                applies = atom.kind == "mod" or interval_of(choices[0])[0] >= 0
                if applies and divisor.interval[0] >= 0 and _cofactor_sign(goal, atom) < 0:
                    return [[_replace(goal, atom, ceiling)]]
                continue
            if atom.kind == "mod":
                exact = choices[0] - divisor * floor_divide(choices[0], divisor)
                return [[_replace(goal, atom, exact)]]
            sign = _cofactor_sign(goal, atom)
            if sign:
                end = choices[0] - (divisor - 1) if sign > 0 else choices[0]
                return [[_replace(goal, atom, end, divisor)]]
            continue
        if atom.kind == "max":
            cases = [_replace(goal, atom, choice) for choice in choices]
            # max(x, y) >= x: then any one argument makes the goal smaller.
            if _cofactor_sign(goal, atom) > 0:
                return [[case] for case in cases]
            return [cases]
        return [[_replace(goal, atom, arm) for arm in choices[2:]]]
    return []


def _cofactor_sign(goal: Dim, atom: Atom) -> int:
    """The sign of what multiplies the atom; 0 if unknown or the atom isn't linear."""
    signs = set()
    for monomial, coefficient in terms_of(goal):
        powers = dict(monomial)
        power = powers.pop(atom, 0)
        if power:
            low, high = interval_of(build({tuple(powers.items()): coefficient}))
            if power > 1 or (low < 0 < high):
                return 0
            signs.add(1 if low >= 0 else -1)
    return signs.pop() if len(signs) == 1 else 0


def _replace(goal: Dim, atom: Atom, value: Dim, divisor: int = 1) -> Dim:
    """``divisor * goal`` where the (linear, unless divisor is 1) atom becomes value / divisor."""
    result: Dim = 0
    for monomial, coefficient in terms_of(goal):
        powers = dict(monomial)
        power = powers.pop(atom, 0)
        rest = build({tuple(powers.items()): coefficient})
        result = result + rest * (power_of(value, power) if power else divisor)
    return result
