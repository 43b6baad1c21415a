"""More operations of random programs: what the rules, stabilisers and network rewrites look for.

The steps of ``random_programs`` are single operations; these are the spellings that passes
recognise (a softmax by hand, a batch norm after a product, divisions by constants, chains of
limits), and what nests: conditionals, loops, gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from random_operations import STEPS, Maker, Step, joining, unary
from random_programs import Program

import graphc as gx
from graphc.compiling.extraction import extract

Made = tuple[Any, tuple[int, ...]]


def _integer_by_constant(m: Maker, a: int, b: int, c: int) -> Made:
    """Divisions, remainders and shifts by constants, two of them in a row."""
    value, shape = m.pick(a)
    if not value.dtype.is_integer:
        value = value.astype(("int32", "int8", "uint8", "int64")[a % 4])
    limits = np.iinfo(value.dtype.numpy)
    numbers = [1, 2, 3, 4, 7, 8, 10, 16, 0, limits.max, limits.min, limits.max - 1, -1, -2, -7, 64]
    operations: list[Callable[[Any, Any], Any]] = [
        gx.floor_divide, gx.mod, gx.fmod, gx.multiply, gx.add, gx.subtract, gx.left_shift,
        gx.right_shift, gx.bitwise_and, gx.bitwise_or, gx.bitwise_xor, gx.maximum, gx.minimum,
        lambda x, y: gx.subtract(y, x), lambda x, y: gx.floor_divide(y, x),
        lambda x, y: x - (x // y) * y, lambda x, y: (x // y) * y + x % y,
    ]  # fmt: skip
    for choice in (b, c):
        number = numbers[choice % len(numbers)]
        if number < 0 and limits.min == 0:
            number = -number
        function = operations[(choice * 7 + a) % len(operations)]
        value = function(value, value.dtype.numpy.type(number))
    return value, shape


def _integer_pairs(m: Maker, a: int, b: int, c: int) -> Made:
    x, y, shape = m.pair(a, b)
    dtype = ("int32", "int8", "uint8", "int64", "uint64", "int16")[c % 6]
    if shape != m.pick(a)[1] or shape != m.pick(b)[1]:
        shape, y = m.pick(a)[1], x
    x, y = x.astype(dtype), y.astype(dtype)
    spelled = [
        lambda: (x + y) - y, lambda: x - (x - y), lambda: (x ^ y) ^ x, lambda: ~x + 1,
        lambda: gx.where(x < y, x, y), lambda: gx.where(x <= y, y, x), lambda: (x % y) % y,
        lambda: x * 3 + x * 5, lambda: x * y + y * x, lambda: -(x - y), lambda: gx.sign(x) * x,
        lambda: (x & y) | x, lambda: gx.maximum(gx.minimum(x, y), y), lambda: x // y,
        lambda: gx.where(x < 0, -x, x), lambda: gx.where(x >= 0, x, -x), lambda: (x << 3) >> 3,
        lambda: (x >> 2) << 2, lambda: x << y, lambda: x >> y, lambda: (x > y) & (y > x),
        lambda: (x + 5 > 7) | (x - 3 < 2), lambda: (x ^ y) == 0, lambda: x - y == 0,
    ]  # fmt: skip
    return spelled[(c // 6 * 7 + b) % len(spelled)](), shape


NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, np.inf, -np.inf, np.nan, 1e-40, 1e38, 1e-3)


def _limits(m: Maker, a: int, b: int, c: int) -> Made:
    """Chains of minima, maxima and clips."""
    value, shape = m.pick(a)
    if value.dtype.kind == "bool":
        value = value.astype("int8")
    rng = np.random.default_rng(b * 61 + c)
    for _ in range(1 + c % 4):
        low, high = (float(NUMBERS[i]) for i in rng.integers(0, len(NUMBERS), 2))
        if not value.dtype.is_float:
            low, high = (float(n) for n in rng.integers(0, 100, 2))
        low, high = (value.dtype.numpy.type(n) for n in (low, high))
        kind = rng.integers(0, 4)
        if kind == 0:
            value = gx.maximum(value, low)
        elif kind == 1:
            value = gx.minimum(low, value)
        elif kind == 2:
            value = gx.clip(value, low, high)
        else:
            value = gx.abs(-value) if rng.integers(0, 2) else -gx.maximum(-value, low)
    return value, shape


def _one_constant(x: Any, number: Any, kind: int) -> Any:
    made: list[Callable[[], Any]] = [
        lambda: x + number, lambda: x - number, lambda: number - x, lambda: x * number,
        lambda: x / number, lambda: number / x, lambda: -x, lambda: x * x, lambda: x / x,
        lambda: x - x, lambda: gx.where(x > number, x, number), lambda: gx.sqrt(x * x),
        lambda: gx.power(x, number), lambda: gx.abs(x) * gx.abs(x), lambda: gx.exp(gx.log(x)),
        lambda: gx.where(gx.isnan(x), number, x), lambda: ~(x < number), lambda: x == x,
        lambda: (x * number) * 4.0, lambda: x * 0.0, lambda: 0.0 / x, lambda: x + x,
    ]  # fmt: skip
    return made[kind % len(made)]()


def _float_by_constant(m: Maker, a: int, b: int, c: int) -> Made:
    """Floats and constants, special ones too, up to four steps in a row."""
    value, shape = m.floats(a)
    rng = np.random.default_rng(b * 61 + c)
    for _ in range(1 + c % 4):
        number = value.dtype.numpy.type(NUMBERS[rng.integers(0, len(NUMBERS))])
        value = _one_constant(value, number, int(rng.integers(0, 100)))
        if not value.dtype.is_float:
            value = value.astype("float32")
    return value, shape


def _powers(m: Maker, a: int, b: int, c: int) -> Made:
    value, shape = m.pick(a)
    exponents = (0, 1, 2, 3, 4, 5, 8, 0.5, -1.0, -2.0, -0.5, 1.5, 2.0, 3.0, 4.0, 0.0, np.nan, 10)
    exponent = exponents[b % len(exponents)]
    if value.dtype.kind == "bool":
        value = value.astype("int32")
    if not value.dtype.is_float and isinstance(exponent, float):
        value = value.astype("float64")
    return gx.power(value, exponent), shape


def _softmaxes(x: Any, kind: int) -> Any:
    top = x.max(axis=-1, keepdims=True)
    e, shifted = gx.exp(x), gx.exp(x - top)
    row = {"axis": -1, "keepdims": True}
    made: list[Callable[[], Any]] = [
        lambda: gx.log(gx.sum(e, **row)) * gx.ones_like(x),
        lambda: gx.log(gx.mean(e, **row)) + x,
        lambda: e / gx.sum(e, **row), lambda: shifted / gx.sum(shifted, **row),
        lambda: gx.log(e / gx.sum(e, **row)), lambda: x - gx.log(gx.sum(e, **row)),
        lambda: x - top - gx.log(gx.sum(shifted, **row)),
        lambda: gx.log(gx.nn.softmax(x)), lambda: gx.exp(gx.nn.log_softmax(x)),
        lambda: x - gx.logsumexp(x, **row), lambda: gx.log(gx.sum(gx.exp(x * 2.0), **row)) + x,
        lambda: gx.log(gx.sum(shifted, **row)) + top + x,
        lambda: e * gx.reciprocal(gx.sum(e, **row)),
        lambda: gx.log(gx.sum(e * gx.exp(-top), **row)) - x,
        lambda: gx.log(gx.prod(e, **row)) + x, lambda: gx.log(e) - gx.log(gx.sum(e, **row)),
        lambda: (e + 1.0) / gx.sum(e, **row), lambda: gx.exp(2 * x) / gx.sum(e * e, **row),
    ]  # fmt: skip
    return made[kind % len(made)]()


def _sigmoids(x: Any, kind: int) -> Any:
    e, m = gx.exp(x), gx.exp(-x)
    made: list[Callable[[], Any]] = [
        lambda: 1 / (1 + m), lambda: e / (1 + e), lambda: gx.log(1 + e),
        lambda: gx.log(1 / (1 + m)),
        lambda: gx.log(1 - gx.sigmoid(x)), lambda: gx.log(gx.sigmoid(-x)), lambda: e - 1,
        lambda: 1 - e, lambda: gx.log(1 + x), lambda: gx.log(1 - x), lambda: (e - m) / (e + m),
        lambda: (e - m) * 0.5, lambda: (e + m) / 2, lambda: 2 * gx.sigmoid(2 * x) - 1,
        lambda: e / (e + m), lambda: gx.log(e + m), lambda: x * gx.sigmoid(x),
        lambda: 1 - gx.tanh(x),
        lambda: gx.log(e * m), lambda: gx.log(e / (1 + e)), lambda: gx.sqrt(e * e), lambda: e * m,
        lambda: e / m, lambda: (e - 1) / (e + 1), lambda: (1 - m) / (1 + m), lambda: gx.log(e) + e,
        lambda: gx.power(e, 2.0), lambda: gx.power(1 + e, -1.0), lambda: 1 / (1 + gx.exp(-2.0 * x)),
        lambda: gx.log(3 + e), lambda: gx.log(e + e), lambda: (2 * e) / (1 + e),
        lambda: m / (1 + m),
        lambda: 1 - 1 / (1 + e), lambda: gx.log(gx.abs(x) * e), lambda: gx.log(x * e),
        lambda: gx.log1p(e - 1), lambda: gx.expm1(gx.log(x)), lambda: gx.log(gx.sqrt(1 + e)),
        lambda: gx.log(1 + gx.exp(e)), lambda: gx.logaddexp(x, 0.0),
        lambda: gx.log(gx.exp(x - 1) * 2),
    ]  # fmt: skip
    return made[kind % len(made)]()


def _by_row(m: Maker, a: int, b: int, c: int) -> Made:
    value, shape = m.floats(a)
    if not shape or not shape[-1]:
        return value, shape
    return _softmaxes(value, b), shape


def _pointwise_spelling(m: Maker, a: int, b: int, c: int) -> Made:
    value, shape = m.floats(a)
    return _sigmoids(value, b), shape


def _two_exponentials(m: Maker, a: int, b: int, c: int) -> Made:
    x, y, shape = m.pair(a, b)
    x, y = (v if v.dtype.is_float else v.astype("float32") for v in (x, y))
    if shape != m.pick(a)[1] or shape != m.pick(b)[1]:
        shape, y = m.pick(a)[1], x * 0.5
    e, f = gx.exp(x), gx.exp(y)
    made: list[Callable[[], Any]] = [
        lambda: e / (e + f), lambda: gx.log(e + f), lambda: gx.log(e * f), lambda: e * f,
        lambda: gx.log(e / f), lambda: e / f, lambda: -(y * gx.log(1 / (1 + 1 / e))),
        lambda: gx.log(e * y + f), lambda: gx.log(1 + e * f), lambda: gx.sqrt(x) * gx.sqrt(y),
        lambda: (x + y) - y, lambda: (x * y) / y, lambda: x * y + x, lambda: gx.log(x * y),
        lambda: gx.log(x) - gx.log(y),
        lambda: x * gx.log(gx.sigmoid(y)) + (1 - x) * gx.log(1 - gx.sigmoid(y)),
        lambda: gx.maximum(x, y) - gx.minimum(x, y), lambda: gx.where(x > y, x, y),
    ]  # fmt: skip
    return made[c % len(made)](), shape


def _affine(m: Maker, a: int, b: int, c: int) -> Made:
    """A product with constant weights and what a batch norm does around it."""
    value, shape = m.floats(a)
    if len(shape) < 2 or not isinstance(value.shape[-1], int):
        return value * 2.0 + 1.0, shape
    rng = np.random.default_rng(b)
    width = (1, 5, 9, 33)[b % 4]
    dtype = value.dtype.numpy
    weights = rng.normal(size=(shape[-1], width)).astype(dtype)
    vectors = [rng.uniform(0.5, 2, width).astype(dtype) for _ in range(4)]
    result = value
    if c & 1:
        result = result * rng.uniform(0.5, 2, shape[-1]).astype(dtype)
    result = result @ gx.constant(weights)
    if c & 2:
        result = result + vectors[0]
    if c & 4:
        result = (result - vectors[1]) / gx.sqrt(gx.constant(vectors[2]) + dtype.type(1e-3))
    if c & 8:
        result = result * vectors[3] + vectors[0]
    if c & 16:
        result = gx.nn.relu(-result)
    if c & 32 and width == 5:
        result = result @ gx.constant(rng.normal(size=(5, 5)).astype(dtype))
    return result, (*shape[:-1], width)


def _affine_chain(m: Maker, a: int, b: int, c: int) -> Made:
    value, shape = m.floats(a)
    for number in (b, c, b + c):
        k = value.dtype.numpy.type((number % 7 - 3) / 2)
        value = (value * k, value + k, value - k, k - value, value / k)[number % 5]
    return value, shape


def _einsum(m: Maker, a: int, b: int, c: int) -> Made:
    value, shape = m.pick(a)
    if value.dtype.kind == "bool":
        value = value.astype("int32")
    if len(shape) == 1:
        text, dims = (
            ("i,i->", ()), ("i,j->ij", shape * 2), ("i,i->i", shape), ("i->", ()), ("i,j->", ()),
        )[b % 5]  # fmt: skip
        return (gx.einsum(text, value, value) if "," in text else gx.einsum(text, value)), dims
    if len(shape) == 2:
        i, j = shape
        text, dims = (
            ("ij,kj->ik", (i, i)), ("ij,ik->kj", (j, j)), ("ij,ij->", ()), ("ij->ji", (j, i)),
            ("ij,ij->j", (j,)), ("ij,kj->kji", (i, j, i)), ("ij,kl->il", (i, j)), ("ij->j", (j,)),
            ("ij,kj,kl->il", (i, j)), ("ij,kj,kl->", ()), ("ij,ij,kj->ki", (i, i)),
        )[b % 11]  # fmt: skip
        return gx.einsum(text, *[value] * (text.count(",") + 1)), dims
    if len(shape) == 3:
        n, i, j = shape
        text, dims = (
            ("nij,nkj->nik", (n, i, i)), ("nij,nik->njk", (n, j, j)), ("nij,nij->n", (n,)),
            ("nij->jin", (j, i, n)), ("nij,mij->nm", (n, n)), ("nij,mkj->nmik", (n, n, i, i)),
        )[b % 6]  # fmt: skip
        return gx.einsum(text, *[value] * (text.count(",") + 1)), dims
    return value, shape


def _product_chain(m: Maker, a: int, b: int, c: int) -> Made:
    value, shape = m.pick(a)
    if value.dtype.kind == "bool":
        value = value.astype("int64")
    if len(shape) != 2:
        return value, shape
    x = value
    made: list[Callable[[], Any]] = [
        lambda: (x @ x.T) @ x, lambda: x @ (x.T @ x), lambda: x @ x.T @ x @ x.T @ x,
        lambda: ((x.T @ x) @ x.T).T, lambda: (2 * x) @ (x.T @ (x * 3)), lambda: -(x @ x.T) @ x,
    ]  # fmt: skip
    return made[b % len(made)](), shape


def _reduced_again(m: Maker, a: int, b: int, c: int) -> Made:
    """Reductions of what was repeated, moved, negated, scaled or reduced."""
    value, shape = m.pick(a)
    if len(shape) not in (1, 2) or not np.prod(shape):
        return value, shape
    name = ("sum", "max", "min", "mean", "prod", "any", "all")[c % 7]
    if value.dtype.kind == "bool":
        value = value.astype("int32")
    x: Any = value
    rank, size = len(shape), (0, 1, 3)[b % 3]
    kind = b // 3 % 7
    function = getattr(gx, name)
    if kind == 0:
        if not size and name in ("max", "min", "mean"):
            size = 2
        return function(gx.broadcast_to(x, (size, *x.shape)), axis=0), shape
    if kind == 1:
        return function(gx.transpose(x)), ()
    if kind == 2:
        return function(-x if x.dtype.kind != "uint" else ~x, axis=-1), shape[:-1]
    if kind == 3:
        return function(x * 3, axis=0), shape[1:]
    if kind == 4:
        return function(function(x, axis=-1, keepdims=True), axis=0), (1,) if rank == 2 else ()
    if kind == 5:
        return function(gx.expand_dims(x, 0), axis=0), shape
    return function(gx.reshape(x, (-1,))), ()


def _moves(m: Maker, a: int, b: int, c: int) -> Made:
    """Slices, margins, joins and reversals after each other, computed along in NumPy's shapes."""
    value, shape = m.pick(a)
    if not shape:
        return value, shape
    rng = np.random.default_rng(b * 61 + c)
    for _ in range(1 + c % 5):
        axis = int(rng.integers(0, len(shape)))
        before = (slice(None),) * axis
        kind = int(rng.integers(0, 8))
        if kind < 3:
            start, stop = (int(n) for n in rng.integers(-4, 5, 2))
            step = int(rng.choice([-3, -2, -1, 1, 2, 3]))
            parts = (slice(start, stop, step), slice(start, None, step), slice(None, stop, step))
            index = (*before, parts[kind])
            shape, value = np.empty(shape)[index].shape, value[index]
        elif kind == 3:
            widths = [(0, 0)] * len(shape)
            widths[axis] = tuple(int(n) for n in rng.integers(0, 3, 2))  # type: ignore[assignment]
            value = gx.pad(value, widths)
            shape = tuple(s + sum(w) for s, w in zip(shape, widths, strict=True))
        elif kind == 4 and np.prod(shape) < 400:
            value = gx.concatenate([value, gx.flip(value, axis)], axis=axis)
            shape = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
        elif kind == 5:
            order = [int(n) for n in rng.permutation(len(shape))]
            value, shape = gx.transpose(value, order), tuple(shape[n] for n in order)
        elif kind == 6 and np.prod(shape) < 400:
            value, shape = gx.tile(value, (2,) * len(shape)), tuple(2 * n for n in shape)
        elif kind == 7 and len(shape) < 4:
            value, shape = value[(*before, None)], (*shape[:axis], 1, *shape[axis:])
    return value, shape


