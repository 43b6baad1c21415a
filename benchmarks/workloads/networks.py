"""Networks: inference, attention, a transformer block, training steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from benchmarks.workloads.base import (
    FUNCTION_FLOPS,
    Array,
    Arrays,
    Goal,
    Workload,
    gelu,
    layer_norm,
    normal,
    softmax,
)

HEADS = 12
TRAINED_STEPS = 5
"""How many losses of a training step are compared with the reference."""
LEARNING_RATE, BETA1, BETA2, ADAM_EPSILON = 1e-3, 0.9, 0.999, 1e-8


def layer_count(weights: Sequence[str] | Arrays) -> int:
    """Layers of a network whose weights are named w0, b0, w1, …"""
    return len(weights) // 2


def _perceptron(random: np.random.Generator, sizes: Sequence[int]) -> Arrays:
    weights: Arrays = {}
    for n, (rows, columns) in enumerate(pairwise(sizes)):
        weights[f"w{n}"] = normal(random, rows, columns, scale=(2 / rows) ** 0.5)
        weights[f"b{n}"] = normal(random, columns, scale=0.1)
    return weights


def _classified(inputs: Arrays) -> tuple[Array, ...]:
    x = inputs["x"]
    last = layer_count([name for name in inputs if name != "x"]) - 1
    for n in range(last):
        x = np.maximum(x @ inputs[f"w{n}"] + inputs[f"b{n}"], 0)
    return (softmax(x @ inputs[f"w{last}"] + inputs[f"b{last}"]),)


def _attention(q: Array, k: Array, v: Array) -> Array:
    length = q.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    result: Array = softmax(scores) @ v
    return result


def _block(i: Arrays) -> tuple[Array, ...]:
    x = i["x"]
    batch, length, width = x.shape
    mixed = layer_norm(x, i["gain1"], i["shift1"]) @ i["w_qkv"] + i["b_qkv"]
    q, k, v = (
        part.reshape(batch, length, HEADS, -1).swapaxes(1, 2) for part in np.split(mixed, 3, -1)
    )
    attended = _attention(q, k, v).swapaxes(1, 2).reshape(batch, length, width)
    x = x + attended @ i["w_out"] + i["b_out"]
    hidden = gelu(layer_norm(x, i["gain2"], i["shift2"]) @ i["w_up"] + i["b_up"])
    return (x + hidden @ i["w_down"] + i["b_down"],)


def _trained(inputs: Arrays) -> tuple[Array, ...]:
    x, labels = inputs["x"], inputs["labels"]
    rows = np.arange(len(labels))
    state = {name: array for name, array in inputs.items() if name not in ("x", "labels")}
    first = {name: np.zeros_like(array) for name, array in state.items()}
    second = {name: np.zeros_like(array) for name, array in state.items()}
    last = layer_count(state) - 1
    losses = []
    for step in range(1, TRAINED_STEPS + 1):
        outputs = [x]
        for n in range(last):
            outputs.append(np.maximum(outputs[-1] @ state[f"w{n}"] + state[f"b{n}"], 0))
        error = softmax(outputs[-1] @ state[f"w{last}"] + state[f"b{last}"])
        losses.append(-np.log(error[rows, labels]).mean())
        error[rows, labels] -= 1
        error /= len(labels)
        gradient = {}
        for n in range(last, -1, -1):
            gradient |= {f"w{n}": outputs[n].T @ error, f"b{n}": error.sum(0)}
            error = error @ state[f"w{n}"].T * (outputs[n] > 0)
        for name in state:
            first[name] = BETA1 * first[name] + (1 - BETA1) * gradient[name]
            second[name] = BETA2 * second[name] + (1 - BETA2) * gradient[name] ** 2
            mean = first[name] / (1 - BETA1**step)
            square = second[name] / (1 - BETA2**step)
            state[name] = state[name] - LEARNING_RATE * mean / (np.sqrt(square) + ADAM_EPSILON)
    return (np.array(losses),)


def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family."""
    small = (12, 10, 8, 5)
    sizes = small if quick else (784, 512, 512, 10)
    return (
        _linear("linear_relu", (4, 24, 16) if quick else (32, 784, 512)),
        _linear("linear_gelu", (8, 24, 32) if quick else (512, 768, 3072)),
        _inference(1, sizes),
        _inference(2 if quick else 64, sizes, "mlp_64"),
        _attended(*((6, 4) if quick else (512, 64))),
        _transformer(*((5, 24, 32) if quick else (128, 768, 3072))),
        _training("train_step", 16 if quick else 128, sizes, (Goal(0.75),)),
        _training("digits_step", 16 if quick else 128, small if quick else (64, 128, 64, 10), ()),
    )


