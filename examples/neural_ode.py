"""A law of motion learned from where points go: a neural ODE with steps of its own choosing.

What moves by x' = f(x) is seen twice, one unit of time apart, at many places. A small network in
the place of f is integrated over that time, and trained so that it ends where the points did. The
integrator is the pair of Bogacki and Shampine ("A 3(2) pair of Runge-Kutta formulas", Applied
Mathematics Letters 2, 1989): it estimates its error, repeats a step that is too wide, and chooses
the next. So a ``gx.while_loop`` ends by what it computes, and the gradient goes backwards through
it. The NumPy program notes its steps and goes back through them by hand.

    python examples/neural_ode.py [--quick]

The last line says how far the network leads points astray that it never saw.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import graphc as gx

Array = np.ndarray[Any, Any]

HIDDEN = 24
POINTS = 64
TOLERANCE = 1e-3
RATE = 0.03


def law(x: Array) -> Array:
    """Van der Pol's oscillator, which the network does not know."""
    return np.stack([x[:, 1], 0.5 * (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1)


def moved(change: Callable[[Array], Array], x: Array, end: float, steps: int) -> list[Array]:
    """Where points are after each of so many steps, by the classical Runge-Kutta method."""
    rows, h = [x], end / steps
    for _ in range(steps):
        first = change(x)
        second = change(x + h / 2 * first)
        third = change(x + h / 2 * second)
        x = x + h / 6 * (first + 2 * second + 2 * third + change(x + h * third))
        rows.append(x)
    return rows


def first_model() -> list[Array]:
    """Weights of the network before training."""
    random = np.random.default_rng(0)
    inner, outer = random.normal(size=(2, HIDDEN)), 0.1 * random.normal(size=(HIDDEN, 2))
    return [inner, np.zeros(HIDDEN), outer, np.zeros(2)]


# --- in graphc -----------------------------------------------------------------------------------


def network(model: list[Any], x: gx.Value) -> gx.Value:
    """The law as the network has it."""
    inner, bias, outer, shift = model
    return gx.tanh(x @ inner + bias) @ outer + shift


def flow(model: list[Any], x: gx.Value, end: float) -> tuple[gx.Value, gx.Value]:
    """Where points are at the end, and how many steps were tried."""

    def goes_on(t: gx.Value, h: gx.Value, x: gx.Value, tried: gx.Value) -> gx.Value:
        return t < end

    def step(t: gx.Value, h: gx.Value, x: gx.Value, tried: gx.Value) -> Any:
        h = gx.minimum(h, end - t)
        first = network(model, x)
        second = network(model, x + 0.5 * h * first)
        third = network(model, x + 0.75 * h * second)
        after = x + h * (2 / 9 * first + 1 / 3 * second + 4 / 9 * third)
        fourth = network(model, after)
        off = h * (-5 / 72 * first + 1 / 12 * second + 1 / 9 * third - 1 / 8 * fourth)
        error = gx.stop_gradient(gx.max(gx.abs(off))) / TOLERANCE
        wider = h * gx.clip(0.9 * (error + 1e-9) ** (-1 / 3), 0.2, 5.0)
        return gx.where(error <= 1, t + h, t), wider, gx.where(error <= 1, after, x), tried + 1

    start = (gx.constant(0.0, "float64"), gx.constant(0.1, "float64"), x, 0)
    _, _, x, tried = gx.while_loop(goes_on, step, start)
    return x, tried


def build() -> tuple[gx.Graph, list[gx.Value], Any, list[gx.Variable]]:
    """The graph, what it is fed, what a step of training fetches, and the network's weights."""
    with gx.Graph("neural_ode") as graph:
        before, after = (gx.placeholder((POINTS, 2), "float64") for _ in range(2))
        model = [gx.variable(array) for array in first_model()]
        ends, tried = flow(model, before, 1.0)
        loss = gx.nn.mse(ends, after)
        step = gx.optim.Adam(RATE).minimize(loss)
    return graph, [before, after], (loss, tried, step), model


# --- in NumPy ------------------------------------------------------------------------------------


def network_by_numpy(model: list[Array], x: Array) -> tuple[Array, Array]:
    """The law as the network has it, and what its gradient needs."""
    inner, bias, outer, shift = model
    hidden = np.tanh(x @ inner + bias)
    return hidden @ outer + shift, hidden


def pulled(model: list[Array], x: Array, hidden: Array, weight: Array, sums: list[Array]) -> Array:
    """The gradient by x; those by the weights are added to sums."""
    slope = (weight @ model[2].T) * (1 - hidden**2)
    for total, term in zip(
        sums, (x.T @ slope, slope.sum(0), hidden.T @ weight, weight.sum(0)), strict=True
    ):
        total += term
    return slope @ model[0].T


def gradient_by_numpy(model: list[Array], x: Array, wanted: Array) -> tuple[float, list[Array]]:
    """The loss and its gradient by the weights."""
    t, h, taken = 0.0, 0.1, []
    while t < 1.0:
        h = min(h, 1.0 - t)
        first, of_first = network_by_numpy(model, x)
        at_second = x + 0.5 * h * first
        second, of_second = network_by_numpy(model, at_second)
        at_third = x + 0.75 * h * second
        third, of_third = network_by_numpy(model, at_third)
        after = x + h * (2 / 9 * first + 1 / 3 * second + 4 / 9 * third)
        fourth, _ = network_by_numpy(model, after)
        off = h * (-5 / 72 * first + 1 / 12 * second + 1 / 9 * third - 1 / 8 * fourth)
        error = np.abs(off).max() / TOLERANCE
        if error <= 1:
            taken.append((h, x, of_first, at_second, of_second, at_third, of_third))
            t, x = t + h, after
        h = h * min(max(0.9 * (error + 1e-9) ** (-1 / 3), 0.2), 5.0)
    sums = [np.zeros_like(array) for array in model]
    weight = 2 * (x - wanted) / x.size
    for h, x_then, of_first, at_second, of_second, at_third, of_third in reversed(taken):
        by_third = pulled(model, at_third, of_third, 4 / 9 * h * weight, sums)
        at = 1 / 3 * h * weight + 0.75 * h * by_third
        by_second = pulled(model, at_second, of_second, at, sums)
        at = 2 / 9 * h * weight + 0.5 * h * by_second
        weight = weight + by_third + by_second + pulled(model, x_then, of_first, at, sums)
    return float(((x - wanted) ** 2).mean()), sums


def trained_by_numpy(before: Array, after: Array, rounds: int) -> list[float]:
    """The losses of a training by Adam."""
    model, losses = first_model(), []
    means, squares = ([np.zeros_like(array) for array in model] for _ in range(2))
    for number in range(1, rounds + 1):
        loss, gradient = gradient_by_numpy(model, before, after)
        losses.append(loss)
        for array, mean, square, slope in zip(model, means, squares, gradient, strict=True):
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope**2 - square)
            scale = np.sqrt(square / (1 - 0.999**number)) + 1e-8
            array -= RATE * mean / (1 - 0.9**number) / scale
    return losses


# --- what is shown -------------------------------------------------------------------------------


def learned_law(weights: list[Array], x: Array) -> Array:
    """The law as the trained network has it."""
    return network_by_numpy(weights, x)[0]


def sketch(true: Array, learned: Array, lines: int = 17, width: int = 56) -> str:
    """Two paths in the plane: dots where the true one goes, o where the learned one does."""
    picture = np.full((lines, width), " ")
    for path, mark in ((true, "."), (learned, "o")):
        cells = (path / 3.2 + 1) / 2 * [width - 1, lines - 1]
        column, row = cells.round().astype(int).T
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < lines)
        picture[lines - 1 - row[inside], column[inside]] = mark
    return "\n".join("".join(row) for row in picture)


