"""How rules are tested: samples of both sides, how their results are compared, what they cost.

A rule of class E without flags agrees to the bit on all special values. Flags take out the elements
they speak of (``nnan`` those where a NaN occurs on the way, in either side), ``nsz`` the sign of
zeros; rules that change bits agree within their bound, in their domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bits import assert_same_bits
from check import SIZE

from graphc.base.options import Options
from graphc.checking.interpreter import evaluate
from graphc.checking.samples import random_array, specials
from graphc.ir.attributes import Payload
from graphc.ir.builder import apply, building
from graphc.ir.dims.expressions import Dim, symbol_name
from graphc.ir.dims.expressions import evaluate as size_of
from graphc.ir.dtypes import ALL, DType, bool_, float32
from graphc.ir.graph import Graph, Node
from graphc.ir.lowering import Contraction, Decompose, Pointwise, Reshape
from graphc.ir.text.printer import symbols_in
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.pointwise.fast import APPROXIMATE
from graphc.ops.source import constant_op
from passes.graph.dce import dce
from passes.infra.base import PassContext
from passes.rewriting.pattern import Rule, Sketch, arguments_of, complete
from passes.rewriting.rewrite import RuleSet, rewrite

LARGEST_GRID = 30_000
"""Of more combinations of special values a random part is tried."""
MOST_CASES = 12
"""How many combinations of constants and dtypes a rule is tried with."""


@dataclass(frozen=True, slots=True)
class Case:
    """A rule's sides over certain arguments.

    Attributes:
        rule: the rule.
        dtype: of its symbols.
        left, right: graphs over the same inputs, each with one output.
    """

    rule: Rule
    dtype: DType
    left: Graph
    right: Graph

    @property
    def options(self) -> Options:
        """What lets the rule run."""
        return Options(fast_math=self.rule.needs)

    def rewritten(self, rules: RuleSet) -> tuple[Graph, list[str]]:
        """The left side after these rules, and the names of those that fired."""
        context = PassContext(self.options)
        result = rewrite(self.left, rules, context)
        return dce(result, context), [decision.rule for decision in context.decisions]


# --- arguments -----------------------------------------------------------------------------------


def cases_of(rule: Rule, dtype: DType) -> list[Case]:
    """All arguments to try: those the rule gives, or vectors of special values."""
    found: list[Case] = []
    for arguments in _arguments(rule, dtype):
        case = _case(rule, dtype, arguments)
        if case is not None:
            found.append(case)
        if len(found) == MOST_CASES and not rule.samples:
            break
    return found


def _arguments(rule: Rule, dtype: DType) -> Iterator[Mapping[str, Any]]:
    if rule.samples:
        yield from rule.samples
        return
    rng = np.random.default_rng(0)
    free = {name: ALL for name, example in rule.free.items() if isinstance(example, DType)}
    constants = constants_of(dtype) if rule.constants else []
    choices: list[Sequence[Any]] = [*free.values(), *([constants] * len(rule.constants))]
    names = (*free, *rule.constants)
    count = int(np.prod([len(choice) for choice in choices], dtype=int))
    # a part of all combinations, as for four constants there are many
    picked = rng.permutation(count) if count <= LARGEST_GRID else rng.integers(count, size=1000)
    for number in picked:
        chosen = np.unravel_index(number, [len(choice) for choice in choices] or [1])
        yield {name: choice[i] for name, choice, i in zip(names, choices, chosen, strict=False)}


def constants_of(dtype: DType) -> list[Any]:
    """Constants that rules are tried with."""
    own = list(specials(np.dtype(dtype.numpy)))
    if dtype.is_float:
        own += [2, 4, 0.25, 10, 1e-3, -2, -7, 2.0**100, 2.0**-100]
    elif dtype is not bool_:
        own += [4, 7, 8, 16, 64, 100]
    return [np.asarray(one, dtype.numpy) for one in own]


def _case(rule: Rule, dtype: DType, given: Mapping[str, Any]) -> Case | None:
    """The case, if the rule fires on it."""
    sketch = Sketch()
    arguments: dict[str, Any] = {}
    types: dict[str, TensorType] = {}
    for name, symbol in rule.symbols(dtype).items():
        if name in rule.free:
            arguments[name] = given.get(name, symbol)
        elif name in rule.derived:
            continue
        elif name in rule.constants:
            array = np.asarray(given[name]).astype(symbol.dtype.numpy)
            with building(sketch):
                arguments[name] = apply(constant_op, value=Payload(array))
        else:
            types[name] = symbol.type.with_shape(given.get(name, symbol.shape))
    if is_elementwise(rule):
        size = min(LARGEST_GRID, math.prod(len(_pool(rule, t.dtype)) for t in types.values()))
        types = {name: type_.with_shape((size,)) for name, type_ in types.items()}
    inputs = {name: Value(type_, name) for name, type_ in types.items()}
    arguments |= inputs
    producer = sketch.producers.get
    if rule.when is not None and not rule.when(**arguments_of(rule, arguments, producer)):
        return None
    with building(sketch):
        results = rule.identity(**complete(rule, arguments, producer))
    left, right = (
        Graph("side", list(inputs.values()), sketch.needed(result), [result]) for result in results
    )
    case = Case(rule, dtype, left, right)
    return case if case.rewritten(RuleSet([rule]))[1][:1] == [rule.name] else None


def is_elementwise(rule: Rule) -> bool:
    """Whether the rule is tried on vectors of special values: if nothing says otherwise."""
    return not rule.samples and not rule.shapes


def _pool(rule: Rule, dtype: DType) -> Any:
    """The elements that a symbol takes in turn."""
    if rule.domain is None or not dtype.is_float:
        return specials(np.dtype(dtype.numpy))
    return np.linspace(*rule.domain, 41, dtype=dtype.numpy)


def inputs_of(case: Case, rng: np.random.Generator) -> list[Any]:
    """An array for each input: all combinations of special values where these are vectors."""
    rule = case.rule
    if is_elementwise(rule):
        pools = [_pool(rule, value.dtype) for value in case.left.inputs]
        if math.prod(map(len, pools)) > LARGEST_GRID:
            return [rng.choice(pool, LARGEST_GRID) for pool in pools]
        return [axis.reshape(-1) for axis in np.meshgrid(*pools, indexing="ij")]
    special = rule.numerics == "E" and not rule.needs
    sizes = _sizes(case.left)
    arrays = [random_array(value.type, sizes, rng, special) for value in case.left.inputs]
    if rule.domain is None:
        return arrays
    return [
        rng.uniform(*rule.domain, array.shape).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for array in arrays
    ]


def _sizes(graph: Graph) -> dict[str, int]:
    return {symbol_name(symbol): SIZE for symbol in symbols_in(graph)}


# --- comparing -----------------------------------------------------------------------------------


def assert_agree(case: Case, first: Graph, second: Graph, inputs: list[Any]) -> int:
    """Both graphs give the same as far as the rule's class and flags say.

    Returns how many elements could be compared.
    """
    with np.errstate(all="ignore"):
        one, *way = evaluate(_with_all(first), inputs)
        other, *more = evaluate(_with_all(second), inputs)
    rule = case.rule
    if rule.numerics == "E" and not rule.needs:
        assert_same_bits(one, other)
        return int(one.size)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    steps = [step for step in (*way, *more) if step.dtype.kind == "f"]
    allowed = np.ones(one.shape, bool)
    for step in (*steps, *(array for array in inputs if array.dtype.kind == "f")):
        if step.shape not in (one.shape, ()):
            continue
        if "nnan" in rule.needs:
            allowed &= ~np.isnan(step)
        if "ninf" in rule.needs:
            allowed &= ~np.isinf(step)
        if "reassoc" in rule.needs:
            # regrouped, an overflow may come or go
            allowed &= np.isfinite(step)
    _assert_close(rule, one, other, steps, allowed)
    return int(allowed.sum())


def _assert_close(rule: Rule, one: Any, other: Any, steps: list[Any], allowed: Any) -> None:
    if one.dtype.kind != "f":
        np.testing.assert_array_equal(one[allowed], other[allowed])
        return
    if "nsz" in rule.needs:
        one, other = one + 0.0, other + 0.0
    if not rule.bound:
        one, other = (np.where(allowed, side, 0).astype(side.dtype) for side in (one, other))
        assert_same_bits(one, other)
        return
    np.testing.assert_array_equal(np.isnan(one)[allowed], np.isnan(other)[allowed])
    infinite = (np.isinf(one) | np.isinf(other)) & allowed
    np.testing.assert_array_equal(one[infinite], other[infinite])
    finite = allowed & np.isfinite(one) & np.isfinite(other)
    scale = np.abs(one.astype(np.float64))
    if "reassoc" in rule.needs:
        for step in steps:
            if step.shape in (one.shape, ()):
                scale = np.maximum(scale, np.where(np.isfinite(step), np.abs(step), 0))
    info = np.finfo(one.dtype)
    slack = rule.bound * (float(info.eps) * scale + float(info.smallest_subnormal))
    with np.errstate(all="ignore"):
        gap = np.abs(one.astype(np.float64) - other.astype(np.float64))
        worst = np.argmax(np.where(finite, gap - slack, -1)) if one.size else 0
    assert np.all(gap[finite] <= slack[finite]), (
        f"{one.reshape(-1)[worst]!r} and {other.reshape(-1)[worst]!r} differ by more than "
        f"{rule.bound} epsilons"
    )


def _with_all(graph: Graph) -> Graph:
    """The graph with everything it computes as further outputs."""
    values = [value for node in graph.nodes for value in node.outputs]
    return graph.with_parts(outputs=[*graph.outputs, *values])


# --- cost ----------------------------------------------------------------------------------------

_FREE = ("constant", "broadcast_to")
_COSTS = {
    "power": 40, "negative": 0.5, "multiply": 2, "guarded_multiply": 3, "divide": 4, "sqrt": 4,
    "floor_divide": 8, "mod": 8, "fmod": 8, "fma": 2,
}  # fmt: skip
_FUNCTION, _FASTER = 12, 8
LEAST_WORK = 0.25
"""No operation that computes or moves something costs less."""
_RENAMING = 2**-10
"""Of a reshape, which moves nothing: less than anything that does."""
_CHEAP_POWERS = 8


def cost(graph: Graph) -> float:
    """How much there is to compute: constants and repeated elements are free."""
    sizes = _sizes(graph)
    return sum(_cost(node, sizes) for node in graph.nodes)


def _elements(value: Value, sizes: Mapping[str, int]) -> int:
    # An empty axis counts like any other: what there is to compute is asked in general.
    return int(np.prod([size_of(dim, sizes) or SIZE for dim in value.shape], dtype=int))


def _summed(node: Node) -> Dim:
    return node.inputs[0].shape[-2 if node.attrs["transpose_a"] else -1]


def _cost(node: Node, sizes: Mapping[str, int]) -> float:
    if node.op.name in _FREE:
        return 0
    if isinstance(node.op.lowering, Reshape):
        return _RENAMING
    touched = max(_elements(value, sizes) for value in (*node.inputs, *node.outputs))
    if isinstance(node.op.lowering, Contraction):
        touched = _elements(node.output, sizes) * size_of(_summed(node), sizes)
    weight = _COSTS.get(node.op.name, 1)
    if node.op.numerics == "R" and isinstance(node.op.lowering, (Pointwise, Decompose)):
        weight = max(weight, _FASTER if node.op in APPROXIMATE.values() else _FUNCTION)
    integers = not node.inputs or node.inputs[0].dtype.is_integer
    if node.op.name == "power" and integers:
        weight = _CHEAP_POWERS
    # one for the node itself, so that empty tensors count too
    return weight * (1 + touched)


def dtypes_of(rule: Rule) -> tuple[DType, ...]:
    """What the rule is tried with."""
    if rule.dtypes:
        return rule.dtypes
    return ALL if any(isinstance(e, DType) for e in rule.free.values()) else (float32,)
