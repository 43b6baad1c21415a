"""Control flow, unknown sizes, and steps that run side by side."""

from __future__ import annotations

from typing import Any

import graphc as gx
from golden.registry import causal, p, program, variable, weights


@program()
def branches() -> Any:
    """Branches with several results, nested, and with variables that only one of them writes."""
    flag, other, x, square = p(dtype="bool"), p(dtype="bool"), p(30, 40), p(40, 40)
    count = variable(30, 40)
    inner = gx.cond(
        flag, lambda: gx.cond(other, lambda: x * 2.0, lambda: gx.softmax(x)), lambda: x + 1.0
    )
    pair = gx.cond(x.sum() > 0.0, lambda: (x, x.T @ x), lambda: (gx.exp(x), square))
    written = gx.cond(flag, lambda: count.assign(count + x), lambda: count * 1.0)
    return [inner, pair, written]


@program()
def loops() -> Any:
    """Loops that carry several values, with products and reductions inside, and one in another."""
    x, w = p(20, 20), weights(20, 20)
    trips, total = gx.while_loop(
        lambda i, t: i < 5, lambda i, t: (i + 1, t * 0.5 + x), (gx.constant(0), x)
    )
    _, power, size = gx.while_loop(
        lambda i, v, n: n > 1e-3,
        lambda i, v, n: (i + 1, gx.tanh(v @ w), gx.sqrt(gx.sum(v * v))),
        (gx.constant(0), x, gx.sum(x)),
    )
    _, nested = gx.while_loop(
        lambda i, v: i < 3,
        lambda i, v: (
            i + 1,
            gx.while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u + gx.sin(u)), (0, v))[1],
        ),
        (0, x),
    )
    return [trips, total, power, size, nested]


@program()
def scans_by_loops() -> Any:
    """A recurrence over rows: one is taken and one is written at each trip."""
    x, w = p(50, 32), weights(32, 32)
    steps = gx.constant(50)

    def step(i: Any, h: Any, out: Any) -> Any:
        h = gx.tanh(gx.take(x, i, axis=0) + h @ w)
        return i + 1, h, gx.scatter_add(out, gx.reshape(i, (1,)), gx.reshape(h, (1, 32)))

    first = (gx.constant(0), gx.zeros((32,)), gx.zeros((50, 32)))
    _, last, rows = gx.while_loop(lambda i, h, out: i < steps, step, first)
    swapped = gx.while_loop(
        lambda i, a, b: i < 4, lambda i, a, b: (i + 1, b, a * 2.0), (0, x, x + 1.0)
    )
    return [last, rows, swapped[1:]]


@program()
def unknown_sizes() -> Any:
    """Every kind of kernel over sizes that only a run tells: broadcasts by strides, guards."""
    x, y, z = p(None, None), p(None, None), p(None, None)
    rows = p("batch", 24)
    return [
        (x + y) + z, x * y.T, gx.softmax(x * 2.0), x.sum(axis=0), x.sum(axis=1), x.T * 2.0, x @ y,
        gx.softmax(rows @ weights(24, 30)), gx.relu(rows @ p(24, "n") + p("n")), x[1:, ::2] + 1.0,
        gx.var(rows, axis=0), gx.layer_norm(rows, (24,)), gx.concatenate([rows, rows * 2.0], 0),
        gx.reshape(x, (-1,)) * 2.0, gx.pad(x, ((1, 2), (3, 4))), gx.cumsum(x, axis=1),
        x[::-1, ::-1] + 1.0,
        gx.argmax(x, axis=1), gx.max(x, axis=0), gx.prod(x, axis=1),
        gx.take(x, p("k", dtype="int64"), 0),
        x.T[:, ::-1] + 1.0, gx.pad(gx.arange(x.shape[0]), ((2, 3),)) + p(),
    ]  # fmt: skip


@program()
def unknown_moves() -> Any:
    """Transposes, diagonals and margins of unknown sizes, some of them in a row."""
    four = p("a", "b", "c", "d")
    moved = p("n")
    for _ in range(3):
        moved = gx.pad(moved, ((1, 2),)) * 0.5
    return [
        gx.transpose(four, (3, 1, 0, 2)), gx.transpose(four, (0, 2, 3, 1)),
        gx.transpose(four, (1, 0, 3, 2)),
        gx.einsum("ii->i", p("k", "k")), gx.einsum("ii->i", p(None, 1)),
        gx.einsum("iij->ij", p(3, None, "k")),
        gx.einsum("iji->j", p(1, "k", None)), moved,
        gx.einsum("iii->i", p(3, None, None)), gx.einsum("i,ii->i", p(3), p(None, None)),
        gx.repeat(p("k", 7), 2, axis=0) * 2.0, p("n", "m")[::2, ::-3] + 1.0,
        gx.concatenate([p("n", 4), p("m", 4), p("n", 4)], 0) + 1.0,
        gx.stack([p("n"), p("n")]).reshape((-1,)),
        gx.tile(p("n"), 3) + 1.0, gx.flip(p("n", "m"), 1), p("n", "m", 3).reshape((-1, 3)).T,
    ]  # fmt: skip


