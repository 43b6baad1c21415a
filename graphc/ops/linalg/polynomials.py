"""Polynomials and sequences: values, sums, products; convolutions and correlations of vectors."""

from __future__ import annotations

from typing import Any

from graphc.base.errors import ConcreteValueError, ShapeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, dim_max, dim_min, less_equal, select
from graphc.ir.dtypes import bool_, int64
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.kernel.ir import CHUNK
from graphc.ops.arguments import repetitions
from graphc.ops.convert import as_float, as_value, converted, promoted, size_beside
from graphc.ops.creation import iota_beside
from graphc.ops.declare import like
from graphc.ops.guards import nonempty_pair, show, unproved
from graphc.ops.indexing.picking import take
from graphc.ops.move.joining import concatenate
from graphc.ops.move.parts import flip
from graphc.ops.move.shape import ravel, with_shape
from graphc.ops.move.slicing import padded, part
from graphc.ops.pointwise.logic import less, where
from graphc.ops.reduce.axes import any_, sum_

MOST_UNROLLED = 64
"""Up to so many elements of the shorter vector are slices of the longer one added up."""

# --- sequences -----------------------------------------------------------------------------------


def _windows(long: Value, short: Value, mode: str, name: str, swapped: Dim) -> Value:
    """The products of a vector with the parts of a longer one, each summed.

    ``mode`` says how far parts reach beyond the longer one, where there are zeros. Which one is
    longer only a run may tell: where it is the second, mode "same" begins ``swapped`` places
    before the first.
    """
    count, size = long.shape[0], short.shape[0]
    more = dim_max(size - count, 0)
    before = select("lt", count, size, swapped, size // 2)
    margins: dict[str, tuple[Dim, Dim]] = {
        "full": (size - 1, size - 1),
        "same": (before, size - 1 - before + more),
        "valid": (more, more),
    }
    if mode not in margins:
        known = ", ".join(margins)
        raise ShapeError(f"{name} with mode {mode!r}", where=caller(), hint=f"modes are {known}")
    before, after = margins[mode]
    wide = padded(long, (before,), (after,))
    length = count + before + after - size + 1
    if isinstance(size, int) and _is_unrolled(size):
        return _unrolled(wide, short, size, length)
    places = iota_beside((size, 1), 0, int64, long) + iota_beside((1, length), 1, int64, long)
    terms = take(wide, places, 0) * with_shape(short, (size, 1), ())
    return any_(terms, 0) if terms.dtype is bool_ else sum_(terms, 0, dtype=terms.dtype)


def _unrolled(wide: Value, short: Value, size: int, length: Dim) -> Value:
    """The sum in the order that sums of columns have, of slices: no index is computed."""
    groups: list[Value] = []
    for start in range(0, size, CHUNK):
        group: Value | None = None
        for place in range(start, min(start + CHUNK, size)):
            factor = with_shape(part(short, 0, place, 1), (), ())
            term = part(wide, 0, place, length) * factor
            group = term if group is None else group + term
        assert group is not None
        groups.append(group)
    total = groups[0]
    for group in groups[1:]:
        total = total + group
    return total


def _vectors(x: Any, y: Any, name: str) -> tuple[Value, Value]:
    """Two vectors, or scalars as such, of one dtype.

    Raises:
        ShapeError: for matrices and for empty ones.
    """
    values = promoted(x, y)
    for value in values:
        if value.ndim > 1:
            raise ShapeError(f"{name} of {show(value.shape)}", where=caller(), hint="of vectors")
    left, right = (ravel(value) for value in values)
    message = f"{name} of {{}} and {{}}: neither may be empty"
    pairs = [nonempty_pair(value.shape[0]) for value in (left, right)]
    guards = unproved(pairs, message, left.shape, right.shape)
    return with_shape(left, left.shape, guards), right


@surface
def convolve(a: Any, v: Any, mode: str = "full") -> Value:
    """The convolution of two vectors: out[k] is the sum of a[i] * v[k - i].

    Args:
        a: a vector of n elements.
        v: a vector of m elements.
        mode: "full" gives n + m - 1 elements, "same" the max(n, m) in the middle, "valid" those
            abs(n - m) + 1 that miss no term.

    Raises:
        ShapeError: for other modes, for matrices and for empty vectors.
    """
    left, right = _vectors(a, v, "convolve")
    is_longer = less_equal(right.shape[0], left.shape[0])
    if is_longer is False or (is_longer is None and _is_unrolled(left.shape[0])):
        left, right = right, left
    if is_longer is None and not _is_unrolled(right.shape[0]):
        left, right = _by_length(left, right)
    count, size = left.shape[0], right.shape[0]
    return _windows(left, flip(right), mode, "convolve", size - 1 - (count - 1) // 2)


@surface
def correlate(a: Any, v: Any, mode: str = "valid") -> Value:
    """The correlation of two vectors: out[k] is the sum of a[i + k] * v[i].

    Arguments are those of ``convolve``; "full" begins with the shift of 1 - m.
    """
    left, right = _vectors(a, v, "correlate")
    count, size = left.shape[0], right.shape[0]
    is_longer = less_equal(size, count)
    if is_longer is False:
        # the shifts are those of the other one, from the last to the first
        return flip(_windows(right, left, mode, "correlate", 0))
    if is_longer is None and not _is_unrolled(size):
        made = _windows(*_by_length(left, right), mode, "correlate", 0)
        return where(_is_shorter(left, right), flip(made), made)
    return _windows(left, right, mode, "correlate", size - 1 - count // 2)


def _is_unrolled(size: Dim) -> bool:
    return isinstance(size, int) and 0 < size <= MOST_UNROLLED


def _is_shorter(one: Value, other: Value) -> Value:
    sizes = [size_beside(value.shape[0], int64, value) for value in (one, other)]
    return less(*sizes)


def _by_length(one: Value, other: Value) -> tuple[Value, Value]:
    """Two vectors, the longer one first, as only a run tells: the table of products has a row for
    each element of the shorter one."""
    sizes = one.shape[0], other.shape[0]
    most, least = dim_max(*sizes), dim_min(*sizes)
    ends = [with_shape(padded(v, (0,), (most - v.shape[0],)), (most,), ()) for v in (one, other)]
    fronts = [part(v, 0, 0, least) for v in (one, other)]
    is_shorter = _is_shorter(one, other)
    return where(is_shorter, *ends[::-1]), where(is_shorter, *fronts)


# --- polynomials ---------------------------------------------------------------------------------


def _known_length(p: Value, name: str) -> int:
    length = p.shape[0] if p.ndim == 1 else None
    if p.ndim != 1:
        raise ShapeError(f"{name} of coefficients {show(p.shape)}", where=caller(), hint="a vector")
    if not isinstance(length, int):
        raise ConcreteValueError(
            f"{name} of {length} coefficients: how many there are must be known",
            where=caller(),
            hint="give the placeholder a number there",
        )
    return length


@surface
def polyval(p: Any, x: Any) -> Value:
    """The polynomial with these coefficients, that of the highest power first, at x.

    Horner's rule, as in NumPy: a product and a sum for each coefficient.

    Raises:
        ConcreteValueError: where only a run tells how many coefficients there are.
        ShapeError: for coefficients that are no vector.
    """
    coefficients, points = promoted(p, x)
    result: Value = points * like(0, points)
    for place in range(_known_length(coefficients, "polyval")):
        result = result * points + with_shape(part(coefficients, 0, place, 1), (), ())
    return result


@surface
def polyadd(a: Any, b: Any) -> Value:
    """The coefficients of the sum of two polynomials, that of the highest power first."""
    left, right = (ravel(value) for value in promoted(a, b))
    size = dim_max(left.shape[0], right.shape[0])
    one, other = (padded(v, (size - v.shape[0],), (0,)) for v in (left, right))
    return with_shape(one, (size,), ()) + with_shape(other, (size,), ())


@surface
def polysub(a: Any, b: Any) -> Value:
    """The coefficients of the difference of two polynomials; see ``polyadd``."""
    left, right = promoted(a, b)
    return polyadd(left, -right)


@surface
def polymul(a: Any, b: Any) -> Value:
    """The coefficients of the product of two polynomials, that of the highest power first.

    Leading zeros stay, where NumPy drops them.
    """
    return convolve(a, b)


@surface
def poly(seq_of_zeros: Any) -> Value:
    """The coefficients of the polynomial with these zeros and a leading 1; highest power first.

    Args:
        seq_of_zeros: a vector [n] of known length, to which one factor after the other is
            multiplied, as in NumPy. Of a matrix, whose eigenvalues NumPy takes, give these.
            Integers give float64.

    Gives [n + 1].

    Raises:
        ConcreteValueError: where only a run tells how many zeros there are.
        ShapeError: for what is no vector.
    """
    zeros = as_float(seq_of_zeros)
    count = _known_length(zeros, "poly")
    one, nothing = (with_shape(like(number, zeros), (1,), ()) for number in (1, 0))
    result = one
    for place in range(count):
        shifted = concatenate([nothing, result]) * part(zeros, 0, place, 1)
        result = concatenate([result, nothing]) - shifted
    return result


@surface
def polydiv(u: Any, v: Any) -> tuple[Value, Value]:
    """The quotient and the remainder of two polynomials, highest powers first.

    Args:
        u: m coefficients, of known number.
        v: n coefficients, of which the first is not 0; likewise.

    Gives max(m - n + 1, 1) coefficients of the quotient and m of the remainder, whose leading zeros
    stay, as in ``jax.numpy``. Integers give float64.

    Raises:
        ConcreteValueError: where only a run tells how many coefficients there are.
        ShapeError: for what are no vectors, and for empty ones.
    """
    left, right = (value * 1.0 for value in promoted(u, v))
    sizes = [_known_length(value, "polydiv") for value in (left, right)]
    if 0 in sizes:
        raise ShapeError("polydiv of no coefficients", where=caller())
    count, size = sizes
    if count < size:
        return with_shape(like(0, left), (1,), ()), left
    scale = 1.0 / part(right, 0, 0, 1)
    quotient: list[Value] = []
    done: list[Value] = []
    rest = left
    for place in range(count - size + 1):
        factor = scale * part(rest, 0, 0, 1)
        quotient.append(factor)
        front = part(rest, 0, 0, size) - factor * right
        rest = concatenate([front, part(rest, 0, size, count - place - size)])
        done.append(part(rest, 0, 0, 1))
        rest = part(rest, 0, 1, count - place - 1)
    return concatenate(quotient), concatenate([*done, rest])


@surface
def polyder(p: Any, m: int = 1) -> Value:
    """The coefficients of the m-th derivative of a polynomial, that of the highest power first."""
    value, times = ravel(as_value(p)), repetitions(m, "m of polyder")
    for _ in range(times):
        count = dim_max(value.shape[0] - 1, 0)
        powers = size_beside(count, int64, value) - iota_beside((count,), 0, int64, value)
        value = part(value, 0, 0, count) * _like(powers, value)
    return value


@surface
def polyint(p: Any, m: int = 1, k: Any = None) -> Value:
    """The coefficients of the m-th integral of a polynomial, that of the highest power first.

    Args:
        p: coefficients; integers give float64.
        m: how many times.
        k: what each integral is at 0, the first one first: a number for all, or one for each;
            0 unless given.

    Raises:
        ShapeError: for fewer constants than there are integrals; at run time where only that
            tells.
    """
    value, times = ravel(as_value(p)), repetitions(m, "m of polyint")
    value = value * 1.0
    constants = ravel(converted(as_value(0.0 if k is None else k, value), value.dtype))
    known = constants.shape[0]
    missing = select("eq", known, 1, 0, dim_max(times - known, 0))
    message = f"polyint: {times} times with constants {{}}"
    guards = unproved([(missing, 0)], message, constants.shape, hint="give one, or one for each")
    constants = with_shape(constants, constants.shape, guards)
    for number in range(times):
        count = value.shape[0]
        powers = size_beside(count, value.dtype, value) - iota_beside((count,), 0, int64, value)
        start = select("eq", known, 1, 0, number)
        value = concatenate([value / powers, part(constants, 0, start, 1)])
    return value


def _like(powers: Value, value: Value) -> Value:
    return converted(powers, value.dtype) if value.dtype.is_inexact else powers
