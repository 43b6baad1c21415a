"""``cond`` and ``while_loop``: tracing branches and bodies into regions.

A region captures values of the graph around it; captures become explicit operands. Variables that
a region assigns are carried in and out as further values, and the write is repeated outside, so the
enclosing graph sees an ordinary assignment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import plural, shown
from graphc.compiling.extraction import demanded, needed, parted, required, without_assignments
from graphc.frontend.state import Variable, latest_value
from graphc.frontend.structure import filled, is_nested, leaves, leaves_like, rebuild
from graphc.ir.builder import apply_node, builder_for, building
from graphc.ir.dtypes import DType, promote, promote_weak, scalar_dtype
from graphc.ir.effect import Effect
from graphc.ir.graph import Graph, Node
from graphc.ir.op import OpDef
from graphc.ir.recorder import Recorder, current_recorder
from graphc.ir.text.printer import MAXIMUM_NESTING
from graphc.ir.value import Value
from graphc.ops.control import cond_op, while_op
from graphc.ops.convert import PYTHON_SCALARS, as_value
from graphc.ops.source import constant, payload_of
from graphc.ops.state import assign_op

DEEPEST = MAXIMUM_NESTING - 1
"""Branches and loops may be nested so deep; in the innermost there are the bodies of kernels."""


def cond(
    predicate: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None
) -> Any:
    """The result of one of two branches; only the one taken runs.

    Args:
        predicate: a scalar bool value (or a Python bool).
        true_fn, false_fn: build a branch; they may read any value around them and assign
            variables. Both give the same structure of values of equal dtypes and shapes. A Python
            number takes the dtype of what the other branch gives.

    Returns:
        The branches' structure.

    Raises:
        DTypeError: for branches that give other dtypes, and a predicate that is no bool.
        ShapeError: for branches that give another structure or sizes not proved equal, and a
            predicate that is no scalar.
        GraphError: for what can't be called without arguments, and for nesting that is too deep.
    """
    _check_callable("cond", **{"then branch": true_fn, "else branch": false_fn})
    test = as_value(predicate)
    outer = _outer(test)
    then = _Region("then", outer)
    given = _trace(then, true_fn)
    otherwise = _Region("else", outer)
    opposite = _trace(otherwise, false_fn, then.structure)
    if given.keys() != opposite.keys():
        raise ShapeError(
            f"the branches of cond give {len(given)} and {len(opposite)} values",
            where=caller(),
            hint="both branches must give the same structure",
        )
    first = _values(then, given.values(), opposite.values())
    second = _values(otherwise, opposite.values(), given.values())
    written = _written((then, otherwise))
    outputs = []
    for region, results in ((then, first), (otherwise, second)):
        with building(region):
            outputs.append([*results, *(_state(region, v) for v in written)])
    if not outputs[0]:
        raise GraphError(
            "the branches of cond give nothing and assign nothing",
            where=caller(),
            hint="return a value from both, or assign a variable in one",
        )
    captures = _captures(outer, [then, otherwise])
    regions = [
        _freeze(region, [], captures, values)
        for region, values in zip((then, otherwise), outputs, strict=True)
    ]
    operands = (test, *captures)
    node = _add(outer, cond_op, operands, {}, regions, name)
    _require_outside(outer, node, (then, otherwise))
    _write_outside(outer, node, written, len(first))
    remaining = iter(node.outputs)
    if len(_variables(written)) < len(written) and not _gives(then.structure, otherwise.structure):
        return Effect(node.outputs[:1])
    return rebuild(then.structure, lambda leaf: _result(leaf, remaining, node))


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
            positional arguments. A Python number takes the dtype of its successor, so the body may
            be traced more than once.

    Returns:
        The loop variables after the last turn, in the structure of ``init``.

    Raises:
        DTypeError: for a loop variable that changes its dtype, and a condition that is no bool.
        ShapeError: for a body that gives another structure, or sizes not proved equal, and for a
            condition that is no scalar.
        GraphError: for functions that don't take the loop variables, for a condition that assigns a
            variable, and for nesting that is too deep.
    """
    _check_callable("while_loop", condition=cond_fn, body=body_fn)
    first = list(leaves(init))
    if not first:
        raise GraphError(
            "while_loop has no loop variables",
            where=caller(),
            hint="give first values, as [0]; what the condition looks at must change",
        )
    outer = _outer(*(leaf for leaf in first if isinstance(leaf, Value)))
    dtypes = [scalar_dtype(leaf) if _is_weak(leaf) else None for leaf in first]
    while True:
        with building(outer):
            start = [
                outer.local(as_value(leaf) if known is None else constant(leaf, known))
                for leaf, known in zip(first, dtypes, strict=True)
            ]
        body, variables = _loop_region(outer, "body", start)
        arguments = _arguments(init, variables)
        with body:
            given = called(body_fn, arguments, "the body of while_loop")
            if isinstance(init, (list, tuple)) and len(init) == 1 and not is_nested(given):
                given = [given]
        following = leaves_like(init, given, "the body of while_loop gives")
        wider = [
            None if known is None else _wider(known, leaf, successor)
            for known, leaf, successor in zip(dtypes, first, following, strict=True)
        ]
        if wider == dtypes:
            break
        dtypes = wider
    successors = _values(body, following, start)
    written = _written([body])
    test, tested = _loop_region(outer, "condition", start)
    with test:
        looked_at = called(cond_fn, _arguments(init, tested), "the condition of while_loop")
        condition = test.local(as_value(looked_at))
    written_there = _written([test])
    if written_there:
        what = "assigns a variable" if _variables(written_there) else "has ordered effects"
        raise GraphError(
            f"the condition of while_loop {what}",
            where=caller(),
            hint="assign, print and check in the body; the condition may only read",
        )
    state = list(dict.fromkeys([*written, *body.carried, *test.carried]))
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
    _require_outside(outer, node, (test, body))
    _write_outside(outer, node, written, len(start))
    return filled(init, node.outputs)


