"""The reference interpreter: evaluates a graph in NumPy, one node after the other.

Role: the meaning that compiled code is compared with, and the folding of exact ops. It is slow and
simple. Invariant: an op is evaluated by its own ``reference``, coarse ops whole; dims in attributes
are numbers by then, bound from the shapes of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from graphc.base.errors import FeedError, GraphcError, ShapeError, UnsupportedError, VerifyError
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import DimExpr, is_symbol, symbol_name, symbols_of
from graphc.ir.dims.expressions import evaluate as evaluate_dim
from graphc.ir.graph import Graph, Node
from graphc.ir.guard import without_guards
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.scalar import cast
from graphc.ops.control import cond_op, while_op
from graphc.ops.fused import fused_op
from graphc.ops.narrow_floats import computes_narrow

Alter: TypeAlias = Callable[[Node, Sequence[Array], list[Array], Mapping[str, int]], list[Array]]
"""Gives what is used in place of results: of the node, its operands, its results and the sizes."""


class OutOfBudget(GraphcError):
    """An evaluation touches more elements than it was allowed to."""


class Budget:
    """How many elements an evaluation may still make; a node counts as ``LEAST`` at least."""

    LEAST = 100

    __slots__ = ("left",)

    def __init__(self, elements: int) -> None:
        self.left = elements

    def spend(self, arrays: Sequence[Array]) -> None:
        """Takes off what a node made.

        Raises:
            OutOfBudget: if nothing is left.
        """
        self.left -= max(self.LEAST, sum(array.size for array in arrays))
        if self.left < 0:
            raise OutOfBudget("the evaluation takes too long")


def bind_dims(
    types: Sequence[TensorType],
    arrays: Sequence[Array],
    known: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """The sizes of the symbols that the types mention, read off the arrays' shapes.

    Dims that are sums and products of symbols are checked where all their symbols are bound.

    Args:
        types: one type per array.
        arrays: what is fed.
        known: sizes bound already, as of an enclosing graph.

    Raises:
        FeedError: for a wrong number of axes.
        ShapeError: if two sizes disagree, naming both places.
    """
    sizes = dict(known or {})
    seen: dict[str, str] = {name: "the enclosing graph" for name in sizes}
    compound: list[tuple[DimExpr, int, str]] = []
    for position, (type_, array) in enumerate(zip(types, arrays, strict=True)):
        if array.ndim != type_.rank:
            raise FeedError(
                f"input {position} has shape {list(array.shape)}, but {type_} has rank {type_.rank}"
            )
        for axis, (dim, size) in enumerate(zip(type_.shape, array.shape, strict=True)):
            place = f"axis {axis} of input {position}"
            if isinstance(dim, int):
                if dim != size:
                    raise ShapeError(f"{place} has size {size}, but its type {type_} says {dim}")
            elif is_symbol(dim):
                name = symbol_name(dim)
                if sizes.setdefault(name, size) != size:
                    raise ShapeError(
                        f"dim {name!r} is {sizes[name]} in {seen[name]} but {size} in {place}"
                    )
                seen.setdefault(name, place)
            else:
                compound.append((dim, size, place))
    for dim, size, place in compound:
        names = {symbol_name(part) for part in symbols_of(dim)}
        if names <= sizes.keys() and evaluate_dim(dim, sizes) != size:
            shown = ", ".join(f"{name} = {sizes[name]} from {seen[name]}" for name in sorted(names))
            expected = evaluate_dim(dim, sizes)
            raise ShapeError(f"{place} has size {size}, but its dim {dim} is {expected} ({shown})")
    return sizes


def resolve(attribute: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute with its dims, also those inside tuples, as numbers."""
    if isinstance(attribute, DimExpr):
        return evaluate_dim(attribute, sizes)
    if isinstance(attribute, tuple):
        return tuple(resolve(item, sizes) for item in attribute)
    return attribute


def evaluate(
    graph: Graph,
    inputs: Sequence[Any] | Mapping[Value, Any],
    sizes: Mapping[str, int] | None = None,
    budget: Budget | None = None,
    alter: Alter | None = None,
) -> tuple[Array, ...]:
    """The outputs of a graph for given inputs.

    Args:
        graph: any valid graph.
        inputs: arrays in the order of ``graph.inputs``, or by value; given by value, any value of
            the graph may be fed and its node is then not evaluated.
        sizes: sizes of symbols bound already, as of an enclosing graph.
        budget: how much may be computed, loops included; without one there is no end to a loop
            that has none.
        alter: gives what is used in place of the results on the way.

    Raises:
        FeedError: if inputs are missing.
        ShapeError: if sizes disagree.
        OutOfBudget: if the budget does not suffice.
        UnsupportedError: for control flow that is not known here.
    """
    values = _bound(graph, inputs)
    known = bind_dims([value.type for value in values], list(values.values()), sizes)
    _check_guards(graph, known)
    for node in graph.nodes:
        if all(value in values for value in node.outputs):
            continue
        operands = [values[value] for value in node.inputs]
        results = evaluate_node(node, operands, known, budget, alter)
        values.update(zip(node.outputs, results, strict=True))
    return tuple(values[value] for value in graph.outputs)


