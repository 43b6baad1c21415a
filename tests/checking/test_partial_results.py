"""Sums and products whose partial results leave the range: no alarm, and wrong ones are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import planted
import pytest
from slow_parameters import slow_unless
from test_check_mode import CHECK, graph_of, run

import graphc as gx
import passes.stability.scaled_norms
from graphc.base.errors import GraphcError, VerifyError
from graphc.checking.compare import difference, tolerance_of
from graphc.checking.interpreter import evaluate_node
from graphc.checking.partial_results import SUBTRACTED, open_places
from graphc.checking.unexplained import unexplained
from graphc.compiling.extraction import extract
from graphc.debug.case import case_of, differs
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph
from graphc.kernel import interp
from graphc.lower.shifted_variance import SHARE

BIG = {"float32": 3e37, "float64": 1.5e307}
ROOT = {"float32": 1e19, "float64": 1e154}
WEIGHTS = np.random.default_rng(0).uniform(-1, 1, (40, 5))


def source(build: Callable[[Any], Any], *shape: int, dtype: str = "float32") -> Graph:
    """A program of one input as the user wrote it."""
    with gx.Graph() as g:
        y = build(gx.placeholder(shape, dtype))
    return extract(g, [y]).graph


def opened(build: Callable[[Any], Any], array: Any) -> Any:
    """Where the result of a program is open."""
    graph = source(build, *array.shape, dtype=array.dtype.name)
    (output,) = graph.outputs
    places = open_places(graph.nodes, {graph.inputs[0]: array}, {}, output)
    return np.broadcast_to(places, tuple(output.shape))


# --- the rule ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "is_open"),
    [
        ([1e30, 1e-30, 1e30, 1e-30], False),
        ([1e30, 1e30, 1e-30, 1e-30], True),
        ([1e-30, 1e-30, 1e30, 1e30], True),
        ([1e-30, 1e30, -1e-30, 1e30], False),
        ([1e30, 1e30, 1e30, 1.0], True),
        # nothing times a number of any size is nothing; beyond the range it is none
        ([0.0, 1e30, 1e30, 1e30], False),
        ([1e30, 1e30, 0.0, 1.0], True),
        # what is no number itself leaves no range
        ([np.inf, 1e30, 1e-30, 1.0], False),
        ([np.nan, 1e30, 1.0, 1.0], False),
        ([np.inf, 1e30, 1e30, 1.0], True),
    ],
)
def test_products_are_open_where_a_partial_product_leaves_the_range(
    terms: list[float], is_open: bool
) -> None:
    for columns in (1, 3):
        x = np.ones((4, columns), np.float32)
        x[:, -1] = terms
        for build, array in ((lambda v: gx.prod(v, axis=0), x), (lambda v: gx.prod(v, 1), x.T)):
            found = opened(build, np.ascontiguousarray(array))
            assert found[-1] == is_open and not found[:-1].any()


def test_partial_products_are_those_of_the_order() -> None:
    """Along the last axis terms that are 32 apart meet first, down a column neighbours do."""
    near, apart = np.ones((2, 64, 1), np.float32)
    near[:2, 0], near[32:34, 0] = 1e30, 1e-30
    apart[[0, 32], 0], apart[[1, 33], 0] = 1e30, 1e-30
    chain = [bool(opened(lambda v: gx.prod(v, axis=0), x)[0]) for x in (near, apart)]
    lanes = [bool(opened(lambda v: gx.prod(v, axis=1), x.T.copy())[0]) for x in (near, apart)]
    assert (chain, lanes) == ([True, False], [False, True])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_open_where_their_terms_add_up_beyond_the_range(dtype: str) -> None:
    top = float(np.finfo(dtype).max)
    rows = [[0.6, 0.6, -0.6], [0.5, -0.3, 0.1], [np.inf, 0.6, -0.3], [np.inf, -0.6, -0.6]]
    # the same infinity in every order, and not so
    rows += [[0.9, 0.9, -0.1], [0.9, 0.9, -0.999999], [-0.9, -0.9, 0.5], [0.6, 0.4, 0.0]]
    x = (np.array(rows) * top).astype(dtype)
    beyond = [True, False, False, True, False, True, False, True]
    assert opened(lambda v: gx.sum(v, axis=1), x).tolist() == beyond
    if dtype == "float32":
        # of the mean, which has a wider reference, the sum is a partial result
        assert opened(lambda v: gx.mean(v, axis=1), x).tolist() == [*beyond[:4], *[True] * 4]
    assert not opened(lambda v: gx.sum(v > 0, axis=1), x).any()
    one = np.ones((3, 2), dtype)
    assert opened(lambda v: v @ one, x).tolist() == [[b, b] for b in beyond]
    assert opened(lambda v: gx.einsum("ij,jk->i", v, one), x[:1]).all()
    assert not opened(lambda v: gx.einsum("ij,jk->i", v, one), x[1:2] / 4).any()


def test_deviations_are_open_where_their_squares_add_up_beyond_the_range() -> None:
    assert SUBTRACTED == SHARE
    rows = [[1e19, -1e19, 0], [1e18, -1e18, 0], [1e20, 0, 0], [2e38, -2e38, 0], [0, 0, 0]]
    x = np.array(rows, np.float32)
    assert opened(lambda v: gx.var(v, axis=1), x).tolist() == [True, False, False, True, False]
    assert opened(lambda v: gx.std(v, axis=1), x).tolist() == [True, False, False, True, False]


def test_whatever_depends_on_an_open_result_is_open() -> None:
    x = np.float32([[3e38, 3e38, -3e38], [1.0, 2.0, 3.0]])

    def looped(v: Any) -> Any:
        return gx.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, s + gx.sum(v)), (0, 0.0))[1]

    for build in (
        lambda v: gx.tanh(gx.sum(v, axis=1)),
        lambda v: gx.sum(v, axis=1) > 0,
        lambda v: gx.where(gx.sum(v, axis=1) > 0, 1, 2),
        lambda v: gx.maximum(gx.sum(v, axis=1), 0.0),
        lambda v: gx.isfinite(gx.mean(v, axis=1)),
    ):
        assert opened(build, x).tolist() == [True, False]
    assert opened(looped, x) and not opened(looped, x / 9)
    assert opened(lambda v: gx.argmax(gx.mean(v, axis=1)), x)
    assert opened(lambda v: gx.cond(gx.sum(v) > 0, lambda: 1.0, lambda: 2.0), x)
    assert not opened(lambda v: gx.sum(v, axis=1).shape[0] * gx.sum(v[1]), x)
    # an index that is open may lie beyond the array
    row = np.float32([3e38, -3e38, 3e38, -3e38])
    assert opened(lambda v: gx.take(v, gx.sum(v).astype("int64")), row)


# --- no alarms -----------------------------------------------------------------------------------


PROGRAMS: dict[str, Callable[[Any, float, float], Any]] = {
    "products": lambda x, big, root: [gx.prod(x, axis=n) for n in (0, 1, None)],
    "tails": lambda x, big, root: gx.tanh(gx.prod(x * 0.68, axis=(0, 1))) + gx.prod(x * 0.7),
    "sums": lambda x, big, root: [gx.sum(x * big, axis=n) / big for n in (0, 1, None)],
    "means": lambda x, big, root: [gx.mean(x * big, axis=n) for n in (0, 1, None)],
    "spreads": lambda x, big, root: [
        f(x * s, axis=n) for f in (gx.var, gx.std) for s in (root, big) for n in (0, 1, None)
    ],
    "norms": lambda x, big, root: [gx.nn.layer_norm(x * big), gx.nn.rms_norm(x * big)],
    "matrices": lambda x, big, root: [(x * big) @ WEIGHTS.astype(x.dtype.numpy), x * big @ x[0]],
    "einsums": lambda x, big, root: [
        gx.einsum("ij,jk->k", x * big, WEIGHTS.astype(x.dtype.numpy)),
        gx.einsum("ij,kj->", x * big, x),
    ],
    "choices": lambda x, big, root: [
        gx.where(gx.sum(x * big * 9, axis=1) > 0, 1.0, 2.0),
        gx.argmax(gx.sum(x * big * 9, axis=0)),
        gx.cond(gx.sum(x * big) > 0, lambda: x + 1.0, lambda: x - 1.0),
    ],
    "gradients": lambda x, big, root: [
        gx.gradients(gx.sum(gx.prod(x * 0.7, axis=0)), x),
        gx.gradients(gx.sum(gx.var(x * root, axis=1)), x),
        gx.gradients(gx.sum(gx.std(x * big, axis=0)), x),
    ],
}


@slow_unless(lambda dtype: dtype == "float32")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_beyond_the_range_pass(name: str, dtype: str) -> None:
    big, root = BIG[dtype], ROOT[dtype]
    array = np.random.default_rng(1).uniform(-4, 4, (40, 40)).astype(dtype)
    inputs: list[Callable[[], Any]] = [
        lambda: gx.placeholder((256, 40), dtype),
        lambda: gx.placeholder((None, 40), dtype),
        lambda: gx.constant(array),
    ]
    for level, made in ((0, inputs[0]), *((3, each) for each in inputs)):
        with gx.Graph() as g:
            fetches = PROGRAMS[name](made(), big, root)
        options = gx.Options(check=True, optimize=level)
        gx.Session(g, options=options).compile(fetches)


# --- faults are found ----------------------------------------------------------------------------


def factors(dtype: str) -> Any:
    """Rows whose products are ordinary; the partial products of some leave the range."""
    random = np.random.default_rng(5)
    reach = np.linspace(4, 37, 200)[:, None] * (1 if dtype == "float32" else 8)
    exponents = random.uniform(-1, 1, (200, 70)) * reach
    exponents[:, 35:] = -random.permuted(exponents[:, :35], axis=1)
    return (10**exponents * random.choice([-1, 1], exponents.shape)).astype(dtype)


def terms(dtype: str) -> Any:
    """Rows whose sums are numbers; the partial sums of some leave the range."""
    top = float(np.finfo(dtype).max)
    reach = top * 2.0 ** np.linspace(-12, -1, 200)[:, None]
    return (np.random.default_rng(6).uniform(-1, 1, (200, 70)) * reach).astype(dtype)


@slow_unless(lambda dtype: dtype == "float32")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("combine", "rows"), [(gx.prod, factors), (gx.sum, terms)])
def test_what_is_not_open_is_judged(combine: Any, rows: Any, axis: int, dtype: str) -> None:
    array = rows(dtype) if axis else rows(dtype).T.copy()
    graph = source(lambda v: combine(v, axis=axis), *array.shape, dtype=dtype)
    (node,), (output,), given = graph.nodes, graph.outputs, {graph.inputs[0]: array}
    with np.errstate(all="ignore"):
        (expected,) = evaluate_node(node, [array], {})
    with gx.Graph() as g:
        x = gx.placeholder(array.shape, dtype)
        native = gx.Session(g).run(combine(x, axis=axis), {x: array})
    places = open_places([node], given, {}, output)
    regular = np.isfinite(expected) & ~places
    assert np.count_nonzero(places) > 20 and np.count_nonzero(regular) > 20
    assert np.isfinite(native[regular]).all()
    assert difference(expected, native, tolerance_of(expected.dtype)) is not None
    assert unexplained([node], given, {}, output, expected, native, finite=True) is None
    for index in np.flatnonzero(regular):
        others = [np.inf, np.nan]
        # what is small beside the largest may be lost in that
        size = np.max(np.abs(expected[regular]))
        if combine is gx.sum:
            others += [native[index] + size / 50]
        elif abs(expected[index]) > size / 50:
            others += [native[index] * 0.5, -native[index]]
        for other in others:
            wrong = native.copy()
            wrong[index] = other
            found = unexplained([node], given, {}, output, expected, wrong, finite=True)
            assert found is not None and found.index == (index,) and found.count == 1


def product(x: Any) -> Any:
    return gx.prod(x * 0.68, axis=1) + 1.0


def test_a_wrong_kernel_of_a_product_is_found(kernel_watch: Any) -> None:
    with gx.Graph() as g:
        y = product(gx.placeholder((60, 60), name="x"))
    gx.Session(g, options=CHECK).compile(y)
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        planted.wrong_lowering(patch)
        with pytest.raises(VerifyError, match="reduce_prod by itself"):
            gx.Session(g, options=CHECK).compile(y)


@pytest.mark.parametrize("factor", [1.5, -1.0, 0.0, np.inf, np.nan])
def test_a_wrong_kernel_value_of_a_product_is_found(factor: float, kernel_watch: Any) -> None:
    right = interp.combine_terms

    def wrong(combine: Any, terms: Any, *rest: Any) -> Any:
        made = right(combine, terms, *rest)
        with np.errstate(all="ignore"):
            return made * made.dtype.type(factor) if combine == "multiply" else made

    with gx.Graph() as g:
        y = product(gx.placeholder((60, 60), name="x"))
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(interp, "combine_terms", wrong)
        with pytest.raises(VerifyError, match="reduce_prod by itself"):
            gx.Session(g, options=CHECK).compile(y)


@pytest.mark.parametrize("factor", [1.01, -1.0, 0.0])
@pytest.mark.parametrize("combine", [gx.prod, gx.mean])
def test_a_wrong_decision_about_a_product_or_sum_is_found(combine: Any, factor: float) -> None:
    def scales(graph: Graph, context: Any) -> Graph:
        editor = GraphEditor(graph, "scales")
        for node in editor.nodes():
            if node.op.name in ("prod", "mean") and context.decide("scale", node):
                with editor.rewriting(node, "scale"):
                    new = combine(node.inputs[0] * 1.0, axis=1) * factor
                editor.substitute(node.output, new)
        return editor.finish()

    scale = 0.68 if combine is gx.prod else 3e36
    graph = graph_of(lambda x: combine(x * scale, axis=1), (60, 60))
    with pytest.raises(VerifyError, match="'scale' in scales#1"):
        run(graph, scales)


def test_class_t_gives_numbers_where_sums_leave_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    right = passes.stability.scaled_norms.root_of_squares
    with gx.Graph() as g:
        x = gx.placeholder((3, 4), name="x")
        length = gx.sqrt(gx.sum(x * x, axis=1))
    gx.Session(g, options=CHECK).compile(length)

    def wrong(*args: Any, **named: Any) -> Any:
        return gx.minimum(right(*args, **named), 1e25)

    monkeypatch.setattr(passes.stability.scaled_norms, "root_of_squares", wrong)
    with pytest.raises(VerifyError, match="changes the value of type"):
        gx.Session(g, options=CHECK).compile(length)


# --- other comparisons ---------------------------------------------------------------------------


def test_bisecting_compares_what_is_not_open() -> None:
    with gx.Graph():
        x = gx.placeholder((200, 70), name="x")
        y = gx.prod(x, axis=1)
    case = case_of(y, {x: factors("float32")})
    expected, (native, _) = case.interpreted(), case.native()
    assert not isinstance(native, Exception) and not np.isfinite(native[0]).all()
    assert differs(case, expected, native) is None
    native[0][0] *= 1.5
    assert "result 0: element [0]" in str(differs(case, expected, native))


def test_the_first_number_that_is_not_finite_comes_from_partial_results() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((4,), name="x")
        results = [gx.mean(x) * 0.5, gx.tanh(x) + gx.prod(x)]
    session = gx.Session(g, options=gx.Options(check_numerics=True))
    for result, op, array in (
        (results[0], "reduce_sum", [3e38, 3e38, -3e38, 1]),
        (results[1], "reduce_prod", [1e30, 1e30, 1e-30, 1e-30]),
    ):
        with pytest.raises(GraphcError, match=f"partial results of {op} leave the range of f"):
            session.run(result, {x: array})
