"""A few small operations for tests of the graph IR itself, entered only while such tests run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import ShapeError
from graphc.ir import dtypes, op
from graphc.ir.attributes import Attributes, Payload
from graphc.ir.builder import make_node
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim
from graphc.ir.graph import UNKNOWN, Graph, Node
from graphc.ir.lowering import Pointwise, Structural
from graphc.ir.op import Flat, NotDifferentiable, OpDef
from graphc.ir.types import TensorType
from graphc.ir.value import Value


def _same(types: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    if any(type != types[0] for type in types):
        raise ShapeError(f"operands differ: {', '.join(map(str, types))}")
    return [types[0]]


def _halves(types: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    axis = attrs["axis"]
    shape = list(types[0].shape)
    shape[axis] = shape[axis] // 2
    return [types[0].with_shape(tuple(shape))] * 2


def _constant(types: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    payload: Payload = attrs["value"]
    return [TensorType(dtypes.dtype(payload.array.dtype), payload.array.shape)]


def _region_outputs(types: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (region,) = attrs["regions"]
    if [value.type for value in region.inputs] != list(types):
        raise ShapeError("the region's inputs are not of the operands' types")
    return [value.type for value in region.outputs]


def _define(name: str, infer: Any, reference: Any, **facts: Any) -> OpDef:
    lowering = facts.pop("lowering", Structural())
    derivative = facts.pop("derivative", NotDifferentiable("made for tests"))
    return OpDef(f"test.{name}", name, infer, reference, derivative, lowering, **facts)


ADD = _define("add", _same, np.add, lowering=Pointwise("add"))
NEGATE = _define("negate", _same, np.negative, lowering=Pointwise("negate"), derivative=Flat())
TAG = _define("tag", _same, lambda x, /, **attrs: x)
HALVES = _define("halves", _halves, lambda x, *, axis: tuple(np.split(x, 2, axis)))
CONSTANT = _define("constant", _constant, lambda value: value.array)
GROUP = _define("group", _region_outputs, lambda *arrays, **attrs: None, effect="control")
ALL = (ADD, NEGATE, TAG, HALVES, CONSTANT, GROUP)


@contextmanager
def registered() -> Iterator[None]:
    """Enters these operations, and only these, for the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(op, "load_families", lambda: None)
        patch.setattr(op, "_REGISTRY", {})
        for definition in ALL:
            op.register(definition)
        yield


def value(*shape: Dim, name: str | None = None, dtype: dtypes.DType = dtypes.float32) -> Value:
    """A value without a producer."""
    return Value(TensorType(dtype, shape), name)


def node(
    definition: OpDef, *inputs: Value, regions: Sequence[Graph] = (), name: str | None = None,
    **attrs: Any,
) -> Node:  # fmt: skip
    """A node of inferred type that belongs to no graph yet."""
    return make_node(definition, inputs, attrs, regions, UNKNOWN, name=name)


def chain(length: int) -> Graph:
    """x, x + x, (x + x) + x, …"""
    source = value(4, name="x")
    nodes: list[Node] = []
    last = source
    for _ in range(length):
        nodes.append(node(ADD, last, source))
        last = nodes[-1].output
    return Graph("chain", [source], nodes, [last])


def sample() -> Graph:
    """A graph that has everything: symbols, names, several outputs, constants, nested regions."""
    n = expressions.symbol("n", 1, 64)
    x, w = value(n, 64, name="x"), value(n, 64, name='w "quoted"\n')
    total = node(ADD, x, w)
    halves = node(HALVES, total.output, axis=1, name="half")
    constant = node(CONSTANT, value=Payload(np.array([1.5, -0.0], np.float32)))
    inner_input, outer_input = value(n, 64), value(n, 64)
    inner = node(NEGATE, inner_input)
    inner_graph = Graph("inner", [inner_input], [inner], [inner.output])
    outer = node(GROUP, outer_input, regions=[inner_graph])
    region = Graph("body", [outer_input], [outer], [outer.output, outer_input])
    group = node(GROUP, total.output, regions=[region], name="loss")
    tagged = node(TAG, x, size=n * 2 + 1, label="a, b} // c", kinds=(dtypes.int8, None, True))
    nodes = [total, halves, constant, group, tagged]
    return Graph("main", [x, w], nodes, [group.outputs[0], halves.outputs[1], x])


def tagged(**attrs: Any) -> Graph:
    """A graph of one node that has these attributes."""
    x = value(2)
    made = node(TAG, x, **attrs)
    return Graph("g", [x], [made], [made.output])
