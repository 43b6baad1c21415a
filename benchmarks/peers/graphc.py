"""graphc: programs compiled by ``Session.compile``, called with NumPy arrays.

The variant "out" has its results written into arrays that are kept, for peers that do so too. The
variant "cached" takes programs from a cache on disk that holds them already.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import graphc as gx
from benchmarks.peers import small_loops_graphc
from benchmarks.peers.base import Peer, Prepared, arrays_of, losses_of
from benchmarks.workloads import recurrences
from benchmarks.workloads.base import EPSILON, GELU_CUBE, GELU_FACTOR, Arrays
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


class Graphc(Peer):
    """graphc itself."""

    def versions(self) -> dict[str, str]:
        return {
            "graphc": gx.__version__,
            "llvmlite": importlib.metadata.version("llvmlite"),
        }

    def build(self, kind: str, inputs: Arrays, weights: Arrays) -> Prepared | None:
        """What is called; the cache makes no difference to calls, so it has definitions alone."""
        if self.variant == "cached" and kind not in ("layers", "dag"):
            return None
        return super().build(kind, inputs, weights)

    def warm_up(self) -> None:
        with gx.Graph() as graph:
            x = gx.placeholder((8, 8), name="x")
            y = gx.sum(gx.tanh(x @ x))
        self.session(graph).run(y, {x: np.ones((8, 8), np.float32)})

    def session(self, graph: gx.Graph, **options: Any) -> gx.Session:
        """A session with the threads of this run."""
        if self.variant == "cached":
            options["cache"] = _directory().name
        return gx.Session(graph, threads=self.threads, options=gx.Options(**options))


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    """A cache of this process alone."""
    return tempfile.TemporaryDirectory(prefix="graphc-benchmark-")


Builder = Callable[[Any, Arrays, Arrays], Prepared | None]


def _compiled(function: Callable[..., Any], **options: Any) -> Builder:
    """A builder of a function of placeholders and constants, named as the workload names them."""

    def build(peer: Graphc, inputs: Arrays, weights: Arrays) -> Prepared:
        with gx.Graph() as graph:
            fed = {name: gx.placeholder(a.shape, a.dtype, name) for name, a in inputs.items()}
            fixed = {name: gx.constant(array) for name, array in weights.items()}
            result = function(**fed, **fixed)
        program = peer.session(graph, **options).compile(result, list(fed.values()))
        arguments = tuple(inputs.values())
        if peer.variant != "out":
            return Prepared(lambda: program(*arguments), arrays_of, settle=program.wait)
        kept = program(*arguments)
        return Prepared(lambda: program(*arguments, out=kept), arrays_of, settle=program.wait)

    return build


def _returned(build: Builder) -> Builder:
    """Only for the variant that returns fresh arrays."""
    return lambda peer, inputs, weights: (
        None if peer.variant == "out" else build(peer, inputs, weights)
    )


def _pointwise(x: gx.Value) -> gx.Value:
    gate = gx.sigmoid(CHAIN_SCALE * x + CHAIN_SHIFT)
    return gate * gx.tanh(x) + gx.exp(-x * x) - 0.5 * gx.sqrt(gx.abs(x) + 1)


def _gelu(x: gx.Value) -> gx.Value:
    return 0.5 * x * (1 + gx.tanh(GELU_FACTOR * (x + GELU_CUBE * x * x * x)))


def _perceptron(x: gx.Value, **weights: gx.Value) -> gx.Value:
    last = layer_count(weights) - 1
    for n in range(last):
        x = gx.nn.relu(x @ weights[f"w{n}"] + weights[f"b{n}"])
    return gx.nn.softmax(x @ weights[f"w{last}"] + weights[f"b{last}"])


def _attention(q: gx.Value, k: gx.Value, v: gx.Value) -> gx.Value:
    length, width = q.shape[-2:]
    scores = q @ gx.swapaxes(k, -1, -2) * width**-0.5
    kept = gx.constant(np.tril(np.ones((length, length), bool)))
    return gx.nn.softmax(gx.where(kept, scores, -np.inf)) @ v


def _transformer(x: gx.Value, **w: gx.Value) -> gx.Value:
    batch, length, width = x.shape
    normed = gx.nn.layer_norm(x, w["gain1"], w["shift1"], EPSILON)
    parts = gx.split(normed @ w["w_qkv"] + w["b_qkv"], 3, axis=-1)
    q, k, v = (
        gx.swapaxes(gx.reshape(part, (batch, length, HEADS, width // HEADS)), 1, 2)
        for part in parts
    )
    attended = gx.reshape(gx.swapaxes(_attention(q, k, v), 1, 2), (batch, length, width))
    x = x + attended @ w["w_out"] + w["b_out"]
    normed = gx.nn.layer_norm(x, w["gain2"], w["shift2"], EPSILON)
    return x + _gelu(normed @ w["w_up"] + w["b_up"]) @ w["w_down"] + w["b_down"]


def _by_name(peer: Graphc, inputs: Arrays, weights: Arrays) -> Prepared:
    with gx.Graph() as graph:
        x = gx.placeholder((16,), name="x")
        y = x + 1
    session = peer.session(graph)
    array = inputs["x"]
    return Prepared(lambda: session.run(y, {x: array}), arrays_of)


def _layers(peer: Graphc, inputs: Arrays, weights: Arrays) -> Prepared:
    with gx.Graph() as graph:
        x = h = gx.placeholder(inputs["x"].shape, name="x")
        for n in range(layer_count(weights)):
            w, b = gx.variable(weights[f"w{n}"]), gx.variable(weights[f"b{n}"])
            h = h + LAYER_STEP * gx.tanh(h @ w + b)
    program = peer.session(graph).compile(h, [x])
    array = inputs["x"]
    return Prepared(lambda: program(array), arrays_of, settle=program.wait)


def _dag(**inputs: gx.Value) -> gx.Value:
    xs = [inputs[f"x{n}"] for n in range(DAG_INPUTS)]
    result: gx.Value = run_dag(dag_for(inputs["x0"].shape[0]), xs, dag_functions(gx))
    return result


def _training(peer: Graphc, inputs: Arrays, weights: Arrays) -> Prepared:
    with gx.Graph() as graph:
        x = gx.placeholder(("batch", inputs["x"].shape[1]), name="x")
        labels = gx.placeholder(("batch",), "int64", name="labels")
        variables = {name: gx.variable(array, name=name) for name, array in weights.items()}
        h = x
        for n in range(layer_count(weights)):
            h = h @ variables[f"w{n}"] + variables[f"b{n}"]
            if n < layer_count(weights) - 1:
                h = gx.nn.relu(h)
        loss = gx.mean(gx.nn.softmax_cross_entropy(h, labels))
        step = gx.optim.Adam(LEARNING_RATE, (BETA1, BETA2), ADAM_EPSILON).minimize(loss)
    session = peer.session(graph)
    state = [v for node in graph.nodes for v in node.outputs if isinstance(v, gx.Variable)]
    # moments and the counter begin with 0; pages of zeros take no memory
    initial = {v: weights.get(v.name or "", np.zeros(v.shape, v.dtype.numpy)) for v in state}
    program = session.compile([loss, step], [x, labels])
    arguments = inputs["x"], inputs["labels"]

    def call() -> Any:
        return program(*arguments)[0]

    def begin() -> None:
        session.set(initial)

    return Prepared(call, losses_of(call, TRAINED_STEPS), begin, program.wait)


def _repeated(step: Callable[..., Any], init: Any, trips: gx.Value, stacked: bool = False) -> Any:
    """The last state, or all of them, of a recurrence."""

    def body(state: Any, _: Any) -> tuple[Any, Any]:
        following = step(state)
        return following, following if stacked else None

    last, states = gx.scan(body, init, length=trips.shape[0])
    return states if stacked else last


def _logistic(x: gx.Value, r: gx.Value, trips: gx.Value, stacked: bool = False) -> Any:
    return _repeated(lambda now: recurrences.logistic(now, r), x, trips, stacked)


def _lorenz(x: gx.Value, y: gx.Value, z: gx.Value, trips: gx.Value) -> list[gx.Value]:
    return list(_repeated(recurrences.runge_kutta, (x, y, z), trips))


def _lorenz_gradient(x: gx.Value, y: gx.Value, z: gx.Value, trips: gx.Value) -> list[gx.Value]:
    first, second, third = _lorenz(x, y, z, trips)
    found: list[gx.Value] = gx.gradients(gx.sum(first + second + third), [x, y, z])
    return found


Graphc.builders = {
    "affine": _compiled(
        lambda x, a, trips: _repeated(lambda now: recurrences.affine(now, a), x, trips)
    ),
    "affine_stacked": _compiled(
        lambda x, a, trips: _repeated(lambda now: recurrences.affine(now, a), x, trips, True)
    ),
    "logistic": _compiled(_logistic),
    "logistic_stacked": _compiled(lambda x, r, trips: _logistic(x, r, trips, True)),
    "logistic_gradient": _compiled(
        lambda x, r, trips: gx.gradients(gx.sum(_logistic(x, r, trips)), [x, r])
    ),
    "lorenz": _compiled(_lorenz),
    "lorenz_gradient": _compiled(_lorenz_gradient),
    "pointwise": _compiled(_pointwise),
    "pointwise_approx": _compiled(_pointwise, fast_math=("approx",)),
    "relu_scale": _compiled(lambda x: gx.nn.relu(CHAIN_SCALE * x + CHAIN_SHIFT) * RELU_FACTOR),
    "black_scholes": _compiled(lambda s, k, t: list(black_scholes(s, k, t, gx))),
    "scales": _compiled(lambda x, bias, row, column: (x + bias) * row * column),
    "softmax": _compiled(lambda x: gx.nn.softmax(x)),
    "layer_norm": _compiled(lambda x, gain, bias: gx.nn.layer_norm(x, gain, bias, EPSILON)),
    "logsumexp": _compiled(lambda x: gx.logsumexp(x, axis=-1)),
    "row_sum": _compiled(lambda x: gx.sum(x, axis=-1)),
    "mean_var": _compiled(lambda x: [gx.mean(x, axis=-1), gx.var(x, axis=-1)]),
    "sum": _compiled(lambda x: gx.sum(x)),
    "column_sum": _compiled(lambda x: gx.sum(x, axis=0)),
    "transpose": _compiled(lambda x: gx.transpose(x)),
    "channels_last": _compiled(lambda x: gx.transpose(x, (0, 2, 3, 1))),
    "embedding": _compiled(lambda table, rows: gx.take(table, rows, axis=0)),
    "fft": _compiled(lambda x: gx.fft.fft(x)),
    "matmul": _compiled(lambda a, b: a @ b),
    "linear_relu": _compiled(lambda x, w, b: gx.nn.relu(x @ w + b)),
    "linear_gelu": _compiled(lambda x, w, b: _gelu(x @ w + b)),
    "mlp": _compiled(_perceptron),
    "attention": _compiled(_attention),
    "transformer": _compiled(_transformer),
    "training": _returned(_training),
    "increment": _compiled(lambda x: x + 1),
    "increment_by_name": _returned(_by_name),
    "layers": _returned(_layers),
    "dag": _returned(_compiled(_dag)),
    **{kind: _compiled(function) for kind, function in small_loops_graphc.FUNCTIONS.items()},
}
PEER = Graphc
