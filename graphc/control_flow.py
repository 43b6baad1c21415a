"""``cond`` and ``while_loop``: tracing branches and bodies into regions.

A region captures values of the graph around it; captures become explicit operands. Variables that
a region assigns are carried in and out as further values, and the write is repeated outside, so the
enclosing graph sees an ordinary assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.base.errors import GraphError, ShapeError
from graphc.base.source import caller
from graphc.extract import needed, without_assignments
from graphc.ir.builder import apply_node, builder_for, building
from graphc.ir.graph import Graph, Node
from graphc.ir.op import OpDef
from graphc.ir.recorder import Recorder, current_recorder
from graphc.ir.value import Value
from graphc.ops.control import cond_op, while_op
from graphc.ops.convert import as_value
from graphc.ops.state import assign_op
from graphc.state import Effect, effect_values
from graphc.structure import leaves, rebuild


def cond(
    predicate: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None
) -> Any:
    """The result of one of two branches; only the one taken runs.

    Args:
        predicate: a scalar bool value (or a Python bool).
        true_fn, false_fn: build a branch; they may read any value around them and assign
            variables. Both give the same structure of values of equal dtypes and shapes.

    Returns:
        The branches' structure.
    """
    test = as_value(predicate)
    outer = _outer(test)
    branches = [_trace(outer, label, function) for label, function in _pair(true_fn, false_fn)]
    (then, first), (otherwise, second) = branches
    if len(first) != len(second):
        raise ShapeError(
            f"the branches of cond give {len(first)} and {len(second)} values",
            where=caller(),
            hint="both branches must give the same structure",
        )
    written = _written(region for region, _ in branches)
    outputs = []
    for region, results in ((then, first), (otherwise, second)):
        with building(region):
            outputs.append([*results, *(_state(region, v) for v in written)])
    if not outputs[0]:
        raise GraphError("the branches of cond give nothing and assign nothing", where=caller())
    captures = _captures(outer, [then, otherwise])
    regions = [
        _freeze(region, [], captures, values)
        for region, values in zip((then, otherwise), outputs, strict=True)
    ]
    operands = (test, *captures)
    node = _add(outer, cond_op, operands, {}, regions, name)
    _write_outside(outer, node, written, len(first))
    remaining = iter(node.outputs)
    return rebuild(then.structure, lambda leaf: _result(leaf, remaining))


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    init: Any,
    name: str | None = None,
) -> Any:
    """Repeats a body while a condition holds; gives the loop variables at the end.

    Args:
        cond_fn: takes the loop variables, gives a scalar bool.
        body_fn: takes the loop variables, gives their successors in the same structure, of the
            same dtypes and shapes. It may read values around it and assign variables.
        init: the first values, a value or a nested structure; a list or tuple is passed as
            positional arguments.
    """
    start = [as_value(leaf) for leaf in leaves(init)]
    outer = _outer(*start)
    start = [outer.local(value) for value in start]
    body, variables = _loop_region(outer, "body", start)
    arguments = _arguments(init, variables)
    with body:
        given = body_fn(*arguments)
        successors = [body.local(as_value(leaf)) for leaf in leaves(given)]
    if len(successors) != len(start):
        raise ShapeError(
            f"the body of while_loop gives {len(successors)} values for {len(start)} variables",
            where=caller(),
        )
    written = [v for v in body.carried if body.latest[v] is not body.carried[v]]
    test, tested = _loop_region(outer, "condition", start)
    with test:
        condition = test.local(as_value(cond_fn(*_arguments(init, tested))))
    read_only = [v for v in (*body.carried, *test.carried) if v not in written]
    state = list(dict.fromkeys([*written, *read_only]))
    with outer:
        before = [_state(outer, v) for v in state]
    captures = _captures(outer, [test, body])
    regions = []
    for region, own, outputs in (
        (test, tested, [condition]),
        (body, variables, [*successors, *(_state(body, v) for v in state)]),
    ):
        carried = [*own, *(_carried(region, v) for v in state)]
        regions.append(_freeze(region, carried, captures, outputs))
    operands = (*start, *before, *captures)
    node = _add(outer, while_op, operands, {"carried": len(start) + len(state)}, regions, name)
    _write_outside(outer, node, written, len(start))
    remaining = iter(node.outputs)
    return rebuild(init, lambda leaf: next(remaining))


def _pair(true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Sequence[tuple[str, Any]]:
    return (("then", true_fn), ("else", false_fn))


def _outer(*values: Value) -> Recorder:
    """The recorder that the control-flow node joins."""
    builder = builder_for(values)
    return builder if isinstance(builder, Recorder) else current_recorder()


class _Region(Recorder):
    """A region being traced, with the structure its function gave."""

    structure: Any = None


def _trace(outer: Recorder, label: str, function: Callable[[], Any]) -> tuple[_Region, list[Value]]:
    region = _Region(label, outer)
    with region:
        given = function()
        results: list[Value] = []
        for leaf in leaves(given):
            if isinstance(leaf, Effect):
                effect_values(leaf)
            elif leaf is not None:
                results.append(region.local(as_value(leaf)))
    region.structure = given
    return region, results


def _result(leaf: Any, results: Any) -> Any:
    return None if leaf is None or isinstance(leaf, Effect) else next(results)


def _loop_region(
    outer: Recorder, label: str, start: Sequence[Value]
) -> tuple[_Region, list[Value]]:
    region = _Region(label, outer)
    variables = [Value(value.type, value.name, region) for value in start]
    return region, variables


def _arguments(init: Any, variables: Sequence[Value]) -> list[Any]:
    remaining = iter(variables)
    shaped = rebuild(init, lambda leaf: next(remaining))
    return list(shaped) if isinstance(init, (list, tuple)) else [shaped]


def _written(regions: Any) -> list[Value]:
    """Variables that a branch assigns, each once."""
    found: dict[Value, None] = {}
    for region in regions:
        for variable, carried in region.carried.items():
            if region.latest[variable] is not carried:
                found[variable] = None
    return list(found)


def _state(recorder: Recorder, variable: Value) -> Value:
    """A variable's latest value in a recorder, carried into regions."""
    from graphc.state import Variable, _latest

    assert isinstance(variable, Variable)
    return _latest(recorder, variable)


