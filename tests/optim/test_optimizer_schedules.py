"""Schedules against Python's numbers, and as learning rates of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import optimizer_formulas as formulas
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

optim = gx.optim
LAST = 40


def _cosine(n: float, start: float, end: float, steps: int, exponent: float = 1) -> float:
    wave = (1 + math.cos(math.pi * min(n, steps) / steps)) / 2
    return end + (start - end) * wave**exponent


def _power(n: int, start: float, end: float, steps: int, exponent: float, begin: int) -> float:
    return end + (start - end) * (1 - min(max(n - begin, 0), steps) / steps) ** exponent


def _one_cycle(n: int, peak: float, steps: int, top: int, up: float, down: float) -> float:
    start = peak / up
    if n < top:
        return _cosine(n, start, peak, top)
    return _cosine(n - top, peak, start / down, steps - top)


SCHEDULES: dict[str, tuple[Callable[[], Any], Callable[[int], float]]] = {
    "constant": (lambda: optim.constant_schedule(0.25), lambda n: 0.25),
    "piecewise": (
        lambda: optim.piecewise_constant(0.8, {5: 0.5, 20: 0.1, 30: 3}),
        lambda n: 0.8 * (0.5 if n >= 5 else 1) * (0.1 if n >= 20 else 1) * (3 if n >= 30 else 1),
    ),
    "linear": (
        lambda: optim.linear_schedule(0.1, 0.9, 12, begin=4),
        lambda n: _power(n, 0.1, 0.9, 12, 1, 4),
    ),
    "polynomial": (
        lambda: optim.polynomial_decay(0.9, 0.1, 25, 2.5),
        lambda n: _power(n, 0.9, 0.1, 25, 2.5, 0),
    ),
    "exponential": (
        lambda: optim.exponential_decay(0.9, 7, 0.6, begin=3),
        lambda n: 0.9 * 0.6 ** (max(n - 3, 0) / 7),
    ),
    "staircase": (
        lambda: optim.exponential_decay(0.9, 7, 0.5, staircase=True, end=0.2),
        lambda n: max(0.9 * 0.5 ** (n // 7), 0.2),
    ),
    "growing": (
        lambda: optim.exponential_decay(0.1, 5, 2, end=0.7),
        lambda n: min(0.1 * 2 ** (n / 5), 0.7),
    ),
    "cosine": (lambda: optim.cosine_decay(0.9, 30), lambda n: _cosine(n, 0.9, 0, 30)),
    "cosine-given": (
        lambda: optim.cosine_decay(0.9, 30, 0.1, 2),
        lambda n: _cosine(n, 0.9, 0.1, 30, 2),
    ),
    "warmup": (
        lambda: optim.warmup(optim.piecewise_constant(0.8, {10: 0.1}), 8, 0.2),
        lambda n: 0.2 + 0.6 * n / 8 if n < 8 else 0.8 if n < 18 else 0.08,
    ),
    "warmup-cosine": (
        lambda: optim.warmup_cosine_decay(0.1, 0.9, 10, 35, 0.05),
        lambda n: 0.1 + 0.8 * n / 10 if n < 10 else _cosine(n - 10, 0.9, 0.05, 25),
    ),
    "one-cycle": (
        lambda: optim.one_cycle(0.9, 30),
        lambda n: _one_cycle(n, 0.9, 30, 9, 25, 1e4),
    ),
    "one-cycle-given": (
        lambda: optim.one_cycle(0.9, 30, 0.5, 10, 100),
        lambda n: _one_cycle(n, 0.9, 30, 15, 10, 100),
    ),
    "inverse-sqrt": (
        lambda: optim.inverse_sqrt_decay(0.9, 10),
        lambda n: 0.9 * min((n + 1) / 10, math.sqrt(10 / (n + 1))),
    ),
    "joined": (
        lambda: optim.join_schedules(
            [
                optim.linear_schedule(0, 0.5, 10),
                lambda n: 0.3,
                optim.exponential_decay(0.4, 1, 0.9),
            ],
            [10, 20],
        ),
        lambda n: 0.05 * n if n < 10 else 0.3 if n < 20 else 0.4 * 0.9 ** (n - 20),
    ),
}


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with gx.Graph() as current:
        yield current


def test_schedules_give_what_is_published(graph: Any) -> None:
    count = gx.placeholder((), "int64", name="count")
    rates = {name: make()(count) for name, (make, _) in SCHEDULES.items()}
    assert all(rate.shape == () and rate.dtype is gx.float64 for rate in rates.values())
    run = gx.Session(graph).compile(rates, [count])
    for n in range(LAST):
        for name, found in run(np.int64(n)).items():
            wanted = SCHEDULES[name][1](n)
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-16, err_msg=f"{name} {n}")


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_a_learning_rate(name: str, graph: Any) -> None:
    """The first step has the rate of 0; the counter is saved as any other slot is."""
    make, formula = SCHEDULES[name]
    w = gx.variable(np.float64(100), name="w")
    train = optim.SGD(make()).minimize(w)
    session = gx.Session(graph)
    wanted = 100.0
    for n in range(12):
        session.run(train)
        wanted -= formula(n)
    np.testing.assert_allclose(session.get(w), wanted, rtol=1e-12)
    assert session.get("sgd/step") == 12


@pytest.mark.parametrize(
    "make, formula",
    [
        (optim.Adam, formulas.adam),
        (lambda rate: optim.AdamW(rate, weight_decay=0.3), lambda rate: formulas.adam(
            rate, decay=0.3, decoupled=True)),
        (optim.NAdam, formulas.nadam),
        (optim.RAdam, formulas.radam),
        (optim.Adamax, formulas.adamax),
        (optim.Lion, formulas.lion),
        (optim.Adagrad, formulas.adagrad),
        (optim.Adadelta, formulas.adadelta),
        (optim.RMSProp, formulas.rmsprop),
        (optim.SignSGD, formulas.sign_sgd),
    ],
)  # fmt: skip
def test_all_optimisers_take_schedules(make: Any, formula: Any, graph: Any) -> None:
    rng = np.random.default_rng(1)
    start, slopes = rng.normal(size=3), [rng.normal(size=3) for _ in range(6)]
    w = gx.variable(start, name="w")
    slope = gx.placeholder((3,), "float64")
    loss = gx.sum(w * w) * 0.5 + gx.sum(slope * w)
    train = make(optim.linear_schedule(0.1, 0.02, 5)).minimize(loss)
    session = gx.Session(graph)
    for fed in slopes:
        session.run(train, {slope: fed})
    wanted = formulas.trained(formula(lambda n: _power(n, 0.1, 0.02, 5, 1, 0)), start, slopes)
    np.testing.assert_allclose(session.get(w), wanted, rtol=1e-10)
    steps = [v.name for v in graph.variables if v.name.endswith("/step")]
    assert len(steps) == 1, "the step is counted once"


# --- rates that follow a loss --------------------------------------------------------------------


class Plateau:
    """PyTorch's ReduceLROnPlateau in Python, of means of ``every`` losses."""

    def __init__(
        self,
        factor: float = 0.1,
        patience: int = 10,
        relative: float = 1e-4,
        absolute: float = 0.0,
        cooldown: int = 0,
        every: int = 1,
    ) -> None:
        self.given = (factor, patience, relative, absolute, cooldown, every)
        self.best, self.bad, self.rest, self.scale = math.inf, 0, 0, 1.0
        self.losses: list[float] = []

    def __call__(self, loss: float) -> float:
        factor, patience, relative, absolute, cooldown, every = self.given
        self.losses.append(loss)
        if len(self.losses) < every:
            return self.scale
        mean, self.losses = sum(self.losses) / every, []
        if mean < self.best - relative * abs(self.best) - absolute or (
            self.best == math.inf and mean < math.inf
        ):
            self.best, self.bad = mean, 0
        else:
            self.bad += 1
        if self.rest:
            self.rest -= 1
            self.bad = 0
        if self.bad > patience:
            self.scale *= factor
            self.rest, self.bad = cooldown, 0
        return self.scale


