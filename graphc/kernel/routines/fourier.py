"""Discrete Fourier transforms of rows of complex numbers, which are pairs: real part, imaginary
part.

A row of ``parts · columns`` numbers is a matrix of ``parts`` columns, each as many numbers long as
there are ``columns`` of results: its columns are transformed side by side, one in each lane of a
vector, and then its rows. Where a row has no such divisor, or a large prime factor, its transform
is a convolution of a good length (L. Bluestein, "A linear filtering approach to the computation of
discrete Fourier transform", 1970). How, and all the roots of unity that it takes, stands in a
*table*, made by a routine of its own:

* the head: the length, in two pieces that every dtype holds; ``parts``; if it is a convolution, of
  what length, as an odd number and a power of two; the radices of the columns, ended by 0. A first
  one of 1 says that a pass of its own loads them.
* the roots of the columns, ``columns`` pairs;
* for each part, the roots of the first ``lanes`` columns, real parts before imaginary ones;
* for each block of ``lanes`` columns a root for each part, by which the former are multiplied.
  The last block ends with the last column;
* of a convolution, the ``length`` pairs of the chirp, and the transform of its conjugate.

Real rows of even length are complex ones of half the length, so theirs is the table of that; before
it stand the roots of the whole length up to a quarter of the circle.

What it is does not depend on the target, so no bits do, but for fused multiply-add.

A table is an operand like any other, and may hold anything. So a routine holds its head against the
length, and what that asks for against the sizes of the table and of the scratch that it is given
(``graphc.codegen.routines.fourier.checked``). A row whose table is not of its length becomes NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType, float32, float64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.kernel.routines.base import DTypes, Numbers, Routine, enter

HEAD = 40
"""Elements of a table's head."""
PIECE_BITS = 24
"""Of the length, in the first element of a head; the second one has the rest."""
PARTS_AT, ODD_AT, POWER_AT, RADICES = 2, 3, 4, 5
"""Where a head has the number of parts, the length of a convolution, and the radices."""
VECTOR_BITS = 512
"""Of the vectors that columns are in, on every target."""
STRAIGHT = (8, 4, 2, 3, 5, 7)
"""Radices that have code of their own."""
PARTS = (16, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
"""How many columns there may be."""
LOADING = (8, 4, 2, 3, 5)
"""Those of them that can be the first, if all lanes have a column."""
WIDEST = 12
"""Prime factors are up to so many times the number of parts."""
ODD_PARTS = (1, 3, 5)
"""What lengths of convolutions are, times a power of two of at least 16."""
SCALES = ("none", "length", "root")
"""What results are divided by: nothing, the length, or its square root."""


def lanes_of(dtype: DType) -> int:
    """Numbers of a vector."""
    return VECTOR_BITS // dtype.bits


@dataclass(frozen=True, slots=True)
class Way:
    """How a length is transformed.

    Attributes:
        length: of the transform itself; of a convolution, that one's.
        parts: how many columns are transformed side by side.
        radices: of the columns.
        odd: of a convolution, the odd part of its length; else 0.
    """

    length: int
    parts: int
    radices: tuple[int, ...]
    odd: int = 0

    @property
    def columns(self) -> int:
        """Numbers of a column."""
        return self.length // self.parts


def _direct(length: int, lanes: int) -> Way | None:
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
    return Way(length, parts, tuple(radices))


def way_of(length: int, dtype: DType) -> Way:
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
    return Way(found.length, found.parts, found.radices, odd)


# --- sizes ---------------------------------------------------------------------------------------


def _inner(length: Dim) -> Dim:
    """How many complex numbers real rows of a length are."""
    return length // 2 if isinstance(length, int) and length % 2 == 0 else length


def _roots_before(length: int) -> int:
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
        return _roots_before(length) + table_size(length // 2, dtype)
    way, lanes = way_of(length, dtype), lanes_of(dtype)
    blocks = -(-way.columns // lanes)
    size = HEAD + 2 * way.columns + 2 * way.parts * (lanes + blocks)
    return size + 2 * (length + way.length) if way.odd else size


def fixed_room(dtype: DType) -> int:
    """Elements of scratch that rows of any length take: what a large radix needs, and up to where a
    line of a cache begins."""
    lanes = lanes_of(dtype)
    return 2 * lanes * (WIDEST + 1) * lanes + VECTOR_BITS // 8


def _room_of(length: Dim, dtype: DType) -> Dim:
    """Elements: two copies of the columns, what a large radix and a short row need; and of
    convolutions two rows."""
    lanes, fixed = lanes_of(dtype), fixed_room(dtype)
    if not isinstance(length, int):
        bound: Dim = 22 * length + 4 * lanes * lanes + fixed + 1024
        return bound
    way = way_of(length, dtype)
    size = 4 * lanes * max(way.columns, lanes) + fixed
    return size + 4 * way.length if way.odd else size


def _work(dtypes: DTypes, numbers: Numbers) -> Dim:
    return ROUTINES.transform_row + ROUTINES.transform_number * numbers[0]


def _room(dtypes: DTypes, numbers: Numbers) -> Dim:
    return dtypes[0].bytes * numbers[2]


def _table_work(dtypes: DTypes, numbers: Numbers) -> Dim:
    return 16 * _work(dtypes, numbers)


def room_size(length: Dim, dtype: DType, real: bool = False) -> Dim:
    """Elements of scratch for a row of that length; a bound if it is not known."""
    if not real:
        return _room_of(length, dtype)
    # of an odd length, that of complex numbers and two rows of them
    return 4 * length + _room_of(_inner(length), dtype)


def _table_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    length = _inner(numbers[0]) if numbers[2] else numbers[0]
    return dtypes[-1].bytes * _room_of(length, dtypes[-1])


def _pairs_extents(numbers: Numbers) -> Sequence[Dim]:
    return 2 * numbers[0], numbers[1], 2 * numbers[0]


def _real_extents(numbers: Numbers) -> Sequence[Dim]:
    return numbers[0], numbers[1], 2 * (numbers[0] // 2 + 1)


def _back_extents(numbers: Numbers) -> Sequence[Dim]:
    rows, table, halves = _real_extents(numbers)
    return halves, table, rows


def _table_extents(numbers: Numbers) -> Sequence[Dim]:
    return 1, numbers[1]


# --- meaning -------------------------------------------------------------------------------------


def _roots(exponents: Any, circle: int) -> Any:
    """exp(-2πi · exponent / circle), from the nearest multiple of an eighth."""
    eighth, rest = np.divmod(8 * (np.asarray(exponents) % circle), circle)
    odd = eighth % 2 == 1
    angle = (np.pi / 4) * (np.where(odd, circle - rest, rest) / circle)
    cosine, sine = np.cos(angle), np.sin(angle)
    swaps = (eighth + 1) & 2 != 0
    cosine, sine = np.where(swaps, sine, cosine), np.where(swaps, cosine, sine)
    cosine = np.where((eighth + 2) & 4 != 0, -cosine, cosine)
    return cosine - 1j * np.where(eighth & 4 != 0, -sine, sine)


def _pairs(numbers: Any) -> Any:
    return np.ascontiguousarray(numbers, np.complex128).view(np.float64).reshape(-1)


def _head_of(length: int, way: Way) -> Any:
    head = np.zeros(HEAD)
    power = (way.length // way.odd).bit_length() - 1 if way.odd else 0
    pieces = length % (1 << PIECE_BITS), length >> PIECE_BITS
    head[:RADICES] = *pieces, way.parts, way.odd, power
    head[RADICES : RADICES + len(way.radices)] = way.radices
    return head


def is_table_of(table: Any, length: int, real: bool = False) -> bool:
    """Whether a vector is as large as a table for rows of that length, and begins as one."""
    dtype = float32 if table.dtype.itemsize <= 4 else float64
    if real and length % 2 == 0:
        table, length = table[_roots_before(length) :], length // 2
    if length < 1 or len(table) < table_size(length, dtype):
        return False
    return bool(np.array_equal(table[:HEAD], _head_of(length, way_of(length, dtype))))


def table_of(length: int, size: int, dtype: DType, real: bool = False) -> Any:
    """The table for rows of a length, with zeros up to the size; nothing else for no length."""
    if length < 1:
        return np.zeros(size, dtype.numpy)
    if real and length % 2 == 0:
        before = _roots_before(length)
        roots = _pairs(_roots(np.arange(before // 2), length)).astype(dtype.numpy)
        return np.concatenate([roots, table_of(length // 2, size - before, dtype)])
    way, lanes = way_of(length, dtype), lanes_of(dtype)
    columns, whole = way.columns, way.length
    head = _head_of(length, way)
    parts = np.arange(way.parts)[:, None]
    first = _roots(parts * np.arange(lanes), whole)
    starts = np.minimum(np.arange(0, columns, lanes), max(columns - lanes, 0))
    pieces = [
        head,
        _pairs(_roots(np.arange(columns), columns)),
        np.stack([first.real, first.imag], 1).reshape(-1),
        _pairs(_roots(starts[:, None] * parts[:, 0], whole)),
    ]
    if way.odd:
        places = np.arange(length)
        chirp = _roots(places * places % (2 * length), 2 * length)
        circular = np.zeros(whole, np.complex128)
        circular[:length] = chirp.conj()
        circular[whole - places[1:]] = chirp[1:].conj()
        pieces += [_pairs(chirp), _pairs(np.fft.fft(circular) / whole)]
    table = np.concatenate(pieces)
    return np.concatenate([table, np.zeros(size - len(table))]).astype(dtype.numpy)


def transformed(row: Any, inverse: bool, scale: int) -> Any:
    """The transforms of rows, whose last axes are numbers and their parts."""
    wide: Any = np.asarray(row, np.float64 if row.dtype == np.float32 else np.longdouble)
    length = row.shape[-2]
    with np.errstate(all="ignore"):
        numbers = wide[..., 0] + 1j * wide[..., 1]
        # the inverse without a division by the length
        result = np.fft.fft(numbers.conj()).conj() if inverse else np.fft.fft(numbers)
        result = result / (1, length, math.sqrt(length))[scale]
    return np.stack([result.real, result.imag], -1).astype(row.dtype)


def by_table(result: Any, table: Any, length: int, real: bool = False) -> Any:
    """What rows of a length become by a table: NaN, if it is none for them."""
    # kernels may read a vector beside an axis for each loop; it is the same in all
    vector = table[(0,) * (table.ndim - 1)]
    return result if is_table_of(vector, length, real) else np.full_like(result, np.nan)


def _fft(
    row: Any, table: Any, length: int, size: int, room: int, inverse: int, scale: int
) -> tuple[Any]:
    pairs = row.reshape(*row.shape[:-1], length, 2)
    result = transformed(pairs, bool(inverse), scale).reshape(row.shape)
    return (by_table(result, table, length),)


def _fft_error(
    row: Any, table: Any, length: int, size: int, room: int, inverse: int, scale: int
) -> tuple[Any]:
    norm = np.sqrt(np.square(row, dtype=np.float64).sum(-1, keepdims=True))
    units = ERROR * (1 + math.log2(length)) / (1, length, math.sqrt(length))[scale]
    return (float(np.finfo(row.dtype).eps) * units * norm,)


ERROR = 2.0
"""Errors are within so many units of the norm of a row, times one and the logarithm of its length
to base 2."""


def half_transformed(row: Any, scale: int) -> Any:
    """The first half of the transforms of real rows, and the number in the middle, as pairs."""
    pairs = np.stack([row, np.zeros_like(row)], -1)
    result = transformed(pairs, False, scale)[..., : row.shape[-1] // 2 + 1, :]
    result[..., 0, 1] = 0.0
    if row.shape[-1] % 2 == 0:
        result[..., -1, 1] = 0.0
    return result


def real_transformed(half: Any, length: int, scale: int) -> Any:
    """The real rows of a length whose transforms have this first half, as pairs; inverse."""
    pairs = half.copy()
    pairs[..., 0, 1] = 0.0
    if length % 2 == 0:
        pairs[..., -1, 1] = 0.0
    other = pairs[..., 1 : (length + 1) // 2, :][..., ::-1, :] * np.array([1, -1], half.dtype)
    return transformed(np.concatenate([pairs, other], -2), True, scale)[..., 0]


def _rfft(row: Any, table: Any, length: int, size: int, room: int, scale: int) -> tuple[Any]:
    half = half_transformed(row, scale)
    half = half.reshape(*row.shape[:-1], 2 * half.shape[-2])
    return (by_table(half, table, length, True),)


def _irfft(row: Any, table: Any, length: int, size: int, room: int, scale: int) -> tuple[Any]:
    pairs = row.reshape(*row.shape[:-1], length // 2 + 1, 2)
    return (by_table(real_transformed(pairs, length, scale), table, length, True),)


def _real_error(row: Any, table: Any, length: int, size: int, room: int, scale: int) -> tuple[Any]:
    (error,) = _fft_error(row, table, length, size, room, 0, scale)
    return (2 * error,)


def _table(like: Any, length: int, size: int, real: int) -> tuple[Any]:
    table = table_of(length, size, as_dtype(like.dtype), bool(real))
    return (np.broadcast_to(table, (*like.shape[:-1], size)),)


def _table_error(like: Any, length: int, size: int, real: int) -> tuple[Any]:
    dtype, units = as_dtype(like.dtype), np.full(size, 2.0)
    end = table_size(length, dtype, bool(real))
    if real and length % 2 == 0:
        length //= 2
    way = way_of(length, dtype)
    if way.odd:
        norm = math.sqrt(2 * length) / way.length
        units[end - 2 * way.length :] = ERROR * (1 + math.log2(way.length)) * norm
    return (float(np.finfo(like.dtype).eps) * units,)


FFT = enter(
    Routine(
        "fft", 2, 1, ("length", "size", "room", "inverse", "scale"), _pairs_extents,
        _fft, _room, _work, error=_fft_error,
    )
)  # fmt: skip
RFFT = enter(
    Routine(
        "rfft", 2, 1, ("length", "size", "room", "scale"), _real_extents,
        _rfft, _room, _work, error=_real_error,
    )
)  # fmt: skip
IRFFT = enter(
    Routine(
        "irfft", 2, 1, ("length", "size", "room", "scale"), _back_extents,
        _irfft, _room, _work, error=_real_error,
    )
)  # fmt: skip
FFT_TABLE = enter(
    Routine(
        "fft_table", 1, 1, ("length", "size", "real"), _table_extents,
        _table, _table_room, _table_work, error=_table_error,
    )
)  # fmt: skip

__all__ = [
    "FFT",
    "FFT_TABLE",
    "HEAD",
    "IRFFT",
    "LOADING",
    "ODD_AT",
    "ODD_PARTS",
    "PARTS",
    "PARTS_AT",
    "PIECE_BITS",
    "POWER_AT",
    "RADICES",
    "RFFT",
    "SCALES",
    "STRAIGHT",
    "WIDEST",
    "by_table",
    "fixed_room",
    "half_transformed",
    "lanes_of",
    "real_transformed",
    "room_size",
    "table_bound",
    "table_of",
    "table_size",
    "transformed",
    "way_of",
]
