"""The workloads as ONNX models, for the peers that run those; weights are initializers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from benchmarks.workloads.base import EPSILON, Arrays
from benchmarks.workloads.definitions import (
    DAG_INPUTS,
    LAYER_STEP,
    dag_for,
    run_dag,
)
from benchmarks.workloads.networks import HEADS, layer_count
from benchmarks.workloads.pointwise import (
    CHAIN_SCALE,
    CHAIN_SHIFT,
    NORMAL_SCALE,
    NORMAL_STEP,
    NORMAL_TERMS,
    RATE,
    RELU_FACTOR,
    VOLATILITY,
)

OPSET, IR_VERSION = 21, 10


class Model:
    """A model under construction; operands are names of tensors, numbers, or lists of integers."""

    def __init__(self, inputs: Arrays, weights: Arrays, dtype: Any = np.float32) -> None:
        self.inputs, self.weights = inputs, weights
        self._dtype = np.dtype(dtype)
        self._nodes: list[Any] = []
        self._initializers = [numpy_helper.from_array(a, name) for name, a in weights.items()]

    def op(self, operator: str, *operands: Any, results: int = 1, **attributes: Any) -> Any:
        """Adds a node; gives the name of its result, or several."""
        names = [o if isinstance(o, str) else self.constant(o) for o in operands]
        made = [f"t{len(self._nodes)}_{n}" for n in range(results)]
        self._nodes.append(helper.make_node(operator, names, made, **attributes))
        return made[0] if results == 1 else made

    def constant(self, content: Any) -> str:
        """Adds an initializer: lists are int64, all else has the model's dtype."""
        name = f"c{len(self._initializers)}"
        dtype = np.int64 if isinstance(content, list) else self._dtype
        self._initializers.append(numpy_helper.from_array(np.asarray(content, dtype), name))
        return name

    def finished(self, outputs: list[str]) -> bytes:
        """The serialised model."""
        kind = helper.np_dtype_to_tensor_dtype
        inputs = [
            helper.make_tensor_value_info(name, kind(a.dtype), a.shape)
            for name, a in self.inputs.items()
        ]
        results = [helper.make_tensor_value_info(name, kind(self._dtype), None) for name in outputs]
        graph = helper.make_graph(self._nodes, "g", inputs, results, self._initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return bytes(model.SerializeToString())


def serialised(kind: str, inputs: Arrays, weights: Arrays) -> bytes | None:
    """The model of a kind of workload; None where ONNX has no way to say it."""
    define = _DEFINITIONS.get(kind)
    if define is None:
        return None
    model = Model(inputs, weights, np.float64 if kind == "black_scholes" else np.float32)
    result = define(model)
    return model.finished(result if isinstance(result, list) else [result])


def _pointwise(m: Model) -> Any:
    gate = m.op("Sigmoid", m.op("Add", m.op("Mul", "x", CHAIN_SCALE), CHAIN_SHIFT))
    bump = m.op("Exp", m.op("Neg", m.op("Mul", "x", "x")))
    root = m.op("Sqrt", m.op("Add", m.op("Abs", "x"), 1.0))
    total = m.op("Add", m.op("Mul", gate, m.op("Tanh", "x")), bump)
    return m.op("Sub", total, m.op("Mul", root, 0.5))


def _relu_scale(m: Model) -> Any:
    shifted = m.op("Add", m.op("Mul", "x", CHAIN_SCALE), CHAIN_SHIFT)
    return m.op("Mul", m.op("Relu", shifted), RELU_FACTOR)


def _cumulative(m: Model, d: str) -> Any:
    k = m.op("Div", 1.0, m.op("Add", 1.0, m.op("Mul", NORMAL_STEP, m.op("Abs", d))))
    tail: Any = NORMAL_TERMS[4]
    for term in NORMAL_TERMS[3::-1]:
        tail = m.op("Add", term, m.op("Mul", k, tail))
    bell = m.op("Exp", m.op("Mul", -0.5, m.op("Mul", d, d)))
    tail = m.op("Mul", m.op("Mul", m.op("Mul", NORMAL_SCALE, bell), k), tail)
    return m.op("Where", m.op("Greater", d, 0.0), m.op("Sub", 1.0, tail), tail)


def _black_scholes(m: Model) -> Any:
    deviation = m.op("Mul", VOLATILITY, m.op("Sqrt", "t"))
    drift = m.op("Mul", RATE + 0.5 * VOLATILITY * VOLATILITY, "t")
    d1 = m.op("Div", m.op("Add", m.op("Log", m.op("Div", "s", "k")), drift), deviation)
    strike = m.op("Mul", "k", m.op("Exp", m.op("Mul", -RATE, "t")))
    n1, n2 = _cumulative(m, d1), _cumulative(m, m.op("Sub", d1, deviation))
    call = m.op("Sub", m.op("Mul", "s", n1), m.op("Mul", strike, n2))
    left = m.op("Mul", strike, m.op("Sub", 1.0, n2))
    return [call, m.op("Sub", left, m.op("Mul", "s", m.op("Sub", 1.0, n1)))]


def _scales(m: Model) -> Any:
    return m.op("Mul", m.op("Mul", m.op("Add", "x", "bias"), "row"), "column")


def _mean_var(m: Model) -> Any:
    mean = m.op("ReduceMean", "x", [-1], keepdims=1)
    centred = m.op("Sub", "x", mean)
    variance = m.op("ReduceMean", m.op("Mul", centred, centred), [-1], keepdims=0)
    return [m.op("Squeeze", mean, [-1]), variance]


def _normed(m: Model, x: str, gain: str, shift: str) -> Any:
    return m.op("LayerNormalization", x, gain, shift, axis=-1, epsilon=EPSILON)


def _gelu(m: Model, x: str, w: str, b: str) -> Any:
    return m.op("Gelu", m.op("Add", m.op("MatMul", x, w), b), approximate="tanh")


def _perceptron(m: Model) -> Any:
    x, last = "x", layer_count(m.weights) - 1
    for n in range(last):
        x = m.op("Relu", m.op("Gemm", x, f"w{n}", f"b{n}"))
    return m.op("Softmax", m.op("Gemm", x, f"w{last}", f"b{last}"), axis=-1)


def _attended(m: Model, q: str, k: str, v: str, length: int, width: int) -> Any:
    kept = np.tril(np.ones((length, length), bool))
    mask = m.constant(np.where(kept, 0, -np.inf))
    scores = m.op("MatMul", q, m.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = m.op("Add", m.op("Mul", scores, width**-0.5), mask)
    return m.op("MatMul", m.op("Softmax", scores, axis=-1), v)


def _attention(m: Model) -> Any:
    return _attended(m, "q", "k", "v", *m.inputs["q"].shape[-2:])


def _transformer(m: Model) -> Any:
    batch, length, width = m.inputs["x"].shape
    normed = _normed(m, "x", "gain1", "shift1")
    mixed = m.op("Add", m.op("MatMul", normed, "w_qkv"), "b_qkv")
    split = [batch, length, HEADS, width // HEADS]
    q, k, v = (
        m.op("Transpose", m.op("Reshape", part, split), perm=[0, 2, 1, 3])
        for part in m.op("Split", mixed, results=3, axis=-1, num_outputs=3)
    )
    attended = _attended(m, q, k, v, length, width // HEADS)
    attended = m.op(
        "Reshape", m.op("Transpose", attended, perm=[0, 2, 1, 3]), list((batch, length, width))
    )
    x = m.op("Add", "x", m.op("Add", m.op("MatMul", attended, "w_out"), "b_out"))
    hidden = _gelu(m, _normed(m, x, "gain2", "shift2"), "w_up", "b_up")
    return m.op("Add", x, m.op("Add", m.op("MatMul", hidden, "w_down"), "b_down"))


def _layers(m: Model) -> Any:
    h: Any = "x"
    for n in range(layer_count(m.weights)):
        inner = m.op("Tanh", m.op("Add", m.op("MatMul", h, f"w{n}"), f"b{n}"))
        h = m.op("Add", h, m.op("Mul", inner, LAYER_STEP))
    return h


def _dag(m: Model) -> Any:
    names = {
        "add": "Add", "subtract": "Sub", "multiply": "Mul",
        "maximum": "Max", "minimum": "Min", "tanh": "Tanh",
    }  # fmt: skip
    functions = {
        name: lambda *operands, operator=operator: m.op(operator, *operands)
        for name, operator in names.items()
    }
    return run_dag(dag_for(len(m.inputs["x0"])), [f"x{n}" for n in range(DAG_INPUTS)], functions)


Definition = Callable[[Model], Any]
_DEFINITIONS: dict[str, Definition] = {
    "pointwise": _pointwise,
    "pointwise_approx": _pointwise,
    "relu_scale": _relu_scale,
    "black_scholes": _black_scholes,
    "scales": _scales,
    "softmax": lambda m: m.op("Softmax", "x", axis=-1),
    "layer_norm": lambda m: _normed(m, "x", "gain", "bias"),
    "logsumexp": lambda m: m.op("ReduceLogSumExp", "x", [-1], keepdims=0),
    "row_sum": lambda m: m.op("ReduceSum", "x", [-1], keepdims=0),
    "mean_var": _mean_var,
    "sum": lambda m: m.op("ReduceSum", "x", keepdims=0),
    "column_sum": lambda m: m.op("ReduceSum", "x", [0], keepdims=0),
    "transpose": lambda m: m.op("Transpose", "x", perm=[1, 0]),
    "channels_last": lambda m: m.op("Transpose", "x", perm=[0, 2, 3, 1]),
    "embedding": lambda m: m.op("Gather", "table", "rows", axis=0),
    "matmul": lambda m: m.op("MatMul", "a", "b"),
    "linear_relu": lambda m: m.op("Relu", m.op("Gemm", "x", "w", "b")),
    "linear_gelu": lambda m: _gelu(m, "x", "w", "b"),
    "mlp": _perceptron,
    "attention": _attention,
    "transformer": _transformer,
    "increment": lambda m: m.op("Add", "x", 1.0),
    "layers": _layers,
    "dag": _dag,
}
