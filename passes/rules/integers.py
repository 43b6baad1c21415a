"""Integers: what holds under wrap-around, with division that rounds down and by zero gives 0."""

from __future__ import annotations

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.dtypes import INTEGERS
from graphc.ir.value import Value
from graphc.ops.creation import ones_like, zeros_like
from graphc.ops.pointwise.arithmetic import fmod, power
from graphc.ops.pointwise.logic import equal, not_equal
from graphc.ops.pointwise.rounding import abs_, sign
from passes.rewriting.constants import Known
from passes.rewriting.pattern import Rule, rule
from passes.rules.common import SIGNED_INTEGERS, UNSIGNED, combines, powers_of_two


def _place(x: Value, c: Known) -> Array:
    """the logarithm of c"""
    # of a power of two, it is how many bits below it there are
    places: Array = np.bitwise_count(c.array - c.array.dtype.type(1))
    return places


def _is_power(x: Value, c: Known) -> bool:
    """c is a power of two."""
    return c.single and powers_of_two(c.array)


def _is_other_divisor(x: Value, c: Known) -> bool:
    """c is neither 0 nor a power of two, which becomes a shift."""
    return c.single and bool(np.all(c.array != 0)) and not powers_of_two(c.array)


def _shifts(x: Value, c: Known, d: Known | None = None) -> bool:
    """The shifts are within the width."""
    amounts = [c] if d is None else [c, d]
    return all(
        amount.single and bool(np.all((amount.array >= 0) & (amount.array < x.dtype.bits)))
        for amount in amounts
    )


def _nested_division(x: Value, c: Known, d: Known) -> bool:
    """The divisors are positive, none is a power of two, and their product does not wrap."""
    if not (_is_other_divisor(x, c) and _is_other_divisor(x, d)):
        return False
    first, second = int(c.array.reshape(())), int(d.array.reshape(()))
    return first > 0 and second > 0 and first * second <= np.iinfo(c.array.dtype).max


def _shift_then_division(x: Value, c: Known, d: Known) -> bool:
    """c is within the width, d is positive and no power of two, and d << c does not wrap."""
    if not (_shifts(x, c) and _is_other_divisor(x, d)):
        return False
    shift, divisor = int(c.array.reshape(())), int(d.array.reshape(()))
    return divisor > 0 and divisor << shift <= np.iinfo(d.array.dtype).max


def _all_ones(x: Value, c: Known) -> bool:
    """All bits of c are set."""
    return bool(np.all(~c.array == 0))


