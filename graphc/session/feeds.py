"""What may be fed where: which argument of a call is which feed, and the conversion rules.

bool goes to anything, ints to ints or floats with range checks, floats to floats; everything else
is an error that names what was expected and what was given. The result is packed, aligned and of
native byte order; a fed array is never written, so one that already is so is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ConcreteValueError, FeedError
from graphc.base.source import caller
from graphc.base.words import known_names, plural, shown
from graphc.ir.attributes import Array
from graphc.ir.dtypes import DType, kind_of
from graphc.ir.recorder import producer_of
from graphc.ir.value import Value
from graphc.ops.source import placeholder_op

_ARRAYS = "feed numbers or bools, in lists of equal lengths or an array"
_REAL = "give .real, or make it complex there too"


def arguments_by_place(
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    feeds: Sequence[tuple[str | None, str]],
    needed: Iterable[int],
) -> dict[int, Any]:
    """What a call gives for each feed, by its place.

    Without names there is one argument for each feed; with names, those not needed may be missing.

    Args:
        arguments: those by position.
        named: the others, by the name of the feed.
        feeds: name and type of each, as text.
        needed: the places of those that the program reads.

    Raises:
        FeedError: for a wrong number of arguments, a dict of feeds, a name that no or more than
            one feed has, and what is given twice or is needed and missing.
    """
    labels = ", ".join(name or type_ for name, type_ in feeds)
    for place, argument in enumerate(arguments):
        if isinstance(argument, dict):
            raise FeedError(
                f"argument {place} is a dict, but feeds are arguments of their own here ({labels})",
                where=caller(),
                hint="give them by position, in this order, or by name, as in name=array; "
                "only session.run takes a dict",
            )
    if len(arguments) > len(feeds) or (len(arguments) < len(feeds) and not named):
        counts = f"{plural(len(arguments), 'argument')} for {plural(len(feeds), 'feed')}"
        raise FeedError(
            f"{counts} ({labels})" if labels else counts,
            where=caller(),
            hint="give one for each feed, in this order or by name" if labels else "give none",
        )
    given = dict(enumerate(arguments))
    for name, argument in named.items():
        place = _place(name, [known for known, _ in feeds])
        if place in given:
            raise FeedError(
                f"argument {name!r} is given twice",
                where=caller(),
                hint="once by position and once by name: leave one out",
            )
        given[place] = argument
    for place in sorted(needed):
        if place not in given:
            label, type_ = feeds[place]
            raise FeedError(
                f"argument {place}, {label or 'unnamed'}: {type_}, is needed but not given",
                where=caller(),
                hint="give it by position" + ("" if label is None else f", or as {label}="),
            )
    return given


def _place(name: str, names: Sequence[str | None]) -> int:
    """The one feed of that name."""
    found = [place for place, known in enumerate(names) if known == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise FeedError(
            f"{len(found)} arguments are called {name!r}",
            where=caller(),
            hint="give them by position",
        )
    raise FeedError(
        f"no argument is called {name!r}",
        where=caller(),
        hint=known_names(name, [known for known in names if known is not None])
        or "give arguments by position: the feeds have no names",
    )


def mapping_of(given: Any, what: str) -> Mapping[Any, Any]:
    """A mapping by value or name.

    Raises:
        FeedError: for what is none.
    """
    if isinstance(given, Mapping):
        return given
    raise FeedError(
        f"{what} are {shown(given)}, not a mapping",
        where=caller(),
        hint="give a dict of arrays by value or name, {x: array}",
    )


def converted_feed(value: Value, given: Any, stacked: bool = False) -> Array:
    """The array to run with; where it is ``stacked``, one of several runs, its first axis.

    Raises:
        FeedError: naming expected and given.
    """
    if (
        type(given) is np.ndarray
        and given.dtype == value.dtype.numpy
        and given.dtype.isnative
        and given.flags.c_contiguous
        and given.flags.aligned
        and given.ndim == len(value.shape) + stacked
    ):
        array = given
    else:
        array = _as_array(value, given, len(value.shape) + stacked)
    for dim, size in zip(value.shape, array.shape[stacked:], strict=True):
        if isinstance(dim, int) and dim != size:
            raise _misshapen(value, array.shape[stacked:], given)
    return array


def _as_array(value: Value, given: Any, rank: int) -> Array:
    type_ = value.type
    if isinstance(given, Value):
        raise _wrong(value, "a symbolic value", given, "feed an array; fetch the value first")
    if given is None:
        raise _wrong(value, "None", given, "feed an array, or leave the feed out")
    if isinstance(given, np.ma.MaskedArray) and np.any(given.mask):
        raise _wrong(value, "masked entries", given, "fill them first, with .filled(x)")
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as error:
        problem = f"what NumPy cannot make an array of ({error})"
        if isinstance(error, ConcreteValueError):
            problem = f"a {type(given).__name__} with symbolic values"
        elif "inhomogeneous" in str(error):
            problem = "lists of unequal lengths"
        raise _wrong(value, problem, given, _ARRAYS) from error
    if kind_of(array.dtype) not in ("biufc" if type_.dtype.is_complex else "biuf"):
        raise _wrong(value, *_no_numbers(array, given))
    if array.ndim != rank:
        raise _misshapen(value, array.shape, given)
    array = _cast(value, array, type_.dtype, given)
    return np.require(array, type_.dtype.numpy, ["C", "A"]).reshape(array.shape)


def _no_numbers(array: Array, given: Any) -> tuple[str, Any, str]:
    """What is no array of numbers, the thing itself, and what to feed instead."""
    hint = _ARRAYS
    if array.dtype.kind in "mM":
        hint = "make numbers of it first: (array - start) / np.timedelta64(1, 's') has seconds"
    elif array.dtype.kind == "c":
        hint = _REAL
    elif isinstance(given, Mapping):
        hint = "feeds of several placeholders are entries of one dict: {x: array, y: array}"
    elif isinstance(given, Iterable) and not isinstance(given, (str, bytes)) and not array.ndim:
        hint = "make a list of it first, with list(...)"
    if array.ndim or isinstance(given, (np.ndarray, np.generic)):
        return f"dtype {array.dtype}", given, hint
    kind = type(given).__name__
    text = shown(given)
    return text if text.startswith(f"a {kind}") else f"the {kind} {text}", given, hint


def _cast(value: Value, array: Array, dtype: DType, given: Any) -> Array:
    is_list = not isinstance(given, np.ndarray)
    is_empty = array.size == 0 and kind_of(array.dtype) in "iufc" and is_list
    problem = None if is_empty else misfit(array, dtype)
    if problem is not None:
        raise _wrong(value, problem[0], given, problem[1])
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy, copy=False)


def misfit(given: Array | DType, dtype: DType) -> tuple[str, str] | None:
    """Why numbers are not taken where a dtype is kept, and what to do; None if they are.

    Of numbers that are not known yet, ``given`` is their dtype.
    """
    element = given.numpy if isinstance(given, DType) else given.dtype
    kind = kind_of(element)
    if kind == "b" or (kind in "iuf" and dtype.is_inexact) or (kind == "c" and dtype.is_complex):
        return None
    if kind == "c":
        return f"dtype {element}", _REAL
    if kind == "f":
        return f"dtype {element}", f"round it with .astype('{dtype}')"
    if kind not in "iu":
        return f"dtype {element}", _ARRAYS
    if dtype.kind == "bool":
        return f"dtype {element}", "compare it, for example with != 0"
    if isinstance(given, DType) or not given.size or element == dtype.numpy:
        return None
    low, high = int(given.min()), int(given.max())
    if dtype.least <= low and high <= dtype.greatest:
        return None
    return (
        f"values from {low} to {high}",
        f"{dtype} holds {dtype.least} to {dtype.greatest}: wrap them with .astype('{dtype}')",
    )


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _misshapen(value: Value, shape: tuple[int, ...], given: Any) -> FeedError:
    """The error for a shape: it names the first axis that is wrong, or the number of axes."""
    what = f"an array of shape {_shape(shape)}"
    rank = len(value.shape)
    if len(shape) != rank:
        what += f": {len(shape)} {'axis' if len(shape) == 1 else 'axes'} instead of {rank}"
        hint = None
        if len(shape) == rank - 1:
            hint = "add an axis with array[None], or at the end with array[..., None]"
        elif len(shape) > rank and 1 in shape:
            hint = "drop axes of size 1 with array.squeeze()"
        elif _is_placeholder(value):
            hint = "reshape the array, or declare the placeholder with its number of axes"
        return _wrong(value, what, given, hint)
    axis, expected = next(
        (axis, dim)
        for axis, (dim, size) in enumerate(zip(value.shape, shape, strict=True))
        if isinstance(dim, int) and dim != size
    )
    what += f": axis {axis} has size {shape[axis]}, not {expected}"
    hint = None
    fixed = [dim for dim in value.shape if isinstance(dim, int)]
    if len(fixed) == rank and sorted(fixed) == sorted(shape):
        hint = "the sizes are right in another order: transpose the array"
    elif _is_placeholder(value):
        hint = f"to take any size here, declare the placeholder with None or a name as dim {axis}"
    return _wrong(value, what, given, hint)


def _is_placeholder(value: Value) -> bool:
    node = producer_of(value)
    return node is not None and node.op is placeholder_op


def _wrong(value: Value, what: str, given: Any, hint: str | None = None) -> FeedError:
    node, called = producer_of(value), caller()
    built = None if node is None else node.provenance.where
    return FeedError(
        f"feed for {value.name or 'an unnamed value'}: expected {value.type.brief()}, given {what}",
        where=built or called,
        node=f"the call at {called}" if built is not None and called is not None else None,
        hint=hint,
    )
