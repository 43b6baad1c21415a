"""What is left of loops behind their whole vectors: some lanes of one more, where a target has it.

Each kernel's machine code is held against the interpreter, between red zones, as in all tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_substitutes import checked_substitutes

import graphc as gx
from graphc.base.errors import IndexRangeError
from graphc.base.target import Target, host, named, obstacle
from graphc.checking.levels.kernels import KernelComparison
from graphc.codegen.kernels.kernel import emit_kernel
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.native.plan_walker import KernelModule, ProgramText
from graphc.compiling.loading import load_code
from graphc.ir.dtypes import float32, int64
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, Kernel
from graphc.kernel.statements.products import MatrixOperand
from graphc.kernel.verify import verify_kernel
from passes.kernels.pipeline import scheduled

ROWS = 5
SAME_BITS = [name for name in ("x86-64-v4", "x86-64-v3") if obstacle(named(name)) is None]
"""Targets with the same bits, of which one has some lanes and one has not."""


def data(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def of_rows(x: Any, bias: Any) -> dict[str, Any]:
    """What is computed of rows in one step and in several, and reductions of every kind."""
    shifted = x - gx.mean(x, axis=-1, keepdims=True)
    spread = gx.mean(shifted * shifted, axis=-1, keepdims=True)
    return {
        "pointwise": gx.tanh(x + bias),
        "truth": x + bias > 0,
        "softmax": gx.nn.softmax(x),
        "norm": shifted * gx.rsqrt(spread + 1e-5) * bias,
        "largest": gx.max(x * bias, axis=-1),
        "least": gx.min(x, axis=-1),
        "where": gx.argmax(x, axis=-1),
        "powers": gx.sum(gx.exp(x), axis=-1),
        "total": gx.sum(x, axis=-1),
        "product": gx.prod(x, axis=-1),
        "any": gx.any(x > bias, axis=-1),
        "integers": gx.sum((x * 100).astype("int32") * 7, axis=-1),
        "columns": gx.sum(x, axis=0) * bias,
        "turned": x[:, ::-1] + bias,
        "doubles": gx.exp(x.astype("float64")) - bias.astype("float64"),
    }


def in_numpy(x: Any, bias: Any) -> dict[str, Any]:
    wide, b = x.astype(np.float64), bias.astype(np.float64)
    shifted = wide - wide.mean(-1, keepdims=True)
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    return {
        "pointwise": np.tanh(wide + b),
        "truth": x + bias > 0,
        "softmax": powers / powers.sum(-1, keepdims=True),
        "norm": shifted / np.sqrt((shifted**2).mean(-1, keepdims=True) + 1e-5) * b,
        "largest": (wide * b).max(-1),
        "least": wide.min(-1),
        "where": wide.argmax(-1),
        "powers": np.exp(wide).sum(-1),
        "total": wide.sum(-1),
        "product": wide.prod(-1),
        "any": (x > bias).any(-1),
        "integers": ((x * np.float32(100)).astype(np.int32) * 7).sum(-1),
        "columns": wide.sum(0) * b,
        "turned": wide[:, ::-1] + b,
        "doubles": np.exp(wide) - b,
    }


@pytest.mark.parametrize("width", [1, 2, 3, 7, 10, 16, 17, 31, 33, 50, 65, 290])
def test_rows_of_any_length(width: int) -> None:
    x, bias = data(ROWS, width), data(width, seed=1)
    known = in_numpy(x, bias)
    found = []
    for shape in ((ROWS, width), (ROWS, "width")):
        for name in SAME_BITS or ["host"]:
            with gx.Graph() as graph:
                feeds = gx.placeholder(shape, name="x"), gx.placeholder(shape[1:], name="bias")
                fetches = of_rows(*feeds)
            session = gx.Session(
                graph, options=gx.Options(cache="off"), target=named(name), threads=1
            )
            found.append(session.run(fetches, dict(zip(feeds, (x, bias), strict=True))))
    for name, wanted in known.items():
        np.testing.assert_allclose(found[0][name], wanted, rtol=2e-5, atol=2e-5, err_msg=name)
        assert all(other[name].tobytes() == found[0][name].tobytes() for other in found), name


@pytest.mark.parametrize("width", [3, 35, 67, 80])
def test_extremes_where_lanes_are_as_many_as_of_whole_vectors(width: int) -> None:
    x = data(ROWS, width)
    with gx.Graph() as graph:
        value = gx.placeholder(x.shape, name="x")
        fetches = gx.max(value, axis=-1), gx.min(value, axis=-1)
    for optimize in (0, 2):
        session = gx.Session(graph, options=gx.Options(optimize=optimize))
        largest, least = session.run(fetches, {value: x})
        assert np.array_equal(largest, x.max(-1)) and np.array_equal(least, x.min(-1))


@pytest.mark.parametrize("width", [3, 10, 20])
def test_indices_of_lanes_that_are_not_there_are_in_no_range(width: int) -> None:
    table, bias = data(4, 6), data(width, seed=1)
    with gx.Graph() as graph:
        places = gx.placeholder((ROWS, width), "int64", name="places")
        found = gx.take(gx.constant(table[0, :1]), places) + bias
    session = gx.Session(graph)
    zeros = np.zeros((ROWS, width), np.int64)
    assert np.array_equal(session.run(found, {places: zeros}), table[0, 0] + bias + 0 * zeros)
    zeros[3, width - 1] = 9
    with pytest.raises(IndexRangeError, match="9"):
        session.run(found, {places: zeros})


@pytest.mark.parametrize(("dtype", "width"), [("float32", 33), ("float32", 600), ("int8", 300)])
def test_indices_of_as_many_lanes_as_reductions_take_at_once(dtype: str, width: int) -> None:
    table = np.arange(4).astype(dtype)
    with gx.Graph() as graph:
        places = gx.placeholder((width,), "int64", name="places")
        found = gx.max(gx.take(gx.constant(table), places))
    session = gx.Session(graph)
    given = np.arange(width) % 3
    assert session.run(found, {places: given}) == 2
    for first in (0, width // 2, width - 1):
        given[first:] = 7
        given[first] = 9
        with pytest.raises(IndexRangeError, match="9"):
            session.run(found, {places: given})
        given[:] = 0


@pytest.mark.parametrize("name", SAME_BITS)
def test_steps_of_few_bits_have_no_more_lanes_than_what_is_computed_has_room_for(name: str) -> None:
    x = data(ROWS, 250).astype(np.float64)
    with gx.Graph() as graph:
        value = gx.placeholder(x.shape, "float64", name="x")
        found = gx.any(gx.exp(value) > 12, axis=-1)
    run = gx.Session(graph, target=named(name)).compile(found, [value])
    assert np.array_equal(run(x), (np.exp(x) > 12).any(-1))
    assert "x double>" in run.llvm_ir() and "<256 x double>" not in run.llvm_ir()


def test_rows_that_are_written_where_they_were_read() -> None:
    """Those of a product's block have nothing between them and are one row."""
    state, step = data(4096, 10), data(10, seed=1)
    x, slope = data(64, 4096, seed=2), data(64, 10, seed=3)
    with gx.Graph() as graph:
        kept = gx.variable(state)
        moved = kept.assign(kept * 0.5 + step)
        weights = gx.variable(state)
        update = gx.optim.Adam(1e-2).apply_gradients([(gx.constant(x).T @ slope, weights)])
    session = gx.Session(graph)
    run = session.compile([moved, update], [])
    assert run.compiled.plan.commit is not None
    for _ in range(4):
        state = state * np.float32(0.5) + step
        run()
    np.testing.assert_allclose(session.get(kept), state, rtol=1e-6, atol=1e-7)
    first = data(4096, 10)
    moved_by = np.abs(session.get(weights) - first)
    assert moved_by.min() > 0.039 and moved_by.max() < 0.041


