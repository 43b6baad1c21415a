"""Rules as identities in the user's own algebra, and how their left sides are found in a graph.

    rule("mul-one", lambda x: (x * 1, x))

Role: a rule's function is run once on symbols to record its left side as a pattern; where that
matches, it is run on the values found and its right side takes their place. Constants match by
dtype and bits (1.0 is not 1, 0.0 is not -0.0), commutative ops in both orders, attributes if they
are equal or named as free. Invariant: a match binds each name to one value throughout.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from graphc.base.errors import VerifyError
from graphc.ir import attributes
from graphc.ir.attributes import Array, Attributes
from graphc.ir.builder import building, make_node
from graphc.ir.dtypes import ALL, DType, bool_
from graphc.ir.graph import UNKNOWN, Graph, Node, Provenance
from graphc.ir.op import OpDef
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.source import constant_op
from passes.constants import Producer, known, payload_array

Identity: TypeAlias = Callable[..., tuple[Value, Value]]
Flag: TypeAlias = Literal["nnan", "ninf", "nsz", "reassoc", "contract", "approx"]


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """An identity.

    Attributes:
        name: unique; decisions and provenance bear it.
        identity: gives the left and the right side for its parameters.
        numerics: E keeps all bits, T may change them within a bound.
        dtypes: what the symbols may be; without any the rule holds whatever they are.
        masks: parameters that are bool whatever the dtype.
        free: parameters that stand for attributes, with an example each. Every attribute of the
            left side that is the very object given as example is free.
        when: a further condition on the arguments, by parameter.
        needs: flags of fast math without which the rule does not hold.
    """

    name: str
    identity: Identity
    numerics: Literal["E", "T"] = "E"
    dtypes: tuple[DType, ...] = ALL
    masks: tuple[str, ...] = ()
    free: Mapping[str, Any] = field(default_factory=dict)
    when: Callable[..., bool] | None = None
    needs: frozenset[Flag] = frozenset()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in the identity, in order."""
        return tuple(inspect.signature(self.identity).parameters)

    def symbols(self, dtype: DType) -> dict[str, Any]:
        """A scalar symbol for each value, and the examples of the free attributes."""
        return {
            name: self.free[name]
            if name in self.free
            else Value(TensorType(bool_ if name in self.masks else dtype, ()), name)
            for name in self.parameters
        }


def rule(name: str, identity: Identity, **details: Any) -> Rule:
    """A rule; see ``Rule`` for the details."""
    return Rule(name, identity, **details)


# --- recording -----------------------------------------------------------------------------------


class Sketch:
    """A builder whose nodes belong to no graph until somebody enters those he needs."""

    def __init__(self, provenance: Provenance = UNKNOWN) -> None:
        self._provenance = provenance
        self.producers: dict[Value, Node] = {}

    def add(
        self,
        op: OpDef,
        inputs: Sequence[Value],
        attrs: Attributes,
        regions: Sequence[Graph] = (),
        name: str | None = None,
    ) -> Node:
        """Makes a node."""
        node = make_node(op, inputs, attrs, regions, self._provenance, name=name)
        for value in node.outputs:
            self.producers[value] = node
        return node

    def home(self, inputs: Sequence[Value]) -> Sketch:
        """While a sketch is current it gets every node."""
        return self

    def needed(self, root: Value) -> list[Node]:
        """The nodes that make the value, producers first."""
        found: dict[Value, None] = {}
        stack = [root]
        while stack:
            node = self.producers.get(stack.pop())
            if node is not None:
                found[node.outputs[0]] = None
                stack.extend(node.inputs)
        return [node for value, node in self.producers.items() if value in found]


# --- patterns ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """Matches any value, the same one wherever it stands."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """Matches a constant that repeats this element; the bits count."""

    element: Array


