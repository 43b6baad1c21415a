"""Loops that are part of others are left out; bits and effects stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

RANDOM = np.random.default_rng(9)


def loops(fetches: Any, *feeds: Any) -> int:
    """How many loops run; results are the same without the pass."""
    options = gx.Options(off={"fuse_loops"})
    with gx.Session(feeds[0].graph, options=options) as session:
        executable = session.compile(fetches)
        arrays = {value: RANDOM.normal(size=value.shape) for value in feeds}
        found = session.run(fetches, arrays)
    with gx.Session(feeds[0].graph, options=gx.Options(off={"merge_loops"})) as session:
        expected = session.run(fetches, arrays)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    return sum(node.op.name == "while" for node in executable.graph.walk())


def doubled(i: gx.Value, c: gx.Value) -> gx.Value:
    return gx.sin(c) * 2.0


def test_a_loop_and_its_gradient_run_forward_once() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), "float64")
        y = gx.fori_loop(0, 5, doubled, x)
        gradient = gx.gradients(y.sum(), x)
        tangent = gx.jvp(y, x, gx.ones_like(x))
    assert loops([y, gradient], x) == 2
    assert loops([y, tangent], x) == 1


def test_trips_are_counted_by_the_loop_itself() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), "float64")
        y = gx.while_loop(lambda c: gx.abs(c).sum() < 50.0, lambda c: c * 1.5 + gx.sin(c), x)
        gradient = gx.gradients(y.sum(), x)
    # with the way back, which has two loops inside
    assert loops([y, gradient], x) == 4


def pair(
    first: Callable[..., Any], second: Callable[..., Any], bound: Any = 9.0
) -> tuple[gx.Value, list[gx.Value]]:
    """Two loops that start alike, and what they read."""
    with gx.Graph():
        x = gx.placeholder((3,), "float64")
        a = gx.while_loop(lambda c: c.sum() < 9.0, first, x)
        b, extra = gx.while_loop(lambda c, d: c.sum() < bound, second, (x, x * 2.0))
    return x, [a, b, extra]


@pytest.mark.parametrize(
    ("second", "bound", "expected"),
    [
        (lambda c, d: (gx.exp(c) + 1.0, d + c), 9.0, 1),
        (lambda c, d: (1.0 + gx.exp(c), d + c), 9.0, 1),
        (lambda c, d: (gx.exp(c) + 1.5, d + c), 9.0, 2),
        (lambda c, d: (gx.exp(c) + 1.0, d + c), 8.0, 2),
        (lambda c, d: (gx.exp(d) + 1.0, d + c), 9.0, 2),
    ],
)
def test_what_is_part_of_another(second: Any, bound: float, expected: int) -> None:
    x, fetches = pair(lambda c: gx.exp(c) + 1.0, second, bound)
    assert loops(fetches, x) == expected


def test_a_loop_that_starts_with_the_results_of_the_other_stays() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), "float64")
        first = gx.fori_loop(0, 4, doubled, x)
        second, extra = gx.fori_loop(0, 4, lambda i, s: (doubled(i, s[0]), s[1] * 2.0), (x, first))
    assert loops([second, extra], x) == 2


def test_loops_that_read_each_other_once_merged() -> None:
    """Each of two loops reads what the other's smaller one gives: one pair alone can be merged."""
    with gx.Graph():
        x, y = gx.placeholder((3,), "float64"), gx.placeholder((3,), "float64")
        first = gx.fori_loop(0, 4, doubled, x)
        second = gx.fori_loop(0, 4, lambda i, c: gx.cos(c) * 2.0, y)
        of_first, of_second = gx.jvp(first, x, second), gx.jvp(second, y, first)
    assert loops([first, second, of_first, of_second], x, y) == 3


def test_a_chain_of_loops_beside_its_tangents() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), "float64")
        y = x
        for _ in range(6):
            y = gx.fori_loop(0, 4, doubled, y) + 1.0
        fetches = [y, gx.jvp(y, x, gx.ones_like(x)), gx.gradients(y.sum(), x)]
    assert loops(fetches, x) == 18  # rows are kept by one, tangents by another


def test_effects_are_not_merged() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((), "float64")
        count = gx.variable(np.float64(0))

        def step(i: gx.Value, c: gx.Value) -> gx.Value:
            count.assign_add(1.0)
            return c * 2.0

        y = gx.fori_loop(0, 3, step, x)
        gradient = gx.gradients(y, x)
    session = gx.Session(graph)
    assert session.run([y, gradient], {x: 1.5}) == [12, 8]
    assert session.run(count) == 3
