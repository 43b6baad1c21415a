"""Control flow: ``cond``, ``while`` and ``custom_derivative``, nodes that own regions.

``cond(predicate, *captures)`` has the regions "then" and "else", both over the captures and giving
values of equal types. ``while(*carried, *captures)`` has the regions "condition" and "body" over
carried values and captures; the body gives the carried values' successors. ``carried`` is an
attribute of the node: how many of the operands are. ``custom_derivative(*results, *operands,
*captures)`` gives its results, and extraction takes it out. It has a region for each of its
``rules``: "gradient", over the cotangents of the results and captures, gives those of the operands;
"tangent", over the tangents of the operands and captures, gives those of the results.
``demand(*values)`` has none: what it reads is computed, though nothing else does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.base.errors import DTypeError, GraphcError, ShapeError
from graphc.ir.attributes import Attributes
from graphc.ir.dims.expressions import equal
from graphc.ir.dtypes import bool_
from graphc.ir.lowering import Structural
from graphc.ir.op import NotDifferentiable, OpDef, Regional, register
from graphc.ir.types import TensorType


def through_regions(*arrays: object, **attrs: object) -> None:
    """The reference of ops that own regions: whoever evaluates them evaluates those."""
    raise TypeError("what owns regions is interpreted through them")


def _predicate(type_: TensorType, what: str) -> None:
    if type_.dtype is not bool_:
        raise DTypeError(
            f"{what} is {type_.dtype}, not bool", hint="compare it, for example with x > 0"
        )
    if type_.shape != ():
        raise ShapeError(
            f"{what} has shape {list(type_.shape)}, not []", hint="reduce it with gx.all or gx.any"
        )


def _cond_types(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    then, otherwise = attrs["regions"]
    _predicate(inputs[0], "the predicate of cond")
    first = [value.type for value in then.outputs]
    second = [value.type for value in otherwise.outputs]
    if first != second:
        message = (
            f"the branches of cond give {', '.join(map(str, first)) or 'nothing'} and "
            f"{', '.join(map(str, second)) or 'nothing'}"
        )
        if [type_.shape for type_ in first] == [type_.shape for type_ in second]:
            raise DTypeError(
                message, hint="both branches must give the same dtypes; convert one with .astype"
            )
        raise ShapeError(
            message,
            hint="both branches must give values of the same dtypes and shapes"
            + (_SAME_SIZES if [t.rank for t in first] == [t.rank for t in second] else ""),
        )
    return first


_SAME_SIZES = (
    "; where sizes are equal in every run, give them one name in their placeholders, or one value "
    ".reshape(x.shape) of the other, which is checked when the graph runs"
)


def _changed(position: int, name: str | None, before: TensorType, after: TensorType) -> GraphcError:
    """The error for a loop variable that does not keep its type."""
    number = f"loop variable {position}"
    label, what = (name, f"{number} ({name})") if name else ("x", number)
    where = "" if name else f", where x is {number}"
    message = f"{what} starts as {before.brief()} but the body gives {after.brief()}"
    if before.dtype is not after.dtype:
        return DTypeError(
            message,
            hint="loop variables keep their dtype; give the body's value "
            f".astype({label}.dtype){where}, or start with that dtype",
        )
    if before.rank == after.rank and any(
        equal(old, new) is False for old, new in zip(before.shape, after.shape, strict=True)
    ):
        return ShapeError(
            message,
            hint="loop variables keep their shape; to fill an array start with all of it, as "
            f"gx.zeros(shape), and give {label}.at[i].set(row){where}",
        )
    return ShapeError(
        message,
        hint=f"loop variables keep their shape; give the body's value .reshape({label}.shape), "
        f"or gx.broadcast_to(value, {label}.shape){where}",
    )


def _while_types(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    condition, body = attrs["regions"]
    carried = list(inputs[: attrs["carried"]])
    _predicate(condition.outputs[0].type, "the condition of while_loop")
    given = [value.type for value in body.outputs]
    for position, (before, after) in enumerate(zip(carried, given, strict=True)):
        if before != after:
            raise _changed(position, body.inputs[position].name, before, after)
    return carried


def _ruled(attrs: Attributes) -> range:
    """The operands that a rule is about."""
    return range(attrs["results"], attrs["results"] + attrs["operands"])


cond_op = register(
    OpDef(
        name="cond",
        doc="Runs one of two branches, by a scalar bool.",
        infer=_cond_types,
        reference=through_regions,
        derivative=Regional(),
        lowering=Structural(),
        effect="control",
    )
)

while_op = register(
    OpDef(
        name="while",
        doc="Repeats a body while a scalar bool condition holds.",
        infer=_while_types,
        reference=through_regions,
        derivative=Regional(),
        lowering=Structural(),
        effect="control",
    )
)

custom_derivative_op = register(
    OpDef(
        name="custom_derivative",
        doc=(
            "In a user's graph: the first operands, as many as attrs results; regions, one for "
            "each of attrs rules, say what counts as the derivative by the attrs operands that "
            "follow."
        ),
        infer=lambda inputs, attrs: list(inputs[: attrs["results"]]),
        reference=through_regions,
        derivative=Regional(_ruled),
        lowering=Structural(),
        effect="control",
    )
)

demand_op = register(
    OpDef(
        name="demand",
        doc=(
            "True; its operands are computed, whoever reads them. Extraction makes it of what must "
            "run for the indices that it checks."
        ),
        infer=lambda inputs, attrs: [TensorType(bool_, ())],
        reference=lambda *values: np.True_,
        derivative=NotDifferentiable("extraction makes it, after differentiation"),
        lowering=Structural(),
        effect="state",
    )
)
