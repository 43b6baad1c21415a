"""Reductions along the last axis, and what is computed of rows around them."""

from __future__ import annotations

from typing import Any

import graphc as gx
from golden.registry import p, program

FLOATS = ("float32", "float64")
DTYPES = (*FLOATS, "int8", "int16", "int32", "int64", "uint8", "uint64")


@program()
def sums_of_rows() -> Any:
    """Ordered sums and products of every length: no whole step, a tail, several levels."""
    fetched = []
    for dtype in FLOATS:
        for length in (5, 31, 64, 100, 5000, 140_000):
            fetched.append(gx.sum(p(3, length, dtype=dtype), axis=1))
        x = p(37, 203, dtype=dtype)
        fetched += [gx.prod(x * 0.1 + 1.0, axis=1), gx.mean(x, axis=1), gx.sum(x)]
        fetched += [gx.sum(gx.abs(x), axis=(0, 1)), gx.sum(p(3, 0, dtype=dtype), axis=1)]
    return fetched


@program()
def free_reductions() -> Any:
    """Reductions whose order is free: extremes, integers, bools; short rows and long ones."""
    fetched = []
    for dtype in DTYPES:
        for length in (3, 40, 300):
            x = p(7, length, dtype=dtype)
            fetched += [x.max(axis=1), x.min(axis=1)]
        fetched += [x.sum(axis=1), gx.prod(x, axis=1)]
    for length in (3, 40, 300):
        flags = p(7, length, dtype="bool")
        fetched += [gx.any(flags, axis=1), gx.all(flags, axis=1), flags.max(axis=1)]
    return fetched


@program()
def positions_of_extremes() -> Any:
    """argmin and argmax, along rows and down columns, of a long row as well."""
    fetched = []
    for dtype in (*FLOATS, "int32", "uint8"):
        x = p(37, 203, dtype=dtype)
        fetched += [gx.argmax(x, axis=1), gx.argmin(x, axis=1), gx.argmax(x, axis=0)]
    long = p(1_000_003)
    return [*fetched, gx.argmin(p(70, 9), axis=0), gx.argmax(long), long.max(), long.sum()]


@program()
def several_reductions_of_a_row() -> Any:
    """Reductions of several dtypes and orders in one row, with results once a row."""
    x = p(64, 300)
    return [
        x.max(axis=1), gx.argmax(x, axis=1), x.sum(axis=1), gx.any(x > 0, axis=1),
        gx.sum((x > 0).astype("int32"), axis=1), gx.sum(x.astype("float64"), axis=1),
        gx.min(x * x, axis=1) + x.sum(axis=1), gx.prod(x, axis=1),
    ]  # fmt: skip


@program()
def softmaxes() -> Any:
    """Staged rows of every length: staggered with and without a tail, short ones, and columns."""
    fetched = []
    for columns in (6, 64, 100, 301, 544, 1024):
        fetched.append(gx.softmax(p(50, columns)))
    x = p(50, 544, dtype="float64")
    fetched += [gx.softmax(x), gx.log_softmax(x), gx.logsumexp(x, axis=1), gx.softmax(x, axis=0)]
    return [*fetched, gx.softmax(gx.flip(p(50, 544), (0, 1))), gx.log_softmax(p(20, 20), axis=0)]


@program()
def normalisations() -> Any:
    """Means, variances and what is scaled by them, for few terms and many."""
    fetched = []
    for shape in ((50, 40), (50, 544), (4096, 1024)):
        x = p(*shape)
        fetched += [gx.layer_norm(x, shape[1:]), gx.rms_norm(x, shape[1:])]
        fetched += [gx.var(x, axis=1), gx.std(x, axis=1), gx.var(x, axis=0), gx.std(x, axis=0)]
    x = p(9, 33, dtype="float64")
    centred = x - gx.mean(x, axis=1, keepdims=True)
    return [*fetched, centred / gx.std(x, axis=1, keepdims=True), gx.var(p(6, 5, 40), axis=(1, 2))]


