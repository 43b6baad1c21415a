"""graphc: programs compiled by ``Session.compile``, called with NumPy arrays."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np

import graphc as gx
from benchmarks.peers.base import Peer, Prepared, arrays_of, losses_of
from benchmarks.workloads import (
    ADAM_EPSILON,
    BETA1,
    BETA2,
    CHAIN_SCALE,
    CHAIN_SHIFT,
    DIGITS,
    EPSILON,
    LAYER_STEP,
    LEARNING_RATE,
    TRAINED_STEPS,
    Arrays,
)


class Graphc(Peer):
    """graphc itself."""

    def versions(self) -> dict[str, str]:
        return {
            "graphc": gx.__version__,
            "llvmlite": importlib.metadata.version("llvmlite"),
        }

    def warm_up(self) -> None:
        with gx.Graph() as graph:
            x = gx.placeholder((8, 8), name="x")
            y = gx.sum(gx.tanh(x @ x))
        gx.Session(graph).run(y, {x: np.ones((8, 8), np.float32)})


Builder = Callable[[Peer, Arrays, Arrays], Prepared]


def _compiled(function: Callable[..., Any]) -> Builder:
    """A builder of a function of placeholders and constants, named as the workload names them."""

    def build(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
        with gx.Graph() as graph:
            fed = {name: gx.placeholder(a.shape, a.dtype, name) for name, a in inputs.items()}
            fixed = {name: gx.constant(array) for name, array in weights.items()}
            result = function(**fed, **fixed)
        program = gx.Session(graph).compile(result, list(fed.values()))
        arguments = tuple(inputs.values())
        return Prepared(lambda: program(*arguments), arrays_of)

    return build


def _pointwise(x: gx.Value) -> gx.Value:
    gate = gx.sigmoid(CHAIN_SCALE * x + CHAIN_SHIFT)
    return gate * gx.tanh(x) + gx.exp(-x * x) - 0.5 * gx.sqrt(gx.abs(x) + 1)


def _by_name(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    with gx.Graph() as graph:
        x = gx.placeholder((16,), name="x")
        y = x + 1
    session = gx.Session(graph)
    array = inputs["x"]
    return Prepared(lambda: session.run(y, {x: array}), arrays_of)


def _layers(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    with gx.Graph() as graph:
        x = h = gx.placeholder(inputs["x"].shape, name="x")
        for n in range(len(weights) // 2):
            w, b = gx.variable(weights[f"w{n}"]), gx.variable(weights[f"b{n}"])
            h = h + LAYER_STEP * gx.tanh(h @ w + b)
    program = gx.Session(graph).compile(h, [x])
    array = inputs["x"]
    return Prepared(lambda: program(array), arrays_of)


def _digits_step(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    with gx.Graph() as graph:
        x = gx.placeholder(("batch", DIGITS[0]), name="x")
        labels = gx.placeholder(("batch",), "int64", name="labels")
        variables = {name: gx.variable(array, name=name) for name, array in weights.items()}
        h = x
        for n in range(len(DIGITS) - 1):
            h = h @ variables[f"w{n}"] + variables[f"b{n}"]
            if n < len(DIGITS) - 2:
                h = gx.nn.relu(h)
        loss = gx.mean(gx.nn.softmax_cross_entropy(h, labels))
        step = gx.optim.Adam(LEARNING_RATE, (BETA1, BETA2), ADAM_EPSILON).minimize(loss)
    session = gx.Session(graph)
    state = [v for node in graph.nodes for v in node.outputs if isinstance(v, gx.Variable)]
    initial = dict(zip(state, session.get(state), strict=True))
    program = session.compile([loss, step], [x, labels])
    arguments = inputs["x"], inputs["labels"]

    def call() -> Any:
        return program(*arguments)[0]

    def begin() -> None:
        session.set(initial)

    return Prepared(call, losses_of(call, TRAINED_STEPS), begin)


Graphc.builders = {
    "pointwise": _compiled(_pointwise),
    "softmax": _compiled(lambda x: gx.nn.softmax(x)),
    "layer_norm": _compiled(lambda x, gain, bias: gx.nn.layer_norm(x, gain, bias, EPSILON)),
    "sum": _compiled(lambda x: gx.sum(x)),
    "matmul": _compiled(lambda a, b: a @ b),
    "linear_relu": _compiled(lambda x, w, b: gx.nn.relu(x @ w + b)),
    "increment": _compiled(lambda x: x + 1),
    "increment_by_name": _by_name,
    "layers": _layers,
    "digits_step": _digits_step,
}
PEER = Graphc
