"""Powers, exponentials and chains of products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from string import ascii_letters
from typing import Any

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.builder import apply
from graphc.ir.dtypes import float32, float64
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import items_of, whole
from graphc.ops.convert import as_value, converted, promoted
from graphc.ops.guards import show, unproved
from graphc.ops.linalg.matmul import matmul
from graphc.ops.linalg.matrices import product, squares
from graphc.ops.linalg.norms import matrix_norm
from graphc.ops.linalg.systems import inv, solve_op
from graphc.ops.move.shape import broadcast_to, expand_dims, with_shape


def matrix_power(a: Any, n: int) -> Value:
    """The product of n factors ``a``, by squaring; of the inverse for a negative n.

    Args:
        a: square matrices [*B, m, m]; integers keep their dtype, if n is not negative.
        n: an int.

    Raises:
        ShapeError: for matrices that are not square; at run time where sizes are unknown.
        LinAlgError: for a singular matrix and a negative n, when the graph runs.
    """
    power = whole(n, "n")
    value = as_value(a)
    if value.ndim < 2:
        raise ShapeError(f"matrix_power of {show(value.shape)}", where=caller())
    if power < 0:
        value, power = inv(value), -power
    rows, columns = value.shape[-2:]
    message = "matrix_power: the matrices of {} are not square"
    guards = unproved([(rows, columns)], message, value.shape)
    if guards:
        value = with_shape(value, (*value.shape[:-1], rows), guards)
    if power == 0:
        ones = surface_function("eye")(rows, dtype=value.dtype)
        return broadcast_to(ones, value.shape)
    while not power & 1:
        value, power = matmul(value, value), power >> 1
    result = value
    while power := power >> 1:
        value = matmul(value, value)
        if power & 1:
            result = matmul(result, value)
    return result


_COEFFICIENTS = {
    7: (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1),
    13: (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800,
         129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800,
         960960, 16380, 182, 1),
}  # fmt: skip
"""Of Padé approximants of degree m to the exponential."""

_LIMITS = {7: 3.925724783138660, 13: 5.371920351148152}
"""Norms up to which these are right to rounding, in float32 and float64 (Higham 2005; Al-Mohy and
Higham 2009)."""

MOST_SQUARINGS = 16
"""Norms beyond the limit times 2 to this power give NaN, as in JAX."""


def expm(a: Any) -> Value:
    """The exponentials of square matrices [*B, n, n]; not that of each element.

    By scaling, a Padé approximant and squaring (Higham, "The scaling and squaring method for the
    matrix exponential revisited", 2005). A matrix whose norm is above about 250,000 gives NaN.

    Raises:
        ShapeError: for matrices that are not square; at run time where sizes are unknown.
    """
    value = squares(a, "expm")
    if value.dtype.bits < 32:
        # the coefficients are no numbers of 16 bits
        return converted(expm(converted(value, float32)), value.dtype)
    degree = 13 if value.dtype.part is float64 else 7
    where, exp2 = surface_function("where"), surface_function("exp2")
    size = surface_function("stop_gradient")(matrix_norm(value, ord=1))
    ratio = surface_function("log2")(size * (1.0 / _LIMITS[degree]))
    steps = surface_function("maximum")(surface_function("ceil")(ratio), 0.0)
    # a power of two, so that scaling rounds nothing
    scaled = value * expand_dims(exp2(-steps), (-2, -1))
    even, odd = _pade(scaled, _COEFFICIENTS[degree])
    odd = product(scaled, odd)
    result = apply(solve_op, even - odd, even + odd)
    for step in range(MOST_SQUARINGS):
        more = expand_dims(steps > step, (-2, -1))
        result = where(more, product(result, result), result)
    fits = expand_dims(steps <= MOST_SQUARINGS, (-2, -1))
    return where(fits, result, math.nan)  # type: ignore[no-any-return]


def _pade(a: Value, coefficients: Sequence[int]) -> tuple[Value, Value]:
    """The even part of the numerator, and the odd one over ``a``."""
    ones = surface_function("eye")(a.shape[-1], dtype=a.dtype)
    square = product(a, a)
    power: Value | None = None
    even: Value = ones * float(coefficients[0])
    odd: Value = ones * float(coefficients[1])
    for degree in range(2, len(coefficients), 2):
        power = square if power is None else product(power, square)
        even = even + power * float(coefficients[degree])
        if degree + 1 < len(coefficients):
            odd = odd + power * float(coefficients[degree + 1])
    return even, odd


def multi_dot(arrays: Any) -> Value:
    """The product of two matrices or more, in the order of fewest operations.

    Args:
        arrays: the matrices; the first and the last may be vectors, a row and a column.

    Raises:
        ShapeError: for fewer than two, for other axes, and for sizes that don't fit; at run time
            where they are unknown.
    """
    given = items_of(arrays, "arrays")
    if not 2 <= len(given) < len(ascii_letters):
        raise ShapeError(
            f"multi_dot of {len(given)} arrays", where=caller(), hint="give two, and 51 at most"
        )
    values = promoted(*given)
    last = len(values) - 1
    words = []
    for place, value in enumerate(values):
        if value.ndim == 2:
            words.append(ascii_letters[place : place + 2])
        elif value.ndim == 1 and place in (0, last):
            words.append(ascii_letters[1 if place == 0 else place])
        else:
            raise ShapeError(
                f"multi_dot: operand {place} has shape {show(value.shape)}",
                where=caller(),
                hint="matrices, and vectors at both ends",
            )
    # sums over equal letters would stretch an axis of one element, which products don't
    inner = [(one.shape[-1], other.shape[0]) for one, other in pairwise(values)]
    message = "multi_dot: sizes {} do not fit {}"
    guards = unproved(inner, message, [pair[0] for pair in inner], [pair[1] for pair in inner])
    values = (with_shape(values[0], values[0].shape, guards), *values[1:])
    ends = words[0][: values[0].ndim - 1], words[last][1:]
    result: Value = surface_function("einsum")(f"{','.join(words)}->{''.join(ends)}", *values)
    return result


__all__ = ["expm", "matrix_power", "multi_dot"]
