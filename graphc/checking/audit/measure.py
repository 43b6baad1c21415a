"""Errors in units of the last place, and what went wrong where they begin.

Invariant: an error is measured in the spacing of the audited dtype at the exact number; equal
infinities and NaN against NaN are no error, and what an infinity or NaN should not be is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from graphc.checking.audit.shadow import Doubles
from graphc.ir.attributes import Array
from graphc.ir.dtypes import dtype
from graphc.ir.graph import Node
from graphc.ops.pointwise.math import log1p_op

EventKind: TypeAlias = Literal["cancellation", "overflow", "underflow", "pole", "invalid"]

CANCELLED_BITS = 8
"""Losing fewer bits than this is ordinary."""

CANCELLED_ULP = 4.0
"""Where digits cancel but the error stays below this, the operands were exact: no harm is done."""

_POLES = {"log": 0, "log2": 0, "log1p": 0, "divide": 1, "power": 0, "rsqrt": 0}
"""Ops that are infinite at finite numbers, and which operand says so."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that went wrong in one run of one node.

    Attributes:
        kind: what.
        count: in how many elements.
        index: the first, or the worst, of them.
        bits: for cancellation, how many are lost there.
        detail: the numbers.
    """

    kind: EventKind
    count: int
    index: tuple[int, ...]
    bits: float
    detail: str


def ulp_errors(computed: Array, high: Doubles, low: Doubles) -> Doubles:
    """Per element |computed - (high + low)| in units of the last place of the computed dtype."""
    numbers = dtype(computed.dtype).format
    least = 1 - numbers.bias
    with np.errstate(all="ignore"):
        wide = computed.astype(np.float64)
        magnitude = np.minimum(np.abs(high), numbers.largest)
        exponent = np.where(magnitude == 0, least, np.frexp(magnitude)[1])
        exponent = np.maximum(exponent, least + 1)
        errors = np.abs((wide - high) - low)
        errors = np.ldexp(errors, numbers.significand - exponent)
        same = wide == high.astype(computed.dtype)
        agree = (np.isnan(wide) & np.isnan(high)) | (same & ~np.isfinite(wide))
        wrong = np.isfinite(wide) & np.isfinite(high)
        return np.where(agree, 0.0, np.where(wrong, errors, np.inf))


def findings(
    node: Node,
    computed: Array,
    operands: Sequence[Array],
    exact: Doubles,
) -> list[Finding]:
    """Overflow, underflow, poles and NaN that appear in this node.

    Args:
        node: the node.
        computed: its result.
        operands: its float operands, as computed.
        exact: the result in wider numbers for the very operands.
    """
    result: list[Finding] = []
    infinite, missing = np.isinf(computed), np.isnan(computed)
    if infinite.any() and all(np.isfinite(operand).all() for operand in operands):
        pole = infinite & _at_pole(node, operands, computed.shape)
        _add(result, "pole", pole, computed, "gives")
        _add(result, "overflow", infinite & ~pole, computed, "gives")
    if missing.any() and not any(np.isnan(operand).any() for operand in operands):
        _add(result, "invalid", missing, computed, "gives")
    tiny = dtype(computed.dtype).format.smallest_normal
    with np.errstate(all="ignore"):
        small = (np.abs(exact) < tiny) & (exact != 0) & (np.abs(computed) < tiny)
    if small.any() and not any(_has_subnormal(operand) for operand in operands):
        _add(result, "underflow", small, exact, "should be")
    return result


def _has_subnormal(array: Array) -> bool:
    least = dtype(array.dtype).format.smallest_normal
    return bool(((np.abs(array) < least) & (array != 0)).any())


def _at_pole(node: Node, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
    place = _POLES.get(node.op.name)
    if place is None:
        return np.zeros(shape, bool)
    operand = operands[place]
    return np.broadcast_to(operand == (-1 if node.op is log1p_op else 0), shape)


def _add(result: list[Finding], kind: EventKind, mask: Array, numbers: Array, verb: str) -> None:
    count = int(np.count_nonzero(mask))
    if count:
        index = first_index(mask)
        result.append(Finding(kind, count, index, 0.0, f"{verb} {numbers[index]:.4g}"))


def first_index(mask: Array) -> tuple[int, ...]:
    """Where the first true element is."""
    return tuple(int(place) for place in np.unravel_index(int(np.argmax(mask)), mask.shape))


def cancellation(
    computed: Array, errors: Doubles, exact: Doubles, magnitudes: Doubles
) -> Finding | None:
    """Digits that a sum lost because its terms nearly cancel, where that shows in the error.

    Args:
        computed: the sum.
        errors: its errors in ulp.
        exact: its shadow.
        magnitudes: the sum of the magnitudes of its terms.
    """
    digits = dtype(computed.dtype).digits
    with np.errstate(all="ignore"):
        bits = np.log2(magnitudes) - np.log2(np.abs(exact))
        bits = np.where(np.isfinite(magnitudes), np.clip(bits, 0, digits), 0)
    harmed = (bits >= CANCELLED_BITS) & (errors >= CANCELLED_ULP)
    count = int(np.count_nonzero(harmed))
    if not count:
        return None
    index = first_index(np.where(harmed, bits, -1.0) == bits[harmed].max())
    detail = (
        f"terms of {magnitudes[index]:.4g} leave {exact[index]:.4g}, computed {computed[index]:.4g}"
    )
    return Finding("cancellation", count, index, float(bits[index]), detail)
