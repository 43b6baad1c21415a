"""Which dims might not fit in an int64, although the arrays of a run do.

What a kernel computes of sizes wraps. The places within its arrays fit; but a program may write
``x[: n * 2**62]``, and products of sizes that no array has. Who binds sizes reckons these with
numbers of any length, and refuses what is too large.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphc.ir.dims.algebra import DIVIDING, Atom, Monomial, terms_of
from graphc.ir.dims.expressions import Dim
from graphc.ir.dims.walks import atoms_in_order

_AXIS, _ARRAY, _NUMBER = 40, 48, 63
"""Bits of the length of an axis, of the size of an array, and of an int64 without its sign."""


def may_exceed(dims: Iterable[Dim], sizes: Iterable[Dim]) -> tuple[Dim, ...]:
    """Those of these dims that might have more digits than an int64, and of what is in them.

    Dims that divide by what is no number are left out: they have no value for some sizes.

    Args:
        sizes: the numbers of elements of arrays.
    """
    measure = _Measure(sizes)
    found: dict[Dim, None] = {}
    for dim in dims:
        parts: list[Dim] = []
        # atoms stand behind those of their arguments
        for atom in atoms_in_order(dim, measure.bits):
            measure.note(atom)
            parts += atom.arguments
        for part in (*parts, dim):
            if measure.of(part) > _NUMBER and not measure.divides(part):
                found[part] = None
    return tuple([dim for dim in found if not isinstance(dim, int)])


class _Measure:
    """How many digits dims have at most.

    Attributes:
        bits: those of the atoms that have been noted.
    """

    def __init__(self, sizes: Iterable[Dim]) -> None:
        self._arrays = [dict(monomial) for size in sizes for monomial, _ in terms_of(size)]
        self.bits: dict[Atom, int] = {}
        self._dividing: set[Atom] = set()

    def note(self, atom: Atom) -> None:
        """Measures an atom, those of its arguments being noted."""
        arguments = atom.arguments
        self.bits[atom] = max(map(self.of, arguments), default=_AXIS)
        divides = atom.kind in DIVIDING and not isinstance(arguments[1], int)
        if divides or any(map(self.divides, arguments)):
            self._dividing.add(atom)

    def of(self, dim: Dim) -> int:
        """The digits of a dim."""
        terms = terms_of(dim)
        most = [abs(factor).bit_length() + self._made(atoms) for atoms, factor in terms]
        return max(most, default=0) + len(most).bit_length() - 1

    def divides(self, dim: Dim) -> bool:
        """Whether a dim has no value for some sizes."""
        return any(atom in self._dividing for monomial, _ in terms_of(dim) for atom, _ in monomial)

    def _made(self, monomial: Monomial) -> int:
        """Those of a product of atoms; of a part of an array's size those of that."""
        for powers in self._arrays if monomial else ():
            if all(power <= powers.get(atom, 0) for atom, power in monomial):
                return _ARRAY
        return sum(power * self.bits[atom] for atom, power in monomial)


__all__ = ["may_exceed"]
