"""A program large enough to be compiled twice, and comparing bits of results."""

from __future__ import annotations

from typing import Any

import numpy as np
from bits import same_bits

import graphc as gx
import graphc.compiling.compiler


def chain(x: gx.Value, length: int = 300) -> gx.Value:
    """Additions, products and functions, which fuse into one kernel or a few."""
    y = x
    for n in range(length // 3):
        y = gx.tanh(y * 0.5 + x * (n % 7))
    return y


def large() -> tuple[gx.Graph, gx.Value, gx.Value]:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 5), name="x")
        return graph, x, chain(x)


def array(rows: int = 4) -> Any:
    return np.random.default_rng(0).standard_normal((rows, 5)).astype(np.float32)


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(one, other, strict=True):
        assert same_bits(a, b), f"{a!r}\n{b!r}"