def _linear(name: str, size: tuple[int, int, int]) -> Workload:
    m, k, n = size
    function = name.removeprefix("linear_")
    is_gelu = function == "gelu"

    def reference(i: Arrays) -> tuple[Array, ...]:
        product = i["x"] @ i["w"] + i["b"]
        return (gelu(product) if is_gelu else np.maximum(product, 0),)

    return Workload(
        name,
        name,
        f"{function}(x·w + b), {m}×{k} by {k}×{n}, constant weights",
        lambda random: {
            "x": normal(random, m, k),
            "w": normal(random, k, n, scale=k**-0.5),
            "b": normal(random, n, scale=0.1),
        },
        reference,
        weights=frozenset(("w", "b")),
        flops=2 * m * k * n + m * n * (FUNCTION_FLOPS + 8 if is_gelu else 2),
        bytes=4 * (m * k + k * n + m * n),
        absolute=1e-4,
        goals=(Goal(0.85),) if is_gelu else (),
    )


def _weight_count(sizes: Sequence[int]) -> int:
    return sum((rows + 1) * columns for rows, columns in pairwise(sizes))


def _weight_names(sizes: Sequence[int]) -> frozenset[str]:
    return frozenset(f"{letter}{n}" for n in range(len(sizes) - 1) for letter in "wb")


def _inference(batch: int, sizes: Sequence[int], name: str = "") -> Workload:
    count = _weight_count(sizes)
    return Workload(
        name or f"mlp_{batch}",
        "mlp",
        f"{'-'.join(map(str, sizes))} with relu and softmax, batch {batch}",
        lambda random: {"x": normal(random, batch, sizes[0]), **_perceptron(random, sizes)},
        _classified,
        weights=_weight_names(sizes),
        flops=2 * batch * count,
        bytes=4 * (count + batch * (sizes[0] + sizes[-1])),
        absolute=1e-4,
        goals=(Goal(0.85),),
    )


def _attended(length: int, width: int) -> Workload:
    scores = HEADS * length * length
    return Workload(
        "attention",
        "attention",
        f"causal attention, {HEADS} heads, {length}×{width}",
        lambda random: {name: normal(random, 1, HEADS, length, width) for name in "qkv"},
        lambda i: (_attention(i["q"], i["k"], i["v"]),),
        flops=2 * scores * width + scores * (FUNCTION_FLOPS + 4) // 2,
        bytes=16 * HEADS * length * width,
        absolute=1e-4,
        goals=(Goal(0.55),),
    )


def _transformer(length: int, width: int, inner: int) -> Workload:
    shapes = {
        "w_qkv": (width, 3 * width),
        "w_out": (width, width),
        "w_up": (width, inner),
        "w_down": (inner, width),
    }

    def make(random: np.random.Generator) -> Arrays:
        inputs = {"x": normal(random, 1, length, width)}
        for n in (1, 2):
            inputs[f"gain{n}"] = 1 + normal(random, width, scale=0.1)
            inputs[f"shift{n}"] = normal(random, width, scale=0.1)
        for name, (rows, columns) in shapes.items():
            inputs[name] = normal(random, rows, columns, scale=rows**-0.5)
            inputs[f"b{name[1:]}"] = normal(random, columns, scale=0.1)
        return inputs

    count = sum(rows * columns for rows, columns in shapes.values())
    weights = {f"{kind}{n}" for kind in ("gain", "shift") for n in (1, 2)}
    weights |= {f"{letter}{name[1:]}" for name in shapes for letter in "wb"}
    return Workload(
        "transformer",
        "transformer",
        f"pre-norm block, width {width}, {HEADS} heads, {length} causal, inner {inner}",
        make,
        _block,
        weights=frozenset(weights),
        flops=2 * length * count + 2 * length * length * width,
        bytes=4 * (count + 2 * length * width),
        relative=1e-3,
        absolute=1e-3,
        goals=(Goal(0.85),),
    )


def _training(name: str, batch: int, sizes: Sequence[int], goals: tuple[Goal, ...]) -> Workload:
    count = _weight_count(sizes)
    return Workload(
        name,
        "training",
        f"{'-'.join(map(str, sizes))}, batch {batch}: loss, gradients, Adam",
        lambda random: {
            "x": random.uniform(0, 1, (batch, sizes[0])).astype(np.float32),
            "labels": random.integers(0, sizes[-1], batch),
            **_perceptron(random, sizes),
        },
        _trained,
        weights=_weight_names(sizes),
        flops=2 * batch * (3 * count - sizes[0] * sizes[1]) + 12 * count,
        bytes=24 * count,
        relative=5e-3,
        goals=goals,
    )
