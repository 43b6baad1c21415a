"""Programs that a schedule does not fit, by one condition each: what is emitted then is the rest.

A change of where such conditions are asked must leave each answer as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphc as gx
from golden.registry import hidden, p, program, variable


@program()
def rows_not_staggered() -> Any:
    """Rows too long, of stages of several lengths, with positions, checks, gathers or scans."""
    x, y, z, tall, lower = p(70, 544), p(70, 544), p(70, 544), p(9000, 1003), p(1500, 1024)
    scale = gx.expand_dims(gx.take(p(100), p(70, dtype="int64")), 1)
    gathered = gx.take_along_axis(p(70, 544), p(70, 544, dtype="int64"), 1)
    picked = p(70, 544)
    long = p(70, 9008) + gx.tanh(p(70, 9008))
    return [
        gx.softmax_cross_entropy(p(70, 544), p(70, dtype="int64")), gx.layer_norm(long, (9008,)),
        gx.softmax(p(9, 60_000)), x - x[:, :272].sum(1, keepdims=True) * x.max(1, keepdims=True),
        gx.softmax(p(70, 544)) * scale, [gx.softmax(y), gx.argmax(y, axis=1)],
        [z - gx.mean(z, 1, keepdims=True), gx.abs(z)], gx.softmax(gathered),
        tall - gx.mean(tall, 1, keepdims=True), lower - gx.mean(lower, 1, keepdims=True),
        gx.softmax(p(70, 30_000, dtype="float64")), gx.softmax(p(70, 544)) @ p(544, 3),
        picked - gx.take(gx.sum(picked, 1), p(70, dtype="int64"))[:, None] * gx.max(picked),
        gx.softmax(gx.sum(p(20, 30, 544), axis=2)), gx.softmax(gx.exp(p(70, 12_000))),
    ]  # fmt: skip


@program()
def early_results() -> Any:
    """Stages of which one keeps a row that the next overwrites, and results of an early stage."""
    x = p(70, 544)
    shifted = x - x.max(axis=1, keepdims=True)
    raised = gx.exp(shifted)
    total = gx.sum(raised, axis=1, keepdims=True)
    integers = p(70, 544, dtype="int32")
    return [
        [shifted, raised / total, gx.log(total)], integers - integers.max(1, keepdims=True),
        (integers - gx.sum(integers, 1, keepdims=True)) * 2,
    ]  # fmt: skip


@program()
def rows_not_shared() -> Any:
    """Rows past the caches with margins, gathers, rows that are no whole lines, short vectors."""
    x = p(2048, 8192)
    return [
        gx.pad(p(2047, 8192), ((1, 0), (0, 0))) + p(8192), p(2048, 8191) + p(8191),
        gx.take_along_axis(x, p(2048, 8192, dtype="int64"), 1) + p(8192), p(40_000, 512) + p(512),
        gx.repeat(p(2048, 4096), 2, axis=1) + p(8192),
        gx.broadcast_to(p(2048, 1), (2048, 8192)) + x, x[:, ::-1] + p(8192),
    ]  # fmt: skip


@program()
def tiles_not_taken() -> Any:
    """Loops across of one row or column, of blocks, around reductions; margins and gathers."""
    x, uneven = p(70, 37), p(4001, 4003)
    return [
        gx.pad(x, ((1, 1), (0, 0))).T, gx.take(x, p(40, dtype="int64"), 0).T * 2.0,
        p(1, 70).T + p(70, 1),
        gx.exp(x.T @ p(70, 40)) + p(40, 37).T, gx.sum(x.T, axis=1) + 1.0, p(2, 3, 1, 5).T,
        p(3_000_000, 3).T,
        gx.expand_dims(gx.take(p(50, 3), p(9, dtype="int64"), 0), 0).T,
        p(70_000, 70, dtype="bool").T,
        [p(1100, 4096).T, p(1100, 4096).T.astype("float64")], p(4100, 1001).T[:, 1:] * 2.0,
        p(260_000, 13).T,
        p(2003, "m").T, p("n", "m").T > 0, [uneven.T, p(4001) < uneven.T],
    ]  # fmt: skip


def _weighted(spell: Callable[[Any, Any], Any]) -> Any:
    """Attention by what a spelling makes of scores and a mask."""
    q, k, v, mask = p(2, 100, 16), p(2, 100, 16), p(2, 100, 24), p(100, 100, dtype="bool")
    return spell(q @ gx.swapaxes(k, -1, -2), mask) @ v


def _normalised(raised: Any) -> Any:
    return raised / raised.sum(axis=-1, keepdims=True)


def _less(scores: Any, shift: Any) -> Any:
    return _normalised(gx.exp(scores - shift))


def _masked_between(scores: Any, mask: Any) -> Any:
    first = hidden(scores, mask)
    return _less(hidden(first, gx.arange(100) < 50), first.max(axis=-1, keepdims=True))


SPELLINGS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda s, m: _less(hidden(s, m), s.max(axis=-1, keepdims=True)),
    _masked_between,
    lambda s, m: gx.softmax(gx.where(m, s, -1e9)),
    lambda s, m: gx.softmax(hidden(hidden(s, m), hidden(s, m) > 0.0)),
    lambda s, m: _less(hidden(s, m), hidden(s, m).min(axis=-1, keepdims=True)),
    lambda s, m: _less(hidden(s, m), hidden(s, m).max(axis=-1, keepdims=True) * 2.0),
    lambda s, m: _less(hidden(s, m), gx.tanh(hidden(s, m).max(axis=-1, keepdims=True))),
    lambda s, m: gx.softmax(gx.where(m, s, s * 2.0)),
    lambda s, m: gx.softmax(hidden(s, m)) * 2.0,
    lambda s, m: gx.softmax(hidden(s, m & (s > 0.0))),
    lambda s, m: gx.exp(hidden(s, m) - gx.logsumexp(hidden(s, m), axis=-1, keepdims=True)),
    lambda s, m: gx.exp(hidden(s, m)) / hidden(s, m).max(axis=-1, keepdims=True),
    lambda s, m: gx.softmax(hidden(s, s.max(axis=-1, keepdims=True) > 0.0)),
    lambda s, m: gx.softmax(hidden(s, m) + s.sum(axis=-1, keepdims=True)),
    lambda s, m: _less(hidden(s, m), gx.max(s) + hidden(s, m).max(-1, keepdims=True)),
)  # fmt: skip


@program()
def masks_not_left_out() -> Any:
    """Masked scores whose hidden columns may have an effect: every column is computed."""
    q, k, v, mask = p(2, 100, 16), p(2, 100, 16), p(2, 100, 24), p(100, 100, dtype="bool")
    wanted = gx.softmax(hidden(q @ gx.swapaxes(k, -1, -2), mask))
    return [*map(_weighted, SPELLINGS), [wanted, wanted @ v]]


@program()
def pieces_not_cut() -> Any:
    """Concatenations that a map can't be cut at: other shapes, results of others, many pieces."""
    x, y = p(8, 16), p(8, 16)
    whole = gx.concatenate([x, y], 1)
    columns = gx.concatenate([x[:, :1], y[:, :1]], 1)
    many = gx.concatenate([p(3, 7) for _ in range(12)], 1)
    return [
        gx.expand_dims(whole, 0) * p(3, 1, 32), whole * columns[:, :1],
        many * 2.0 + many * gx.exp(many),
        gx.repeat(whole, 2, axis=1) + p(64), gx.take(whole, p(5, dtype="int64"), 0) + 1.0,
        whole + gx.pad(x, ((0, 0), (0, 16))), (columns + p(8, 1)) * p(2), gx.cumsum(whole, 1),
        whole[:, 1:] * gx.concatenate([x, y[:, :15]], 1),
        whole + gx.arange(32, dtype="float32") * p(8, 1),
    ]  # fmt: skip


