"""Check mode: what it finds, what it lets pass and what it says it did not look at."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import planted
import pytest

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.base.options import Options
from graphc.compiling.extraction import extract
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph
from passes.infra.base import PassContext
from passes.infra.manager import Step, run_pipeline
from passes.rewriting.pattern import Rule, rule
from passes.rewriting.rewrite import RuleSet, rewrite
from passes.rules.common import FLOATS

CHECK = Options(check=True)


def here() -> str:
    """The line that calls this, as errors name it."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return f"test_check_mode.py:{frame.f_back.f_lineno}"


def graph_of(build: Any, shape: tuple[Any, ...] = (3, 4), dtype: str = "float32") -> Graph:
    with gx.Graph() as g:
        y = build(gx.placeholder(shape, dtype, name="x"))
    return extract(g, y if isinstance(y, list) else [y]).graph


def run(graph: Graph, *steps: Any, **options: Any) -> list[Any]:
    context = PassContext(Options(check=True, **options))
    run_pipeline(graph, [Step(step) for step in steps], context)
    return context.decisions


def applying(*rules: Rule) -> Any:
    def simplified(graph: Graph, context: PassContext) -> Graph:
        return rewrite(graph, RuleSet(rules), context)

    return simplified


# --- rules ---------------------------------------------------------------------------------------


def test_a_wrong_rule_is_named_with_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.wrong_rule(monkeypatch)
    with gx.Graph() as g:
        x = gx.placeholder((None, 4), name="x")
        y, line = gx.sinh(x) * (x + 1), here()
        z = gx.exp(y)
    with pytest.raises(VerifyError, match="rule 'sinh-times' changes the value") as caught:
        gx.Session(g, options=CHECK).compile(z)
    assert line in str(caught.value)
    assert "GRAPHC=off=sinh-times" in str(caught.value)
    assert caught.value.cause is not None and caught.value.cause.startswith("simplify#")


@pytest.mark.parametrize(
    ("identity", "build"),
    [
        (lambda x: (x + 0.0, x), lambda x: x + 0.0),  # at −0
        (lambda x: (x * 0.0, x - x), lambda x: x * 0.0),  # at negative numbers
        (lambda x: (x / x, x * 0.0 + 1.0), lambda x: x / x),  # at 0
        (lambda x: (gx.abs(x) * 2.0, x + x), lambda x: gx.abs(x) * 2.0),
    ],
)
def test_exact_rules_must_keep_every_bit(identity: Any, build: Any) -> None:
    wrong = rule("wrong", identity, dtypes=FLOATS)
    graph = graph_of(lambda x: build(gx.sqrt(gx.abs(x)) - 1.0))
    with pytest.raises(VerifyError, match="'wrong'"):
        run(graph, applying(wrong))


def test_rules_are_judged_where_they_hold() -> None:
    """log(x * y) is log(x) + log(y) for positive numbers only, which a flag promises."""
    graph = graph_of(lambda x: gx.log(x * gx.tanh(x)))
    details: dict[str, Any] = {"numerics": "T", "dtypes": FLOATS, "needs": frozenset({"nnan"})}
    logs = rule("logs", lambda x, y: (gx.log(x * y), gx.log(x) + gx.log(y)), **details,
                domain=(0.5, 4.0), bound=8.0)  # fmt: skip
    decisions = run(graph, applying(logs), fast_math={"nnan"})
    assert [d.rule for d in decisions] == ["logs", "check"]
    assert "logs does not hold everywhere" in decisions[1].reason
    wrong = rule("logs", lambda x, y: (gx.log(x * y), gx.log(x) - gx.log(y)), **details,
                 domain=(0.5, 4.0), bound=8.0)  # fmt: skip
    with pytest.raises(VerifyError, match="'logs'"):
        run(graph, applying(wrong), fast_math={"nnan"})