@program()
def unknown_lengths() -> Any:
    """One row, one column and blocks of unknown length, which may be long."""
    x, y = p("n"), p("n", 40)
    return [
        gx.sum(x), gx.var(x), gx.softmax(x), gx.argmax(x), gx.sum(y, axis=0),
        gx.mean(y * y, axis=0),
        gx.std(x), gx.logsumexp(x), gx.sum(p("m", "k"), axis=0), gx.prod(x), gx.max(x), gx.mean(x),
        gx.sum(p("l", dtype="int32")), gx.sum(p("n", "m", dtype="float64"), axis=(0, 1)),
        gx.std(y, axis=0),
    ]  # fmt: skip


@program()
def unknown_products() -> Any:
    """Products, batches and attention over sizes that only a run tells."""
    q, k, v = (p("heads", "length", 32) for _ in range(3))
    scores = q @ gx.swapaxes(k, -1, -2)
    x = p("b", "m", "k")
    return [
        gx.softmax(causal(scores)) @ v, gx.attention(q, k, v),
        x @ p("b", "k", "n"),
        p("m", "k") @ p("n", "k").T, p("k", 20).T @ p("k", 30),
        gx.relu(p("m", 40) @ p(40, 50)) + p("m", 50),
        p(1, "k") @ p("k", 600), p("m", "k") @ p("k"), gx.gelu(p("m", "k") @ p("k", "n") + p("n")),
        gx.logsumexp(p("m", 64) @ p(64, "n"), axis=1), x @ weights(30, 7)[: x.shape[2]],
    ]  # fmt: skip


@program()
def guarded_loops() -> Any:
    """Guards inside of branches and loops: steps of the plan that fail or are skipped."""
    x, y = p("n", 8), p("m", 8)
    flag = p(dtype="bool")
    summed = gx.cond(flag, lambda: gx.sum(x + y, 0), lambda: gx.sum(x * 2.0, 0))
    _, total = gx.while_loop(
        lambda i, t: i < 3, lambda i, t: (i + 1, t + gx.sum(x * y, axis=0)), (0, gx.zeros((8,)))
    )
    return [summed, total, gx.take(x, p(3, dtype="int64"), 0), x[2:5] + y[:3]]


@program()
def side_by_side() -> Any:
    """Independent chains of small kernels, for several threads, around what they share."""
    x = p(128, 128)
    chains = [gx.tanh(x @ weights(128, 128) * float(n + 1)) for n in range(4)]
    again = [gx.softmax(chain @ p(128, 128)) for chain in chains]
    total = again[0] + again[1] * again[2] - again[3]
    return [*again, gx.sum(total, axis=0), gx.sum(gx.exp(p(200, 200)) @ p(200, 90), axis=1)]


@program()
def large_kernels_in_parts() -> Any:
    """Kernels that threads share: over rows, columns, both, blocks of products, and batches."""
    return [
        gx.tanh(p(3, 400, 500)), gx.exp(p(1_000_000)), p(2000, 3000).sum(axis=0),
        p(3000, 500).sum(axis=1),
        p(1500, 1000).T + 1.0, p(24, 1000) @ p(1000, 4000), p(900, 300) @ p(300, 100),
        p(3, 500, 200) @ p(3, 200, 300),
        gx.cumsum(p(300, 2000), axis=1), gx.cumsum(p(50, 40, 4000), axis=1),
        gx.take(p(9000, 300), p(9000, dtype="int64"), 0),
        gx.scatter_add(p(64, 100, 500), p(90, dtype="int64"), p(64, 90, 500), axis=1),
        p(1, 4000) @ p(4000, 3000),
        gx.argmax(p(500, 5000), axis=0), p(3000, 2000) @ p(2000),
        gx.relu(p(700, 300) @ p(300, 700) + p(700)),
    ]  # fmt: skip
