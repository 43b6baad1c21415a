"""What a native routine is, and the table that holds them all.

Invariant: a routine reads its sources and writes all of its targets, which lie packed in memory and
do not overlap; it touches nothing else but its room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphc.base.errors import UnsupportedError
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType

DTypes: TypeAlias = Sequence[DType]
Numbers: TypeAlias = Sequence[Dim]


@dataclass(frozen=True, slots=True)
class Routine:
    """One routine.

    Attributes:
        name: by which kernels call it.
        sources: how many arrays it reads.
        targets: how many it writes.
        numbers: what each of its numbers is, sizes first.
        extents: from the numbers how many elements of each source and target a row has, as the
            routine takes them; kernels hand over so many, so that whether they are within the
            arrays is decided there. Of one that takes several rows at a time: those of one row.
        reference: ``reference(*sources, *numbers)`` in NumPy, where sources have any axes before
            the last one; gives the targets.
        room: bytes of scratch, from the dtypes of sources and targets and from the numbers.
        work: an estimate of the time, in picoseconds of one core, from the same.
        fault: of one that may fail: from the same as ``reference`` for each row the index that is
            out of range, 0 for none. So 0 must be an index that never is. The last of the numbers
            is what indices must be below. With a ``problem`` it is 1 more than the number of the
            first matrix that has it.
        error: of one whose bits are open (class R): from the same as ``reference`` for each target
            how far its elements may be from those of the reference.
        problem: what is wrong with a matrix for which the routine fails; empty where it is an
            index that is out of range.
        together: of one that takes several rows at a time, how many at most, by the dtypes of
            sources and targets and by the other numbers. The last of its numbers are then the
            number of the first of them, how many they are, and how many there are in all.
    """

    name: str
    sources: int
    targets: int
    numbers: tuple[str, ...]
    extents: Callable[[Numbers], Sequence[Dim]]
    reference: Callable[..., Sequence[Any]]
    room: Callable[[DTypes, Numbers], Dim]
    work: Callable[[DTypes, Numbers], Dim]
    fault: Callable[..., Any] | None = None
    error: Callable[..., Sequence[Any]] | None = None
    problem: str = ""
    together: Callable[[DTypes, Numbers], Dim] | None = None

    def reported(self, found: Any) -> Any:
        """The index, or the number of the matrix, of what ``fault`` or the code found."""
        return found - 1 if self.problem else found


REGISTRY: dict[str, Routine] = {}
"""All routines, by name."""


def enter(made: Routine) -> Routine:
    """Enters a routine; a second one of the same name is a bug."""
    if made.name in REGISTRY:
        raise ValueError(f"routine {made.name!r} is declared twice")
    REGISTRY[made.name] = made
    return made


def routine(name: str) -> Routine:
    """The routine of that name.

    Raises:
        UnsupportedError: naming it, if there is none.
    """
    found = REGISTRY.get(name)
    if found is None:
        raise UnsupportedError(f"there is no routine called {name!r}")
    return found


__all__ = ["REGISTRY", "DTypes", "Numbers", "Routine", "enter", "routine"]
