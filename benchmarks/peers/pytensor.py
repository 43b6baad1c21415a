"""PyTensor, the heir of Theano and the nearest relative: graphs, then functions of them.

Functions trust their inputs and lend their outputs, as its guide advises for speed; weights are
shared variables. Its linker through numba, the default, is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from benchmarks.peers.base import Peer, Prepared, arrays_of, losses_of
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

_f = np.float32
_XP = SimpleNamespace(
    abs=pt.abs,
    exp=pt.exp,
    log=pt.log,
    sqrt=pt.sqrt,
    where=pt.switch,
    tanh=pt.tanh,
    maximum=pt.maximum,
    minimum=pt.minimum,
)


class PyTensor(Peer):
    """Its numba mode."""

    def versions(self) -> dict[str, str]:
        return {"pytensor": pytensor.__version__}

    def warm_up(self) -> None:
        pytensor.config.floatX = "float32"
        x = pt.fvector("x")
        _program([x], [pt.tanh(x).sum()])(np.ones(3, np.float32))

    def native(self, arrays: Arrays) -> Any:
        # Python's numbers take this type
        double = any(array.dtype == np.float64 for array in arrays.values())
        pytensor.config.floatX = "float64" if double else "float32"
        return arrays

    def native_weights(self, arrays: Arrays) -> Any:
        return arrays


def _program(inputs: Sequence[Any], outputs: Sequence[Any], **more: Any) -> Any:
    program = pytensor.function(
        [pytensor.In(value, borrow=True) for value in inputs],
        [pytensor.Out(value, borrow=True) for value in outputs],
        mode="NUMBA",
        **more,
    )
    program.trust_input = True
    return program


def _variables(arrays: Arrays) -> dict[str, Any]:
    return {name: pt.tensor(name, dtype=str(a.dtype), shape=a.shape) for name, a in arrays.items()}


def _shared(arrays: Arrays) -> dict[str, Any]:
    return {name: pytensor.shared(array.copy(), name) for name, array in arrays.items()}


def _function(function: Callable[..., Any]) -> Callable[[Peer, Arrays, Arrays], Prepared]:
    def build(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
        fed = _variables(inputs)
        result = function(**fed, **_shared(weights))
        outputs = list(result) if isinstance(result, tuple) else [result]
        program = _program(list(fed.values()), outputs)
        arguments = tuple(inputs.values())
        return Prepared(lambda: program(*arguments), arrays_of)

    return build


def _pointwise(x: Any) -> Any:
    gate = pt.sigmoid(_f(CHAIN_SCALE) * x + _f(CHAIN_SHIFT))
    return gate * pt.tanh(x) + pt.exp(-x * x) - _f(0.5) * pt.sqrt(pt.abs(x) + _f(1))


def _layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / pt.sqrt(variance + _f(EPSILON)) * gain + bias


def _gelu(x: Any) -> Any:
    return _f(0.5) * x * (_f(1) + pt.tanh(_f(GELU_FACTOR) * (x + _f(GELU_CUBE) * x * x * x)))


def _scores(x: Any, weights: dict[str, Any]) -> Any:
    last = layer_count(weights) - 1
    for n in range(last):
        x = pt.maximum(x @ weights[f"w{n}"] + weights[f"b{n}"], _f(0))
    return x @ weights[f"w{last}"] + weights[f"b{last}"]


def _attention(q: Any, k: Any, v: Any) -> Any:
    length, width = q.type.shape[-2:]
    kept = np.tril(np.ones((length, length), bool))
    mask = pt.constant(np.where(kept, 0, -np.inf).astype(_f))
    scores = (q @ k.transpose(0, 1, 3, 2)) * _f(width**-0.5) + mask
    return pt.special.softmax(scores, axis=-1) @ v


def _transformer(x: Any, **w: Any) -> Any:
    batch, length, width = x.type.shape
    split = (batch, length, HEADS, width // HEADS)
    mixed = _layer_norm(x, w["gain1"], w["shift1"]) @ w["w_qkv"] + w["b_qkv"]
    q, k, v = (
        mixed[..., n * width : (n + 1) * width].reshape(split).transpose(0, 2, 1, 3)
        for n in range(3)
    )
    attended = _attention(q, k, v).transpose(0, 2, 1, 3).reshape((batch, length, width))
    x = x + attended @ w["w_out"] + w["b_out"]
    hidden = _gelu(_layer_norm(x, w["gain2"], w["shift2"]) @ w["w_up"] + w["b_up"])
    return x + hidden @ w["w_down"] + w["b_down"]


def _layers(x: Any, **weights: Any) -> Any:
    for n in range(layer_count(weights)):
        x = x + _f(LAYER_STEP) * pt.tanh(x @ weights[f"w{n}"] + weights[f"b{n}"])
    return x


def _dag(**inputs: Any) -> Any:
    xs = [inputs[f"x{n}"] for n in range(DAG_INPUTS)]
    return run_dag(dag_for(inputs["x0"].type.shape[0]), xs, dag_functions(_XP))


def _training(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    fed, parameters = _variables(inputs), _shared(weights)
    count = pytensor.shared(_f(0), "count")
    logs = pt.special.log_softmax(_scores(fed["x"], parameters), axis=-1)
    loss = -logs[pt.arange(len(inputs["labels"])), fed["labels"]].mean()
    following = count + _f(1)
    updates: dict[Any, Any] = {count: following}
    rate = _f(LEARNING_RATE) / (_f(1) - _f(BETA1) ** following)
    correction = _f(1) - _f(BETA2) ** following
    for weight, gradient in zip(
        parameters.values(), pytensor.grad(loss, list(parameters.values())), strict=True
    ):
        first, second = (pytensor.shared(np.zeros_like(weight.get_value())) for _ in range(2))
        mean = _f(BETA1) * first + _f(1 - BETA1) * gradient
        square = _f(BETA2) * second + _f(1 - BETA2) * gradient * gradient
        step = rate * mean / (pt.sqrt(square / correction) + _f(ADAM_EPSILON))
        updates |= {first: mean, second: square, weight: weight - step}
    program = _program(list(fed.values()), [loss], updates=updates)
    arguments = tuple(inputs.values())
    initial = {value: value.get_value().copy() for value in updates}

    def call() -> Any:
        return program(*arguments)[0]

    def begin() -> None:
        for value, content in initial.items():
            value.set_value(content.copy())

    return Prepared(call, losses_of(call, TRAINED_STEPS), begin)


PyTensor.builders = {
    "pointwise": _function(_pointwise),
    "pointwise_approx": _function(_pointwise),
    "relu_scale": _function(
        lambda x: pt.maximum(_f(CHAIN_SCALE) * x + _f(CHAIN_SHIFT), _f(0)) * _f(RELU_FACTOR)
    ),
    "black_scholes": _function(lambda s, k, t: black_scholes(s, k, t, _XP)),
    "scales": _function(lambda x, bias, row, column: (x + bias) * row * column),
    "softmax": _function(lambda x: pt.special.softmax(x, axis=-1)),
    "layer_norm": _function(_layer_norm),
    "logsumexp": _function(lambda x: pt.logsumexp(x, axis=-1)),
    "row_sum": _function(lambda x: x.sum(-1)),
    "mean_var": _function(lambda x: (x.mean(-1), x.var(-1))),
    "sum": _function(lambda x: x.sum()),
    "column_sum": _function(lambda x: x.sum(0)),
    "embedding": _function(lambda table, rows: table[rows]),
    "matmul": _function(lambda a, b: a @ b),
    "linear_relu": _function(lambda x, w, b: pt.maximum(x @ w + b, _f(0))),
    "linear_gelu": _function(lambda x, w, b: _gelu(x @ w + b)),
    "mlp": _function(lambda x, **w: pt.special.softmax(_scores(x, w), axis=-1)),
    "attention": _function(_attention),
    "transformer": _function(_transformer),
    "training": _training,
    "increment": _function(lambda x: x + _f(1)),
    "increment_by_name": _function(lambda x: x + _f(1)),
    "layers": _function(_layers),
    "dag": _function(_dag),
}
PEER = PyTensor