@dataclass(frozen=True, slots=True)
class Free:
    """Matches any attribute, the same one wherever it stands."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """Matches an application of the op to what its operands match."""

    op: OpDef
    operands: tuple[Operand, ...]
    attrs: Mapping[str, Any]


Operand: TypeAlias = Variable | Constant | Application


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A rule's left side for one dtype.

    Attributes:
        rule: the rule.
        dtype: of the symbols.
        root: what is matched.
        last: the dtype that the last operand of a matching node has.
        result: the parameter that is the right side, None if that has to be built.
    """

    rule: Rule
    dtype: DType
    root: Application
    last: DType
    result: str | None


def record(rule: Rule, dtype: DType) -> Pattern:
    """The pattern of a rule's left side.

    Raises:
        VerifyError: if the left side is not an application of an op.
    """
    symbols = rule.symbols(dtype)
    sketch = Sketch()
    with building(sketch):
        left, right = rule.identity(**symbols)
    names = {value: name for name, value in symbols.items() if isinstance(value, Value)}
    made: dict[Value, Operand] = {value: Variable(name) for value, name in names.items()}
    for value, node in sketch.producers.items():
        if node.op is constant_op:
            made[value] = Constant(payload_array(node).reshape(()))
            continue
        attrs = {
            key: next((Free(n) for n, example in rule.free.items() if given is example), given)
            for key, given in node.attrs.items()
        }
        made[value] = Application(node.op, tuple(made[v] for v in node.inputs), attrs)
    root = made[left]
    if not isinstance(root, Application):
        raise VerifyError(f"the left side of rule {rule.name!r} is not an operation for {dtype}")
    last = sketch.producers[left].inputs[-1].dtype
    return Pattern(rule, dtype, root, last, names.get(right))


# --- matching ------------------------------------------------------------------------------------

Binding: TypeAlias = dict[str, Any]


def match(pattern: Pattern, node: Node, producer: Producer) -> Binding | None:
    """The arguments under which the node is the rule's left side, None if there are none."""
    for binding in _application(pattern.root, node, producer, {}):
        if pattern.rule.when is None or pattern.rule.when(**binding):
            return binding
    return None


def _application(
    pattern: Application, node: Node, producer: Producer, binding: Binding
) -> Iterator[Binding]:
    """All ways to match; as deep as the pattern is, never as deep as the graph."""
    if node.op is not pattern.op or len(node.inputs) != len(pattern.operands):
        return
    bound = _attributes(pattern.attrs, node.attrs, binding)
    if bound is None:
        return
    yield from _operands(pattern.operands, node.inputs, producer, bound)
    if node.op.algebra.commutative and len(node.inputs) == 2:
        yield from _operands(pattern.operands, node.inputs[::-1], producer, bound)


def _attributes(wanted: Mapping[str, Any], given: Attributes, binding: Binding) -> Binding | None:
    if wanted.keys() != given.keys():
        return None
    for name, value in wanted.items():
        if isinstance(value, Free):
            bound = binding.setdefault(value.name, given[name])
            if bound is given[name]:
                continue
            value = bound
        if attributes.key(value) != attributes.key(given[name]):
            return None
    return binding


def _operands(
    patterns: Sequence[Operand], values: Sequence[Value], producer: Producer, binding: Binding
) -> Iterator[Binding]:
    if not patterns:
        yield binding
        return
    for bound in _operand(patterns[0], values[0], producer, dict(binding)):
        yield from _operands(patterns[1:], values[1:], producer, bound)


def _operand(
    pattern: Operand, value: Value, producer: Producer, binding: Binding
) -> Iterator[Binding]:
    if isinstance(pattern, Variable):
        if binding.setdefault(pattern.name, value) is value:
            yield binding
    elif isinstance(pattern, Constant):
        found = known(value, producer)
        if found is not None and found.single and _same_element(found.array, pattern.element):
            yield binding
    else:
        node = producer(value)
        if node is not None and node.outputs[0] is value:
            yield from _application(pattern, node, producer, binding)


def _same_element(array: Array, element: Array) -> bool:
    """Equal dtypes and bits."""
    return array.dtype == element.dtype and np.asarray(array).tobytes() == element.tobytes()
