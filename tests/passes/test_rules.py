"""Every rule: it fires, both sides agree to the bit wherever it holds, and the cost falls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from check import array_of, assert_same_bits, specials

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.base.options import Options
from graphc.extract import extract
from graphc.interp import evaluate
from graphc.ir.builder import building
from graphc.ir.dtypes import ALL, FLOATS, DType
from graphc.ir.graph import Graph
from graphc.ir.op import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from passes.base import PassContext
from passes.dce import dce
from passes.pattern import Rule, Sketch, rule
from passes.rewrite import RuleSet, rewrite
from passes.rules import ALGEBRA
from passes.rules.algebra import keeps
from passes.simplify import simplify

CASES = [
    pytest.param(rule, dtype, id=f"{rule.name}-{dtype}")
    for rule in ALGEBRA.rules
    for dtype in rule.dtypes
]


def sides(rule: Rule, dtype: DType, shape: tuple[int, ...]) -> tuple[Graph, Graph]:
    """The graphs of both sides over operands of one shape."""
    arguments = {
        name: rule.free[name]
        if name in rule.free
        else Value(TensorType(given.dtype, shape), name)
        for name, given in rule.symbols(dtype).items()
    }
    sketch = Sketch()
    with building(sketch):
        results = rule.identity(**arguments)
    inputs = [value for value in arguments.values() if isinstance(value, Value)]
    left, right = (
        Graph("side", inputs, sketch.needed(result), [result]) for result in results
    )
    return left, right


def cost(graph: Graph) -> int:
    """How much there is to compute: constants and repeated elements are free, a guard is work."""
    costs = {"constant": 0, "broadcast_to": 0, "guarded_multiply": 2}
    return sum(costs.get(node.op.name, 1) for node in graph.nodes)


@pytest.mark.parametrize(("rule", "dtype"), CASES)
def test_rule(rule: Rule, dtype: DType) -> None:
    size = len(specials(np.dtype(dtype.numpy)))
    left, right = sides(rule, dtype, (size, size))
    rng = np.random.default_rng(0)
    pair = np.meshgrid(specials(np.dtype(dtype.numpy)), specials(np.dtype(dtype.numpy)))
    grids = iter(pair)
    inputs = [
        array_of(value.type, {}, rng, True) if value.dtype is not dtype else next(grids)
        for value in left.inputs
    ]
    with np.errstate(all="ignore"):
        (expected,), (given,) = evaluate(left, inputs), evaluate(right, inputs)
    assert_same_bits(expected, given)

    context = PassContext()
    result = rewrite(left, ALGEBRA, context)
    assert context.decisions, "no rule fires"
    assert cost(dce(result, context)) < cost(left)
    assert cost(right) < cost(left)
    with np.errstate(all="ignore"):
        (simplified,) = evaluate(result, inputs)
    assert_same_bits(expected, simplified)

    alone = PassContext()
    rewrite(left, RuleSet([rule]), alone)
    assert [decision.rule for decision in alone.decisions][:1] == [rule.name]


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
            assert bool(context.decisions) <= keeps(source, middle)
            array = specials(np.dtype(source.numpy))
            with np.errstate(all="ignore"):
                assert_same_bits(evaluate(graph, [array])[0], evaluate(result, [array])[0])
    assert fired or source.name in ("int64", "uint64", "float64")


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
    context = PassContext(Options(off={"mul-one", "abs-neg"}))
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
