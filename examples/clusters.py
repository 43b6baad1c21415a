"""Clusters of points: k-means, then a mixture of Gaussians that starts from its centres.

Lloyd's algorithm moves each centre to the mean of the points that are nearest to it, until none
changes sides. Expectation maximisation gives each point a share in each cluster, by Gaussians that
may be oblong, until the likelihood no longer grows. Both are a ``gx.while_loop`` that ends by what
it computes, in one program. NumPy takes as many steps to the same clusters.

    python examples/clusters.py [--quick]

The last line says how many points each method puts where they come from.
"""

from __future__ import annotations

import argparse
import time
from itertools import permutations
from typing import Any

import numpy as np

import graphc as gx

Array = np.ndarray[Any, Any]

CLUSTERS = 3
TOLERANCE = 1e-9


def drawn(count: int) -> tuple[Array, Array]:
    """Points of three oblong clouds of different sizes, and which cloud each is from."""
    random = np.random.default_rng(1)
    labels = random.choice(CLUSTERS, size=count, p=[0.5, 0.3, 0.2])
    middles = np.array([[0.0, 0.0], [3.0, 2.0], [-1.0, 4.5]])
    shapes = np.array([[[2.0, 0.5], [0, 0.4]], [[0.4, -0.3], [0, 1.2]], [[0.8, 0], [0, 0.5]]])
    noise = random.normal(size=(count, 1, 2))
    return middles[labels] + (noise @ shapes[labels])[:, 0], labels


# --- in graphc -----------------------------------------------------------------------------------


def k_means(points: gx.Value, start: gx.Value) -> tuple[gx.Value, gx.Value, gx.Value]:
    """Centres, the nearest one of each point, and how many steps it took."""

    def nearest(centres: gx.Value) -> gx.Value:
        return gx.argmin(((points[:, None] - centres) ** 2).sum(2), axis=1)

    def moves(centres: gx.Value, labels: gx.Value, before: gx.Value, steps: gx.Value) -> gx.Value:
        return gx.any(labels != before)

    def step(centres: gx.Value, labels: gx.Value, before: gx.Value, steps: gx.Value) -> Any:
        members = (labels[:, None] == gx.arange(CLUSTERS)).astype("float64")
        centres = members.T @ points / gx.maximum(members.sum(0), 1)[:, None]
        return centres, nearest(centres), labels, steps + 1

    labels = nearest(start)
    centres, labels, _, steps = gx.while_loop(moves, step, (start, labels, labels - 1, 0))
    return centres, labels, steps


def mixture(points: gx.Value, labels: gx.Value) -> tuple[gx.Value, gx.Value, gx.Value]:
    """The most likely cluster of each point, the mean log-likelihood, and the number of steps."""

    def fitted(shares: gx.Value) -> Any:
        sizes = shares.sum(0)
        means = shares.T @ points / sizes[:, None]
        off = points - means[:, None]
        return sizes / sizes.sum(), means, gx.einsum("nk,kni,knj->kij", shares, off, off) / sizes[
            :, None, None
        ]

    def scores(weights: gx.Value, means: gx.Value, covs: gx.Value) -> gx.Value:
        lower = gx.linalg.cholesky(covs)
        off = gx.swapaxes(points - means[:, None], 1, 2)
        white = gx.linalg.solve_triangular(lower, off, lower=True)
        spread = gx.log(gx.diagonal(lower, axis1=1, axis2=2)).sum(1)
        logs = -0.5 * (white**2).sum(1) - spread[:, None] - np.log(2 * np.pi)
        return logs.T + gx.log(weights)

    def grows(shares: gx.Value, likely: gx.Value, before: gx.Value, steps: gx.Value) -> gx.Value:
        return gx.abs(likely - before) > TOLERANCE

    def step(shares: gx.Value, likely: gx.Value, before: gx.Value, steps: gx.Value) -> Any:
        made = scores(*fitted(shares))
        return gx.nn.softmax(made, axis=1), gx.logsumexp(made, axis=1).mean(), likely, steps + 1

    shares = (labels[:, None] == gx.arange(CLUSTERS)).astype("float64")
    first = (shares, gx.constant(-1e9, "float64"), gx.constant(0.0, "float64"), 0)
    shares, likely, _, steps = gx.while_loop(grows, step, first)
    return gx.argmax(shares, axis=1), likely, steps