def _nested_cond(m: Maker, a: int, b: int, c: int) -> Made:
    x, shape = m.floats(a)
    y, _ = m.floats(b)
    total = gx.sum(gx.where(gx.isfinite(y), y, 0.0))
    first = (total > 0.0, total >= total, total < total - 1.0, x.sum() == x.sum())[c % 4]

    def outer() -> Any:
        return gx.cond(
            total > 2.0, lambda: x + total.astype(x.dtype), lambda: gx.exp(x) if c % 2 else x * 1.0
        )

    def other() -> Any:
        return gx.cond(first, lambda: x * 5.0, lambda: -x) if c % 3 else x

    return gx.cond(first, outer, other), shape


def _nested_loop(m: Maker, a: int, b: int, c: int) -> Made:
    x, shape = m.floats(a)
    trips, inner = b % 4, c % 3

    def body(count: Any, value: Any) -> Any:
        def step(i: Any, v: Any) -> Any:
            return i + 1, v + x * 0.5 if c % 2 else gx.tanh(v) * gx.exp(-gx.abs(x))

        ended = gx.while_loop(lambda i, v: i < inner, step, (gx.constant(0), value))[1]
        return count + 1, gx.cond(gx.equal(count % 2, 0), lambda: ended + 1.0, lambda: ended)

    return gx.while_loop(lambda i, v: i < trips, body, (gx.constant(0), x))[1], shape


