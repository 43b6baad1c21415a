"""Steps of optimisers in NumPy, each written from what was published, for one parameter.

A formula takes the parameter, its gradient, a dict in which it keeps what it needs, and the number
of the step from 1; it gives the new parameter. Where a publication leaves something open, the
comment says what is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

State = dict[str, Any]
Formula = Callable[[Any, Any, State, int], Any]


def sgd(
    rate: Any, momentum: float = 0, nesterov: bool = False, decay: float = 0, dampening: float = 0
) -> Formula:
    """Heavy ball (Polyak, 1964), Nesterov's form as PyTorch has it."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        g = g + decay * p
        if momentum:
            b = g if t == 1 else momentum * state["b"] + (1 - dampening) * g
            state["b"] = b
            g = g + momentum * b if nesterov else b
        return p - at(rate, t) * g

    return step


def sign_sgd(rate: Any, decay: float = 0) -> Formula:
    """Bernstein and others, signSGD (2018)."""
    return lambda p, g, state, t: p - at(rate, t) * (np.sign(g) + decay * p)


def lion(rate: Any = 1e-4, first: float = 0.9, second: float = 0.99, decay: float = 0) -> Formula:
    """Chen and others, Symbolic Discovery of Optimization Algorithms (2023), algorithm 2."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        m = state.get("m", 0.0)
        update = np.sign(first * m + (1 - first) * g)
        state["m"] = second * m + (1 - second) * g
        return p - at(rate, t) * (update + decay * p)

    return step


def adagrad(
    rate: Any = 0.01, epsilon: float = 1e-10, decay: float = 0, initial: float = 0
) -> Formula:
    """Duchi, Hazan and Singer (2011), the diagonal form; ε beside the root."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        g = g + decay * p
        state["s"] = state.get("s", initial) + g * g
        return p - at(rate, t) * g / (np.sqrt(state["s"]) + epsilon)

    return step


def adadelta(
    rate: Any = 1.0, rho: float = 0.9, epsilon: float = 1e-6, decay: float = 0
) -> Formula:
    """Zeiler (2012), algorithm 1: RMS[x] = √(E[x²] + ε)."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        g = g + decay * p
        state["g"] = rho * state.get("g", 0.0) + (1 - rho) * g**2
        change = -np.sqrt(state.get("x", 0.0) + epsilon) / np.sqrt(state["g"] + epsilon) * g
        state["x"] = rho * state.get("x", 0.0) + (1 - rho) * change**2
        return p + at(rate, t) * change

    return step


def rmsprop(
    rate: Any = 0.01,
    alpha: float = 0.99,
    epsilon: float = 1e-8,
    momentum: float = 0,
    centered: bool = False,
    decay: float = 0,
) -> Formula:
    """Hinton, lecture 6e (2012); centred as Graves (2013)."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        g = g + decay * p
        state["v"] = alpha * state.get("v", 0.0) + (1 - alpha) * g * g
        spread = state["v"]
        if centered:
            state["a"] = alpha * state.get("a", 0.0) + (1 - alpha) * g
            spread = spread - state["a"] ** 2
        move = g / (np.sqrt(spread) + epsilon)
        if momentum:
            move = state["b"] = momentum * state.get("b", 0.0) + move
        return p - at(rate, t) * move

    return step


def _moments(state: State, g: Any, first: float, second: float) -> tuple[Any, Any]:
    state["m"] = first * state.get("m", 0.0) + (1 - first) * g
    state["v"] = second * state.get("v", 0.0) + (1 - second) * g * g
    return state["m"], state["v"]


def adam(
    rate: Any = 1e-3,
    first: float = 0.9,
    second: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0,
    decoupled: bool = False,
    largest: bool = False,
) -> Formula:
    """Kingma and Ba (2015), algorithm 1; Loshchilov and Hutter (2019) where decay is decoupled;
    Reddi, Kale and Kumar (2018) for the largest second moment, with Adam's bias corrections."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        if decoupled:
            p = p * (1 - at(rate, t) * decay)
        else:
            g = g + decay * p
        m, v = _moments(state, g, first, second)
        if largest:
            v = state["s"] = np.maximum(state.get("s", 0.0), v)
        m, v = m / (1 - first**t), v / (1 - second**t)
        return p - at(rate, t) * m / (np.sqrt(v) + epsilon)

    return step


def adamax(
    rate: Any = 2e-3,
    first: float = 0.9,
    second: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0,
) -> Formula:
    """Kingma and Ba (2015), algorithm 2; ε keeps the divisor from 0."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        g = g + decay * p
        m = state["m"] = first * state.get("m", 0.0) + (1 - first) * g
        u = state["u"] = np.maximum(second * state.get("u", 0.0), np.abs(g) + epsilon)
        return p - at(rate, t) / (1 - first**t) * m / u

    return step


