"""JAX on the CPU: ``jax.jit`` of the whole workload, weights as arguments, results waited for."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.peers import small_loops_jax
from benchmarks.peers.base import Peer, Prepared, arrays_of, losses_of
from benchmarks.workloads import recurrences
from benchmarks.workloads.base import EPSILON, Arrays
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


class Jax(Peer):
    """JAX with XLA's CPU back end; labels are int32, its default width."""

    def versions(self) -> dict[str, str]:
        return {"jax": jax.__version__, "jaxlib": importlib.metadata.version("jaxlib")}

    def warm_up(self) -> None:
        jax.config.update("jax_enable_x64", False)
        jax.jit(lambda x: jnp.tanh(x @ x).sum())(jnp.ones((8, 8))).block_until_ready()

    def native(self, arrays: Arrays) -> Any:
        # doubles stay doubles only where this is on, and it is global
        jax.config.update("jax_enable_x64", any(a.dtype == np.float64 for a in arrays.values()))
        return {
            name: jax.device_put(array.astype(np.int32) if array.dtype == np.int64 else array)
            for name, array in arrays.items()
        }

    def native_weights(self, arrays: Arrays) -> Any:
        return {name: jax.device_put(array) for name, array in arrays.items()}


def _jitted(function: Callable[..., Any]) -> Callable[[Peer, Any, Any], Prepared]:
    def build(peer: Peer, inputs: Any, weights: Any) -> Prepared:
        given = inputs | weights
        names, arguments = tuple(given), tuple(given.values())

        def positional(*values: Any) -> Any:
            return function(**dict(zip(names, values, strict=True)))

        program = jax.jit(positional)
        return Prepared(lambda: jax.block_until_ready(program(*arguments)), arrays_of)

    return build


def _pointwise(x: Any) -> Any:
    gate = jax.nn.sigmoid(CHAIN_SCALE * x + CHAIN_SHIFT)
    return gate * jnp.tanh(x) + jnp.exp(-x * x) - 0.5 * jnp.sqrt(jnp.abs(x) + 1)


def _layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + EPSILON) * gain + bias


def _perceptron(x: Any, **weights: Any) -> Any:
    last = layer_count(weights) - 1
    for n in range(last):
        x = jax.nn.relu(x @ weights[f"w{n}"] + weights[f"b{n}"])
    return jax.nn.softmax(x @ weights[f"w{last}"] + weights[f"b{last}"])


def _attention(q: Any, k: Any, v: Any) -> Any:
    length, width = q.shape[-2:]
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * width**-0.5
    kept = jnp.tril(jnp.ones((length, length), bool))
    return jax.nn.softmax(jnp.where(kept, scores, -jnp.inf)) @ v


def _transformer(x: Any, **w: Any) -> Any:
    batch, length, width = x.shape
    mixed = _layer_norm(x, w["gain1"], w["shift1"]) @ w["w_qkv"] + w["b_qkv"]
    q, k, v = (
        part.reshape(batch, length, HEADS, -1).swapaxes(1, 2) for part in jnp.split(mixed, 3, -1)
    )
    attended = _attention(q, k, v).swapaxes(1, 2).reshape(batch, length, width)
    x = x + attended @ w["w_out"] + w["b_out"]
    inner = _layer_norm(x, w["gain2"], w["shift2"]) @ w["w_up"] + w["b_up"]
    return x + jax.nn.gelu(inner, approximate=True) @ w["w_down"] + w["b_down"]


def _layers(x: Any, **weights: Any) -> Any:
    for n in range(layer_count(weights)):
        x = x + LAYER_STEP * jnp.tanh(x @ weights[f"w{n}"] + weights[f"b{n}"])
    return x


def _dag(**inputs: Any) -> Any:
    xs = [inputs[f"x{n}"] for n in range(DAG_INPUTS)]
    return run_dag(dag_for(len(inputs["x0"])), xs, dag_functions(jnp))


def _loss(weights: Any, x: Any, labels: Any) -> Any:
    last = layer_count(weights) - 1
    for n in range(last):
        x = jax.nn.relu(x @ weights[f"w{n}"] + weights[f"b{n}"])
    x = x @ weights[f"w{last}"] + weights[f"b{last}"]
    return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()


@partial(jax.jit, donate_argnums=0)
def _step(state: Any, x: Any, labels: Any) -> Any:
    weights, first, second, count = state
    loss, gradient = jax.value_and_grad(_loss)(weights, x, labels)
    count = count + 1
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, gradient)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, gradient)
    rate = LEARNING_RATE / (1 - BETA1**count)
    correction = 1 - BETA2**count

    def updated(p: Any, m: Any, v: Any) -> Any:
        return p - rate * m / (jnp.sqrt(v / correction) + ADAM_EPSILON)

    return (jax.tree.map(updated, weights, first, second), first, second, count), loss