def test_rules_inside_of_loops_are_checked() -> None:
    wrong = rule("wrong", lambda x: (gx.sinh(x), x), dtypes=FLOATS)
    graph = graph_of(
        lambda x: gx.while_loop(lambda v: gx.sum(v) < 3.0, lambda v: gx.sinh(v) + 1.0, x)
    )
    with pytest.raises(VerifyError, match="'wrong'"):
        run(graph, applying(wrong))


def test_rules_that_change_bits_have_a_bound() -> None:
    close = rule("halves", lambda x: (x * 0.3 + x * 0.7, x), dtypes=FLOATS, numerics="T")
    off = rule("thirds", lambda x: (x * 0.3 + x * 0.6, x), dtypes=FLOATS, numerics="T")
    graph = graph_of(lambda x: gx.exp(x * 0.3 + x * 0.7))
    assert [d.rule for d in run(graph, applying(close))] == ["halves"]
    with pytest.raises(VerifyError, match="'thirds'"):
        run(graph_of(lambda x: gx.exp(x * 0.3 + x * 0.6)), applying(off))


def test_rules_that_hold_for_a_constant_are_judged_with_it() -> None:
    doubled = rule("ratio", lambda x: (x / 0.5, x * 2.0), dtypes=FLOATS)
    graph = graph_of(lambda x: gx.exp(gx.tanh(x) / 0.5))
    assert [d.rule for d in run(graph, applying(doubled))] == ["ratio"]


def test_operands_that_depend_on_each_other_stay_so() -> None:
    """The operand x is the negated y itself."""
    right = rule("add-negative", lambda x, y: (x + (-y), x - y), dtypes=FLOATS)

    def build(x: Any) -> Any:
        negated = -gx.tanh(x)
        return negated + negated

    assert [d.rule for d in run(graph_of(build), applying(right))] == ["add-negative"]


# --- passes --------------------------------------------------------------------------------------


def test_a_wrong_pass_is_traced_to_the_decision() -> None:
    def halves(graph: Graph, context: PassContext) -> Graph:
        """Replaces both operands of additions, rightly, and of subtractions, wrongly."""
        editor = GraphEditor(graph, "halves")
        for node in editor.nodes():
            if node.op.name not in ("add", "subtract") or not context.decide("swap", node):
                continue
            first, second = node.inputs
            with editor.rewriting(node, "swap"):
                new = second + first if node.op.name == "add" else second - first
            editor.substitute(node.output, new)
        return editor.finish()

    def build(x: Any) -> Any:
        y = x + gx.exp(x)
        z = y - gx.cos(x)
        return gx.sin(z) + y

    graph = graph_of(build)
    lines = [n.provenance.where for n in graph.nodes if n.op.name == "subtract"]
    with pytest.raises(VerifyError, match=r"'swap' in halves#1, decision #2") as caught:
        run(graph, halves)
    assert caught.value.where == lines[0]
    assert "of type float32[3, 4]" in str(caught.value)


def test_a_wrong_required_pass_is_named() -> None:
    def breaks(graph: Graph, context: PassContext) -> Graph:
        return Graph(graph.name, graph.inputs, graph.nodes, graph.outputs[::-1])

    with pytest.raises(VerifyError, match="the pass breaks#1 changes the value"):
        run(graph_of(lambda x: [x + 1.0, x + 2.0]), breaks)


def test_a_pass_that_makes_an_error_is_caught() -> None:
    def shifts(graph: Graph, context: PassContext) -> Graph:
        editor = GraphEditor(graph)
        for node in editor.nodes():
            if node.op.name == "take":
                with editor.rewriting(node, "shift"):
                    new = gx.take(node.inputs[0], node.inputs[1] + 100, axis=0)
                editor.substitute(node.output, new)
        return editor.finish()

    graph = graph_of(lambda x: gx.take(gx.exp(x), gx.constant(np.array([0, 1])), axis=0))
    with pytest.raises(VerifyError, match=r"now raises: .*out of range"):
        run(graph, shifts)


