"""What a proof may build on: guards, looked up by size, and contradictions among inequalities."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import TypeAlias

from graphc.ir.dims.algebra import Atom, Monomial, Table, build, expression, terms_of
from graphc.ir.dims.bounds import interval_of
from graphc.ir.dims.expressions import Dim
from graphc.ir.guard import Guard
from graphc.ir.proof.parts import parts_in

MOST_PAIRS = 12
"""Pairs of equal dims that a proof looks at."""

ROWS = 200
"""Inequalities that may be there at once where they are combined."""

Row: TypeAlias = "tuple[tuple[Monomial, int], ...]"
"""A polynomial that is at least 0, as its terms in order."""


class Assumed:
    """What guards say, looked up by what it is about."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self._equal: dict[Atom, list[tuple[Dim, Dim]]] = {}
        self._stretched: dict[Dim, list[Dim]] = {}
        self._wholes: dict[Dim, set[Dim]] = {}
        for guard in guards:
            pair = guard.left, guard.right
            if guard.broadcasts:
                self._stretched.setdefault(guard.right, []).append(guard.left)
                continue
            for atom in parts_in(*pair):
                if atom.kind == "symbol":
                    self._equal.setdefault(atom, []).append(pair)

    def equal(self, atoms: Iterable[Atom]) -> list[tuple[Dim, Dim]]:
        """Pairs that are equal and speak of these sizes, or of others that such pairs do."""
        found: dict[tuple[Dim, Dim], None] = {}
        pending, seen = [*atoms], set[Atom]()
        while pending and len(found) < MOST_PAIRS:
            atom = pending.pop()
            if atom in seen:
                continue
            seen.add(atom)
            for pair in self._equal.get(atom, ()):
                if pair not in found:
                    found[pair] = None
                    pending += parts_in(*pair)
        return list(found)

    def either(self, atoms: Iterable[Atom]) -> list[tuple[Dim, Dim]]:
        """Pairs among these atoms that are equal, unless the left one is 1.

        Where a is 1 or b, and b is 1 or c, a is 1 or c.
        """
        if not self._stretched:
            return []
        known = [expression(atom) for atom in atoms]
        return [
            (left, right)
            for right in known
            for left in known
            if left is not right and left in self._into(right)
        ]

    def _into(self, whole: Dim) -> set[Dim]:
        """The sizes that are 1 or this one; found once for each."""
        found = self._wholes.get(whole)
        if found is None:
            found = self._wholes[whole] = set()
            pending = [whole]
            while pending:
                for left in self._stretched.get(pending.pop(), ()):
                    if left not in found:
                        found.add(left)
                        pending.append(left)
        return found


def contradict(facts: Iterable[Dim]) -> bool:
    """Whether not all of these can be at least 0, found by eliminating one monomial at a time."""
    rows = {row for fact in facts if (row := _row(dict(terms_of(fact)))) is not None}
    for monomial in {m for row in rows for m, _ in row if m}:
        low, high = interval_of(build({monomial: 1}))
        if isinstance(low, int):
            rows.add(tuple({monomial: 1, (): -low}.items()))
        if isinstance(high, int):
            rows.add(tuple({monomial: -1, (): high}.items()))
    while True:
        tables = [dict(row) for row in rows]
        if any(set(table) <= {()} and table.get((), 0) < 0 for table in tables):
            return True
        counts: dict[Monomial, list[int]] = {}
        for table in tables:
            for monomial, value in table.items():
                if monomial:
                    counts.setdefault(monomial, [0, 0])[value > 0] += 1
        if not counts:
            return False
        chosen = min(counts, key=lambda m: (counts[m][0] * counts[m][1], [a.key for a, _ in m]))
        above = [table for table in tables if table.get(chosen, 0) > 0]
        below = [table for table in tables if table.get(chosen, 0) < 0]
        if len(tables) + len(above) * len(below) > ROWS:
            return False
        rows = {_frozen(table) for table in tables if chosen not in table}
        for one in above:
            for other in below:
                made = _row(_eliminated(one, other, chosen))
                if made is not None:
                    rows.add(made)


def _eliminated(one: Table, other: Table, monomial: Monomial) -> Table:
    """The sum of two rows, with factors that leave nothing of the monomial."""
    a, b = one[monomial], -other[monomial]
    common = gcd(a, b)
    total = {m: value * (b // common) for m, value in one.items()}
    for m, value in other.items():
        total[m] = total.get(m, 0) + value * (a // common)
    return total


def _row(table: Table) -> Row | None:
    """A row without its greatest common divisor, the constant rounded down; None if plain."""
    kept = {monomial: value for monomial, value in table.items() if value or not monomial}
    divisor = gcd(*(value for monomial, value in kept.items() if monomial))
    if divisor:
        kept = {monomial: value // divisor for monomial, value in kept.items()}
    elif kept.get((), 0) >= 0:
        return None
    return _frozen(kept)


def _frozen(table: Table) -> Row:
    return tuple(sorted(table.items(), key=lambda term: [(a.key, p) for a, p in term[0]]))


