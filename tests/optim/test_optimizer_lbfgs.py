"""L-BFGS as a loop of the graph, against NumPy's lists of steps and against SciPy's minima."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import graphc as gx

pytestmark = pytest.mark.check_mode

Measured = Callable[[Any], tuple[float, Any]]


def two_loops(g: Any, pairs: list[tuple[Any, Any]]) -> Any:
    """Nocedal and Wright (2006), algorithm 7.4, with the matrix of (7.20)."""
    q, shares = g.copy(), []
    for s, y in reversed(pairs):
        share = s @ q / (y @ s)
        shares.append(share)
        q = q - share * y
    if pairs:
        s, y = pairs[-1]
        q = s @ y / (y @ y) * q
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        q = q + s * (share - y @ q / (y @ s))
    return q


def bisection(measured: Measured, x: Any, d: Any, t: float, tries: int) -> Any:
    """Lewis and Overton (2013), algorithm 2.6."""
    low, high, (f, g) = 0.0, np.inf, measured(x)
    for _ in range(tries):
        there, slope = measured(x + t * d)
        if not there <= f + 1e-4 * t * (g @ d):
            high = t
        elif not slope @ d >= 0.9 * (g @ d):
            low = t
        else:
            return t, there, slope
        t = (low + high) / 2 if high < np.inf else 2 * t
    return None


def numpy_lbfgs(measured: Measured, x: Any, history: int, iterations: int) -> Any:
    """Liu and Nocedal (1989), algorithm 2.1; the first length as PyTorch has it."""
    pairs: list[tuple[Any, Any]] = []
    f, g = measured(x)
    for _ in range(iterations):
        d = -two_loops(g, pairs)
        t, f, slope = bisection(measured, x, d, 1.0 if pairs else min(1, 1 / np.abs(g).sum()), 30)
        pairs = [*pairs, (t * d, slope - g)][-history:]
        x, g = x + t * d, slope
    return x, f, g


def rosenbrock(x: Any) -> Any:
    """Works in NumPy and in the graph; its minimum is 0 at ones."""
    sum_ = np.sum if isinstance(x, np.ndarray) else gx.sum
    return sum_(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_measured(x: Any) -> tuple[float, Any]:
    g = np.zeros_like(x)
    inner = x[1:] - x[:-1] ** 2
    g[:-1] = -400 * x[:-1] * inner - 2 * (1 - x[:-1])
    g[1:] += 200 * inner
    return rosenbrock(x), g


START = np.array([-1.2, 1.0, 0.5, 2.0, -0.3])


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with gx.Graph() as current:
        yield current


@pytest.mark.parametrize("history, iterations", [(10, 1), (10, 8), (3, 12), (1, 5), (4, 0)])
def test_follows_its_algorithm(history: int, iterations: int, graph: Any) -> None:
    x = gx.placeholder((5,), "float64")
    found = gx.Session(graph).run(
        gx.optim.lbfgs(rosenbrock, x, history, iterations, tolerance=0.0), {x: START}
    )
    wanted, value, slope = numpy_lbfgs(rosenbrock_measured, START, history, iterations)
    assert found.iterations == iterations and not found.converged
    np.testing.assert_allclose(found.x, wanted, rtol=1e-6)
    np.testing.assert_allclose(found.value, value, rtol=1e-6)
    np.testing.assert_allclose(found.gradient, slope, rtol=1e-6, atol=1e-6)


def test_ends_where_scipy_ends(graph: Any) -> None:
    """Logistic regression, of which there is one minimum."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(60, 6))
    labels = np.where(data @ rng.normal(size=6) + rng.normal(size=60) > 0, 1.0, -1.0)

    def loss(w: Any) -> Any:
        margins = labels * (data @ w[0] + w[1])
        return np.logaddexp(0, -margins).mean() + 0.01 * (w[0] ** 2).sum()

    w, b = gx.variable(np.zeros(6), name="w"), gx.variable(np.zeros(()), name="b")

    def built(model: dict[str, Any]) -> Any:
        margins = labels * (data @ model["w"] + model["b"])
        return gx.mean(gx.logaddexp(0.0, -margins)) + 0.01 * gx.sum(model["w"] ** 2)

    result = gx.optim.lbfgs(built, {"w": w, "b": b}, tolerance=1e-9)
    train = gx.group(w.assign(result.x["w"]), b.assign(result.x["b"]))
    session = gx.Session(graph)
    _, found = session.run([train, result])
    assert found.converged and 0 < found.iterations < 100
    wanted = minimize(lambda v: loss((v[:6], v[6])), np.zeros(7), options={"gtol": 1e-10})
    np.testing.assert_allclose(session.get(w), wanted.x[:6], rtol=1e-5)
    np.testing.assert_allclose(session.get(b), wanted.x[6], rtol=1e-5)
    np.testing.assert_allclose(found.value, wanted.fun, rtol=1e-9)
    assert abs(found.gradient["w"]).max() <= 1e-9 and found.gradient["b"].shape == ()
    assert session.run(result.iterations) == 0, "it begins where it ended"


