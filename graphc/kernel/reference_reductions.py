"""Reductions of arrays along their last axis, in the order that ``ir.CHUNK`` defines.

Float sums and products take exactly the additions that compiled kernels take, so they agree to the
bit; sums of squares, with a multiply-add of as many roundings as the target's.
NaN wins in minima and maxima, +0 is above -0, and of equal bests the first has the position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.dtypes import DType, floating
from graphc.ir.lowering import Combine, Running
from graphc.kernel.fused_multiply_add import fma
from graphc.kernel.ir import CHUNK, LEVELS, Order, lanes

Step: TypeAlias = Callable[[Any, Any], Any]
"""A total and a term, or a further total, to a total."""


def neutral_element(combine: Running, term: DType) -> bool | int | float:
    """What combines with any term to that term, bits included; for positions the worst value."""
    if combine == "add":
        return -0.0 if term.is_float else 0
    if combine == "multiply":
        return 1
    if combine in ("squares", "or", "xor"):
        return 0
    if combine == "and":
        return -1 if term.is_signed else term.greatest
    return term.greatest if combine in ("minimum", "argmin") else term.least


def combine_nothing(combine: Combine, term: DType, result: DType) -> Array:
    """The result of a reduction without terms, as an array of rank 0."""
    zero = combine in ("add", "squares", "argmin", "argmax")
    return np.array(0 if zero else neutral_element(combine, term), result.numpy)


def combine_terms(
    combine: Combine,
    terms: Array,
    dtype: DType,
    order: Order,
    multiply_add: Callable[[Array, Array, Array], Array] = fma,
) -> Array:
    """Reduces the last axis, which is not empty.

    Args:
        combine: how.
        terms: of the dtype; any leading axes.
        dtype: the terms' dtype.
        order: the order class, which matters to float sums and products.
        multiply_add: x * y + z, by which squares are added.

    Returns:
        an array without the last axis; int64 positions for argmin and argmax.
    """
    with np.errstate(all="ignore"):
        if combine == "argmin":
            return np.asarray(np.argmin(terms, axis=-1))
        if combine == "argmax":
            return np.asarray(np.argmax(terms, axis=-1))
        if combine in ("minimum", "maximum"):
            return extreme(combine, terms, axis=-1)
        if combine == "and":
            return np.asarray(np.bitwise_and.reduce(terms, axis=-1))
        if combine == "or":
            return np.asarray(np.bitwise_or.reduce(terms, axis=-1))
        if combine == "xor":
            return np.asarray(np.bitwise_xor.reduce(terms, axis=-1))
        ufunc = np.multiply if combine == "multiply" else np.add
        if not dtype.is_rounded:
            return np.asarray(ufunc.reduce(terms, axis=-1, dtype=terms.dtype))
        neutral = terms.dtype.type(neutral_element(combine, dtype))

        def square(total: Any, term: Any) -> Any:
            return multiply_add(term, term, total)

        step: Step = square if combine == "squares" else ufunc
        return combine_in_order(ufunc, step, neutral, terms, dtype, order)


def combine_in_order(
    joined: Step, step: Step, neutral: Any, terms: Array, dtype: DType, order: Order
) -> Array:
    """Reduces the last axis, which is not empty, by any steps in the order of floats.

    Args:
        joined: what combines two totals.
        step: what combines a total with a term.
        neutral: what every total begins with.
        terms: of the dtype; any leading axes.
        dtype: the terms' dtype, which says how many lanes there are.
        order: the order class.

    Returns:
        an array without the last axis.
    """
    return _cascade(joined, step, neutral, terms, 1 if order == "chain" else lanes(dtype))


def extreme(combine: Literal["minimum", "maximum"], terms: Array, **options: Any) -> Array:
    """The least or largest terms; ``options`` are those of np.min: the axes, and ``keepdims``."""
    minimum = combine == "minimum"
    best = np.asarray((np.minimum if minimum else np.maximum).reduce(terms, **options))
    if not floating(terms.dtype) or not np.any(best == 0):
        return best
    # NumPy leaves the sign of a zero open.
    decisive = np.any((terms == 0) & (np.signbit(terms) == minimum), **options)
    zero = terms.dtype.type(-0.0 if minimum else 0.0)
    return np.where(best == 0, np.where(decisive, zero, -zero), best)


def _cascade(joined: Step, step: Step, neutral: Any, terms: Array, width: int) -> Array:
    count = terms.shape[-1]
    steps = count // width
    # The steps first: every level then combines whole arrays.
    whole = np.moveaxis(terms[..., : steps * width], -1, 0)
    level = whole.reshape((steps, width, *terms.shape[:-1]))
    for depth in range(LEVELS):
        combined = joined if depth else step
        level = _level(combined, level, neutral, last=depth == LEVELS - 1)
    (total,) = level
    folded = width
    while folded > 1:
        folded //= 2
        total = joined(total[:folded], total[folded:])
    rest = np.full(terms.shape[:-1], neutral, terms.dtype)
    for place in range(steps * width, count):
        rest = step(rest, terms[..., place])
    return np.asarray(joined(total[0], rest))


def _level(combined: Step, parts: Array, neutral: Any, last: bool) -> Array:
    """Combines CHUNK parts each (at the last level all) in order, starting from the neutral.

    An incomplete chunk stands for an incomplete level: combining the neutral changes nothing.
    """
    count = parts.shape[0]
    size = max(count, 1) if last or count <= CHUNK else CHUNK
    chunks = max(1, -(-count // size))
    result = np.full((chunks, *parts.shape[1:]), neutral, parts.dtype)
    for place in range(size):
        chosen = parts[place::size]
        result[: chosen.shape[0]] = combined(result[: chosen.shape[0]], chosen)
    return result


__all__ = [
    "Step",
    "combine_in_order",
    "combine_nothing",
    "combine_terms",
    "extreme",
    "neutral_element",
]
