"""graphc's loops over small arrays, by ``gx.scan``, ``fori_loop`` and ``while_loop``."""

from __future__ import annotations

from typing import Any

import graphc as gx
from benchmarks.workloads.small_loops import (
    HEAT_RATE,
    LSTM_WEIGHTS,
    eliminated,
    escaping,
    filtered,
    neighbours_above,
)


def _kalman(
    seen: gx.Value,
    move: gx.Value,
    observe: gx.Value,
    drift: gx.Value,
    noise: gx.Value,
    state: gx.Value,
    spread: gx.Value,
) -> Any:
    model = move, observe, drift, noise

    def step(carry: Any, now: gx.Value) -> Any:
        carry = filtered(carry, now, model, gx.stack)
        return carry, carry[0]

    (_, last), states = gx.scan(step, (state, spread), seen)
    return [states, last]


def _hmm(seen: gx.Value, transition: gx.Value, emission: gx.Value, first: gx.Value) -> Any:
    rows = emission[seen]

    def step(now: gx.Value, row: gx.Value) -> Any:
        ahead = now @ transition * row
        scale = gx.sum(ahead)
        return ahead / scale, scale

    start = first * rows[0]
    scale = gx.sum(start)
    _, scales = gx.scan(step, start / scale, rows[1:])
    return gx.log(scale) + gx.sum(gx.log(scales))


def _hmm_gradient(transition: gx.Value, emission: gx.Value, **rest: gx.Value) -> Any:
    likelihood = _hmm(transition=transition, emission=emission, **rest)
    return gx.gradients(likelihood, [transition, emission])


def _heat(plate: gx.Value, trips: gx.Value) -> Any:
    def step(_: Any, plate: gx.Value) -> gx.Value:
        inner = plate[1:-1, 1:-1] + HEAT_RATE * neighbours_above(plate)
        middle = gx.concatenate([plate[1:-1, :1], inner, plate[1:-1, -1:]], axis=1)
        return gx.concatenate([plate[:1], middle, plate[-1:]], axis=0)

    return gx.fori_loop(0, trips.shape[0], step, plate)


def _tridiagonal(lower: gx.Value, middle: gx.Value, upper: gx.Value, right: gx.Value) -> Any:
    def forward(carry: Any, row: Any) -> Any:
        carry = eliminated(carry, row)
        return carry, carry

    def backward(found: gx.Value, row: Any) -> Any:
        ratio, value = row
        found = value - ratio * found
        return found, found

    nothing = gx.zeros_like(right[0])
    _, rows = gx.scan(forward, (nothing, nothing), (lower, middle, upper, right))
    return gx.scan(backward, nothing, rows, reverse=True)[1]


def _mandelbrot(x: gx.Value, y: gx.Value, trips: gx.Value) -> Any:
    shape, most = (y.shape[0], x.shape[0]), trips.shape[0]
    y = y[:, None]

    def left(n: gx.Value, a: Any, b: Any, inside: gx.Value, counts: Any) -> gx.Value:
        return gx.logical_and(n < most, gx.any(inside))

    def step(n: gx.Value, a: Any, b: Any, inside: gx.Value, counts: Any) -> Any:
        a, b, inside = escaping((a, b, inside), x, y, gx.where)
        return n + 1, a, b, inside, counts + inside

    nothing = gx.zeros(shape, "float64")
    start = 0, nothing, nothing, gx.ones(shape, "bool"), gx.zeros(shape, "int64")
    return gx.while_loop(left, step, start)[-1]


def _lstm(x: gx.Value, w_input: gx.Value, w_hidden: gx.Value, bias: gx.Value) -> Any:
    def step(carry: Any, now: gx.Value) -> Any:
        hidden, cells = carry
        gates = now @ w_input + hidden @ w_hidden + bias
        taken, kept, new, shown = gx.split(gates, 4, axis=-1)
        cells = gx.sigmoid(kept) * cells + gx.sigmoid(taken) * gx.tanh(new)
        hidden = gx.sigmoid(shown) * gx.tanh(cells)
        return (hidden, cells), hidden

    nothing = gx.zeros((x.shape[1], w_hidden.shape[0]))
    (_, cells), states = gx.scan(step, (nothing, nothing), x)
    return [states, cells]


def _lstm_gradient(x: gx.Value, **weights: gx.Value) -> Any:
    states, _ = _lstm(x, **weights)
    loss = 0.5 * gx.mean(gx.sum(states * states, axis=-1))
    return gx.gradients(loss, [weights[name] for name in LSTM_WEIGHTS])


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