def test_large_graphs_are_left_out_and_that_is_recorded() -> None:
    wrong = rule("wrong", lambda x: (gx.sinh(x), x), dtypes=FLOATS)
    graph = graph_of(lambda x: gx.sinh(x) + 1.0, (3000, 3000))
    decisions = run(graph, applying(wrong))
    reasons = [d.reason for d in decisions if d.rule == "check"]
    assert len(reasons) == 2 and all("more than" in reason for reason in reasons)
    assert "wrong is not checked" in reasons[0] and "simplified#1 is not checked" in reasons[1]


def test_endless_loops_end() -> None:
    wrong = rule("wrong", lambda x: (gx.sinh(x), x), dtypes=FLOATS)
    graph = graph_of(
        lambda x: gx.while_loop(lambda v: gx.any(v == v), lambda v: v * 1.0, gx.sinh(x))
    )
    with pytest.raises(VerifyError, match="'wrong'"):
        run(graph, applying(wrong))
    unchanged = rule("one", lambda x: (x * 1.0, x), dtypes=FLOATS)
    reasons = [d.reason for d in run(graph, applying(unchanged)) if d.rule == "check"]
    assert reasons == ["simplified#1 is not checked: random inputs don't fit: the evaluation "
                       "takes too long"]  # fmt: skip


# --- what is right passes ------------------------------------------------------------------------


def test_the_whole_pipeline_passes_on_a_training_step() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((None, 5), name="x")
        labels = gx.placeholder((None,), "int64", name="labels")
        hidden = x
        for n in range(2):
            weight = gx.variable(np.full((5, 5), 0.1 + n, "float32"))
            hidden = gx.tanh(hidden @ weight + 0.5)
        loss = gx.nn.softmax_cross_entropy(hidden, labels).mean()
        train = gx.optim.Adam(1e-2).minimize(loss)
    exe = gx.Session(g, options=CHECK).compile([loss, train])
    assert not [d for record in exe.passes for d in record.decisions if d.rule == "check"]


# --- the levels below ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plant", "build", "message"),
    [
        (planted.wrong_code, lambda x: gx.tanh(x + 1.0) * 2.0, "elements differ"),
        (
            planted.wrong_lowering,
            lambda x: [gx.sum(gx.exp(x), axis=1), gx.max(gx.exp(x), axis=1)],
            "reduce_sum by itself is one thing by its reference and another by its kernel",
        ),
        (
            planted.wrong_reuse,
            lambda x: ((x * 0.5) @ x)[::-1] @ x,
            "depends on where values lie in memory",
        ),
    ],
)
def test_errors_below_the_graph_are_found(
    plant: Any, build: Any, message: str, kernel_watch: Any
) -> None:
    with gx.Graph() as g:
        x = gx.placeholder((4, 4), name="x")
        y = build(x)
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(VerifyError, match=message) as caught:
            gx.Session(g, options=CHECK).compile(y)
    if plant is not planted.wrong_reuse:
        assert "test_check_mode.py" in str(caught.value.where)


def test_levels_that_agree_pass() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((None, 5), name="x")
        places = gx.placeholder((None,), "int64", name="places")
        y = gx.take(x, places, axis=0)
        z = gx.while_loop(lambda v: gx.sum(v) < 10.0, lambda v: gx.exp(v) + 1.0, y)
        w = gx.cond(x[0, 0] > 0, lambda: gx.cumsum(x, axis=1), lambda: x.T.T - 1.0)
    exe = gx.Session(g, options=CHECK).compile([y, z, gx.nn.softmax(w), gx.argmax(x, axis=1)])
    (record,) = [record for record in exe.passes if record.name == "check"]
    assert not [d for d in record.decisions if "kernel" in d.reason]


def test_large_kernels_are_left_out_and_that_is_recorded() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((3000, 1000), name="x")
        y = gx.tanh(x) + 1.0
    exe = gx.Session(g, options=CHECK).compile(y)
    reasons = [d.reason for record in exe.passes for d in record.decisions if d.rule == "check"]
    assert any("is not checked: more than 2000000 elements" in reason for reason in reasons)
    assert any("the use of memory is not checked" in reason for reason in reasons)