def test_targets_without_some_lanes_take_elements_one_by_one() -> None:
    for name in SAME_BITS:
        with gx.Graph() as graph:
            x = gx.placeholder((ROWS, 10), name="x")
            y = gx.nn.softmax(x)
        text = gx.Session(graph, target=named(name)).compile(y, [x]).llvm_ir()
        assert ("llvm.masked.load" in text) == named(name).masks == (name == "x86-64-v4")


def test_masks_need_all_of_avx512() -> None:
    target = named("x86-64-v4")
    assert target.masks and not target.without_fma().masks
    assert not Target(target.triple, target.cpu, "+avx512f,+fma", True, 512).masks


def copied(b: KernelBuilder, source: Buffer, target: Buffer, count: int, by: int = 1) -> None:
    with b.loop(count, "vector") as loop:
        value = b.load(source, loop.index)
        b.store(target, loop.index, b.apply("multiply", value, b.constant(by, float32)))


def overwritten_by_a_product() -> Kernel:
    b = KernelBuilder("product")
    x, weights = (
        b.buffer(name, "in", TensorType(float32, shape))
        for name, shape in (("x", (10,)), ("weights", (10, 10)))
    )
    y = b.buffer("y", "out", TensorType(float32, (10,)))
    row = b.buffer("row", "scratch", TensorType(float32, (10,)))
    copied(b, x, row, 10)
    start = b.constant(0, int64)
    left, right, result = (MatrixOperand(buffer, start, 10, 1) for buffer in (x, weights, row))
    b.contract("panel", (1, 10, 10), left, right, result, None)
    copied(b, row, y, 10)
    return b.finish()


def overwritten_in_part(count: int) -> Kernel:
    b = KernelBuilder("part")
    x = b.buffer("x", "in", TensorType(float32, (count,)))
    y = b.buffer("y", "out", TensorType(float32, (count,)))
    row = b.buffer("row", "scratch", TensorType(float32, (count,)))
    copied(b, x, row, count)
    copied(b, x, row, 10, by=2)
    copied(b, row, y, count)
    return b.finish()


@pytest.mark.parametrize(
    "kernel",
    [overwritten_by_a_product(), overwritten_in_part(12)],
    ids=["product", "part"],
)
def test_what_is_held_of_scratch_is_what_lies_there(kernel: Kernel) -> None:
    verify_kernel(kernel)
    module = ModuleEmitter(host())
    emit_kernel(module, scheduled(kernel, host()), "kernel", host())
    modules = (KernelModule(module.module(), ("kernel",), False),)
    code = load_code(ProgramText(modules, ("kernel",), module.libraries), host())
    shapes = [(int(n) for n in buffer.type.shape) for buffer in kernel.buffers]
    arrays = [data(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    KernelComparison(kernel, arrays, {}).run(code.entries[0], checked_substitutes(host()))
