"""Loops whose trips work on small arrays: filters, stencils, sweeps, and a recurrent network.

The references follow the textbook and are the programs of the peer NumPy, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Goal, Workload, normal

HEAT_RATE = 0.2
"""Of the way towards the neighbours that a point of the plate goes in one step."""
ESCAPED = 4.0
"""The square of the modulus from which on a point is known to be outside of Mandelbrot's set."""
LSTM_WEIGHTS = ("w_input", "w_hidden", "bias")

Make = Callable[[np.random.Generator], Arrays]


def inverse_of_two(matrix: Any, stack: Callable[..., Any]) -> Any:
    """The inverse of a 2×2 matrix, spelled out."""
    (a, b), (c, d) = (matrix[0, 0], matrix[0, 1]), (matrix[1, 0], matrix[1, 1])
    return stack([stack([d, -b]), stack([-c, a])]) / (a * d - b * c)


def filtered(
    carry: tuple[Any, Any], seen: Any, model: tuple[Any, Any, Any, Any], stack: Callable[..., Any]
) -> tuple[Any, Any]:
    """State and covariance behind one observation, of a model (move, observe, drift, noise)."""
    (state, spread), (move, observe, drift, noise) = carry, model
    state = move @ state
    spread = move @ spread @ move.T + drift
    innovation = observe @ spread @ observe.T + noise
    gain = spread @ observe.T @ inverse_of_two(innovation, stack)
    state = state + gain @ (seen - observe @ state)
    return state, spread - gain @ observe @ spread


def kalman(i: Arrays) -> tuple[Array, ...]:
    """The filtered states, and the last covariance."""
    model = i["move"], i["observe"], i["drift"], i["noise"]
    carry, states = (i["state"], i["spread"]), []
    for seen in i["seen"]:
        carry = filtered(carry, seen, model, np.stack)
        states.append(carry[0])
    return np.stack(states), carry[1]


def _forward(i: Arrays) -> tuple[list[Array], list[Any]]:
    """The probabilities of the states after each observation, and the scales."""
    now, scales, states = i["first"], [], []
    for n, row in enumerate(i["emission"][i["seen"]]):
        now = (now if n == 0 else now @ i["transition"]) * row
        scales.append(now.sum())
        now = now / scales[-1]
        states.append(now)
    return states, scales


def hmm(i: Arrays) -> tuple[Array, ...]:
    """The logarithm of the likelihood, by the forward algorithm."""
    return (np.log(np.stack(_forward(i)[1])).sum(),)


def hmm_gradient(i: Arrays) -> tuple[Array, ...]:
    """Of the logarithm, by the transition matrix and by the table of emissions."""
    (states, scales), transition = _forward(i), i["transition"]
    by_transition, by_emission = np.zeros_like(transition), np.zeros_like(i["emission"])
    back = np.ones_like(i["first"])
    for n in range(len(scales) - 1, 0, -1):
        back = back / scales[n]
        by_emission[i["seen"][n]] += (states[n - 1] @ transition) * back
        back = back * i["emission"][i["seen"][n]]
        by_transition += np.outer(states[n - 1], back)
        back = transition @ back
    by_emission[i["seen"][0]] += i["first"] * back / scales[0]
    return by_transition, by_emission


def heat(i: Arrays) -> tuple[Array, ...]:
    """The plate after all steps; its border keeps its temperature."""
    plate = i["plate"].copy()
    for _ in range(len(i["trips"])):
        plate[1:-1, 1:-1] += HEAT_RATE * neighbours_above(plate)
    return (plate,)


def neighbours_above(plate: Any) -> Any:
    """By how much the four neighbours of the inner points are warmer, together."""
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    return around - 4.0 * plate[1:-1, 1:-1]


def eliminated(carry: tuple[Any, Any], row: tuple[Any, Any, Any, Any]) -> tuple[Any, Any]:
    """Thomas's algorithm: the ratio and the value of a row, given those of the row before."""
    (ratio, value), (lower, middle, upper, right) = carry, row
    pivot = middle - lower * ratio
    return upper / pivot, (right - lower * value) / pivot


def tridiagonal(i: Arrays) -> tuple[Array, ...]:
    """The solution by Thomas's algorithm; the rows come first, systems side by side behind."""
    lower, middle, upper, right = (i[n] for n in ("lower", "middle", "upper", "right"))
    ratio, value = np.zeros_like(upper[0]), np.zeros_like(right[0])
    ratios, values = np.empty_like(upper), np.empty_like(right)
    for n, row in enumerate(zip(lower, middle, upper, right, strict=True)):
        ratio, value = ratios[n], values[n] = eliminated((ratio, value), row)
    found, result = np.zeros_like(right[0]), np.empty_like(right)
    for n in range(len(middle) - 1, -1, -1):
        found = values[n] - ratios[n] * found
        result[n] = found
    return (result,)


