"""The invariants of the graph IR, checked.

A graph that passes is in topological order with one producer for every value, its regions are
isolated, its attributes are plain data, and every type is what the op's rule infers.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache
from typing import Any, NoReturn

import numpy as np

from graphc.base.errors import GraphcError, VerifyError
from graphc.ir import attributes
from graphc.ir.attributes import Attributes, Payload
from graphc.ir.builder import infer, infer_with_regions
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim, DimExpr
from graphc.ir.dtypes import DType
from graphc.ir.graph import Graph, Node
from graphc.ir.host import HostFunction
from graphc.ir.op import OpDef
from graphc.ir.text.printer import MAXIMUM_NESTING, symbols_in
from graphc.ir.types import TensorType
from graphc.ir.value import Value

# What a type rule, written for right arguments, raises for wrong ones.
_TRIPPED = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError,
)  # fmt: skip


def infer_types(
    op: OpDef, inputs: Sequence[Value], attrs: Attributes, regions: Sequence[Graph]
) -> tuple[TensorType, ...]:
    """What the op's type rule gives, for arguments that may be wrong in any way.

    Raises:
        GraphcError: the rule's own, or a VerifyError where the rule trips over what it was given.
    """
    problem = call_problem(op, len(inputs), attrs)
    if problem is not None:
        raise VerifyError(problem)
    try:
        if regions or op.effect == "control":
            return infer_with_regions(op, inputs, attrs, regions)
        return infer(op, inputs, attrs)
    except GraphcError:
        raise
    except KeyError as error:
        raise VerifyError(f"{op.name} lacks the attribute {error}") from error
    except _TRIPPED as error:
        raise VerifyError(
            f"{op.name} does not take these operands and attributes: {error}"
        ) from error


def call_problem(op: OpDef, count: int, attrs: Mapping[str, Any]) -> str | None:
    """Why the op can't take that many operands, judged by the signature of its reference."""
    if op.effect != "pure":
        return None
    reference: Callable[..., Any] = op.reference
    if isinstance(reference, np.ufunc):
        if count == reference.nin:
            return None
        return f"{op.name} takes {reference.nin} operands, not {count}"
    signature = _signature(reference)
    if signature is None:
        return None
    known = {name: value for name, value in attrs.items() if name in signature.parameters}
    try:
        signature.bind(*[None] * count, **known)
    except TypeError as error:
        return f"{op.name} with {count} operands: {error}"
    return None


