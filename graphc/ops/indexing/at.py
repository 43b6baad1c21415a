"""``x.at[key].set(v)`` and its kin: a new value with some elements changed, as in JAX.

What slices and masks choose is spread to the shape of ``x`` and selected by a ``where``, which
fuses with what is around it. Rows and elements that ints and index arrays choose are scattered:
that costs what the update does where the old value dies. Invariant: a key chooses what ``x[key]``
reads, and updates have the shape of that or broadcast to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphc.base.errors import ShapeError, UnsupportedError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, equal
from graphc.ir.dtypes import bool_, int64
from graphc.ir.surface import surface, surface_function
from graphc.ir.value import Value
from graphc.ops.convert import as_value, converted, size_beside
from graphc.ops.creation import iota_beside
from graphc.ops.guards import Guards, show
from graphc.ops.indexing.getitem import common_indices, looked_up, read
from graphc.ops.indexing.keys import Key, key_of, without_truths
from graphc.ops.indexing.modes import mode_of
from graphc.ops.indexing.scatter import How
from graphc.ops.indexing.written import as_update, scattered_at
from graphc.ops.move.shape import broadcast_to, permuted, stretched, with_shape
from graphc.ops.move.slicing import spread_back
from graphc.ops.source import constant_beside

Join = Callable[[Value, Value], Value]
"""From what is there and the update to what will be."""


@surface
def at(x: Any) -> At:
    """What updates parts of ``x``: ``gx.at(x)[key].set(v)``, for values also ``x.at[key].set(v)``.

    ``key`` is anything that ``x[key]`` takes, and masks that are values. Nothing is changed: each
    method gives a new value. ``set``, ``add``, ``subtract``, ``multiply``, ``divide``, ``power``,
    ``min``, ``max`` and ``apply`` update what ``get`` reads.
    """
    return At(as_value(x))


class At:
    """``x.at``, to be indexed."""

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    def __getitem__(self, key: Any) -> Part:
        value, plain = without_truths(self._value, key)
        return Part(value, plain, self._value.shape)

    def __repr__(self) -> str:
        return f"<at of {self._value!r}>"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """``x.at[key]``. Updates broadcast to the shape of ``x[key]`` and are cast to the dtype of x.

    Where a key names a place several times, ``set`` keeps the last in the order of the indices, as
    NumPy's assignment does, and the others combine them all, one by one.

    ``mode`` says what an index out of range is: "error" (unless said otherwise), "clip" to the
    nearest place, "wrap" around, "drop" (or "fill") for none. Slices never are. The hints
    ``indices_are_sorted`` and ``unique_indices`` promise what changes no result.
    """

    value: Value
    key: Any
    shape: tuple[Dim, ...]
    """Of what an update gives: truth values in a key have axes of their own in ``value``."""

    def get(
        self, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, fill_value: Any = None,
    ) -> Value:  # fmt: skip
        """``x[key]``, with ``fill_value`` where mode "fill" finds no place: unless given NaN, the
        least of signed integers, the greatest of unsigned ones, or True."""
        return read(self.value, self.key, mode_of(mode), fill_value)

    def set(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None,
    ) -> Value:  # fmt: skip
        """These values instead."""
        return self._updated("set", lambda old, new: new, values, mode)

    def add(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None,
    ) -> Value:  # fmt: skip
        """``x[key] + values``."""
        return self._updated("add", surface_function("add"), values, mode)

    def subtract(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None,
    ) -> Value:  # fmt: skip
        """``x[key] - values``."""
        return self.add(surface_function("negative")(as_update(values, self.value)), mode=mode)

    def multiply(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None,
    ) -> Value:  # fmt: skip
        """``x[key] * values``."""
        return self._updated("multiply", surface_function("multiply"), values, mode)

    mul = multiply

    def min(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None,
    ) -> Value:  # fmt: skip
        """The lesser of both; NaN wins."""
        return self._updated("minimum", surface_function("minimum"), values, mode)

    def max(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None,
    ) -> Value:  # fmt: skip
        """The greater of both; NaN wins."""
        return self._updated("maximum", surface_function("maximum"), values, mode)

    def divide(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None,
    ) -> Value:  # fmt: skip
        """``x[key] / values``, of floats where x is of integers; several at one place divide by
        their product."""
        return self._by_factors(surface_function("divide"), values, mode)

    def power(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None,
    ) -> Value:  # fmt: skip
        """``x[key] ** values``; several at one place raise to their product."""
        return self._by_factors(surface_function("power"), values, mode)

    def apply(
        self, function: Callable[[Value], Value], *, indices_are_sorted: bool = False,
        unique_indices: bool = False, mode: str | None = None,
    ) -> Value:  # fmt: skip
        """``function`` of what is there, a function of each element by itself.

        Raises:
            UnsupportedError: for index arrays without ``unique_indices=True``: a place named twice
                would have it applied twice.
        """
        plan = self._plan(mode)
        if not _scatters(plan, self.value):
            return self._whole(self._selected(plan, lambda old, new: function(old), 0))
        if plan.arrays and not unique_indices:
            raise UnsupportedError(
                "apply at places that may be named twice",
                where=caller(),
                hint="promise unique_indices=True, or read with x[key] and write with .set",
            )
        return self.set(function(self.get(mode=mode)), mode=mode)

    # --- how -------------------------------------------------------------------------------------

    def _plan(self, mode: str | None) -> Key:
        chosen = mode_of(mode)
        return key_of(self.value.shape, self.key, ints_are_arrays=chosen != "error")

    def _updated(self, how: How, join: Join, values: Any, mode: str | None) -> Value:
        plan = self._plan(mode)
        if not _scatters(plan, self.value):
            return self._whole(self._selected(plan, join, values))
        updates = as_update(values, self.value)
        return self._whole(_scattered(self.value, plan, how, updates, mode_of(mode)))

    def _whole(self, updated: Value) -> Value:
        return with_shape(updated, self.shape, ())

    def _by_factors(self, join: Join, values: Any, mode: str | None) -> Value:
        """Joins with one number for each element, which is 1 where nothing is updated."""
        plan = self._plan(mode)
        if not _scatters(plan, self.value):
            return self._whole(self._selected(plan, join, values))
        ones = surface_function("ones_like")(self.value)
        chosen = mode_of(mode)
        factors = _scattered(ones, plan, "multiply", as_update(values, self.value), chosen)
        joined = join(self.value, factors)
        kept = converted(self.value, joined.dtype)
        return self._whole(surface_function("where")(factors == 1, kept, joined))

    def _selected(self, plan: Key, join: Join, values: Any) -> Value:
        """Where slices and a mask choose."""
        value = self.value
        there = _mask(plan, value)
        spread = _spread(plan, value, as_update(values, self.value))
        joined = join(value, spread)
        if there is None:
            return joined
        result: Value = surface_function("where")(there, joined, converted(value, joined.dtype))
        return result


def _scatters(plan: Key, value: Value) -> bool:
    """Whether a key names rows or elements by number, and not whole ranges of them."""
    if plan.mask is not None:
        if plan.arrays or plan.windows:
            raise UnsupportedError(
                "a symbolic mask beside index arrays",
                where=caller(),
                hint="write x.at[mask].set(gx.where(chosen, v, x)), with the arrays as a mask "
                "too, or make the places of the mask with gx.nonzero(mask, size=most)",
            )
        return False
    if plan.arrays or plan.windows:
        return True
    kept = {axis for axis in plan.sources if axis is not None}
    partial = [a for a, n in enumerate(value.shape) if not plan.is_whole(a, n) or a not in kept]
    return bool(partial) and not kept.intersection(partial)


# --- by where ------------------------------------------------------------------------------------


def _mask(plan: Key, value: Value) -> Value | None:
    """Which elements of the tensor are chosen; None for all."""
    there: Value = constant_beside(True, bool_, value)
    if plan.mask is not None:
        mask, first = plan.mask
        rest = (1,) * (value.ndim - first - mask.ndim)
        there = with_shape(mask, (*(1,) * first, *mask.shape, *rest), ())
        there = stretched(there, tuple(plan.size), tuple(plan.taken_guards))
    elif all(plan.is_whole(axis, length) for axis, length in enumerate(value.shape)):
        return None
    return _back(plan, value, broadcast_to(there, tuple(plan.size)))


def _back(plan: Key, value: Value, part: Value) -> Value:
    """A part in its places, 0 in others."""
    return spread_back(
        part, value.shape, plan.start, plan.step, plan.size, tuple(plan.sliced_guards)
    )


def _spread(plan: Key, value: Value, updates: Value) -> Value:
    """Updates of the shape of ``x[key]`` in their places."""
    if plan.mask is None:
        part = broadcast_to(updates, tuple(plan.shape))
    else:
        part = _spread_by_mask(plan, updates)
    return _back(plan, value, with_shape(part, tuple(plan.size), ()))


def _spread_by_mask(plan: Key, updates: Value) -> Value:
    """Updates of the shape of ``x[key]``, which don't depend on the element that a mask chooses."""
    assert plan.mask is not None
    mask, first = plan.mask
    covered = [n for n, axis in enumerate(plan.sources)
               if axis is not None and first <= axis < first + mask.ndim]  # fmt: skip
    others = [n for n in range(len(plan.shape)) if n not in covered]
    place = sum(n < covered[0] for n in others) if covered and plan.adjacent else 0
    dims = [plan.shape[n] for n in others]
    most = (*dims[:place], 1, *dims[place:])
    behind = len(most) - place
    if updates.ndim >= behind and not equal(updates.shape[updates.ndim - behind], 1):
        raise ShapeError(
            f"updates of shape {show(updates.shape)} by a symbolic mask, of which nobody knows how "
            "many elements it chooses",
            where=caller(),
            hint="give one for all of them, or values in the shape of x: gx.where(mask, values, x)",
        )
    part = broadcast_to(updates, most)
    order = [*range(place), *range(place + 1, len(most))]
    part = with_shape(permuted(part, (place, *order)), tuple(dims), ())
    spaced = tuple(1 if n in covered else dim for n, dim in enumerate(plan.shape))
    return broadcast_to(with_shape(part, spaced, ()), tuple(plan.shape))


