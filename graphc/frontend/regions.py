"""Tracing functions of users into regions: branches, bodies of loops, rules of gradients.

A region captures values of the graph around it; captures become explicit operands. Variables that
a region assigns are carried in and out as further values, and the write is repeated outside, so the
enclosing graph sees an ordinary assignment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.base.words import plural, shown
from graphc.compiling.extraction import demanded, needed, parted, required, without_assignments
from graphc.frontend.state import Variable, latest_value
from graphc.frontend.structure import filled
from graphc.ir.builder import apply_node, builder_for, building
from graphc.ir.graph import Graph, Node
from graphc.ir.op import OpDef
from graphc.ir.recorder import Recorder, current_recorder
from graphc.ir.text.printer import MAXIMUM_NESTING
from graphc.ir.value import Value
from graphc.ops.state import assign_op

DEEPEST = MAXIMUM_NESTING - 1
"""Branches and loops may be nested so deep; in the innermost there are the bodies of kernels."""


def check_callable(what: str, **functions: Any) -> None:
    """Refuses what is built already: branches and bodies are built when they are traced."""
    for name, function in functions.items():
        if not callable(function):
            raise GraphError(
                f"the {name} of {what} is {shown(function)}, not a function",
                where=caller(),
                hint="give a function that builds it, as lambda: x * 2",
            )


def called(function: Callable[..., Any], arguments: Sequence[Any], what: str) -> Any:
    """What a branch or body gives.

    Raises:
        GraphError: for a function that does not take the arguments, before it is called.
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise GraphError(
            f"{what} is called with {plural(len(arguments), 'argument')}: {error}",
            where=caller(),
            hint="a list or tuple of loop variables is passed as arguments of their own, as to "
            "lambda i, x: ..."
            if arguments
            else "branches take no arguments; they read the values around them, as lambda: x * 2",
        ) from None
    except ValueError:
        pass  # a builtin that does not tell its parameters
    return function(*arguments)


def outer_recorder(*values: Value) -> Recorder:
    """The recorder that the control-flow node joins."""
    builder = builder_for(values)
    return builder if isinstance(builder, Recorder) else current_recorder()


class TracedRegion(Recorder):
    """A region being traced, with the structure its function gave.

    Attributes:
        loops: whether variables come in as carried values of a loop; a branch captures them.
    """

    structure: Any = None
    loops: bool = False

    def __init__(self, name: str, parent: Recorder) -> None:
        """Raises GraphError where branches and loops are nested too deep."""
        super().__init__(name, parent)
        self.depth: int = 1 + (parent.depth if isinstance(parent, TracedRegion) else 0)
        if self.depth > DEEPEST:
            raise GraphError(
                f"branches and loops are nested more than {DEEPEST} deep",
                where=caller(),
                hint="choose among many cases with gx.where, or with gx.take from a stack of them; "
                "what is repeated is a gx.while_loop",
            )


def loop_region(
    outer: Recorder, label: str, start: Sequence[Value]
) -> tuple[TracedRegion, list[Value]]:
    """A region of a loop, and its variables, of the types of their first values."""
    region = TracedRegion(label, outer)
    region.loops = True
    variables = [Value(value.type, value.name, region) for value in start]
    return region, variables


def arguments_like(init: Any, variables: Sequence[Value]) -> list[Any]:
    """Values as a function gets them: those of a list or tuple are arguments of their own."""
    shaped = filled(init, variables)
    return list(shaped) if isinstance(init, (list, tuple)) else [shaped]


def written_in(regions: Any) -> list[Value]:
    """Variables that regions assign, each once."""
    found: dict[Value, None] = {}
    for region in regions:
        for variable, carried in region.carried.items():
            if region.latest[variable] is not carried:
                found[variable] = None
    return list(found)


def variables_among(written: Iterable[Value]) -> list[Value]:
    """What is written, without the token of the order."""
    return [value for value in written if isinstance(value, Variable)]


def state_in(recorder: Recorder, variable: Value) -> Value:
    """A variable's latest value in a recorder, carried into regions."""
    return latest_value(recorder, variable)


def carried_into(region: Recorder, variable: Value) -> Value:
    state_in(region, variable)
    return region.carried[variable]


def captures_of(outer: Recorder, regions: Sequence[TracedRegion]) -> list[Value]:
    """Outer values that any region reads, each once, variables' current values included."""
    found: dict[Value, None] = {}
    for region in regions:
        for value in region.captures:
            found[outer.local(value)] = None
        if not region.loops:
            for variable in region.carried:
                found[state_in(outer, variable)] = None
    return list(found)


def frozen(
    region: TracedRegion,
    carried: Sequence[Value],
    captures: Sequence[Value],
    outputs: Sequence[Value],
) -> Graph:
    """The region as a graph over carried values and all captures, those it does not read too."""
    outer = region.parent
    assert outer is not None
    inner = {outer.local(value): local for value, local in region.captures.items()}
    aliases: dict[Value, Value] = {}
    if not region.loops:
        for variable, local in region.carried.items():
            source = state_in(outer, variable)
            if source in inner:
                aliases[local] = inner[source]
            else:
                inner[source] = local
    inputs = [*carried, *(inner[v] if v in inner else Value(v.type, v.name) for v in captures)]
    nodes, stands_for = without_assignments(needed(region, outputs, ()))
    resolved = [stands_for.get(value, value) for value in outputs]
    nodes += demanded(nodes, resolved, required(region, nodes, stands_for))
    if aliases:
        nodes = [_renamed(node, aliases) for node in nodes]
        resolved = [aliases.get(value, value) for value in resolved]
    bare, guards = parted(region, nodes)
    return Graph(region.name, inputs, bare, resolved, guards)


def _renamed(node: Node, aliases: dict[Value, Value]) -> Node:
    inputs = tuple(aliases.get(value, value) for value in node.inputs)
    return Node(node.op, inputs, node.attrs, node.outputs, node.regions, node.provenance)


def add_node(
    outer: Recorder,
    op: OpDef,
    operands: Sequence[Value],
    attrs: dict[str, Any],
    regions: Sequence[Graph],
    name: str | None,
) -> Node:
    """A node with regions, in a recorder."""
    with building(outer):
        return apply_node(op, operands, attrs, regions, name)


def require_outside(outer: Recorder, node: Node, regions: Sequence[Recorder]) -> None:
    """What nodes inside require of the graph around runs whenever the whole node does."""
    for region in regions:
        for values in region.requires.values():
            around = [value for value in values if value.graph is not region]
            if around:
                outer.require(node.outputs[0], around)


def write_outside(outer: Recorder, node: Node, written: Sequence[Value], first: int) -> None:
    """Repeats the regions' assignments in the graph around, whenever the node runs.

    The token of their last effect is that of the node.
    """
    for position, variable in enumerate(written):
        value = node.outputs[first + position]
        if not isinstance(variable, Variable):
            outer.written[value] = variable
            outer.latest[variable] = value
            outer.require(node.outputs[0], (value,))
            continue
        assignment = outer.add(assign_op, (state_in(outer, variable), value), {})
        outer.written[assignment.output] = variable
        outer.latest[variable] = assignment.output
        outer.require(node.outputs[0], (assignment.output,))
