"""Shuffling and picking: every order and element as often as it should be."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx


def drawn(function: Callable[..., Any], *arguments: Any, seed: int = 0, **options: Any) -> Any:
    """What a function of ``gx.random`` gives for the key of a seed."""
    with gx.Graph() as graph:
        value = function(gx.random.key(seed), *arguments, **options)
    return gx.Session(graph).run(value)


def test_orders_are_equally_likely() -> None:
    rows = drawn(gx.random.permutation, np.tile(np.arange(4), (24_000, 1)), 1, True)
    assert rows.dtype == np.int64
    seen = {order: 0 for order in itertools.permutations(range(4))}
    for row in rows.tolist():
        seen[tuple(row)] += 1
    counts = np.array([*seen.values()])
    assert np.sum((counts - 1000) ** 2 / 1000) < 23 + 4.5 * np.sqrt(46)


def test_axes_are_shuffled_whole() -> None:
    x = np.arange(60).reshape(5, 12)
    columns = drawn(gx.random.permutation, x, -1)
    order = columns[0]
    assert sorted(order.tolist()) == list(range(12)) and order.tolist() != list(range(12))
    assert np.array_equal(columns, x[:, order])
    assert sorted(drawn(gx.random.permutation, 1000).tolist()) == list(range(1000))
    assert np.array_equal(np.sort(drawn(gx.random.permutation, x, 1, True), 1), x)
    assert drawn(gx.random.permutation, 0).shape == (0,)


def test_picking_with_and_without_putting_back() -> None:
    p = np.array([0.1, 0.0, 0.5, 0.4, 0.0])
    often = drawn(gx.random.choice, 5, (40_000,), True, p * 3)
    assert np.abs(np.bincount(often, minlength=5) / 40_000 - p).max() < 0.012
    assert not (often == 1).any() and often.dtype == np.int64
    alike = drawn(gx.random.choice, np.array([2.0, 4.0, 8.0]), (100, 300))
    assert alike.shape == (100, 300) and abs(np.mean(alike == 4) - 1 / 3) < 0.015
    x = np.arange(24).reshape(4, 6)
    apart = drawn(gx.random.choice, x, (2, 3), False, axis=1)
    assert apart.shape == (4, 2, 3) and len(set(apart[0].ravel().tolist())) == 6
    assert np.array_equal(apart, apart[:1] + 6 * np.arange(4)[:, None, None])
    assert set(drawn(gx.random.choice, 5, (3,), False, p).tolist()) == {0, 2, 3}
    with gx.Graph() as graph:
        seed = gx.placeholder((), "int64")
        pair = gx.random.choice(gx.random.key(seed), 5, (2,), False, p)
    session = gx.Session(graph)
    pairs = np.array([session.run(pair, {seed: number}) for number in range(1500)])
    assert np.abs(np.bincount(pairs[:, 0], minlength=5) / 1500 - p).max() < 0.055
    # the second is picked of what the first has left: 3 behind 2 with 4 / 5
    assert abs(np.mean(pairs[pairs[:, 0] == 2, 1] == 3) - 0.8) < 0.07


def test_sizes_that_only_a_run_knows() -> None:
    with gx.Graph() as graph:
        key = gx.random.key(2)
        x, p = gx.placeholder((None,)), gx.placeholder((None,))
        picked = [
            gx.random.permutation(key, x.shape[0]),
            gx.random.choice(key, x, x.shape, False),
            gx.random.choice(key, x, (7,), p=p),
        ]
    session = gx.Session(graph)
    order, same, few = session.run(picked, {x: np.arange(50) * 2.0, p: np.ones(50)})
    assert np.array_equal(order * 2.0, same) and few.shape == (7,)
    with pytest.raises(gx.ShapeError, match="3 elements, of 50"):
        session.run(picked[2], {x: np.arange(50), p: np.ones(3)})


def test_what_cannot_be_picked_is_told() -> None:
    with gx.Graph():
        key = gx.random.key(0)
        for call, word in (
            (lambda: gx.random.choice(key, 5, (6,), replace=False), "6 elements out of 5"),
            (lambda: gx.random.choice(key, 5, (2,), p=[0.5, 0.5]), "p has 2 elements"),
            (lambda: gx.random.choice(key, 1.5, (2,)), "choice of"),
            (lambda: gx.random.permutation(key, np.ones((2, 2)), 2), "axis"),
        ):
            with pytest.raises(gx.ShapeError, match=word):
                call()
