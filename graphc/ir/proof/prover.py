"""A prover for inequalities of sizes and indices, under what guards and conditions say.

    guard: n = 1 or n = t;  0 <= i < t
    goal:  n - 1 - i * select(n == 1, 0, 1) >= 0

What is left of a goal is split into cases first: an operand of a maximum, an arm of a selection,
either side of a guard. Then indices are eliminated, the inner ones before those that their extents
depend on: where a goal falls as an index grows, its greatest value takes its place, else 0. A case
ends where the goal is plain, where the facts contradict each other, or where they contradict that
the goal does not hold, which Fourier and Motzkin's elimination finds: monomials are its variables,
and what it derives is rounded to integers. The effort is bounded; a goal that is not proved may
hold all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from graphc.ir.dims import expressions
from graphc.ir.dims.algebra import Atom, lone_atom, terms_of
from graphc.ir.dims.expressions import Dim, DimExpr
from graphc.ir.dims.pieces import extreme_of
from graphc.ir.proof.cases import (
    CHOICES,
    Case,
    either,
    follows,
    replacing,
    running,
    simplified,
    told_apart,
)
from graphc.ir.proof.facts import Assumed
from graphc.ir.proof.parts import (
    at_least,
    direction_of,
    divided,
    mentions,
    parts_in,
    replaced,
    scaled,
)

CASES = 100
"""Cases that one proof may look at."""

ENDS = 40
"""Goals without some of the indices that are looked at before any case."""

PARTS = 12
"""Sizes, indices and calls that a goal may have: what has more is not tried."""

_LEAST = -(2**62)


class Prover:
    """Proves goals under the same assumptions, indices and conditions."""

    def __init__(
        self,
        assumed: Assumed,
        indices: Iterable[tuple[DimExpr, Dim]],
        conditions: Iterable[tuple[str, Dim, Dim]] = (),
    ) -> None:
        """Of the indices those come first that others' extents depend on."""
        self._assumed = assumed
        facts: list[Dim] = []
        equal: list[tuple[Dim, Dim]] = []
        for relation, left, right in conditions:
            if relation == "eq":
                equal.append((left, right))
            else:
                facts.append(right - left - (relation == "lt"))
        self._given = Case(0, tuple(indices), tuple(facts), tuple(equal), ())
        self._left = 0
        self._fresh = 0

    def holds(self, goal: Dim) -> bool:
        """Whether the goal is proved to be at least 0."""
        if at_least(goal, 0):
            return True
        if len(parts_in(goal)) > PARTS:
            return False
        given = replace(self._given, goal=goal)
        if self._within_bounds(given):
            return True
        atoms = parts_in(*given.dims)
        given = replace(
            given,
            equal=(*given.equal, *self._assumed.equal(atoms)),
            either=tuple(self._assumed.either(atoms)),
        )
        self._left = CASES
        return self._proved(given)

    def _within_bounds(self, given: Case) -> bool:
        """Whether bounds prove the goal once ends of indices are in their places.

        Most goals are proved so, at a fraction of the cost of the search by cases.
        """
        try:
            self._left = ENDS
            if self._by_ends(given):
                return True
            grown = running(given)
            self._left = ENDS
            return grown is not given and self._by_ends(grown)
        except (ZeroDivisionError, ValueError):
            return False

    def _by_ends(self, case: Case) -> bool:
        """Whether bounds prove the goal without indices, of which the inner ones go first."""
        self._left -= 1
        if self._left < 0 or at_least(divided(case.goal), 0):
            return self._left >= 0
        cases = _without_index(case)
        if cases:
            return any(map(self._by_ends, cases))
        return any(self._by_ends(replace(case, goal=goal)) for goal in _without_division(case.goal))

    def most(self, value: Dim) -> Dim | None:
        """An upper bound of the value without indices, for sizes with which all loops run.

        None if the value neither grows nor falls with one of them; a remainder counts as any.
        """
        case = replace(self._given, goal=-value)
        while any(mentions(case.goal, index) for index, _ in case.indices):
            found = _without_index(case)
            if found:
                goal = found[0].goal
                for other in found[1:]:
                    goal = expressions.dim_max(goal, other.goal)
                case = replace(found[0], goal=goal)
                continue
            atoms = (a for a in parts_in(case.goal) if a.kind == "mod")
            remainder = next(atoms, None)
            if remainder is None:
                return None
            index = self._unknown()
            goal = replaced(case.goal, {remainder: index})
            divisor = remainder.arguments[1]
            case = replace(case, goal=goal, indices=(*case.indices, (index, divisor)))
        is_left = any(mentions(case.goal, index) for index, _ in self._given.indices)
        return None if is_left else -case.goal

    def _unknown(self, low: int = 0) -> DimExpr:
        self._fresh += 1
        return expressions.symbol(f"unknown {self._fresh}", low)

    def _proved(self, case: Case) -> bool:
        """Depth first; as deep as there are choices in the goal.

        What loses nothing comes first: cases that are one or the other. Bounds in the place of
        indices and quotients lose how these depend on each other.
        """
        self._left -= 1
        if self._left < 0:
            return False
        try:
            simple = simplified(case)
            if simple is None or follows(simple):
                return True
            cases = told_apart(simple)
            if cases:
                return all(map(self._proved, cases))
            if any(map(self._proved, _without_index(simple))):
                return True
            bounded = [replace(simple, goal=goal) for goal in _without_division(simple.goal)]
            if any(map(self._proved, bounded)):
                return True
            cases = self._split(simple)
            return bool(cases) and all(map(self._proved, cases))
        except ZeroDivisionError:
            return False

    def _split(self, case: Case) -> list[Case]:
        """Cases one of which is true; none if there is nothing left to tell apart."""
        if case.either:
            return either(case, 0)
        pairs = [dim for pair in case.equal for dim in pair]
        extents = [extent for _, extent in case.indices]
        for among in (pairs, extents, list(case.facts)):
            chosen = next((a for a in parts_in(*among) if a.kind in CHOICES), None)
            if chosen is not None:
                return CHOICES[chosen.kind](case, chosen)
        for atom in parts_in(case.goal):
            known = atom.kind not in ("mod", "floordiv") or isinstance(atom.arguments[1], int)
            if not known and at_least(atom.arguments[1], 1):
                return [self._relaxed(case, atom)]
        return []

    def _relaxed(self, case: Case, atom: Atom) -> Case:
        """The case with an unknown in place of a quotient or remainder, of which this is known."""
        value, divisor = atom.arguments
        if atom.kind == "mod":
            index = self._unknown()
            made = replacing(case, atom, index)
            facts = (*made.facts, value - index) if at_least(value, 0) else made.facts
            return replace(made, indices=(*made.indices, (index, divisor)), facts=facts)
        quotient = self._unknown(0 if at_least(value, 0) else _LEAST)
        made = replacing(case, atom, quotient)
        rest = value - divisor * quotient
        return replace(made, facts=(*made.facts, rest, divisor - 1 - rest))