@program()
def columns_not_in_stripes() -> Any:
    """Reductions down columns with functions, positions, bools, few rows, or stores inside."""
    x = p(300, 200)
    return [
        gx.sum(gx.exp(x), axis=0), gx.argmax(x, axis=0), gx.any(x > 0, axis=0),
        p(40, 200).sum(axis=0),
        gx.softmax(p(300, 200), axis=0), gx.sum(p(300, 20), axis=0), gx.tanh(gx.sum(x, axis=0)),
        gx.concatenate([p(100, 8192).sum(axis=0)[:, None], p(8192, 3)], 1),
        gx.sum(p(5, 80, 70), axis=1),
    ]  # fmt: skip


@program()
def loads_that_are_no_streams() -> Any:
    """Results past the caches of gathers, margins and columns: nothing is asked for ahead."""
    return [
        gx.take_along_axis(p(3000, 2000), p(3000, 2000, dtype="int64"), 1),
        gx.pad(p(3000, 2000), ((0, 0), (4, 4))),
        gx.broadcast_to(p(3000, 1), (3000, 2000)), gx.einsum("ii->i", p("n", "n")) + 1.0,
        gx.pad(p(30, 1), ((1, 1), (0, 0))) * p(32, 45),
        gx.take(p(3000, 2000), p(3000, dtype="int32"), 0),
        p(1700, 3, 2048)[:, 1] + p(1700, 2048), p(3000, 2000)[::-1] * 2.0, p(100_000, 100) + p(100),
    ]  # fmt: skip