def _check_callable(what: str, **functions: Any) -> None:
    """Refuses what is built already: branches and bodies are built when they are traced."""
    for name, function in functions.items():
        if not callable(function):
            raise GraphError(
                f"the {name} of {what} is {shown(function)}, not a function",
                where=caller(),
                hint="give a function that builds it, as lambda: x * 2",
            )


def called(function: Callable[..., Any], arguments: Sequence[Value], what: str) -> Any:
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


def traced_types(
    function: Callable[[Any, Sequence[Value]], tuple[Any, Any]], init: Any, beside: Sequence[Value]
) -> tuple[Any, Any]:
    """What the body of a loop gives beside its successor, found by building it for nothing.

    Args:
        function: takes a structure like ``init`` and a row of each value that is beside; gives the
            successor, and what is beside it.
        init: the first values; a Python number takes the dtype of its successor.
        beside: values, of which each turn gets a row.

    Gives the first values as such, and the types of what is beside in its structure, None for None.
    """
    first = list(leaves(init))
    outer = _outer(*(leaf for leaf in first if isinstance(leaf, Value)), *beside)
    dtypes = [scalar_dtype(leaf) if _is_weak(leaf) else None for leaf in first]
    while True:
        with building(outer):
            start = [
                outer.local(as_value(leaf) if known is None else constant(leaf, known))
                for leaf, known in zip(first, dtypes, strict=True)
            ]
        region, variables = _loop_region(outer, "body", start)
        rows = [Value(v.type.with_shape(v.type.shape[1:]), None, region) for v in beside]
        with region:
            following, made = function(filled(init, variables), rows)
            made = rebuild(made, lambda leaf: None if leaf is None else as_value(leaf).type)
        successors = leaves_like(init, following, "the function of a loop gives")
        wider = [
            None if known is None else _wider(known, leaf, successor)
            for known, leaf, successor in zip(dtypes, first, successors, strict=True)
        ]
        if wider == dtypes:
            return filled(init, start), made
        dtypes = wider


def _outer(*values: Value) -> Recorder:
    """The recorder that the control-flow node joins."""
    builder = builder_for(values)
    return builder if isinstance(builder, Recorder) else current_recorder()


class _Region(Recorder):
    """A region being traced, with the structure its function gave.

    Attributes:
        loops: whether variables come in as carried values of a loop; a branch captures them.
    """

    structure: Any = None
    loops: bool = False

    def __init__(self, name: str, parent: Recorder) -> None:
        """Raises GraphError where branches and loops are nested too deep."""
        super().__init__(name, parent)
        self.depth: int = 1 + (parent.depth if isinstance(parent, _Region) else 0)
        if self.depth > DEEPEST:
            raise GraphError(
                f"branches and loops are nested more than {DEEPEST} deep",
                where=caller(),
                hint="choose among many cases with gx.where, or with gx.take from a stack of them; "
                "what is repeated is a gx.while_loop",
            )


def _trace(region: _Region, function: Callable[[], Any], like: Any = None) -> dict[int, Any]:
    """Builds a branch; gives what results in values by position, in the order of ``like``."""
    with region:
        region.structure = given = called(function, (), f"the {region.name} branch of cond")
    found = list(leaves(given))
    if like is not None:
        found = leaves_like(like, given, "the else branch gives")
    return {
        position: leaf
        for position, leaf in enumerate(found)
        if leaf is not None and not isinstance(leaf, Effect)
    }


def _is_weak(leaf: Any) -> bool:
    """Whether a leaf is a Python number, whose dtype is that of what it meets."""
    return isinstance(leaf, PYTHON_SCALARS) and not isinstance(leaf, np.generic)