def _swapping_loop(m: Maker, a: int, b: int, c: int) -> Made:
    """A Fibonacci of tensors: values that change places, one that stands still."""
    x, shape = m.pick(a)
    if x.dtype.kind == "bool":
        x = x.astype("int32")
    results = gx.while_loop(
        lambda i, p, q, still: i < b % 6,
        lambda i, p, q, still: (i + 1, q, p + q if c % 2 else p, still),
        (gx.constant(0), x, x * 2, x),
    )
    return results[1 + c % 3], shape


def _gradient(m: Maker, a: int, b: int, c: int) -> Made:
    """The gradient of a value that was made by one that was there before."""
    y, shape = m.floats(a)
    if not y.dtype.is_float:
        return y, shape
    for number in range(len(m.pool)):
        x, dims = m.pool[(b + number) % len(m.pool)]
        if not x.dtype.is_float or x.dtype is not y.dtype:
            continue
        try:
            loss = gx.sum(y * y) if c % 2 else gx.sum(gx.sin(y))
            found = gx.gradients(loss, x)
        except (gx.GradientError, gx.UnsupportedError):
            continue
        return found, dims
    return y, shape


def _wide_cast(m: Maker, a: int, b: int, c: int) -> Made:
    """Two casts in a row."""
    value, shape = m.pick(a)
    names = ("float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
             "uint64", "bool")  # fmt: skip
    return value.astype(names[b % 11]).astype(names[c % 11]), shape


