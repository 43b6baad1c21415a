"""The table of passes, its constraints, the options and the instruments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits
from check import sample as inputs_of

import graphc as gx
from graphc.base.errors import GraphError, VerifyError
from graphc.base.options import Options
from graphc.checking.interpreter import evaluate
from graphc.compiling.extraction import extract
from graphc.ir.graph import Graph
from passes.graph.cse import cse
from passes.graph.dce import dce
from passes.graph.decompose import decompose, is_core
from passes.graph.simplify import simplify
from passes.infra.base import PassContext
from passes.infra.manager import Before, Needs, Step, check_order, print_times, run_pipeline
from passes.pipeline import ORDER, PIPELINE

STEPS = (Step(cse), Step(simplify, parts=frozenset({"neg-neg"})), Step(dce),
         Step(decompose, required=True, leaves=is_core), Step(cse), Step(dce))  # fmt: skip


def sample() -> Graph:
    with gx.Graph() as g:
        x = gx.placeholder((3, 4), "float32", name="x")
        y = gx.nn.softmax(gx.exp(x) + gx.exp(x)) * 1
    return extract(g, [y]).graph


def test_records() -> None:
    context = PassContext()
    graph, records = run_pipeline(sample(), STEPS, context)
    assert [record.name for record in records] == [
        "cse#1", "simplify#1", "dce#1", "decompose#1", "cse#2", "dce#2",
    ]  # fmt: skip
    assert records[0].decisions[0].rule == "cse"
    assert records[-1].graph is graph
    assert all(record.seconds >= 0 for record in records)
    assert records[0].nodes_before - records[0].nodes_after == 1
    assert "cse#1: 6 -> 5 nodes" in str(records[0])


def test_switching_off() -> None:
    _, records = run_pipeline(sample(), STEPS, PassContext(Options(off={"cse"})))
    assert all(not record.name.startswith("cse") for record in records)
    with pytest.raises(GraphError, match="required"):
        run_pipeline(sample(), STEPS, PassContext(Options(off={"decompose"})))
    with pytest.raises(GraphError, match="there is no pass or rule 'csee'") as caught:
        run_pipeline(sample(), STEPS, PassContext(Options(off={"csee"})))
    assert caught.value.hint == "did you mean cse?"
    with pytest.raises(GraphError, match=r"passes are cse, dce, simplify; .*rules"):
        run_pipeline(sample(), STEPS, PassContext(Options(off={"nonsense"})))
    with pytest.raises(GraphError, match="dump after"):
        run_pipeline(sample(), STEPS, PassContext(Options(dump=("csee",))))
    run_pipeline(sample(), STEPS, PassContext(Options(off={"neg-neg"})))


def test_instruments(capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(verify=True, shuffle_seed=5, dump=("cse#2",))
    graph = sample()
    result, records = run_pipeline(graph, STEPS, PassContext(options))
    print_times(records)
    text = capsys.readouterr().err
    assert text.startswith("// after cse#2\ngraph ")
    assert [line.split()[0] for line in text.splitlines()[-2:]] == ["dce#2", "all"]
    assert "test_manager.py" in text
    inputs = inputs_of(graph, np.random.default_rng(0), special=False)
    plain, _ = run_pipeline(graph, STEPS, PassContext())
    assert_same_bits(evaluate(plain, inputs)[0], evaluate(result, inputs)[0])


def test_verifying_names_the_pass() -> None:
    def breaks(graph: Graph, context: PassContext) -> Graph:
        return Graph(graph.name, graph.inputs, graph.nodes[1:], graph.outputs)

    def undoes(graph: Graph, context: PassContext) -> Graph:
        return graph

    with pytest.raises(VerifyError, match="while running breaks#1"):
        run_pipeline(sample(), [Step(breaks)], PassContext(Options(verify=True)))
    with pytest.raises(VerifyError, match="softmax should not be left"):
        steps = [Step(undoes, leaves=is_core)]
        run_pipeline(sample(), steps, PassContext(Options(verify=True)))


def test_fuel_is_shared_by_all_passes() -> None:
    _, records = run_pipeline(sample(), STEPS, PassContext())
    total = sum(1 for record in records for decision in record.decisions if decision.number)
    assert total == 2
    for fuel in range(total + 1):
        context = PassContext(Options(fuel=fuel))
        run_pipeline(sample(), STEPS, context)
        assert context.spent == fuel


def test_order_is_checked() -> None:
    check_order(PIPELINE, ORDER)
    check_order(STEPS, [Before("simplify", "decompose", "why"), Needs("dce", "cse", "why")])
    with pytest.raises(VerifyError, match="cse must run before decompose: why"):
        check_order(STEPS, [Before("cse", "decompose", "why")])
    with pytest.raises(VerifyError, match="cse must run after dce: why"):
        check_order(STEPS, [Needs("cse", "dce", "why")])
    with pytest.raises(VerifyError, match="no step 'fold', though why"):
        check_order(STEPS, [Needs("fold", "cse", "why")])


# --- options -------------------------------------------------------------------------------------


def from_text(text: str, **arguments: Any) -> Options:
    return Options.from_environment({"GRAPHC": text}, **arguments)


def test_environment() -> None:
    text = "verify, check, time,dump=fusion,off=cse+dce,seed=7,fuel=412,off=fold,fast_math=nnan+nsz"
    assert from_text(text) == Options(
        verify=True,
        check=True,
        time=True,
        dump=("fusion",),
        off=frozenset({"cse", "dce", "fold"}),
        shuffle_seed=7,
        fuel=412,
        fast_math=frozenset({"nnan", "nsz"}),
    )
    assert from_text("") == Options() == Options.from_environment({})
    assert from_text("threads=2,numerics=strict").numerics == "strict"


def test_arguments_beat_the_environment() -> None:
    assert from_text("fuel=3,threads=2", fuel=5) == Options(fuel=5, threads=2)
    environment = {"GRAPHC": "fuel=3,verify"}
    assert Options.resolved(None, environment) == Options(fuel=3, verify=True)
    assert Options.resolved(Options(fuel=9), environment) == Options(fuel=9, verify=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fule=3", "unknown setting 'fule'"),
        ("fuel", "fuel has no value"),
        ("fuel=", "fuel has no value"),
        ("fuel=many", "fuel is 'many'"),
        ("fuel=-1", "fuel is -1"),
        ("check=yes", "check takes no value"),
        ("threads=0", "threads is 0"),
        ("numerics=fast", "numerics is 'fast'"),
        ("fast_math=nan", "unknown fast-math flag 'nan'"),
    ],
)
def test_bad_settings(text: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        from_text(text)
    assert message in str(caught.value)
    assert caught.value.hint


def test_unknown_settings_name_the_known_ones() -> None:
    with pytest.raises(GraphError, match="check, check_numerics, time, dump, off, seed, fuel"):
        from_text("fule=3")


@pytest.mark.parametrize(
    "given", [{"off": "cse"}, {"off": None}, {"dump": "fusion"}, {"verify": 1}, {"fuel": True}]
)
def test_bad_arguments(given: dict[str, Any]) -> None:
    with pytest.raises(GraphError) as caught:
        Options(**given)
    (name,) = given
    assert f"{name} is {given[name]!r}" in caught.value.message and caught.value.hint
    assert caught.value.where is not None
    assert caught.value.where.filename == __file__


def test_what_a_pass_gave_it_does_not_get_again() -> None:
    seen: list[Graph] = []

    def looks(graph: Graph, context: PassContext) -> Graph:
        seen.append(graph)
        return graph

    steps = (Step(cse), Step(looks), Step(cse), Step(dce), Step(looks))
    graph, records = run_pipeline(sample(), steps, PassContext())
    assert [record.name for record in records] == ["cse#1", "looks#1", "cse#2", "dce#1", "looks#2"]
    assert len(seen) == 1
    assert seen[0] is graph
    seen.clear()
    with gx.Graph() as g:
        x = gx.placeholder((3,), "float32", name="x")
        y = gx.nn.softmax(gx.negative(gx.negative(x)))
    steps = (Step(looks), Step(simplify), Step(looks))
    run_pipeline(extract(g, [y]).graph, steps, PassContext())
    assert len(seen) == 2
