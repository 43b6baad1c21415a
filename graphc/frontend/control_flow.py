"""``cond`` and ``while_loop``: what their functions give, as regions of one node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.frontend.regions import (
    TracedRegion,
    add_node,
    arguments_like,
    called,
    captures_of,
    carried_into,
    check_callable,
    frozen,
    loop_region,
    outer_recorder,
    require_outside,
    state_in,
    variables_among,
    write_outside,
    written_in,
)
from graphc.frontend.structure import filled, is_nested, leaves, leaves_like, rebuild
from graphc.ir.builder import building
from graphc.ir.dtypes import DType, promote, promote_weak, scalar_dtype
from graphc.ir.effect import Effect
from graphc.ir.graph import Node
from graphc.ir.value import Value
from graphc.ops.control import cond_op, while_op
from graphc.ops.convert import PYTHON_SCALARS, as_value
from graphc.ops.source import constant, payload_of


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
    check_callable("cond", **{"then branch": true_fn, "else branch": false_fn})
    test = as_value(predicate)
    outer = outer_recorder(test)
    then = TracedRegion("then", outer)
    given = _trace(then, true_fn)
    otherwise = TracedRegion("else", outer)
    opposite = _trace(otherwise, false_fn, then.structure)
    if given.keys() != opposite.keys():
        raise ShapeError(
            f"the branches of cond give {len(given)} and {len(opposite)} values",
            where=caller(),
            hint="both branches must give the same structure",
        )
    first = _values(then, given.values(), opposite.values())
    second = _values(otherwise, opposite.values(), given.values())
    written = written_in((then, otherwise))
    outputs = []
    for region, results in ((then, first), (otherwise, second)):
        with building(region):
            outputs.append([*results, *(state_in(region, v) for v in written)])
    if not outputs[0]:
        raise GraphError(
            "the branches of cond give nothing and assign nothing",
            where=caller(),
            hint="return a value from both, or assign a variable in one",
        )
    captures = captures_of(outer, [then, otherwise])
    regions = [
        frozen(region, [], captures, values)
        for region, values in zip((then, otherwise), outputs, strict=True)
    ]
    operands = (test, *captures)
    node = add_node(outer, cond_op, operands, {}, regions, name)
    require_outside(outer, node, (then, otherwise))
    write_outside(outer, node, written, len(first))
    remaining = iter(node.outputs)
    is_ordered = len(variables_among(written)) < len(written)
    if is_ordered and not _gives(then.structure, otherwise.structure):
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
    check_callable("while_loop", condition=cond_fn, body=body_fn)
    first = list(leaves(init))
    if not first:
        raise GraphError(
            "while_loop has no loop variables",
            where=caller(),
            hint="give first values, as [0]; what the condition looks at must change",
        )
    outer = outer_recorder(*(leaf for leaf in first if isinstance(leaf, Value)))
    dtypes = [scalar_dtype(leaf) if _is_weak(leaf) else None for leaf in first]
    while True:
        with building(outer):
            start = [
                outer.local(as_value(leaf) if known is None else constant(leaf, known))
                for leaf, known in zip(first, dtypes, strict=True)
            ]
        body, variables = loop_region(outer, "body", start)
        arguments = arguments_like(init, variables)
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
    written = written_in([body])
    test, tested = loop_region(outer, "condition", start)
    with test:
        looked_at = called(cond_fn, arguments_like(init, tested), "the condition of while_loop")
        condition = test.local(as_value(looked_at))
    written_there = written_in([test])
    if written_there:
        what = "assigns a variable" if variables_among(written_there) else "has ordered effects"
        raise GraphError(
            f"the condition of while_loop {what}",
            where=caller(),
            hint="assign, print and check in the body; the condition may only read",
        )
    state = list(dict.fromkeys([*written, *body.carried, *test.carried]))
    with outer:
        before = [state_in(outer, v) for v in state]
    captures = captures_of(outer, [test, body])
    regions = []
    for region, own, outputs in (
        (test, tested, [condition]),
        (body, variables, [*successors, *(state_in(body, v) for v in state)]),
    ):
        carried = [*own, *(carried_into(region, v) for v in state)]
        regions.append(frozen(region, carried, captures, outputs))
    operands = (*start, *before, *captures)
    node = add_node(outer, while_op, operands, {"carried": len(start) + len(state)}, regions, name)
    require_outside(outer, node, (test, body))
    write_outside(outer, node, written, len(start))
    return filled(init, node.outputs)


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
    outer = outer_recorder(*(leaf for leaf in first if isinstance(leaf, Value)), *beside)
    dtypes = [scalar_dtype(leaf) if _is_weak(leaf) else None for leaf in first]
    while True:
        with building(outer):
            start = [
                outer.local(as_value(leaf) if known is None else constant(leaf, known))
                for leaf, known in zip(first, dtypes, strict=True)
            ]
        region, variables = loop_region(outer, "body", start)
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


def _trace(region: TracedRegion, function: Callable[[], Any], like: Any = None) -> dict[int, Any]:
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


def _values(region: TracedRegion, given: Iterable[Any], met: Iterable[Any]) -> list[Value]:
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


