"""Reductions, statistics, running sums, and the functions of neural networks against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits
from op_contract import run

import graphc as gx
from graphc import nn
from graphc.base.errors import DTypeError, ShapeError
from graphc.checking.interpreter import evaluate
from graphc.ir.dtypes import ALL, DType
from graphc.ir.graph import Graph
from graphc.ir.node_guards import lifted
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function

pytestmark = pytest.mark.check_mode

AXES: list[Any] = [None, 0, -1, (0, 2), (1, 2), (), (0, 1, 2)]
REDUCTIONS = ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"]


def surfaced(name: str, **options: Any) -> Callable[..., Any]:
    return lambda *operands: surface_function(name)(*operands, **options)


def close(got: Any, wanted: Any) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    rtol = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-13}.get(got.dtype, 0)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("element", [e for e in ALL if e.numpy.isbuiltin == 1], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_numpy_s(name: str, element: DType) -> None:
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 4)).astype(element.numpy)
    for axis in AXES:
        for keepdims in (False, True):
            with np.errstate(all="ignore"):
                wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            if element.is_float and name in ("any", "all"):
                wanted = np.asarray(wanted, np.bool_)
            close(run(surfaced(name, axis=axis, keepdims=keepdims), x), wanted)
            got = run(surfaced(name, axis=axis, keepdims=keepdims), x, symbolic=True)
            close(got, wanted)


@pytest.mark.parametrize("name", ["sum", "prod", "any", "all", "mean"])
@pytest.mark.parametrize("shape", [(3, 0, 4), (0,), (0, 0)])
def test_empty_axes(name: str, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    for axis in (None, *range(len(shape))):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            wanted = getattr(np, name)(x, axis=axis)
        close(run(surfaced(name, axis=axis), x), wanted)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremes_of_an_empty_axis(name: str) -> None:
    x = np.zeros((3, 0))
    with pytest.raises(ShapeError, match="empty axis 1"):
        run(surfaced(name, axis=1), x)
    # an empty result needs no element
    assert run(surfaced(name, axis=0), x).shape == (0,)
    with pytest.raises(ShapeError, match=f"{name} of an empty axis"):
        _run_empty(name)


def _run_empty(name: str) -> None:
    """A dim that turns out to be 0 only when the graph runs."""
    recorder = Recorder()
    with recorder:
        value = surface_function("placeholder")((3, None), "float64")
        output = surface_function(name)(value, axis=1)
    nodes = [node for node in recorder.nodes if node.op.name != "placeholder"]
    evaluate(Graph("empty", [value], nodes, [output]), [np.zeros((3, 0))])


def test_axis_errors() -> None:
    x = np.zeros((2, 3))
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        run(surfaced("sum", axis=2), x)
    with pytest.raises(ShapeError, match="twice"):
        run(surfaced("sum", axis=(1, -1)), x)
    with pytest.raises(ShapeError, match="is not an axis"):
        run(surfaced("argmax", axis=(0, 1)), x)


def test_no_axes_and_scalars() -> None:
    x, s = np.arange(6.0).reshape(3, 1, 2), np.array(5.0)
    close(run(surfaced("sum", axis=()), x), x)
    for name in ("sum", "max", "mean", "argmax"):
        close(run(surfaced(name), s), getattr(np, name)(s))
    close(run(surfaced("mean", keepdims=True), s), s)


def test_nan_wins_wherever_it_sits() -> None:
    x = np.tile(np.arange(33, dtype=np.float32), (33, 1))
    x[np.arange(33), np.arange(33)] = np.nan
    for name in ("max", "min", "argmax", "argmin"):
        for axis in (0, 1, None):
            close(run(surfaced(name, axis=axis), x), getattr(np, name)(x, axis=axis))


def test_first_tie_wins() -> None:
    x = np.array([[1, 5, 5, 0, 0], [0, 0, 0, 0, 0]], np.int32)
    for name in ("argmax", "argmin"):
        for axis in (0, 1, None):
            for keepdims in (False, True):
                wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
                close(run(surfaced(name, axis=axis, keepdims=keepdims), x), wanted)


def test_small_integers_widen_and_wrap() -> None:
    big = np.array([2**63 - 1, 1])
    close(run(surfaced("sum"), big), np.int64(-(2**63)))
    close(run(surfaced("sum"), np.full(300, 255, np.uint8)), np.uint64(76500))
    close(run(surfaced("sum", dtype="float32"), np.array([1, 2])), np.float32(3))


def test_variance_of_data_with_a_large_mean() -> None:
    x = 1e8 + np.random.default_rng(0).standard_normal(1001)
    np.testing.assert_allclose(run(surfaced("var"), x), x.var(), rtol=1e-10)
    constant = np.full(1000, 0.1, np.float32)
    assert run(surfaced("var"), constant) == 0
    for ddof in (0, 1):
        close(run(surfaced("std", ddof=ddof), x[:5]), np.std(x[:5], ddof=ddof))
    assert np.isnan(run(surfaced("var", ddof=1), np.array([3.0])))


def test_logsumexp_of_infinities_and_large_numbers() -> None:
    inf = np.inf
    x = np.array([[0.0, -inf, 1.0], [-inf] * 3, [1e4, 1e4, 0], [inf, 0, 0], [np.nan, 0, 0]])
    wanted = np.array([np.log(1 + np.e), -inf, 1e4 + np.log(2), inf, np.nan])
    for keepdims in (False, True):
        got = run(surfaced("logsumexp", axis=1, keepdims=keepdims), x)
        np.testing.assert_allclose(got, wanted[:, None] if keepdims else wanted, rtol=1e-15)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("element", [e for e in ALL if e.numpy.isbuiltin == 1], ids=str)
def test_running_sums(name: str, element: DType) -> None:
    x = np.random.default_rng(0).integers(0, 3, (3, 4)).astype(element.numpy)
    for axis in (None, 0, 1, -1):
        close(run(surfaced(name, axis=axis), x), getattr(np, name)(x, axis=axis))
    close(run(surfaced(name, axis=0), x[:0]), getattr(np, name)(x[:0], axis=0))


# --- derivatives where care is needed ------------------------------------------------------------


def slope(function: Callable[..., Any], x: Any) -> Any:
    """The derivative of the sum of a function."""
    return run(lambda value: gx.gradients(function(value), value), x)


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_evenly(name: str) -> None:
    x = np.array([[5.0, 1.0, 5.0, 5.0], [1.0, 1.0, 5.0, 1.0]])
    extreme = getattr(np, name)(x, axis=1, keepdims=True)
    mask = x == extreme
    got = slope(surfaced(name, axis=1), x)
    np.testing.assert_allclose(got, mask / mask.sum(1, keepdims=True), rtol=1e-15)


def test_slope_of_products_with_zeros() -> None:
    for values, wanted in (([2.0, 0, 3], [0.0, 6, 0]), ([2.0, 0, 3, 0], [0.0] * 4), ([4.0], [1.0])):
        got = slope(surfaced("prod"), np.array(values))
        np.testing.assert_allclose(got, wanted)
    got = slope(surfaced("cumprod"), np.array([2.0, 0.0, 3.0]))
    np.testing.assert_allclose(got, [1.0, 8.0, 0.0])
    assert slope(surfaced("prod"), np.zeros(0)).shape == (0,)


def test_slope_of_logsumexp_with_masked_rows() -> None:
    x = np.array([[0.0, -np.inf, 1.0], [-np.inf] * 3, [2.0, 2.0, 2.0]])
    powers = np.exp(x)
    totals = powers.sum(1, keepdims=True)
    wanted = np.where(totals > 0, powers / np.where(totals > 0, totals, 1), 0)
    got = slope(surfaced("logsumexp", axis=1), x)
    np.testing.assert_allclose(got, wanted, rtol=1e-14)


def test_slope_of_cross_entropy_of_huge_logits() -> None:
    x = np.array([[1e4, 0, -1e4]] * 2, np.float32)
    labels = np.array([0, 2])
    got = slope(lambda v: nn.softmax_cross_entropy(v, labels), x)
    assert got.tolist() == [[0, 0, 0], [1, 0, -1]]


# --- neural networks -----------------------------------------------------------------------------

ROWS = np.random.default_rng(1).uniform(-3, 3, (4, 5))


def test_activations() -> None:
    x = np.array([-2.0, -0.0, 0.0, 0.5, 3.0, np.nan])
    close(run(nn.relu, x), np.where(np.isnan(x), x, np.maximum(x, 0)))
    close(run(nn.leaky_relu, x), np.where(x > 0, x, 0.01 * x))
    close(run(nn.silu, x), x / (1 + np.exp(-x)))
    with np.errstate(invalid="ignore"):
        close(run(nn.softplus, x), np.logaddexp(x, 0))
    close(run(nn.gelu, np.array([1.0, -1.0])), np.array([0.8413447460685429, -0.15865525393145707]))
    tanh_form = 0.5 * ROWS * (1 + np.tanh(np.sqrt(2 / np.pi) * (ROWS + 0.044715 * ROWS**3)))
    close(run(lambda v: nn.gelu(v, approximate=True), ROWS), tanh_form)
    assert run(nn.relu, np.array([-1, 2])).dtype == np.int64


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1)])
def test_softmax(axis: Any) -> None:
    powers = np.exp(ROWS)
    wanted = powers / powers.sum(axis=axis, keepdims=True)
    close(run(lambda v: nn.softmax(v, axis), ROWS), wanted)
    close(run(lambda v: nn.softmax(v, axis), ROWS + 1e4), run(nn_softmax(axis), ROWS + 1e4))
    close(run(lambda v: nn.log_softmax(v, axis), ROWS), np.log(wanted))


def nn_softmax(axis: Any) -> Callable[..., Any]:
    """softmax spelled by hand with its shift."""
    exp, biggest = surface_function("exp"), surface_function("max")

    def spelled(value: Any) -> Any:
        powers = exp(value - biggest(value, axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)

    return spelled


def test_normalisations() -> None:
    gain, bias = np.arange(1.0, 6.0), np.arange(5.0)
    center = ROWS - ROWS.mean(1, keepdims=True)
    scaled = center / np.sqrt(ROWS.var(1, keepdims=True) + 1e-5)
    close(run(nn.layer_norm, ROWS), scaled)
    close(run(nn.layer_norm, ROWS, gain, bias), scaled * gain + bias)
    root = np.sqrt((ROWS**2).mean(1, keepdims=True) + 1e-5)
    close(run(nn.rms_norm, ROWS, gain), ROWS / root * gain)


def test_cross_entropy() -> None:
    classes = np.array([0, 4, 2, 2])
    logarithms = ROWS - np.log(np.exp(ROWS).sum(1, keepdims=True))
    wanted = -logarithms[np.arange(4), classes]
    close(run(nn.softmax_cross_entropy, ROWS, classes), wanted)
    close(run(nn.softmax_cross_entropy, ROWS, classes.astype(np.uint8)), wanted)
    close(run(nn.softmax_cross_entropy, ROWS, np.eye(5)[classes]), wanted)
    huge = np.array([[1e4, 0, -1e4]] * 2, np.float32)
    got = run(nn.softmax_cross_entropy, huge, np.array([0, 2]))
    assert_same_bits(got, np.array([0, 2e4], np.float32))
    masked = np.array([[0.0, -np.inf, 0.0]])
    got = run(nn.softmax_cross_entropy, masked, np.array([[0.5, 0.0, 0.5]]))
    close(got, np.array([np.log(2)]))


def test_cross_entropy_refuses_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="do not fit"):
        run(nn.softmax_cross_entropy, ROWS, np.zeros((4, 1), np.int64))
    with pytest.raises(DTypeError, match="not bools"):
        run(nn.softmax_cross_entropy, ROWS, np.zeros(4, np.bool_))


@pytest.mark.parametrize("classes", [False, True])
def test_cross_entropy_checks_unknown_sizes_at_run_time(classes: bool) -> None:
    recorder = Recorder()
    with recorder:
        logits = surface_function("placeholder")((None, 5), "float64")
        shape, element = ((None,), "int64") if classes else ((None, 5), "float64")
        labels = surface_function("placeholder")(shape, element)
        loss = nn.softmax_cross_entropy(logits, labels)
    nodes = [node for node in recorder.nodes if node.op.name != "placeholder"]
    bare, guards = lifted(nodes)
    graph = Graph("loss", [logits, labels], bare, [loss], guards)
    targets = np.array([0, 4, 2, 2]) if classes else np.eye(5)[[0, 4, 2, 2]]
    assert evaluate(graph, [ROWS, targets])[0].shape == (4,)
    with pytest.raises(ShapeError, match=r"labels .*\[1.*do not fit logits .*\[4, 5"):
        evaluate(graph, [ROWS, targets[:1]])


def test_embedding_and_mse() -> None:
    indices = np.array([[0, 3], [1, 1]])
    assert_same_bits(run(nn.embedding, ROWS, indices), ROWS[indices])
    close(run(nn.mse, ROWS, ROWS + 2), np.float64(4))
