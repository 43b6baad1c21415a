"""NumPy, eager, in float32: what one writes when no compiler is at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.base import Peer, Prepared, arrays_of, losses_of
from benchmarks.workloads import (
    ADAM_EPSILON,
    BETA1,
    BETA2,
    CHAIN_SCALE,
    CHAIN_SHIFT,
    EPSILON,
    LAYER_STEP,
    LEARNING_RATE,
    TRAINED_STEPS,
    Array,
    Arrays,
)


class NumPy(Peer):
    """NumPy with the OpenBLAS of its wheel."""

    def versions(self) -> dict[str, str]:
        return {"numpy": np.__version__}

    def warm_up(self) -> None:
        np.tanh(np.ones((8, 8), np.float32) @ np.ones((8, 8), np.float32)).sum()


def _eager(function: Callable[..., Any]) -> Callable[[Peer, Arrays, Arrays], Prepared]:
    def build(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
        arguments = inputs | weights
        return Prepared(lambda: function(**arguments), arrays_of)

    return build


def _pointwise(x: Array) -> Any:
    gate = 1 / (1 + np.exp(-(CHAIN_SCALE * x + CHAIN_SHIFT)))
    return gate * np.tanh(x) + np.exp(-x * x) - 0.5 * np.sqrt(np.abs(x) + 1)


def _softmax(x: Array) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _layer_norm(x: Array, gain: Array, bias: Array) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)
    return centred / deviation * gain + bias


def _layers(x: Array, **weights: Array) -> Array:
    for n in range(len(weights) // 2):
        x = x + LAYER_STEP * np.tanh(x @ weights[f"w{n}"] + weights[f"b{n}"])
    return x


class _Training:
    """The training step, its updates in place."""

    def __init__(self, inputs: Arrays, weights: Arrays) -> None:
        self.x, self.labels = inputs["x"], inputs["labels"]
        self.rows = np.arange(len(self.labels))
        self.weights = weights
        self.begin()

    def begin(self) -> None:
        self.state = {name: array.copy() for name, array in self.weights.items()}
        self.first = {name: np.zeros_like(array) for name, array in self.weights.items()}
        self.second = {name: np.zeros_like(array) for name, array in self.weights.items()}
        self.count = 0

    def step(self) -> Any:
        state, rows, labels = self.state, self.rows, self.labels
        hidden0 = np.maximum(self.x @ state["w0"] + state["b0"], 0)
        hidden1 = np.maximum(hidden0 @ state["w1"] + state["b1"], 0)
        scores = hidden1 @ state["w2"] + state["b2"]
        scores -= scores.max(-1, keepdims=True)
        error = np.exp(scores)
        sums = error.sum(-1, keepdims=True)
        loss = (np.log(sums[:, 0]) - scores[rows, labels]).mean()
        error /= sums
        error[rows, labels] -= 1
        error *= np.float32(1 / len(rows))
        gradient = {"w2": hidden1.T @ error, "b2": error.sum(0)}
        error = error @ state["w2"].T * (hidden1 > 0)
        gradient |= {"w1": hidden0.T @ error, "b1": error.sum(0)}
        error = error @ state["w1"].T * (hidden0 > 0)
        gradient |= {"w0": self.x.T @ error, "b0": error.sum(0)}
        self.count += 1
        rate = LEARNING_RATE / (1 - BETA1**self.count)
        correction = (1 - BETA2**self.count) ** -0.5
        for name, g in gradient.items():
            first, second = self.first[name], self.second[name]
            first *= BETA1
            first += (1 - BETA1) * g
            second *= BETA2
            second += (1 - BETA2) * (g * g)
            state[name] -= rate * first / (np.sqrt(second) * correction + ADAM_EPSILON)
        return loss


def _digits_step(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    training = _Training(inputs, weights)
    return Prepared(training.step, losses_of(training.step, TRAINED_STEPS), training.begin)


NumPy.builders = {
    "pointwise": _eager(_pointwise),
    "softmax": _eager(_softmax),
    "layer_norm": _eager(_layer_norm),
    "sum": _eager(lambda x: x.sum()),
    "matmul": _eager(lambda a, b: a @ b),
    "linear_relu": _eager(lambda x, w, b: np.maximum(x @ w + b, 0)),
    "increment": _eager(lambda x: x + 1),
    "increment_by_name": _eager(lambda x: x + 1),
    "layers": _eager(_layers),
    "digits_step": _digits_step,
}
PEER = NumPy
