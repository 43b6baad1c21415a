"""Every rule: it fires, both sides agree wherever it holds, the cost falls, nothing blinds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits
from rule_harness import LEAST_WORK, assert_agree, cases_of, cost, dtypes_of, inputs_of
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.base.options import Options
from graphc.checking.interpreter import evaluate
from graphc.checking.samples import specials
from graphc.compiling.extraction import extract
from graphc.ir.dtypes import ALL, NARROW_FLOATS, DType, float32, float64
from graphc.ir.graph import Graph
from graphc.ir.surface import surface_function
from passes.graph.canonicalize import canonicalize
from passes.graph.cse import cse
from passes.graph.dce import dce
from passes.graph.fold import fold
from passes.graph.simplify import simplify
from passes.infra.base import PassContext
from passes.rewriting.pattern import Rule, rule
from passes.rewriting.rewrite import RuleSet, rewrite
from passes.rules import ALGEBRA, RULE_SETS
from passes.rules.common import FLOATS

RULES = [
    pytest.param(rules, rule, dtype, id=f"{rule.name}-{dtype}")
    for rules in RULE_SETS
    for rule in rules.rules
    for dtype in dtypes_of(rule)
]


def tells_most(rule: Rule, dtype: DType) -> bool:
    """Whether no other dtype of a rule is as good: float32, and the first of each other kind."""

    def kind(one: DType) -> object:
        return one in NARROW_FLOATS or np.dtype(one.numpy).kind

    alike = [one for one in dtypes_of(rule) if kind(one) == kind(dtype)]
    return dtype is (float32 if float32 in alike else alike[0])


@slow_unless(tells_most)
@pytest.mark.parametrize(("rules", "rule", "dtype"), RULES)
def test_rule(rules: RuleSet, rule: Rule, dtype: DType) -> None:
    cases = cases_of(rule, dtype)
    # With a free dtype there may be no way to keep the values of the widest dtypes.
    assert cases or (not rule.dtypes and dtype is not float32), "the rule does not fire"
    rng = np.random.default_rng(0)
    compared = 0
    for case in cases:
        inputs = inputs_of(case, rng)
        compared += assert_agree(case, case.left, case.right, inputs)
        alone, _ = case.rewritten(RuleSet([rule]))
        assert_agree(case, case.left, alone, inputs)
        assert cost(alone) < cost(case.left)
        left = cost(_after(case.left, rules, case.options))
        assert left < cost(alone) + LEAST_WORK, "the rule is blinded"
    assert compared or not cases, "the flags leave nothing to compare"


def _after(graph: Graph, last: RuleSet, options: Options) -> Graph:
    """The graph after what runs before the rules and in the sets up to this one."""
    context = PassContext(options)
    for prepare in (canonicalize, cse, fold):
        graph = prepare(graph, context)
    for rules in RULE_SETS[: RULE_SETS.index(last) + 1]:
        graph = rewrite(graph, rules, context)
    return dce(fold(graph, context), context)


@pytest.mark.parametrize("source", ALL)
def test_conversions(source: DType) -> None:
    """Whatever chain is shortened gives the same elements."""
    fired = 0
    for middle in ALL:
        for last in ALL:
            if source is middle or middle is last:
                continue
            with gx.Graph() as g:
                x = gx.placeholder((len(specials(np.dtype(source.numpy))),), source)
                y = x.astype(middle).astype(last)
            graph = extract(g, [y]).graph
            context = PassContext()
            result = simplify(graph, context)
            fired += len(context.decisions)
            narrows = all(d.is_integer for d in (source, middle, last)) and last.bits <= middle.bits
            assert bool(context.decisions) <= (middle.holds(source) or narrows)
            array = specials(np.dtype(source.numpy))
            with np.errstate(all="ignore"):
                assert_same_bits(evaluate(graph, [array])[0], evaluate(result, [array])[0])
    assert fired or source is float64


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "build",
    [
        lambda x: x + 0.0,
        lambda x: x - -0.0,
        lambda x: x * 0,
        lambda x: x - x,
        lambda x: x / x,
        lambda x: 1 / (1 / x),
        lambda x: gx.equal(x, x),
        lambda x: surface_function("guarded_multiply")(x, 1),
        lambda x: 0 - x,
        lambda x: gx.where(gx.equal(x, 0), x, -x),
    ],
)
def test_wrong_rules_are_not_there(build: Any, dtype: DType) -> None:
    with gx.Graph() as g:
        x = gx.placeholder((4,), dtype)
        y = build(x)
    graph = extract(g, [y]).graph
    assert simplify(graph, PassContext()) is graph


def test_shapes_that_differ_are_left_alone() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((1,), "float32")
        y = x * np.ones((3,), "float32")
        z = x * np.ones((1,), "float32")
    graph = extract(g, [y, z]).graph
    context = PassContext()
    simplify(graph, context)
    assert [decision.rule for decision in context.decisions] == ["mul-one"]


def test_fuel_and_switches() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((4,), "float32")
        y = gx.abs(-(x * 1)) / 1
    graph = extract(g, [y]).graph
    for fuel in range(4):
        context = PassContext(Options(fuel=fuel))
        simplify(graph, context)
        assert [decision.number for decision in context.decisions] == list(range(1, fuel + 1))
    context = PassContext(Options(off={"mul-one", "abs-neg", "neg-mul-constant"}))
    simplify(graph, context)
    assert [decision.rule for decision in context.decisions] == ["div-one"]
    assert context.decisions[0].where is not None
    assert context.decisions[0].where.filename == __file__


def test_numerics_and_flags_open_rules() -> None:
    inexact = RuleSet(
        [
            rule("bounded", lambda x: (x * 0.5, x / 2), numerics="T", dtypes=FLOATS),
            rule("risky", lambda x: (x - x, x * 0), needs=frozenset({"nnan"}), dtypes=FLOATS),
        ]
    )
    with gx.Graph() as g:
        x = gx.placeholder((4,), "float32")
        half, zero = x * 0.5, x - x
    graph = extract(g, [half, zero]).graph

    def fired(**given: Any) -> list[str]:
        context = PassContext(Options(**given))
        rewrite(graph, inexact, context)
        return [decision.rule for decision in context.decisions]

    assert fired() == ["bounded"]
    assert fired(numerics="strict") == []
    assert fired(fast_math={"nnan"}) == ["bounded", "risky"]


def test_rule_names_are_unique() -> None:
    with pytest.raises(VerifyError, match="one name"):
        RuleSet([ALGEBRA.rules[0], ALGEBRA.rules[0]])
