"""ONNX Runtime: all graph optimisations, weights as initializers, inputs and outputs bound once.

Bound outputs are buffers that are kept, so ONNX Runtime pays no page faults for fresh results; the
by-name workload goes through ``InferenceSession.run`` as most of its users do. It has no training
step in this distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.peers.base import Peer, Prepared
from benchmarks.workloads import CHAIN_SCALE, CHAIN_SHIFT, EPSILON, LAYER_STEP, Array, Arrays

OPSET, IR_VERSION = 21, 10


class _Model:
    """A model under construction; operands are names of tensors, or numbers."""

    def __init__(self, inputs: Arrays, weights: Arrays) -> None:
        self._nodes: list[Any] = []
        self._initializers = [numpy_helper.from_array(a, name) for name, a in weights.items()]
        self._inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, a.shape)
            for name, a in inputs.items()
        ]

    def op(self, operator: str, *operands: str | float, **attributes: Any) -> str:
        names = [o if isinstance(o, str) else self._number(o) for o in operands]
        result = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, names, [result], **attributes))
        return result

    def _number(self, number: float) -> str:
        name = f"c{len(self._initializers)}"
        self._initializers.append(numpy_helper.from_array(np.float32(number), name))
        return name

    def finished(self, output: str) -> bytes:
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, "g", self._inputs, [result], self._initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return bytes(model.SerializeToString())


def _session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class OnnxRuntime(Peer):
    """ONNX Runtime's CPU provider."""

    def versions(self) -> dict[str, str]:
        return {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}

    def warm_up(self) -> None:
        x = {"x": np.ones((8, 8), np.float32)}
        model = _Model(x, {})
        _session(model.finished(model.op("Tanh", model.op("MatMul", "x", "x")))).run(None, x)


Definition = Callable[[_Model], str]


def _bound(define: Definition) -> Callable[[Peer, Arrays, Arrays], Prepared]:
    """A builder whose calls write into outputs bound at the first call."""

    def build(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
        model = _Model(inputs, weights)
        session = _session(model.finished(define(model)))
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        (output,) = session.get_outputs()
        binding.bind_output(output.name)
        kept: list[Any] = []

        def call() -> Any:
            session.run_with_iobinding(binding)
            if not kept:
                kept.extend(binding.get_outputs())
                binding.bind_ortvalue_output(output.name, kept[0])
            return kept[0]

        return Prepared(call, lambda result: [result.numpy()])

    return build


def _by_name(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    model = _Model(inputs, weights)
    session = _session(model.finished(_increment(model)))

    def outputs(result: Any) -> list[Array]:
        return list(result)

    return Prepared(lambda: session.run(None, inputs), outputs)


def _pointwise(m: _Model) -> str:
    gate = m.op("Sigmoid", m.op("Add", m.op("Mul", "x", CHAIN_SCALE), CHAIN_SHIFT))
    bump = m.op("Exp", m.op("Neg", m.op("Mul", "x", "x")))
    root = m.op("Sqrt", m.op("Add", m.op("Abs", "x"), 1.0))
    total = m.op("Add", m.op("Mul", gate, m.op("Tanh", "x")), bump)
    return m.op("Sub", total, m.op("Mul", root, 0.5))


def _layer_norm(m: _Model) -> str:
    return m.op("LayerNormalization", "x", "gain", "bias", axis=-1, epsilon=EPSILON)


def _increment(m: _Model) -> str:
    return m.op("Add", "x", 1.0)


def _layers(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    def define(m: _Model) -> str:
        h = "x"
        for n in range(len(weights) // 2):
            inner = m.op("Tanh", m.op("Add", m.op("MatMul", h, f"w{n}"), f"b{n}"))
            h = m.op("Add", h, m.op("Mul", inner, LAYER_STEP))
        return h

    return _bound(define)(peer, inputs, weights)


OnnxRuntime.builders = {
    "pointwise": _bound(_pointwise),
    "softmax": _bound(lambda m: m.op("Softmax", "x", axis=-1)),
    "layer_norm": _bound(_layer_norm),
    "sum": _bound(lambda m: m.op("ReduceSum", "x", keepdims=0)),
    "matmul": _bound(lambda m: m.op("MatMul", "a", "b")),
    "linear_relu": _bound(lambda m: m.op("Relu", m.op("Gemm", "x", "w", "b"))),
    "increment": _bound(_increment),
    "increment_by_name": _by_name,
    "layers": _layers,
}
PEER = OnnxRuntime
