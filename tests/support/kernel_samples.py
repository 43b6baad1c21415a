"""Kernels for tests, small ones of every kind that the compiler makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.source import Location
from graphc.ir.dims.expressions import Dim, symbol
from graphc.ir.dtypes import DType, float32, float64, int32, int64
from graphc.ir.lowering import Combine
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Kernel, Order, Site, Var
from graphc.kernel.statements.products import MatrixOperand

N = symbol("n", 1, 10**6)
GENERATOR = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def tensor(dtype: DType, *shape: Dim) -> TensorType:
    return TensorType(dtype, shape)


def pointwise() -> Kernel:
    b = KernelBuilder("scale shift")
    x = b.buffer("x", "in", tensor(float32, N, 48))
    s = b.buffer("s", "in", tensor(float32))
    y = b.buffer("y", "out", tensor(float32, N, 48))
    with b.loop(N, "parallel") as row, b.loop(48, "vector") as column:
        index = b.apply("add", b.apply("multiply", row.index, b.constant(48, int64)), column.index)
        scale = b.load(s, b.constant(0, int64))
        product = b.apply("multiply", b.load(x, index), scale)
        b.store(y, index, b.apply("add", product, b.constant(0.1, float32)))
    return b.finish()


def softmax(width: int = 64) -> Kernel:
    b = KernelBuilder("softmax")
    x = b.buffer("x", "in", tensor(float32, N, width))
    y = b.buffer("y", "out", tensor(float32, N, width))
    row = b.buffer("row", "scratch", tensor(float32, width))
    with b.loop(N, "parallel") as i:
        start = b.apply("multiply", i.index, b.constant(width, int64))
        with b.reduce(width, "lanes") as top:
            top.terms.append(("maximum", b.load(x, b.apply("add", start, top.index))))
        with b.loop(width, "vector") as j:
            value = b.load(x, b.apply("add", start, j.index))
            b.store(row, j.index, b.apply("exp", b.apply("subtract", value, top.results[0])))
        with b.reduce(width, "lanes") as total:
            total.terms.append(("add", b.load(row, total.index)))
        with b.loop(width, "vector") as j:
            part = b.apply("divide", b.load(row, j.index), total.results[0])
            b.store(y, b.apply("add", start, j.index), part)
    return b.finish()


def column_sums(order: Order = "chain") -> Kernel:
    b = KernelBuilder("column sums")
    x = b.buffer("x", "in", tensor(float32, N, 5))
    y = b.buffer("y", "out", tensor(float32, 5))
    with b.loop(5, "vector" if order == "chain" else "parallel") as j:
        with b.reduce(N, order) as total:
            index = b.apply("multiply", total.index, b.constant(5, int64))
            total.terms.append(("add", b.load(x, b.apply("add", index, j.index))))
        b.store(y, j.index, total.results[0])
    return b.finish()


def cumulative_sum() -> Kernel:
    b = KernelBuilder("cumsum")
    x = b.buffer("x", "in", tensor(int32, 7, N))
    y = b.buffer("y", "out", tensor(int32, 7, N))
    last = b.buffer("last", "out", tensor(int32, 7))
    with b.loop(7, "parallel") as i:
        start = b.apply("multiply", i.index, b.dim(N))
        with b.loop(N, "serial", [b.constant(0, int32)]) as t:
            index = b.apply("add", start, t.index)
            running = b.apply("add", t.arguments[0], b.load(x, index))
            b.store(y, index, running)
            t.following = [running]
        b.store(last, i.index, t.results[0])
    return b.finish()


def scatter_add() -> Kernel:
    b = KernelBuilder("scatter")
    updates = b.buffer("updates", "in", tensor(float32, N, 3))
    places = b.buffer("places", "in", tensor(int64, N))
    y = b.buffer("y", "out", tensor(float32, 4, 3))
    site = Site(0, "scatter_add", Location("model.py", 12, 4, 9))
    zero = b.constant(0.0, float32)
    three = b.constant(3, int64)
    with b.loop(12, "vector") as fill:
        b.store(y, fill.index, zero)
    with b.loop(3, "parallel") as j, b.loop(N, "serial") as t:
        place = b.check(b.load(places, t.index), 4, site)
        index = b.apply("add", b.apply("multiply", place, three), j.index)
        source = b.apply("add", b.apply("multiply", t.index, three), j.index)
        b.store(y, index, b.apply("add", b.load(y, index), b.load(updates, source)))
    return b.finish()


def product(dtype: DType = float32, batch: int = 3) -> Kernel:
    b = KernelBuilder("batched product")
    x = b.buffer("x", "in", tensor(dtype, batch, N, 6))
    w = b.buffer("w", "in", tensor(dtype, 4, 6))
    y = b.buffer("y", "out", tensor(dtype, batch, N, 4))
    room = b.buffer("room", "scratch", tensor(float32, 128))
    with b.loop(batch, "parallel") as i:
        left = MatrixOperand(x, b.apply("multiply", i.index, b.dim(N * 6)), 6, 1)
        right = MatrixOperand(w, b.constant(0, int64), 1, 6)
        out = MatrixOperand(y, b.apply("multiply", i.index, b.dim(N * 4)), 4, 1)
        b.contract("panel", (N, 4, 6), left, right, out, room)
    return b.finish()


def product_with_work() -> Kernel:
    """A product in blocks of rows, and what is added to each, which is brought near meanwhile."""
    b = KernelBuilder("product with work")
    x, w = b.buffer("x", "in", tensor(float32, N, 6)), b.buffer("w", "in", tensor(float32, 6, 5))
    r, y = b.buffer("r", "in", tensor(float32, N, 5)), b.buffer("y", "out", tensor(float32, N, 5))
    zero = b.dim(0)
    near = (MatrixOperand(r, zero, 5, 1),)
    block = b.buffer("block", "scratch", tensor(float32, N, 5))
    left, right = MatrixOperand(x, zero, 6, 1), MatrixOperand(w, zero, 5, 1)
    room = b.buffer("room", "scratch", tensor(float32, 128))
    b.contract("panel", (N, 5, 6), left, right, MatrixOperand(block, zero, 5, 1), room, near)
    with b.loop(N * 5, "vector") as i:
        b.store(y, i.index, b.apply("add", b.load(block, i.index), b.load(r, i.index)))
    return b.finish()


def packed_product(dtype: DType = float32) -> Kernel:
    """[n, 7] by a [7, 10] matrix in panels of 4 columns and 3 rows."""
    b = KernelBuilder("product of panels")
    x = b.buffer("x", "in", tensor(dtype, N, 7))
    w = b.buffer("w", "in", tensor(dtype, 3, 3, 3, 4))
    y = b.buffer("y", "out", tensor(dtype, N, 10))
    start = b.constant(0, int64)
    b.contract(
        "packed",
        (N, 10, 7),
        MatrixOperand(x, start, 7, 1),
        MatrixOperand(w, start, 4, 1),
        MatrixOperand(y, start, 10, 1),
        None,
    )
    return b.finish()


def best_places() -> Kernel:
    b = KernelBuilder("best")
    x = b.buffer("x", "in", tensor(float32, 4, N))
    low = b.buffer("low", "out", tensor(int64, 4))
    high = b.buffer("high", "out", tensor(int64, 4))
    with b.loop(4, "parallel") as i:
        start = b.apply("multiply", i.index, b.dim(N))
        with b.reduce(N, "lanes") as best:
            value = b.load(x, b.apply("add", start, best.index))
            best.terms += [("argmin", value), ("argmax", value)]
        b.store(low, i.index, best.results[0])
        b.store(high, i.index, best.results[1])
    return b.finish()


def padded() -> Kernel:
    b = KernelBuilder("pad")
    x = b.buffer("x", "in", tensor(float64, N))
    y = b.buffer("y", "out", tensor(float64, N + 4))
    with b.loop(N + 4, "vector") as i:
        index = b.apply("subtract", i.index, b.constant(2, int64))
        inside = b.apply(
            "and",
            b.apply("greater_equal", index, b.constant(0, int64)),
            b.apply("less", index, b.dim(N)),
        )
        b.store(y, i.index, b.load(x, index, inside, b.constant(-1.5, float64)))
    return b.finish()


def whole(
    dtype: DType, combine: Combine, extent: Dim, order: Order, result: DType | None = None
) -> Kernel:
    b = KernelBuilder("reduce")
    x = b.buffer("x", "in", tensor(dtype, extent))
    y = b.buffer("y", "out", tensor(result or dtype))
    with b.reduce(extent, order) as total:
        total.terms.append((combine, b.load(x, total.index)))
    b.store(y, b.constant(0, int64), total.results[0])
    return b.finish()


def first_terms() -> Kernel:
    """Sums of as many terms as the row's number says, but for the last of all."""
    b = KernelBuilder("triangle")
    x = b.buffer("x", "in", tensor(float32, 70, 70))
    y = b.buffer("y", "out", tensor(float32, 70))
    with b.loop(70, "parallel") as i:
        count = b.apply("minimum", i.index, b.dim(68))
        with b.reduce(count, "lanes") as total:
            place = b.apply("add", b.apply("multiply", i.index, b.dim(70)), total.index)
            total.terms.append(("add", b.load(x, place)))
        b.store(y, i.index, total.results[0])
    return b.finish()


