"""Combining updates into picked places: the core ops ``scatter_add``, ``scatter_set`` and so on.

One declaration serves all ways of combining, and both forms of indices: a tensor that names places
of whole slices, and one that names a place for each element. Invariant: what meets at one place
is combined one by one in the order of the index tensor, so results are reproducible. Indices are
read as by ``take``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import product
from graphc.ir.dtypes import ALL, DType, int64
from graphc.ir.lowering import Scatter
from graphc.ir.op import Custom, Derivative, Domain, Linear, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.scalar import PRIMITIVES
from graphc.ops.complex.parts import each_part
from graphc.ops.convert import converted
from graphc.ops.creation import iota_beside
from graphc.ops.guards import Guards, show
from graphc.ops.indexing.core import (
    along_type,
    outside,
    picking,
    take_along_axis_op,
    take_op,
)
from graphc.ops.indexing.places import (
    checked,
    differ,
    places_in,
    require_indices,
    taken_shape,
)
from graphc.ops.move.shape import broadcast_to, sample, with_shape
from graphc.ops.source import constant_beside

How = Literal["set", "add", "multiply", "minimum", "maximum"]
"""How an update joins what is there."""

# --- types and meaning ---------------------------------------------------------------------------


def _type(name: str, along: bool) -> Callable[..., list[TensorType]]:
    def infer(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
        base, indices, updates = inputs
        require_indices(name, indices)
        if base.dtype is not updates.dtype:
            raise DTypeError(f"{name} to {base.dtype} of {updates.dtype}")
        if along:
            (picked,) = along_type([base, indices], attrs)
            expected = picked.shape
        else:
            expected = taken_shape(base.shape, indices.shape, attrs["axis"])
        if differ(expected, updates.shape):
            raise ShapeError(f"{name} of updates {show(updates.shape)}, not {show(expected)}")
        return [base]

    return infer


def _join(how: How, result: Any, place: Any, updates: Any) -> None:
    """Combines updates into places of an array, in order."""
    if how == "set":
        result[place] = updates
    elif how == "add":
        np.add.at(result, place, updates)
    elif how == "multiply":
        np.multiply.at(result, place, updates)
    else:
        # NumPy leaves open which of two zeros is the greater one
        for number, update in enumerate(updates):
            one = tuple(part[number] for part in place)
            result[one] = PRIMITIVES[how].reference(result[one], update)


def _reference(how: How, along: bool) -> Callable[..., Any]:
    def reference(
        base: Any, indices: Any, updates: Any, *, axis: int, wraps: bool = True,
        drop: bool = False, guards: Any = (),
    ) -> Any:  # fmt: skip
        result = base.copy()
        size = base.shape[axis]
        if drop:
            places, inside = places_in(indices, size, wraps)
        else:
            places = checked(indices, size, axis, wraps)
            inside = np.ones(places.shape, bool)
        with np.errstate(all="ignore"):
            if along:
                at = list(np.indices(places.shape))
                at[axis] = places
                _join(how, result, tuple(part[inside] for part in at), updates[inside])
            else:
                # the picked axis first, of one index after the other
                count = places.ndim
                rows = np.moveaxis(updates, range(axis, axis + count), range(count))
                rows = rows.reshape((places.size, *rows.shape[count:]))[inside.ravel()]
                _join(how, np.moveaxis(result, axis, 0), (places[inside],), rows)
        return result

    return reference


# --- derivatives ---------------------------------------------------------------------------------


class _Places:
    """What derivatives ask about the places of one scatter."""

    def __init__(self, along: bool, inputs: Sequence[Value], attrs: Attributes) -> None:
        self.along = along
        self.base, self.indices, self.updates = inputs
        self.attrs = picking(attrs)
        self.axis: int = attrs["axis"]

    def taken(self, value: Value) -> Value:
        """What is at the place of each update; 0 for those that have none."""
        op = take_along_axis_op if self.along else take_op
        return with_shape(apply(op, value, self.indices, **self.attrs), self.updates.shape)

    def joined(self, how: How, base: Value, updates: Value) -> Value:
        """The same scatter of other values."""
        return apply(SCATTERS[how, self.along], base, self.indices, updates, **self.attrs)

    def of_base(self, number: int | float, dtype: DType | None = None) -> Value:
        """A number for each element of the base."""
        single = constant_beside(number, dtype or self.base.dtype, self.base)
        return broadcast_to(single, self.base.shape)

    def of_updates(self, number: int | float, dtype: DType | None = None) -> Value:
        """A number for each update."""
        single = constant_beside(number, dtype or self.base.dtype, self.base)
        return broadcast_to(single, self.updates.shape)

    def last(self) -> Value | None:
        """Which updates are the last at their places, as a mask that broadcasts to them; None if
        all are."""
        indices, axis = self.indices, self.axis
        if self.along:
            numbers = iota_beside(indices.shape, axis, int64, self.base)
            return self.taken(self.joined("set", self.of_base(-1, int64), numbers)) == numbers
        count = product(indices.shape)
        if count == 1:
            return None
        numbers = with_shape(iota_beside((count,), 0, int64, self.base), indices.shape)
        nobody = constant_beside(-1, int64, self.base)
        nobody = broadcast_to(nobody, (self.base.shape[axis],))
        attrs = {**self.attrs, "axis": 0}
        holders = apply(SCATTERS["set", False], nobody, indices, numbers, **attrs)
        held = apply(take_op, holders, indices, **attrs) == numbers
        behind = (1,) * (self.base.ndim - axis - 1)
        return with_shape(held, (*(1,) * axis, *indices.shape, *behind))


def _add_transpose(along: bool) -> Derivative:
    def transpose(
        cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
    ) -> list[Value | None]:
        return [cotangent, None, _Places(along, inputs, attrs).taken(cotangent)]

    return Linear(transpose, fixed=(1,))


def _set_transpose(along: bool) -> Derivative:
    """The last update at a place gets the cotangent, what was there before and the others none."""

    def transpose(
        cotangent: Value, inputs: Sequence[Value], output: Value, attrs: Attributes
    ) -> list[Value | None]:
        at = _Places(along, inputs, attrs)
        left = at.joined("set", cotangent, at.of_updates(0))
        taken, last = at.taken(cotangent), at.last()
        if last is not None:
            taken = surface_function("where")(last, taken, 0)
        return [left, None, taken]

    return Linear(transpose, fixed=(1,))


Ends = tuple[Value | None, Value | None]
"""What goes with the base and with the updates."""


def _by_parts(
    along: bool,
    forward: Callable[[_Places, Ends, Value], Value],
    backward: Callable[[_Places, Value, Value], Ends],
) -> Derivative:
    """A derivative from rules that know the places."""

    def jvp(
        tangents: Sequence[Value | None], inputs: Sequence[Value], outputs: Sequence[Value],
        attrs: Attributes,
    ) -> list[Value | None]:  # fmt: skip
        base, _, updates = tangents
        if base is None and updates is None:
            return [None]
        return [forward(_Places(along, inputs, attrs), (base, updates), outputs[0])]

    def vjp(
        cotangents: Sequence[Value | None], inputs: Sequence[Value], outputs: Sequence[Value],
        attrs: Attributes,
    ) -> list[Value | None]:  # fmt: skip
        (cotangent,) = cotangents
        if cotangent is None:
            return [None, None, None]
        base, updates = backward(_Places(along, inputs, attrs), cotangent, outputs[0])
        return [base, None, updates]

    return Custom(jvp, vjp)


def _factors_of_others(at: _Places) -> Value:
    """For each update the product of the others at its place.

    It is the quotient of all by its own where none is 0. So that it is right at zeros, and its
    derivative too, zeros are left out of the products and counted, and joined again: the sum of
    what is 0 has the derivative that the one left over needs.
    """
    where = surface_function("where")
    own = at.updates
    is_zero = own == 0
    rest = where(is_zero, 1, own)
    products = at.taken(at.joined("multiply", at.of_base(1), rest))
    ones, none = at.of_updates(1, int64), at.of_base(0, int64)
    count = at.taken(at.joined("add", none, ones))
    zeros = at.taken(at.joined("add", none, converted(is_zero, int64)))
    sums = at.taken(at.joined("add", at.of_base(0), where(is_zero, own, 0)))
    others = where(is_zero, products, where(count == 1, 1, products / rest))
    zeros = zeros - converted(is_zero, int64)
    sums = where(is_zero, sums - own, sums)
    result: Value = others * where(zeros == 0, 1, where(zeros == 1, sums, 0))
    return result


def _multiply_derivative(along: bool) -> Derivative:
    def forward(at: _Places, ends: Ends, output: Value) -> Value:
        base, updates = ends
        multiply = surface_function("guarded_multiply")
        result = None if base is None else at.joined("multiply", base, at.updates)
        if updates is not None:
            parts = multiply(updates, _factors_of_others(at) * at.taken(at.base))
            result = at.joined("add", at.of_base(0) if result is None else result, parts)
        assert result is not None
        return result

    def backward(at: _Places, cotangent: Value, output: Value) -> Ends:
        multiply = surface_function("guarded_multiply")
        factors = _factors_of_others(at) * at.taken(at.base)
        updates = multiply(at.taken(cotangent), factors)
        return at.joined("multiply", cotangent, at.updates), updates

    return _by_parts(along, forward, backward)


def _extreme_derivative(along: bool) -> Derivative:
    """Those that equal the extreme at their place share evenly; one that is NaN passes nothing."""

    def tied(at: _Places, output: Value) -> tuple[Value, Value, Value]:
        base = at.base == output
        updates = at.updates == at.taken(output)
        count = at.joined(
            "add", converted(base, output.dtype), converted(updates, output.dtype)
        )
        return base, updates, surface_function("where")(count == 0, 1, count)

    def forward(at: _Places, ends: Ends, output: Value) -> Value:
        where = surface_function("where")
        in_base, in_updates, count = tied(at, output)
        base, updates = ends
        first = at.of_base(0) if base is None else where(in_base, base, 0)
        if updates is not None:
            first = at.joined("add", first, where(in_updates, updates, 0))
        return first / count

    def backward(at: _Places, cotangent: Value, output: Value) -> Ends:
        where = surface_function("where")
        in_base, in_updates, count = tied(at, output)
        share = cotangent / count
        return where(in_base, share, 0), where(in_updates, at.taken(share), 0)

    return _by_parts(along, forward, backward)


# --- declarations --------------------------------------------------------------------------------


def _example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    indices = random.integers(-4, 4, (2, 3))
    arrays = [sample(random, dtype, 3, 4, 2), indices, sample(random, dtype, 3, 2, 3, 2)]
    return arrays, {"axis": 1}


def _along_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    indices = random.integers(-4, 4, (3, 5))
    return [sample(random, dtype, 3, 4), indices, sample(random, dtype, 3, 5)], {"axis": 1}


SCATTERS: dict[tuple[How, bool], OpDef] = {}
"""The scatters by how they combine and whether each update has an index of its own."""

_WORDS: dict[How, tuple[str, str, Callable[[bool], Derivative]]] = {
    "add": ("scatter_add", "added to what is", _add_transpose),
    "set": ("scatter_set", "put", _set_transpose),
    "multiply": ("scatter_multiply", "multiplied into what is", _multiply_derivative),
    "minimum": ("scatter_min", "put, where they are less,", _extreme_derivative),
    "maximum": ("scatter_max", "put, where they are greater,", _extreme_derivative),
}


def _declare(how: How, along: bool) -> OpDef:
    name, verb, derivative = _WORDS[how]
    if along:
        name += "_along_axis"
    places = "that the second names"
    if along:
        places = "that the second names one by one, as for ``take_along_axis``"
    smooth = None if how in ("add", "set") else (0.5, 4.0)
    return register(
        OpDef(
            name=name,
            doc=(
                f"The first input with the third {verb} at the places along ``axis`` {places}; "
                "what meets at one place does one by one in the order of the indices. An index "
                "out of range is an error, or none with ``drop``."
            ),
            infer=_type(name, along),
            reference=_reference(how, along),
            derivative=derivative(along),
            lowering=Scatter(how, along),
            of_complex=each_part if how in ("add", "set") else None,
            may_fail=True,
            domain=Domain(
                dtypes=ALL,
                differentiable=smooth,
                example=_along_example if along else _example,
            ),
        )
    )


SCATTERS |= {(how, False): _declare(how, False) for how in _WORDS}
SCATTERS |= {(how, True): _declare(how, True) for how in ("add", "set")}
scatter_add_op = SCATTERS["add", False]
scatter_along_op = SCATTERS["add", True]


def scattered(
    how: How, base: Value, indices: Value, updates: Value, axis: int, along: bool = False,
    guards: Guards = (), **attrs: Any,
) -> Value:  # fmt: skip
    """The scatter of ready operands; ``attrs`` are ``wraps`` and ``drop``."""
    op = SCATTERS[how, along]
    held = outside(attrs, axis, base.shape[axis], product(indices.shape), op.name, guards)
    return apply(op, base, indices, updates, axis=axis, **attrs, **held)