def main() -> None:
    """Trains the network, compares with NumPy, and lets it move a point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps of training")
    rounds = 100 if parser.parse_args().quick else 400
    before, unseen = np.random.default_rng(1).uniform(-2.5, 2.5, size=(2, POINTS, 2))
    after = moved(law, before, 1.0, 50)[-1]
    started = time.perf_counter()
    graph, fed, fetches, model = build()
    session = gx.Session(graph)
    run = session.compile(fetches, fed)
    begun = time.perf_counter()
    losses, tries, _ = zip(*(run(before, after) for _ in range(rounds)), strict=True)
    trained = time.perf_counter()
    losses_by_numpy = trained_by_numpy(before, after, rounds)
    finished = time.perf_counter()
    weights = session.get(model)
    start = np.array([[0.5, 0.0]])
    learned = partial(learned_law, weights)
    paths = [np.concatenate(moved(change, start, 8.0, 160)) for change in (law, learned)]
    print(sketch(*paths))
    for number in (0, rounds // 4, rounds - 1):
        print(
            f"step {number:4}  loss {losses[number]:.6f}, in NumPy {losses_by_numpy[number]:.6f}; "
            f"{tries[number]} steps of the integrator"
        )
    print(
        f"built in {begun - started:.2f} s, run in {trained - begun:.2f} s, "
        f"in NumPy {finished - trained:.2f} s"
    )
    ends = [moved(change, unseen, 1.0, 50)[-1] for change in (law, learned)]
    off, way = (np.sqrt(((x - ends[0]) ** 2).sum(1).mean()) for x in (ends[1], unseen))
    print(f"points that were not seen end {off:.3f} from where they should, on ways of {way:.2f}")


if __name__ == "__main__":
    main()
