"""Rules as identities in the user's own algebra, and how their left sides are found in a graph.

    rule("mul-one", lambda x: (x * 1, x))

Role: a rule's function is run once on symbols to record its left side as a pattern; where that
matches, it is run on the values found and its right side takes their place. Constants match by
dtype and bits (1.0 is not 1, 0.0 is not -0.0), commutative ops in both orders, attributes if they
are equal or named as free. Invariant: a match binds each name to one value throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from graphc.base.errors import VerifyError
from graphc.ir import attributes
from graphc.ir.attributes import Array, Attributes
from graphc.ir.builder import building, make_node
from graphc.ir.dtypes import ALL, DType, bool_
from graphc.ir.graph import UNKNOWN, Graph, Node, Provenance
from graphc.ir.op import OpDef
from graphc.ir.types import Shape, TensorType
from graphc.ir.value import Value
from graphc.ops.source import constant_op
from passes.rewriting.constants import Producer, known, new_constant, payload_array

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
        constants: parameters that match only constants; if there are some, the others match
            none. What the right side computes of nothing but single-element constants is computed
            when the rule fires.
        derived: parameters of the right side only: constants of the shape and dtype of the first
            of ``constants``, whose elements are computed from what ``when`` gets.
        shapes: the shapes that parameters have while the rule is recorded; ``()`` unless given.
            A match does not depend on them.
        free: parameters that stand for attributes, with an example each. An attribute of the left
            side that equals the example is free, so it must occur nowhere else in the left side.
        when: a further condition on the arguments, by parameter: values, the ``Known`` of
            ``constants``, and attributes.
        needs: flags of fast math without which the rule does not hold.
        exclusive: fires only if nothing outside of the match reads the inner nodes of the left
            side. For what saves a node only if these go.
        bound: how far the sides may differ, in epsilons of the dtype, relative to the larger of
            the results; for rules that change bits.
        domain: the interval in which ``bound`` holds, if not everywhere.
        samples: what tests try beside scalars: the shape of each parameter, the array of each
            constant, each free attribute.

    Raises:
        VerifyError: if it names parameters that the identity does not have, or is exclusive and
            yet changes bits: these would then depend on what else is fetched.
    """

    name: str
    identity: Identity
    numerics: Literal["E", "T"] = "E"
    dtypes: tuple[DType, ...] = ALL
    masks: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    derived: Mapping[str, Callable[..., Array]] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    free: Mapping[str, Any] = field(default_factory=dict)
    when: Callable[..., bool] | None = None
    needs: frozenset[Flag] = frozenset()
    exclusive: bool = False
    bound: float = 0.0
    domain: tuple[float, float] | None = None
    samples: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        named = {*self.masks, *self.constants, *self.derived, *self.shapes, *self.free}
        unknown = named.difference(self.parameters)
        if unknown:
            raise VerifyError(f"rule {self.name!r} has no parameter {', '.join(sorted(unknown))}")
        if self.exclusive and self.is_inexact:
            raise VerifyError(
                f"rule {self.name!r} changes bits and must not depend on who else reads a value"
            )

    @property
    def is_inexact(self) -> bool:
        """Whether it may change bits."""
        return self.numerics != "E" or bool(self.needs)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in the identity, in order."""
        code = cast(FunctionType, self.identity).__code__
        return code.co_varnames[: code.co_argcount]

    def symbols(self, dtype: DType) -> dict[str, Any]:
        """A symbol for each value, and the examples of the free attributes."""
        return {
            name: self.free[name]
            if name in self.free
            else Value(
                TensorType(bool_ if name in self.masks else dtype, self.shapes.get(name, ())), name
            )
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
    """Matches any value, the same one wherever it stands.

    Attributes:
        name: the parameter.
        constant: True for constants only, False for anything but constants.
    """

    name: str
    constant: bool | None = None


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
Element: TypeAlias = tuple[str, bytes]
"""The kind and the bits of a constant's only element, which tell its dtype too."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A rule's left side for one dtype.

    Attributes:
        rule: the rule.
        dtype: of the symbols.
        root: what is matched.
        last: the dtype that the last operand of a matching node has; None if the rule names no
            dtypes or a free attribute decides it: then the pattern is for all dtypes of the rule.
        result: the parameter that is the right side, None if that has to be built.
        generic: the same for every dtype of the rule.
        elements: the constants among the operands of the root.
    """

    rule: Rule
    dtype: DType
    root: Application
    last: DType | None
    result: str | None
    generic: bool
    elements: frozenset[Element]

    def of(self, dtype: DType) -> Pattern:
        """The pattern of the same rule for another of its dtypes."""
        if dtype is self.dtype or self.last is None:
            return self
        if not self.generic:
            return record(self.rule, dtype)
        last = dtype if self.last is self.dtype else self.last
        return replace(self, dtype=dtype, last=last)


def record(rule: Rule, dtype: DType) -> Pattern:
    """The pattern of a rule's left side.

    Raises:
        VerifyError: if the left side is not an application of an op, or a parameter does not
            stand in it.
    """
    symbols = rule.symbols(dtype)
    sketch = Sketch()
    with building(sketch):
        left, right = rule.identity(**symbols)
    names = {value: name for name, value in symbols.items() if isinstance(value, Value)}
    free = {attributes.key(example): name for name, example in rule.free.items()}
    if len(free) < len(rule.free):
        raise VerifyError(f"rule {rule.name!r} has one example for two free attributes")
    made: dict[Value, Operand] = {
        value: Variable(name, name in rule.constants if rule.constants else None)
        for value, name in names.items()
    }
    found: set[str] = set()
    generic = True
    for node in sketch.needed(left):
        if node.op is constant_op:
            made[node.output] = Constant(payload_array(node).reshape(()))
            generic = False
            continue
        # a complex dtype and that of its parts don't change by themselves
        if any(value.dtype.is_complex != dtype.is_complex for value in node.inputs):
            generic = False
        attrs: dict[str, Any] = {}
        for key, given in node.attrs.items():
            name = free.get(attributes.key(given)) if free else None
            attrs[key] = given if name is None else Free(name)
            if name is not None:
                found.add(name)
            elif isinstance(given, DType):
                generic = False
        found.update(names[value] for value in node.inputs if value in names)
        made[node.output] = Application(node.op, tuple(made[v] for v in node.inputs), attrs)
    root = made[left]
    if not isinstance(root, Application):
        raise VerifyError(f"the left side of rule {rule.name!r} is not an operation for {dtype}")
    missing = [name for name in symbols if name not in found and name not in rule.derived]
    if missing:
        raise VerifyError(
            f"the left side of rule {rule.name!r} does not have {', '.join(missing)} in it"
        )
    last = None
    if rule.dtypes and not any(isinstance(example, DType) for example in rule.free.values()):
        last = sketch.producers[left].inputs[-1].dtype
    elements = frozenset(
        element_key(operand.element) for operand in root.operands if isinstance(operand, Constant)
    )
    return Pattern(rule, dtype, root, last, names.get(right), generic, elements)


# --- matching ------------------------------------------------------------------------------------

Binding: TypeAlias = dict[str, Any]
Readers: TypeAlias = Callable[[Value], Sequence[Node] | None]
"""The nodes that read a value; None if others than nodes do."""

_INNER = ""
"""Under this key a binding holds the inner values of the match; no parameter is called so."""


def match(pattern: Pattern, node: Node, producer: Producer, readers: Readers) -> Binding | None:
    """The arguments under which the node is the rule's left side, None if there are none."""
    rule = pattern.rule
    for binding in _application(pattern.root, node, producer, {}):
        inner = binding.pop(_INNER, ())
        if not _has_dtype(pattern, binding):
            continue
        if rule.when is not None and not rule.when(**arguments_of(rule, binding, producer)):
            continue
        if not rule.exclusive or _is_closed(node, inner, readers):
            return binding
    return None


