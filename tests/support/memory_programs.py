"""Training steps whose values can be computed again, and what they come to in bits and bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc as gx
from graphc.session.inspection import Inspected

PLAIN = {"optimize": 3, "cache": "off", "threads": 1, "verify": True}
"""Options of one program, whose passes run."""


@dataclass(frozen=True)
class Step:
    """A training step: its graph, what is fetched and what is fed."""

    graph: gx.Graph
    fetches: list[Any]
    inputs: list[gx.Value]
    feeds: list[np.ndarray]

    def ran(self, **options: Any) -> tuple[Inspected, list[bytes]]:
        """The program, and the bits of its results and of the variables after two steps.

        Unless ``off`` is given, pointwise work is kept as fusion has it, so that there is more to
        compute again.
        """
        options.setdefault("off", frozenset({"late_pointwise"}))
        with gx.Session(self.graph, options=gx.Options(**{**PLAIN, **options})) as session:
            program = session.compile(self.fetches, self.inputs)
            results = [program(*self.feeds) for _ in range(2)]
            bits = [np.asarray(value).tobytes() for result in results for value in result]
            bits += [session.get(variable).tobytes() for variable in self.graph.variables]
            return program, bits


def mlp(
    layers: int = 6,
    rows: int | str = 64,
    width: int = 64,
    wrap: Callable[[Any], Any] = lambda f: f,
    fed: int = 64,
) -> Step:
    """A network of GELU layers under gradient descent; ``wrap`` is put around each layer."""
    random = np.random.default_rng(0)
    with gx.Graph() as graph:
        x = gx.placeholder((rows, width), name="x")
        weights = [
            gx.variable(_drawn(random, width, width), name=f"w{layer}") for layer in range(layers)
        ]
        layer = wrap(lambda h, w: gx.nn.gelu(h @ w))
        h = x
        for w in weights:
            h = layer(h, w)
        loss = gx.mean(gx.square(h))
        fetches = [loss, *_descent(loss, weights)]
    return Step(graph, fetches, [x], [_drawn(random, fed, width)])


def transformer(blocks: int = 4, wrap: Callable[[Any], Any] = lambda f: f) -> Step:
    """Blocks of attention and a GELU layer, each behind a layer norm, under gradient descent."""
    batch, length, width, heads = 8, 32, 32, 2
    random = np.random.default_rng(1)
    with gx.Graph() as graph:
        x = gx.placeholder((batch, length, width), name="x")
        weights = [
            [gx.variable(_drawn(random, width, n * width)) for n in (3, 1, 4)]
            + [gx.variable(_drawn(random, 4 * width, width))]
            for _ in range(blocks)
        ]

        def block(h: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
            parts = gx.reshape(gx.nn.layer_norm(h) @ qkv, (batch, length, 3, heads, width // heads))
            q, k, v = [gx.transpose(parts[:, :, n], (0, 2, 1, 3)) for n in range(3)]
            mixed = gx.transpose(gx.nn.attention(q, k, v), (0, 2, 1, 3))
            h = h + gx.reshape(mixed, (batch, length, width)) @ out
            return h + gx.nn.gelu(gx.nn.layer_norm(h) @ up) @ down

        h = x
        for given in weights:
            h = wrap(block)(h, *given)
        loss = gx.mean(gx.square(h))
        fetches = [loss, *_descent(loss, [w for given in weights for w in given])]
    return Step(graph, fetches, [x], [_drawn(random, batch, length, width)])


def dag(nodes: int, seed: int, wrap: Callable[[Any], Any] = lambda f: f) -> Step:
    """Products and pointwise work that read random earlier values, under gradient descent; parts of
    random lengths are wrapped, which read values of parts before and of each other."""
    random = np.random.default_rng(seed)
    width = 16
    with gx.Graph() as graph:
        x = gx.placeholder((24, width), name="x")
        weights = [gx.variable(_drawn(random, width, width)) for _ in range(3)]
        values: list[Any] = [x]
        functions = (gx.tanh, gx.nn.gelu, gx.exp, lambda v: gx.nn.softmax(v), gx.square)

        def some(count: int, first: int) -> Any:
            if count > 3 and random.integers(2):
                wrap(some)(count // 2, first)
                count -= count // 2
            for _ in range(count):
                grow()
            return values[first:]

        def grow() -> None:
            a, b = (values[-1 - int(random.integers(min(8, len(values))))] for _ in range(2))
            kind = int(random.integers(4))
            if kind == 0:
                made = a @ weights[int(random.integers(3))]
            elif kind == 1:
                made = functions[int(random.integers(len(functions)))](gx.tanh(a))
            elif kind == 2:
                made = a * gx.mean(b, axis=-1, keepdims=True)
            else:
                made = a + gx.tanh(b)
            values.append(made)

        while len(values) <= nodes:
            wrap(some)(int(random.integers(1, 9)), len(values))
        loss = gx.mean(sum(gx.square(value) for value in values[-3:]))
        fetches = [loss, *_descent(loss, weights)]
    return Step(graph, fetches, [x], [_drawn(random, 24, width)])


def _descent(loss: Any, weights: Sequence[Any]) -> list[Any]:
    gradients = gx.gradients(loss, weights, unconnected="zeros")
    return [w.assign(w - 0.01 * g) for w, g in zip(weights, gradients, strict=True)]


def _drawn(random: np.random.Generator, *shape: int) -> np.ndarray:
    return (random.standard_normal(shape) * 0.2).astype(np.float32)
