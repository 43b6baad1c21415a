"""Loops across the vector loop: transposes and pointwise work fused with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import Target, host, named
from graphc.checking.interpreter import evaluate
from graphc.codegen.kernels.kernel import emit_kernel
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.ir.value import Value
from graphc.kernel.ir import walk
from graphc.kernel.statements.blocks import Loop
from passes.kernels.pipeline import scheduled

pytestmark = pytest.mark.check_mode

TARGETS = {"host": host(), "v2": named("x86-64-v2"), "v3": named("x86-64-v3")}
ARM = named("aarch64")


def kinds(program: gx.Executable) -> list[str]:
    """Of each loop of the program's kernels."""
    return [s.kind for k in program.kernels for s in walk(k.body) if isinstance(s, Loop)]


def sample(shape: tuple[int, ...], dtype: str) -> Any:
    generator = np.random.default_rng(sum(shape))
    return (generator.standard_normal(shape) * 50).astype(dtype)


def run(
    function: Callable[..., Value], *arrays: Any, known: bool, target: Target | None = None
) -> tuple[Any, gx.Executable]:
    with gx.Graph() as graph:
        shapes = [a.shape if known else (None,) * a.ndim for a in arrays]
        inputs = [gx.placeholder(s, a.dtype) for s, a in zip(shapes, arrays, strict=True)]
        result = function(*inputs)
    program = gx.Session(graph, target=target).compile(result, inputs)
    return program(*arrays), program


SHAPES = [
    (1, 1),
    (1, 40),
    (40, 1),
    (2, 3),
    (7, 5),
    (16, 16),
    (15, 33),
    (48, 32),
    (101, 67),
    (0, 20),
]


@slow_unless(
    lambda dtype, known: dtype in ("float32", "int8") or (dtype == "float64" and not known)
)
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "int64", "bool"])
def test_a_transpose_of_any_size_and_dtype(dtype: str, known: bool) -> None:
    for shape in SHAPES:
        x = sample(shape, dtype)
        result, _ = run(gx.transpose, x, known=known)
        assert np.array_equal(result, x.T), shape


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_tiles_of_every_register_width(dtype: str, target: Target) -> None:
    for shape in ((33, 18), (64, 48)):
        x = sample(shape, dtype)
        result, program = run(gx.transpose, x, known=True, target=target)
        assert kinds(program) == ["across", "vector"]
        assert np.array_equal(result, x.T), shape


@pytest.mark.parametrize(
    "axes", [(0, 2, 3, 1), (3, 1, 0, 2), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0)]
)
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_axes_of_higher_rank_in_any_order(axes: tuple[int, ...], known: bool) -> None:
    for shape in ((3, 17, 5, 19), (2, 16, 4, 32), (1, 9, 20, 1), (3, 64, 7, 7)):
        x = sample(shape, "float32")
        result, _ = run(lambda v: gx.transpose(v, axes), x, known=known)
        assert np.array_equal(result, x.transpose(axes)), shape


def test_axes_that_stay_together_are_one_loop() -> None:
    x = sample((2, 20, 7, 9), "float32")
    _, program = run(lambda v: gx.transpose(v, (0, 2, 3, 1)), x, known=True)
    (kernel,) = program.kernels
    loops = [s for s in walk(kernel.body) if isinstance(s, Loop)]
    assert [(loop.kind, loop.extent) for loop in loops] == [
        ("parallel", 2), ("across", 63), ("vector", 20)
    ]  # fmt: skip


@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_pointwise_work_shares_the_tiles(known: bool) -> None:
    x, z = sample((70, 37), "float32"), sample((70, 37), "float32")
    y, row, column = (
        sample((37, 70), "float32"),
        sample((70,), "float32"),
        sample((37, 1), "float32"),
    )

    def function(x: Value, z: Value, y: Value, row: Value, column: Value) -> Value:
        return (gx.transpose(x) - y) * row + column * gx.transpose(z)

    result, program = run(function, x, z, y, row, column, known=known)
    assert "across" in kinds(program)
    assert np.array_equal(result, (x.T - y) * row + column * z.T)


def test_several_results_and_dtypes_in_one_nest() -> None:
    x = sample((50, 34), "float32")

    def function(v: Value) -> list[Value]:  # type: ignore[misc]
        turned = gx.transpose(v)
        return [gx.astype(turned, "float64") * 2, turned > 0]

    (double, positive), program = run(function, x, known=True)  # type: ignore[arg-type]
    assert len(program.kernels) == 1
    assert np.array_equal(double, x.T.astype("float64") * 2)
    assert np.array_equal(positive, x.T > 0)


def test_indices_are_still_checked() -> None:
    table, places = sample((40, 30), "float32"), np.array([3, 39, 7] * 8)

    def function(t: Value, p: Value) -> Value:
        return gx.transpose(gx.take(t, p, axis=0))

    result, _ = run(function, table, places, known=True)
    assert np.array_equal(result, table[places].T)
    with pytest.raises(gx.IndexRangeError, match="index 40"):
        run(function, table, np.array([3, 40, 7] * 8), known=True)


def test_text_for_another_architecture() -> None:
    _, program = run(gx.transpose, sample((48, 64), "float32"), known=True)
    module = ModuleEmitter(host())
    emit_kernel(module, scheduled(program.kernels[0], ARM), "kernel", ARM)
    assert "nontemporal" not in module.text()
    assert "<4 x float>" in module.text()


LOOPS: dict[str, tuple[Callable[[Value], Value], tuple[int, ...], list[str]]] = {
    "elements": (lambda x: x * 2 + 1, (6, 5, 4), ["vector"]),
    "a new axis": (lambda x: x[..., None] + 1, (40, 3), ["vector"]),
    "the rows of a slice": (lambda x: x[3:] * 2, (7, 5, 4), ["vector"]),
    "columns of a slice": (lambda x: x[..., 1:] * 2, (7, 5, 4), ["parallel", "vector"]),
    "a broadcast row": (
        lambda x: x + np.arange(4, dtype="float32"),
        (6, 5, 4),
        ["parallel", "vector"],
    ),
    "margins": (
        lambda x: gx.pad(x, ((0, 0), (1, 1), (0, 0))),
        (6, 5, 4),
        ["parallel", "parallel", "vector"],
    ),
    "a transpose of the outer axis": (
        lambda x: gx.transpose(x, (2, 0, 1)),
        (6, 5, 4),
        ["across", "vector"],
    ),
}


@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
@pytest.mark.parametrize("name", LOOPS)
def test_axes_that_all_accesses_run_through_as_one_are_one_loop(name: str, known: bool) -> None:
    function, shape, expected = LOOPS[name]
    x = sample(shape, "float32")
    result, program = run(function, x, known=known)
    assert np.array_equal(result, *evaluate(program.source, [x]))
    assert kinds(program) == expected
