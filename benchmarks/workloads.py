"""The workloads: inputs, references in float64, tolerances, and the goals graphc has set itself.

Invariant: inputs depend on the workload's name and sizes alone, so that every process makes the
same ones. What a peer computes is chosen by ``kind``; several workloads may share one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Array]

CHAIN_SCALE, CHAIN_SHIFT = 1.3, -0.2
EPSILON = 1e-5
LAYER_STEP = 0.1
TRAINED_STEPS = 5
"""How many losses of the training step are compared with the reference."""
DIGITS = (64, 128, 64, 10)
LEARNING_RATE, BETA1, BETA2, ADAM_EPSILON = 1e-3, 0.9, 0.999, 1e-8


@dataclass(frozen=True, slots=True)
class Goal:
    """What graphc wants to reach.

    Attributes:
        least_speed: graphc's speed over that of ``peer``.
        most_microseconds: a limit for one call, whatever the peers do.
    """

    least_speed: float | None = None
    peer: str = "numpy"
    most_microseconds: float | None = None

    def __str__(self) -> str:
        if self.least_speed is not None:
            return f"≥ {self.least_speed:g} of {self.peer}"
        return f"< {self.most_microseconds:g} µs"


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing to compute.

    Attributes:
        name: what ``--only`` matches.
        kind: which of a peer's builders makes it.
        what: a phrase for the table.
        make: inputs from a random generator.
        reference: the results in float64, from inputs widened to float64.
        weights: the inputs that stay the same for the life of a program.
        relative, absolute: what a result may differ by: absolute + relative·|reference|.
        timed: "call": calls of the ready program; "first": from the first line of the definition
            to the first result, made anew each time.
        goal: what graphc wants to reach.
    """

    name: str
    kind: str
    what: str
    make: Callable[[np.random.Generator], Arrays]
    reference: Callable[[Arrays], tuple[Array, ...]]
    weights: frozenset[str] = frozenset()
    relative: float = 1e-4
    absolute: float = 1e-5
    timed: Literal["call", "first"] = "call"
    goal: Goal | None = None

    def inputs(self) -> Arrays:
        """The inputs, the same in every process."""
        return self.make(np.random.default_rng(zlib.crc32(self.name.encode())))

    def expected(self) -> tuple[Array, ...]:
        """The results in float64."""
        widened = {
            name: array.astype(np.float64) if array.dtype.kind == "f" else array
            for name, array in self.inputs().items()
        }
        return self.reference(widened)


