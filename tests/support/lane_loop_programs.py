"""Random loops whose lanes do not meet, of which ``fuse_loops`` makes kernels, by a grammar.

A body computes successors of lanes and of scalars, given these, captured arrays, rows of sequences
and rows of stacks, of which it writes some. Trips are counted, known or not, or end by a condition
on scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import graphc as gx

UNARY: tuple[Callable[[Any], Any], ...] = (gx.sin, gx.tanh, gx.abs, lambda x: x * 0.5, gx.sqrt)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    gx.maximum,
    lambda x, y: gx.where(x > y, x, y * 0.5),
)


class Program(NamedTuple):
    """What to fetch, and arrays for its placeholders."""

    fetches: list[gx.Value]
    feeds: dict[gx.Value, Any]


def lane_loop(
    random: np.random.Generator, shape: tuple[int, ...], dtype: str = "float64"
) -> Program:
    """A random loop over lanes of this shape, in a graph of its own, perhaps with its gradient."""
    trips = int(random.choice([0, 1, 2, 7]))
    named = tuple(None if random.random() < 0.3 else size for size in shape)
    with gx.Graph():
        x, w = (gx.placeholder(named, dtype) for _ in range(2))
        s = gx.placeholder((), dtype)
        known = trips > 0 and random.random() < 0.7
        rows = gx.placeholder((trips if known else None, *shape), dtype)
        limit = gx.placeholder((), "int64")
        feeds: dict[gx.Value, Any] = {
            value: random.normal(size=size).astype(dtype)
            for value, size in ((x, shape), (w, shape), (s, ()), (rows, (trips, *shape)))
        }
        x, w = x.reshape(shape), w.reshape(shape)
        feeds[limit] = np.int64(trips)
        kind = random.choice(["scan", "fori", "while"])
        results = {"scan": _scan, "fori": _fori, "while": _while}[kind](
            random, (x, s), w, rows, limit, trips
        )
        fetches = [results[int(n)] for n in random.permutation(len(results))]
        if random.random() < 0.5:
            total = sum((gx.sum(each) for each in fetches), start=gx.sum(x) * 0.0)
            fetches += gx.gradients(total, [x, w, s], unconnected="zeros")
    return Program(fetches, {v: a for v, a in feeds.items()})


def _mixed(random: np.random.Generator, pool: list[gx.Value], steps: int) -> gx.Value:
    """A value of the pool's shapes, computed of some of its values."""
    pool = list(pool)
    for _ in range(steps):
        if random.random() < 0.4:
            pool.append(_pick(random, UNARY)(_pick(random, pool)))
        else:
            pool.append(_pick(random, BINARY)(_pick(random, pool), _pick(random, pool)))
    return pool[-1]


def _pick(random: np.random.Generator, items: Any) -> Any:
    return items[int(random.integers(len(items)))]


def _like(value: gx.Value, other: gx.Value) -> gx.Value:
    """A value with the shape of another one."""
    return value + gx.zeros_like(other)


def _scan(random: Any, start: Any, w: Any, rows: Any, limit: Any, trips: int) -> list[gx.Value]:
    stacks, reverse = bool(random.random() < 0.7), bool(random.random() < 0.3)
    steps = int(random.integers(1, 6))

    def body(carry: Any, row: Any) -> Any:
        x, s = carry
        following = _like(_mixed(random, [x, s, w, row], steps), x)
        scalar = gx.cos(s) * 0.5 if random.random() < 0.5 else s
        return (following, scalar), (x * 2.0 if stacks else None)

    (x, s), ys = gx.scan(body, start, rows, reverse=reverse)
    return [x, s] + ([ys] if stacks else [])


def _fori(random: Any, start: Any, w: Any, rows: Any, limit: Any, trips: int) -> list[gx.Value]:
    bound = limit if random.random() < 0.5 else trips
    steps = int(random.integers(1, 6))
    table = gx.zeros((trips + 1, *w.shape), w.dtype) if random.random() < 0.5 else None

    def body(i: Any, carry: Any) -> Any:
        x, s, *more = carry
        following = _like(_mixed(random, [x, s, w, rows[i]], steps), x)
        scalar = s * 0.5 + i.astype(s.dtype)
        if not more:
            return following, scalar
        (written,) = more
        update = _pick(random, ["set", "add"])
        return following, scalar, getattr(written.at[i], update)(x + written[0])

    carry = (*start, *(() if table is None else (table,)))
    return list(gx.fori_loop(0, bound, body, carry))


def _while(random: Any, start: Any, w: Any, rows: Any, limit: Any, trips: int) -> list[gx.Value]:
    steps = int(random.integers(1, 6))

    def body(x: Any, s: Any) -> Any:
        return _like(_mixed(random, [x, s, w], steps), x), gx.abs(s) * 1.5 + 0.25

    bound = float(random.choice([-1e9, 1.0, 9.0]))
    return list(gx.while_loop(lambda x, s: s < bound, body, start))