@cache
def _signature(reference: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(reference)
    except (TypeError, ValueError):
        return None


def is_plain(value: Any, depth: int = 0) -> bool:
    """True for what an attribute may be: immutable data of exactly the types the text form has."""
    if isinstance(value, tuple):
        return depth < MAXIMUM_NESTING and all(is_plain(item, depth + 1) for item in value)
    return (
        value is None
        or isinstance(value, (float, DType, DimExpr, HostFunction, Payload))
        or type(value) in (bool, int, str)
    )


class _Checker:
    """Checks one graph; the sets are the values of the graphs around it, innermost last."""

    def __init__(self, graph: Graph, path: str, around: tuple[Set[Value], ...]) -> None:
        self.graph = graph
        self.path = path
        self.around = around
        self.defined: set[Value] = set()
        self.own: set[Value] | None = None

    def fail(self, reason: str, node: Node | None = None, position: int = 0) -> NoReturn:
        if node is None:
            raise VerifyError(f"{self.path}: {reason}")
        raise VerifyError(
            f"{self.path}, node {position} ({node.op.name}): {reason}",
            where=node.provenance.where,
            node=repr(node),
        )

    def values(self) -> set[Value]:
        """All values of this graph."""
        if self.own is None:
            self.own = set(self.graph.inputs)
            for node in self.graph.nodes:
                self.own.update(node.outputs)
        return self.own

    def define(self, value: Value, node: Node | None = None, position: int = 0) -> None:
        label = f"value {value!r}"
        if value in self.defined:
            kind = "is an input" if any(v is value for v in self.graph.inputs) else "has a producer"
            self.fail(f"{label} {kind} already", node, position)
        if any(value in outer for outer in self.around):
            self.fail(f"{label} belongs to a graph around this region too", node, position)
        self.defined.add(value)

    def check_read(self, value: Value, node: Node, position: int) -> None:
        if value in self.defined:
            return
        if any(value in outer for outer in self.around):
            reason = "of a graph around this region; regions take such values as inputs"
        elif value in self.values():
            reason = "before it is defined"
        else:
            reason = "that nothing defines"
        self.fail(f"reads the value {value!r} {reason}", node, position)

    def check_node(self, node: Node, position: int) -> None:
        for value in node.inputs:
            self.check_read(value, node, position)
        if not node.outputs:
            self.fail("a node has at least one output", node, position)
        for name, value in node.attrs.items():
            if not isinstance(name, str) or not is_plain(value):
                self.fail(f"attribute {name!r} is not plain immutable data", node, position)
        hash(attributes.keys(node.attrs))
        try:
            expected = infer_types(node.op, node.inputs, node.attrs, node.regions)
        except GraphcError as error:
            raise VerifyError(
                f"{self.path}, node {position} ({node.op.name}): {error.message}",
                where=node.provenance.where,
                node=repr(node),
            ) from error
        if [value.type for value in node.outputs] != list(expected):
            stated = ", ".join(str(value.type) for value in node.outputs)
            rule = ", ".join(map(str, expected))
            self.fail(f"its outputs are {stated}, the type rule says {rule}", node, position)
        for value in node.outputs:
            self.define(value, node, position)


def _check_symbols(graph: Graph) -> None:
    """One name has one pair of bounds, and regions know no symbol that the graph does not."""
    symbols = symbols_in(graph)
    for first, second in itertools.pairwise(symbols):
        if expressions.symbol_name(first) == expressions.symbol_name(second):
            raise VerifyError(
                f"graph {graph.name!r}: symbol {first} has bounds {expressions.bounds(first)} "
                f"and {expressions.bounds(second)}"
            )
    if not any(node.regions for node in graph.nodes):
        return
    bare = [
        Node(node.op, node.inputs, node.attrs, node.outputs, (), node.provenance)
        for node in graph.nodes
    ]
    known = set(symbols_in(graph.with_parts(nodes=bare)))
    for symbol in symbols:
        if symbol not in known:
            raise VerifyError(
                f"graph {graph.name!r}: symbol {symbol} occurs inside a region only, "
                "so nothing tells its value"
            )


def _check_extents(graph: Graph) -> None:
    seen: set[Dim] = set()
    for values in (graph.inputs, *(node.outputs for node in graph.nodes)):
        for value in values:
            for dim in value.type.shape:
                if dim in seen:
                    continue
                seen.add(dim)
                upper = expressions.bounds(dim)[1]
                if upper is not None and upper < 0:
                    raise VerifyError(f"graph {graph.name!r}: {value!r} has the extent {dim} < 0")


def verify(graph: Graph) -> None:
    """Checks a graph and its regions.

    Raises:
        VerifyError: names the node and what is wrong with it.
    """
    _check_symbols(graph)
    pending = [_Checker(graph, f"graph {graph.name!r}", ())]
    while pending:
        checker = pending.pop()
        current = checker.graph
        if len(checker.around) > MAXIMUM_NESTING:
            checker.fail(f"regions are nested more than {MAXIMUM_NESTING} deep")
        _check_extents(current)
        for value in current.inputs:
            checker.define(value)
        for position, node in enumerate(current.nodes):
            checker.check_node(node, position)
            for place, region in enumerate(node.regions):
                path = f"{checker.path}, node {position} ({node.op.name}), region {place}"
                around = (*checker.around, checker.values())
                pending.append(_Checker(region, path, around))
        for value in current.outputs:
            if value not in checker.defined:
                checker.fail(f"the output {value!r} is not defined")