def _training(peer: Peer, inputs: Any, weights: Any) -> Prepared:
    state: list[Any] = []

    def begin() -> None:
        zeros = [jax.tree.map(jnp.zeros_like, weights) for _ in range(2)]
        state[:] = [(jax.tree.map(jnp.copy, weights), *zeros, jnp.float32(0))]

    def call() -> Any:
        state[0], loss = _step(state[0], inputs["x"], inputs["labels"])
        return loss.block_until_ready()

    begin()
    return Prepared(call, losses_of(call, TRAINED_STEPS), begin)


def _repeated(step: Callable[..., Any], init: Any, trips: Any, stacked: bool = False) -> Any:
    """The last state, or all of them, of a recurrence."""

    def body(state: Any, _: Any) -> tuple[Any, Any]:
        following = step(state)
        return following, following if stacked else None

    last, states = lax.scan(body, init, None, length=len(trips))
    return states if stacked else last


def _in_segments(step: Callable[..., Any], init: Any, trips: Any) -> Any:
    """The last state; for a gradient one of each segment is kept, and the others made again."""
    length = max(n for n in range(1, 101) if len(trips) % n == 0)

    @jax.checkpoint
    def segment(state: Any, _: Any) -> tuple[Any, None]:
        return lax.scan(lambda now, _: (step(now), None), state, None, length=length)

    return lax.scan(segment, init, None, length=len(trips) // length)[0]


def _logistic(x: Any, r: Any, trips: Any, stacked: bool = False) -> Any:
    return _repeated(lambda now: recurrences.logistic(now, r), x, trips, stacked)


def _logistic_gradient(x: Any, r: Any, trips: Any) -> Any:
    def total(x: Any, r: Any) -> Any:
        return _in_segments(lambda now: recurrences.logistic(now, r), x, trips).sum()

    return jax.grad(total, (0, 1))(x, r)


def _lorenz_gradient(x: Any, y: Any, z: Any, trips: Any) -> Any:
    return jax.grad(lambda s: sum(_in_segments(recurrences.runge_kutta, s, trips)).sum())((x, y, z))


Jax.builders = {
    "affine": _jitted(
        lambda x, a, trips: _repeated(lambda now: recurrences.affine(now, a), x, trips)
    ),
    "affine_stacked": _jitted(
        lambda x, a, trips: _repeated(lambda now: recurrences.affine(now, a), x, trips, True)
    ),
    "logistic": _jitted(_logistic),
    "logistic_stacked": _jitted(lambda x, r, trips: _logistic(x, r, trips, True)),
    "logistic_gradient": _jitted(_logistic_gradient),
    "lorenz": _jitted(lambda x, y, z, trips: _repeated(recurrences.runge_kutta, (x, y, z), trips)),
    "lorenz_gradient": _jitted(_lorenz_gradient),
    "pointwise": _jitted(_pointwise),
    "pointwise_approx": _jitted(_pointwise),
    "relu_scale": _jitted(lambda x: jax.nn.relu(CHAIN_SCALE * x + CHAIN_SHIFT) * RELU_FACTOR),
    "black_scholes": _jitted(lambda s, k, t: black_scholes(s, k, t, jnp)),
    "scales": _jitted(lambda x, bias, row, column: (x + bias) * row * column),
    "softmax": _jitted(lambda x: jax.nn.softmax(x, -1)),
    "layer_norm": _jitted(_layer_norm),
    "logsumexp": _jitted(lambda x: jax.nn.logsumexp(x, -1)),
    "row_sum": _jitted(lambda x: x.sum(-1)),
    "mean_var": _jitted(lambda x: (x.mean(-1), x.var(-1))),
    "sum": _jitted(lambda x: x.sum()),
    "column_sum": _jitted(lambda x: x.sum(0)),
    "transpose": _jitted(lambda x: x.T),
    "channels_last": _jitted(lambda x: x.transpose(0, 2, 3, 1)),
    "embedding": _jitted(lambda table, rows: table[rows]),
    "fft": _jitted(lambda x: jnp.fft.fft(x)),
    "matmul": _jitted(lambda a, b: a @ b),
    "linear_relu": _jitted(lambda x, w, b: jax.nn.relu(x @ w + b)),
    "linear_gelu": _jitted(lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=True)),
    "mlp": _jitted(_perceptron),
    "attention": _jitted(_attention),
    "transformer": _jitted(_transformer),
    "training": _training,
    "increment": _jitted(lambda x: x + 1),
    "increment_by_name": _jitted(lambda x: x + 1),
    "layers": _jitted(_layers),
    "dag": _jitted(_dag),
    **{kind: _jitted(function) for kind, function in small_loops_jax.FUNCTIONS.items()},
}
PEER = Jax