def _gather(m: Maker, a: int, b: int, c: int) -> Made:
    value, shape = m.pick(a)
    if not shape or not shape[-1]:
        return value, shape
    rng = np.random.default_rng(b)
    places = rng.integers(-shape[-1], shape[-1], (*shape[:-1], 2))
    if c % 2 or not all(isinstance(n, int) for n in value.shape):
        return gx.take(value, places.reshape(-1)[:3], axis=-1), (
            *shape[:-1], min(3, places.size),
        )  # fmt: skip
    return gx.take_along_axis(value, gx.constant(places), axis=-1), (*shape[:-1], 2)


MORE: tuple[Step, ...] = (
    *STEPS, _integer_by_constant, _integer_by_constant, _integer_pairs, _integer_pairs, _limits,
    _limits, _float_by_constant, _float_by_constant, _powers, _by_row, _by_row,
    _pointwise_spelling, _pointwise_spelling, _two_exponentials, _affine, _affine, _affine_chain,
    _einsum, _product_chain, _reduced_again, _reduced_again, _moves, _moves, _nested_cond,
    _nested_loop, _swapping_loop, _gradient, _gradient, _gradient, _wide_cast, _wide_cast, _gather,
    unary(gx.arctan), unary(gx.cosh), unary(gx.erf), unary(gx.nn.silu), unary(gx.trunc),
    unary(gx.isnan), unary(gx.rsqrt), unary(lambda x: gx.clip(x, -1.0, 1.0)),
    unary(gx.arcsinh), unary(gx.arccos), unary(gx.cbrt), unary(gx.log10), unary(gx.sinc),
    unary(gx.signbit), unary(gx.nan_to_num), unary(lambda x: gx.copysign(x, 1 - x)),
    unary(lambda x: gx.frexp(x)[0]), unary(lambda x: gx.roll(x, 1)),
    unary(lambda x: gx.fmax(x, 1.0)),
)  # fmt: skip
"""The single operations and these."""


JOINING = (*MORE, *[joining] * (len(MORE) // 4))
"""The same, a fifth of them concatenations."""


def source(program: Program) -> str:
    """The text of what a program computes."""
    return str(extract(program.graph, program.fetches, [], {}).graph)
