"""Work fused behind matrix products: one kernel, and the bits of the product and the work apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx
from graphc.kernel.ir import Var, walk
from graphc.kernel.statements.products import Contract

pytestmark = pytest.mark.check_mode

Build = Callable[..., Any]
Shapes = Sequence[tuple[Any, ...]]

LINEAR: Build = lambda x, w, b: gx.nn.gelu(x @ w + b)  # noqa: E731
KEPT: Build = lambda x, w, b: (x @ w, gx.nn.relu(x @ w + b))  # noqa: E731
RESIDUAL: Build = lambda x, w, r: r + gx.tanh(x @ w)  # noqa: E731


def wholes(executable: gx.Executable) -> int:
    """How many nodes are computed, each by one launch or by several."""
    return len(executable.compiled.launches)


def both(
    build: Build, shapes: Shapes, sizes: dict[str, int], dtype: str, constant: bool
) -> tuple[gx.Executable, list[Any], list[Any]]:
    """The executable, and the results fused and with fusion switched off."""
    rng = np.random.default_rng(0)
    known = [[sizes.get(dim, dim) for dim in shape] for shape in shapes]
    arrays = [(rng.normal(size=shape) * 3).astype(dtype) for shape in known]
    with gx.Graph() as graph:
        fed = [gx.placeholder(shape, dtype) for shape in shapes]
        fetches = build(fed[0], gx.constant(arrays[1]), *fed[2:]) if constant else build(*fed)
    if constant:
        del fed[1], arrays[1]
    results = []
    for off in [(), ("fuse", "fuse-merge", "fuse-siblings")]:
        run = gx.Session(graph, options=gx.Options(off=off)).compile(fetches, fed)
        if not off:
            executable = run
        got = run(*arrays)
        results.append([got] if isinstance(got, np.ndarray) else list(got))
    return executable, *results


CASES: dict[str, tuple[Build, Shapes, dict[str, int]]] = {
    "one block": (LINEAR, [(40, 24), (24, 48), (48,)], {}),
    "one element": (LINEAR, [(1, 1), (1, 1), (1,)], {}),
    "nothing": (LINEAR, [(0, 3), (3, 5), (5,)], {}),
    "a stack of nothing": (LINEAR, [(3, 0, 2, 4), (4, 5), (5,)], {}),
    "nothing of a stack": (LINEAR, [(3, 2, 0, 4), (4, 5), (5,)], {}),
    "no columns of a stack": (LINEAR, [(3, 2, 2, 4), (4, 0), (0,)], {}),
    "nothing to add": (LINEAR, [(4, 0), (0, 5), (5,)], {}),
    "blocks of columns": (LINEAR, [(30, 8), (8, 700), (700,)], {}),
    "blocks of rows": (LINEAR, [(1100, 8), (8, 40), (40,)], {}),
    "few rows, wide": (LINEAR, [(3, 8), (8, 6000), (6000,)], {}),
    "a stack of rows": (LINEAR, [(5, 7, 24), (24, 33), (33,)], {}),
    "symbolic rows": (LINEAR, [("m", 24), (24, 300), (300,)], {"m": 5}),
    "many symbolic rows": (LINEAR, [("m", 24), (24, 300), (300,)], {"m": 70}),
    "symbolic stack": (LINEAR, [("m", "t", 24), (24, 33), (33,)], {"m": 3, "t": 5}),
    "all symbolic": (LINEAR, [("m", "k"), ("k", "n"), ("n",)], {"m": 600, "k": 9, "n": 261}),
    "few symbolic": (LINEAR, [("m", "k"), ("k", "n"), ("n",)], {"m": 2, "k": 9, "n": 4500}),
    "empty symbolic": (LINEAR, [("m", "k"), ("k", "n"), ("n",)], {"m": 0, "k": 9, "n": 3}),
    "kept": (KEPT, [(30, 8), (8, 700), (700,)], {}),
    "kept, symbolic": (KEPT, [("m", 8), (8, "n"), ("n",)], {"m": 600, "n": 300}),
    "residual": (RESIDUAL, [(50, 24), (24, 300), (50, 300)], {}),
    "residual is the operand": (lambda x, w, r: x + x @ w, [(50, 50), (50, 50), (1,)], {}),
    "batch": (RESIDUAL, [(3, 40, 24), (3, 24, 33), (3, 40, 33)], {}),
    "batch, symbolic": (
        RESIDUAL, [("s", "m", 24), ("s", 24, 33), ("s", "m", 33)], {"s": 3, "m": 9}
    ),
    "column of scales": (lambda x, w, c: x @ w * c, [(50, 24), (24, 33), (50, 1)], {}),
    "transposed operand": (lambda x, w, b: x.T @ w + b, [(24, 50), (24, 33), (33,)], {}),
    "rows in other groups": (
        lambda x, w, b: gx.nn.relu(gx.nn.relu(x @ w + b).reshape((3, 4, 2, 16))),
        [(3, 8, 4), (4, 16), (16,)], {},
    ),
    "rows of a stack as one": (
        lambda x, w, r: gx.nn.relu(x @ w).reshape((8, 4)) + r, [(2, 4, 5), (2, 5, 4), (8, 1)], {}
    ),
    "rows in groups, twice": (
        lambda x, w, r: gx.abs(gx.nn.relu(x @ w).reshape((2, 6, 8)) * r).reshape((3, 4, 8)) + 1,
        [(12, 5), (5, 8), (6, 1)], {},
    ),
    "rows in groups, of a row": (
        lambda x, w, r: gx.abs(gx.nn.relu(x @ w).reshape((1, 2, 1, 8)) + r),
        [(2, 5), (5, 8), (8,)], {},
    ),
    "rows in groups, symbolic": (
        lambda x, w, b: gx.nn.relu(gx.abs(x @ w).reshape((x.shape[0] * 4, 33)) + b),
        [("m", 4, 24), (24, 33), (33,)], {"m": 5},
    ),
    "kept in two groupings": (
        lambda x, w, b: (x @ w, gx.abs((x @ w).reshape((-1, 33)) + b)),
        [("m", 4, 24), (24, 33), (33,)], {"m": 5},
    ),
    "view of the residual": (lambda x, w, r: x @ w + r.T[::-1], [(5, 4), (4, 3), (3, 5)], {}),
}  # fmt: skip


@slow_unless(lambda dtype: dtype != "float64")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_bits_are_those_of_separate_kernels(name: str, dtype: str) -> None:
    build, shapes, sizes = CASES[name]
    if dtype == "int32" and build in (LINEAR, RESIDUAL):
        pytest.skip("functions of floats")
    executable, fused, apart = both(build, shapes, sizes, dtype, False)
    for one, other in zip(fused, apart, strict=True):
        assert one.tobytes() == other.tobytes()
    assert len(executable.kernels) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 3, 30, 900])
def test_packed_weights(rows: int, dtype: str) -> None:
    # deeper than one block of k, and more columns than one block
    shapes = [(rows, 1100), (1100, 300), (300,)]
    executable, fused, apart = both(KEPT, shapes, {}, dtype, True)
    for one, other in zip(fused, apart, strict=True):
        assert one.tobytes() == other.tobytes()
    (kernel,) = executable.kernels
    (contract,) = (s for s in walk(kernel.body) if isinstance(s, Contract))
    assert contract.template == "packed"


def test_blocks_of_sizes_known_at_run_time_say_what_they_hold() -> None:
    executable, *_ = both(*CASES["all symbolic"], "float32", False)
    (contract,) = (s for s in walk(executable.kernels[0].body) if isinstance(s, Contract))
    assert isinstance(contract.m, Var) and isinstance(contract.n, Var)


@pytest.mark.parametrize("shapes", [[("m", 96), (96, 700), (700,)], [("m", 9), (9, "n"), ("n",)]])
def test_threads_are_handed_blocks_whatever_is_known_of_their_number(shapes: Shapes) -> None:
    rng = np.random.default_rng(0)
    with gx.Graph() as graph:
        fed = [gx.placeholder(shape) for shape in shapes]
        y = LINEAR(*fed)
    one, two = (gx.Session(graph, threads=n).compile(y, fed) for n in (1, 2))
    split = two.kernels[0].split
    assert split is not None and split.levels == 2, "blocks of columns and of rows"
    for m in (1, 24, 25, 600):
        known = [[{"m": m, "n": 4500}.get(dim, dim) for dim in shape] for shape in shapes]
        arrays = [rng.normal(size=shape).astype(np.float32) for shape in known]
        assert one(*arrays).tobytes() == two(*arrays).tobytes()


def test_an_update_is_made_behind_the_gradient() -> None:
    with gx.Graph() as graph:
        x, dy = gx.placeholder((16, 8)), gx.placeholder((16, 40))
        w, m = gx.placeholder((8, 40)), gx.placeholder((8, 40))
        gradient = x.T @ dy
        moment = m * 0.9 + gradient * 0.1
        updated = w - moment * 0.01
    run = gx.Session(graph).compile([moment, updated], [x, dy, w, m])
    assert len(run.kernels) == 1
    outputs = [b.role for b in run.kernels[0].buffers].count("out")
    assert outputs == 2, "the gradient itself is not stored"
    (contract,) = (s for s in walk(run.kernels[0].body) if isinstance(s, Contract))
    assert [matrix.buffer.type.shape for matrix in contract.near] == [(8, 40)] * 2


def test_two_products_are_two_kernels() -> None:
    with gx.Graph() as graph:
        x, w, v = (gx.placeholder((9, 9)) for _ in range(3))
        y = gx.tanh(x @ w + x @ v)
    run = gx.Session(graph).compile(y, [x, w, v])
    assert len(run.kernels) == 2


def test_an_operand_that_is_counted_elsewhere_in_the_kernel() -> None:
    # a product reads its operands from memory, work on its elements computes counters anew
    with gx.Graph() as graph:
        x = gx.placeholder((6, 6))
        ramp = gx.broadcast_to(gx.arange(6, dtype="float32"), (6, 6))
        y = gx.exp(x + ramp) + ramp @ ramp
    given = np.full((6, 6), 0.5, np.float32)
    counted = np.broadcast_to(np.arange(6, dtype=np.float32), (6, 6))
    got = gx.Session(graph).run(y, {x: given})
    np.testing.assert_allclose(got, np.exp(given + counted) + counted @ counted, rtol=1e-5)


# --- rows of a product, and a product of them ----------------------------------------------------


def attention(q: Any, k: Any, v: Any) -> Any:
    length = q.shape[-2]
    scores = gx.matmul(q, gx.swapaxes(k, -1, -2)) * 0.125
    past = gx.arange(length)[:, None] >= gx.arange(length)[None, :]
    return gx.nn.softmax(gx.where(past, scores, -np.inf)) @ v


def attention_kept(q: Any, k: Any, v: Any) -> Any:
    scores = q @ gx.swapaxes(k, -1, -2)
    weights = gx.nn.softmax(scores)
    return scores, weights, weights @ v


ROWS: dict[str, tuple[Build, Shapes, int]] = {
    "attention": (attention, [(2, 3, 70, 16), (2, 3, 70, 16), (2, 3, 70, 24)], 2),
    "attention of one head": (attention, [(600, 8), (600, 8), (600, 8)], 1),
    "scores and weights are wanted too": (attention_kept, [(2, 99, 8), (2, 99, 8), (2, 99, 8)], 1),
    "other keys than queries": (
        lambda q, k, v: gx.nn.softmax(q @ k) @ v, [(40, 8), (8, 130), (130, 5)], 1
    ),
    "softmax of a product": (lambda x, w: gx.nn.softmax(x @ w), [(50, 24), (24, 300)], 1),
    "layer norm of a residual": (
        lambda x, w, r: gx.nn.layer_norm(x @ w + r), [(50, 24), (24, 33), (50, 33)], 1
    ),
    "a sum of rows": (lambda x, w: (x @ w, gx.exp(x @ w).sum(axis=1)), [(50, 24), (24, 33)], 1),
    "a sum of columns": (lambda x, w: gx.exp(x @ w).sum(axis=0), [(50, 24), (24, 33)], 2),
    "few rows": (lambda x, w: gx.nn.softmax(x @ w), [(5, 24), (24, 300)], 2),
    "deep rows": (lambda x, w: gx.nn.softmax(x @ w), [(40, 300), (300, 30)], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_products_keep_their_bits(name: str, dtype: str) -> None:
    build, shapes, kernels = ROWS[name]
    executable, fused, apart = both(build, shapes, {}, dtype, False)
    for one, other in zip(fused, apart, strict=True):
        assert one.tobytes() == other.tobytes()
    assert wholes(executable) == kernels


SYMBOLIC_ROWS: dict[str, tuple[Build, Shapes, int]] = {
    "attention": (attention, [("b", 3, "t", 16)] * 3, 2),
    "scores and weights are wanted too": (attention_kept, [("b", "t", 8)] * 3, 1),
    "softmax of a product": (lambda x, w: gx.nn.softmax(x @ w), [("m", 24), (24, "n")], 1),
    "a known length": (lambda x, w: gx.nn.softmax(x @ w), [("m", 24), (24, 300)], 1),
    "layer norm of a residual, whose mean divides by a size": (
        lambda x, w, r: gx.nn.layer_norm(x @ w + r), [("m", 24), (24, "n"), ("m", "n")], 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLIC_ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_sizes_known_at_run_time_keep_their_bits(name: str, dtype: str) -> None:
    build, shapes, kernels = SYMBOLIC_ROWS[name]
    with gx.Graph() as graph:
        fed = [gx.placeholder(shape, dtype) for shape in shapes]
        result = build(*fed)
    fused = gx.Session(graph, threads=2).compile(result, fed)
    off = gx.Options(off=("fuse", "fuse-merge", "fuse-siblings"))
    apart = gx.Session(graph, options=off, threads=1).compile(result, fed)
    assert wholes(fused) == kernels
    rng = np.random.default_rng(0)
    # more than a block of rows, and rows so long that a block holds fewer
    for b, t, m, n in [(2, 1, 1, 1), (1, 37, 70, 33), (2, 130, 33, 9000), (1, 97, 3, 20000)]:
        sizes = {"b": b, "t": t, "m": m, "n": n}
        known = [[sizes.get(dim, dim) for dim in shape] for shape in shapes]
        arrays = [(rng.normal(size=shape) * 3).astype(dtype) for shape in known]
        for one, other in zip(as_list(fused(*arrays)), as_list(apart(*arrays)), strict=True):
            assert one.tobytes() == other.tobytes(), sizes


def as_list(results: Any) -> list[Any]:
    return [results] if isinstance(results, np.ndarray) else list(results)


def test_no_rows_and_no_columns_of_sizes_known_at_run_time() -> None:
    with gx.Graph() as graph:
        x, w = gx.placeholder(("m", 24)), gx.placeholder((24, "n"))
        total = gx.exp(x @ w).sum(axis=1)
    run = gx.Session(graph).compile(total, [x, w])
    assert wholes(run) == 1
    for m, n in [(0, 5), (40, 0), (0, 0)]:
        given = np.ones((m, 24), np.float32), np.ones((24, n), np.float32)
        np.testing.assert_array_equal(run(*given), np.zeros(m, np.float32))


def test_scores_of_attention_are_never_in_memory() -> None:
    executable, *_ = both(attention, [(3, 256, 8)] * 3, {}, "float32", False)
    wide = [b for k in executable.kernels for b in k.buffers if b.type.size == 3 * 256 * 256]
    assert not wide
    scratch = [b for b in executable.kernels[-1].buffers if b.role == "scratch"]
    assert sum(b.type.bytes for b in scratch) < 1 << 20