def build() -> tuple[gx.Graph, list[gx.Value], Any]:
    """The graph, what it is fed, and what both methods find."""
    with gx.Graph("clusters") as graph:
        points = gx.placeholder(("points", 2), "float64", name="points")
        start = gx.placeholder((CLUSTERS, 2), "float64", name="start")
        centres, labels, steps = k_means(points, start)
        found = mixture(points, labels)
    return graph, [points, start], (centres, labels, steps, *found)


# --- in NumPy ------------------------------------------------------------------------------------


def k_means_by_numpy(points: Array, centres: Array) -> tuple[Array, Array, int]:
    """The same by steps in Python."""
    before, steps = None, 0
    while True:
        labels = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
        if before is not None and (labels == before).all():
            return centres, labels, steps
        members = (labels[:, None] == np.arange(CLUSTERS)).astype(float)
        centres = members.T @ points / np.maximum(members.sum(0), 1)[:, None]
        before, steps = labels, steps + 1


def mixture_by_numpy(points: Array, labels: Array) -> tuple[Array, float, int]:
    """The same by steps in Python."""
    shares = (labels[:, None] == np.arange(CLUSTERS)).astype(float)
    likely, before, steps = -1e9, 0.0, 0
    while abs(likely - before) > TOLERANCE:
        sizes = shares.sum(0)
        means = shares.T @ points / sizes[:, None]
        off = points - means[:, None]
        covs = np.einsum("nk,kni,knj->kij", shares, off, off) / sizes[:, None, None]
        lower = np.linalg.cholesky(covs)
        white = np.linalg.solve(lower, np.swapaxes(off, 1, 2))
        spread = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
        logs = -0.5 * (white**2).sum(1) - spread[:, None] - np.log(2 * np.pi)
        scores = logs.T + np.log(sizes / sizes.sum())
        top = scores.max(1, keepdims=True)
        exps = np.exp(scores - top)
        sums = exps.sum(1, keepdims=True)
        shares, before = exps / sums, likely
        likely, steps = float((np.log(sums) + top).mean()), steps + 1
    return shares.argmax(1), likely, steps


# --- what is shown -------------------------------------------------------------------------------


def right(labels: Array, truth: Array) -> float:
    """The share of points in the right cluster, whatever numbers clusters have."""
    return max(
        float((np.array(names)[labels] == truth).mean()) for names in permutations(range(CLUSTERS))
    )


def sketch(points: Array, labels: Array, lines: int = 18, width: int = 64) -> str:
    """A map of the clusters: a letter where points of one are the most."""
    low, high = points.min(0), points.max(0)
    cells = ((points - low) / (high - low) * [width - 1, lines - 1]).round().astype(int)
    counts = np.zeros((CLUSTERS, lines, width), int)
    np.add.at(counts, (labels, lines - 1 - cells[:, 1], cells[:, 0]), 1)
    letters = np.where(counts.sum(0) > 0, np.array(list("abc"))[counts.argmax(0)], " ")
    return "\n".join("".join(row) for row in letters)


def main() -> None:
    """Finds the clusters by both methods, compares with NumPy, and draws them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer points")
    points, truth = drawn(1_000 if parser.parse_args().quick else 20_000)
    begin = points[:CLUSTERS]
    started = time.perf_counter()
    graph, fed, fetches = build()
    run = gx.Session(graph).compile(fetches, fed)
    begun = time.perf_counter()
    centres, nearest, moves, labels, likely, steps = run(points, begin)
    fitted = time.perf_counter()
    centres_too, nearest_too, moves_too = k_means_by_numpy(points, begin)
    labels_too, likely_too, steps_too = mixture_by_numpy(points, nearest_too)
    finished = time.perf_counter()
    print(sketch(points, labels))
    print(f"k-means: {moves} steps, in NumPy {moves_too}")
    print(f"mixture: {steps} steps to {likely:.6f}, in NumPy {steps_too} to {likely_too:.6f}")
    same = (nearest == nearest_too).mean(), (labels == labels_too).mean()
    if not np.allclose(centres, centres_too) or min(same) < 0.999:
        raise SystemExit("graphc and NumPy disagree")
    print(
        f"built in {begun - started:.2f} s, run in {fitted - begun:.3f} s, "
        f"in NumPy {finished - fitted:.2f} s"
    )
    by_means, by_shares = right(nearest, truth), right(labels, truth)
    print(f"where they come from: {by_means:.1%} by k-means, {by_shares:.1%} by the mixture")


if __name__ == "__main__":
    main()
