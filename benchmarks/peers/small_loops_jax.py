"""JAX's loops over small arrays, by ``lax.scan``, ``fori_loop`` and ``while_loop``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.workloads.small_loops import (
    HEAT_RATE,
    LSTM_WEIGHTS,
    eliminated,
    escaping,
    filtered,
    neighbours_above,
)


def _kalman(
    seen: Any, move: Any, observe: Any, drift: Any, noise: Any, state: Any, spread: Any
) -> Any:
    model = move, observe, drift, noise

    def step(carry: Any, now: Any) -> Any:
        carry = filtered(carry, now, model, jnp.stack)
        return carry, carry[0]

    (_, last), states = lax.scan(step, (state, spread), seen)
    return states, last


def _hmm(seen: Any, transition: Any, emission: Any, first: Any) -> Any:
    rows = emission[seen]

    def step(now: Any, row: Any) -> Any:
        ahead = now @ transition * row
        scale = ahead.sum()
        return ahead / scale, scale

    start = first * rows[0]
    scale = start.sum()
    _, scales = lax.scan(step, start / scale, rows[1:])
    return jnp.log(scale) + jnp.log(scales).sum()


def _hmm_gradient(transition: Any, emission: Any, **rest: Any) -> Any:
    def likelihood(transition: Any, emission: Any) -> Any:
        return _hmm(transition=transition, emission=emission, **rest)

    return jax.grad(likelihood, (0, 1))(transition, emission)


def _heat(plate: Any, trips: Any) -> Any:
    # half the time of what ``plate.at[1:-1, 1:-1].add`` takes
    def step(_: Any, plate: Any) -> Any:
        return plate + jnp.pad(HEAT_RATE * neighbours_above(plate), 1)

    return lax.fori_loop(0, len(trips), step, plate)


def _tridiagonal(lower: Any, middle: Any, upper: Any, right: Any) -> Any:
    def forward(carry: Any, row: Any) -> Any:
        carry = eliminated(carry, row)
        return carry, carry

    def backward(found: Any, row: Any) -> Any:
        ratio, value = row
        found = value - ratio * found
        return found, found

    nothing = jnp.zeros_like(right[0])
    _, rows = lax.scan(forward, (nothing, nothing), (lower, middle, upper, right))
    return lax.scan(backward, nothing, rows, reverse=True)[1]


def _mandelbrot(x: Any, y: Any, trips: Any) -> Any:
    shape = len(y), len(x)
    y = y[:, None]

    def left(state: Any) -> Any:
        return (state[0] < len(trips)) & state[3].any()

    def step(state: Any) -> Any:
        n, a, b, inside, counts = state
        a, b, inside = escaping((a, b, inside), x, y, jnp.where)
        return n + 1, a, b, inside, counts + inside

    nothing = jnp.zeros(shape)
    start = 0, nothing, nothing, jnp.ones(shape, bool), jnp.zeros(shape, jnp.int64)
    return lax.while_loop(left, step, start)[-1]


def _lstm(x: Any, w_input: Any, w_hidden: Any, bias: Any) -> Any:
    def step(carry: Any, now: Any) -> Any:
        hidden, cells = carry
        gates = now @ w_input + hidden @ w_hidden + bias
        taken, kept, new, shown = jnp.split(gates, 4, -1)
        cells = jax.nn.sigmoid(kept) * cells + jax.nn.sigmoid(taken) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(shown) * jnp.tanh(cells)
        return (hidden, cells), hidden

    nothing = jnp.zeros((x.shape[1], len(w_hidden)))
    (_, cells), states = lax.scan(step, (nothing, nothing), x)
    return states, cells


def _lstm_gradient(x: Any, **weights: Any) -> Any:
    def loss(weights: Any) -> Any:
        states, _ = _lstm(x, **weights)
        return 0.5 * (states * states).sum(-1).mean()

    found = jax.grad(loss)(weights)
    return [found[name] for name in LSTM_WEIGHTS]


FUNCTIONS = {
    "kalman": _kalman,
    "hmm": _hmm,
    "hmm_gradient": _hmm_gradient,
    "heat": _heat,
    "tridiagonal": _tridiagonal,
    "tridiagonal_many": _tridiagonal,
    "mandelbrot": _mandelbrot,
    "lstm_loop": _lstm,
    "lstm_loop_gradient": _lstm_gradient,
}
"""By kind, of the inputs and weights by their names."""
