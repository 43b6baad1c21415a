"""NumPy, eager, in float32: what one writes when no compiler is at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.base import Peer, Prepared, arrays_of, losses_of
from benchmarks.workloads import recurrences, small_loops
from benchmarks.workloads.base import EPSILON, GELU_CUBE, GELU_FACTOR, Array, Arrays
from benchmarks.workloads.definitions import (
    DAG_INPUTS,
    LAYER_STEP,
    dag_for,
    dag_functions,
    run_dag,
)
from benchmarks.workloads.networks import (
    ADAM_EPSILON,
    BETA1,
    BETA2,
    HEADS,
    LEARNING_RATE,
    TRAINED_STEPS,
    layer_count,
)
from benchmarks.workloads.pointwise import CHAIN_SCALE, CHAIN_SHIFT, RELU_FACTOR, black_scholes


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


def _of_inputs(reference: Callable[[Arrays], Any]) -> Callable[[Peer, Arrays, Arrays], Prepared]:
    """A reference that is a program of NumPy as one writes it."""
    return _eager(lambda **given: reference(given))


def _pointwise(x: Array) -> Any:
    gate = 1 / (1 + np.exp(-(CHAIN_SCALE * x + CHAIN_SHIFT)))
    return gate * np.tanh(x) + np.exp(-x * x) - 0.5 * np.sqrt(np.abs(x) + 1)


def _softmax(x: Array) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _layer_norm(x: Array, gain: Array, bias: Array) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(EPSILON))
    return centred / deviation * gain + bias


def _logsumexp(x: Array) -> Any:
    highest = x.max(-1, keepdims=True)
    return (highest + np.log(np.exp(x - highest).sum(-1, keepdims=True)))[..., 0]


def _gelu(x: Array) -> Any:
    return 0.5 * x * (1 + np.tanh(GELU_FACTOR * (x + GELU_CUBE * x * x * x)))


def _perceptron(x: Array, **weights: Array) -> Any:
    last = layer_count(weights) - 1
    for n in range(last):
        x = np.maximum(x @ weights[f"w{n}"] + weights[f"b{n}"], 0)
    return _softmax(x @ weights[f"w{last}"] + weights[f"b{last}"])


def _attention(q: Array, k: Array, v: Array) -> Any:
    length, width = q.shape[-2:]
    scores = q @ np.swapaxes(k, -1, -2) * np.float32(width**-0.5)
    kept = np.tril(np.ones((length, length), bool))
    return _softmax(np.where(kept, scores, np.float32(-np.inf))) @ v


def _transformer(x: Array, **w: Array) -> Any:
    batch, length, width = x.shape
    mixed = _layer_norm(x, w["gain1"], w["shift1"]) @ w["w_qkv"] + w["b_qkv"]
    q, k, v = (
        part.reshape(batch, length, HEADS, -1).swapaxes(1, 2) for part in np.split(mixed, 3, -1)
    )
    attended = _attention(q, k, v).swapaxes(1, 2).reshape(batch, length, width)
    x = x + attended @ w["w_out"] + w["b_out"]
    hidden = _gelu(_layer_norm(x, w["gain2"], w["shift2"]) @ w["w_up"] + w["b_up"])
    return x + hidden @ w["w_down"] + w["b_down"]


def _layers(x: Array, **weights: Array) -> Array:
    for n in range(layer_count(weights)):
        x = x + LAYER_STEP * np.tanh(x @ weights[f"w{n}"] + weights[f"b{n}"])
    return x


def _dag(**inputs: Array) -> Any:
    xs = [inputs[f"x{n}"] for n in range(DAG_INPUTS)]
    return run_dag(dag_for(len(inputs["x0"])), xs, dag_functions(np))


class _Training:
    """The training step, its updates in place."""

    def __init__(self, inputs: Arrays, weights: Arrays) -> None:
        self.x, self.labels = inputs["x"], inputs["labels"]
        self.rows = np.arange(len(self.labels))
        self.weights = weights
        self.last = layer_count(weights) - 1
        self.begin()

    def begin(self) -> None:
        self.state = {name: array.copy() for name, array in self.weights.items()}
        self.first = {name: np.zeros_like(array) for name, array in self.weights.items()}
        self.second = {name: np.zeros_like(array) for name, array in self.weights.items()}
        self.count = 0

    def step(self) -> Any:
        state, rows, labels, last = self.state, self.rows, self.labels, self.last
        outputs = [self.x]
        for n in range(last):
            outputs.append(np.maximum(outputs[-1] @ state[f"w{n}"] + state[f"b{n}"], 0))
        scores = outputs[-1] @ state[f"w{last}"] + state[f"b{last}"]
        scores -= scores.max(-1, keepdims=True)
        error = np.exp(scores)
        sums = error.sum(-1, keepdims=True)
        loss = (np.log(sums[:, 0]) - scores[rows, labels]).mean()
        error /= sums
        error[rows, labels] -= 1
        error *= np.float32(1 / len(rows))
        gradient = {}
        for n in range(last, -1, -1):
            gradient[f"w{n}"], gradient[f"b{n}"] = outputs[n].T @ error, error.sum(0)
            if n > 0:
                error = error @ state[f"w{n}"].T * (outputs[n] > 0)
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


def _training(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    training = _Training(inputs, weights)
    return Prepared(training.step, losses_of(training.step, TRAINED_STEPS), training.begin)


NumPy.builders = {
    "affine": _eager(lambda **given: recurrences.affine_states(given)[-1]),
    "affine_stacked": _eager(lambda **given: np.stack(recurrences.affine_states(given))),
    "logistic": _eager(lambda **given: recurrences.logistic_states(given)[-1]),
    "logistic_stacked": _eager(lambda **given: np.stack(recurrences.logistic_states(given))),
    "logistic_gradient": _eager(lambda **given: recurrences.logistic_gradient(given)),
    "lorenz": _eager(lambda **given: recurrences.lorenz_state(given)),
    "lorenz_gradient": _eager(lambda **given: recurrences.lorenz_gradient(given)),
    "pointwise": _eager(_pointwise),
    "pointwise_approx": _eager(_pointwise),
    "relu_scale": _eager(
        lambda x: np.maximum(CHAIN_SCALE * x + CHAIN_SHIFT, 0) * np.float32(RELU_FACTOR)
    ),
    "black_scholes": _eager(lambda s, k, t: black_scholes(s, k, t, np)),
    "scales": _eager(lambda x, bias, row, column: (x + bias) * row * column),
    "softmax": _eager(_softmax),
    "layer_norm": _eager(_layer_norm),
    "logsumexp": _eager(_logsumexp),
    "row_sum": _eager(lambda x: x.sum(-1)),
    "mean_var": _eager(lambda x: (x.mean(-1), x.var(-1))),
    "sum": _eager(lambda x: x.sum()),
    "column_sum": _eager(lambda x: x.sum(0)),
    "transpose": _eager(lambda x: x.T.copy()),
    "channels_last": _eager(lambda x: x.transpose(0, 2, 3, 1).copy()),
    "embedding": _eager(lambda table, rows: table[rows]),
    "fft": _eager(lambda x: np.fft.fft(x)),
    "matmul": _eager(lambda a, b: a @ b),
    "linear_relu": _eager(lambda x, w, b: np.maximum(x @ w + b, 0)),
    "linear_gelu": _eager(lambda x, w, b: _gelu(x @ w + b)),
    "mlp": _eager(_perceptron),
    "attention": _eager(_attention),
    "transformer": _eager(_transformer),
    "training": _training,
    "increment": _eager(lambda x: x + 1),
    "increment_by_name": _eager(lambda x: x + 1),
    "layers": _eager(_layers),
    "dag": _eager(_dag),
    "kalman": _of_inputs(small_loops.kalman),
    "hmm": _of_inputs(small_loops.hmm),
    "hmm_gradient": _of_inputs(small_loops.hmm_gradient),
    "heat": _of_inputs(small_loops.heat),
    "tridiagonal": _of_inputs(small_loops.tridiagonal),
    "tridiagonal_many": _of_inputs(small_loops.tridiagonal),
    "mandelbrot": _of_inputs(small_loops.mandelbrot),
    "lstm_loop": _of_inputs(small_loops.lstm),
    "lstm_loop_gradient": _of_inputs(small_loops.lstm_gradient),
}
PEER = NumPy