def _has_dtype(pattern: Pattern, binding: Binding) -> bool:
    """Whether the symbols have the dtype that the pattern is for."""
    rule = pattern.rule
    if not rule.dtypes:
        return True
    wanted = rule.dtypes if pattern.last is None else (pattern.dtype,)
    return all(
        (value.dtype is bool_ if name in rule.masks else value.dtype in wanted)
        for name, value in binding.items()
        if name not in rule.free
    )


def arguments_of(rule: Rule, binding: Binding, producer: Producer) -> Binding:
    """What a rule's conditions get: values, what is known of its constants, and attributes."""
    if not rule.constants:
        return binding
    return {
        name: known(value, producer) if name in rule.constants else value
        for name, value in binding.items()
    }


def complete(rule: Rule, binding: Binding, producer: Producer) -> Binding:
    """The arguments of the identity: the binding, and what is derived from it, built as constants.

    To be called while a builder is current.
    """
    if not rule.derived:
        return binding
    given = arguments_of(rule, binding, producer)
    like: Value = binding[rule.constants[0]]
    result = dict(binding)
    for name, compute in rule.derived.items():
        array = np.asarray(compute(**given), like.dtype.numpy)
        result[name] = new_constant(array, like.shape)
    return result


def _is_closed(root: Node, inner: Sequence[Value], readers: Readers) -> bool:
    """Whether nothing outside of the match reads its inner values."""
    inside = {root.outputs[0], *inner}
    for value in inner:
        found = readers(value)
        if found is None or any(node.outputs[0] not in inside for node in found):
            return False
    return True


def _application(
    pattern: Application, node: Node, producer: Producer, binding: Binding
) -> Iterator[Binding]:
    """All ways to match; as deep as the pattern is, never as deep as the graph."""
    if node.op is not pattern.op or len(node.inputs) != len(pattern.operands):
        return
    bound: Binding | None = binding
    if pattern.attrs or node.attrs:
        bound = _attributes(pattern.attrs, node.attrs, binding)
    if bound is None:
        return
    yield from _operands(pattern.operands, node.inputs, producer, bound)
    if node.op.algebra.commutative and len(node.inputs) == 2:
        yield from _operands(pattern.operands, node.inputs[::-1], producer, bound)


def _attributes(wanted: Mapping[str, Any], given: Attributes, binding: Binding) -> Binding | None:
    if wanted.keys() != given.keys():
        return None
    bound = dict(binding)
    for name, value in wanted.items():
        if isinstance(value, Free):
            value = bound.setdefault(value.name, given[name])
            if value is given[name]:
                continue
        if attributes.key(value) != attributes.key(given[name]):
            return None
    return bound


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
        if binding.setdefault(pattern.name, value) is value and (
            pattern.constant is None
            or pattern.constant is (known(value, producer) is not None)
        ):
            yield binding
    elif isinstance(pattern, Constant):
        found = known(value, producer)
        if found is not None and found.single and (
            element_key(found.array) == element_key(pattern.element)
        ):
            yield binding
    else:
        node = producer(value)
        if node is not None and node.outputs[0] is value:
            binding[_INNER] = (*binding.get(_INNER, ()), value)
            yield from _application(pattern, node, producer, binding)


def element_key(array: Array) -> Element:
    """Equal for arrays of one element with equal dtypes and bits."""
    return array.dtype.kind, array.tobytes()