def seldom(order: Order = "lanes") -> Kernel:
    """Sums that only those rows need whose largest element is above 2; of all rows if one is."""
    b = KernelBuilder(f"seldom {order}")
    rows, columns = b.dim(70), b.dim(40)
    x = b.buffer("x", "in", tensor(float32, 70, 40))
    y = b.buffer("y", "out", tensor(float32, 70))
    with b.loop(70, "parallel" if order == "lanes" else "vector") as i:

        def place(position: Var) -> Var:
            if order == "lanes":
                return b.apply("add", b.apply("multiply", i.index, columns), position)
            return b.apply("add", b.apply("multiply", position, rows), i.index)

        with b.reduce(40, order) as top:
            top.terms.append(("maximum", b.load(x, place(top.index))))
        needed = b.apply("greater", top.results[0], b.constant(2, float32))
        with b.reduce(40, order, needed) as total:
            term = b.load(x, place(total.index))
            total.terms += [("add", term), ("squares", term), ("argmax", term)]
        first, second, best = total.results
        picked = b.apply("select", needed, b.apply("add", first, second), top.results[0])
        b.store(y, i.index, b.apply("add", picked, b.cast(best, float32)))
    return b.finish()


KERNELS = [
    pointwise(), softmax(), column_sums(), cumulative_sum(), scatter_add(), product(),
    packed_product(), product_with_work(), best_places(), padded(), first_terms(),
    whole(float32, "add", 100, "lanes"), seldom(), seldom("chain"),
]  # fmt: skip


