"""PyTorch on the CPU: eager, ``torch.compile``, and that with frozen weights and a search.

Weights are parameters of a module, those of linear layers (out, in) as its users hold them.
Gradients are off for the whole process except while training, as in an inference loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.peers.base import Peer, Prepared, losses_of
from benchmarks.workloads.base import EPSILON, Array, Arrays
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


class Torch(Peer):
    """The variants: "eager", "compile" and "max"."""

    def versions(self) -> dict[str, str]:
        return {"torch": torch.__version__}

    def warm_up(self) -> None:
        torch.set_num_threads(self.threads)
        torch.set_num_interop_threads(1)
        if self.variant == "max":
            torch._inductor.config.freezing = True
        if self.variant != "eager":
            self.compiled(lambda x: (x @ x).tanh().sum(-1))(torch.ones(32, 32))

    def native(self, arrays: Arrays) -> Any:
        torch.set_grad_enabled("labels" in arrays)
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}

    def native_weights(self, arrays: Arrays) -> Any:
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}

    def build(self, kind: str, inputs: Any, weights: Any) -> Prepared | None:
        if self.variant != "eager":
            torch._dynamo.reset()  # or what was compiled before would be found again
        return super().build(kind, inputs, weights)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as the variant runs it."""
        if self.variant == "eager":
            return function
        options = {"mode": "max-autotune-no-cudagraphs"} if self.variant == "max" else {}
        return torch.compile(function, dynamic=False, fullgraph=True, **options)


def _arrays(result: Any) -> list[Array]:
    items = result if isinstance(result, list | tuple) else [result]
    return [item.detach().contiguous().numpy() for item in items]


class _Module(nn.Module):
    """A function of inputs and weights, the weights as parameters, so that they can be frozen."""

    def __init__(self, function: Callable[..., Any], weights: Any, linear: tuple[str, ...]) -> None:
        super().__init__()
        self.function = function
        self.names = list(weights)
        for name, weight in weights.items():
            held = weight.t().contiguous() if name in linear else weight
            self.register_parameter(name, nn.Parameter(held, requires_grad=False))

    def forward(self, **inputs: Any) -> Any:
        return self.function(**inputs, **{name: getattr(self, name) for name in self.names})


Builder = Callable[[Any, Any, Any], Prepared | None]


def _function(function: Callable[..., Any]) -> Builder:
    def build(peer: Torch, inputs: Any, weights: Any) -> Prepared | None:
        if peer.variant == "max":
            return None  # there are no weights to freeze: it is what the variant "compile" does
        given = inputs | weights
        names, values = tuple(given), tuple(given.values())
        program = peer.compiled(lambda *a: function(**dict(zip(names, a, strict=True))))
        return Prepared(lambda: program(*values), _arrays)

    return build


def _network(function: Callable[..., Any], *linear: str) -> Builder:
    """``linear`` names the matrices that are held as (out, in)."""

    def build(peer: Torch, inputs: Any, weights: Any) -> Prepared:
        program = peer.compiled(_Module(function, weights, linear).eval())
        return Prepared(lambda: program(**inputs), _arrays)

    return build


def _pointwise(x: Any) -> Any:
    gate = torch.sigmoid(CHAIN_SCALE * x + CHAIN_SHIFT)
    return gate * torch.tanh(x) + torch.exp(-x * x) - 0.5 * torch.sqrt(torch.abs(x) + 1)


def _perceptron(x: Any, **weights: Any) -> Any:
    last = layer_count(weights) - 1
    for n in range(last):
        x = F.relu(F.linear(x, weights[f"w{n}"], weights[f"b{n}"]))
    return torch.softmax(F.linear(x, weights[f"w{last}"], weights[f"b{last}"]), -1)


def _transformer(x: Any, **w: Any) -> Any:
    batch, length, width = x.shape
    normed = F.layer_norm(x, (width,), w["gain1"], w["shift1"], EPSILON)
    q, k, v = (
        part.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
        for part in F.linear(normed, w["w_qkv"], w["b_qkv"]).split(width, -1)
    )
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    attended = attended.transpose(1, 2).reshape(batch, length, width)
    x = x + F.linear(attended, w["w_out"], w["b_out"])
    normed = F.layer_norm(x, (width,), w["gain2"], w["shift2"], EPSILON)
    hidden = F.gelu(F.linear(normed, w["w_up"], w["b_up"]), approximate="tanh")
    return x + F.linear(hidden, w["w_down"], w["b_down"])


