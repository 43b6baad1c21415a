"""Discrete Fourier transforms of rows: their meaning, and the routines.

Complex elements are pairs: real part, imaginary part. ``fourier_plan`` says how rows of a length
are transformed, and what is in the table that each of them takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.tuning.routines import ROUTINES
from graphc.ir.dims.expressions import Dim, select
from graphc.ir.dtypes import DType, float32, float64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.kernel.routines.base import DTypes, Numbers, Routine, enter
from graphc.kernel.routines.fourier_plan import (
    HEAD,
    PIECE_BITS,
    RADICES,
    Plan,
    fills_few,
    inner_length,
    lanes_of,
    plan_of,
    room_alone,
    roots_before,
    table_size,
)
from graphc.kernel.routines.matrices import STACK

SCALES = ("none", "length", "root")
"""What results are divided by: nothing, the length, or its square root."""

# --- what they need and take ---------------------------------------------------------------------


def _work(dtypes: DTypes, numbers: Numbers) -> Dim:
    return ROUTINES.transform_call + ROUTINES.transform_element * numbers[0] * numbers[-2]


def _together(dtypes: DTypes, numbers: Numbers) -> Dim:
    """As many rows as there are lanes, if one by itself may fill few of them."""
    length, lanes = numbers[0], lanes_of(dtypes[0])
    if isinstance(length, int):
        return lanes if fills_few(length, dtypes[0]) else 1
    return select("le", length, ROUTINES.unknown_side_by_side, lanes, 1)


def _real_together(dtypes: DTypes, numbers: Numbers) -> Dim:
    return _together(dtypes, [inner_length(numbers[0])])


def _room(dtypes: DTypes, numbers: Numbers) -> Dim:
    return dtypes[0].bytes * numbers[2]


def _table_work(dtypes: DTypes, numbers: Numbers) -> Dim:
    return 16 * (ROUTINES.transform_call + ROUTINES.transform_element * numbers[0])


def _table_room(dtypes: DTypes, numbers: Numbers) -> Dim:
    length = inner_length(numbers[0]) if numbers[2] else numbers[0]
    return dtypes[-1].bytes * room_alone(length, dtypes[-1])


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


def _head_of(length: int, plan: Plan) -> Any:
    head = np.zeros(HEAD)
    power = (plan.length // plan.odd).bit_length() - 1 if plan.odd else 0
    pieces = length % (1 << PIECE_BITS), length >> PIECE_BITS
    head[:RADICES] = *pieces, plan.parts, plan.odd, power
    head[RADICES : RADICES + len(plan.radices)] = plan.radices
    return head


def is_table_of(table: Any, length: int, real: bool = False) -> bool:
    """Whether a vector is as large as a table for rows of that length, and begins as one."""
    dtype = float32 if table.dtype.itemsize <= 4 else float64
    if real and length % 2 == 0:
        table, length = table[roots_before(length) :], length // 2
    if length < 1 or len(table) < table_size(length, dtype):
        return False
    return bool(np.array_equal(table[:HEAD], _head_of(length, plan_of(length, dtype))))


def table_of(length: int, size: int, dtype: DType, real: bool = False) -> Any:
    """The table for rows of a length, with zeros up to the size; nothing else for no length."""
    if length < 1:
        return np.zeros(size, dtype.numpy)
    if real and length % 2 == 0:
        before = roots_before(length)
        roots = _pairs(_roots(np.arange(before // 2), length)).astype(dtype.numpy)
        return np.concatenate([roots, table_of(length // 2, size - before, dtype)])
    plan, lanes = plan_of(length, dtype), lanes_of(dtype)
    columns, whole = plan.columns, plan.length
    head = _head_of(length, plan)
    parts = np.arange(plan.parts)[:, None]
    first = _roots(parts * np.arange(lanes), whole)
    starts = np.minimum(np.arange(0, columns, lanes), max(columns - lanes, 0))
    pieces = [
        head,
        _pairs(_roots(np.arange(columns), columns)),
        np.stack([first.real, first.imag], 1).reshape(-1),
        _pairs(_roots(starts[:, None] * parts[:, 0], whole)),
    ]
    if plan.odd:
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


def _rows(array: Any, *shape: int) -> Any:
    """Rows of a shape that lie one behind the other, along an axis of their own."""
    return array.reshape(*array.shape[:-1], -1, *shape)


def _packed(rows: Any, axes: int) -> Any:
    """The opposite of that, of rows with so many axes."""
    return rows.reshape(*rows.shape[: rows.ndim - axes - 1], -1)


def _fft(
    row: Any, table: Any, length: int, size: int, room: int, inverse: int, scale: int, *rows: int
) -> tuple[Any]:
    result = transformed(_rows(row, length, 2), bool(inverse), scale)
    return (by_table(_packed(result, 2), table, length),)


def _errors(array: Any, length: int, scale: int, of_row: int, of_result: int) -> Any:
    """How far elements of results may be from those of the reference, by the norm of their row."""
    norm = np.sqrt(np.square(_rows(array, of_row), dtype=np.float64).sum(-1))
    units = ERROR * (1 + math.log2(length)) / (1, length, math.sqrt(length))[scale]
    return np.repeat(float(np.finfo(array.dtype).eps) * units * norm, of_result, -1)


def _fft_error(
    row: Any, table: Any, length: int, size: int, room: int, inverse: int, scale: int, *rows: int
) -> tuple[Any]:
    return (_errors(row, length, scale, 2 * length, 2 * length),)


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


def _rfft(
    row: Any, table: Any, length: int, size: int, room: int, scale: int, *rows: int
) -> tuple[Any]:
    result = half_transformed(_rows(row, length), scale)
    return (by_table(_packed(result, 2), table, length, True),)


def _irfft(
    row: Any, table: Any, length: int, size: int, room: int, scale: int, *rows: int
) -> tuple[Any]:
    result = real_transformed(_rows(row, length // 2 + 1, 2), length, scale)
    return (by_table(_packed(result, 1), table, length, True),)


def _rfft_error(
    row: Any, table: Any, length: int, size: int, room: int, scale: int, *rows: int
) -> tuple[Any]:
    return (2 * _errors(row, length, scale, length, 2 * (length // 2 + 1)),)


def _irfft_error(
    row: Any, table: Any, length: int, size: int, room: int, scale: int, *rows: int
) -> tuple[Any]:
    return (2 * _errors(row, length, scale, 2 * (length // 2 + 1), length),)


def _table(like: Any, length: int, size: int, real: int) -> tuple[Any]:
    table = table_of(length, size, as_dtype(like.dtype), bool(real))
    return (np.broadcast_to(table, (*like.shape[:-1], size)),)


def _table_error(like: Any, length: int, size: int, real: int) -> tuple[Any]:
    dtype, units = as_dtype(like.dtype), np.full(size, 2.0)
    end = table_size(length, dtype, bool(real))
    if real and length % 2 == 0:
        length //= 2
    plan = plan_of(length, dtype)
    if plan.odd:
        norm = math.sqrt(2 * length) / plan.length
        units[end - 2 * plan.length :] = ERROR * (1 + math.log2(plan.length)) * norm
    return (float(np.finfo(like.dtype).eps) * units,)


_SIZES = ("length", "size", "room")

FFT = enter(
    Routine(
        "fft", 2, 1, (*_SIZES, "inverse", "scale", *STACK), _pairs_extents,
        _fft, _room, _work, error=_fft_error, together=_together,
    )
)  # fmt: skip
RFFT = enter(
    Routine(
        "rfft", 2, 1, (*_SIZES, "scale", *STACK), _real_extents,
        _rfft, _room, _work, error=_rfft_error, together=_real_together,
    )
)  # fmt: skip
IRFFT = enter(
    Routine(
        "irfft", 2, 1, (*_SIZES, "scale", *STACK), _back_extents,
        _irfft, _room, _work, error=_irfft_error, together=_real_together,
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
    "IRFFT",
    "RFFT",
    "SCALES",
    "by_table",
    "half_transformed",
    "is_table_of",
    "real_transformed",
    "table_of",
    "transformed",
]