@pytest.mark.parametrize(
    "given",
    [
        {"patience": 2},
        {"factor": 0.5, "patience": 0, "relative": 0.2},
        {"factor": 0.5, "patience": 1, "cooldown": 3, "absolute": 0.05, "relative": 0},
        {"factor": 0.25, "patience": 1, "every": 3},
    ],
)
def test_a_rate_follows_a_loss(given: dict[str, Any], graph: Any) -> None:
    rng = np.random.default_rng(4)
    losses = [*np.geomspace(3, 1, 8), *(1 + 0.2 * rng.random(16)), np.nan, np.inf, 0.5, 0.6, -1, -1]
    loss = gx.placeholder((), "float32", name="loss")
    w = gx.variable(np.float64(0), name="w")
    rate = optim.ReduceOnPlateau(optim.linear_schedule(1.0, 0.5, 20), loss, least=0.001, **given)
    train = optim.SGD(rate).apply_gradients([(np.float64(-1), w)])
    session, plateau, wanted = gx.Session(graph), Plateau(**given), 0.0
    for n, fed in enumerate(losses):
        session.run(train, {loss: fed})
        scale = plateau(float(np.float32(fed)))
        wanted += max(_power(n, 1.0, 0.5, 20, 1, 0) * scale, 0.001)
        np.testing.assert_allclose(session.get(w), wanted, rtol=1e-12, err_msg=f"step {n}")
    assert session.get("sgd/plateau_scale") < 1


