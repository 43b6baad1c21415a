"""Logistic regression to its minimum: L-BFGS as one loop of the graph.

Points of ten classes in thirty dimensions; the cross entropy and a small penalty on the weights are
convex, so there is one minimum. ``gx.optim.lbfgs`` evaluates the loss and its gradient where it
wants to, and all of it is one native program. The NumPy program writes out both the gradient and
the method, the two-loop recursion and a search along a line.

    python examples/minimum.py [--quick]

The last line says by how much the two minima differ.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import graphc as gx

Array = np.ndarray[Any, Any]

CLASSES, FEATURES = 10, 30
PENALTY = 1e-3
HISTORY, MOST, TOLERANCE = 10, 200, 1e-6


def drawn(count: int) -> tuple[Array, Array]:
    """Points around a middle for each class, and their classes."""
    random = np.random.default_rng(0)
    labels = random.integers(CLASSES, size=count)
    middles = 0.6 * random.normal(size=(CLASSES, FEATURES))
    return middles[labels] + random.normal(size=(count, FEATURES)), labels


# --- in graphc -----------------------------------------------------------------------------------


def build() -> tuple[gx.Graph, list[gx.Value], gx.optim.Minimum]:
    """The graph, what it is fed, and the minimum."""
    with gx.Graph("minimum") as graph:
        points = gx.placeholder(("points", FEATURES), "float64", name="points")
        labels = gx.placeholder(("points",), "int64", name="labels")

        def loss(model: dict[str, gx.Value]) -> gx.Value:
            scores = points @ model["weights"] + model["bias"]
            entropy = gx.nn.softmax_cross_entropy(scores, labels).mean()
            return entropy + PENALTY * gx.sum(model["weights"] ** 2)

        start = {
            "weights": gx.zeros((FEATURES, CLASSES), "float64"),
            "bias": gx.zeros((CLASSES,), "float64"),
        }
        found = gx.optim.lbfgs(loss, start, HISTORY, MOST, TOLERANCE)
    return graph, [points, labels], found


# --- in NumPy ------------------------------------------------------------------------------------


def loss_by_numpy(vector: Array, points: Array, labels: Array) -> tuple[float, Array]:
    """The loss and its gradient."""
    weights = vector[: FEATURES * CLASSES].reshape(FEATURES, CLASSES)
    scores = points @ weights + vector[FEATURES * CLASSES :]
    scores = scores - scores.max(1, keepdims=True)
    exps = np.exp(scores)
    sums = exps.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    value = (np.log(sums[:, 0]) - scores[rows, labels]).mean() + PENALTY * (weights**2).sum()
    off = exps / sums
    off[rows, labels] -= 1
    off /= len(labels)
    of_weights = points.T @ off + 2 * PENALTY * weights
    return float(value), np.concatenate([of_weights.ravel(), off.sum(0)])


def minimum_by_numpy(points: Array, labels: Array) -> tuple[Array, float, int]:
    """L-BFGS: where the minimum is, the loss there, and how many steps it took."""
    x = np.zeros((FEATURES + 1) * CLASSES)
    value, gradient = loss_by_numpy(x, points, labels)
    pairs: list[tuple[Array, Array]] = []
    for count in range(MOST):
        if np.abs(gradient).max() <= TOLERANCE:
            return x, value, count
        direction, shares = -gradient, []
        for moved, changed in reversed(pairs):
            shares.append(moved @ direction / (moved @ changed))
            direction = direction - shares[-1] * changed
        if pairs:
            moved, changed = pairs[-1]
            direction = direction * (moved @ changed) / (changed @ changed)
        for (moved, changed), share in zip(pairs, reversed(shares), strict=True):
            direction = direction + (share - changed @ direction / (moved @ changed)) * moved
        slope, length, low, high = gradient @ direction, 1.0, 0.0, np.inf
        if not pairs:
            length = 1 / np.linalg.norm(gradient)
        for _ in range(30):
            following, after = loss_by_numpy(x + length * direction, points, labels)
            if not following <= value + 1e-4 * length * slope:
                high = length
            elif after @ direction < 0.9 * slope:
                low = length
            else:
                break
            length = (low + high) / 2 if high < np.inf else 2 * length
        pairs = [*pairs[1 - HISTORY :], (length * direction, after - gradient)]
        x, value, gradient = x + length * direction, following, after
    return x, value, MOST


def main() -> None:
    """Finds the minimum, and compares it with NumPy's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer points")
    points, labels = drawn(1_000 if parser.parse_args().quick else 10_000)
    started = time.perf_counter()
    graph, fed, fetches = build()
    run = gx.Session(graph).compile(fetches, fed)
    begun = time.perf_counter()
    found = run(points, labels)
    fitted = time.perf_counter()
    x, value, steps = minimum_by_numpy(points, labels)
    finished = time.perf_counter()
    scores = points @ found.x["weights"] + found.x["bias"]
    print(f"loss {found.value:.9f}, in NumPy {value:.9f}")
    print(f"{found.iterations} steps, in NumPy {steps}")
    print(f"classes of {(scores.argmax(1) == labels).mean():.1%} of {len(labels):,} points")
    print(
        f"built in {begun - started:.2f} s, run in {fitted - begun:.3f} s, "
        f"in NumPy {finished - fitted:.2f} s"
    )
    model = np.concatenate([found.x["weights"].ravel(), found.x["bias"]])
    print(f"the minima differ by at most {np.abs(model - x).max():.0e}")


if __name__ == "__main__":
    main()
