"""Elements whose place is a number: gathers, scatters, updates in place, states."""

from __future__ import annotations

from typing import Any

import graphc as gx
from golden.registry import numbers, p, program, variable
from graphc.ops.fft.core import transform_pairs
from graphc.ops.fft.real import pairs_to_real, real_to_pairs


@program()
def gathers() -> Any:
    """Rows, columns and elements picked by number: checked, and counted from the end."""
    x, places = p(37, 203), p(61, dtype="int64")
    fetched = [gx.take(x, p(61, dtype=dtype), axis=0) for dtype in ("int8", "int32", "uint16")]
    return [
        *fetched, gx.take(x, places, axis=1), x[places, p(61, dtype="int32")],
        gx.take(x, 5, axis=0),
        gx.take(x, [3, 1, 2], axis=0) + 1.0, x[p(dtype="int64")],
        gx.take(p(50), p(4, 33, dtype="int64"), 0),
        gx.take_along_axis(x, p(37, 5, dtype="int64"), axis=1), x[:, p(9, dtype="int64")] * 2.0,
        gx.take_along_axis(x, p(1, 203, dtype="int32"), axis=0),
        gx.embedding(p(100, 16), p(3, 4, dtype="int64")),
        gx.take(x, places, axis=0).sum(axis=1),
        gx.sum(gx.take_along_axis(x, p(37, 1, dtype="int64"), 1)),
    ]  # fmt: skip


@program()
def gathers_from_large_tables() -> Any:
    """Rows picked from tables that no cache holds: asked for some iterations ahead."""
    table, places = p(20_000, 64), p(100, dtype="int64")
    return [
        gx.take(table, places, 0), gx.take(table, p(7, 9, dtype="int32"), 0) * 2.0 + 1.0,
        gx.max(gx.take(table, places, 0), axis=1), gx.take(p(20_000, 2000), places, 0),
        gx.take(table, gx.take(p(50_000, dtype="int64"), places, 0), 0),
        gx.take(table[:, :16], places, 0),
        gx.softmax(gx.take(table, places, 0)), gx.take(p("n", 64), places, 0),
        gx.take(p(20_000, "m"), places, 0),
    ]  # fmt: skip


@program()
def picked_classes() -> Any:
    """The losses that pick a column of each row, with labels that are checked."""
    x, labels = p(150, 40), p(150, dtype="int64")
    loss = gx.mean(gx.softmax_cross_entropy(x, labels))
    soft = gx.softmax_cross_entropy(x, p(150, 40))
    return [loss, *gx.gradients(loss, [x]), soft, gx.one_hot(labels, 40)]


@program()
def scatters() -> Any:
    """Additions at places: along rows, along columns, an index for each element; into zeros."""
    base, places = p(40, 203), p(61, dtype="int64")
    fetched = []
    for dtype in ("float32", "int32"):
        whole = p(40, 203, dtype=dtype)
        fetched.append(gx.scatter_add(whole, places, p(61, 203, dtype=dtype)))
    table = p(1000, 64)
    picked = gx.take_along_axis(base, p(40, 7, dtype="int64"), 1)
    return [
        *fetched, gx.scatter_add(gx.zeros((40, 203)), p(5, 3, dtype="int32"), p(5, 3, 203)),
        gx.scatter_add(base, places, p(40, 61), axis=1), gx.scatter_add(p(40), places, p(61)),
        *gx.gradients(gx.sum(gx.square(gx.take(table, places, 0))), [table]),
        *gx.gradients(gx.sum(gx.square(picked)), [base]),
        *gx.gradients(gx.sum(gx.square(base[places, p(61, dtype="int64")])), [base]),
    ]  # fmt: skip


@program()
def updates_in_place() -> Any:
    """Variables that are written where they lie, behind the readers of their old values."""
    a, b = variable(64, 96), variable(64, 96)
    table = variable(500, 32)
    old = a.sum(axis=1)
    places = p(20, dtype="int64")
    writes = [
        a.assign(a * 0.9 + b), b.assign(gx.tanh(a)),
        table.assign(gx.scatter_add(table, places, p(20, 32))),
    ]  # fmt: skip
    return [old, gx.take(table, places, 0), gx.group(writes)]


@program()
def results_over_operands() -> Any:
    """Chains of temporaries of which each may lie where the last one did, or may not."""
    x = p(300, 200)
    y = gx.exp(x).sum(axis=0) + x
    z = gx.softmax(y.T) @ p(300, 200)
    turned = (gx.cumsum(z, axis=1) * z)[::-1]
    return gx.sum(turned + gx.sin(z).T.T, axis=1) + gx.max(turned, axis=1)


@program()
def random_states() -> Any:
    """A generator of random numbers by integers, whose state is a variable, and a counter."""
    state = gx.variable(numbers(4, 64).astype("uint32"))
    count = gx.variable(numbers(dtype="int64"))
    x = state ^ gx.left_shift(state, gx.constant(numbers(dtype="uint32") * 0 + 13))
    x = x ^ gx.right_shift(x, gx.constant(numbers(dtype="uint32") * 0 + 17))
    uniform = x.astype("float32") * (1.0 / 2**32)
    normal = gx.sqrt(-2.0 * gx.log(uniform + 1e-7)) * gx.cos(uniform[::-1] * 6.2831853)
    mixed = gx.mod(count * 6364136223846793005 + 1442695040888963407, 2**31)
    return [uniform, normal, uniform < 0.5, gx.group([state.assign(x), count.assign(mixed)])]


@program()
def transformed_rows() -> Any:
    """Fourier transforms of pairs, of sizes known and unknown, and their gradients."""
    x, y = p(3, 60, 2), p("n", None, 2, dtype="float64")
    rows = transform_pairs(x, False, "none", "fft")
    inverse = transform_pairs(y, True, "length", "ifft")
    real = real_to_pairs(p(5, 90), "none", "rfft")
    back = pairs_to_real(y, 2 * y.shape[-2] - 1, "length", "irfft")
    return [rows, inverse, real, back, *gx.gradients(gx.sum(rows * rows), [x])]


@program()
def sorted_rows() -> Any:
    """Rows for native routines, of each width of keys; along other axes, and in gradients."""
    x = p(37, 203)
    keys = [p(5, 60, dtype=dtype) for dtype in ("bool", "uint8", "int16", "uint64", "float64")]
    fetched = [function(key) for key in keys for function in (gx.sort, gx.argsort)]
    return [
        *fetched, gx.sort(x, axis=0), gx.argsort(x, None, True), *gx.top_k(x, 5),
        gx.searchsorted(p(50), x), gx.searchsorted(p(50, dtype="int8"), keys[0][0], "right"),
        gx.bincount(p(300, dtype="int32"), length=40), gx.histogram(x, 10, weights=x)[0],
        gx.median(x, 1), gx.sort(p("n", None)), *gx.gradients(gx.sort(x) * x, [x]),
    ]  # fmt: skip
