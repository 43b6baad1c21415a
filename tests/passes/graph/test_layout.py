"""Constant weights in panels: the bits of plain products, on every path and in every artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.target import host, named
from graphc.kernel.panels import even_depth, fits, pack, unpack

pytestmark = pytest.mark.check_mode

SIZES = [(1, 40), (5, 9), (64, 33), (300, 70), (1100, 65), (2100, 129)]
PLAIN = gx.Options(off=("layout",))


def ops_of(executable: gx.Executable) -> set[str]:
    return {
        inner.op.name
        for node in executable.graph.nodes
        for region in node.regions
        for inner in region.nodes
    }


def product(weights: Any, dtype: str, options: gx.Options | None = None) -> gx.Executable:
    with gx.Graph() as graph:
        x = gx.placeholder((None, weights.shape[0]), dtype)
        y = x @ gx.constant(weights)
    return gx.Session(graph, options=options).compile(y, [x])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_bits_are_those_of_the_plain_product(size: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=size).astype(dtype)
    packed, plain = product(weights, dtype), product(weights, dtype, PLAIN)
    assert "contract_panels" in ops_of(packed)
    assert "contract" in ops_of(plain)
    rows = rng.normal(size=(1000, size[0])).astype(dtype)
    whole = plain(rows)
    for count in (0, 1, 2, 7, 8, 64, 1000):
        assert packed(rows[:count]).tobytes() == whole[:count].tobytes(), count


def test_special_values_and_padding() -> None:
    """Padding never meets what the operands hold: 0 · inf would be NaN."""
    weights = np.array([[np.inf, -0.0, np.nan], [1.0, -0.0, 2.0]], np.float32)
    rows = np.array([[0.0, 1.0], [-1.0, -0.0], [np.inf, 1.0]], np.float32)
    wide = np.concatenate([weights] * 5, axis=1)
    got = product(wide, "float32")(rows)
    assert got.tobytes() == product(wide, "float32", PLAIN)(rows).tobytes()


def test_transposed_operands() -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(30, 20)).astype(np.float32)
    with gx.Graph() as graph:
        x = gx.placeholder((20, "n"))
        y = x.T @ gx.constant(weights).T
    given = rng.normal(size=(20, 9)).astype(np.float32)
    session = gx.Session(graph)
    assert "contract_panels" in ops_of(session.compile(y))
    plain = gx.Session(graph, options=PLAIN)
    assert session.run(y, {x: given}).tobytes() == plain.run(y, {x: given}).tobytes()


def test_what_is_not_packed() -> None:
    with gx.Graph() as graph:
        x, w = gx.placeholder((4, 16)), gx.variable(np.ones((16, 16), np.float32))
        stack = gx.placeholder((3, 4, 16))
        products = [
            x @ w,  # may change
            stack @ np.ones((3, 16, 16), np.float32),  # a stack of matrices
            x.astype("int32") @ np.ones((16, 16), np.int32),
            x @ np.ones((16, 1), np.float32),  # one column would be padded to a panel
        ]
    session = gx.Session(graph)
    for value in products:
        assert "contract_panels" not in ops_of(session.compile(value))


def test_weights_used_twice_are_packed_once() -> None:
    weights = np.random.default_rng(2).normal(size=(64, 64)).astype(np.float32)
    with gx.Graph() as graph:
        x, w = gx.placeholder((4, 64)), gx.constant(weights)
        y = (x @ w) @ w
    plan = gx.Session(graph).compile(y).compiled.plan
    assert len({id(array) for array in plan.constants.values()}) == 1


def held_constants(graph: gx.Graph) -> list[bool]:
    """Whether each constant of a graph is held as an array of its own."""
    payloads = [node.attrs["value"] for node in graph.nodes if node.op.name == "constant"]
    return [payload._array is not None for payload in payloads]


@pytest.mark.without_check_mode("it makes plain arrays of packed weights again, to compare")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("size", [(300, 70), (1100, 65), (128, 128)], ids=str)
def test_packed_weights_are_held_once(size: tuple[int, int], transposed: bool) -> None:
    weights = np.random.default_rng(5).normal(size=size).astype(np.float32)
    weights[0, 0], weights[1, 1] = -0.0, np.nan
    with gx.Graph() as graph:
        w = gx.constant(weights)
        x = gx.placeholder((None, size[1 if transposed else 0]))
        y = gx.einsum("bk,nk->bn", x, w) if transposed else x @ w
    session = gx.Session(graph)
    text = str(graph)
    given = np.ones((3, x.shape[1]), np.float32)
    first = session.run(y, {x: given})
    assert held_constants(graph) == [False]
    # neither the text nor another program of the same graph needs the array
    assert str(graph) == text
    session.run(y, {x: given[:2]})
    assert held_constants(graph) == [False]
    both = session.run([w, y], {x: given})
    assert both[0].tobytes() == weights.tobytes()
    assert both[1].tobytes() == first.tobytes()
    (payload,) = [node.attrs["value"] for node in graph.nodes if node.op.name == "constant"]
    assert not payload.array.flags.writeable and payload.array.flags.c_contiguous
    assert payload.array is payload.array


def test_weights_that_are_needed_as_they_are_stay() -> None:
    weights = np.random.default_rng(6).normal(size=(200, 200)).astype(np.float32)
    frozen = weights.copy()
    frozen.flags.writeable = False
    with gx.Graph() as graph:
        x = gx.placeholder((None, 200))
        used, shared, small = gx.constant(weights), gx.constant(frozen), gx.constant(weights[:9].T)
        results = [x @ used, used @ x.T, x @ shared, x @ small]
    session = gx.Session(graph)
    session.run(results, {x: weights})
    held = [
        node.attrs["value"]._array is not None
        for node in graph.nodes
        if node.op.name == "constant" and node.output.type.rank == 2
    ]
    # the first is read elsewhere too, the second is the user's own, which nothing is saved with
    assert held == [True, True, True]
    assert next(n for n in graph.nodes if n.output is shared).attrs["value"].array is frozen


def test_an_exported_artifact_holds_panels(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    executable = product(rng.normal(size=(70, 50)).astype(np.float32), "float32")
    gx.aot.compile(executable, tmp_path / "product")
    loaded = gx.aot.load(tmp_path / "product")
    rows = rng.normal(size=(5, 70)).astype(np.float32)
    assert loaded(rows).tobytes() == executable(rows).tobytes()


def test_panels_of_another_target_are_refused() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4, 16))
        y = x @ np.ones((16, 200), np.float32)
    from graphc.base.options import Options
    from graphc.compiling.extraction import extract
    from passes.graph.layout import layout
    from passes.infra.base import PassContext
    from passes.infra.manager import run_pipeline
    from passes.pipeline import PIPELINE

    target = named("x86-64-v2")
    lowered, _ = run_pipeline(
        extract(graph, [y]).graph, PIPELINE, PassContext(Options(), target)
    )
    assert layout(lowered, PassContext(Options(), target)) is lowered
    if host().vector_bits > 128:
        from graphc.codegen.kernels.kernel import emit_kernel
        from graphc.codegen.llvm.emitter import ModuleEmitter
        from graphc.lower.fused_node import lower_group

        kernel = lower_group(lowered.nodes[-1], host()).whole
        with pytest.raises(gx.UnsupportedError, match="not for this target"):
            emit_kernel(ModuleEmitter(host()), kernel, "k", host())


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (8, 8), (17, 9), (33, 40)])
def test_packing(size: tuple[int, int]) -> None:
    k, n = size
    matrix = np.arange(1, k * n + 1, dtype=np.float64).reshape(size)
    for limit in (1, 4, 8, 100):
        depth = even_depth(k, limit)
        packed = pack(matrix, 4, depth)
        assert fits(packed.shape, k, n)
        assert depth <= limit
        np.testing.assert_array_equal(unpack(packed, k, n), matrix)
        assert packed.sum() == matrix.sum()
    assert not fits((1, 1, 4), 4, 4)
    assert not fits((2, 1, 8, 8), 8, 8)
