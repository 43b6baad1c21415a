"""How far rounding moves the results of a program: what another order of computing may change.

A rewriting that is allowed to round differently changes a result by about as much as noise of a few
units in the last place does that is added to every value on the way. Where numbers cancel, or
functions are steep, that is much more than a few units of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.checking.interpreter import bind_dims, evaluate, evaluate_node
from graphc.ir.attributes import Payload
from graphc.ir.dtypes import (
    NARROW_FLOATS,
    DType,
    complex64,
    complex128,
    dtype,
    float32,
    float64,
)
from graphc.ir.graph import Graph, Node
from graphc.ir.types import TensorType
from graphc.ir.value import Value

UNITS = 16
"""Of the noise, in the last place: approximate functions are off by up to 8."""

SAMPLES = 4


def moved_by_noise(
    graph: Graph, inputs: Sequence[Any], seed: int
) -> tuple[list[float], bool]:
    """For each output the most that noise moved an element of it; and whether all was finite.

    Elements that are not finite don't count.
    """
    sizes = bind_dims([value.type for value in graph.inputs], inputs)
    rng = np.random.default_rng(seed)
    plain, is_finite = _run(graph, inputs, sizes, None)
    moved = [0.0] * len(plain)
    for _ in range(SAMPLES):
        noisy, _ = _run(graph, inputs, sizes, rng)
        for number, (one, other) in enumerate(zip(plain, noisy, strict=True)):
            with np.errstate(all="ignore"):
                by = np.abs(other.astype(np.float64) - one.astype(np.float64))
            moved[number] = max(moved[number], float(np.max(by[np.isfinite(by)], initial=0.0)))
    return moved, is_finite


def _run(
    graph: Graph, inputs: Sequence[Any], sizes: Mapping[str, int], noise: np.random.Generator | None
) -> tuple[list[Any], bool]:
    """The outputs, and whether every value on the way was finite."""
    is_finite = True
    known: dict[Any, Any] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        with np.errstate(all="ignore"):
            results = evaluate_node(node, [known[value] for value in node.inputs], sizes)
            for value, result in zip(node.outputs, results, strict=True):
                array = np.asarray(result)
                if array.dtype.kind == "f":
                    is_finite &= bool(np.isfinite(array).all())
                    if noise is not None and node.inputs:
                        unit = UNITS * np.finfo(array.dtype).eps
                        factor = 1 + unit * noise.uniform(-1, 1, array.shape)
                        array = (array * factor).astype(array.dtype)
                known[value] = array
    return [known[value] for value in graph.outputs], is_finite


def in_float64(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs by NumPy, every float32 on the way a float64 of no less digits."""
    return evaluated_wide(graph, inputs, {float32: float64})


WIDER = {
    **dict.fromkeys((*NARROW_FLOATS, float32), float64), complex64: complex128,
}  # fmt: skip
"""What has no less digits, of each dtype that is not computed with in the widest numbers."""


def evaluated_wide(
    graph: Graph, inputs: Sequence[Any], wider: Mapping[DType, DType] = WIDER
) -> list[Any]:
    """The outputs by NumPy, every value on the way in a dtype of no less digits."""
    arrays = [
        array.astype(wider[dtype(array.dtype)].numpy) if dtype(array.dtype) in wider else array
        for array in map(np.asarray, inputs)
    ]
    with np.errstate(all="ignore"):
        return list(evaluate(_widened(graph, wider), arrays))


def wide(array: Any, name: str) -> Any:
    """An array in float32 or float64, or in complex numbers of such parts; others as they are."""
    element = dtype(array.dtype)
    if element.is_complex:
        return array.astype(np.complex128) if name == "float64" else array
    if element.is_storage:
        array = array.astype(element.computed.numpy)
    return array.astype(name) if element.is_float else array


def _widened(graph: Graph, wider: Mapping[DType, DType]) -> Graph:
    known: dict[Value, Value] = {}

    def value(old: Value) -> Value:
        if old not in known:
            type_ = old.type
            if type_.dtype in wider:
                type_ = TensorType(wider[type_.dtype], type_.shape)
            known[old] = Value(type_, old.name)
        return known[old]

    def attribute(item: Any) -> Any:
        if isinstance(item, Payload):
            array = item.array
            element = dtype(array.dtype)
            return Payload(array.astype(wider[element].numpy)) if element in wider else item
        return wider.get(item, item) if isinstance(item, DType) else item

    nodes = [
        Node(
            node.op,
            tuple(map(value, node.inputs)),
            {name: attribute(item) for name, item in node.attrs.items()},
            tuple(map(value, node.outputs)),
            tuple(_widened(region, wider) for region in node.regions),
            node.provenance,
        )
        for node in graph.nodes
    ]
    inputs, outputs = map(value, graph.inputs), map(value, graph.outputs)
    return Graph(graph.name, list(inputs), nodes, list(outputs))
