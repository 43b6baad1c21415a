"""Heat in a metal plate: a physics stencil by slices, run to its steady state in native code.

The plate is a grid of temperatures whose borders are held fixed. In each step every inner point
moves towards its four neighbours, u ← u + r (up + down + left + right − 4 u), until no point moves
by more than a tolerance. The whole iteration is one ``gx.while_loop``: the convergence test is part
of the program, and Python waits for the result. A NumPy loop over the same formula must give the
same bits.

    python examples/heat.py [--quick]

The last line says in how many steps the plate settled and that NumPy agrees.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import graphc as gx

RATE = 0.24
SHADES = " .:-=+*#%@"


def plate(rows: int, columns: int) -> np.ndarray[Any, Any]:
    """A cold plate, hot at the top and along half of its left side."""
    result = np.zeros((rows, columns))
    result[0, :] = 100.0
    result[rows // 2 :, 0] = 75.0
    return result


def build(rows: int, columns: int, tolerance: float, limit: int) -> tuple[gx.Graph, gx.Value, Any]:
    """The graph, the placeholder of the first state, and (state, largest change, steps)."""

    def unsettled(state: gx.Value, change: gx.Value, steps: gx.Value) -> gx.Value:
        return gx.logical_and(change > tolerance, steps < limit)

    def step(state: gx.Value, change: gx.Value, steps: gx.Value) -> tuple[gx.Value, ...]:
        inner = state[1:-1, 1:-1]
        neighbours = state[:-2, 1:-1] + state[2:, 1:-1] + state[1:-1, :-2] + state[1:-1, 2:]
        moved = inner + RATE * (neighbours - 4.0 * inner)
        middle = gx.concatenate([state[1:-1, :1], moved, state[1:-1, -1:]], axis=1)
        after = gx.concatenate([state[:1], middle, state[-1:]], axis=0)
        return after, gx.max(gx.abs(moved - inner)), steps + 1

    with gx.Graph("heat") as graph:
        start = gx.placeholder((rows, columns), "float64", name="start")
        first = (start, gx.constant(np.float64(np.inf)), gx.constant(0))
        settled = gx.while_loop(unsettled, step, first)
    return graph, start, settled


def by_numpy(state: np.ndarray[Any, Any], tolerance: float, limit: int) -> tuple[Any, float, int]:
    """The same steps in NumPy."""
    change, steps = np.inf, 0
    state = state.copy()
    while change > tolerance and steps < limit:
        inner = state[1:-1, 1:-1]
        neighbours = state[:-2, 1:-1] + state[2:, 1:-1] + state[1:-1, :-2] + state[1:-1, 2:]
        moved = inner + RATE * (neighbours - 4.0 * inner)
        change, steps = float(np.abs(moved - inner).max()), steps + 1
        state[1:-1, 1:-1] = moved
    return state, change, steps


def picture(state: np.ndarray[Any, Any], lines: int = 16, width: int = 48) -> str:
    """Temperatures as shades of ink."""
    rows = np.linspace(0, state.shape[0] - 1, lines).round().astype(int)
    columns = np.linspace(0, state.shape[1] - 1, width).round().astype(int)
    levels = (state[np.ix_(rows, columns)] / 100.0 * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("  " + "".join(SHADES[level] for level in row) for row in levels)


def main() -> None:
    """Settles the plate, compares with NumPy, and draws it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smaller plate")
    arguments = parser.parse_args()
    rows, columns = (24, 32) if arguments.quick else (64, 96)
    tolerance, limit = 1e-4, 100_000

    graph, start, settled = build(rows, columns, tolerance, limit)
    first = plate(rows, columns)
    with gx.Session(graph) as session:
        settle = session.compile(settled, [start])
        begun = time.perf_counter()
        state, change, steps = settle(first)
        seconds = time.perf_counter() - begun
    print(f"a plate of {rows} × {columns} points, settled when no point moves by {tolerance}")
    print(f"  graphc: {int(steps)} steps in {seconds * 1e3:.1f} ms, last change {change:.3e}")

    begun = time.perf_counter()
    expected, last_change, count = by_numpy(first, tolerance, limit)
    print(
        f"  NumPy:  {count} steps in {(time.perf_counter() - begun) * 1e3:.1f} ms, "
        f"last change {last_change:.3e}"
    )
    inner = state[1:-1, 1:-1]
    around = state[:-2, 1:-1] + state[2:, 1:-1] + state[1:-1, :-2] + state[1:-1, 2:]
    residual = np.abs(around / 4 - inner).max()
    print(f"  residual, the largest |mean of neighbours − u|: {residual:.3e}")
    print(picture(state))
    if int(steps) != count or not np.array_equal(state, expected):
        raise SystemExit("graphc and NumPy disagree")
    print(f"settled after {count} steps, the same bits as NumPy")


if __name__ == "__main__":
    main()
