"""Walks over the atoms of symbolic dimensions: their order, and a flat form.

Invariant: every order is the same in every process, and no walk recurses over nested atoms.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from graphc.ir.dims.algebra import (
    Atom,
    Dim,
    build,
    intern_atom,
    terms_of,
)


def atoms_in_order(value: Dim, known: Container[Atom] = ()) -> list[Atom]:
    """All atoms of the dim but those known, each after the atoms of its arguments."""
    done: dict[Atom, None] = {}
    stack = [atom for atom in _atoms(value) if atom not in known]
    while stack:
        atom = stack[-1]
        missing = (
            []
            if atom in done
            else [
                need
                for argument in atom.arguments
                for need in _atoms(argument)
                if need not in done and need not in known
            ]
        )
        if missing:
            stack.extend(missing)
        else:
            done[stack.pop()] = None
    return list(done)


def _atoms(value: Dim) -> list[Atom]:
    return [atom for monomial, _ in terms_of(value) for atom, _ in monomial]


def flatten(*values: Dim) -> tuple[Any, ...]:
    """The dims as a flat table of atoms and a list of sums, for ``restored``."""
    places: dict[Atom, int] = {}
    for value in values:
        for atom in atoms_in_order(value, known=places):
            places[atom] = len(places)

    def flat(part: Dim) -> tuple[Any, ...]:
        return tuple(
            (tuple((places[atom], power) for atom, power in monomial), coefficient)
            for monomial, coefficient in terms_of(part)
        )

    table = tuple(
        (
            atom.kind,
            atom.name,
            tuple(flat(argument) for argument in atom.arguments),
            atom.interval if atom.kind == "symbol" else None,
        )
        for atom in places
    )
    return table, tuple(map(flat, values))


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
