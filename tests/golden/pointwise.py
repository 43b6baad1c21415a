"""Work on single elements: every primitive in every dtype, and every way to emit a function."""

from __future__ import annotations

from typing import Any

import graphc as gx
from golden.registry import p, program

FLOATS = ("float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
DTYPES = (*FLOATS, *INTEGERS, "bool")
MANY = 1003
"""Elements: whole vectors, and a tail on every target."""

FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "tanh", "sinh", "cosh",
    "arctan", "erf", "erfc", "sigmoid",
)  # fmt: skip


@program()
def float_arithmetic() -> Any:
    """Operations of one and two floats that round at most once."""
    fetched = []
    for dtype in FLOATS:
        x, y = p(MANY, dtype=dtype), p(MANY, dtype=dtype)
        fetched += [
            (x + y) * (x - y) / y, gx.minimum(x, y) + gx.maximum(x, -y), gx.abs(x) + gx.sign(y),
            gx.sqrt(x) - gx.floor(y), gx.ceil(x) * gx.round(y) + gx.trunc(x), gx.reciprocal(x),
            gx.guarded_multiply(x, y), gx.hypot(x, y), gx.clip(x, -0.5, y), gx.square(x),
            gx.relu(x), gx.leaky_relu(y), gx.logaddexp(x, y), gx.arctan2(x, y),
        ]  # fmt: skip
    return fetched


