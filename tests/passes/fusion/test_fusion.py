"""Fusion: how many kernels a graph becomes, and that what is fused changes no bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.tuning.fusion import FUSION
from graphc.kernel.ir import walk
from graphc.ops.fused import fused_op
from graphc.ops.source import constant_op
from graphc.plan.ir import Launch

pytestmark = pytest.mark.check_mode

Build = Callable[[], Any]


def executable(build: Build) -> gx.Executable:
    with gx.Graph() as graph:
        fetches = build()
    return gx.Session(graph).compile(fetches)


def launches(build: Build) -> int:
    steps = executable(build).compiled.plan.steps
    assert all(isinstance(step, Launch) for step in steps)
    return len(steps)


def p(*shape: Any, dtype: str = "float32") -> Any:
    return gx.placeholder(shape, dtype)


def of(*shapes: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Build]:
    """Builds a function over placeholders of these shapes."""
    return lambda function: lambda: function(*(p(*shape) for shape in shapes))


ONE_KERNEL: dict[str, Build] = {
    "pointwise chain": of((4, 8))(lambda x: gx.tanh(gx.exp(x) * 2.0 + 1.0) - x),
    "broadcasts": of((4, 8), (8,), (4, 1), ())(lambda x, row, col, c: (x + row) * col - c),
    "where": of((40,))(lambda x: gx.where(x > 0.0, gx.exp(x), x)),
    "symbolic chain": of((None, 8), (8,))(lambda x, b: gx.nn.relu(x + b)),
    "transpose": of((4, 8))(lambda x: x.T + 1.0),
    "views of work": of((8, 8))(lambda x: gx.exp(x)[::-1, 2:4].T * 2.0),
    "sum": of((4, 8))(lambda x: x.sum()),
    "work into a sum and on": of((4, 8))(lambda x: gx.exp(x).sum(axis=1) * 2.0 + 1.0),
    "sum of another axis": of((4, 8))(lambda x: gx.exp(x).sum(axis=0) * 2.0 + 1.0),
    "row broadcast back": of((4, 8))(lambda x: x / gx.exp(x).sum(axis=1, keepdims=True)),
    "softmax": of((4, 8))(gx.nn.softmax),
    "softmax, symbolic": of((None, None))(gx.nn.softmax),
    "softmax over rows": of((4, 8))(lambda x: gx.nn.softmax(x, axis=0)),
    "softmax of a transpose": of((4, 8))(lambda x: gx.nn.softmax(x.T)),
    "log_softmax": of((4, 8))(gx.nn.log_softmax),
    "logsumexp": of((4, 8))(lambda x: gx.logsumexp(x, axis=-1)),
    "layer_norm": of((8, 32), (32,), (32,))(gx.nn.layer_norm),
    "rms_norm": of((8, 32))(gx.nn.rms_norm),
    "mean and variance": of((4, 8))(lambda x: (x.mean(axis=1), gx.var(x, axis=1))),
    "cross-entropy of probabilities": of((4, 8), (4, 8))(gx.nn.softmax_cross_entropy),
    "two results": of((4, 8))(lambda x: (gx.exp(x), gx.exp(x) * 2.0)),
    "matrix product": of((4, 8), (8, 3))(gx.matmul),
    "bias and relu of a product": of((4, 8), (8, 3), (3,))(lambda x, w, b: gx.nn.relu(x @ w + b)),
    "product of a stack of rows": of((2, 4, 8), (8, 3), (3,))(lambda x, w, b: gx.tanh(x @ w + b)),
    "product of symbolic rows": of((None, None, 8), (8, 3))(lambda x, w: gx.exp(x @ w) * 2.0),
    "batched product": of((5, 4, 8), (5, 8, 3), (4, 1))(lambda x, w, b: gx.abs(x @ w - b)),
    "residual, and work on it": of((4, 8), (8, 3), (3, 4))(lambda x, w, r: x @ w + gx.exp(r.T)),
    "a product and its activation": of((4, 8), (8, 3))(lambda x, w: (x @ w, gx.tanh(x @ w))),
    "a product of integers": lambda: p(4, 8, dtype="int32") @ p(8, 3, dtype="int32") + 1,
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name: str) -> None:
    assert launches(ONE_KERNEL[name]) == 1


def test_operands_of_products_are_stored() -> None:
    def layers(x: Any, w: Any, b: Any, v: Any) -> Any:
        return gx.nn.softmax(gx.nn.relu((x * 2.0) @ w + b) @ v)

    build = of((4, 8), (8, 6), (6,), (6, 3))(layers)
    # scale; product, bias and relu; product; softmax
    assert launches(build) <= 4


def test_cross_entropy_of_classes() -> None:
    def loss() -> Any:
        return gx.nn.softmax_cross_entropy(p(4, 8), p(4, dtype="int64"))

    assert launches(loss) <= 2
    assert launches(lambda: loss().mean()) <= 3


def test_equal_groups_are_one_kernel() -> None:
    def build() -> Any:
        x, w = p(8, 8), p(8, 8)
        for _ in range(10):
            x = gx.tanh(x @ w + 1.0)
        return x

    compiled = executable(build).compiled
    assert len(compiled.plan.steps) == 10
    assert len(compiled.plan.kernels) == 1


# --- size and repetition -------------------------------------------------------------------------


def statements(run: gx.Executable) -> int:
    return sum(len(list(walk(kernel.body))) for kernel in run.kernels)


def diamonds(step: Callable[[Any], Any], levels: int) -> Build:
    def build() -> Any:
        x = p(8, 8)
        for _ in range(levels):
            x = step(x)
        return x

    return build


DIAMONDS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: x * 0.5 + gx.sin(x),
    "twice": lambda x: (x + x) * 0.5,
    "transposed": lambda x: (x + x.T) * 0.5,
    "reversed": lambda x: (x + x[::-1]) * 0.5,
    "rows": lambda x: x - x.mean(axis=1, keepdims=True) * 0.5,
    "columns": lambda x: x - x.mean(axis=0, keepdims=True) * 0.5,
    "softmax": lambda x: gx.nn.softmax(x) + x * 0.5,
}


@pytest.mark.parametrize("name", DIAMONDS)
def test_nothing_is_computed_over_and_over(name: str) -> None:
    shallow = executable(diamonds(DIAMONDS[name], 8))
    deep = executable(diamonds(DIAMONDS[name], 64))
    assert statements(deep) <= 16 * statements(shallow)
    assert len(deep.compiled.plan.steps) <= 16 * len(shallow.compiled.plan.steps)
    given = np.random.default_rng(0).normal(size=(8, 8))
    expected = given.astype(np.float32)
    for _ in range(64):
        expected = {
            "pointwise": lambda x: x * np.float32(0.5) + np.sin(x),
            "twice": lambda x: (x + x) * np.float32(0.5),
            "transposed": lambda x: (x + x.T) * np.float32(0.5),
            "reversed": lambda x: (x + x[::-1]) * np.float32(0.5),
            "rows": lambda x: x - x.mean(1, keepdims=True) * np.float32(0.5),
            "columns": lambda x: x - x.mean(0, keepdims=True) * np.float32(0.5),
            "softmax": lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True) + x * np.float32(0.5),
        }[name](expected)
    np.testing.assert_allclose(deep(given), expected, rtol=1e-3, atol=1e-5)


def test_groups_have_a_largest_size() -> None:
    def build() -> Any:
        x, y = p(16), p(16)
        for _ in range(10 * FUSION.most_nodes):
            x = x * y + y
        return x

    compiled = executable(build).compiled
    groups = [node for node in compiled.graph.nodes if node.op.name == "fused"]
    assert len(groups) >= 20
    # constants are copied into groups and count for nothing
    for group in groups:
        work = [node for node in group.regions[0].nodes if node.op.name != "constant"]
        assert len(work) <= FUSION.most_nodes


# --- bits do not depend on what is fused ---------------------------------------------------------


def tangle() -> tuple[dict[Any, Any], list[Any]]:
    """A graph in which most values have several readers of different kinds."""
    rng = np.random.default_rng(3)
    x, w, row = p(33, 40), p(40, 40), p(40)
    a = gx.tanh(x + row)
    b = gx.nn.softmax(a)
    c = b @ w
    d = (c * a).sum(axis=1, keepdims=True)
    e = (c - d) / (1.0 + gx.exp(a.T.T))
    f = e.mean(axis=0)
    h = gx.nn.layer_norm(e + f)
    i = gx.concatenate([h[:, ::2], b[:, :3]], axis=1)
    j = gx.cumsum(i, axis=1).sum()
    grads = gx.gradients(j + (h * a).sum(), [x, w, row])
    feeds = {v: rng.normal(size=v.shape) for v in (x, w, row)}
    return feeds, [a, b, c, d, e, f, h, i, j, *grads]


def test_results_are_the_same_bits_whatever_else_is_fetched() -> None:
    with gx.Graph() as graph:
        feeds, values = tangle()
    session = gx.Session(graph)
    together = session.run(values, feeds)
    for position, (value, expected) in enumerate(zip(values, together, strict=True)):
        assert session.run(value, feeds).tobytes() == expected.tobytes(), position
    for start in range(0, len(values), 3):
        got = session.run(values[start : start + 5], feeds)
        for one, other in zip(got, together[start : start + 5], strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_broadcasts_across_axes_of_size_one(rows: int) -> None:
    # an axis of size 1 between an axis that is broadcast and one that is not
    with gx.Graph() as graph:
        x, y = p(1, "n"), p(rows, 1, "n")
        z = x - y
        pair = (y * 2.0, z + x)
    session = gx.Session(graph)
    for size in (1, 3, 40):
        one = np.arange(size, dtype=np.float32)[None]
        other = np.arange(rows * size, dtype=np.float32).reshape(rows, 1, size) ** 2
        got = session.run([z, *pair], {x: one, y: other})
        np.testing.assert_array_equal(got[0], one - other)
        np.testing.assert_array_equal(got[1], other * 2)
        np.testing.assert_array_equal(got[2], one - other + one)


def test_broadcasts_of_every_pattern() -> None:
    rng = np.random.default_rng(0)
    sizes = (2, 1, 3, 1, 4)
    for mask in range(32):
        small = tuple(1 if mask >> axis & 1 else size for axis, size in enumerate(sizes))
        with gx.Graph() as graph:
            x, y = p(*sizes), p(*small)
            z = x * y + y
        a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in (sizes, small))
        got = gx.Session(graph).run(z, {x: a, y: b})
        np.testing.assert_array_equal(got, a * b + b)


def test_padded_constants_beside_computed_ones() -> None:
    with gx.Graph() as graph:
        x = p(6)
        c = gx.full((4,), 2.0)
        y = x + gx.broadcast_to(c[:1], (6,)) + gx.pad(c, 1)
    got = gx.Session(graph).run(y, {x: np.zeros(6)})
    np.testing.assert_array_equal(got, [2, 4, 4, 4, 4, 2])


def test_dims_that_are_one_at_run_time_broadcast() -> None:
    with gx.Graph() as graph:
        x, y = p(None, None), p(None, None)
        z = gx.exp(x * 0.0) + y
        total = (x * y).sum(axis=1)
        grads = gx.gradients((x * y).sum(), [x, y])
    session = gx.Session(graph)
    rng = np.random.default_rng(0)
    for left, right in [((3, 4), (3, 4)), ((3, 1), (1, 4)), ((1, 4), (3, 1)), ((1, 1), (2, 3))]:
        a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in (left, right))
        got = session.run([z, total, *grads], {x: a, y: b})
        np.testing.assert_array_equal(got[0], 1 + 0 * a + b)
        np.testing.assert_array_equal(got[1], (a * b).sum(axis=1))
        full = np.broadcast_shapes(left, right)
        for gradient, one, other in ((got[2], a, b), (got[3], b, a)):
            axes = tuple(n for n in range(2) if one.shape[n] == 1 and full[n] != 1)
            expected = np.broadcast_to(other, full).sum(axis=axes, keepdims=True)
            np.testing.assert_array_equal(gradient, expected)
    assert session.compile_count == 1
    with pytest.raises(gx.ShapeError):
        session.run(z, {x: np.zeros((2, 3)), y: np.zeros((3, 3))})


def test_reductions_without_a_common_operand_stay_apart() -> None:
    """Merged they would keep all their operands alive at once."""
    size = 48
    with gx.Graph() as graph:
        x = gx.placeholder((size, size), name="x")
        total = gx.zeros((size,))
        for number in range(8):
            total = total + ((x @ (x + float(number))) @ x).sum(axis=1)
    # side by side the products may hold more, by a fixed amount that is large beside these
    options = gx.Options(off=("concurrent_steps",))
    executable = gx.Session(graph, options=options).compile(total, [x])
    matrix = size * size * 4
    assert executable.memory.peak_bytes < 8 * matrix


def test_an_index_is_checked_whatever_is_fetched() -> None:
    with gx.Graph() as graph:
        x, i = gx.placeholder((5, 2)), gx.placeholder((2,), "int64")
        first = gx.take(x, i, axis=0)[:1]
    with pytest.raises(gx.IndexRangeError):
        gx.Session(graph).run(first, {x: np.zeros((5, 2)), i: [0, 9]})


# --- siblings, switches and fuel -----------------------------------------------------------------


def test_groups_that_read_an_operand_together_are_one_kernel() -> None:
    def rows() -> Any:
        x = p(4, 80)
        return x.max(axis=1), gx.exp(x).sum(axis=1), x * 2.0

    assert launches(lambda: [f(x) for x in [p(4, 8)] for f in (gx.sin, gx.cos, gx.tanh)]) == 1
    assert launches(rows) == 1


def test_groups_merged_for_one_operand_are_met_as_one_for_the_next() -> None:
    with gx.Graph() as graph:
        x, y = p(4, 80), p(4, 80)
        fetches = [y * x, x.max(axis=1), y - x]  # y brings the outer ones together, x all
    run = gx.Session(graph, options=gx.Options(verify=True)).compile(fetches, [x, y])
    assert len(run.compiled.plan.steps) == 1
    a, b = np.random.default_rng(0).normal(size=(2, 4, 80)).astype(np.float32)
    for got, expected in zip(run(a, b), [b * a, a.max(axis=1), b - a], strict=True):
        np.testing.assert_array_equal(got, expected)


def test_short_rows_are_not_merged_with_whole_array_work() -> None:
    def build() -> Any:
        x = p(1000, 4)
        return x.sum(axis=1), x * 2.0

    assert launches(build) == 2


def test_what_is_computed_where_it_is_used_is_not_stored_for_a_common_operand() -> None:
    def build() -> Any:
        x, w = p(8, 8), p(8, 8)
        return gx.gradients((gx.sin(x @ w) @ w).sum(), [w])

    run = executable(build)
    forward = [k for k in run.kernels if "sin" in k.name or k.name.startswith("sin")]
    outputs = [sum(b.role == "out" for b in kernel.buffers) for kernel in forward]
    # the product and its sine; the cosine is computed from the product where it is used
    assert outputs == [2]


def test_decisions_can_be_switched_off() -> None:
    def build() -> tuple[dict[Any, Any], list[Any]]:
        return tangle()

    with gx.Graph() as graph:
        feeds, values = build()
    expected = gx.Session(graph).run(values, feeds)
    counts = []
    for off in [(), ("fuse-siblings",), ("fuse-merge", "fuse-siblings"), ("fuse",), ("inplace",)]:
        session = gx.Session(graph, options=gx.Options(off=off))
        run = session.compile(values)
        names = {decision.rule for record in run.passes for decision in record.decisions}
        assert not names & set(off)
        counts.append(len(run.compiled.plan.steps))
        for one, other in zip(session.run(values, feeds), expected, strict=True):
            assert one.tobytes() == other.tobytes()
    assert counts[0] <= counts[1] <= counts[2] < counts[3]
    with pytest.raises(gx.GraphcError, match="required"):
        gx.Session(graph, options=gx.Options(off=("fusion",))).compile(values)


def test_fuel_bounds_fusion_and_memory_reuse_too() -> None:
    with gx.Graph() as graph:
        feeds, values = tangle()
    session = gx.Session(graph, options=gx.Options(numerics="strict"))
    expected = session.run(values, feeds)
    records = session.compile(values).passes
    every = [d for record in records for d in record.decisions if d.number]
    assert [decision.number for decision in every] == list(range(1, len(every) + 1))
    assert {"fuse", "inplace"} <= {decision.rule for decision in every}
    assert all(decision.where is not None for decision in every)
    for fuel in (0, len(every) // 3, len(every) - 1):
        limited = gx.Session(graph, options=gx.Options(numerics="strict", fuel=fuel))
        for one, other in zip(limited.run(values, feeds), expected, strict=True):
            assert one.tobytes() == other.tobytes()
        made = [d for record in limited.compile(values).passes for d in record.decisions]
        assert sum(1 for decision in made if decision.number) == fuel


def test_nothing_is_read_of_arrays_without_elements() -> None:
    """All indices of an empty matrix are the same, and its sum is still a number."""
    with gx.Graph() as graph:
        x = p(0, 4)
        square = x @ x.T
        total = (square + square).sum()
    run = gx.Session(graph, options=gx.Options(verify=True)).compile(total)
    assert run(np.zeros((0, 4))) == 0


def test_what_nobody_reads_makes_no_kernel_even_without_dce() -> None:
    with gx.Graph() as graph:
        x = p()
        start = (gx.constant(0), x, x * 0.0)
        never = gx.while_loop(lambda n, v, w: n < 0, lambda n, v, w: (n + 1, v, w + 1.0), start)
    run = gx.Session(graph, options=gx.Options(verify=True, off=("dce",))).compile(never[1], [x])
    assert run(3.0) == 3.0
    assert not run.kernels


def test_layers_that_only_names_tell_apart_share_a_body() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((4, 8), "float32", name="x")
        h = x
        for layer in range(3):
            w = gx.variable(np.eye(8, dtype="f4"), name=f"w{layer}")
            b = gx.variable(np.ones(8, "f4"), name="bias")
            h = gx.tanh(h @ w + b)
    session = gx.Session(g)
    run = session.compile(h, [x])
    fused = [node for node in run.graph.nodes if node.op is fused_op]
    assert len(fused) == 3
    bodies = {id(node.regions[0]) for node in fused}
    # the first reads x itself, the others what a layer gives
    assert len(bodies) == 1
    (names,) = {tuple(v.name for v in node.regions[0].inputs) for node in fused}
    assert names == (None, None, "bias")
    assert [v.name for v in fused[0].inputs] == ["x", "w0", "bias"]
    expected = np.eye(4, 8, dtype="f4")
    given = expected
    for _ in range(3):
        expected = np.tanh(expected + 1)
    np.testing.assert_allclose(run(given), expected, rtol=1e-6)


def test_layers_of_several_lines_have_bodies_of_their_own() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((4, 8), "float32", name="x")
        w = gx.variable(np.eye(8, dtype="f4"), name="w")
        first = gx.tanh(x @ w)
        second = gx.tanh(first @ w)
    run = gx.Session(g).compile(second, [x])
    one, other = (node for node in run.graph.nodes if node.op is fused_op)
    assert one.regions[0] is not other.regions[0]
    assert one.regions[0].inputs[1].name == "w"


def test_kernels_that_differ_in_numbers_are_one() -> None:
    with gx.Graph() as graph:
        x = p(256, 64)
        loop = [gx.tanh(x * float(n + 2) + 1.0).sum() for n in range(4)]
        other = gx.tanh(x * 0.5 + 1.0).sum()
        halves = [gx.where(h > 1.0, -np.inf, h).max(axis=0) for h in (x, x * 1.0)]
    run = gx.Session(graph).compile([*loop, other, *halves], [x])
    numbers = []
    for node in run.graph.nodes:
        makers = [run.graph.producers[v] for v in node.inputs if v in run.graph.producers]
        values = [float(m.attrs["value"].array) for m in makers if m.op is constant_op]
        numbers += [tuple(values)] if values else []
    # what all have in common stands in the body
    assert numbers == [(2.0,), (3.0,), (4.0,), (5.0,), (0.5,)]
    assert len(run.compiled.plan.steps) >= len(run.kernels) + 4
    array = np.random.default_rng(0).standard_normal((256, 64)).astype("f4")
    together = run(array)
    for value, got in zip((*loop, other, *halves), together, strict=True):
        alone = gx.Session(graph).run(value, {x: array})
        assert np.asarray(alone).tobytes() == np.asarray(got).tobytes()


def test_numbers_stay_in_a_kernel_that_is_alone_and_where_they_are_divisors() -> None:
    with gx.Graph() as graph:
        n, f = p(64, dtype="int32"), p(64)
        parts = [(n // divisor).sum() for divisor in (3, 5)]
        parts.append((f * 3.0).sum())
    run = gx.Session(graph).compile(parts, [n, f])
    assert all(len(node.inputs) == 1 for node in run.graph.nodes if node.op is fused_op)
    ints, floats = np.arange(64, dtype="i4"), np.ones(64, "f4")
    expected = [int((ints // 3).sum()), int((ints // 5).sum()), 192]
    assert [int(v) for v in run(ints, floats)] == expected
