"""``custom_gradient`` and ``custom_jvp``: functions whose derivative is what they say themselves.

Rules are traced into regions at once, so that what they read is operands of the node, wherever
that is copied to. Extraction takes the nodes out: differentiation is done by then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import plural, shown
from graphc.frontend.regions import (
    TracedRegion,
    add_node,
    arguments_like,
    called,
    captures_of,
    check_callable,
    frozen,
    outer_recorder,
    written_in,
)
from graphc.frontend.state import Variable
from graphc.frontend.structure import filled, leaves, leaves_like
from graphc.ir.value import Value
from graphc.ops.control import custom_derivative_op
from graphc.ops.convert import as_value
from graphc.ops.creation import zeros_like
from graphc.ops.move.shape import broadcast_to, sum_to

Rule = Callable[[list[Value]], Sequence[Any]]


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose gradient is what it says itself.

    Args:
        function: takes float or complex values; gives a pair of its result, a value or a nested
            structure, and a rule. The rule takes cotangents in the structure of the result and
            gives one for each argument, of its dtype and of a shape that it broadcasts to, over
            which it is summed back, or None for zeros; it may read any value of the function. It
            is traced at once, and differentiated for second derivatives; the results that it reads
            change as it says itself.

    Returns:
        A function of the same arguments that gives the result. By values that the function reads
        without being given them its derivative is zero; forward mode refuses it.

    Raises:
        GraphError: from the function, if what was given gives no pair, or a rule that gives another
            number of cotangents, assigns a variable or has an effect.
        ShapeError, DTypeError: likewise, for cotangents of other shapes or dtypes.
    """
    check_callable("custom_gradient", function=function)

    @functools.wraps(function)
    def ruled(*arguments: Any) -> Any:
        operands = list(map(as_value, arguments))
        result, rule = _pair(function(*operands), "custom_gradient", "cotangents")

        def gradient(seeds: list[Value]) -> list[Any]:
            cotangents = arguments_like(result, seeds)
            made = called(rule, cotangents, "the rule of custom_gradient")
            made = list(made) if isinstance(made, (list, tuple)) else [made]
            if len(made) != len(operands):
                raise GraphError(
                    f"the rule of custom_gradient gives {plural(len(made), 'cotangent')} for "
                    f"{plural(len(operands), 'argument')}",
                    where=caller(),
                    hint="give a tuple of one for each argument; None is for zeros",
                )
            return made

        return with_rules(result, operands, {"gradient": gradient}, "custom_gradient")

    return ruled


def custom_jvp(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose derivative, in both modes, follows from how it says that its result changes.

    Args:
        function: takes values; gives a pair of its result, a value or a nested structure, and a
            rule. The rule takes a tangent for each argument, of its type, and gives those of the
            result in its structure, of the dtypes of its values and of shapes that broadcast to
            theirs, or None for zeros; it may read any value of the function. It is linear in the
            tangents. It is traced at once, and differentiated for second derivatives; the results
            that it reads change as it says itself.

    Returns:
        A function of the same arguments that gives the result. By values that the function reads
        without being given them its derivative is zero.

    Raises:
        GraphError: from the function, if what was given gives no pair, or a rule that assigns a
            variable or has an effect.
        ShapeError, DTypeError: likewise, for tangents of another structure, shape or dtype.
        GradientError: from ``gradients``, for a rule that is not linear.
    """
    check_callable("custom_jvp", function=function)

    @functools.wraps(function)
    def ruled(*arguments: Any) -> Any:
        operands = list(map(as_value, arguments))
        result, rule = _pair(function(*operands), "custom_jvp", "arguments' tangents")

        def tangent(seeds: list[Value]) -> list[Any]:
            made = called(rule, seeds, "the rule of custom_jvp")
            return leaves_like(result, made, "the rule of custom_jvp gives")

        return with_rules(result, operands, {"tangent": tangent}, "custom_jvp")

    return ruled


def with_rules(
    result: Any, operands: Sequence[Value], rules: Mapping[str, Rule], what: str
) -> Any:
    """The result, whose derivatives by the operands are what rules say.

    Args:
        result: a value or a nested structure.
        operands: values.
        rules: "gradient" takes cotangents of the result's values and gives those of the operands,
            "tangent" takes tangents of the operands and gives those of the result's values; None
            is for zeros. One of both does.
        what: the public function, for errors.
    """
    results = list(map(as_value, leaves(result)))
    outer = outer_recorder(*results, *operands)
    traced = []
    for name, rule in rules.items():
        region = TracedRegion(name, outer)
        given, wanted = (results, operands) if name == "gradient" else (operands, results)
        seeds = [Value(value.type, None, region) for value in given]
        with region:
            outputs = [
                _derivative(region, item, value, name, place, what)
                for place, (item, value) in enumerate(zip(rule(seeds), wanted, strict=True))
            ]
        _refuse_effects(region, what)
        traced.append((region, seeds, outputs))
    captures = captures_of(outer, [region for region, *_ in traced])
    graphs = [frozen(region, seeds, captures, outputs) for region, seeds, outputs in traced]
    attrs = {"results": len(results), "operands": len(operands), "rules": tuple(rules)}
    inputs = [*results, *operands, *captures]
    node = add_node(outer, custom_derivative_op, inputs, attrs, graphs, None)
    return filled(result, node.outputs)


def _pair(given: Any, what: str, taken: str) -> tuple[Any, Callable[..., Any]]:
    """The result of a function and its rule."""
    if not isinstance(given, tuple) or len(given) != 2 or not callable(given[1]):
        raise GraphError(
            f"the function of {what} gives {shown(given)}",
            where=caller(),
            hint=f"give a pair: its result, and a function of the {taken}",
        )
    return given


def _refuse_effects(region: TracedRegion, what: str) -> None:
    """Refuses a rule that changes something: how often it runs is not the user's to know."""
    for changed in written_in([region]):
        does = f"assigns {changed.name!r}" if isinstance(changed, Variable) else "has an effect"
        raise GraphError(
            f"the rule of {what} {does}",
            where=caller(),
            hint="a rule only computes: assign and print beside gx.gradients",
        )


def _derivative(
    region: TracedRegion, item: Any, value: Value, name: str, place: int, what: str
) -> Value:
    """What a rule gives for a value, as one of its type.

    A cotangent is summed over what broadcast, a tangent broadcasts.
    """
    made = region.local(zeros_like(value) if item is None else as_value(item))
    if made.dtype is value.dtype and made.shape != value.shape:
        if name == "gradient" and made.ndim >= value.ndim:
            made = sum_to(made, value.shape)
        elif name == "tangent" and made.ndim <= value.ndim:
            made = broadcast_to(made, value.shape)
    if made.type != value.type:
        wrong = DTypeError if made.dtype is not value.dtype else ShapeError
        of, one = ("argument", "cotangent") if name == "gradient" else ("result", "tangent")
        raise wrong(
            f"the rule of {what} gives {made.type.brief()} for {of} {place}, which is "
            f"{value.type.brief()}",
            where=caller(),
            hint=f"a {one} has the dtype and the shape of what it belongs to",
        )
    return made