def nadam(
    rate: Any = 2e-3,
    first: float = 0.9,
    second: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0,
    psi: float = 4e-3,
) -> Formula:
    """Dozat (2016), algorithm 8, with the warming momentum of its section 3."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        g = g + decay * p
        now, later = (first * (1 - 0.5 * 0.96 ** (n * psi)) for n in (t, t + 1))
        product = state["product"] = state.get("product", 1.0) * now
        m, v = _moments(state, g, first, second)
        mean = later * m / (1 - product * later) + (1 - now) * g / (1 - product)
        return p - at(rate, t) * mean / (np.sqrt(v / (1 - second**t)) + epsilon)

    return step


def radam(
    rate: Any = 1e-3,
    first: float = 0.9,
    second: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0,
) -> Formula:
    """Liu and others (2020), algorithm 2; rectified above ρ = 5, as its authors' code has it."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        g = g + decay * p
        m, v = _moments(state, g, first, second)
        m = m / (1 - first**t)
        limit = 2 / (1 - second) - 1
        rho = limit - 2 * t * second**t / (1 - second**t)
        if rho <= 5:
            return p - at(rate, t) * m
        r = np.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
        return p - at(rate, t) * r * m * np.sqrt(1 - second**t) / (np.sqrt(v) + epsilon)

    return step


def lars(
    rate: Any,
    momentum: float = 0.9,
    decay: float = 0,
    trust: float = 1e-3,
    epsilon: float = 0,
    nesterov: bool = False,
    adapted: bool = True,
) -> Formula:
    """You, Gitman and Ginsburg (2017), algorithm 1; parameters and gradients of norm 0 are left
    alone. Nesterov's form is that of PyTorch's SGD."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        w, slope = np.linalg.norm(p), np.linalg.norm(g)
        local = 1.0
        if adapted and w > 0 and slope > 0:
            local = trust * w / (slope + decay * w + epsilon)
        move = at(rate, t) * local * (g + decay * p)
        v = state["v"] = momentum * state.get("v", 0.0) + move
        return p - (momentum * v + move if nesterov else v)

    return step


def lamb(
    rate: Any = 1e-3,
    first: float = 0.9,
    second: float = 0.999,
    epsilon: float = 1e-6,
    decay: float = 0,
    adapted: bool = True,
) -> Formula:
    """You and others (2020), algorithm 2, with φ the identity."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        m, v = _moments(state, g, first, second)
        r = m / (1 - first**t) / (np.sqrt(v / (1 - second**t)) + epsilon)
        u = r + decay * p
        own, length = np.linalg.norm(p), np.linalg.norm(u)
        ratio = own / length if adapted and own > 0 and length > 0 else 1.0
        return p - at(rate, t) * ratio * u

    return step


def adafactor(
    rate: Any = 0.01,
    exponent: float = 0.8,
    epsilons: tuple[float, float] = (1e-30, 1e-3),
    clip: float = 1.0,
    decay: float = 0,
    relative: bool = True,
) -> Formula:
    """Shazeer and Stern (2018), algorithms 4 and 5, with sums of rows and columns as there; decay
    and a rate below 1e-2 as in PyTorch. Cubes are several matrices."""

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        if not p.size:
            return p
        beta = 1 - t**-exponent
        square = g * g + epsilons[0]
        if p.ndim > 1:
            state["r"] = beta * state.get("r", 0.0) + (1 - beta) * square.sum(-1, keepdims=True)
            state["c"] = beta * state.get("c", 0.0) + (1 - beta) * square.sum(-2, keepdims=True)
            v = state["r"] * state["c"] / state["r"].sum(-2, keepdims=True)
        else:
            v = state["v"] = beta * state.get("v", 0.0) + (1 - beta) * square
        u = g / np.sqrt(v)
        u = u / max(1, np.sqrt(np.mean(u * u)) / clip)
        size = at(rate, t)
        if relative:
            size = max(epsilons[1], np.sqrt(np.mean(p * p))) * min(size, 1 / np.sqrt(t))
        return p * (1 - at(rate, t) * decay) - size * u

    return step


def at(rate: Any, t: int) -> Any:
    """A rate of step t: a number, or a function of the steps before it."""
    return rate(t - 1) if callable(rate) else rate


def trained(formula: Formula, start: Any, slopes: list[Any]) -> Any:
    """A parameter after steps for loss Σ p² / 2 + Σ d p, whose gradient is p + d, for each d."""
    p, state = np.array(start, np.float64), State()
    for t, d in enumerate(slopes, 1):
        p = formula(p, p + d, state, t)
    return p
