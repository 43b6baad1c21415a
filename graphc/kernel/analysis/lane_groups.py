"""Which neighbouring iterations of a vector loop share what a shifted index gives.

``i >> 2`` is one value for four iterations, if the first of them is a multiple of four. Code
generation computes such values once for each group, where it can prove that; here is what of the
proof does not depend on where a loop starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphc.ir.dims.expressions import Dim
from graphc.kernel.analysis.index_range import Affine
from graphc.kernel.ir import Statement, Var

MOST = 64
"""The largest group: loops that are cut for threads begin with a multiple of it."""


def grain(forms: Mapping[Var, Affine], body: Iterable[Statement], index: Var) -> int:
    """The iterations of the largest group of a vector loop, a power of two; 1 if there is none."""
    result = 1
    for statement in body:
        if statement.primitive == "right_shift":
            place, number = (forms.get(var) for var in statement.operands)
            if place is None or number is None or number.terms:
                continue
            shift = number.base
            if not isinstance(shift, int) or not 0 < shift < MOST.bit_length():
                continue
            times = 1 << shift
            if place.coefficient(index) == 1 and _is_multiple(place, index, times):
                result = max(result, times)
    return result


def _is_multiple(form: Affine, index: Var, times: int) -> bool:
    """Whether a form is a multiple of that wherever the index is one."""
    others = [coefficient for var, (coefficient, _) in form.terms.items() if var is not index]
    return all(power_in(part) % times == 0 for part in (form.base, *others))


def power_in(number: Dim) -> int:
    """The largest power of two, up to the largest group, that divides a number; 1 if unknown."""
    if not isinstance(number, int):
        return 1
    return MOST if number == 0 else min(number & -number, MOST)


__all__ = ["MOST", "grain", "power_in"]
