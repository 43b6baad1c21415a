"""Lazily computed attributes of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """A property that is worked out once and kept in the object's ``__dict__``.

    Unlike that of ``functools`` before Python 3.12 it has no lock, which all objects of a class
    would share, and a child lack. Threads that come at once each work it out, and all get one of
    the results.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        known: dict[str, T] = instance.__dict__
        return known.setdefault(self._name, self._function(instance))


__all__ = ["once"]