_NEUTRAL: tuple[Rule, ...] = (
    rule("int-add-zero", lambda x: (x + 0, x), dtypes=INTEGERS),
    rule("int-sub-zero", lambda x: (x - 0, x), dtypes=INTEGERS),
    rule("int-mul-zero", lambda x: (x * 0, zeros_like(x)), dtypes=INTEGERS),
    rule("int-sub-self", lambda x: (x - x, zeros_like(x)), dtypes=INTEGERS),
    rule("int-floor-one", lambda x: (x // 1, x), dtypes=INTEGERS),
    rule("int-mod-one", lambda x: (x % 1, zeros_like(x)), dtypes=INTEGERS),
    rule("int-fmod-one", lambda x: (fmod(x, 1), zeros_like(x)), dtypes=INTEGERS),
    rule("int-floor-minus-one", lambda x: (x // -1, -x), dtypes=SIGNED_INTEGERS),
    rule("int-mod-minus-one", lambda x: (x % -1, zeros_like(x)), dtypes=SIGNED_INTEGERS),
    rule("int-zero-floor", lambda x: (0 // x, zeros_like(x)), dtypes=INTEGERS),
    rule("int-zero-mod", lambda x: (0 % x, zeros_like(x)), dtypes=INTEGERS),
    rule("int-mod-self", lambda x: (x % x, zeros_like(x)), dtypes=INTEGERS),
    rule("shift-left-zero", lambda x: (x << 0, x), dtypes=INTEGERS),
    rule("shift-right-zero", lambda x: (x >> 0, x), dtypes=INTEGERS),
    rule("zero-shift-left", lambda x: (0 << x, zeros_like(x)), dtypes=INTEGERS),
    rule("zero-shift-right", lambda x: (0 >> x, zeros_like(x)), dtypes=INTEGERS),
    rule("int-or-zero", lambda x: (x | 0, x), dtypes=INTEGERS),
    rule("int-xor-zero", lambda x: (x ^ 0, x), dtypes=INTEGERS),
    rule("int-and-zero", lambda x: (x & 0, zeros_like(x)), dtypes=INTEGERS),
    rule(
        "int-and-ones", lambda x, c: (x & c, x), constants=("c",), when=_all_ones, dtypes=INTEGERS
    ),
    rule(
        "int-or-ones", lambda x, c: (x | c, ~zeros_like(x)), constants=("c",), when=_all_ones,
        dtypes=INTEGERS,
    ),
)  # fmt: skip

_INVERSES: tuple[Rule, ...] = (
    rule("int-sub-from-zero", lambda x: (0 - x, -x), dtypes=INTEGERS),
    rule("int-neg-sub", lambda x, y: (-(x - y), y - x), dtypes=INTEGERS),
    rule(
        "int-neg-add-constant", lambda x, c: (-(x + c), -c - x), constants=("c",), dtypes=INTEGERS
    ),
    rule("int-add-sub", lambda x, y: ((x + y) - y, x), dtypes=INTEGERS),
    rule("int-sub-add", lambda x, y: ((x - y) + y, x), dtypes=INTEGERS),
    rule("int-sub-sub", lambda x, y: (x - (x - y), y), dtypes=INTEGERS),
    rule("int-sub-sum", lambda x, y: (x - (x + y), -y), dtypes=INTEGERS),
    rule("int-difference-sub", lambda x, y: ((x - y) - x, -y), dtypes=INTEGERS),
    rule("int-xor-xor", lambda x, y: ((x ^ y) ^ y, x), dtypes=INTEGERS),
    rule("int-not-add-one", lambda x: (~x + 1, -x), dtypes=INTEGERS),
    rule("int-neg-sub-one", lambda x: (-x - 1, ~x), dtypes=INTEGERS),
    rule("int-neg-not", lambda x: (-(~x), x + 1), dtypes=INTEGERS),
    rule("int-not-neg", lambda x: (~(-x), x - 1), dtypes=INTEGERS),
    rule("int-sign-abs", lambda x: (sign(x) * abs_(x), x), dtypes=SIGNED_INTEGERS),
)

_FACTORS: tuple[Rule, ...] = (
    rule(
        "int-factor-constants", lambda x, c, d: (x * c + x * d, x * (c + d)), constants=("c", "d"),
        when=combines, dtypes=INTEGERS,
    ),
    rule(
        "int-factor-add", lambda x, y, z: (x * z + y * z, (x + y) * z), dtypes=INTEGERS,
        exclusive=True,
    ),
    rule(
        "int-factor-sub", lambda x, y, z: (x * z - y * z, (x - y) * z), dtypes=INTEGERS,
        exclusive=True,
    ),
    rule(
        "int-multiple-add", lambda x, c: (x * c + x, x * (c + 1)), constants=("c",),
        dtypes=INTEGERS,
    ),
    rule(
        "int-multiple-sub", lambda x, c: (x * c - x, x * (c - 1)), constants=("c",),
        dtypes=INTEGERS,
    ),
    rule(
        "int-sub-multiple", lambda x, c: (x - x * c, x * (1 - c)), constants=("c",),
        dtypes=INTEGERS,
    ),
)  # fmt: skip

_DIVISIONS: tuple[Rule, ...] = (
    rule(
        "int-floor-power", lambda x, c, k: (x // c, x >> k), constants=("c",),
        derived={"k": _place}, when=_is_power, dtypes=INTEGERS,
    ),
    rule(
        "int-mod-power", lambda x, c: (x % c, x & (c - 1)), constants=("c",),
        when=_is_power, dtypes=INTEGERS,
    ),
    rule(
        "int-fmod-power", lambda x, c: (fmod(x, c), x & (c - 1)), constants=("c",),
        when=_is_power, dtypes=UNSIGNED,
    ),
    rule(
        "int-floor-floor", lambda x, c, d: ((x // c) // d, x // (c * d)), constants=("c", "d"),
        when=_nested_division, dtypes=INTEGERS,
    ),
    rule(
        "shift-then-floor", lambda x, c, d: ((x >> c) // d, x // (d << c)), constants=("c", "d"),
        when=_shift_then_division, dtypes=INTEGERS,
    ),
    rule(
        "floor-then-shift", lambda x, c, d: ((x // d) >> c, x // (d << c)), constants=("c", "d"),
        when=_shift_then_division, dtypes=INTEGERS,
    ),
    rule("int-mod-mod", lambda x, y: ((x % y) % y, x % y), dtypes=INTEGERS),
    rule(
        "int-mod-spelled", lambda x, c: (x - (x // c) * c, x % c), constants=("c",),
        when=_is_other_divisor, dtypes=INTEGERS,
    ),
    rule(
        "int-divided-again", lambda x, c: ((x // c) * c + x % c, x), constants=("c",),
        when=_is_other_divisor, dtypes=INTEGERS,
    ),
)  # fmt: skip

_SHIFTS: tuple[Rule, ...] = (
    rule(
        "shift-left-left", lambda x, c, d: ((x << c) << d, x << (c + d)), constants=("c", "d"),
        when=_shifts, dtypes=INTEGERS,
    ),
    rule(
        "shift-right-right", lambda x, c, d: ((x >> c) >> d, x >> (c + d)), constants=("c", "d"),
        when=_shifts, dtypes=INTEGERS,
    ),
    rule(
        "shift-right-left", lambda x, c: ((x >> c) << c, x & (~(c ^ c) << c)), constants=("c",),
        when=_shifts, dtypes=INTEGERS,
    ),
    rule(
        "shift-left-right", lambda x, c: ((x << c) >> c, x & (~(c ^ c) >> c)), constants=("c",),
        when=_shifts, dtypes=UNSIGNED,
    ),
)  # fmt: skip

_POWERS: tuple[Rule, ...] = (
    rule("int-power-zero", lambda x: (power(x, 0), ones_like(x)), dtypes=INTEGERS),
    rule("int-power-one", lambda x: (power(x, 1), x), dtypes=INTEGERS),
    rule("int-power-two", lambda x: (power(x, 2), x * x), dtypes=INTEGERS),
    rule("int-power-three", lambda x: (power(x, 3), x * x * x), dtypes=INTEGERS),
    rule("int-power-four", lambda x: (power(x, 4), (x * x) * (x * x)), dtypes=INTEGERS),
    rule("int-power-of-one", lambda x: (power(1, x), ones_like(x)), dtypes=INTEGERS),
)

_REGROUPED: tuple[Rule, ...] = tuple(
    rule(name, identity, constants=("c", "d"), when=combines, dtypes=INTEGERS)
    for name, identity in (
        ("int-add-add", lambda x, c, d: ((x + c) + d, x + (c + d))),
        ("int-add-then-sub", lambda x, c, d: ((x + c) - d, x + (c - d))),
        ("int-sub-then-add", lambda x, c, d: ((x - c) + d, x + (d - c))),
        ("int-sub-then-sub", lambda x, c, d: ((x - c) - d, x - (c + d))),
        ("int-from-then-add", lambda x, c, d: ((c - x) + d, (c + d) - x)),
        ("int-from-then-sub", lambda x, c, d: ((c - x) - d, (c - d) - x)),
        ("int-from-sum", lambda x, c, d: (d - (x + c), (d - c) - x)),
        ("int-from-difference", lambda x, c, d: (d - (x - c), (d + c) - x)),
        ("int-from-from", lambda x, c, d: (d - (c - x), x + (d - c))),
        ("int-mul-mul", lambda x, c, d: ((x * c) * d, x * (c * d))),
        ("int-and-and", lambda x, c, d: ((x & c) & d, x & (c & d))),
        ("int-or-or", lambda x, c, d: ((x | c) | d, x | (c | d))),
        ("int-xor-constants", lambda x, c, d: ((x ^ c) ^ d, x ^ (c ^ d))),
        ("int-eq-add", lambda x, c, d: (equal(x + c, d), equal(x, d - c))),
        ("int-eq-sub", lambda x, c, d: (equal(x - c, d), equal(x, d + c))),
        ("int-eq-from", lambda x, c, d: (equal(c - x, d), equal(x, c - d))),
        ("int-eq-xor", lambda x, c, d: (equal(x ^ c, d), equal(x, c ^ d))),
        ("int-ne-add", lambda x, c, d: (not_equal(x + c, d), not_equal(x, d - c))),
        ("int-ne-sub", lambda x, c, d: (not_equal(x - c, d), not_equal(x, d + c))),
        ("int-ne-from", lambda x, c, d: (not_equal(c - x, d), not_equal(x, c - d))),
        ("int-ne-xor", lambda x, c, d: (not_equal(x ^ c, d), not_equal(x, c ^ d))),
    )
)

_SUMS: tuple[Rule, ...] = (
    rule(
        "int-add-sums", lambda x, y, c, d: ((x + c) + (y + d), (x + y) + (c + d)),
        constants=("c", "d"), when=combines, dtypes=INTEGERS,
        exclusive=True,
    ),
    rule(
        "int-mul-products", lambda x, y, c, d: ((x * c) * (y * d), (x * y) * (c * d)),
        constants=("c", "d"), when=combines, dtypes=INTEGERS,
        exclusive=True,
    ),
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    *_NEUTRAL, *_INVERSES, *_FACTORS, *_DIVISIONS, *_SHIFTS, *_POWERS, *_REGROUPED, *_SUMS
)  # fmt: skip