def test_a_plateau_follows_the_loss_that_is_minimised(graph: Any) -> None:
    w = gx.variable(np.float64(1), name="w")
    loss = gx.abs(w)
    train = optim.SGD(optim.ReduceOnPlateau(0.4, loss, factor=0.5, patience=0)).minimize(loss)
    session = gx.Session(graph)
    for _ in range(60):
        session.run(train)
    assert abs(session.get(w)) < 0.01 and session.get("sgd/plateau_scale") < 0.01


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.constant_schedule(-1),
        lambda: optim.constant_schedule("1"),
        lambda: optim.piecewise_constant(0.1, [(1, 0.1)]),
        lambda: optim.piecewise_constant(0.1, {1.5: 0.1}),
        lambda: optim.piecewise_constant(0.1, {-1: 0.1}),
        lambda: optim.piecewise_constant(0.1, {1: -0.1}),
        lambda: optim.linear_schedule(0.1, 0.2, 0),
        lambda: optim.linear_schedule(0.1, 0.2, 3.5),
        lambda: optim.polynomial_decay(0.1, 0.2, 5, -1),
        lambda: optim.exponential_decay(0.1, 5, -1),
        lambda: optim.exponential_decay(0.1, 5, 0.5, staircase="yes"),
        lambda: optim.cosine_decay(0.1, -5),
        lambda: optim.warmup(0.1, 5),
        lambda: optim.warmup(optim.constant_schedule(0.1), 0),
        lambda: optim.warmup_cosine_decay(0, 0.1, 10, 10),
        lambda: optim.one_cycle(0.1, 1),
        lambda: optim.one_cycle(0.1, 10, 1.0),
        lambda: optim.one_cycle(0.1, 10, 0.5, 0),
        lambda: optim.inverse_sqrt_decay(0.1, 0),
        lambda: optim.join_schedules([optim.constant_schedule(0.1)], [5]),
        lambda: optim.join_schedules([optim.constant_schedule(0.1)] * 3, [5, 3]),
        lambda: optim.join_schedules([0.1, optim.constant_schedule(0.1)], [5]),
        lambda: optim.constant_schedule(0.1)(gx.ones((2,))),
        lambda: optim.cosine_decay(0.1, 5)(gx.ones((2,))),
        lambda: optim.ReduceOnPlateau(0.1, 0.5),
        lambda: optim.ReduceOnPlateau(0.1, gx.ones((2,))),
        lambda: optim.ReduceOnPlateau(0.1, gx.constant(1)),
        lambda: optim.ReduceOnPlateau(0.1, gx.constant(1.0), factor=1),
        lambda: optim.ReduceOnPlateau(0.1, gx.constant(1.0), patience=-1),
        lambda: optim.ReduceOnPlateau(0.1, gx.constant(1.0), every=0),
        lambda: optim.SGD(lambda n: "x").minimize(gx.variable(1.0)),
        lambda: optim.SGD(lambda n: gx.ones((2,))).minimize(gx.variable(1.0)),
    ],
)
def test_wrong_schedules_are_named(make: Callable[[], Any]) -> None:
    with pytest.raises(gx.GraphcError) as caught:
        make()
    assert caught.value.hint and caught.value.where.filename == __file__