def _check_guards(graph: Graph, sizes: Mapping[str, int]) -> None:
    """What the graph needs of sizes, before anything is computed."""
    for guard in graph.guards:
        failure = guard.failure(sizes)
        if failure is not None:
            raise failure


def _bound(graph: Graph, inputs: Sequence[Any] | Mapping[Value, Any]) -> dict[Value, Array]:
    if isinstance(inputs, Mapping):
        missing = [value for value in graph.inputs if value not in inputs]
        if missing:
            shown = ", ".join(value.name or str(value.type) for value in missing)
            raise FeedError(f"graph {graph.name!r} is not given {shown}")
        return {value: np.asarray(array) for value, array in inputs.items()}
    if len(inputs) != len(graph.inputs):
        raise FeedError(
            f"graph {graph.name!r} takes {len(graph.inputs)} inputs and is given {len(inputs)}"
        )
    return {value: np.asarray(array) for value, array in zip(graph.inputs, inputs, strict=True)}


def evaluate_node(
    node: Node,
    arrays: Sequence[Array],
    sizes: Mapping[str, int],
    budget: Budget | None = None,
    alter: Alter | None = None,
) -> list[Array]:
    """The outputs of one node, checked against its dtypes and ranks.

    Raises:
        ShapeError: for arrays whose sizes don't fit.
        VerifyError: for results that are not of the node's types.
        GraphcError: whatever else the op refuses.
    """
    try:
        results = _results(node, arrays, sizes, budget, alter)
        if budget is not None:
            budget.spend(results)
    except GraphcError as error:
        error.where = error.where or node.provenance.where
        error.node = error.node or repr(node)
        raise
    except ValueError as error:
        # NumPy's own complaint
        raise ShapeError(str(error), where=node.provenance.where, node=repr(node)) from error
    for value, array in zip(node.outputs, results, strict=True):
        if array.dtype != value.dtype.numpy or array.ndim != value.ndim:
            raise VerifyError(
                f"the reference of {node.op.name} gives {array.dtype}{list(array.shape)}, but its "
                f"type is {value.type}",
                where=node.provenance.where,
                node=repr(node),
            )
    return results if alter is None or node.regions else alter(node, arrays, results, sizes)


def _results(
    node: Node,
    arrays: Sequence[Array],
    sizes: Mapping[str, int],
    budget: Budget | None,
    alter: Alter | None,
) -> list[Array]:
    if node.op is fused_op:
        return list(evaluate(node.regions[0], arrays, sizes, budget, alter))
    if node.op is cond_op:
        predicate, *operands = arrays
        chosen = node.regions[0 if predicate else 1]
        return list(evaluate(chosen, operands, sizes, budget, alter))
    if node.op is while_op:
        return _loop(node, arrays, sizes, budget, alter)
    if node.regions:
        raise UnsupportedError(f"the interpreter does not know the control flow of {node.op.name}")
    given = without_guards(node.attrs).items()
    attrs = {name: resolve(attribute, sizes) for name, attribute in given}
    narrow = computes_narrow(node)
    if narrow:
        arrays = [
            cast(array, value.dtype.computed)
            for array, value in zip(arrays, node.inputs, strict=True)
        ]
    results = node.op.reference(*arrays, **attrs)
    if not isinstance(results, tuple):
        results = (results,)
    if narrow:
        return [
            cast(result, value.dtype)
            for result, value in zip(results, node.outputs, strict=True)
        ]
    return [np.asarray(result) for result in results]


def _loop(
    node: Node,
    arrays: Sequence[Array],
    sizes: Mapping[str, int],
    budget: Budget | None,
    alter: Alter | None,
) -> list[Array]:
    """Condition and body take the carried values, then what they capture."""
    condition, body = node.regions
    carried = list(arrays[: len(node.outputs)])
    captured = list(arrays[len(node.outputs) :])
    while bool(evaluate(condition, [*carried, *captured], sizes, budget, alter)[0]):
        carried = list(evaluate(body, [*carried, *captured], sizes, budget, alter))
    return carried
