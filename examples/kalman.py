"""A trend in noisy measurements: a Kalman smoother whose noises are fitted by a gradient.

A level drifts, and so does its slope; each measurement is the level with noise. For given
variances of the three noises the filter of Kalman tells how likely the measurements are, and the
smoother of Rauch, Tung and Striebel what level was most likely at each time. Both are a
``gx.scan``, one forward and one backward. The variances are found by ``gx.optim.lbfgs``: the
likelihood is differentiated through the filter. The NumPy program takes Newton steps on
differences, since it has no gradient.

    python examples/kalman.py [--quick]

The last line says by how much the smoothed level is nearer to the truth than what was measured.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import graphc as gx

Array = np.ndarray[Any, Any]

STEP = np.array([[1.0, 1.0], [0.0, 1.0]])
"""What becomes of level and slope in a step, without noise."""
TRUE = np.array([0.4, 0.1, 1.5])
"""Standard deviations of what moves the level and the slope, and of the measurements."""


def measured(count: int) -> tuple[Array, Array]:
    """A level, and measurements of it."""
    random = np.random.default_rng(0)
    slopes = np.cumsum(TRUE[1] * random.normal(size=count))
    levels = np.cumsum(slopes + TRUE[0] * random.normal(size=count))
    return levels, levels + TRUE[2] * random.normal(size=count)


# --- in graphc -----------------------------------------------------------------------------------


def filtered(logs: gx.Value, values: gx.Value) -> tuple[gx.Value, Any]:
    """The logarithm of the likelihood; and means and covariances before and after each value."""
    variances = gx.exp(2 * logs)

    def step(state: tuple[gx.Value, gx.Value], value: gx.Value) -> Any:
        mean, cov = state
        ahead = STEP @ mean
        cov_ahead = STEP @ cov @ STEP.T + gx.diag(variances[:2])
        error, spread = value - ahead[0], cov_ahead[0, 0] + variances[2]
        gain = cov_ahead[:, 0] / spread
        mean, cov = ahead + gain * error, cov_ahead - gx.outer(gain, cov_ahead[0])
        likely = -0.5 * (gx.log(2 * np.pi * spread) + error**2 / spread)
        return (mean, cov), (likely, ahead, cov_ahead, mean, cov)

    start = gx.zeros((2,), "float64"), gx.eye(2, dtype="float64") * 10.0
    _, (likely, *states) = gx.scan(step, start, values)
    return likely.sum(), states


def smoothed(states: Any) -> gx.Value:
    """The level at each time, given all measurements."""
    ahead, cov_ahead, means, covs = states

    def step(following: gx.Value, rows: Any) -> Any:
        ahead, cov_ahead, mean, cov = rows
        mean = mean + cov @ STEP.T @ gx.linalg.solve(cov_ahead, following - ahead)
        return mean, mean[0]

    rows = (ahead[1:], cov_ahead[1:], means[:-1], covs[:-1])
    _, levels = gx.scan(step, means[-1], rows, reverse=True)
    return gx.concatenate([levels, means[-1:, 0]])


def build() -> tuple[gx.Graph, gx.Value, Any]:
    """The graph, what it is fed, and logarithms of deviations, likelihood, levels, iterations."""
    with gx.Graph("kalman") as graph:
        values = gx.placeholder(("count",), "float64", name="values")
        found = gx.optim.lbfgs(
            lambda logs: -filtered(logs, values)[0], gx.zeros((3,), "float64"), tolerance=1e-4
        )
        levels = smoothed(filtered(found.x, values)[1])
    return graph, values, (found.x, -found.value, levels, found.iterations)


# --- in NumPy ------------------------------------------------------------------------------------


def filtered_by_numpy(logs: Array, values: Array) -> tuple[float, list[Any]]:
    """The logarithm of the likelihood, and what the smoother needs."""
    first, second, noise = np.exp(2 * logs)
    mean, cov, total, states = np.zeros(2), np.eye(2) * 10.0, 0.0, []
    for value in values:
        ahead = STEP @ mean
        cov_ahead = STEP @ cov @ STEP.T + np.diag([first, second])
        error, spread = value - ahead[0], cov_ahead[0, 0] + noise
        gain = cov_ahead[:, 0] / spread
        mean, cov = ahead + gain * error, cov_ahead - np.outer(gain, cov_ahead[0])
        total -= 0.5 * (np.log(2 * np.pi * spread) + error**2 / spread)
        states.append((ahead, cov_ahead, mean, cov))
    return total, states


def smoothed_by_numpy(states: list[Any]) -> Array:
    """The level at each time, given all measurements."""
    mean = states[-1][2]
    levels = [mean[0]]
    for (_, _, own, cov), (ahead, cov_ahead, _, _) in zip(
        states[-2::-1], states[:0:-1], strict=True
    ):
        mean = own + cov @ STEP.T @ np.linalg.solve(cov_ahead, mean - ahead)
        levels.append(mean[0])
    return np.array(levels[::-1])


def fitted_by_numpy(values: Array, rounds: int = 30, width: float = 1e-3) -> tuple[Array, float]:
    """Newton's method, with differences for the gradient and the Hessian."""

    def loss(logs: Array) -> float:
        return -filtered_by_numpy(logs, values)[0]

    logs, units = np.zeros(3), width * np.eye(3)
    now = loss(logs)
    for _ in range(rounds):
        up = np.array([loss(logs + unit) for unit in units])
        down = np.array([loss(logs - unit) for unit in units])
        gradient = (up - down) / (2 * width)
        if np.abs(gradient).max() < 1e-4:
            break
        hessian = np.empty((3, 3))
        for i, j in np.ndindex(3, 3):
            corner = loss(logs + units[i] + units[j])
            hessian[i, j] = (corner - up[i] - up[j] + now) / width**2
        sizes, axes = np.linalg.eigh((hessian + hessian.T) / 2)
        step = -axes @ (axes.T @ gradient / np.maximum(np.abs(sizes), 1.0))
        while (following := loss(logs + step)) > now and np.abs(step).max() > 1e-9:
            step /= 2
        logs, now = logs + step, following
    return logs, -now


def main() -> None:
    """Fits the noises, smooths, and compares with NumPy and with the truth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer measurements")
    truth, values = measured(50 if parser.parse_args().quick else 200)
    started = time.perf_counter()
    graph, fed, fetches = build()
    run = gx.Session(graph).compile(fetches, [fed])
    begun = time.perf_counter()
    logs, likely, levels, rounds = run(values)
    fitted = time.perf_counter()
    logs_by_numpy, likely_by_numpy = fitted_by_numpy(values)
    levels_by_numpy = smoothed_by_numpy(filtered_by_numpy(logs_by_numpy, values)[1])
    finished = time.perf_counter()
    print("deviations of      level   slope   noise")
    fits = {"truth": TRUE, "fitted": np.exp(logs), "NumPy": np.exp(logs_by_numpy)}
    for name, each in fits.items():
        print(f"  {name:<12}" + "".join(f"{number:8.4f}" for number in each))
    print(f"log-likelihood {likely:.6f} after {rounds} iterations, in NumPy {likely_by_numpy:.6f}")
    print(f"smoothed levels differ by {np.abs(levels - levels_by_numpy).max():.0e}")
    print(
        f"built in {begun - started:.2f} s, run in {fitted - begun:.3f} s, "
        f"in NumPy {finished - fitted:.2f} s"
    )
    off, before = (np.sqrt(np.mean((each - truth) ** 2)) for each in (levels, values))
    print(f"mean error {off:.3f}, of measurements {before:.3f}: {before / off:.1f} times nearer")


if __name__ == "__main__":
    main()