def test_float32_ends_near_the_minimum(graph: Any) -> None:
    w = gx.variable(START.astype("float32"))
    result = gx.optim.lbfgs(rosenbrock, w, iterations=200, tolerance=1e-2)
    found = gx.Session(graph).run(result)
    assert found.x.dtype == np.float32 and found.converged
    assert found.value < 1e-3 or abs(found.value - 3.9308) < 1e-2


def test_a_minimum_at_the_start_takes_no_step(graph: Any) -> None:
    found = gx.Session(graph).run(gx.optim.lbfgs(rosenbrock, gx.constant(np.ones(3))))
    assert found.iterations == 0 and found.converged
    np.testing.assert_array_equal(found.x, np.ones(3))


def test_lengths_where_the_function_is_not_finite_are_too_long(graph: Any) -> None:
    result = gx.optim.lbfgs(lambda x: x - gx.log(x), gx.constant(np.float64(1e-3)))
    found = gx.Session(graph).run(result)
    assert found.converged
    np.testing.assert_allclose(found.x, 1, rtol=1e-4)


def test_what_has_no_minimum_and_what_is_nan_ends(graph: Any) -> None:
    start = gx.constant(np.ones(2))
    down = gx.optim.lbfgs(lambda x: -gx.sum(x), start, iterations=5)
    nan = gx.optim.lbfgs(lambda x: gx.sum(gx.log(-gx.abs(x) - 1)), start)
    kink = gx.optim.lbfgs(lambda x: gx.sum(gx.abs(x - 0.3)), start, tolerance=0.0)
    down, nan, kink = gx.Session(graph).run([down, nan, kink])
    assert not down.converged and down.value < -1e6
    assert not nan.converged and nan.iterations == 0
    np.testing.assert_array_equal(nan.x, [1, 1])
    assert abs(kink.value) < 0.5


def test_memory_is_that_of_the_history(graph: Any) -> None:
    """Two rows for each step remembered, and a few vectors: the loop copies no history."""
    size, history = 4096, 8
    x = gx.placeholder((size,), "float64")
    result = gx.optim.lbfgs(lambda v: gx.sum((v - 1) ** 4), x, history)
    executable = gx.Session(graph).compile(result, [x])
    assert executable.memory.peak_bytes < (2 * history + 24) * size * 8


@pytest.mark.parametrize(
    "make",
    [
        lambda x: gx.optim.lbfgs(x, x),
        lambda x: gx.optim.lbfgs(rosenbrock, x, 0),
        lambda x: gx.optim.lbfgs(rosenbrock, x, iterations=-1),
        lambda x: gx.optim.lbfgs(rosenbrock, x, tolerance=-1),
        lambda x: gx.optim.lbfgs(rosenbrock, x, search=0),
        lambda x: gx.optim.lbfgs(rosenbrock, []),
        lambda x: gx.optim.lbfgs(rosenbrock, gx.constant(np.zeros(0))),
        lambda x: gx.optim.lbfgs(rosenbrock, gx.constant([1, 2])),
        lambda x: gx.optim.lbfgs(rosenbrock, gx.astype(x, "float16")),
        lambda x: gx.optim.lbfgs(lambda p: p[0] + p[1], [gx.sum(x), gx.constant(1.0)]),
        lambda x: gx.optim.lbfgs(rosenbrock, gx.placeholder((None,))),
        lambda x: gx.optim.lbfgs(lambda x: x, x),
        lambda x: gx.optim.lbfgs(lambda x: 1.5, x),
        lambda x: gx.optim.lbfgs(lambda x, y: x, x),
    ],
)
def test_wrong_calls_are_named(make: Callable[[Any], Any]) -> None:
    with pytest.raises(gx.GraphcError) as caught:
        make(gx.constant(START))
    assert caught.value.hint and caught.value.where.filename == __file__


def test_a_part_that_does_not_matter_is_an_error() -> None:
    parts = [gx.constant(np.ones(2)), gx.constant(np.ones(2))]
    with pytest.raises(gx.GradientError):
        gx.optim.lbfgs(lambda both: gx.sum(both[0]), parts)
