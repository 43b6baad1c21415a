"""``custom_gradient``: functions whose gradient is what they say themselves.

The rule is traced into a region at once, so that what it reads is operands of the node, wherever
that is copied to. Extraction takes the nodes out: differentiation is done by then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
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
from graphc.frontend.structure import filled, leaves
from graphc.ir.value import Value
from graphc.ops.control import custom_gradient_op
from graphc.ops.convert import as_value
from graphc.ops.creation import zeros_like
from graphc.ops.move.shape import sum_to


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose gradient is what it says itself.

    Args:
        function: takes float or complex values; gives a pair of its result, a value or a nested
            structure, and a rule. The rule takes cotangents in the structure of the result and
            gives one for each argument, of its dtype and of a shape that it broadcasts to, over
            which it is summed back, or None for zeros; it may read any value of the function. It
            is traced at once, and differentiated for second derivatives.

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
        given = function(*operands)
        if not isinstance(given, tuple) or len(given) != 2 or not callable(given[1]):
            raise GraphError(
                f"the function of custom_gradient gives {shown(given)}",
                where=caller(),
                hint="give a pair: its result, and a function of the result's cotangents",
            )
        result, rule = given
        results = list(map(as_value, leaves(result)))
        outer = outer_recorder(*results, *operands)
        region = TracedRegion("gradient", outer)
        seeds = [Value(value.type, None, region) for value in results]
        with region:
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
            outputs = [
                _cotangent(region, item, value, place)
                for place, (item, value) in enumerate(zip(made, operands, strict=True))
            ]
        _refuse_effects(region)
        captures = captures_of(outer, [region])
        graph = frozen(region, seeds, captures, outputs)
        attrs = {"results": len(results), "operands": len(operands)}
        inputs = [*results, *operands, *captures]
        node = add_node(outer, custom_gradient_op, inputs, attrs, [graph], None)
        return filled(result, node.outputs)

    return ruled


def _refuse_effects(region: TracedRegion) -> None:
    """Refuses a rule that changes something: how often it runs is not the user's to know."""
    for changed in written_in([region]):
        what = f"assigns {changed.name!r}" if isinstance(changed, Variable) else "has an effect"
        raise GraphError(
            f"the rule of custom_gradient {what}",
            where=caller(),
            hint="a rule only computes cotangents: assign and print beside gx.gradients",
        )


def _cotangent(region: TracedRegion, item: Any, value: Value, place: int) -> Value:
    """What a rule gives for an argument, as a value of its type, summed over what broadcasts."""
    made = zeros_like(value) if item is None else as_value(item)
    made = region.local(made)
    if made.shape != value.shape and made.ndim >= value.ndim:
        made = sum_to(made, value.shape)
    if made.type != value.type:
        wrong = DTypeError if made.dtype is not value.dtype else ShapeError
        raise wrong(
            f"the rule of custom_gradient gives {made.type.brief()} for argument {place}, which is "
            f"{value.type.brief()}",
            where=caller(),
            hint="a cotangent has the dtype and the shape of what it belongs to",
        )
    return made
