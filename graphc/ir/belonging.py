"""Which graph a value is of, as errors say it, and what to do with one of another graph."""

from __future__ import annotations

from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.ir.builder import default
from graphc.ir.value import Value


def origin(value: Value) -> str:
    """The graph of a value and the line it was built at, as errors name them."""
    graph = value.graph
    if graph is None:
        return "no graph of a user"
    node = graph.producer(value)
    where = node.provenance.where if node is not None else None
    return f"graph {graph.name!r}" + (f", built at {where}" if where is not None else "")


def how_to_join(recorder: object, other: object) -> str:
    """How two graphs that meet in an operation could have been one."""
    if default() is recorder or default() is other:
        return _JOINS
    return "build all operands of an operation in one graph"


def how_to_run(value: Value) -> str:
    """What to do with a value that a session of another graph is given."""
    graph = value.graph
    if graph is not None and graph.parent is not None:
        return _RETURN_IT
    if default() is graph:
        return f"{_JOINS} or make a session of the default graph"
    return "make a session of the graph the value was built in, gx.Session(value.graph)"


_RETURN_IT = (
    "return it from the function given to gx.cond or gx.while_loop and use what those give back"
)
_JOINS = (
    "what has no operands, as gx.placeholder or gx.zeros, joins the graph that is entered, "
    "or else the default graph: build all inside of one 'with graph:'"
)


def leaked(value: Value) -> GraphError:
    """The error for a value of a region that is used where the region has not been entered."""
    label = f"{value.name!r} " if value.name is not None else ""
    return GraphError(
        f"value {label}of type {value.type} is of {origin(value)}, a branch or loop body that "
        "does not enclose this operation: outside of it there is no such value",
        where=caller(),
        hint=_RETURN_IT,
    )