def escaping(
    point: tuple[Any, Any, Any], x: Any, y: Any, where: Callable[..., Any]
) -> tuple[Any, Any, Any]:
    """Mandelbrot's iteration: the two parts of points and whether they are inside, a step on."""
    a, b, inside = point
    moved = a * a - b * b + x, 2.0 * a * b + y
    a, b = where(inside, moved[0], a), where(inside, moved[1], b)
    return a, b, a * a + b * b <= ESCAPED


def mandelbrot(i: Arrays) -> tuple[Array, ...]:
    """How many steps each point stays within the circle."""
    shape = len(i["y"]), len(i["x"])
    point = np.zeros(shape), np.zeros(shape), np.ones(shape, bool)
    counts = np.zeros(shape, np.int64)
    for _ in range(len(i["trips"])):
        if not point[2].any():
            break
        point = escaping(point, i["x"], i["y"][:, None], np.where)
        counts += point[2]
    return (counts,)


def _sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm_steps(i: Arrays) -> list[tuple[Array, ...]]:
    """Of each step the gates i, f, g and o, the cells, and the hidden states."""
    hidden = cells = np.zeros((i["x"].shape[1], len(i["w_hidden"])), i["x"].dtype)
    steps: list[tuple[Array, ...]] = []
    for x in i["x"]:
        gates = x @ i["w_input"] + hidden @ i["w_hidden"] + i["bias"]
        taken, kept, new, shown = np.split(gates, 4, -1)
        taken, kept, new, shown = _sigmoid(taken), _sigmoid(kept), np.tanh(new), _sigmoid(shown)
        cells = kept * cells + taken * new
        hidden = shown * np.tanh(cells)
        steps.append((taken, kept, new, shown, cells, hidden))
    return steps


def lstm(i: Arrays) -> tuple[Array, ...]:
    """The hidden states of all steps, and the last cells."""
    steps = _lstm_steps(i)
    return np.stack([step[-1] for step in steps]), steps[-1][-2]


def lstm_gradient(i: Arrays) -> tuple[Array, ...]:
    """Of half the squares of all hidden states, the mean over steps and batch, by the weights."""
    steps, share = _lstm_steps(i), 1 / (i["x"].shape[0] * i["x"].shape[1])
    sums = [np.zeros_like(i[name]) for name in LSTM_WEIGHTS]
    nothing = np.zeros_like(steps[0][-1])
    to_hidden = to_cells = nothing
    for n in range(len(steps) - 1, -1, -1):
        taken, kept, new, shown, cells, hidden = steps[n]
        old_cells, old_hidden = (nothing, nothing) if n == 0 else steps[n - 1][-2:]
        to_hidden = to_hidden + share * hidden
        ahead = np.tanh(cells)
        to_cells = to_cells + to_hidden * shown * (1 - ahead * ahead)
        parts = (
            to_cells * new * taken * (1 - taken),
            to_cells * old_cells * kept * (1 - kept),
            to_cells * taken * (1 - new * new),
            to_hidden * ahead * shown * (1 - shown),
        )
        gates = np.concatenate(parts, -1)
        sums[0] += i["x"][n].T @ gates
        sums[1] += old_hidden.T @ gates
        sums[2] += gates.sum(0)
        to_hidden, to_cells = gates @ i["w_hidden"].T, to_cells * kept
    return tuple(sums)


def _tracked(steps: int) -> Make:
    """A point that moves in a plane, seen with noise; states are places and speeds."""

    def make(random: np.random.Generator) -> Arrays:
        move, turn = np.eye(4), 0.1
        move[0, 2] = move[1, 3] = turn
        path = np.cumsum(random.standard_normal((steps, 2)), 0) * turn
        return {
            "seen": path + 0.3 * random.standard_normal((steps, 2)),
            "move": move,
            "observe": np.eye(2, 4),
            "drift": 0.01 * np.eye(4) + 0.002,
            "noise": np.array([[0.09, 0.01], [0.01, 0.08]]),
            "state": np.zeros(4),
            "spread": np.eye(4),
        }

    return make


