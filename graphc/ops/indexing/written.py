"""What is written to picked places: updates, and scatters over several axes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError
from graphc.base.source import caller
from graphc.ir.dims.expressions import product
from graphc.ir.dtypes import DType
from graphc.ir.value import Value
from graphc.ops.convert import PYTHON_SCALARS, as_value, converted, in_dtype
from graphc.ops.guards import Guards
from graphc.ops.indexing.core import raveled
from graphc.ops.indexing.scatter import How, scattered
from graphc.ops.move.shape import with_shape

_KINDS = ("bool", "uint", "int", "float", "complex")


def as_update(values: Any, beside: Value) -> Value:
    """Updates in the dtype of what they update.

    Raises:
        DTypeError: for a cast that loses more than digits, as NumPy's "same_kind" has it.
    """
    element = beside.dtype
    if isinstance(values, PYTHON_SCALARS) and not isinstance(values, np.generic):
        kinds: tuple[str, ...] = ("complex",)
        if isinstance(values, float):
            kinds = ("float", *kinds)
        elif isinstance(values, int):
            kinds = ("uint", "int", "float", *kinds)
        if not isinstance(values, bool) and element.kind not in kinds:
            raise _no_cast(f"a Python {type(values).__name__}", element)
        return in_dtype(values, element, beside)
    given = as_value(values, beside)
    if _KINDS.index(given.dtype.kind) > _KINDS.index(element.kind):
        raise _no_cast(str(given.dtype), element)
    return converted(given, element)


def _no_cast(given: str, element: DType) -> DTypeError:
    return DTypeError(
        f"an update of {given} in a tensor of {element}",
        where=caller(),
        hint=f"convert one of them: values.astype({element.name!r}), or x.astype first",
    )


def scattered_at(
    how: How,
    base: Value,
    first: int,
    indices: Sequence[Value],
    updates: Value,
    guards: Guards = (),
    drops: bool = False,
) -> Value:
    """Combines updates into places that indices of neighbouring axes name together.

    Args:
        how: an update joins what is there.
        base: what is updated.
        first: the first of the axes that the indices name places of, one index for each.
        indices: of one shape.
        updates: in the shape of the base, with that of the indices in the place of the axes.
        guards: what must hold of sizes.
        drops: whether an index out of range names no place, and is no error.
    """
    attrs: dict[str, Any] = {"drop": True} if drops else {}
    shape = base.shape
    end = first + len(indices)
    if len(indices) == 1:
        return scattered(how, base, indices[0], updates, first, guards=guards, **attrs)
    dims = shape[first:end]
    flat = raveled(indices, dims, tuple(range(first, end)), **attrs)
    merged = with_shape(base, (*shape[:first], product(dims), *shape[end:]), ())
    result = scattered(how, merged, flat, updates, first, guards=guards, **attrs)
    return with_shape(result, shape, ())
