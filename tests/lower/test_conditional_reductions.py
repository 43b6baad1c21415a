"""Reductions that few rows need: put off until a row is known to need them, to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_samples import normal, seldom

import graphc as gx
from graphc.base.errors import IndexRangeError, VerifyError
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.interp import run_kernel
from graphc.kernel.ir import Order, walk
from graphc.kernel.statements.blocks import Reduce
from graphc.kernel.verify import verify_kernel

FUNCTIONS: dict[str, Callable[..., gx.Value]] = {
    "std": lambda x, axis: gx.std(x, axis=axis),
    "norm": lambda x, axis: gx.sqrt(gx.sum(x * x, axis=axis)),
    "inverse": lambda x, axis: gx.rsqrt(gx.mean(x * x, axis=axis)),
    "deviation": lambda x, axis: x / gx.std(x, axis=axis, keepdims=True),
    "of a function": lambda x, axis: gx.std(x * gx.exp(-gx.abs(x)), axis=axis),
}


def compiled(function: Any, shape: Any, element: str = "float32", **options: Any) -> Any:
    with gx.Graph() as graph:
        x = gx.placeholder(shape, element)
        result = function(x)
    return gx.Session(graph, **options).compile(result, [x])


def reductions(program: Any) -> list[bool]:
    """For each reduction of more than the leading terms whether it is put off."""
    kernels = [kernel for kernel in program.kernels]
    found = [s for kernel in kernels for s in walk(kernel.body) if isinstance(s, Reduce)]
    return [s.condition is not None for s in found]


@pytest.mark.parametrize("order", ["lanes", "chain"])
def test_a_reduction_with_a_condition(order: Order) -> None:
    x, y = normal(70, 40), np.empty(70, np.float32)
    assert run_kernel(seldom(order), [x, y], {}) == []
    rows = x if order == "lanes" else x.reshape(40, 70).T
    top = rows.max(axis=1)
    wide = rows.astype(np.float64)
    sums = wide.sum(axis=1) + np.square(wide).sum(axis=1) + rows.argmax(axis=1)
    assert 0 < (top > 2).sum() < 70
    np.testing.assert_allclose(y, np.where(top > 2, sums, top), rtol=1e-5)


def test_a_reduction_with_a_condition_has_no_effects() -> None:
    b = KernelBuilder("stores")
    y = b.buffer("y", "out", TensorType(gx.float32, (8,)))
    needed = b.apply("less", b.dim(0), b.dim(1))
    with b.reduce(8, "lanes", needed) as total:
        one = b.constant(1, gx.float32)
        b.store(y, total.index, one)
        total.terms.append(("add", one))
    with pytest.raises(VerifyError, match="has effects"):
        verify_kernel(b.finish())


@pytest.mark.parametrize("element", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(70, 5), (66, 70), (67, 300), (70, 1000)], ids=str)
def test_rows_have_the_bits_they_have_alone(
    name: str, shape: tuple[int, int], element: str
) -> None:
    """One row among others in range or out of it is what it is among its like, columns as well."""
    large, small = (1e30, 1e-30) if element == "float32" else (1e200, 1e-200)
    base = np.random.default_rng(1).uniform(-1, 1, shape)
    scales = np.array([1.0, large, small])
    kind = np.random.default_rng(2).choice(3, shape[0], p=[0.8, 0.1, 0.1])
    for axis in (1, 0):
        arrays = [(base * scale).astype(element) for scale in scales]
        mixed = np.choose(kind[:, None], arrays)
        if axis == 0:
            mixed, arrays = np.ascontiguousarray(mixed.T), [a.T.copy() for a in arrays]
        program = compiled(lambda x, axis=axis: FUNCTIONS[name](x, axis), mixed.shape, element)
        alone = [program(array) for array in arrays]
        result, full = program(mixed), alone[0].ndim == 2
        chosen = kind[:, None] if full and axis == 1 else kind
        assert np.array_equal(result, np.choose(chosen, alone), equal_nan=True)
        assert not np.isnan(result).any()


@pytest.mark.parametrize("shape", [(300, 300), (300, 1000), (1000, 1000), (None, 300)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_one_sum_is_taken_of_rows_in_range(shape: Any, axis: Any) -> None:
    program = compiled(lambda x: gx.std(x, axis=axis), shape)
    assert any(reductions(program)) and not all(reductions(program))


def test_what_any_row_may_need_is_not_put_off() -> None:
    """A row is read once for two sums of which ``where`` picks."""

    def picked(x: gx.Value) -> gx.Value:
        count = gx.sum(gx.where(x > 0, 1.0, 0.0), axis=1)
        return gx.where(count > 0, gx.sum(x, axis=1) / count, 0.0)

    assert reductions(compiled(picked, (40, 100))) == [False]


def test_an_index_is_checked_in_any_row() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((8, 50), "float32")
        places = gx.placeholder((30,), "int64")
        length = gx.sqrt(gx.sum(gx.square(gx.take(x, places, axis=1)), axis=1))
    program = gx.Session(graph).compile(length, [x, places])
    with pytest.raises(IndexRangeError, match="index 50"):
        program(np.ones((8, 50), np.float32), np.full(30, 50))
