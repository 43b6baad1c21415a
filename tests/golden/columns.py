"""Reductions down columns, cumulative operations, and results that go past the caches."""

from __future__ import annotations

from typing import Any

import graphc as gx
from golden.registry import p, program

FLOATS = ("float32", "float64")


@program()
def sums_of_columns() -> Any:
    """Stripes of columns: levels of the cascade, tails of columns, products, means of axes."""
    fetched = []
    for dtype in FLOATS:
        for shape in ((65, 64), (300, 131), (5000, 70), (66_000, 65)):
            fetched.append(gx.sum(p(*shape, dtype=dtype), axis=0))
        x = p(100, 90, dtype=dtype)
        fetched += [gx.prod(x, axis=0), gx.mean(p(3, 100, 90, dtype=dtype), axis=1), x.max(axis=0)]
    return [*fetched, *(gx.sum(p(*shape), axis=0) for shape in ((70, 9), (40, 200), (8192, 1024)))]


@program()
def columns_that_do_not_round() -> Any:
    """Extremes, integers and bools down the columns."""
    x, flags = p(300, 131, dtype="int32"), p(300, 131, dtype="bool")
    return [
        x.sum(axis=0), x.max(axis=0), x.min(axis=0), gx.prod(x, axis=0), gx.any(flags, axis=0),
        gx.all(flags, axis=0), gx.min(p(300, 131), axis=0), gx.sum(p(300, 131, dtype="int8"), 0),
        gx.max(p(64, 200, dtype="uint8"), axis=0), gx.sum((x > 3).astype("int64"), axis=0),
    ]  # fmt: skip


@program()
def statistics_of_columns() -> Any:
    """Several reductions of one column, that follow each other, and what is computed behind."""
    x = p(1000, 95, dtype="float64")
    y = p(300, 200)
    return [
        [gx.mean(x, 0), gx.var(x, 0), gx.max(x, 0)], gx.softmax(y, axis=0), gx.std(y, axis=0),
        (y - gx.mean(y, 0)) / gx.std(y, 0), gx.logsumexp(y, axis=0), gx.argmin(y, axis=0) + 1,
        gx.sum(gx.exp(y), axis=0), gx.sum(y * p(300, 1), axis=0) * p(200), gx.var(p(6, 70), axis=0),
    ]  # fmt: skip


@program()
def long_columns() -> Any:
    """Columns so long that threads share groups of their rows."""
    fetched = []
    for shape in ((100_000, 8), (70_001, 33), (600_000, 3)):
        x = p(*shape)
        fetched += [gx.sum(x, axis=0), gx.mean(x * x, axis=0) + 1.0]
    return [*fetched, gx.sum(p(1, 100_000, 16, dtype="float64"), axis=1), gx.max(p(300_000, 4), 0)]


@program()
def running_sums() -> Any:
    """Scans along each axis of several dtypes, and down a slice of a concatenation."""
    fetched = []
    for dtype in (*FLOATS, "int32"):
        x = p(20, 70, dtype=dtype)
        fetched += [gx.cumsum(x, axis=0), gx.cumsum(x, axis=1), gx.cumprod(x, axis=1)]
    cube = p(4, 30, 50)
    fetched += [gx.cumsum(cube, axis=1), gx.cumsum(p(1000)), gx.cumsum(p(9, dtype="int8") + 1)]
    loss = gx.sum(gx.cumsum(cube, 1) * cube + gx.cumprod(cube, 2))
    return [*fetched, *gx.gradients(loss, [cube])]


@program()
def streamed_maps() -> Any:
    """Results past the caches: whole runs, rows, several results of other sizes, slices."""
    x = p(2300, 1801)
    big = p(4_000_000)
    return [
        gx.relu(x * 0.3 + 1.0), (x + 1.0) * p(2300, 1), x[:, ::-1] + 1.0, x[1:, 3:] * 2.0,
        [big.astype("float64"), big != 0],
        p(13_000_000, dtype="int8") + p(13_000_000, dtype="int8"),
        gx.concatenate([gx.exp(x), gx.sin(x)], 1), gx.broadcast_to(p(1801), (3000, 1801)),
        gx.pad(x, ((1, 1), (5, 5))),
    ]  # fmt: skip


@program()
def streamed_tiles() -> Any:
    """Transposes past the caches: by blocks, of short rows, of rows that are no whole lines."""
    x = p(4096, 2048)
    return [
        x.T, p(4001, 2003).T, p(1900, 4096).T * 2.0, p(2048, 1920, dtype="float64").T,
        p(8192, 4096, dtype="int8").T, p(300_000, 20).T, p(20, 300_000).T,
        [p(4096, 2048).T + p(4096), p(4096, 2048).T > 0],
        gx.transpose(p(16, 96, 112, 112), (0, 2, 3, 1)),
        [x.T + 1.0, (x.T + 1.0).astype("float64")], p(4001, 2003, dtype="int16").T,
    ]  # fmt: skip