@program()
def remainders() -> Any:
    """Quotients that are rounded down, and the remainders of both kinds, of every number."""
    fetched = []
    for dtype in (*FLOATS, *INTEGERS):
        x, y = p(MANY, dtype=dtype), p(MANY, dtype=dtype)
        fetched += [x // y, gx.mod(x, y), gx.fmod(x, y)]
    return fetched


@program()
def integer_arithmetic() -> Any:
    """Operations of integers of every width: wrapping, shifts and bits."""
    fetched = []
    for dtype in INTEGERS:
        x, y = p(MANY, dtype=dtype), p(MANY, dtype=dtype)
        fetched += [
            (x + y) * (x - y), -x, gx.abs(x) + gx.sign(y), gx.minimum(x, y) * gx.maximum(x, y),
            gx.left_shift(x, y), gx.right_shift(x, y), ~(x & y) | (x ^ y),
        ]  # fmt: skip
    return fetched


@program()
def comparisons() -> Any:
    """Every relation in every dtype, picking, and the logic of bools."""
    fetched = []
    for dtype in DTYPES:
        x, y = p(MANY, dtype=dtype), p(MANY, dtype=dtype)
        fetched += [(x < y) & (x != y), (x <= y) | (x == y), (x > y) ^ (x >= y)]
        fetched.append(gx.where(x < y, x, y))
        if dtype in FLOATS:
            fetched.append(gx.isnan(x) | gx.isinf(y) | gx.isfinite(x * y))
    a, b = p(MANY, dtype="bool"), p(MANY, dtype="bool")
    fetched += [~a & b, a | b, gx.logical_xor(a, b), gx.minimum(a, b), gx.maximum(a, b), a + b]
    return [*fetched, a * b, gx.where(a, b, ~b)]


@program()
def conversions() -> Any:
    """Every dtype as every other one, in vectors and as one element."""
    fetched = []
    for source in DTYPES:
        x, one = p(MANY, dtype=source), p(dtype=source)
        for target in DTYPES:
            if target != source:
                fetched += [x.astype(target), one.astype(target)]
    return fetched


@program()
def powers() -> Any:
    """Powers of floats and of integers, with exponents that are known and that aren't."""
    fetched = []
    for dtype in FLOATS:
        x, y = p(MANY, dtype=dtype), p(MANY, dtype=dtype)
        fetched += [gx.power(x, y), gx.power(x, 3.0), gx.power(x, -0.5), gx.power(2.0, y)]
    for dtype in INTEGERS:
        x, y = p(MANY, dtype=dtype), p(MANY, dtype=dtype)
        fetched += [gx.power(x, y), gx.power(x, 5), gx.power(p(dtype=dtype), p(dtype=dtype))]
    return fetched


def _one_kernel_each(dtype: str) -> Any:
    return [getattr(gx, name)(p(MANY, dtype=dtype)) for name in FUNCTIONS]


@program()
def functions_of_floats() -> Any:
    """Elementary functions where they are used, in float32."""
    return _one_kernel_each("float32")


@program()
def functions_of_doubles() -> Any:
    """Elementary functions where they are used, in float64."""
    return _one_kernel_each("float64")


@program()
def functions_of_one_element() -> Any:
    """Elementary functions of one lane."""
    return [getattr(gx, name)(p(dtype=dtype)) for dtype in FLOATS for name in FUNCTIONS]


@program()
def functions_called() -> Any:
    """A kernel of so many functions that they are called, and becomes glue; one that isn't glue."""
    fetched = []
    for dtype in FLOATS:
        x = p(MANY, dtype=dtype)
        total = x
        for name in FUNCTIONS:
            total = total + getattr(gx, name)(x)
        fetched += [gx.power(total, x), gx.sum(gx.exp(p(40, 70, dtype=dtype)), axis=1)]
        fetched += [gx.tanh(p(70, 37, dtype=dtype).T), gx.cumsum(gx.sin(x))]
    return fetched


@program(fast_math={"approx", "contract", "reassoc", "nsz"})
def fast_math() -> Any:
    """Approximate functions, and multiplications fused with additions."""
    fetched = []
    for dtype in FLOATS:
        x, y, z = (p(MANY, dtype=dtype) for _ in range(3))
        for name in ("log", "tanh", "sigmoid", "erf", "erfc", "sin", "cos", "exp"):
            fetched.append(getattr(gx, name)(x * 2.0) * y + z)
        fetched += [((x * 0.3 + 0.2) * x - 0.7) * x + y / 3.0, gx.gelu(x), z - x * y]
    return fetched


@program()
def activations() -> Any:
    """The activations of networks, with their gradients."""
    x = p(64, 96)
    values = [
        gx.gelu(x), gx.silu(x), gx.softplus(x), gx.sigmoid(x), gx.tanh(x), gx.relu(x),
        gx.leaky_relu(x, 0.1), gx.rsqrt(x),
    ]  # fmt: skip
    return [*values, *(gx.gradients(gx.sum(value), [x])[0] for value in values)]


@program()
def special_functions() -> Any:
    """Functions that are one formula of many scalars, and the slope of one."""
    fetched = []
    for dtype in FLOATS:
        x, y = p(MANY, dtype=dtype), p(MANY, dtype=dtype)
        fetched += [gx.special.gamma(x), gx.special.ndtr(x) + gx.special.i0e(y)]
        fetched += [gx.special.zeta(x, y), gx.gradients(gx.sum(gx.special.gammaln(x)), x)]
    return fetched


@program()
def few_bits() -> Any:
    """Conversions to and from floats of 8 and 16 bits and integers of 4, of every kind."""
    x, wide = p(MANY), p(MANY, dtype="float64")
    fetched = []
    for dtype in (
        "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4"
    ):  # fmt: skip
        stored = p(MANY, dtype=dtype)
        fetched += [
            stored.astype("float32") * x, stored.astype("int64"), x.astype(dtype),
            wide.astype(dtype), stored[::-1],
        ]  # fmt: skip
    return fetched


@program()
def bits_of_numbers() -> Any:
    """Words: rounded, multiplied, counted, reduced, as another dtype."""
    x, i, rows = p(MANY), p(MANY, dtype="int64"), p(40, 1003, dtype="int32")
    return [
        gx.reduce_precision(x, 5, 10) * 2.0, gx.mulhi(i, i), gx.population_count(i),
        gx.reduce_xor(rows, 1), gx.reduce_and(rows, 0), gx.reduce_or(rows),
        gx.bitcast_convert_type(x * 2.0, "int32") + 1, gx.bitcast_convert_type(i, "uint8"),
    ]  # fmt: skip


@program()
def called_formulas() -> Any:
    """Formulas with loops, which kernels call, and their slopes."""
    x, y, z = p(MANY), p(MANY), p(MANY, dtype="float64")
    whole = gx.special.gammainc(x, y)
    fetched = [gx.special.betainc(z, 2.0, 0.25), whole, *gx.gradients(gx.sum(whole), [x, y])]
    return fetched


@program()
def draws_of_keys() -> Any:
    """Random numbers of counters: what neighbouring lanes share, whole and in rows."""
    key, x = p(2, dtype="uint32"), p("n", 37)
    one, two = gx.random.split(key)
    normal = gx.random.normal(one, x.shape)
    return [
        gx.random.uniform(key, (1003,)), gx.random.normal(key, (64, 100), "float64"),
        x + normal * 0.5, gx.random.dropout(two, gx.softmax(x), 0.1), gx.sum(normal, axis=1),
        gx.random.bits(key, (999,), "uint8"), gx.random.gumbel(gx.random.fold_in(key, 7), (5,)),
    ]  # fmt: skip


@program(optimize=0)
def one_kernel_an_operation() -> Any:
    """What is not optimised: each operation has a kernel, equal ones share it, and all are glue."""
    x, y = p(33, 40), p(40)
    hidden = gx.tanh(x + y) * 2.0
    places = p(5, dtype="int64")
    return [
        gx.tanh(hidden + y), gx.softmax(hidden), hidden.T, gx.take(hidden, places, axis=0),
        hidden @ p(40, 9), gx.cumsum(x, axis=1), gx.scatter_add(x, places, p(5, 40)),
        gx.take(x, places, axis=0), gx.cond(p(dtype="bool"), lambda: x, lambda: hidden),
    ]  # fmt: skip


@program(optimize=1)
def quickly_compiled() -> Any:
    """Fused, but compiled as glue."""
    x = p(40, 50)
    return [gx.softmax(gx.gelu(x @ p(50, 50))), gx.exp(x).T, x.sum(axis=0)]
