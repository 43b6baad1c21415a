"""How rules are recorded and matched: constants, attributes, shapes, use counts, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.base.options import Options
from graphc.checking.interpreter import evaluate
from graphc.checking.samples import specials
from graphc.compiling.extraction import extract
from graphc.ir.dtypes import INTEGERS, DType, float32, int32
from graphc.ir.graph import Graph
from graphc.ir.surface import surface_function
from graphc.ops.creation import zeros_like
from graphc.ops.move.shape import transpose
from graphc.ops.pointwise.math import exp
from passes.graph.dce import dce
from passes.graph.simplify import simplify
from passes.infra.base import PassContext
from passes.rewriting.pattern import Rule, record, rule
from passes.rewriting.rewrite import RuleSet, rewrite
from passes.rules import ALGEBRA
from passes.rules.common import FLOATS


def graph_of(build: Any, *dtypes: str, shape: tuple[int, ...] = (4,)) -> Graph:
    """The extracted graph of what ``build`` makes of placeholders."""
    with gx.Graph() as g:
        fetches = build(*(gx.placeholder(shape, dtype) for dtype in dtypes))
    return extract(g, fetches if isinstance(fetches, list) else [fetches]).graph


def ops_after(graph: Graph, *rules: Rule) -> list[str]:
    """The ops that are left when the rules have fired, constants aside."""
    context = PassContext()
    result = dce(rewrite(graph, RuleSet(rules), context), context)
    return [node.op.name for node in result.nodes if node.op.name != "constant"]


def test_constants_collapse_in_one_run() -> None:
    def build(x: Any) -> Any:
        for number in range(50):
            x = 3 - (x + number)
        return x

    graph = graph_of(build, "int32")
    context = PassContext()
    result = dce(simplify(graph, context), context)
    assert [node.op.name for node in result.nodes] == ["constant", "add"]


def test_constant_arrays_stay_arrays() -> None:
    table = np.arange(4, dtype=np.int32)
    graph = graph_of(lambda x: (x + table) + 1, "int32")
    context = PassContext()
    result = simplify(graph, context)
    assert [decision.rule for decision in context.decisions] == ["int-add-add"]
    with pytest.raises(StopIteration):
        next(node for node in simplify(result, PassContext()).nodes if node.op.name == "subtract")


def test_regrouping_ends_where_nothing_is_folded() -> None:
    """Constants of different shapes are not combined, equal ones only once."""
    column, row = np.ones((3, 1), np.int32), np.arange(4, dtype=np.int32)
    graph = graph_of(lambda x: ((x * column) * row) * column, "int32", shape=(3, 4))
    context = PassContext()
    simplify(graph, context)
    assert len(context.decisions) <= 2
    constant = graph_of(lambda x: [x + (gx.constant(row) * row) * row], "int32", shape=(3, 4))
    simplify(constant, PassContext())


def test_ordinary_parameters_do_not_match_constants() -> None:
    shift = rule("shift", lambda x, c: ((x + c) * 2, x), constants=("c",), dtypes=INTEGERS)
    graph = graph_of(lambda x: x + (gx.constant(np.int32([1, 2, 3, 4])) + 5) * 2, "int32")
    context = PassContext()
    assert rewrite(graph, RuleSet([shift]), context) is graph


def test_conditions_see_values_constants_and_attributes() -> None:
    seen: list[dict[str, Any]] = []

    def when(**given: Any) -> bool:
        seen.append(given)
        return False

    rules = RuleSet(
        [
            rule(
                "seen",
                lambda x, c, axes: (transpose(x + c, axes), x),
                constants=("c",), shapes={"x": (2, 3)}, free={"axes": (1, 0)},
                when=when, dtypes=FLOATS,
            )
        ]
    )  # fmt: skip
    graph = graph_of(lambda x: gx.transpose(x + 2.5, (2, 0, 1)), "float32", shape=(2, 3, 4))
    assert rewrite(graph, rules, PassContext()) is graph
    (given,) = seen[:1]
    assert given["x"].shape == (2, 3, 4)
    assert given["c"].array == 2.5
    assert given["axes"] == (2, 0, 1)


def test_right_sides_compute_with_attributes() -> None:
    twice = rule(
        "transpose-transpose",
        lambda x, p, q: (transpose(transpose(x, p), q), transpose(x, [p[axis] for axis in q])),
        shapes={"x": (2, 3, 4)},
        free={"p": (1, 0, 2), "q": (2, 1, 0)},
        dtypes=(),
    )
    graph = graph_of(
        lambda x: gx.transpose(gx.transpose(x, (3, 1, 0, 2)), (1, 0, 3, 2)),
        "float64",
        shape=(2, 3, 4, 5),
    )
    assert ops_after(graph, twice) == ["transpose"]
    result = dce(rewrite(graph, RuleSet([twice]), PassContext()), PassContext())
    data = np.arange(120.0).reshape(2, 3, 4, 5)
    assert_same_bits(evaluate(graph, [data])[0], evaluate(result, [data])[0])


def test_exclusive_rules_look_at_readers() -> None:
    factor = rule(
        "factor", lambda x, y, z: (x * z + y * z, (x + y) * z), dtypes=INTEGERS, exclusive=True
    )

    def alone(x: Any, y: Any, z: Any) -> Any:
        return x * z + y * z

    def read(x: Any, y: Any, z: Any) -> Any:
        product = x * z
        return [product + y * z, -product]

    def fetched(x: Any, y: Any, z: Any) -> Any:
        product = x * z
        return [product + y * z, product]

    dtypes = ("int32",) * 3
    assert ops_after(graph_of(alone, *dtypes), factor) == ["add", "multiply"]
    for build in (read, fetched):
        graph = graph_of(build, *dtypes)
        assert rewrite(graph, RuleSet([factor]), PassContext()) is graph


def test_an_inner_value_read_twice_by_the_match_is_its_own() -> None:
    square = rule(
        "square", lambda x: ((x + 1) * (x + 1), x * x), dtypes=INTEGERS, exclusive=True
    )

    def build(x: Any) -> Any:
        inner = x + 1
        return inner * inner

    assert ops_after(graph_of(build, "int32"), square) == ["multiply"]


@pytest.mark.parametrize("details", [{"numerics": "T"}, {"needs": frozenset({"nnan"})}])
def test_what_changes_bits_must_not_count_readers(details: dict[str, Any]) -> None:
    with pytest.raises(VerifyError, match="who else reads"):
        rule("counts", lambda x: (x - x, zeros_like(x)), exclusive=True, **details)


@pytest.mark.parametrize("where", ["constants", "masks"])
def test_unknown_parameters(where: str) -> None:
    details: Any = {where: ("q",)}
    with pytest.raises(VerifyError, match="no parameter q"):
        rule("unknown", lambda x: (x + x, x), **details)


def test_recording_fails_loudly() -> None:
    lost = rule("lost", lambda x, y: (x - x, y), dtypes=INTEGERS)
    with pytest.raises(VerifyError, match="does not have y in it"):
        record(lost, int32)
    other = rule(
        "other", lambda x, p: (transpose(x, (1, 0)), x), shapes={"x": (2, 3)}, free={"p": (0, 1)}
    )
    with pytest.raises(VerifyError, match="does not have p in it"):
        record(other, float32)
    same = rule(
        "same",
        lambda x, p, q: (transpose(transpose(x, p), q), x),
        shapes={"x": (2, 3)},
        free={"p": (1, 0), "q": (1, 0)},
    )
    with pytest.raises(VerifyError, match="one example for two"):
        record(same, float32)
    with pytest.raises(VerifyError, match="not an operation"):
        record(rule("nothing", lambda x: (x, x)), float32)


def test_comparisons_of_other_dtypes_are_not_taken_for_their_own() -> None:
    """The operands of ``not`` are bools whatever was compared."""
    graph = graph_of(lambda x, y: ~(x < y), "float32", "float32")
    assert simplify(graph, PassContext()) is graph
    graph = graph_of(lambda x, y: ~(x < y), "int16", "int16")
    context = PassContext()
    simplify(graph, context)
    assert [decision.rule for decision in context.decisions] == ["not-lt"]


def test_rules_fire_whichever_dtype_was_met_first() -> None:
    for first in ("bool", "int16", "int64"):
        rules = RuleSet(ALGEBRA.rules)
        rewrite(graph_of(lambda x, y: ~(x < y), first, first), rules, PassContext())
        context = PassContext()
        rewrite(graph_of(lambda x, y: ~(x < y), "int16", "int16"), rules, context)
        assert [decision.rule for decision in context.decisions] == ["not-lt"]


# --- compiled code -------------------------------------------------------------------------------


def _functions() -> list[Any]:
    """Rules that keep bits, over functions whose reference does not tell the bits of their code."""
    found = []
    for given in ALGEBRA.rules:
        if given.numerics != "E" or given.needs or float32 not in given.dtypes:
            continue
        ops = [*_ops(record(given, float32).root)]
        if any(op.numerics == "R" for op in ops):
            found += [pytest.param(given, dtype, id=f"{given.name}-{dtype}") for dtype in FLOATS]
    return found


def _ops(pattern: Any) -> Any:
    if hasattr(pattern, "op"):
        yield pattern.op
        for operand in pattern.operands:
            yield from _ops(operand)


@pytest.mark.parametrize(("rule", "dtype"), _functions())
def test_compiled_sides_agree_to_the_bit(rule: Rule, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    array = np.concatenate([
        specials(np.dtype(dtype.numpy)),
        rng.uniform(-9, 9, 4000).astype(dtype.numpy),
        (rng.uniform(-1, 1, 4000) * 10.0 ** rng.integers(-30, 30, 4000)).astype(dtype.numpy),
    ])  # fmt: skip
    with gx.Graph() as g:
        x = gx.placeholder((None,), dtype, name="x")
        left, right = rule.identity(x)
    session = gx.Session(g, options=Options(off=ALGEBRA.names))
    with np.errstate(all="ignore"):
        assert_same_bits(*session.run([left, right], {x: array}))


def test_functions_are_among_them() -> None:
    names = {param.values[0].name for param in _functions()}
    assert {"sin-odd", "cos-neg", "max-of-exp", "power-zero", "power-of-one"} <= names
    assert surface_function("exp") is exp
