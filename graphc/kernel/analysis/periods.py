"""Periods: loads and stores of one loop body that share the elements of a few neighbours.

    %a = load %x[2 i]               both read the 2·W elements from x[2 i] on
    %b = load %x[2 i + 1]           for W neighbouring iterations

Real and imaginary parts, channels along a last axis and every second element are such. What lies
between the first element of a period and the last one of it is read or written together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.kernel.analysis.index_range import Affine
from graphc.kernel.ir import Buffer, Kernel, Var, walk
from graphc.kernel.statements.base import Access
from graphc.kernel.statements.bodies import accesses_in

LONGEST = 4
"""The longest stride that vectors are loaded for in which other elements lie between."""


@dataclass(frozen=True, slots=True, eq=False)
class Period:
    """Accesses of one kind to one buffer in one body, within a stride of each other.

    Attributes:
        members: the accesses, in order.
        offsets: how far each lies from the first place of the period.
        indices: the loop indices that their places depend on.
    """

    members: tuple[Access, ...]
    offsets: tuple[int, ...]
    indices: tuple[Var, ...]

    @property
    def span(self) -> int:
        """The elements from the first place to the last one."""
        return max(self.offsets) + 1

    def offset(self, access: Access) -> int:
        """How far an access lies from the first place."""
        return self.offsets[self.members.index(access)]


class Periods:
    """The periods of a kernel, found when they are first asked for."""

    def __init__(self, kernel: Kernel, forms: Mapping[Var, Affine]) -> None:
        self._forms = forms
        self._found: dict[tuple[Access, int], Period] = {}
        self._alike: dict[Access, list[tuple[int, Access]]] = {}
        read = {buffer for statement in walk(kernel.body) for buffer in statement.reads}
        bodies = [kernel.body, *(statement.body for statement in walk(kernel.body))]
        for body in bodies:
            self._enter(accesses_in(body), forms, read)

    def along(self, access: Access, index: Var) -> tuple[int, Period | None]:
        """How far an access moves with each iteration of a loop, and its period if that is short;
        0 where either is not known."""
        form = self._forms.get(access.index)
        stride = 0 if form is None else form.coefficient(index)
        if not isinstance(stride, int) or not 1 < abs(stride) <= LONGEST:
            return (stride, None) if isinstance(stride, int) else (0, None)
        return stride, self.of(access, stride)

    def of(self, access: Access, stride: int) -> Period:
        """The period of a load or store whose place moves by that with each iteration."""
        stride = abs(stride)
        known = self._found.get((access, stride))
        if known is not None:
            return known
        alike = self._alike.get(access, [(0, access)])
        indices = tuple(self._forms[access.index].terms) if access in self._alike else ()
        for group in _cut(sorted(alike, key=lambda each: each[0]), stride):
            lowest = group[0][0]
            offsets = {each: offset - lowest for offset, each in group}
            members = tuple([each for _, each in alike if each in offsets])
            period = Period(members, tuple([offsets[each] for each in members]), indices)
            for each in members:
                self._found[each, stride] = period
        return self._found[access, stride]

    def _enter(
        self, accesses: Sequence[Access], forms: Mapping[Var, Affine], read: set[Buffer]
    ) -> None:
        """Notes which accesses of a body differ by a known number of elements.

        Stores to what the kernel reads stay as they are, because none of them may be put off. So do
        stores of which some lie elsewhere.
        """
        groups: list[tuple[Affine, list[tuple[int, Access]]]] = []
        for access in accesses:
            form = forms.get(access.index)
            if form is None or access.condition is not None:
                continue
            if not access.is_scalar and access.buffer in read:
                continue
            for known, group in groups:
                distance = form.base - known.base
                if isinstance(distance, int) and _is_alike(access, form, group[0][1], known):
                    if all(distance != offset for offset, _ in group):
                        group.append((distance, access))
                    break
            else:
                groups.append((form, [(0, access)]))
        written = Counter(access.buffer for access in accesses if not access.is_scalar)
        for _, group in groups:
            first = group[0][1]
            if first.is_scalar or len(group) == written[first.buffer]:
                self._alike.update((access, group) for _, access in group)


def _is_alike(access: Access, form: Affine, other: Access, known: Affine) -> bool:
    """Whether two accesses of one body lie at a known distance in every iteration."""
    return (
        other.buffer is access.buffer
        and other.is_scalar is access.is_scalar
        and known.terms == form.terms
    )


def _cut(
    alike: Sequence[tuple[int, Access]], stride: int
) -> list[list[tuple[int, Access]]]:
    """Accesses in the order of their places, cut where a stride is full."""
    groups: list[list[tuple[int, Access]]] = []
    for offset, access in alike:
        if groups and offset - groups[-1][0][0] < stride:
            groups[-1].append((offset, access))
        else:
            groups.append([(offset, access)])
    return groups


__all__ = ["LONGEST", "Period", "Periods"]
