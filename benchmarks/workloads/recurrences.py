"""Loops whose trips do little: recurrences of scalars and of many lanes, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workloads.base import Array, Arrays, Goal, Workload

STEP = 0.01
"""Of time, in the solution of Lorenz's equations."""


def affine(x: Any, a: Any) -> Any:
    """The recurrence of scalars."""
    return a * x + 0.5


def logistic(x: Any, r: Any) -> Any:
    """The logistic map."""
    return r * x * (1.0 - x)


def lorenz(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """The derivatives of Lorenz's equations."""
    x, y, z = state
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z


def runge_kutta(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """One step of the classical method of Runge and Kutta, of fourth order."""

    def ahead(slopes: tuple[Any, ...], part: float) -> tuple[Any, Any, Any]:
        x, y, z = (a + part * STEP * b for a, b in zip(state, slopes, strict=True))
        return x, y, z

    k1 = lorenz(state)
    k2 = lorenz(ahead(k1, 0.5))
    k3 = lorenz(ahead(k2, 0.5))
    k4 = lorenz(ahead(k3, 1.0))
    slopes = tuple(p + 2.0 * (q + r) + u for p, q, r, u in zip(k1, k2, k3, k4, strict=True))
    return ahead(slopes, 1.0 / 6.0)


def _repeated(i: Arrays, step: Callable[[Array], Array]) -> list[Array]:
    x, states = i["x"], []
    for _ in range(len(i["trips"])):
        x = step(x)
        states.append(x)
    return states


def affine_states(i: Arrays) -> list[Array]:
    """All states, by NumPy."""
    return _repeated(i, lambda x: affine(x, i["a"]))


def logistic_states(i: Arrays) -> list[Array]:
    """All states, by NumPy."""
    return _repeated(i, lambda x: logistic(x, i["r"]))


def logistic_gradient(i: Arrays) -> tuple[Array, ...]:
    """Of the sum of the last states, by states and rates."""
    states = [i["x"], *logistic_states(i)[:-1]]
    r, back, rates = i["r"], np.ones_like(i["x"]), np.zeros_like(i["r"])
    for x in reversed(states):
        rates = rates + back * x * (1.0 - x)
        back = back * r * (1.0 - 2.0 * x)
    return back, rates


def lorenz_state(i: Arrays) -> tuple[Array, ...]:
    """The last state, by NumPy."""
    state = (i["x"], i["y"], i["z"])
    for _ in range(len(i["trips"])):
        state = runge_kutta(state)
    return state


def lorenz_gradient(i: Arrays) -> tuple[Array, ...]:
    """Of the sum of the last state, by complex steps, of which none cancels."""
    found = []
    for name in ("x", "y", "z"):
        moved = {key: array.astype(complex) for key, array in i.items() if key != "trips"}
        moved[name] = moved[name] + 1e-200j
        found.append(sum(part.imag for part in lorenz_state({**i, **moved})) / 1e-200)
    return tuple(found)


def _lanes(trips: int, lanes: int) -> Callable[[np.random.Generator], Arrays]:
    """States, and rates at which they settle slowly, so that no number becomes subnormal."""
    return lambda random: {
        "x": 0.2 + 0.5 * random.random(lanes),
        "r": 2.96 + 0.038 * random.random(lanes),
        "trips": np.zeros(trips, np.int8),
    }


def _states(trips: int, lanes: int) -> Callable[[np.random.Generator], Arrays]:
    return lambda random: {
        **{name: random.random(lanes) for name in ("x", "y", "z")},
        "trips": np.zeros(trips, np.int8),
    }


def _scalar(trips: int) -> Callable[[np.random.Generator], Arrays]:
    return lambda random: {
        "x": np.array(0.1),
        "a": np.array(0.999),
        "trips": np.zeros(trips, np.int8),
    }


def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family; ``trips`` is as long as there are trips, and has no other meaning."""
    sizes = (50, 8, 33, 5, 40) if quick else (100_000, 1000, 4096, 64, 10_000)
    long, trips, lanes, few, more = sizes
    both = 2 * (trips if quick else 1000)
    rows = (
        ("scalar_loop", "affine", f"a·x + b, {long} trips", _scalar(long),
         lambda i: (affine_states(i)[-1],), 1.05),
        ("scalar_loop_stacked", "affine_stacked", f"the same, all of them, {long} trips",
         _scalar(long),
         lambda i: (np.stack(affine_states(i)),), 1.05),
        ("logistic", "logistic", f"logistic map, {trips}×{lanes}", _lanes(trips, lanes),
         lambda i: (logistic_states(i)[-1],), 0.8),
        ("logistic_stacked", "logistic_stacked", f"the same, all of them, {trips}×{lanes}",
         _lanes(trips, lanes), lambda i: (np.stack(logistic_states(i)),), 0.35),
        ("lorenz", "lorenz", f"Lorenz by RK4, {trips}×{lanes}", _states(trips, lanes),
         lorenz_state, 0.95),
        ("logistic_gradient_few", "logistic_gradient", f"its gradient, {more}×{few}",
         _lanes(more, few), logistic_gradient, 0.1),
        ("logistic_gradient", "logistic_gradient", f"its gradient, {both}×{lanes}",
         _lanes(both, lanes), logistic_gradient, 0.15),
        ("lorenz_gradient", "lorenz_gradient", f"gradient of Lorenz, {trips}×{lanes}",
         _states(trips, lanes), lorenz_gradient, 0.2),
    )  # fmt: skip
    return tuple(
        Workload(name, kind, what, make, reference, double=True, goals=(Goal(share),))
        for name, kind, what, make, reference, share in rows
    )