@program(
    off={
        "simplify", "canonicalize", "shapes", "move_views", "fold", "cse",
        "fold_scales_into_weights", "matmul_chains",
    }
)  # fmt: skip
def nothing_simplified() -> Any:
    """Operations that passes would take out: they are emitted as they are written."""
    x, unsigned = p(9, 40), p(70, dtype="uint16")
    places = gx.where(p(9, dtype="bool"), gx.arange(9), 0)
    return [
        x.astype("float32") * 1.0 + 0.0, gx.abs(unsigned),
        gx.reshape(gx.reshape(x, (40, 9)), (8, 45)),
        x.T.T + gx.broadcast_to(gx.constant(2.0), (9, 40)), gx.take(x, places, 0),
        gx.negative(gx.negative(x)), x[::1],
        gx.arange(40) * p(9, 1, dtype="int64") + 3,
        gx.where(x > 0, 1.0, gx.pad(gx.arange(38.0), 1)),
        p(dtype="int64") * gx.arange(130), x.reshape((9, 1, 40)) * x.reshape((9, 40, 1)),
        gx.concatenate([x, x], 1)[:, ::-1] * 2.0,
        gx.concatenate([x, x], 1) + gx.concatenate([x, x], 1).reshape((80, 9)).T,
    ]  # fmt: skip


@program()
def updates_checked_ahead() -> Any:
    """Large variables that scatters write in place: all indices are checked before the first."""
    first, second = variable(4000, 64), variable(3000, 64)
    w = variable(300, 300)
    places, others = p(20, dtype="int64"), p("k", dtype="int32")
    writes = [
        w.assign(w * 0.9), first.assign(gx.scatter_add(first, places, p(20, 64))),
        second.assign(gx.scatter_add(second, others, p("k", 64))),
    ]  # fmt: skip
    return [gx.take(first, places, 0), gx.group(writes)]


@program()
def guards_of_kernels() -> Any:
    """What a kernel of unknown sizes relies on is required by the plan, within control flow too."""
    x, y, z = p("n", 8), p("m", 8), p("n", 8)
    flag = p(dtype="bool")
    return [
        x[2:5] + y[:3], z[2:5] + y[:3],
        gx.cond(flag, lambda: gx.sum(x[1:4] * y[:3], 0), lambda: gx.sum(z[1:4] * y[:3], 0)),
        gx.while_loop(
            lambda i, t: i < 3,
            lambda i, t: (i + 1, t + gx.sum(x[3:7] - y[:4], 0)),
            (0, gx.zeros((8,))),
        )[1],
        gx.pad(x[2:5] + y[:3], ((1, 1), (0, 0))), gx.reshape(x, (4, -1)) + 1.0,
        gx.pad(gx.pad(x, ((1, 0), (0, 0)))[2:5], ((1, 1), (0, 0))) * gx.pad(y, 2)[:5, 2:-2],
    ]  # fmt: skip