@program()
def staggered_rows() -> Any:
    """Rows in several stages at a time: what is handed on, kept in scratch, or reduced aside."""
    x, row = p(70, 544), p(544)
    largest = gx.max(gx.abs(x), axis=1, keepdims=True)
    size = gx.sqrt(gx.sum(gx.square(x / largest), axis=1, keepdims=True))
    left = x + gx.tanh(x)
    centred = left - gx.mean(left, axis=1, keepdims=True)
    falls = gx.sum(x, axis=1, keepdims=True) < 0
    z = p(70, 544)
    (slope,) = gx.gradients(gx.sum(gx.softmax(z) * gx.arange(544, dtype="float32")), [z])
    return [
        [x / (size * largest), largest, size],
        centred / gx.sqrt(gx.var(left, 1, keepdims=True) + 1.0),
        gx.where(falls, -x, x), x - x[:, :16].sum(axis=1, keepdims=True) * x.sum(1, keepdims=True),
        slope, gx.softmax(x * row) * row, gx.softmax(p(70, 544) + p(70, 544)[:, ::-1]),
    ]  # fmt: skip


@program()
def staggered_rows_from_memory() -> Any:
    """Staggered rows that are far larger than the caches: asked for ahead, and streamed."""
    return [
        gx.softmax(p(4096, 1024)), gx.layer_norm(p(4096, 1024), (1024,)), gx.softmax(p(4096, 1003)),
        gx.log_softmax(p(9000, 544)), gx.softmax(p(3000, 1024), axis=0),
    ]  # fmt: skip


@program()
def gradients_of_rows() -> Any:
    """The backward pass of staged rows: four stages, and sums down the columns."""
    x, scale = p(70, 544), p(544)
    fetched = []
    for value in (gx.softmax(x), gx.layer_norm(x, (544,)) * scale, gx.rms_norm(x, (544,)),
                  gx.logsumexp(x, axis=1, keepdims=True) + x, gx.std(x, axis=1)):  # fmt: skip
        loss = gx.sum(value * gx.cos(value))
        fetched += gx.gradients(loss, [x])
    fetched += gx.gradients(gx.sum(gx.layer_norm(x, (544,)) * scale), [scale])
    labels = p(70, dtype="int64")
    return [*fetched, *gx.gradients(gx.mean(gx.softmax_cross_entropy(x, labels)), [x])]


@program()
def rarely_needed_sums() -> Any:
    """Norms that are computed anew where squares leave the range: along rows, columns, one row."""
    x, tall, long = p(66, 70), p(300, 200), p(600_000)
    fetched = [gx.sqrt(gx.sum(p(66, 70, dtype="float64") ** 2, axis=axis)) for axis in (0, 1)]
    for value in (x, tall):
        fetched += [gx.sqrt(gx.sum(value * value, axis=axis)) for axis in (0, 1)]
        fetched += [value / gx.std(value, axis=axis, keepdims=True) for axis in (0, 1)]
    fetched += [gx.sqrt(gx.sum(p(5, 9) ** 2, axis=1)), gx.rsqrt(gx.mean(x * x, axis=1)) * x[:, 0]]
    return [*fetched, gx.sqrt(gx.sum(long * long)), gx.std(long)]


@program()
def long_rows() -> Any:
    """One row that threads share: groups of terms, what is left of them, statistics."""
    fetched = []
    for dtype in FLOATS:
        for length in (600_000, 1_000_003):
            x = p(length, dtype=dtype)
            fetched += [gx.sum(x), gx.prod(x * x), gx.var(x), gx.logsumexp(x)]
    x = p(1_000_003)
    return [*fetched, gx.softmax(x), x / gx.sum(x), gx.sum(p(1000, 1000)), gx.max(p(9_000_000))]


@program()
def few_rows_of_blocks() -> Any:
    """Rows behind a product, that are no whole vectors: run through as one where that is right."""
    x = p(40, 20)
    return [
        gx.tanh(x @ p(20, 21)) + p(40, 21), gx.relu(x @ p(20, 33) + p(33)), x @ p(20, 7) * 2.0,
        gx.softmax(x @ p(20, 21)), gx.layer_norm(x @ p(20, 64), (64,)),
        gx.sum(x @ p(20, 12), axis=1),
    ]  # fmt: skip


@program()
def shared_rows() -> Any:
    """Rows past the caches that read the same vectors: some at a time, a few lines of each."""
    x, bias, row, column = p(2048, 8192), p(8192), p(8192), p(2048, 1)
    return [(x + bias) * row * column, x * bias + gx.exp(column), p(900, 16384) - p(16384)]
