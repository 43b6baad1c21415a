"""Rules of shapes, reductions and matrix products: on their samples, and where they don't fire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits

from graphc.base.options import Options
from graphc.checking.interpreter import evaluate
from graphc.checking.samples import random_array
from graphc.ir.attributes import Payload
from graphc.ir.builder import apply, building
from graphc.ir.dims.expressions import symbol_name
from graphc.ir.dtypes import ALL, DType
from graphc.ir.graph import Graph
from graphc.ir.text.printer import symbols_in
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ir.verify import verify
from graphc.ops.source import constant_op
from passes.infra.base import PassContext
from passes.rewriting.pattern import Rule, Sketch
from passes.rewriting.rewrite import RuleSet, rewrite
from passes.rules import products, reduce, shape

pytestmark = pytest.mark.check_mode

RULES = (*shape.RULES, *reduce.RULES, *products.RULES)


def cases() -> Iterator[Any]:
    for rule in RULES:
        assert rule.samples, rule.name
        for number, sample in enumerate(rule.samples):
            dtypes = rule.dtypes or ALL
            dtype = dtypes[number % len(dtypes)]
            yield pytest.param(rule, dtype, sample, id=f"{rule.name}-{number}-{dtype}")


def left_side(rule: Rule, dtype: DType, sample: Mapping[str, Any]) -> Graph:
    sketch = Sketch()
    inputs: list[Value] = []
    arguments: dict[str, Any] = {}
    for name, given in rule.symbols(dtype).items():
        if name in rule.free:
            arguments[name] = sample.get(name, given)
        elif name in rule.constants:
            array = np.asarray(sample[name], dtype.numpy)
            with building(sketch):
                arguments[name] = apply(constant_op, value=Payload(array))
        else:
            arguments[name] = Value(TensorType(given.dtype, tuple(sample[name])), name)
            inputs.append(arguments[name])
    with building(sketch):
        left, _ = rule.identity(**arguments)
    return Graph("left", inputs, sketch.needed(left), [left])


@pytest.mark.parametrize(("rule", "dtype", "sample"), list(cases()))
def test_both_sides_agree_on_every_sample(
    rule: Rule, dtype: DType, sample: Mapping[str, Any]
) -> None:
    """For every size of a symbolic dim, none and one included."""
    graph = left_side(rule, dtype, sample)
    context = PassContext(Options(fast_math=rule.needs))
    result = rewrite(graph, RuleSet([rule]), context)
    assert [decision.rule for decision in context.decisions][:1] == [rule.name]
    verify(result)
    exact = not rule.needs
    names = {symbol_name(symbol) for symbol in symbols_in(graph)}
    for size in (3, 1, 0) if names else (3,):
        sizes = dict.fromkeys(names, size)
        rng = np.random.default_rng(size)
        inputs = [random_array(value.type, sizes, rng, exact) for value in graph.inputs]
        if not exact:
            inputs = [array + array.dtype.type(5) for array in inputs]
        with np.errstate(all="ignore"):
            try:
                (expected,) = evaluate(graph, inputs)
            except ValueError:
                assert size == 0 and rule.name.startswith(("max", "min"))
                continue
            (found,) = evaluate(result, inputs)
        if exact:
            assert_same_bits(expected, found)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-5)
