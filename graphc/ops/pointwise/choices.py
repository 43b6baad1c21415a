"""Choices among many, by conditions: of values, and of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.ir.dtypes import bool_
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.arguments import items_of
from graphc.ops.convert import as_value, converted, promoted
from graphc.ops.declare import refuse
from graphc.ops.pointwise.logic import where


@surface
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Value:
    """Of each element the choice of the first condition that holds, else the default.

    Raises:
        ShapeError: for none, and for as many choices as there are no conditions.
        DTypeError: for conditions that are no bools, as in NumPy.
    """
    conditions = items_of(condlist, "condlist")
    choices = items_of(choicelist, "choicelist")
    if not conditions or len(conditions) != len(choices):
        raise ShapeError(
            f"{len(choices)} choices for {len(conditions)} conditions", where=caller()
        )
    *options, result = promoted(*choices, default)
    for condition, option in reversed([*zip(conditions, options, strict=True)]):
        mask = as_value(condition, result)
        if mask.dtype is not bool_:
            raise refuse(f"a condition of {mask.dtype}", "compare, as in x > 0")
        result = where(mask, option, result)
    return result


@surface
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Value:
    """Of each element what the function of the last condition that holds gives, in the dtype of x.

    Args:
        x: any tensor.
        condlist: conditions, each in the shape of x; or one.
        funclist: for each a function of x, or a number; one more is for where none holds, which
            is 0 otherwise. Functions see all of x.
        args: further arguments of the functions.
        kw: further arguments of the functions.

    Raises:
        DTypeError: for as many functions as are neither enough nor one too many.
    """
    value = as_value(x)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    functions: list[Callable[..., Any] | Any] = list(items_of(funclist, "funclist"))
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise DTypeError(
            f"{len(functions)} functions for {len(conditions)} conditions",
            where=caller(),
            hint="give one for each, and perhaps another one for the rest",
        )
    rest = functions.pop() if len(functions) > len(conditions) else 0

    def part(function: Any) -> Value:
        made = function(value, *args, **kw) if callable(function) else function
        return converted(as_value(made, value), value.dtype)

    result = part(rest)
    for condition, function in zip(conditions, functions, strict=True):
        result = where(condition, part(function), result)
    return result