def _atom(index: DimExpr) -> Atom:
    atom = lone_atom(index)
    assert atom is not None, "an index is one symbol"
    return atom


def _without_index(case: Case) -> list[Case]:
    """The case without an index, the innermost one with which the goal only falls or only grows.

    One for each bound that the index is known to have: one of these is enough.
    """
    for position in reversed(range(len(case.indices))):
        index, extent = case.indices[position]
        if not mentions(case.goal, index):
            continue
        direction = direction_of(case.goal, index)
        if direction is None:
            direction = _direction_by_facts(case, index)
        if direction is None:
            continue
        atom = _atom(index)
        ends = [extent, *_arms_of_minimum(extent)] if direction < 0 else [1]
        goals: list[Dim] = [replaced(case.goal, {atom: end - 1}) for end in ends]
        for fact in case.facts:
            # of a fact rest - factor * index, or factor * index - rest: rest / factor is a bound
            factor = dict(terms_of(fact)).get(((atom, 1),), 0)
            rest = fact - factor * index
            if factor * direction > 0 and not mentions(rest, index):
                end = rest if direction < 0 else -rest
                goal = scaled(case.goal, index, end, abs(factor))
                if goal is not None:
                    goals.append(goal)
        others = (*case.indices[:position], *case.indices[position + 1 :])
        facts = (*case.facts, extent - 1, extent - 1 - index)
        return [replace(case, goal=goal, indices=others, facts=facts) for goal in reversed(goals)]
    return []


def _direction_by_facts(case: Case, index: DimExpr) -> int | None:
    """That of a goal that is linear in the index, by what the factor is known to exceed.

    Rows of n - m elements lie so far apart, and that there are elements is known.
    """
    atom = _atom(index)
    at = [replaced(case.goal, {atom: number}) for number in range(3)]
    slope = at[1] - at[0]
    if mentions(slope, index) or at[2] - at[1] != slope:
        return None
    for direction in (1, -1):
        if any(at_least(slope * direction - fact, 0) for fact in case.facts):
            return direction
    return None


def _arms_of_minimum(extent: Dim) -> tuple[Dim, ...]:
    """What a minimum is of: each is a bound, and may be one that other indices cancel."""
    found = None if isinstance(extent, int) else extreme_of(extent)
    return found[1:] if found is not None and found[0] == "min" else ()


def _without_division(goal: Dim) -> Iterator[Dim]:
    """Goals with something else in the place of a quotient or a remainder, of which one is enough.

    For a remainder that is its bound, where the goal falls or grows with it, and by a number what
    it is. For a quotient by a number it is the bound without rounding, in a multiple of the goal
    where that has to be.
    """
    for atom in parts_in(goal):
        if atom.kind not in ("floordiv", "mod"):
            continue
        value, divisor = atom.arguments
        is_number = isinstance(divisor, int)
        if not at_least(divisor, 1) or not (is_number or atom.kind == "mod"):
            continue
        stands = expressions.symbol("stands for a division", 0 if atom.kind == "mod" else _LEAST)
        free = replaced(goal, {atom: stands})
        direction = direction_of(free, stands)
        if atom.kind == "mod":
            if direction:
                yield replaced(free, {_atom(stands): divisor - 1 if direction < 0 else 0})
            if is_number:
                yield replaced(goal, {atom: value - divisor * (value // divisor)})
                return
        elif direction:
            assert isinstance(divisor, int)
            end = value if direction < 0 else value - (divisor - 1)
            for multiple in (free, divisor * free):
                made = scaled(multiple, stands, end, divisor)
                if made is not None:
                    yield made
                    return
