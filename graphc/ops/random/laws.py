"""Distributions that are functions of random bits, and so differentiable by their parameters.

Invariant: an element is a function of the key and its own index in the result. The functions are
made of exact operations, so the numbers are the same on every target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.errors import DTypeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DTypeLike, uint64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole
from graphc.ops.convert import converted, in_dtype
from graphc.ops.declare import float_operand, like
from graphc.ops.pointwise.logic import less, where
from graphc.ops.random.keys import drawn, element_type, fitted, key_of, shape_of


def _plain(law: str, key: Any, shape: Any, dtype: DTypeLike) -> Value:
    element = element_type(dtype, "float", law)
    return drawn(key_of(key, law), law, shape_of(shape, law), element)


def _is_number(given: Any, number: float) -> bool:
    """Whether a parameter is that Python number, so that nothing need be computed."""
    return isinstance(given, (int, float)) and given == number


def uniform(
    key: Any, shape: Any = (), dtype: DTypeLike = "float32", minval: Any = 0.0, maxval: Any = 1.0
) -> Value:
    """Uniform floats from ``minval`` up to but without ``maxval``.

    From 0 to 1 they are k / 2**24 (float32) or k / 2**53 (float64), each k equally likely, so 1 is
    never given. For other bounds the result is ``u * (maxval - minval) + minval``, whose rounding
    may give ``maxval``. The bounds broadcast to the shape; it is differentiable by them.
    """
    u = _plain("uniform", key, shape, dtype)
    if _is_number(minval, 0) and _is_number(maxval, 1):
        return u
    low, high = (in_dtype(bound, u.dtype, u) for bound in (minval, maxval))
    _, (low, high) = fitted(shape, "uniform", low, high)
    return u * (high - low) + low


def normal(key: Any, shape: Any = (), dtype: DTypeLike = "float32") -> Value:
    """Standard normal floats, by Box and Muller's transformation of two words for two elements.

    Logarithm, sine and cosine are of the integers themselves, so the tails are exact as far as the
    bits go: up to 6.7 deviations for float32, beyond which lie 2e-11 of the distribution, and 9.4
    for float64. 0 itself is never given. ``mean + deviation * normal(key, shape)`` has others.

    Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
    """
    return _plain("normal", key, shape, dtype)


def exponential(key: Any, shape: Any = (), dtype: DTypeLike = "float32") -> Value:
    """Exponential floats of rate 1: -log u, where u has all bits of a word; never 0."""
    return _plain("exponential", key, shape, dtype)


def gumbel(key: Any, shape: Any = (), dtype: DTypeLike = "float32") -> Value:
    """Standard Gumbel floats, -log(-log u)."""
    return _plain("gumbel", key, shape, dtype)


def laplace(key: Any, shape: Any = (), dtype: DTypeLike = "float32") -> Value:
    """Standard Laplace floats: exponential ones of either sign."""
    return _plain("laplace", key, shape, dtype)


def logistic(key: Any, shape: Any = (), dtype: DTypeLike = "float32") -> Value:
    """Standard logistic floats, log(u / (1 - u))."""
    return _plain("logistic", key, shape, dtype)


def cauchy(key: Any, shape: Any = (), dtype: DTypeLike = "float32") -> Value:
    """Standard Cauchy floats: the tangent of an angle that is uniform."""
    return _plain("cauchy", key, shape, dtype)


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Value:
    """Bools that are True with probability p, exactly as often as a uniform float is below p.

    Args:
        key: a key.
        p: probabilities; floats, or numbers that become float32.
        shape: of the result, to which p broadcasts; that of p by default.
    """
    source = key_of(key, "bernoulli")
    chance = float_operand(p)
    chance = converted(chance, chance.dtype.computed)
    dims, (chance,) = fitted(shape, "bernoulli", chance)
    return less(drawn(source, "uniform", dims, chance.dtype), chance)


def rademacher(key: Any, shape: Any = (), dtype: DTypeLike = "int64") -> Value:
    """-1 and 1, equally likely."""
    element = element_type(dtype, "int float", "rademacher")
    word = drawn(
        key_of(key, "rademacher"), "bits", shape_of(shape, "rademacher"), as_dtype("uint8")
    )
    is_one = less(word, like(128, word))
    return where(is_one, like(1, word).astype(element), like(0, word).astype(element) - 1)


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: DTypeLike = "int64") -> Value:
    """Uniform integers from ``minval`` up to but without ``maxval``.

    An element is a random integer of 64 bits (128 where the range may exceed 2**32) times the
    range, divided by 2**64 (2**128). So no integer is more likely than another by more than one
    part in 2**32 (2**64), which no experiment shows. Where ``maxval <= minval`` it is ``minval``.

    Args:
        key: a key.
        shape: of the result.
        minval: the least, an int or integers that broadcast to the shape.
        maxval: what is above the greatest.
        dtype: an integer dtype; the bounds are converted to it, but ``maxval`` may be one more
            than it holds.

    Raises:
        DTypeError: for a dtype that is no integer, or ints that it doesn't hold.
    """
    element = element_type(dtype, "int uint", "randint")
    source, dims = key_of(key, "randint"), shape_of(shape, "randint")
    if is_whole(minval) and is_whole(maxval):
        low, high = int(minval), int(maxval)
        for what, bound, extra in (("minval", low, 0), ("maxval", high, 1)):
            if not element.least <= bound <= element.greatest + extra:
                raise DTypeError(
                    f"randint: {what} is {bound}, out of the range of {element}",
                    where=caller(),
                    hint="give another dtype",
                )
        first = in_dtype(low, element, source)
        # a range of all 2**64 integers is what no uint64 holds: there the bits are the result
        span, is_small = max(high - low, 1), high - low <= 2**32
        if span == 2**64:
            return converted(drawn(source, "bits", dims, uint64), element) + first
        width = in_dtype(span, uint64, source)
    else:
        for what, given in (("minval", minval), ("maxval", maxval)):
            kind = given.dtype if isinstance(given, Value) else np.asarray(given).dtype
            if as_dtype(kind).kind not in ("int", "uint"):
                raise DTypeError(
                    f"randint: {what} is {shown(given)}, of {kind}", where=caller(),
                    hint="bounds are integers",
                )  # fmt: skip
        first, last = (in_dtype(bound, element, source) for bound in (minval, maxval))
        _, (first, last) = fitted(shape, "randint", first, last)
        is_small = element.bits <= 32
        # the difference wraps around, and so is that of the integers modulo 2**64
        width = converted(last, uint64) - converted(first, uint64)
        width = where(less(first, last), width, like(1, width))
    return first + converted(_scaled(source, dims, width, is_small), element)


def _scaled(key: Value, shape: tuple[Dim, ...], width: Value, is_small: bool) -> Value:
    """Uniform uint64 below ``width``, which is at most 2**32 if it is small."""
    if is_small:
        word = drawn(key, "bits", shape, uint64)
        return _high_of_small(word, width)
    pair = drawn(key, "bits", (*shape, 2), uint64)
    low, high = pair[..., 0], pair[..., 1]
    # (high * 2**64 + low) * width / 2**128, carries included
    below = _high(low, width)
    middle = high * width
    carry = converted(less(middle + below, middle), uint64)
    return _high(high, width) + carry


def _high_of_small(word: Value, width: Value) -> Value:
    """The upper 64 bits of a product with up to 2**32."""
    low, half = like(0xFFFFFFFF, word), like(32, word)
    return ((word >> half) * width + (((word & low) * width) >> half)) >> half


def _high(a: Value, b: Value) -> Value:
    """The upper 64 bits of a product."""
    low, half = like(0xFFFFFFFF, a), like(32, a)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    first = a1 * b0 + ((a0 * b0) >> half)
    second = a0 * b1 + (first & low)
    return a1 * b1 + (first >> half) + (second >> half)


def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> Value:
    """Indices along an axis, each with the probability of its logit's softmax.

    The index is that of the largest sum of a logit and a Gumbel number. -inf is never chosen unless
    all are.

    Args:
        key: a key.
        logits: logarithms of probabilities, not necessarily normalised.
        axis: of the logits, the one that is chosen along.
        shape: of the result; by default the logits' without the axis, to which the given one may
            add leading axes.

    Returns:
        int64 indices.
    """
    source, weights = key_of(key, "categorical"), float_operand(logits)
    weights = converted(weights, weights.dtype.computed)
    moved = surface_function("moveaxis")(weights, axis, -1)
    batch = moved.shape[:-1]
    dims = batch if shape is None else shape_of(shape, "categorical")
    if shape is not None:
        moved = surface_function("broadcast_to")(moved, (*dims, moved.shape[-1]))
    noise = drawn(source, "gumbel", (*dims, moved.shape[-1]), moved.dtype)
    result: Value = surface_function("argmax")(moved + noise, axis=-1)
    return result


def dropout(key: Any, x: Any, rate: Any = 0.5) -> Value:
    """x with elements set to 0 with probability ``rate`` and the others divided by ``1 - rate``.

    The gradient passes where elements are kept. A rate of 0 gives x, a rate of 1 zeros.

    Args:
        key: a key; the same one drops the same elements.
        x: floats of any shape.
        rate: the probability of being dropped, from 0 to 1: a number or a scalar.
    """
    source, given = key_of(key, "dropout"), float_operand(x)
    if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
        raise DTypeError(
            f"dropout: a rate of {shown(rate)}", where=caller(), hint="it is from 0 to 1"
        )
    chance = in_dtype(rate, given.dtype.computed, given)
    u = drawn(source, "uniform", given.shape, chance.dtype)
    kept = u >= chance
    scale = converted(where(chance < 1, 1 - chance, like(1, chance)), given.dtype)
    return where(kept, given / scale, like(0, given))


__all__ = [
    "bernoulli", "categorical", "cauchy", "dropout", "exponential", "gumbel", "laplace", "logistic",
    "normal", "rademacher", "randint", "uniform",
]  # fmt: skip