def _carried(region: Recorder, variable: Value) -> Value:
    _state(region, variable)
    return region.carried[variable]


def _captures(outer: Recorder, regions: Sequence[Recorder]) -> list[Value]:
    """Outer values that any region reads, each once, variables' current values included."""
    found: dict[Value, None] = {}
    for region in regions:
        for value in region.captures:
            found[outer.local(value)] = None
        if region.name in ("then", "else"):
            for variable in region.carried:
                found[_state(outer, variable)] = None
    return list(found)


def _freeze(
    region: Recorder, carried: Sequence[Value], captures: Sequence[Value], outputs: Sequence[Value]
) -> Graph:
    """The region as a graph over carried values and all captures, those it does not read too."""
    outer = region.parent
    assert outer is not None
    inner = {outer.local(value): local for value, local in region.captures.items()}
    aliases: dict[Value, Value] = {}
    if region.name in ("then", "else"):
        for variable, local in region.carried.items():
            source = _state(outer, variable)
            if source in inner:
                aliases[local] = inner[source]
            else:
                inner[source] = local
    inputs = [*carried, *(inner[v] if v in inner else Value(v.type, v.name) for v in captures)]
    nodes, stands_for = without_assignments(needed(region, outputs, ()))
    resolved = [stands_for.get(value, value) for value in outputs]
    if aliases:
        nodes = [_renamed(node, aliases) for node in nodes]
        resolved = [aliases.get(value, value) for value in resolved]
    return Graph(region.name, inputs, nodes, resolved)


def _renamed(node: Node, aliases: dict[Value, Value]) -> Node:
    inputs = tuple(aliases.get(value, value) for value in node.inputs)
    return Node(node.op, inputs, node.attrs, node.outputs, node.regions, node.provenance)


def _add(
    outer: Recorder,
    op: OpDef,
    operands: Sequence[Value],
    attrs: dict[str, Any],
    regions: Sequence[Graph],
    name: str | None,
) -> Node:
    with building(outer):
        return apply_node(op, operands, attrs, regions, name)


def _write_outside(outer: Recorder, node: Node, written: Sequence[Value], first: int) -> None:
    """Repeats the regions' assignments in the graph around, whenever the node runs."""
    for position, variable in enumerate(written):
        value = node.outputs[first + position]
        assignment = outer.add(assign_op, (_state(outer, variable), value), {})
        outer.written[assignment.output] = variable
        outer.latest[variable] = assignment.output
        outer.require(node.outputs[0], (assignment.output,))
