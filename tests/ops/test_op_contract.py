"""Every registered op keeps its contract: types, reference, lowering, decomposition, gradient.

The tests walk the registry; an op is covered by being declared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from op_contract import (
    Traced,
    assert_close,
    cases,
    has_element_rule,
    is_pointwise,
    run_lowering,
    sample,
    sampled_ops,
    special_sample,
    trace,
    trace_decomposition,
)
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import Target, host
from graphc.checking.interpreter import evaluate
from graphc.ir.dims.expressions import evaluate as evaluate_dim
from graphc.ir.dtypes import (
    DType,
    bool_,
    complex64,
    dtype,
    float16,
    float32,
    float64,
    int64,
    uint8,
)
from graphc.ir.graph import Graph
from graphc.ir.lowering import Decompose, Pointwise, Structural
from graphc.ir.op import Flat, Linear, NotDifferentiable, OpDef, all_ops
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function
from passes.graph.decompose import decompose, is_core
from passes.graph.widen import widen
from passes.infra.base import PassContext

SEEDS = range(3)


def each_case(applies: Callable[[OpDef, DType], bool]) -> pytest.MarkDecorator:
    """A test of every op with every dtype of its domain that the test applies to."""
    chosen = [(op, element) for op, element in cases() if applies(op, element)]
    assert chosen
    names = [f"{op.name}-{element}" for op, element in chosen]
    return pytest.mark.parametrize(("op", "element"), chosen, ids=names)


def each_op(applies: Callable[[OpDef], bool]) -> pytest.MarkDecorator:
    """A test of every op that the test applies to."""
    chosen = [op for op in sampled_ops() if applies(op)]
    assert chosen
    return pytest.mark.parametrize("op", chosen, ids=[op.name for op in chosen])


EACH_CASE = each_case(lambda op, element: True)
EACH_POINTWISE_CASE = each_case(lambda op, element: is_pointwise(op))


def takes_symbolic_dims(op: OpDef, element: DType) -> bool:
    """Whether the shapes of its operands may be unknown: its attributes speak of no sizes."""
    arrays, attrs = sample(op, element, 0)
    sized = {"shape", "sizes", "index", "repeats", "low", "high", "k", "n"}
    return bool(arrays) and not sized & attrs.keys()


def decomposes(op: OpDef, element: DType) -> bool:
    """Whether other ops stand for it."""
    return isinstance(op.lowering, Decompose)


def has_derivative(op: OpDef) -> bool:
    """Whether it has slopes, and float64 operands to find them by."""
    flat = isinstance(op.derivative, (Flat, NotDifferentiable))
    return not flat and float64 in op.domain.dtypes


MAIN = frozenset({bool_, int64, uint8, float16, float32, float64, complex64})
"""Dtypes that share no code: the others differ from one of them by width or by conversion alone."""


def differs(op: OpDef, element: DType, target: str) -> bool:
    """Whether code of an op, for these elements and this target, is like no other of the op."""
    rounds = op.numerics != "E"
    if target == "without_fma":
        return element is float32 and rounds
    if element is float16:
        return rounds  # what doesn't is compiled at edges (test_op_edges)
    return element in MAIN or MAIN.isdisjoint(op.domain.dtypes)


TARGETS = {"host": host(), "without_fma": host().without_fma()}


def compiled(
    recorder: Recorder, traced: Sequence[Traced], fed: Sequence[Sequence[Any]], target: Target
) -> Any:
    """Several traces in one graph run by a session."""
    session = gx.Session(recorder, target=target)
    feeds = {
        value: array
        for trace_, arrays in zip(traced, fed, strict=True)
        for value, array in zip(trace_.inputs, arrays, strict=True)
    }
    return session.run([list(trace_.outputs) for trace_ in traced], feeds)


def test_every_op_says_what_it_is() -> None:
    for op in all_ops():
        assert op.doc and op.doc.rstrip().endswith("."), op.name
        if not isinstance(op.lowering, Structural):
            assert op.domain.dtypes, f"{op.name} names no dtypes to be sampled with"
            assert op.domain.example is not None, f"{op.name} has no example"


@EACH_CASE
def test_inferred_type_is_the_reference_s(op: OpDef, element: DType) -> None:
    for seed in SEEDS:
        arrays, attrs = sample(op, element, seed)
        traced = trace(op, arrays, attrs)
        results = evaluate(traced.graph, arrays)
        for value, array in zip(traced.outputs, results, strict=True):
            assert array.dtype == value.dtype.numpy
            assert array.shape == value.shape


@each_case(takes_symbolic_dims)
def test_symbolic_dims(op: OpDef, element: DType) -> None:
    arrays, attrs = sample(op, element, 0)
    traced = trace(op, arrays, attrs, symbolic=True)
    sizes = {f"n{size}": size for array in arrays for size in array.shape}
    results = evaluate(traced.graph, arrays)
    for value, array in zip(traced.outputs, results, strict=True):
        assert tuple(evaluate_dim(dim, sizes) for dim in value.shape) == array.shape


@EACH_POINTWISE_CASE
def test_special_values(op: OpDef, element: DType) -> None:
    arrays, attrs = special_sample(op, element)
    traced = trace(op, arrays, attrs)
    (result,) = evaluate(traced.graph, arrays)
    assert result.dtype == traced.outputs[0].dtype.numpy
    if has_element_rule(op):
        assert_close(op, run_lowering(op, traced, arrays, attrs), result)


@EACH_POINTWISE_CASE
@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_single(op: OpDef, element: DType, size: int) -> None:
    arrays, attrs = special_sample(op, element)
    few = [array.reshape(-1)[:size].reshape(size, 1) for array in arrays]
    traced = trace(op, few, attrs)
    (result,) = evaluate(traced.graph, few)
    assert result.shape == traced.outputs[0].shape == (size, 1)


@each_case(lambda op, element: has_element_rule(op))
def test_lowering_rule_means_the_reference(op: OpDef, element: DType) -> None:
    for seed in SEEDS:
        arrays, attrs = sample(op, element, seed)
        traced = trace(op, arrays, attrs)
        lowered = run_lowering(op, traced, arrays, attrs)
        (wanted,) = evaluate(traced.graph, arrays)
        assert_close(op, lowered, wanted)


@each_case(decomposes)
def test_decomposition_is_the_reference(op: OpDef, element: DType) -> None:
    for seed in SEEDS:
        arrays, attrs = sample(op, element, seed)
        whole = trace(op, arrays, attrs)
        parts = trace_decomposition(op, arrays, attrs)
        for value, other in zip(whole.outputs, parts.outputs, strict=True):
            assert value.type == other.type
        wanted = evaluate(whole.graph, arrays)
        for got, reference in zip(evaluate(parts.graph, arrays), wanted, strict=True):
            assert_close(op, got, reference)


def assert_decomposes_to_core_ops(op: OpDef, element: DType, symbolic: bool) -> None:
    """The pass leaves core ops alone, and they compute the same."""
    arrays, attrs = sample(op, element, 1)
    graph = trace(op, arrays, attrs, symbolic=symbolic).graph
    core = decompose(widen(graph, PassContext()), PassContext())
    assert all(is_core(node) for node in core.nodes)
    wanted = evaluate(graph, arrays)
    for got, reference in zip(evaluate(core, arrays), wanted, strict=True):
        assert_close(op, got, reference)


@each_case(decomposes)
def test_the_decompose_pass_leaves_core_ops(op: OpDef, element: DType) -> None:
    assert_decomposes_to_core_ops(op, element, symbolic=False)


@each_case(lambda op, dtype: decomposes(op, dtype) and "shape" not in sample(op, dtype, 1)[1])
def test_the_decompose_pass_leaves_core_ops_of_symbolic_dims(op: OpDef, element: DType) -> None:
    assert_decomposes_to_core_ops(op, element, symbolic=True)


@slow_unless(differs)
@pytest.mark.parametrize("target", TARGETS)
@EACH_CASE
def test_compiled_is_the_reference(op: OpDef, element: DType, target: str) -> None:
    samples = [sample(op, element, seed) for seed in SEEDS]
    if isinstance(op.lowering, Pointwise):
        samples.append(special_sample(op, element))
    recorder = Recorder("compiled")
    traced = [trace(op, arrays, attrs, recorder=recorder) for arrays, attrs in samples]
    fed = [arrays for arrays, _ in samples]
    results = compiled(recorder, traced, fed, TARGETS[target])
    for trace_, arrays, attrs, outputs in zip(
        traced, fed, (attrs for _, attrs in samples), results, strict=True
    ):
        wanted = evaluate(trace(op, arrays, attrs).graph, arrays)
        for got, reference in zip(outputs, wanted, strict=True):
            assert len(trace_.outputs) == len(outputs)
            assert_close(op, got, reference)


# --- gradients -----------------------------------------------------------------------------------


def _smooth_sample(op: OpDef, seed: int) -> tuple[list[Any], dict[str, Any]]:
    """A float64 sample away from kinks and poles."""
    arrays, attrs = sample(op, float64, seed)
    interval = op.domain.differentiable
    if interval is not None:
        rng = np.random.default_rng(seed)
        arrays = [
            rng.uniform(*interval, array.shape) if array.dtype == np.float64 else array
            for array in arrays
        ]
    return arrays, attrs


def _slopes(op: OpDef, graph: Graph, arrays: list[Any], weights: Any, position: int) -> Any:
    """Central differences of sum(output * weights) along every element of one input."""
    # a float32 output rounds away small steps
    step = 1e-6 if graph.outputs[0].dtype is float64 else 1e-2
    result = np.zeros_like(arrays[position])
    # elements that have nothing to do with each other are moved at once
    for place in [...] if is_pointwise(op) else np.ndindex(result.shape):
        ends = []
        for side in (step, -step):
            moved = [array.copy() for array in arrays]
            moved[position][place] += side
            ends.append(evaluate(graph, moved)[0] * weights)
        change = (ends[0] - ends[1]) / (2 * step)
        result[place] = _summed_to(result.shape, change) if place is ... else np.sum(change)
    return result


def _summed_to(shape: tuple[int, ...], array: Any) -> Any:
    """Sums over the axes along which an array of this shape was broadcast."""
    own = (1,) * (array.ndim - len(shape)) + shape
    axes = tuple(axis for axis, size in enumerate(own) if size == 1)
    return array.sum(axis=axes, keepdims=True).reshape(shape)


# slopes of these, whose references take long, are held against exact ones by test_incomplete
@slow_unless(lambda op: op.name not in ("betainc", "betaincc", "gammainc", "gammaincc"))
@each_op(has_derivative)
def test_gradient_by_finite_differences(op: OpDef) -> None:
    for seed in range(2):
        arrays, attrs = _smooth_sample(op, seed)
        traced = trace(op, arrays, attrs)
        graph = traced.graph  # without what gradients add to it
        output = traced.outputs[0]
        if not output.dtype.is_float:
            continue
        weights = np.random.default_rng(seed + 10).uniform(0.5, 2, output.shape)
        # tables say how it is done; what they hold has no slope
        fixed = op.derivative.fixed if isinstance(op.derivative, Linear) else ()
        moving = [
            i for i, array in enumerate(arrays) if dtype(array.dtype).is_float and i not in fixed
        ]
        with traced.recorder:
            loss = surface_function("sum")(output * weights)
            found = gx.gradients(loss, [traced.inputs[i] for i in moving])
        for position, value in zip(moving, found, strict=True):
            assert value.type == traced.inputs[position].type
            (got,) = evaluate(traced.graph_of([value]), arrays)
            wanted = _slopes(op, graph, arrays, weights, position)
            room = 2e-6 if output.dtype is float64 else 1e-3
            np.testing.assert_allclose(got, wanted, rtol=room, atol=room)


def keeps_float64(op: OpDef) -> bool:
    """Whether float64 operands have derivatives and give float64."""
    if not has_derivative(op):
        return False
    arrays, attrs = _smooth_sample(op, 0)
    return trace(op, arrays, attrs).outputs[0].dtype is float64


@each_op(keeps_float64)
def test_jvp_agrees_with_vjp(op: OpDef) -> None:
    arrays, attrs = _smooth_sample(op, 0)
    traced = trace(op, arrays, attrs)
    output = traced.outputs[0]
    rng = np.random.default_rng(7)
    weights = rng.uniform(0.5, 2, output.shape)
    moving = [value for value in traced.inputs if value.dtype is float64]
    directions = [rng.uniform(-1, 1, value.shape) for value in moving]
    with traced.recorder:
        backward = gx.gradients(output, moving, grad_ys=weights)
        (ahead,) = gx.jvp([output], moving, directions)
    assert ahead.type == output.type
    *pulled, pushed = evaluate(traced.graph_of([*backward, ahead]), arrays)
    whole = sum(np.sum(part * way) for part, way in zip(pulled, directions, strict=True))
    np.testing.assert_allclose(np.sum(pushed * weights), whole, rtol=1e-11, atol=1e-12)