def normal(random: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """Normally distributed float32 numbers."""
    numbers: Array = random.standard_normal(shape, dtype=np.float32) * np.float32(scale)
    return numbers


# --- references ----------------------------------------------------------------------------------


def _pointwise(inputs: Arrays) -> tuple[Array, ...]:
    x = inputs["x"]
    gate = 1 / (1 + np.exp(-(CHAIN_SCALE * x + CHAIN_SHIFT)))
    return (gate * np.tanh(x) + np.exp(-x * x) - 0.5 * np.sqrt(np.abs(x) + 1),)


def _softmax(x: Array) -> Array:
    powers: Array = np.exp(x - x.max(-1, keepdims=True))
    powers /= powers.sum(-1, keepdims=True)
    return powers


def _layer_norm(inputs: Arrays) -> tuple[Array, ...]:
    x = inputs["x"]
    deviation = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    return ((x - x.mean(-1, keepdims=True)) / deviation * inputs["gain"] + inputs["bias"],)


def _layers(inputs: Arrays) -> tuple[Array, ...]:
    x = inputs["x"]
    for n in range((len(inputs) - 1) // 2):
        x = x + LAYER_STEP * np.tanh(x @ inputs[f"w{n}"] + inputs[f"b{n}"])
    return (x,)


def _digits(inputs: Arrays) -> tuple[Array, ...]:
    x, labels = inputs["x"], inputs["labels"]
    rows = np.arange(len(labels))
    state = {name: inputs[name] for name in DIGITS_WEIGHTS}
    first = {name: np.zeros_like(array) for name, array in state.items()}
    second = {name: np.zeros_like(array) for name, array in state.items()}
    losses = []
    for step in range(1, TRAINED_STEPS + 1):
        hidden0 = np.maximum(x @ state["w0"] + state["b0"], 0)
        hidden1 = np.maximum(hidden0 @ state["w1"] + state["b1"], 0)
        error = _softmax(hidden1 @ state["w2"] + state["b2"])
        losses.append(-np.log(error[rows, labels]).mean())
        error[rows, labels] -= 1
        error /= len(labels)
        gradient = {"w2": hidden1.T @ error, "b2": error.sum(0)}
        error = error @ state["w2"].T * (hidden1 > 0)
        gradient |= {"w1": hidden0.T @ error, "b1": error.sum(0)}
        error = error @ state["w1"].T * (hidden0 > 0)
        gradient |= {"w0": x.T @ error, "b0": error.sum(0)}
        for name in state:
            first[name] = BETA1 * first[name] + (1 - BETA1) * gradient[name]
            second[name] = BETA2 * second[name] + (1 - BETA2) * gradient[name] ** 2
            mean = first[name] / (1 - BETA1**step)
            square = second[name] / (1 - BETA2**step)
            state[name] = state[name] - LEARNING_RATE * mean / (np.sqrt(square) + ADAM_EPSILON)
    return (np.array(losses),)


# --- inputs --------------------------------------------------------------------------------------

DIGITS_WEIGHTS = tuple(f"{letter}{n}" for n in range(len(DIGITS) - 1) for letter in "wb")


def _layers_inputs(random: np.random.Generator, count: int, batch: int, width: int) -> Arrays:
    inputs = {"x": normal(random, batch, width)}
    for n in range(count):
        inputs[f"w{n}"] = normal(random, width, width, scale=0.1)
        inputs[f"b{n}"] = normal(random, width, scale=0.1)
    return inputs


def _digits_inputs(random: np.random.Generator, batch: int) -> Arrays:
    inputs: Arrays = {
        "x": random.uniform(0, 1, (batch, DIGITS[0])).astype(np.float32),
        "labels": random.integers(0, DIGITS[-1], batch),
    }
    for n, (rows, columns) in enumerate(pairwise(DIGITS)):
        inputs[f"w{n}"] = normal(random, rows, columns, scale=(2 / rows) ** 0.5)
        inputs[f"b{n}"] = normal(random, columns, scale=0.1)
    return inputs


# --- the list ------------------------------------------------------------------------------------


def workloads(*, quick: bool = False) -> tuple[Workload, ...]:
    """All workloads; ``quick`` keeps their names and makes them tiny."""
    chain = 1 << 12 if quick else 1 << 22
    rows, columns = (16, 64) if quick else (4096, 1024)
    summed = 1 << 12 if quick else 1 << 24
    layers = 3 if quick else 200
    return (
        Workload(
            "ew_chain",
            "pointwise",
            f"sigmoid(a·x+b)·tanh(x) + exp(−x²) − ½·sqrt(|x|+1), {chain:,} floats",
            lambda random: {"x": normal(random, chain)},
            _pointwise,
            goal=Goal(4.0),
        ),
        Workload(
            "softmax",
            "softmax",
            f"softmax of rows, {rows}×{columns}",
            lambda random: {"x": normal(random, rows, columns)},
            lambda inputs: (_softmax(inputs["x"]),),
        ),
        Workload(
            "layer_norm",
            "layer_norm",
            f"layer norm of rows, gain and bias, {rows}×{columns}",
            lambda random: {
                "x": normal(random, rows, columns),
                "gain": normal(random, columns),
                "bias": normal(random, columns),
            },
            _layer_norm,
            absolute=1e-4,
        ),
        Workload(
            "sum",
            "sum",
            f"sum of {summed:,} floats",
            lambda random: {"x": normal(random, summed) + np.float32(0.5)},
            lambda inputs: (inputs["x"].sum(),),
            relative=1e-3,
        ),
        *(_product(f"matmul_{n}", n, n, n, quick) for n in (64, 128, 256, 512, 1024)),
        _product("matmul_32x784x512", 32, 784, 512, quick),
        _linear(32, 784, 512, quick),
        Workload(
            "digits_step",
            "digits_step",
            "64-128-64-10, batch 128: loss, gradients, Adam",
            lambda random: _digits_inputs(random, 16 if quick else 128),
            _digits,
            weights=frozenset(DIGITS_WEIGHTS),
            relative=5e-3,
        ),
        Workload(
            "call_16",
            "increment",
            "x + 1 on 16 floats, the ready callable",
            lambda random: {"x": normal(random, 16)},
            lambda inputs: (inputs["x"] + 1,),
            goal=Goal(most_microseconds=20.0),
        ),
        Workload(
            "run_16",
            "increment_by_name",
            "x + 1 on 16 floats, through session.run where there is one",
            lambda random: {"x": normal(random, 16)},
            lambda inputs: (inputs["x"] + 1,),
        ),
        Workload(
            "first_layers",
            "layers",
            f"{layers} layers h + 0.1·tanh(h·w + b), 16×64, definition to first result",
            lambda random: _layers_inputs(random, layers, 16, 64),
            _layers,
            weights=frozenset(f"{letter}{n}" for n in range(layers) for letter in "wb"),
            relative=1e-3,
            absolute=1e-3,
            timed="first",
        ),
    )


def _product(name: str, m: int, k: int, n: int, quick: bool) -> Workload:
    if quick:
        m, k, n = (min(size, 8 + size // 32) for size in (m, k, n))
    return Workload(
        name,
        "matmul",
        f"{m}×{k} by {k}×{n}",
        lambda random: {"a": normal(random, m, k), "b": normal(random, k, n)},
        lambda inputs: (inputs["a"] @ inputs["b"],),
        absolute=2e-3,
        goal=Goal(0.9) if name in ("matmul_256", "matmul_512") else None,
    )


def _linear(m: int, k: int, n: int, quick: bool) -> Workload:
    if quick:
        m, k, n = 4, 24, 16
    return Workload(
        "linear_relu",
        "linear_relu",
        f"relu(x·w + b), {m}×{k} by {k}×{n}, constant weights",
        lambda random: {
            "x": normal(random, m, k),
            "w": normal(random, k, n, scale=k**-0.5),
            "b": normal(random, n, scale=0.1),
        },
        lambda inputs: (np.maximum(inputs["x"] @ inputs["w"] + inputs["b"], 0),),
        weights=frozenset(("w", "b")),
        absolute=1e-4,
    )


def chosen(patterns: str, *, quick: bool = False) -> tuple[Workload, ...]:
    """The workloads whose name matches one of the patterns, which commas separate.

    Tiny ones have no goals.
    """
    globs = [pattern.strip() for pattern in patterns.split(",")]
    return tuple(
        replace(workload, goal=None) if quick else workload
        for workload in workloads(quick=quick)
        if any(fnmatchcase(workload.name, glob) for glob in globs)
    )
