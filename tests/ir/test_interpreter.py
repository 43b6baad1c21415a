"""The reference interpreter: binding of dims, guards, regions, feeds by value, long chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import FeedError, ShapeError
from graphc.checking.interpreter import bind_dims, evaluate, resolve
from graphc.ir.builder import apply_node, building
from graphc.ir.dims.expressions import symbol
from graphc.ir.dtypes import float32, int64
from graphc.ir.graph import Graph
from graphc.ir.op import lookup
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value

N, M = symbol("n"), symbol("m")


def recorded(recorder: Recorder, inputs: Sequence[Value], outputs: Sequence[Value]) -> Graph:
    nodes = [node for node in recorder.nodes if node.op.name != "placeholder"]
    return Graph(recorder.name, inputs, nodes, outputs)


def test_dims_are_bound_and_checked() -> None:
    types = [TensorType(float32, (N, 2)), TensorType(float32, (N * M, M))]
    arrays = [np.zeros((3, 2)), np.zeros((12, 4))]
    assert bind_dims(types, arrays) == {"n": 3, "m": 4}
    with pytest.raises(ShapeError, match=r"axis 0 of input 1 has size 13.*n = 3 from axis 0"):
        bind_dims(types, [arrays[0], np.zeros((13, 4))])
    with pytest.raises(ShapeError, match="dim 'n' is 3 in axis 0 of input 0 but 5"):
        bind_dims([types[0], types[0]], [arrays[0], np.zeros((5, 2))])
    with pytest.raises(ShapeError, match="says 2"):
        bind_dims(types[:1], [np.zeros((3, 1))])
    with pytest.raises(FeedError, match="has rank 2"):
        bind_dims(types[:1], [np.zeros(3)])


def test_attributes_are_resolved_inside_tuples() -> None:
    assert resolve((N, (2, N + M), "x"), {"n": 3, "m": 4}) == (3, (2, 7), "x")


def test_missing_inputs_are_named() -> None:
    recorder = Recorder("demo")
    with recorder:
        value = surface_function("placeholder")((2,), "float32", "weights")
        output = value + 1
    graph = recorded(recorder, [value], [output])
    with pytest.raises(FeedError, match="takes 1 inputs and is given 0"):
        evaluate(graph, [])
    with pytest.raises(FeedError, match="weights"):
        evaluate(graph, {})


def test_any_value_may_be_fed() -> None:
    recorder = Recorder()
    with recorder:
        value = surface_function("placeholder")((2,), "float32")
        middle = value + 1
        output = middle * 2
    graph = recorded(recorder, [value], [output])
    zeros = np.zeros(2, np.float32)
    (got,) = evaluate(graph, {value: zeros, middle: zeros + 10})
    assert got.tolist() == [20, 20]


def test_a_long_chain_is_not_recursed_over() -> None:
    recorder = Recorder()
    with recorder:
        value = surface_function("placeholder")((), "int64")
        output = value
        for _ in range(20_000):
            output = output + value
    (got,) = evaluate(recorded(recorder, [value], [output]), [np.array(2)])
    assert got == 40_002


def region(name: str, types: Sequence[TensorType], body: Any) -> Graph:
    recorder = Recorder(name)
    inputs = tuple(Value(type_, None, recorder) for type_ in types)
    with building(recorder):
        outputs = body(*inputs)
    return Graph(name, inputs, recorder.nodes, outputs)


def test_branches_and_loops() -> None:
    number = TensorType(int64, ())
    recorder = Recorder()
    with recorder:
        start = surface_function("placeholder")((), "int64")
        limit = surface_function("placeholder")((), "int64")
        condition = region("condition", [number, number], lambda i, n: (i < n,))
        body = region("body", [number, number], lambda i, n: (i * 2,))
        loop = apply_node(lookup("while"), (start, limit), {"carried": 1}, (condition, body))
        double = region("then", [number], lambda i: (i + 1,))
        keep = region("else", [number], lambda i: (i,))
        branch = apply_node(lookup("cond"), (loop.output > 10, loop.output), {}, (double, keep))
    graph = recorded(recorder, [start, limit], [loop.output, branch.output])
    assert [int(a) for a in evaluate(graph, [np.array(3), np.array(20)])] == [24, 25]
    assert [int(a) for a in evaluate(graph, [np.array(3), np.array(1)])] == [3, 3]


def test_a_fused_group_is_its_region() -> None:
    row = TensorType(float32, (N,))
    recorder = Recorder()
    with recorder:
        value = surface_function("placeholder")(("n",), "float32")
        group = region("group", [row], lambda v: (v * 2, v + surface_function("arange")(N)))
        fused = apply_node(lookup("fused"), (value,), {}, (group,))
    graph = recorded(recorder, [value], fused.outputs)
    doubled, counted = evaluate(graph, [np.ones(3, np.float32)])
    assert doubled.tolist() == [2, 2, 2] and counted.tolist() == [1, 2, 3]
