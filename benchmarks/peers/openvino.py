"""OpenVINO's CPU device, with the models of ONNX Runtime, inputs and outputs in kept buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino

from benchmarks.peers.base import Peer, Prepared
from benchmarks.peers.onnx_models import serialised
from benchmarks.workloads.base import Arrays


class OpenVino(Peer):
    """Latency hint, one stream, float32."""

    def versions(self) -> dict[str, str]:
        return {"openvino": openvino.__version__.partition("-")[0]}

    def warm_up(self) -> None:
        self._core = openvino.Core()
        self._core.get_property("CPU", "FULL_DEVICE_NAME")

    def build(self, kind: str, inputs: Arrays, weights: Arrays) -> Prepared | None:
        # its CPU device computes models of float64 in float32
        if any(array.dtype == np.float64 for array in inputs.values()):
            return None
        text = serialised(kind, inputs, weights)
        if text is None:
            return None
        compiled = self._core.compile_model(
            self._core.read_model(text, b""),
            "CPU",
            {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": "f32",
                "NUM_STREAMS": "1",
                "INFERENCE_NUM_THREADS": str(self.threads),
                "ENABLE_CPU_PINNING": False,
            },
        )
        request = compiled.create_infer_request()
        held = {name: openvino.Tensor(a, shared_memory=True) for name, a in inputs.items()}
        for name, tensor in held.items():
            request.set_tensor(name, tensor)
        results = [request.get_output_tensor(n) for n in range(len(compiled.outputs))]
        keep = (held, compiled)

        def call(keep: Any = keep) -> Any:
            request.infer()
            return results

        return Prepared(call, lambda tensors: [np.array(tensor.data) for tensor in tensors])


PEER = OpenVino