# --- by number -----------------------------------------------------------------------------------


def _scattered(value: Value, plan: Key, how: How, updates: Value, mode: str) -> Value:
    """Scatters over the axes from the first to the last that is not taken whole."""
    arrays = looked_up(plan, value, mode)
    common, fit = common_indices(arrays) if arrays else ((), ())
    guards: Guards = tuple(dict.fromkeys((*plan.taken_guards, *plan.sliced_guards, *fit)))
    target = 0
    if arrays:
        target = plan.places[0] if plan.adjacent else 0
    others = [n for n in range(len(plan.shape)) if n not in plan.places]
    # the axes of x[key]: what of x each is, None for those of the index arrays and new ones
    sources: list[int | None] = [plan.sources[n] for n in others]
    dims: list[Dim] = [plan.shape[n] for n in others]
    sources[target:target] = [-1] * len(common)
    dims[target:target] = common
    kept = {axis for axis in plan.sources if axis is not None} - set(plan.axes)
    partial = [
        axis for axis, length in enumerate(value.shape)
        if axis not in kept or not plan.is_whole(axis, length)
    ]  # fmt: skip
    low, high = partial[0], partial[-1]
    first = [n for n, axis in enumerate(sources) if axis is not None and 0 <= axis < low]
    last = [n for n, axis in enumerate(sources) if axis is not None and axis > high]
    inner = [n for n, axis in enumerate(sources) if axis is not None and -1 <= axis <= high
             and n not in first]  # fmt: skip
    new = [n for n, axis in enumerate(sources) if axis is None]
    places = tuple(dims[n] for n in inner)
    begin = next((n for n, m in enumerate(inner) if sources[m] == -1), 0)
    at = dict(zip(plan.axes, arrays, strict=True))
    numbers: list[Value] = []
    for axis in range(low, high + 1):
        if axis in at:
            index = stretched(at[axis], common, guards)
            width, where = len(common), begin
        else:
            index = _numbers(plan, value, axis)
            width = index.ndim
            where = next((n for n, m in enumerate(inner) if sources[m] == axis), 0)
        behind = (1,) * (len(places) - where - width)
        # what the key needs is told before what the updates need
        spaced = with_shape(index, (*(1,) * where, *index.shape, *behind), guards)
        numbers.append(broadcast_to(spaced, places))
    part = permuted(broadcast_to(updates, tuple(dims)), (*first, *inner, *new, *last))
    part = with_shape(part, tuple(dims[n] for n in (*first, *inner, *last)), ())
    drops = mode == "drop" and bool(arrays)
    return scattered_at(how, value, low, numbers, part, guards, drops)


def _numbers(plan: Key, value: Value, axis: int) -> Value:
    """The places that a slice or an int has in an axis."""
    if axis in plan.windows:
        return plan.windows[axis]
    start = size_beside(plan.start[axis], int64, value)
    if axis not in plan.sources:
        return start
    steps = iota_beside((plan.size[axis],), 0, int64, value)
    result: Value = start + steps * plan.step[axis]
    return result
