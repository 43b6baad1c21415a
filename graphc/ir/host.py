"""Python functions that a graph calls when it runs, as attributes of nodes.

Invariant: there is one ``HostFunction`` for a function with its derivative and its name, so that
equal means the same object. A function is known within its process alone: nothing that leaves the
process may hold one.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from graphc.base.errors import GraphcError, HostCallError
from graphc.base.forks import lock
from graphc.base.weak import WeakTable
from graphc.base.words import plural, shown
from graphc.ir.dtypes import DType, bool_
from graphc.ir.types import TensorType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TOKEN = TensorType(bool_, ())
"""The type of what puts effects in order: each reads the token of the one before it and makes its
own. Whatever its value is, nobody looks at it."""

_STANDS_IN: ContextVar[bool] = ContextVar("stands_in", default=False)


class HostFunction:
    """A Python function, with what it is called and how it is differentiated.

    Attributes:
        function: takes arrays, gives arrays.
        derivative: builds the cotangents of its operands, or None.
        name: for people; texts show it.
        number: tells it from all others of the process.
        passes_on: errors of graphc's own that are raised as they are.
    """

    __slots__ = ("__weakref__", "derivative", "function", "name", "number", "passes_on")

    def __init__(
        self,
        function: Callable[..., Any],
        derivative: Callable[..., Any] | None,
        name: str,
        passes_on: tuple[type[GraphcError], ...],
    ) -> None:
        self.function = function
        self.derivative = derivative
        self.name = name
        self.passes_on = passes_on
        self.number = next(_NUMBERS)

    def __call__(
        self,
        arrays: Sequence[Array],
        dtypes: Sequence[DType],
        shapes: Sequence[tuple[int, ...]],
    ) -> list[Array]:
        """What it gives for arrays, which it may keep and change: arrays of these types.

        Raises:
            HostCallError: caused by what the function raised, or for what is not of these types.
            BaseException: what is no ``Exception``, as KeyboardInterrupt, as it is.
        """
        if _STANDS_IN.get():
            return [np.zeros(s, d.numpy) for d, s in zip(dtypes, shapes, strict=True)]
        try:
            given = self.function(*arrays)
        except self.passes_on:
            raise
        except Exception as error:
            what = type(error).__name__
            try:
                message = str(error).strip()
            except Exception:
                message = ""  # an error that can't be told is one all the same
            what += f": {message}" if message else ""
            raise HostCallError(f"{self.name} raised {what}") from error
        return self._checked(given, dtypes, shapes)

    def _checked(
        self, given: Any, dtypes: Sequence[DType], shapes: Sequence[tuple[int, ...]]
    ) -> list[Array]:
        if not dtypes:
            if given is None or (isinstance(given, (tuple, list)) and not given):
                return []
            raise HostCallError(
                f"{self.name} gave {_described(given)}, where it was to give nothing",
                hint="say what it gives: result_types=(shape, dtype)",
            )
        if len(dtypes) == 1:
            if isinstance(given, tuple) and len(given) == 1:
                (given,) = given
            return [self._array(given, dtypes[0], shapes[0], "")]
        if not isinstance(given, (tuple, list)) or len(given) != len(dtypes):
            expected = plural(len(dtypes), "array")
            raise HostCallError(f"{self.name} gave {_described(given)}, not {expected}")
        return [
            self._array(item, dtype, shape, f" as result {place}")
            for place, (item, dtype, shape) in enumerate(zip(given, dtypes, shapes, strict=True))
        ]

    def _array(self, item: Any, dtype: DType, shape: tuple[int, ...], place: str) -> Array:
        array = item
        if not isinstance(item, (np.ndarray, np.generic)):
            array = _from_python(item, dtype)
        if array is None or array.dtype != dtype.numpy or array.shape != shape:
            hint = None
            if array is not None and array.shape == shape:
                hint = f"convert it: .astype('{dtype}')"
            raise HostCallError(
                f"{self.name} gave {_described(item)}{place}, not {dtype}{list(shape)}", hint=hint
            )
        return np.asarray(array)

    def __reduce__(self) -> tuple[object, ...]:
        return host_function, (self.function, self.derivative, self.name, self.passes_on)

    def __repr__(self) -> str:
        return f"<host function {self.name}>"


def _from_python(item: Any, dtype: DType) -> Array | None:
    """Python's numbers and nested lists of them, in a dtype of their kind or a wider one."""
    try:
        array = np.asarray(item)
    except (ValueError, TypeError, OverflowError):
        return None
    rank, wanted = _RANKS.get(array.dtype.kind), _RANKS.get(dtype.numpy.kind)
    if rank is None or wanted is None or (rank > wanted and array.size):
        return None
    with np.errstate(all="ignore"):
        result = array.astype(dtype.numpy)
    if wanted == 1 and not np.array_equal(result, array):
        return None
    return result


_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
"""Numbers go to dtypes of their kind and of kinds behind it."""


def _described(item: Any) -> str:
    """A value that a function gave, in words."""
    if isinstance(item, (np.ndarray, np.generic)):
        return f"{item.dtype}{list(item.shape)}"
    if isinstance(item, (tuple, list)):
        return f"a {type(item).__name__} of {len(item)}"
    return shown(item)


_NUMBERS = count(1)
_LOCK = lock()
_KNOWN: WeakTable[Hashable, HostFunction] = WeakTable()
_BY_NUMBER: WeakTable[int, HostFunction] = WeakTable()


def _identity(function: Callable[..., Any] | None) -> Hashable:
    """Equal for the same function; a method is made anew each time that it is looked up."""
    if isinstance(function, types.MethodType):
        return id(function.__self__), id(function.__func__)
    return id(function)


def host_function(
    function: Callable[..., Any],
    derivative: Callable[..., Any] | None = None,
    name: str | None = None,
    passes_on: tuple[type[GraphcError], ...] = (),
) -> HostFunction:
    """The one attribute of a function; it keeps the function alive."""
    label = name or getattr(function, "__qualname__", None) or type(function).__qualname__
    key = _identity(function), _identity(derivative), label, passes_on
    with _LOCK:
        found = _KNOWN.get(key)
        if found is None:
            found = HostFunction(function, derivative, str(label), passes_on)
            _KNOWN.setdefault(key, found)
            _BY_NUMBER.setdefault(found.number, found)
    return found


def numbered(number: int, name: str) -> HostFunction | None:
    """The function of a number and a name, which a text of this process shows."""
    found = _BY_NUMBER.get(number)
    return found if found is not None and found.name == name else None


@contextmanager
def stand_ins() -> Iterator[None]:
    """Within, no function is called: each gives zeros. So it is where graphs are tried on data that
    no user has given, for which functions were not made."""
    token = _STANDS_IN.set(True)
    try:
        yield
    finally:
        _STANDS_IN.reset(token)


__all__ = ["TOKEN", "HostFunction", "host_function", "numbered", "stand_ins"]
