"""What a trip computes that is kept for its derivative: deep products, and what follows cheaply;
and gradients of weights, which are products of what all trips give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.tuning.fusion import MEMORY
from passes.autodiff import loops, residuals

STEPS, ROWS, WIDE = 5, 3, 24


def cell(
    wrap: Any = lambda f: f, steps: int | str = STEPS
) -> tuple[gx.Graph, list[Any], list[Any]]:
    """A recurrent network and the gradients of its loss."""
    with gx.Graph() as graph:
        xs = gx.placeholder((steps, ROWS, WIDE), "float64", "xs")
        w, u = (gx.placeholder((WIDE, WIDE), "float64", name) for name in "wu")
        b = gx.placeholder((WIDE,), "float64", "b")

        def step(h: Any, x: Any) -> Any:
            h = wrap(lambda h, x: gx.tanh(x @ w + h @ u + b))(h, x)
            return h, gx.sum(h)

        last, sums = gx.scan(step, gx.constant(np.zeros((ROWS, WIDE))), xs)
        loss = gx.sum(last * last) + gx.mean(sums)
        found = gx.gradients(loss, [w, u, b])
    return graph, [loss, *found], [xs, w, u, b]


def arrays(steps: int = STEPS) -> list[Any]:
    random = np.random.default_rng(0)
    shapes = ((steps, ROWS, WIDE), (WIDE, WIDE), (WIDE, WIDE), (WIDE,))
    return [random.normal(0, 0.3, shape) for shape in shapes]


def products(graph: gx.Graph, fetches: list[Any], feeds: list[Any]) -> list[int]:
    """How many products the body of each loop has."""
    exe = gx.Session(graph, options=gx.Options(cache="off")).compile(fetches, feeds)
    return sorted(
        sum(inner.op.name == "contract" for inner in node.regions[1].walk())
        for node in exe.graph.nodes
        if node.op.name == "while"
    )


def ran(graph: gx.Graph, fetches: list[Any], feeds: list[Any], given: list[Any]) -> list[bytes]:
    exe = gx.Session(graph, options=gx.Options(cache="off", verify=True)).compile(fetches, feeds)
    return [np.asarray(result).tobytes() for result in exe(*given)]


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residuals, "MEMORY", MEMORY._replace(kept_depth=1000))


def test_products_are_not_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    program = cell()
    # on the way back one, by the recurrent weights
    assert products(*program) == [1, 2]
    bits = ran(*program, arrays())
    without(monkeypatch)
    plain = cell()
    assert products(*plain) == [2, 3]
    assert ran(*plain, arrays()) == bits


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_unknown_numbers_of_trips(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = cell(steps="n")
    assert products(*program) == [1, 2]
    bits = ran(*program, arrays(steps))
    without(monkeypatch)
    assert ran(*cell(steps="n"), arrays(steps)) == bits


def test_they_are_those_of_the_unrolled_network() -> None:
    given = arrays()
    with gx.Graph() as graph:
        xs, w, u, b = (gx.placeholder(each.shape, "float64") for each in given)
        h: Any = gx.constant(np.zeros((ROWS, WIDE)))
        sums = []
        for t in range(STEPS):
            h = gx.tanh(xs[t] @ w + h @ u + b)
            sums.append(gx.sum(h))
        loss = gx.sum(h * h) + gx.mean(gx.stack(sums))
        found = gx.gradients(loss, [w, u, b])
    wanted = gx.Session(graph).compile([loss, *found], [xs, w, u, b])(*given)
    one, fetches, feeds = cell()
    results = gx.Session(one).compile(fetches, feeds)(*given)
    for result, other in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, other, rtol=1e-12, atol=1e-13)


def test_what_a_checkpoint_computes_is_not_kept() -> None:
    assert products(*cell(wrap=gx.checkpoint)) == [2, 3]


def test_no_more_is_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS * WIDE * 8
    for rows, count in ((1, 5), (2, 3)):
        monkeypatch.setattr(loops, "MEMORY", MEMORY._replace(trips_bytes=rows * row * STEPS))
        assert products(*cell())[-1] == count


def test_large_batches_add_up_trip_by_trip() -> None:
    """There the factors would be larger than the weights."""
    with gx.Graph() as graph:
        xs = gx.placeholder((4, 100, 16), "float64")
        w = gx.placeholder((16, 16), "float64")
        zeros = gx.zeros((100, 16), "float64")
        last, _ = gx.scan(lambda h, x: (gx.tanh((h + x) @ w), ()), zeros, xs)
        (slope,) = gx.gradients(gx.sum(last), [w])
    assert products(graph, [slope], [xs, w]) == [1, 2]


def test_a_matrix_that_is_used_twice() -> None:
    """What it adds up is no single product."""
    with gx.Graph() as graph:
        xs = gx.placeholder((6, 2, 20), "float64")
        w = gx.placeholder((20, 20), "float64")
        zeros = gx.zeros((2, 20), "float64")
        last, _ = gx.scan(lambda h, x: (gx.tanh(h @ w + x @ w), ()), zeros, xs)
        (slope,) = gx.gradients(gx.sum(last), [w])
    random = np.random.default_rng(0)
    array, matrix = random.normal(0, 0.3, (6, 2, 20)), random.normal(0, 0.3, (20, 20))
    got = gx.Session(graph).compile([slope], [xs, w])(array, matrix)[0]

    def loss(m: Any) -> Any:
        h = np.zeros((2, 20), m.dtype)
        for x in array:
            h = np.tanh(h @ m + x @ m)
        return h.sum()

    step = np.zeros((20, 20), complex)
    for place in ((0, 0), (3, 17), (19, 4)):
        step[place] = 1e-200j
        assert np.isclose(got[place], loss(matrix + step).imag / 1e-200, rtol=1e-11)
        step[place] = 0


def test_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice() -> Any:
        graph, (_, *slopes), feeds = cell()
        with graph:
            again = gx.gradients(gx.sum(slopes[1] * slopes[1]), feeds[1:3])
        return graph, again, feeds

    found = ran(*twice(), arrays())
    without(monkeypatch)
    plain = ran(*twice(), arrays())
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(np.frombuffer(one), np.frombuffer(other), rtol=1e-11, atol=1e-13)
