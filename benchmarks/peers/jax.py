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


class Jax(Peer):
    """JAX with XLA's CPU back end; labels are int32, its default width."""

    def versions(self) -> dict[str, str]:
        return {"jax": jax.__version__, "jaxlib": importlib.metadata.version("jaxlib")}

    def warm_up(self) -> None:
        jax.jit(lambda x: jnp.tanh(x @ x).sum())(jnp.ones((8, 8))).block_until_ready()

    def native(self, arrays: Arrays) -> Any:
        return {
            name: jax.device_put(array.astype(np.int32) if array.dtype == np.int64 else array)
            for name, array in arrays.items()
        }


def _jitted(function: Callable[..., Any]) -> Callable[[Peer, Any, Any], Prepared]:
    def build(peer: Peer, inputs: Any, weights: Any) -> Prepared:
        given = inputs | weights
        names, arguments = tuple(given), tuple(given.values())

        def positional(*values: Any) -> Any:
            return function(**dict(zip(names, values, strict=True)))

        program = jax.jit(positional)
        return Prepared(lambda: program(*arguments).block_until_ready(), arrays_of)

    return build


def _pointwise(x: Any) -> Any:
    gate = jax.nn.sigmoid(CHAIN_SCALE * x + CHAIN_SHIFT)
    return gate * jnp.tanh(x) + jnp.exp(-x * x) - 0.5 * jnp.sqrt(jnp.abs(x) + 1)


def _layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + EPSILON) * gain + bias


def _layers(x: Any, **weights: Any) -> Any:
    for n in range(len(weights) // 2):
        x = x + LAYER_STEP * jnp.tanh(x @ weights[f"w{n}"] + weights[f"b{n}"])
    return x


def _loss(weights: Any, x: Any, labels: Any) -> Any:
    for n in range(len(DIGITS) - 1):
        x = x @ weights[f"w{n}"] + weights[f"b{n}"]
        if n < len(DIGITS) - 2:
            x = jax.nn.relu(x)
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


def _digits_step(peer: Peer, inputs: Any, weights: Any) -> Prepared:
    state: list[Any] = []

    def begin() -> None:
        zeros = [jax.tree.map(jnp.zeros_like, weights) for _ in range(2)]
        state[:] = [(jax.tree.map(jnp.copy, weights), *zeros, jnp.float32(0))]

    def call() -> Any:
        state[0], loss = _step(state[0], inputs["x"], inputs["labels"])
        return loss.block_until_ready()

    begin()
    return Prepared(call, losses_of(call, TRAINED_STEPS), begin)


Jax.builders = {
    "pointwise": _jitted(_pointwise),
    "softmax": _jitted(lambda x: jax.nn.softmax(x, -1)),
    "layer_norm": _jitted(_layer_norm),
    "sum": _jitted(lambda x: x.sum()),
    "matmul": _jitted(lambda a, b: a @ b),
    "linear_relu": _jitted(lambda x, w, b: jax.nn.relu(x @ w + b)),
    "increment": _jitted(lambda x: x + 1),
    "increment_by_name": _jitted(lambda x: x + 1),
    "layers": _jitted(_layers),
    "digits_step": _digits_step,
}
PEER = Jax