def _observed(steps: int, states: int, symbols: int) -> Make:
    def shares(random: np.random.Generator, *shape: int, axis: int = -1) -> Array:
        parts: Array = 0.05 + random.random(shape)
        parts /= parts.sum(axis, keepdims=True)
        return parts

    return lambda random: {
        "seen": random.integers(0, symbols, steps),
        "transition": shares(random, states, states),
        "emission": shares(random, symbols, states, axis=0),
        "first": shares(random, states),
    }


def _plate(rows: int, columns: int, steps: int) -> Make:
    return lambda random: {
        "plate": random.random((rows, columns)),
        "trips": np.zeros(steps, np.int8),
    }


def _systems(*shape: int) -> Make:
    """Dominated by their diagonals; the first of ``lower`` and the last of ``upper`` are 0."""

    def make(random: np.random.Generator) -> Arrays:
        lower, upper, right = (random.standard_normal(shape) for _ in range(3))
        lower[0] = upper[-1] = 0.0
        middle = 0.5 + random.random(shape) + np.abs(lower) + np.abs(upper)
        return {"lower": lower, "middle": middle, "upper": upper, "right": right}

    return make


def _region(width: int, height: int, steps: int) -> Make:
    """No row lies on the real axis, where the points between −2 and −1.4 are chaotic."""
    return lambda random: {
        "x": np.linspace(-2.0, 0.6, width),
        "y": np.linspace(-1.3, 1.3, height),
        "trips": np.zeros(steps, np.int8),
    }


def _network(steps: int, batch: int, units: int) -> Make:
    return lambda random: {
        "x": normal(random, steps, batch, units),
        "w_input": normal(random, units, 4 * units, scale=units**-0.5),
        "w_hidden": normal(random, units, 4 * units, scale=units**-0.5),
        "bias": normal(random, 4 * units, scale=0.1),
    }


def _doubles(quick: bool) -> list[Workload]:
    """What is computed in float64."""
    seen, states, symbols = (9, 5, 7) if quick else (1000, 32, 64)
    rows, columns, steps = (9, 11, 4) if quick else (256, 256, 100)
    side, few = (13, 3) if quick else (2048, 20)
    long, length, systems = (12, 7, 5) if quick else (100_000, 1000, 64)
    points, most = (8, 10) if quick else (512, 200)
    chain = f"{states} states, {seen:,} steps"
    table: tuple[tuple[str, str, str, Make, Callable[[Arrays], tuple[Array, ...]], float], ...] = (
        ("kalman", "kalman", f"Kalman filter, 4 states, 2 seen, {seen:,} steps", _tracked(seen),
         kalman, 0.15),
        ("hmm", "hmm", f"forward algorithm, {chain}", _observed(seen, states, symbols), hmm, 0.35),
        ("hmm_gradient", "hmm_gradient", f"its gradient, {chain}",
         _observed(seen, states, symbols), hmm_gradient, 0.2),
        ("heat", "heat", f"heat in a plate, {rows}×{columns}, {steps} steps",
         _plate(rows, columns, steps), heat, 0.9),
        ("heat_large", "heat", f"heat in a plate, {side}×{side}, {few} steps",
         _plate(side, side, few), heat, 0.6),
        ("tridiagonal", "tridiagonal", f"Thomas's algorithm, {long:,} rows", _systems(long),
         tridiagonal, 1.05),
        ("tridiagonal_many", "tridiagonal_many", f"Thomas's algorithm, {length:,}×{systems}",
         _systems(length, systems), tridiagonal, 0.35),
        ("mandelbrot", "mandelbrot", f"Mandelbrot's set, {points}×{points}, {most} steps",
         _region(points, points, most), mandelbrot, 0.15),
    )  # fmt: skip
    return [
        Workload(name, kind, what, make, reference, double=True, relative=1e-9, absolute=1e-12,
                 goals=(Goal(share),))
        for name, kind, what, make, reference, share in table
    ]  # fmt: skip


def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family; ``trips`` is as long as there are trips, and has no other meaning."""
    steps, batch, units = (4, 3, 5) if quick else (128, 16, 256)
    what, make = f"{steps} steps, {batch}×{units}", _network(steps, batch, units)
    flops = 2.0 * steps * batch * 2 * units * 4 * units
    return (
        *_doubles(quick),
        Workload("lstm_loop", "lstm_loop", f"LSTM by hand, {what}", make, lstm,
                 weights=frozenset(LSTM_WEIGHTS), flops=flops, goals=(Goal(0.95),)),
        Workload("lstm_loop_gradient", "lstm_loop_gradient", f"its gradient, {what}", make,
                 lstm_gradient, flops=2.5 * flops, absolute=1e-7, goals=(Goal(0.7),)),
    )  # fmt: skip
