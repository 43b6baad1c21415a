"""Indices as affine forms of loop indices, to prove that one leaves its buffer.

Only proofs count: every corner of a form is reached by some iteration, because the loops of a nest
run over all combinations of their indices. What is not affine has no form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.ir.dims.expressions import Dim, compare
from graphc.ir.dtypes import int64
from graphc.kernel.ir import Kernel, Statement, Var, walk
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import loads_in


@dataclass(frozen=True, slots=True)
class Affine:
    """``base`` plus coefficient times index, by index variable with its loop's extent."""

    base: Dim
    terms: Mapping[Var, tuple[Dim, Dim]]

    @staticmethod
    def constant(value: Dim) -> Affine:
        """A form without indices."""
        return Affine(value, {})

    @staticmethod
    def of_index(index: Var, extent: Dim) -> Affine:
        """A loop's own index."""
        return Affine(0, {index: (1, extent)})

    @staticmethod
    def apply(primitive: str, operands: Sequence[Affine | None]) -> Affine | None:
        """The form of a primitive's result, if it is affine."""
        known = [operand for operand in operands if operand is not None]
        if len(known) != len(operands):
            return None
        if primitive == "negative":
            return known[0]._scaled(-1)
        if primitive == "add":
            return known[0]._plus(known[1])
        if primitive == "subtract":
            return known[0]._plus(known[1]._scaled(-1))
        if primitive == "multiply":
            for one, other in (known, known[::-1]):
                if not other.terms:
                    return one._scaled(other.base)
        return None

    def coefficient(self, index: Var) -> Dim:
        """By how much the form grows with that index."""
        found = self.terms.get(index)
        return 0 if found is None else found[0]

    def _scaled(self, factor: Dim) -> Affine:
        return Affine(
            self.base * factor, {v: (c * factor, extent) for v, (c, extent) in self.terms.items()}
        )

    def _plus(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for var, (coefficient, extent) in other.terms.items():
            if var in terms:
                coefficient = terms[var][0] + coefficient
            terms[var] = (coefficient, extent)
        return Affine(self.base + other.base, terms)


def note_form(forms: dict[Var, Affine], statement: Statement) -> None:
    """Records the form of the int64 that a statement defines, or of a loop's index, if it has one.

    Statements must come in order.
    """
    block, primitive = statement.block, statement.primitive
    if block is not None:
        # a loop that may end before does not reach all corners
        if not isinstance(block.extent, Var) and block.lasts is None:
            forms[block.index] = Affine.of_index(block.index, block.extent)
    elif primitive is not None:
        (result,) = statement.results
        if result.dtype is int64:
            form = Affine.apply(primitive, [forms.get(var) for var in statement.operands])
            if form is not None:
                forms[result] = form
    else:
        known = statement.known
        if known is not None:
            forms[statement.results[0]] = Affine.constant(known)


def index_forms(kernel: Kernel) -> dict[Var, Affine]:
    """The forms of all scalars of a kernel that have one."""
    forms: dict[Var, Affine] = {}
    for statement in walk(kernel.body):
        note_form(forms, statement)
    return forms


def loads_across(
    forms: Mapping[Var, Affine], body: Sequence[Statement], outer: Var, inner: Var
) -> list[Access]:
    """The loads of a body that are neighbours along an outer loop, but not along the inner one."""
    result: list[Access] = []
    for load in loads_in(body):
        if load.condition is None:
            form = forms.get(load.index)
            if form is None or form.coefficient(outer) != 1:
                continue
            if form.coefficient(inner) not in (0, 1, -1):
                result.append(load)
    return result


def places_used(statements: Iterable[Statement], forms: Mapping[Var, Affine]) -> list[Affine]:
    """The forms that statements read which have none themselves: places of loads and stores, and
    operands of what is computed of indices otherwise."""
    result: list[Affine] = []
    for statement in statements:
        is_form = statement.primitive is not None and statement.results[0] in forms
        if not is_form:
            result += [forms[var] for var in statement.operands if var in forms]
    return result


def used_otherwise(statements: Iterable[Statement], forms: Mapping[Var, Affine]) -> set[Var]:
    """Indices that more depends on than the places of loads and stores, as affine forms."""
    result: set[Var] = set()
    for statement in statements:
        access = statement.access
        for operand in statement.operands:
            form = forms.get(operand)
            if form is None:
                continue
            if statement.primitive is not None and statement.results[0] in forms:
                continue
            if access is not None and operand is access.index:
                continue
            result.update(form.terms)
    return result


def runs_as_one(places: Iterable[Affine], outer: Var, inner: Var, extent: Dim) -> bool:
    """Whether all places move along two loops, the inner one of that extent, as along one."""
    return all(
        form.coefficient(outer) == form.coefficient(inner) * extent for form in places
    )


def corners(form: Affine) -> tuple[Dim, Dim] | None:
    """The least and the greatest index of a form; None where signs are not known."""
    low = high = form.base
    for coefficient, extent in form.terms.values():
        corner = coefficient * (extent - 1)
        if compare("le", 0, coefficient):
            high = high + corner
        elif compare("le", coefficient, 0):
            low = low + corner
        else:
            return None
    return low, high


def outside(form: Affine, size: Dim) -> Dim | None:
    """An index that the form reaches and a buffer of that size lacks, if there provably is one."""
    ends = corners(form)
    if ends is None:
        return None
    low, high = ends
    if compare("lt", low, 0):
        return low
    return high if compare("le", size, high) else None


__all__ = [
    "Affine",
    "corners",
    "index_forms",
    "loads_across",
    "note_form",
    "outside",
    "places_used",
    "runs_as_one",
    "used_otherwise",
]
