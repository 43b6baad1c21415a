"""Reverse and forward mode: worked examples, every op's derivative, ties, sums, broadcasting.

Graphs are evaluated by the reference interpreter, so what is tested here is differentiation alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradient_harness import arrays, close, run, scalars

import graphc as gx
from graphc.ir.builder import apply_node
from graphc.ir.dtypes import float64
from graphc.ir.graph import Graph
from graphc.ir.op import Flat, NotDifferentiable, OpDef, Partials, all_ops

pytestmark = pytest.mark.check_mode


@pytest.fixture(autouse=True)
def graph() -> Any:
    with gx.Graph() as current:
        yield current


# --- worked examples -----------------------------------------------------------------------------


def test_sum_times_weight() -> None:
    x, y, w = scalars("xyw")
    z = (x + y) * w
    assert run([z, *gx.gradients(z, [x, y, w])], {x: 2, y: 3, w: 4}) == [20, 4, 4, 5]


POINTS = [(2.0, 3.0), (-1.5, 0.25), (0.0, -2.0)]


@pytest.mark.parametrize(("a", "b"), POINTS)
def test_value_used_twice(a: float, b: float) -> None:
    x, y = scalars("xy")
    loss = (x + y) * y
    assert run(gx.gradients(loss, [x, y]), {x: a, y: b}) == [b, a + 2 * b]


@pytest.mark.parametrize(("a", "b"), POINTS)
def test_shared_intermediate(a: float, b: float) -> None:
    x, y = scalars("xy")
    u = x + y
    loss = u * y + u**2
    total = a + b
    expected = [b + 2 * total, b + 3 * total, b + 2 * total]
    assert run(gx.gradients(loss, [x, y, u]), {x: a, y: b}) == expected


@pytest.mark.parametrize(("a", "b"), POINTS)
def test_square_of_a_sum_of_products(a: float, b: float) -> None:
    x, y = scalars("xy")
    loss = (x * y + y) ** 2
    expected = [2 * b**2 * (a + 1), 2 * b * (a + 1) ** 2]
    assert run(gx.gradients(loss, [x, y]), {x: a, y: b}) == expected


@pytest.mark.parametrize("a", [2.0, -0.5, 0.0])
def test_two_branches_that_meet(a: float) -> None:
    (u,) = scalars("u")
    v, w = u**2, 3 * u
    assert run(gx.gradients(v * w, u), {u: a}) == 9 * a**2


def test_half_squared_residual() -> None:
    weight, x, b, t = arrays((3, 4), (4,), (3,), (3,))
    fed = {gx.placeholder(a.shape, "float64"): a for a in (weight, x, b, t)}
    w_, x_, b_, t_ = fed
    loss = 0.5 * gx.sum((w_ @ x_ + b_ - t_) ** 2)
    e = weight @ x + b - t
    close(run(gx.gradients(loss, [w_, b_, x_]), fed), [np.outer(e, x), e, weight.T @ e])


def test_relu_layer() -> None:
    weight, x, b = arrays((5, 4), (4,), (5,))
    fed = {gx.placeholder(a.shape, "float64"): a for a in (weight, x, b)}
    w_, x_, b_ = fed
    loss = gx.sum(gx.nn.relu(w_ @ x_ + b_))
    mask = (weight @ x + b > 0) * 1.0
    assert 0 < mask.sum() < 5
    np.testing.assert_array_equal(run(gx.gradients(loss, w_), fed), np.outer(mask, x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_likelihood_of_the_least_likely_class(dtype: str) -> None:
    logits = np.array([1e4, 0.0, -1e4, 9e3])
    s = gx.placeholder((4,), dtype)
    spelled = [
        -gx.nn.log_softmax(s)[2],
        gx.nn.softmax_cross_entropy(gx.reshape(s, (1, 4)), gx.constant([2]))[0],
        gx.logsumexp(s) - s[2],
    ]
    for loss in spelled:
        value, gradient = run([loss, gx.gradients(loss, s)], {s: logits})
        assert value == 2e4
        np.testing.assert_array_equal(gradient, [1, 0, -1, 0])


def test_squared_error_of_a_line() -> None:
    x, w, b, y = scalars("xwby")
    loss = (x * w + b - y) ** 2
    e = 2.0 * 0.75 + 0.5 - 3
    expected = [2 * e * 2.0, 2 * e, 2 * e * 0.75, -2 * e]
    assert run(gx.gradients(loss, [w, b, x, y]), {x: 2, w: 0.75, b: 0.5, y: 3}) == expected


# --- every op's derivative -----------------------------------------------------------------------

DIFFERENTIABLE = [
    op
    for op in all_ops()
    if not isinstance(op.derivative, Flat | NotDifferentiable)
    and op.effect == "pure"
    and float64 in op.domain.dtypes
]
EACH_OP = pytest.mark.parametrize("op", DIFFERENTIABLE, ids=[op.name for op in DIFFERENTIABLE])


def sample(op: OpDef, seed: int) -> tuple[list[Any], dict[str, Any]]:
    """Operands of the op where it can be differentiated."""
    rng = np.random.default_rng(seed)
    assert op.domain.example is not None
    operands, attrs = op.domain.example(rng, float64)
    operands = [np.asarray(operand) for operand in operands]
    if op.domain.differentiable is not None:
        low, high = op.domain.differentiable
        operands = [
            rng.uniform(low, high, operand.shape) if operand.dtype.kind == "f" else operand
            for operand in operands
        ]
    return operands, dict(attrs)


WITH_TABLES = {"fft", "rfft", "irfft"}
"""What takes a table, and gives NaN for any other."""

UP_TO_A_PHASE = {"complex_eigh", "complex_svd"}
"""What gives vectors whose phase is LAPACK's choice: differences tell nothing of these, and their
projections are looked at in the tests of linear algebra. The first result is determined."""


@EACH_OP
@pytest.mark.parametrize("seed", range(2))
def test_both_modes_agree_with_finite_differences(op: OpDef, seed: int) -> None:
    operands, attrs = sample(op, seed)
    inputs = [gx.placeholder(array.shape, array.dtype.name) for array in operands]
    outputs = [value for value in apply_node(op, inputs, attrs).outputs if value.dtype.is_float]
    fixed = getattr(op.derivative, "fixed", ())
    floats = [
        place for place, value in enumerate(inputs)
        if value.dtype.is_float and (place not in fixed or op.name not in WITH_TABLES)
    ]
    xs = [inputs[place] for place in floats]
    if not outputs or attrs.get("dtype", float64) is not float64:
        pytest.skip("the example is of a discrete conversion, or a narrow one")
    rng = np.random.default_rng(seed + 100)
    if op.name in UP_TO_A_PHASE:
        outputs = outputs[:1]
    weights = [rng.standard_normal(value.shape) for value in outputs]
    directions = [rng.standard_normal(operands[place].shape) for place in floats]
    by_x = gx.gradients(outputs, xs, weights, unconnected="zeros")
    along = gx.jvp(outputs, xs, directions)
    feeds = dict(zip(inputs, operands, strict=True))
    gradients, tangents = run([by_x, along], feeds)
    for x, gradient in zip(xs, gradients, strict=True):
        assert gradient.shape == x.shape and gradient.dtype == np.float64
    pulled = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
    pushed = sum(np.sum(w * t) for w, t in zip(weights, tangents, strict=True))
    np.testing.assert_allclose(pushed, pulled, rtol=1e-11, atol=1e-12)

    def shifted(step: float) -> float:
        moved = dict(feeds)
        for x, direction in zip(xs, directions, strict=True):
            moved[x] = feeds[x] + step * direction
        results = run(outputs, moved)
        return sum(float(np.sum(w * y)) for w, y in zip(weights, results, strict=True))

    step = 1e-6
    measured = (shifted(step) - shifted(-step)) / (2 * step)
    np.testing.assert_allclose(pulled, measured, rtol=2e-6, atol=2e-7)


ONCE = {"zeta", "gammainc", "gammaincc", "betainc", "betaincc"}
"""What has a first derivative by a parameter, and a refusal of a second one."""

SMOOTH = [
    op
    for op in DIFFERENTIABLE
    if isinstance(op.derivative, Partials) and op.name not in ONCE
]


@pytest.mark.parametrize("op", SMOOTH, ids=[op.name for op in SMOOTH])
def test_second_derivatives_of_pointwise_ops(op: OpDef) -> None:
    operands, attrs = sample(op, 3)
    inputs = [gx.placeholder(array.shape, "float64") for array in operands]
    output = apply_node(op, inputs, attrs).output
    rng = np.random.default_rng(5)
    first = gx.gradients(output, inputs, rng.standard_normal(output.shape), "zeros")
    directions = [rng.standard_normal(array.shape) for array in operands]
    weighted = [gx.sum(g * d) for g, d in zip(first, directions, strict=True)]
    second = gx.gradients(weighted, inputs, unconnected="zeros")
    feeds = dict(zip(inputs, operands, strict=True))
    step = 1e-6
    ends = [
        run(first, {x: feeds[x] + sign * step * d for x, d in zip(inputs, directions, strict=True)})
        for sign in (1, -1)
    ]
    measured = [(up - down) / (2 * step) for up, down in zip(*ends, strict=True)]
    for got, expected in zip(run(second, feeds), measured, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


# --- higher order, ties, masks -------------------------------------------------------------------


def test_second_order() -> None:
    x, v = gx.placeholder((3,), "float64"), gx.placeholder((3,), "float64")
    a, b = np.array([0.5, 1.0, 2.0]), np.array([1.0, -1.0, 2.0])

    def diagonal(y: Any) -> Any:
        return gx.gradients(gx.gradients(gx.sum(y), x), x)

    def times_v(loss: Any) -> Any:
        return gx.gradients(gx.sum(gx.gradients(loss, x) * v), x)

    t, s = np.tanh(a), np.exp(a) / np.exp(a).sum()
    got = run(
        [
            diagonal(x**3),
            diagonal(gx.exp(-x * x)),
            diagonal(gx.tanh(x)),
            diagonal(x * gx.log(x)),
            times_v(gx.logsumexp(x)),
            times_v(gx.sum(x**4) / 12),
            gx.jvp(gx.gradients(gx.logsumexp(x), x), x, v),
        ],
        {x: a, v: b},
    )
    curved = s * b - s * (s @ b)
    bell = (4 * a * a - 2) * np.exp(-a * a)
    close(got, [6 * a, bell, -2 * t * (1 - t * t), 1 / a, curved, a * a * b, curved])


def test_third_order_of_a_power() -> None:
    (x,) = scalars("x")
    y = x**4
    for _ in range(3):
        y = gx.gradients(y, x)
    assert run(y, {x: 2.5}) == 24 * 2.5


def test_branch_not_taken_does_not_leak() -> None:
    x = gx.placeholder((3,), "float64")
    losses = [
        gx.where(x > 0, gx.sqrt(x), 0.0),
        gx.where(x > 0, gx.log(x), x),
        gx.where(x != 0, gx.sin(x) / x, 1.0),
    ]
    a = np.array([-1.0, 0.0, 4.0])
    slope = (np.cos(a) * a - np.sin(a)) / np.where(a == 0, 1, a) ** 2
    expected = [np.array([0, 0, 0.25]), np.array([1, 1, 0.25]), slope]
    close(run([gx.gradients(gx.sum(loss), x) for loss in losses], {x: a}), expected)


def test_ties_share_evenly() -> None:
    x, a, b = (gx.placeholder((n,), "float64") for n in (4, 2, 2))
    fetches = [
        gx.gradients(gx.max(x), x),
        *gx.gradients(gx.sum(gx.maximum(a, b)), [a, b]),
        gx.gradients(gx.sum(gx.minimum(a, a)), a),
    ]
    got = run(fetches, {x: [5, 1, 5, 5], a: [1, 3], b: [1, 2]})
    close(got, [np.array([1, 0, 1, 1]) / 3, np.array([0.5, 1]), np.array([0.5, 0]), np.ones(2)])


def test_kinks() -> None:
    x = gx.placeholder((3,), "float64")
    losses = [gx.nn.relu(x), gx.abs(x), gx.floor(x), gx.sign(x), gx.clip(x, 3, 4), gx.round(x)]
    got = run([gx.gradients(gx.sum(loss), x) for loss in losses], {x: [-1, 0, 2]})
    zeros = np.zeros(3)
    close(got, [np.array([0.0, 0, 1]), np.array([-1.0, 0, 1]), zeros, zeros, zeros, zeros])


# --- accumulation and size -----------------------------------------------------------------------


def depth_of(value: Any) -> int:
    """The longest chain of additions that ends in the value."""
    recorder, depth = value.graph, {}
    for node in recorder.nodes:
        below = max((depth.get(operand, 0) for operand in node.inputs), default=0)
        depth[node.outputs[0]] = below + (node.op.name == "add")
    return depth[value]


def test_a_thousand_uses(graph: Any) -> None:
    x = gx.placeholder((2,), "float64")
    terms = [x * k for k in range(1000)]
    before = len(graph.nodes)
    by_x = gx.gradients(terms, x)
    assert len(graph.nodes) - before < 5000
    assert depth_of(by_x) == 10
    np.testing.assert_array_equal(run(by_x, {x: [1, 2]}), np.full(2, 499500.0))
    cube = gx.gradients(gx.sum(x * x * x), x)
    np.testing.assert_array_equal(run(cube, {x: [1, 2]}), [3, 12])


def test_twenty_thousand_chained_adds(graph: Any) -> None:
    x = gx.placeholder((2,), "float64")
    total = x
    for _ in range(20_000):
        total = total + x
    by_x, along = gx.gradients(total, x), gx.jvp(total, x, 1.0)
    np.testing.assert_array_equal(run([by_x, along], {x: [1, 2]}), np.full((2, 2), 20_001.0))
    assert len(graph.nodes) < 90_000


def test_deep_chain_of_products() -> None:
    (x,) = scalars("x")
    y = x
    for _ in range(5_000):
        y = y * 1.0
    assert run([gx.gradients(y, x), gx.jvp(y, x, 2.0)], {x: 3}) == [1, 2]


def test_order_of_accumulation_does_not_depend_on_the_process() -> None:
    texts = set()
    for _ in range(3):
        with gx.Graph() as g:
            x = gx.placeholder((2,), "float64", name="x")
            y = gx.sum(gx.exp(x) * gx.sin(x) + x / (x + 2) - x**3)
            by_x = gx.gradients(y, x)
        texts.add(str(Graph("g", (), g.nodes, [by_x])))
    assert len(texts) == 1


def test_only_what_is_needed_is_built(graph: Any) -> None:
    x, w = scalars("xw")
    y = x**2.0 * gx.exp(w)
    before = len(graph.nodes)
    gx.gradients(y, x)
    made = [node.op.name for node in graph.nodes[before:]]
    assert "log" not in made and "exp" not in made


# --- broadcasting --------------------------------------------------------------------------------


def test_broadcast_operands_are_summed_back() -> None:
    x, b, row, s = (gx.placeholder(shape, "float64") for shape in ((4, 3), (3,), (1, 3), ()))
    column = gx.placeholder((4, 1), "float64")
    got = gx.gradients(gx.sum((x + b) * s + row * column), [x, b, s, row, column])
    xv, bv, rv, cv = arrays((4, 3), (3,), (1, 3), (4, 1))
    expected = [
        np.full((4, 3), 2.0), np.full(3, 8.0), (xv + bv).sum(),
        np.full((1, 3), cv.sum()), np.full((4, 1), rv.sum()),
    ]  # fmt: skip
    close(run(got, {x: xv, b: bv, s: 2.0, row: rv, column: cv}), expected)


@pytest.mark.parametrize("size", [0, 1, 4])
def test_sizes_known_only_when_run(size: int) -> None:
    x, wide = (gx.placeholder((None, 3), "float64") for _ in range(2))
    b = gx.placeholder((3,), "float64")
    by_wide, by_b = gx.gradients(gx.sum((x + wide) * 2.0 + b), [wide, b])
    xv, bv = np.ones((size, 3)), np.ones(3)
    for rows in {1, size}:
        fed = {x: xv, wide: np.ones((rows, 3)), b: bv}
        expected = [np.full((rows, 3), 2.0 * size / max(rows, 1)), np.full(3, float(size))]
        close(run([by_wide, by_b], fed), expected)


def test_tangents_are_broadcast() -> None:
    x, b = gx.placeholder((2, 3), "float64"), gx.placeholder((3,), "float64")
    y = gx.mod(b, gx.constant(5.0, "float64")) + x * 0.0
    (along,) = gx.jvp([y], [b], [1.0])
    np.testing.assert_array_equal(run(along, {x: np.ones((2, 3)), b: [1, 2, 3]}), np.ones((2, 3)))
