"""Plans of discrete Fourier transforms: how a length is transformed, in what tables and scratch.

A row of ``parts * columns`` complex elements is a matrix with ``parts`` columns of ``columns``
elements each. The columns are transformed side by side, one in each lane of a vector; then come
twiddle factors, and transforms along the rows (the four-step scheme: W. M. Gentleman and G. Sande,
"Fast Fourier transforms: for fun and profit", 1966; D. H. Bailey, "FFTs in external or hierarchical
memory", 1990). A column goes by radix passes in Stockham's order. Where a length has no such
divisor, or a large prime factor, its transform is a convolution with a chirp, of a good length
(L. I. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform",
1970).

The plan, and all twiddle factors that it takes, stand in a *table*, which a routine makes:

* the head: the length, in two pieces that every dtype holds; ``parts``; of a convolution the
  length, as an odd factor and the exponent of a power of two; the radices of the columns, ended by
  0. A first radix of 1 says that a pass of its own loads the columns.
* the twiddle factors of the columns, ``columns`` pairs: roots of unity of that order;
* for each part the twiddle factors of the first ``lanes`` columns, real parts before imaginary
  ones;
* for each block of ``lanes`` columns a root for each part, by which the former are multiplied.
  The last block ends with the last column;
* of a convolution, the ``length`` pairs of the chirp, and the transform of its conjugate.

Real rows of even length are complex ones of half the length, so theirs is the table of that; before
it stand the roots of unity of the whole length, up to a quarter of the circle.

A plan does not depend on the target, so no bits do, but for fused multiply-add.

A table is an operand like any other, and may hold anything. So a routine holds its head against the
length, and what that asks for against the sizes of the table and of the scratch that it is given
(``graphc.codegen.routines.fourier.checked``). A row whose table is not of its length becomes NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import Dim, dim_min
from graphc.ir.dtypes import DType

HEAD = 40
"""Elements of a table's head."""
PIECE_BITS = 24
"""Of the length, in the first element of a head; the second one has the rest."""
PARTS_AT, ODD_AT, POWER_AT, RADICES = 2, 3, 4, 5
"""Where a head has the number of parts, the length of a convolution, and the radices."""
VECTOR_BITS = 512
"""Of the vectors that columns are in, on every target."""
STRAIGHT = (8, 4, 2, 3, 5, 7)
"""Radices that have straight-line code."""
PARTS = (16, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
"""How many columns there may be."""
LOADING = (8, 4, 2, 3, 5)
"""Radices that can be the first one and load the columns too, if these fill all lanes."""
WIDEST = 12
"""Prime radices are up to so many times the number of parts."""
ODD_PARTS = (1, 3, 5)
"""Odd factors of the lengths of convolutions; the others are powers of two of at least 16."""


def lanes_of(dtype: DType) -> int:
    """Elements of a vector."""
    return VECTOR_BITS // dtype.bits


@dataclass(frozen=True, slots=True)
class Plan:
    """How a length is transformed.

    Attributes:
        length: of the transform itself; of a convolution, that one's.
        parts: how many columns are transformed side by side.
        radices: of the passes over columns.
        odd: of a convolution, the odd factor of its length; else 0.
    """

    length: int
    parts: int
    radices: tuple[int, ...]
    odd: int = 0

    @property
    def columns(self) -> int:
        """Elements of a column."""
        return self.length // self.parts


def _direct(length: int, lanes: int) -> Plan | None:
    """The plan without a convolution, if there is one that pays."""
    parts = next(n for n in PARTS if n <= lanes and length % n == 0)
    if parts != length and 4 * parts < lanes:
        return None
    rest = length // parts
    twos = (rest & -rest).bit_length() - 1
    eights = max(0, twos - 4 if twos % 3 == 1 else twos) // 3
    fours, two = divmod(twos - 3 * eights, 2)
    radices = [8] * eights + [4] * fours + [2] * two
    rest >>= twos
    prime = 3
    while rest > 1 and prime <= WIDEST * parts:
        while rest % prime == 0:
            radices.append(prime)
            rest //= prime
        prime += 2
    if rest > 1:
        return None
    if parts != lanes or not radices or radices[0] not in LOADING:
        radices.insert(0, 1)
    return Plan(length, parts, tuple(radices))


def plan_of(length: int, dtype: DType) -> Plan:
    """How rows of that length are transformed."""
    lanes = lanes_of(dtype)
    found = _direct(length, lanes)
    if found is not None:
        return found
    least = 2 * length - 1
    odd, power = min(
        ((odd, max(4, (-(-least // odd) - 1).bit_length())) for odd in ODD_PARTS),
        key=lambda pair: pair[0] << pair[1],
    )
    found = _direct(odd << power, lanes)
    assert found is not None
    return Plan(found.length, found.parts, found.radices, odd)


# --- sizes ---------------------------------------------------------------------------------------


def inner_length(length: Dim) -> Dim:
    """Complex elements that real rows of a length are transformed as."""
    return length // 2 if isinstance(length, int) and length % 2 == 0 else length


def roots_before(length: int) -> int:
    """Elements before the table of half a row."""
    return 2 * (length // 4 + 1)


def table_bound(length: Dim) -> Dim:
    """Elements that no table for rows of that length exceeds."""
    return 9 * length + 2048


def table_size(length: Dim, dtype: DType, real: bool = False) -> Dim:
    """Elements of the table for rows of that length; a bound if it is not known."""
    if not isinstance(length, int):
        return table_bound(length)
    if real and length % 2 == 0:
        return roots_before(length) + table_size(length // 2, dtype)
    plan, lanes = plan_of(length, dtype), lanes_of(dtype)
    blocks = -(-plan.columns // lanes)
    size = HEAD + 2 * plan.columns + 2 * plan.parts * (lanes + blocks)
    return size + 2 * (length + plan.length) if plan.odd else size


def fixed_room(dtype: DType) -> int:
    """Elements of scratch that rows of any length take: what a large radix needs, and up to where a
    line of a cache begins."""
    lanes = lanes_of(dtype)
    return 2 * lanes * (WIDEST + 1) * lanes + VECTOR_BITS // 8


def room_alone(length: Dim, dtype: DType) -> Dim:
    """Elements: two copies of the columns, what a large radix and a short row need; and of
    convolutions two rows."""
    lanes, fixed = lanes_of(dtype), fixed_room(dtype)
    if not isinstance(length, int):
        # short rows go side by side, those of a convolution if they take few columns
        short = dim_min(length, ROUTINES.unknown_side_by_side)
        bound: Dim = 22 * length + max(4 * lanes - 22, 0) * short
        return bound + 4 * (ROUTINES.few_columns + 1) * lanes * lanes + fixed + 1024
    plan = plan_of(length, dtype)
    size = 4 * lanes * max(plan.columns, lanes) + fixed
    return size + 4 * plan.length if plan.odd else size


def fills_few(length: Dim, dtype: DType) -> bool:
    """Whether a row of that length is known to leave lanes empty, and short enough that as many as
    there are lanes stay in a cache."""
    if not isinstance(length, int) or length > ROUTINES.side_by_side:
        return False
    plan = plan_of(length, dtype)
    return plan.parts < lanes_of(dtype) or plan.columns < ROUTINES.few_columns


def room_size(length: Dim, dtype: DType, real: bool = False) -> Dim:
    """Elements of scratch for a row of that length; a bound if it is not known."""
    inner = inner_length(length) if real else length
    # of real rows of an odd length, that of complex ones and two rows of them
    alone = room_alone(inner, dtype) + (4 * length if real else 0)
    if not isinstance(alone, int) or not isinstance(inner, int) or not fills_few(inner, dtype):
        return alone
    return max(alone, _lanes_room(inner, dtype))


def _lanes_room(length: int, dtype: DType) -> int:
    """Elements of scratch for rows side by side, in lanes: two copies of them."""
    lanes = lanes_of(dtype)
    longest = max(plan_of(length, dtype).length, length + 1)
    return 4 * lanes * (longest + lanes) + fixed_room(dtype)


__all__ = [
    "HEAD",
    "LOADING",
    "ODD_AT",
    "ODD_PARTS",
    "PARTS",
    "PARTS_AT",
    "PIECE_BITS",
    "POWER_AT",
    "RADICES",
    "STRAIGHT",
    "WIDEST",
    "Plan",
    "fills_few",
    "fixed_room",
    "inner_length",
    "lanes_of",
    "plan_of",
    "room_alone",
    "room_size",
    "roots_before",
    "table_bound",
    "table_size",
]
