"""From the definition of a large graph to its first result, nothing compiled before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.workloads.base import FUNCTION_FLOPS, Array, Arrays, Goal, Workload, normal

LAYER_STEP = 0.1
DAG_INPUTS = 8
_REACH = 64
_BOUND = 8.0

Step = tuple[str, int, int]
Plan = tuple[tuple[Step, ...], tuple[int, ...]]


def _layers(inputs: Arrays) -> tuple[Array, ...]:
    x = inputs["x"]
    for n in range((len(inputs) - 1) // 2):
        x = x + LAYER_STEP * np.tanh(x @ inputs[f"w{n}"] + inputs[f"b{n}"])
    return (x,)


@cache
def dag(count: int) -> Plan:
    """A random graph of pointwise steps, and the values that no step reads.

    A step is an operation and the numbers of two values (tanh takes the first); values below
    ``DAG_INPUTS`` are inputs. A tanh stands wherever magnitudes could pass 8.
    """
    random = np.random.default_rng(7)
    most = [1.0] * DAG_INPUTS
    steps: list[Step] = []
    read: set[int] = set()
    for number in range(DAG_INPUTS, DAG_INPUTS + count):
        a, b = (int(n) for n in random.integers(max(0, number - _REACH), number, 2))
        name = ("add", "subtract", "multiply", "maximum", "minimum", "tanh")[random.integers(6)]
        bound = most[a] + most[b]
        if name == "multiply":
            bound = most[a] * most[b]
        elif name in ("maximum", "minimum"):
            bound = max(most[a], most[b])
        if name == "tanh" or bound > _BOUND:
            name, b, bound = "tanh", a, 1.0
        steps.append((name, a, b))
        most.append(bound)
        read |= {a, b}
    sinks = tuple(n for n in range(DAG_INPUTS, DAG_INPUTS + count) if n not in read)
    return tuple(steps), sinks


def run_dag(plan: Plan, inputs: Sequence[Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """The sum of the sinks."""
    steps, sinks = plan
    values = list(inputs)
    for name, a, b in steps:
        operands = (values[a],) if name == "tanh" else (values[a], values[b])
        values.append(functions[name](*operands))
    total = values[sinks[0]]
    for sink in sinks[1:]:
        total = functions["add"](total, values[sink])
    return total


def dag_functions(xp: Any) -> dict[str, Callable[..., Any]]:
    """The operations of a namespace like NumPy's."""
    return {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "maximum": xp.maximum,
        "minimum": xp.minimum,
        "tanh": xp.tanh,
    }


_LONG = 4096


def dag_for(length: int) -> Plan:
    """The graph of a workload whose inputs have so many elements: tiny for tiny arrays."""
    return dag(40 if length < _LONG else 2000)


def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family."""
    layers, length = (3, 64) if quick else (200, _LONG)
    goals = (Goal(1.0, "onnxruntime"), Goal(0.1, "jax"))
    names = [f"{letter}{n}" for n in range(layers) for letter in "wb"]

    def layered(random: np.random.Generator) -> Arrays:
        shapes = {"w": (64, 64), "b": (64,)}
        weights = {name: normal(random, *shapes[name[0]], scale=0.1) for name in names}
        return {"x": normal(random, 16, 64), **weights}

    def graph(inputs: Arrays) -> tuple[Array, ...]:
        xs = [inputs[f"x{n}"] for n in range(DAG_INPUTS)]
        return (run_dag(dag_for(len(inputs["x0"])), xs, dag_functions(np)),)

    return (
        Workload(
            "first_layers",
            "layers",
            f"{layers} layers h + 0.1·tanh(h·w + b), 16×64, definition to first result",
            layered,
            _layers,
            weights=frozenset(names),
            flops=layers * (2 * 16 * 64 * 64 + 16 * 64 * (FUNCTION_FLOPS + 3)),
            relative=1e-3,
            absolute=1e-3,
            timed="first",
            goals=goals,
        ),
        Workload(
            "first_dag",
            "dag",
            f"{40 if quick else 2000} pointwise nodes on {length} floats, definition to result",
            lambda random: {
                f"x{n}": random.uniform(-1, 1, length).astype(np.float32) for n in range(DAG_INPUTS)
            },
            graph,
            relative=1e-3,
            absolute=1e-3,
            timed="first",
            goals=goals,
        ),
    )
