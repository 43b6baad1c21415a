"""ONNX Runtime: all graph optimisations, weights as initializers, inputs and outputs bound once.

Bound outputs are buffers that are kept, so it pays no page faults for fresh results; the by-name
workload goes through ``InferenceSession.run`` as most of its users do. It has no training step in
this distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime

from benchmarks.peers.base import Peer, Prepared
from benchmarks.peers.onnx_models import Model, serialised
from benchmarks.workloads.base import Array, Arrays


class OnnxRuntime(Peer):
    """ONNX Runtime's CPU provider."""

    def versions(self) -> dict[str, str]:
        return {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}

    def warm_up(self) -> None:
        x = {"x": np.ones((8, 8), np.float32)}
        model = Model(x, {})
        result = model.op("Tanh", model.op("MatMul", "x", "x"))
        self._session(model.finished([result])).run(None, x)

    def build(self, kind: str, inputs: Arrays, weights: Arrays) -> Prepared | None:
        by_name = kind == "increment_by_name"
        model = serialised("increment" if by_name else kind, inputs, weights)
        if model is None:
            return None
        session = self._session(model)
        return _by_name(session, inputs) if by_name else _bound(session, inputs)

    def _session(self, model: bytes) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _by_name(session: onnxruntime.InferenceSession, inputs: Arrays) -> Prepared:
    def outputs(result: Any) -> list[Array]:
        return list(result)

    return Prepared(lambda: session.run(None, inputs), outputs)


def _bound(session: onnxruntime.InferenceSession, inputs: Arrays) -> Prepared:
    """Calls that write into the outputs of the first call."""
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    names = [output.name for output in session.get_outputs()]
    for name in names:
        binding.bind_output(name)
    kept: list[Any] = []

    def call() -> Any:
        session.run_with_iobinding(binding)
        if not kept:
            kept.extend(binding.get_outputs())
            for name, value in zip(names, kept, strict=True):
                binding.bind_ortvalue_output(name, value)
        return kept

    return Prepared(call, lambda results: [value.numpy() for value in results])


PEER = OnnxRuntime
