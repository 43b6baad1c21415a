"""Matrix products against NumPy, with dims known when the graph is built and dims that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops_harness import Run, agrees, placeholder

from graphc.base.errors import ShapeError
from graphc.ir.builder import apply
from graphc.ir.op import lookup
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function

pytestmark = pytest.mark.check_mode

RANDOM = np.random.default_rng(2)
matmul, outer, dot = map(surface_function, ("matmul", "outer", "dot"))


def sample(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    return RANDOM.integers(-5 if np.dtype(dtype).kind in "if" else 0, 6, shape).astype(dtype)


SHAPES = [
    ((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((1, 5, 2, 3), (6, 1, 3, 4)), ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((0, 2, 3), (3, 2)), ((1, 1), (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.int8, bool], ids=lambda d: np.dtype(d).name)
def test_matmul(left: Any, right: Any, dtype: Any) -> None:
    a, b = sample(left, dtype), sample(right, dtype)
    agrees(lambda a, b: a @ b, np.matmul(a, b), a, b)
    if len(right) <= 2:
        agrees(lambda a, b: dot(a, b), np.dot(a, b), a, b)


def test_matmul_promotes_and_takes_arrays() -> None:
    a, b = sample((2, 3), np.int32), sample((3, 2), np.float32)
    agrees(lambda a, b: a @ b, a @ b, a, b)
    agrees(lambda a: b.T @ a.T, b.T @ a.T, a)


@pytest.mark.parametrize("flags", [(False, False), (False, True), (True, False), (True, True)])
def test_contract_of_transposed_operands(flags: tuple[bool, bool]) -> None:
    a, b = sample((5, 2, 3)), sample((5, 3, 4))
    stored = [np.swapaxes(m, 1, 2) if flag else m for m, flag in zip((a, b), flags, strict=True)]

    def product(left: Any, right: Any) -> Any:
        return apply(lookup("contract"), left, right, transpose_a=flags[0], transpose_b=flags[1])

    agrees(product, a @ b, *stored)


def test_one_product_where_the_right_operand_is_a_matrix() -> None:
    with Recorder() as graph:
        matmul(placeholder(("n", 7, 3)), placeholder((3, 4)))
    (node,) = (node for node in graph.nodes if node.op.name == "contract")
    assert node.inputs[0].ndim == 2


@pytest.mark.parametrize(
    ("left", "right"),
    [((2, 3), (4, 2)), ((3,), (2,)), ((2, 2, 3), (3, 3, 1)), ((), (3,)), ((3,), ())],
)
def test_shapes_that_do_not_multiply(left: Any, right: Any) -> None:
    with Recorder(), pytest.raises(ShapeError) as raised:
        placeholder(left) @ placeholder(right)
    message = str(raised.value)
    assert __file__ in message
    assert str(list(left)) in message and str(list(right)) in message


@pytest.mark.parametrize("right", [(None, 2), (None,), (4, None, 2)])
def test_inner_dims_are_compared_when_it_runs(right: Any) -> None:
    with Recorder() as graph:
        a, b = placeholder((None, None), "float64"), placeholder(right, "float64")
        c = matmul(a, b)
    fits = np.ones(tuple(5 if dim is None else dim for dim in right))
    assert Run(graph, {a: np.ones((3, 5)), b: fits})[c].max() == 5
    with pytest.raises(ShapeError):
        Run(graph, {a: np.ones((3, 4)), b: fits})[c]


def test_outer_and_dot() -> None:
    a, b = sample((3,)), sample((2, 2))
    agrees(outer, np.outer(a, b), a, b)
    agrees(lambda a: dot(a, 2.0), a * 2, a)
    stacked, tall = sample((2, 3)), sample((4, 3, 2))
    agrees(dot, np.dot(stacked, tall), stacked, tall)
    with Recorder():
        row = placeholder((2**16,))
        assert outer(row, row).size == 2**32
        huge = placeholder((2**32,))
        with pytest.raises(ShapeError, match=str(2**32)):
            outer(huge, huge)