def _values(region: _Region, given: Iterable[Any], met: Iterable[Any]) -> list[Value]:
    """Leaves as values of a region; Python numbers get the dtypes of what they meet elsewhere.

    Where that is of another kind, they keep their own, and the types differ.

    Raises:
        DTypeError: for a Python int that the integer dtype cannot hold.
    """
    result = []
    with region:
        for leaf, other in zip(given, met, strict=True):
            if not _is_weak(leaf):
                value = as_value(leaf)
            elif _is_weak(other):
                value = constant(leaf, promote(scalar_dtype(leaf), scalar_dtype(other)))
            else:
                value = constant(leaf, _dtype_beside(leaf, _strong_dtype(other)))
            result.append(region.local(value))
    return result


def _wider(known: DType, leaf: Any, successor: Any) -> DType:
    """The dtype of a Python number that a loop begins with, given what follows it.

    ``known`` is what it was so far; a dtype only ever gives way to a wider one, or at first to the
    one that a successor of its kind has.
    """
    if _is_weak(successor):
        return promote(known, scalar_dtype(successor))
    found = _strong_dtype(successor)
    is_first = known is scalar_dtype(leaf)
    if found is known or _dtype_beside(leaf, found) is not found:
        return known
    return found if is_first or promote(known, found) is found else known


def _strong_dtype(leaf: Any) -> DType:
    return leaf.dtype if isinstance(leaf, Value) else payload_of(leaf).type.dtype


def _dtype_beside(number: Any, strong: DType) -> DType:
    """The dtype of a Python number beside a strong one: that, if it is of the number's kind."""
    try:
        fits = promote_weak(strong, number) is strong
    except DTypeError as error:
        error.where = error.where or caller()
        raise
    return strong if fits else scalar_dtype(number)


def _gives(*structures: Any) -> bool:
    """Whether branches give more than a single effect or nothing."""
    return any(item is not None and not isinstance(item, Effect) for item in structures)


def _result(leaf: Any, results: Any, node: Node) -> Any:
    """What stands for a branch's result outside: for an effect the whole of what runs there."""
    if leaf is None:
        return None
    return Effect(node.outputs[:1]) if isinstance(leaf, Effect) else next(results)


def _loop_region(
    outer: Recorder, label: str, start: Sequence[Value]
) -> tuple[_Region, list[Value]]:
    region = _Region(label, outer)
    region.loops = True
    variables = [Value(value.type, value.name, region) for value in start]
    return region, variables


def _arguments(init: Any, variables: Sequence[Value]) -> list[Any]:
    shaped = filled(init, variables)
    return list(shaped) if isinstance(init, (list, tuple)) else [shaped]


def _written(regions: Any) -> list[Value]:
    """Variables that regions assign, each once."""
    found: dict[Value, None] = {}
    for region in regions:
        for variable, carried in region.carried.items():
            if region.latest[variable] is not carried:
                found[variable] = None
    return list(found)


def _variables(written: Iterable[Value]) -> list[Value]:
    """What is written, without the token of the order."""
    return [value for value in written if isinstance(value, Variable)]


def _state(recorder: Recorder, variable: Value) -> Value:
    """A variable's latest value in a recorder, carried into regions."""
    return latest_value(recorder, variable)


def _carried(region: Recorder, variable: Value) -> Value:
    _state(region, variable)
    return region.carried[variable]


def _captures(outer: Recorder, regions: Sequence[_Region]) -> list[Value]:
    """Outer values that any region reads, each once, variables' current values included."""
    found: dict[Value, None] = {}
    for region in regions:
        for value in region.captures:
            found[outer.local(value)] = None
        if not region.loops:
            for variable in region.carried:
                found[_state(outer, variable)] = None
    return list(found)


def _freeze(
    region: _Region, carried: Sequence[Value], captures: Sequence[Value], outputs: Sequence[Value]
) -> Graph:
    """The region as a graph over carried values and all captures, those it does not read too."""
    outer = region.parent
    assert outer is not None
    inner = {outer.local(value): local for value, local in region.captures.items()}
    aliases: dict[Value, Value] = {}
    if not region.loops:
        for variable, local in region.carried.items():
            source = _state(outer, variable)
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


def _require_outside(outer: Recorder, node: Node, regions: Sequence[Recorder]) -> None:
    """What nodes inside require of the graph around runs whenever the whole node does."""
    for region in regions:
        for values in region.requires.values():
            around = [value for value in values if value.graph is not region]
            if around:
                outer.require(node.outputs[0], around)


def _write_outside(outer: Recorder, node: Node, written: Sequence[Value], first: int) -> None:
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
        assignment = outer.add(assign_op, (_state(outer, variable), value), {})
        outer.written[assignment.output] = variable
        outer.latest[variable] = assignment.output
        outer.require(node.outputs[0], (assignment.output,))
