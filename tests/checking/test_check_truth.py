"""Check mode where bits may change and where sizes must fit: right programs pass, faults are found.

Faults 30 and 23: rewritings of class T are judged by true values, sizes are such as guards allow,
and who is blamed is who did it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_programs import Recipe, recipes
from random_programs import build as build_of
from random_spellings import JOINING, MORE, source
from random_states import STATEFUL
from slow_parameters import slow_unless
from test_check_mode import CHECK, applying, graph_of, run

import graphc as gx
import passes.stability.log_parts
import passes.stability.scaled_norms
from graphc.base.errors import VerifyError
from graphc.base.target import host
from graphc.checking.interpreter import Budget, evaluate_node
from graphc.checking.levels.blame import memory_fault
from graphc.checking.levels.comparison import _check_lowering, check_levels
from graphc.checking.sizes import STEPS as SEARCHED
from graphc.checking.sizes import fitting_sizes
from graphc.checking.true_values import true_values
from graphc.compiling.compiler import compile_graph
from graphc.compiling.extraction import extract
from graphc.ir.dims.expressions import dim_max, dim_min, symbol
from graphc.ir.dtypes import COMPUTED_FLOATS, int64
from graphc.kernel.builder import KernelBuilder
from graphc.ops.reduce.axes import min_op
from graphc.ops.reduce.core import reduce_min_op
from graphc.plan.ir import Branch, Guard, Jump
from passes.infra.base import PassContext
from passes.rewriting.pattern import rule

# --- class T -------------------------------------------------------------------------------------


SPELLINGS = [
    lambda x: gx.sqrt(x * x + 1), lambda x: gx.sqrt(x * x), lambda x: gx.exp(x) - 1,
    lambda x: gx.rsqrt(gx.mean(x * x) + 1e-6) * x, lambda x: gx.exp(x) / (1 + gx.exp(x)),
    lambda x: 1 / (1 + gx.exp(-x)), lambda x: gx.log(1 + gx.exp(x)), lambda x: 1 - gx.exp(x),
    lambda x: gx.log(gx.mean(gx.exp(x))), lambda x: gx.log(1 + x), lambda x: 1 - gx.erf(x),
    lambda x: (gx.exp(x) - gx.exp(-x)) / (gx.exp(x) + gx.exp(-x)), lambda x: gx.log(gx.sigmoid(x)),
    lambda x: gx.exp(x) / (gx.exp(x) + gx.exp(x * 0.5)), lambda x: gx.log(1 - gx.sigmoid(x)),
    lambda x: gx.log(gx.exp(x) + gx.exp(x * 0.5)), lambda x: gx.sqrt(x * x + gx.cos(x) ** 2),
]  # fmt: skip
OF_ROWS = [
    lambda x: gx.sqrt(gx.sum(x * x * 0.5, axis=-1)), lambda x: gx.log(gx.sum(gx.exp(x), axis=-1)),
    lambda x: gx.exp(x) / gx.sum(gx.exp(x), axis=-1, keepdims=True),
    lambda x: gx.log(gx.exp(x) / gx.sum(gx.exp(x), axis=-1, keepdims=True)),
]  # fmt: skip


def checked(build: Any, feeds: Any = ()) -> list[Any]:
    """Compiles under check mode; the reasons of what was not checked."""
    with gx.Graph() as g:
        y = build()
    executable = gx.Session(g, options=CHECK).compile(y)
    return [d.reason for r in executable.passes for d in r.decisions if d.rule == "check"]


@slow_unless(lambda dtype, shape: dtype == "float32" or shape == (3, None))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(64,), (3, None), ()])
def test_documented_rewritings_pass(shape: Any, dtype: str) -> None:
    """Fault 30: sqrt(x * x + 1) was refused, since it is right where the squares overflow."""

    def build(spelling: Any) -> Any:
        x = gx.placeholder(shape, dtype)
        y = spelling(x)
        return [y, gx.gradients(gx.sum(y), x)]

    for spelling in [*SPELLINGS, *(OF_ROWS if shape else ())]:
        assert checked(lambda spelled=spelling: build(spelled)) == []


@pytest.mark.parametrize("array", [[1000.0, 1.0], [-1e30, 88.0, 0.0], [0.0] * 64, [3e38, -1e-30]])
def test_documented_rewritings_of_constants_pass(array: Any) -> None:
    """Fault 30: exp(c) / (1 + exp(c)) of a constant [1000, 1] was refused."""
    for spelling in [*SPELLINGS, *OF_ROWS]:
        checked(lambda spelled=spelling: spelled(gx.constant(np.array(array, "float32"))))


def test_rewritings_inside_of_regions_pass() -> None:
    def build() -> Any:
        x = gx.placeholder((None,), name="x")

        def body(i: Any, v: Any) -> Any:
            length = gx.sqrt(v * v + 1)
            e = gx.exp(length)
            return i + 1, gx.cond(gx.sum(v) > 0, lambda: e / (1 + e), lambda: gx.log(1 + e) * 0.5)

        return gx.while_loop(lambda i, v: i < 4, body, (0, x * 1.5))[1]

    assert checked(build) == []


T = {"numerics": "T", "dtypes": COMPUTED_FLOATS}


@pytest.mark.parametrize(
    ("identity", "build"),
    [
        # wrong only where the square overflows
        (lambda x: (gx.sqrt(x * x), gx.minimum(gx.abs(x), 3e20)), lambda x: gx.sqrt(x * x)),
        # no longer finite
        (lambda x: (gx.exp(-x), 1 / gx.exp(x * 30.0)), lambda x: gx.exp(-x)),
        # wrong for ordinary numbers
        (lambda x: (gx.exp(x) - 1, gx.expm1(x) + 1e-3), lambda x: gx.exp(x) - 1),
        (lambda x: (gx.sqrt(x * x), x), lambda x: gx.sqrt(x * x)),
        # a number where there was none, and is none
        (lambda x: (gx.log(1 + gx.exp(x)), x), lambda x: gx.log(1 + gx.exp(x))),
    ],
)
def test_wrong_rules_of_class_t_are_found(identity: Any, build: Any) -> None:
    with pytest.raises(VerifyError, match="rule 'planted'"):
        run(graph_of(lambda x: build(x + 0.5)), applying(rule("planted", identity, **T)))


def test_accurate_rules_of_class_t_pass_where_the_spelling_is_lost() -> None:
    rules = [
        rule("abs", lambda x: (gx.sqrt(x * x), gx.abs(x)), **T),
        rule("small", lambda x: (gx.log(1 + x), gx.log1p(x)), **T),
        rule("shifted", lambda x: (gx.log(gx.exp(x)), x), **T),
    ]
    for build in (lambda x: gx.sqrt(x * x), lambda x: gx.log(1 + x), lambda x: gx.log(gx.exp(x))):
        decisions = run(graph_of(lambda x, b=build: b(x * 0.5)), applying(*rules))
        assert len(decisions) == 1 and decisions[0].number


@pytest.mark.parametrize(("root", "wrong"), [(1e15, 4), (1e-20, 0.25)])
def test_deviations_whose_squares_leave_the_range_have_true_values(
    root: float, wrong: float
) -> None:
    """Inside of a loop all is computed anew, and there std takes scaled deviations."""

    def build(length: Any) -> Any:
        def looped(x: gx.Value) -> gx.Value:
            def body(i: gx.Value, v: gx.Value) -> tuple[gx.Value, gx.Value]:
                deviation = gx.std(v * root * root, axis=-1, keepdims=True)
                return i + 1, v + length(deviation) * (0.1 / root) / root

            return gx.while_loop(lambda i, v: i < 2, body, (0, x * 1.0))[1]

        return looped

    right = rule("planted", lambda x: (gx.sqrt(x * x), gx.abs(x)), **T)
    (decision,) = run(graph_of(build(lambda d: gx.sqrt(d * d))), applying(right))
    assert decision.number

    def identity(x: gx.Value) -> tuple[gx.Value, gx.Value]:
        length = gx.maximum(x, -x)
        ordinary = gx.logical_and(length > 1e-35, length < 1e25)
        return gx.abs(x), gx.where(ordinary, length, length * wrong)

    with pytest.raises(VerifyError, match="'planted'"):
        run(graph_of(build(gx.abs)), applying(rule("planted", identity, **T)))

    given = (np.random.default_rng(0).standard_normal((3, 64)) * root**2).astype(np.float32)
    with gx.Graph() as g:
        graph = extract(g, [gx.std(gx.placeholder(given.shape), axis=-1)]).graph
    found = true_values(graph.nodes, {graph.inputs[0]: given}, {}, {}, Budget(10**6))
    exact = np.std(given.astype(np.longdouble), axis=-1)
    np.testing.assert_allclose(found[graph.outputs[0]], exact, rtol=1e-15)


def test_wrong_decisions_of_class_t_that_are_no_rules_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = passes.stability.scaled_norms.root_of_squares
    with gx.Graph() as g:
        x = gx.placeholder((3, 4), name="x")
        length = gx.sqrt(x * x + gx.tanh(x) * gx.tanh(x))
    gx.Session(g, options=CHECK).compile(length)
    for wrong in (
        lambda *args, **named: gx.minimum(right(*args, **named), 1e25),
        lambda *args, **named: right(*args, **named) * 1.001,
    ):
        monkeypatch.setattr(passes.stability.scaled_norms, "root_of_squares", wrong)
        with pytest.raises(VerifyError, match="changes the value of type"):
            gx.Session(g, options=CHECK).compile(length)


def log_of_sum(x: Any) -> Any:
    value = gx.log(1 + gx.exp(x[:, None]).sum(1))
    return [value, gx.gradients(value, x)]


def quotient_of_sum(x: Any) -> Any:
    powers = gx.exp(x.reshape((-1, 2)))
    value = powers / powers.sum(1, keepdims=True)
    return [value, gx.gradients(value, x)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_by_what_is_beyond_the_range_are_no_masks(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slope of a softplus spelled with a sum is 0 at 3e38, for 1 / sum is; in truth it is 1."""
    for build in (log_of_sum, quotient_of_sum):
        assert checked(lambda b=build: b(gx.placeholder((None,), dtype))) == []
    right = passes.stability.log_parts.sigmoid
    for wrong in (
        lambda gap: right(gap) * 1.01,
        lambda gap: gx.where(gap > 1e30, gx.log(-gx.abs(gap)), right(gap)),
    ):
        monkeypatch.setattr(passes.stability.log_parts, "sigmoid", wrong)
        with pytest.raises(VerifyError, match="'sigmoid' in stabilize"):
            checked(lambda: log_of_sum(gx.placeholder((None,), dtype)))


