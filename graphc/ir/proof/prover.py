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

from collections.abc import Iterable
from dataclasses import replace

from graphc.ir import dims
from graphc.ir.dim_algebra import lone_atom
from graphc.ir.dim_atoms import Atom, terms_of
from graphc.ir.dims import Dim, DimExpr
from graphc.ir.proof.cases import CHOICES, Case, either, follows, replacing, simplified, told_apart
from graphc.ir.proof.facts import Assumed
from graphc.ir.proof.parts import at_least, direction_of, mentions, parts_in, replaced, scaled

CASES = 100
"""Cases that one proof may look at."""

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
        if self._by_ends(goal):
            return True
        given = replace(self._given, goal=goal)
        atoms = parts_in(*given.dims)
        self._left = CASES
        return self._proved(
            replace(
                given,
                equal=(*given.equal, *self._assumed.equal(atoms)),
                either=tuple(self._assumed.either(atoms)),
            )
        )

    def _by_ends(self, goal: Dim) -> bool:
        """Whether bounds prove the goal with the ends of indices in their places, the inner first.

        That settles most of what is asked for, at a small part of what telling cases apart takes.
        """
        for index, extent in reversed(self._given.indices):
            if mentions(goal, index):
                direction = direction_of(goal, index)
                if direction is None:
                    return False
                goal = replaced(goal, {_atom(index): extent - 1 if direction < 0 else 0})
        while not at_least(goal, 0):
            bounded = _without_division(goal)
            if bounded is None:
                return False
            goal = bounded
        return True

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
                    goal = dims.dim_max(goal, other.goal)
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
        return dims.symbol(f"unknown {self._fresh}", low)

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
            bounded = _without_division(simple.goal)
            if bounded is not None and self._proved(replace(simple, goal=bounded)):
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
            continue
        atom = _atom(index)
        goals: list[Dim] = [replaced(case.goal, {atom: extent - 1 if direction < 0 else 0})]
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


def _without_division(goal: Dim) -> Dim | None:
    """The goal without a remainder by a number, or, it or a multiple of it, with a bound in the
    place of a quotient by a number, where it falls, or grows, with that."""
    for atom in parts_in(goal):
        if atom.kind not in ("floordiv", "mod") or not isinstance(atom.arguments[1], int):
            continue
        value, divisor = atom.arguments
        assert isinstance(divisor, int)
        if divisor < 1:
            continue
        if atom.kind == "mod":
            return replaced(goal, {atom: value - divisor * (value // divisor)})
        stands = dims.symbol("quotient", _LEAST)
        free = replaced(goal, {atom: stands})
        direction = direction_of(free, stands)
        if not direction:
            continue
        end = value if direction < 0 else value - (divisor - 1)
        for multiple in (free, divisor * free):
            made = scaled(multiple, stands, end, divisor)
            if made is not None:
                return made
    return None


