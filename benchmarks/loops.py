"""What a trip of a loop costs: ``python -m benchmarks.loops``.

Loops that write a part of an array stand beside others that do their arithmetic alone; what they
differ by is what the write costs. Figures are medians of many runs and the least, which is left
where other work on the machine disturbs. Counts of steps and of copied bytes come from the plan.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import graphc as gx
from graphc.plan.ir import Copy, Plan

_RUNS = 25
_LENGTH = 1000
_WIDTH = 64


def _loop(body: Callable[..., Any], *start: Any, trips: Any) -> Any:
    """The last carried value of a counted loop."""
    return gx.while_loop(
        lambda t, *_: t < trips, lambda t, *now: (t + 1, *body(t, *now)), (np.int64(0), *start)
    )[-1]


def _written_inside(plan: Plan) -> tuple[int, int]:
    """The steps of the longest loop, and the bytes that it copies."""
    start, end = max(plan.loops, key=lambda loop: loop[1] - loop[0])
    copies = [step for step in plan.steps[start:end] if isinstance(step, Copy)]
    sizes = plan.bytes_of(step.target for step in copies)
    return end - start, sum(size for size in sizes if isinstance(size, int))


def _measured(
    build: Callable[[Any, Any], Any], shape: tuple[int, ...], trips: int
) -> tuple[float, float, Plan]:
    """Nanoseconds a trip, the median and the least, and the plan."""
    with gx.Graph() as graph:
        x = gx.placeholder(shape, "float64")
        count = gx.placeholder((), "int64")
        found = build(x, count)
    run = gx.Session(graph, threads=1).compile(found, [x, count])
    array, number = np.full(shape, 0.25), np.int64(trips)
    run(array, number)
    times = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        run(array, number)
        times.append((time.perf_counter() - started) / trips * 1e9)
    return statistics.median(times), min(times), run.compiled.plan


def _element(x: Any, trips: Any) -> Any:
    return _loop(lambda t, y: (gx.scatter_add(y, t % _LENGTH, 1.5),), x, trips=trips)


def _no_element(x: Any, trips: Any) -> Any:
    return _loop(lambda t, k: (t % _LENGTH,), np.int64(0), trips=trips), x[0]


def _row(x: Any, trips: Any) -> Any:
    row = x[0] * 0.5
    return _loop(lambda t, y: (gx.scatter_add(y, t % _LENGTH, row),), x, trips=trips)


def _row_alone(x: Any, trips: Any) -> Any:
    """A row that is added to a row, always the same one."""
    row = x[0] * 0.5
    return _loop(lambda t, k, y: (t % _LENGTH, y + row), np.int64(0), x[1], trips=trips)


def _map(x: Any, trips: Any) -> Any:
    return _loop(lambda t, y: (3.9 * y * (1.0 - y),), x, trips=trips)


def _stencil(x: Any, trips: Any) -> Any:
    return _loop(lambda t, y: (y[::-1] * 0.5,), x, trips=trips)


_ROWS: tuple[tuple[str, Callable[[Any, Any], Any], tuple[int, ...], int], ...] = (
    ("loop_scatter", _element, (_LENGTH,), 100_000),
    ("  without", _no_element, (_LENGTH,), 100_000),
    ("loop_scatter, 8 MB", _element, (1 << 20,), 100_000),
    ("loop_row", _row, (_LENGTH, _WIDTH), 100_000),
    ("  without", _row_alone, (_LENGTH, _WIDTH), 100_000),
    ("loop_map", _map, (4096,), 10_000),
    ("loop_turns", _stencil, (4096,), 10_000),
)


def main() -> None:
    """Prints a row for each loop."""
    print(f"{'':<20} {'median ns':>10} {'least':>8} {'steps':>6} {'bytes copied':>13}")
    for name, build, shape, trips in _ROWS:
        median, least, plan = _measured(build, shape, trips)
        steps, copied = _written_inside(plan)
        print(f"{name:<20} {median:>10.1f} {least:>8.1f} {steps:>6} {copied:>13}")


if __name__ == "__main__":
    main()