# --- sizes ---------------------------------------------------------------------------------------


def test_sizes_that_guards_ask_for_are_found() -> None:
    a, b, c, d = (symbol(name) for name in "abcd")
    wide = symbol("wide", 20, 30)
    cases = [
        ([a], [Guard(a, 784, "")]), ([a, b], [Guard(a * 2 + 1, b, "")]),
        ([a, b], [Guard(a + b, 10, "")]), ([a, b], [Guard(a * b, 12, "")]),
        ([a], [Guard(a % 7, 0, "")]), ([a], [Guard(a // 3, 2, "")]), ([wide], []),
        ([a, wide], [Guard(a * 5, wide, "")]), ([a, b], [Guard(dim_max(a, b), 6, "")]),
        ([a, b, c, d], [Guard(a, d, ""), Guard(b, c, ""), Guard(a + 1, c, "")]),
        ([a, b], [Guard(a, b, "", broadcasts=True)]), ([a], [Guard(dim_min(a, 9) - 9, 0, "")]),
        ([], []),
    ]  # fmt: skip
    for symbols, guards in cases:
        found = fitting_sizes(symbols, guards)
        assert found, guards
        for sizes in found:
            assert all(guard.failure(sizes) is None for guard in guards)
            assert sizes.get("wide", 20) in range(20, 31)
        assert found == fitting_sizes(symbols, guards)
    assert fitting_sizes([a, b], []) == [{"a": 3, "b": 4}, {"a": 4, "b": 4}]


def test_sizes_that_there_are_none_of() -> None:
    a = symbol("a")
    assert fitting_sizes([a], [Guard(a * 2, 7, "")]) == []
    assert fitting_sizes([a], [Guard(a, 3, ""), Guard(a, 4, "")]) == []


def test_the_search_for_sizes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [symbol(f"s{n}") for n in range(30)]
    calls = 0
    right = Guard.failure

    def counted(self: Guard, sizes: Any) -> Any:
        nonlocal calls
        calls += 1
        return right(self, sizes)

    monkeypatch.setattr(Guard, "failure", counted)
    total = names[0]
    for name in names[1:]:
        total = total + name
    assert fitting_sizes(names, [Guard(total * 2, 10_001, "")]) == []
    assert calls <= 2 * (SEARCHED + 1)


def pair() -> Any:
    a = gx.placeholder((None,), name="a")
    return a, gx.placeholder((None,), name="b")


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: gx.logaddexp(a, b),
        lambda a, b: gx.hypot(a, b) + gx.concatenate([a, b], axis=0)[:2].sum(),
        lambda a, b: (a + b).reshape((4, -1)) + b.reshape((4, -1)),
        lambda a, b: gx.gradients(
            gx.sum(gx.concatenate([a[:2], a[3:]]) * np.arange(4, dtype="float32")), a
        ),
    ],
)
def test_programs_whose_sizes_must_fit_are_checked(build: Any) -> None:
    """Fault 30: bare errors of NumPy where the sizes drawn did not fit."""
    assert not [reason for reason in checked(lambda: build(*pair())) if "sizes" in reason]


def test_faults_behind_guards_are_found() -> None:
    wrong = rule("wrong", lambda x: (gx.sinh(x), x), dtypes=COMPUTED_FLOATS)
    with gx.Graph() as g:
        a, b = pair()
        y = gx.sinh(a + b) * np.ones(17, "float32") + gx.sum(b)
    with pytest.raises(VerifyError, match="'wrong'"):
        run(extract(g, [y]).graph, applying(wrong))


def test_sizes_that_are_not_found_are_recorded() -> None:
    def build() -> Any:
        a = gx.placeholder((None,), name="a")
        return gx.tanh(a.reshape((2, -1))) + np.ones((2, 3), "float32") + a[:7].reshape((7, 1, 1))

    # 7 elements at least, of which 2 rows of 3 or of 1 are made
    assert any("no sizes were found that the guards allow" in reason for reason in checked(build))


# --- who is blamed (fault 23) --------------------------------------------------------------------


def test_a_wrong_reference_is_no_fault_of_fusion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 23: the reference of min had zeros of the wrong sign, and fusion was blamed."""
    with gx.Graph() as g:
        m = gx.placeholder((9, 8193), name="m")
        y = gx.min(m, axis=0) * 2.0
    gx.Session(g, options=CHECK).compile(y)
    ops = (min_op, reduce_min_op)
    right = [op.reference for op in ops]

    def wrong(array: Any, axis: Any = None, axes: Any = None, **attrs: Any) -> Any:
        return np.min(array, axes if axis is None else axis)

    try:
        for op in ops:
            object.__setattr__(op, "reference", wrong)
        with pytest.raises(VerifyError, match="reduce_min by itself") as caught:
            gx.Session(g, options=CHECK).compile(y)
    finally:
        for op, reference in zip(ops, right, strict=True):
            object.__setattr__(op, "reference", reference)
    assert "fusion has no part in it" in str(caught.value)
    assert "test_check_truth.py" in str(caught.value)


def test_operations_that_are_right_by_themselves_leave_the_way_they_are_put_together() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((3, 40), name="x")
        y = gx.sum(gx.maximum(x, 0.0) * 2.0, axis=1)
    executable = gx.Session(g).compile(y)
    (node,) = executable.graph.nodes
    array = np.random.default_rng(0).normal(size=(3, 40)).astype("float32")
    expected = evaluate_node(node, [array], {})
    (kernel,) = executable.kernels
    _check_lowering(node, kernel, [array], expected, expected, {}, host())
    with pytest.raises(VerifyError, match="does not compute what its fused node means") as caught:
        _check_lowering(node, kernel, [array], expected, [expected[0] + 1], {}, host())
    assert "each operation by itself is right" in str(caught.value)


def compiled(build: Any) -> Any:
    with gx.Graph() as g:
        fetches = build()
    made = compile_graph(extract(g, fetches), gx.Options(threads=1), host())
    return made.levels().graph if callable(made.levels) else made.levels.graph, made.program


class Altered:
    """A program with another plan."""

    def __init__(self, program: Any, **changes: Any) -> None:
        self._program = program
        self.plan = replace(program.plan, **changes)
        self.entries = program.entries

    def run(self, arrays: Any) -> Any:
        return self._program.run(arrays)


def test_steps_that_compute_another_thing_are_blamed_on_the_plan() -> None:
    def build() -> Any:
        x = gx.placeholder((5,), name="x")
        return [gx.cond(x[0] < 0, lambda: gx.tanh(x), lambda: x * 2.0), gx.cumsum(x, axis=0)]

    graph, program = compiled(build)
    check_levels(graph, program, PassContext(CHECK), host())
    plan = program.plan
    swapped = Altered(program, outputs=plan.outputs[::-1])
    jumps = [n for n, step in enumerate(plan.steps) if isinstance(step, Branch)]
    assert jumps and any(isinstance(step, Jump) for step in plan.steps)
    steps = list(plan.steps)
    steps[jumps[0]] = replace(steps[jumps[0]], target=jumps[0] + 1)
    for wrong in (swapped, Altered(program, steps=tuple(steps))):
        with pytest.raises(VerifyError, match="do not compute what its graph means"):
            check_levels(graph, wrong, PassContext(CHECK), host())


def test_what_reads_memory_that_nothing_has_written_is_no_early_reuse() -> None:
    def build() -> Any:
        x = gx.placeholder((5, 5), name="x")
        return [(gx.tanh(x) @ x) @ x]

    _, program = compiled(build)
    plan = program.plan
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(5, 5)).astype("float32")]
    from graphc.kernel.interp import run_kernel
    from graphc.plan.interp import run_plan

    expected = run_plan(plan, arrays, {})
    assert memory_fault(plan, arrays, {}, expected, run_kernel) is None
    lacking = replace(plan, steps=plan.steps[1:])
    expected = run_plan(lacking, arrays, {})
    found = memory_fault(lacking, arrays, {}, expected, run_kernel)
    assert found == "a kernel reads what nothing has written"


def test_indices_that_no_element_reads_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(rows: int) -> Any:
        x = gx.placeholder((rows, None), name="x")
        i = gx.placeholder((None,), "int64", name="i")
        return [gx.take(x, i, axis=1), gx.take(x.T, i, axis=0), gx.scatter_add(x, i, 1.0, axis=1)]

    for rows in (0, 2):
        checked(lambda rows=rows: build(rows))
    right = KernelBuilder.check

    def wrong(self: KernelBuilder, index: Any, bound: Any, site: Any, wraps: bool = True) -> Any:
        last = self.apply("subtract", self.dim(bound), self.constant(1, int64))
        inside = self.apply("minimum", self.cast(index, int64), last)
        inside = self.apply("maximum", inside, self.constant(0, int64))
        return right(self, inside, bound, site, wraps)

    monkeypatch.setattr(KernelBuilder, "check", wrong)
    with pytest.raises(VerifyError, match="they do not fail the same checks of indices"):
        checked(lambda: build(2))


# --- random programs -----------------------------------------------------------------------------


def check_random(recipe: Recipe, steps: Any) -> None:
    program = build_of(recipe, steps)
    try:
        gx.Session(program.graph, options=CHECK).compile([*program.fetches, *program.effects])
    except VerifyError as error:
        raise AssertionError(f"{error}\n{source(program)}") from error


KINDS = {"more": (MORE, 0), "joining": (JOINING, 0), "states": (STATEFUL, 4)}
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs_pass(kind: str) -> None:
    steps, variables = KINDS[kind]

    @settings(max_examples=20, deadline=None, suppress_health_check=RELAXED, derandomize=True)
    @given(recipes(steps=steps, variables=variables))
    def examine(recipe: Recipe) -> None:
        check_random(recipe, steps)

    examine()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_fuzz_check_mode(kind: str) -> None:
    steps, variables = KINDS[kind]

    @settings(max_examples=700, deadline=None, suppress_health_check=RELAXED, database=None)
    @given(recipes(steps=steps, most=30, variables=variables))
    def examine(recipe: Recipe) -> None:
        check_random(recipe, steps)

    examine()