def _layers(x: Any, **weights: Any) -> Any:
    for n in range(layer_count(weights)):
        x = x + LAYER_STEP * torch.tanh(torch.addmm(weights[f"b{n}"], x, weights[f"w{n}"]))
    return x


def _dag(peer: Torch, inputs: Any, weights: Any) -> Prepared | None:
    plan = dag_for(len(inputs["x0"]))

    def run(**given: Any) -> Any:
        xs = [given[f"x{n}"] for n in range(DAG_INPUTS)]
        return run_dag(plan, xs, dag_functions(torch))

    return _function(run)(peer, inputs, weights)


def _training(peer: Torch, inputs: Any, weights: Any) -> Prepared | None:
    """The usual loop: forward and backward, compiled in the variant, and the fused Adam."""
    if peer.variant == "max":
        return None
    layers: list[nn.Module] = []
    for n in range(layer_count(weights)):
        layer = nn.Linear(*weights[f"w{n}"].shape)
        layers += [nn.ReLU(), layer] if layers else [layer]
    model = nn.Sequential(*layers)
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    x, labels = inputs["x"], inputs["labels"]
    loss_of = peer.compiled(lambda x, labels: F.cross_entropy(model(x), labels))
    optimizer: list[torch.optim.Adam] = []

    def begin() -> None:
        with torch.no_grad():
            for n, layer in enumerate(linear):
                layer.weight.copy_(weights[f"w{n}"].t())
                layer.bias.copy_(weights[f"b{n}"])
        optimizer[:] = [
            torch.optim.Adam(
                model.parameters(), LEARNING_RATE, (BETA1, BETA2), ADAM_EPSILON, fused=True
            )
        ]

    def call() -> Any:
        optimizer[0].zero_grad(set_to_none=True)
        loss = loss_of(x, labels)
        loss.backward()
        optimizer[0].step()
        return loss.detach()

    begin()
    return Prepared(call, losses_of(call, TRAINED_STEPS), begin)


Torch.builders = {
    "pointwise": _function(_pointwise),
    "pointwise_approx": _function(_pointwise),
    "relu_scale": _function(lambda x: torch.relu(CHAIN_SCALE * x + CHAIN_SHIFT) * RELU_FACTOR),
    "black_scholes": _function(lambda s, k, t: black_scholes(s, k, t, torch)),
    "scales": _function(lambda x, bias, row, column: (x + bias) * row * column),
    "softmax": _function(lambda x: torch.softmax(x, -1)),
    "layer_norm": _function(
        lambda x, gain, bias: F.layer_norm(x, (x.shape[-1],), gain, bias, EPSILON)
    ),
    "logsumexp": _function(lambda x: torch.logsumexp(x, -1)),
    "row_sum": _function(lambda x: x.sum(-1)),
    "mean_var": _function(lambda x: (x.mean(-1), x.var(-1, unbiased=False))),
    "sum": _function(lambda x: x.sum()),
    "column_sum": _function(lambda x: x.sum(0)),
    "transpose": _function(lambda x: x.T.contiguous()),
    "channels_last": _function(lambda x: x.permute(0, 2, 3, 1).contiguous()),
    "embedding": _function(lambda table, rows: F.embedding(rows, table)),
    "fft": _function(lambda x: torch.fft.fft(x)),
    "matmul": _function(lambda a, b: a @ b),
    "linear_relu": _network(lambda x, w, b: F.relu(F.linear(x, w, b)), "w"),
    "linear_gelu": _network(lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"), "w"),
    "mlp": _network(_perceptron, "w0", "w1", "w2"),
    "attention": _function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    "transformer": _network(_transformer, "w_qkv", "w_out", "w_up", "w_down"),
    "training": _training,
    "increment": _function(lambda x: x + 1),
    "increment_by_name": _function(lambda x: x + 1),
    "layers": _network(_layers),
    "dag": _dag,
}
PEER = Torch
