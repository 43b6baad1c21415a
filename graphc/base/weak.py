"""Weak tables whose entries go with their objects, without callbacks in Python.

Objects die anywhere. An interrupt during a callback of a weak reference is lost, because the
interpreter can only print it. So the callback is a method of a list, which notes the death, and the
entry goes when something is next added.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar
from weakref import ref

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)


class WeakBag(Generic[T]):
    """Objects in the order in which they were added, as long as they live."""

    def __init__(self) -> None:
        self._entries: dict[int, ref[T]] = {}
        self._dead: list[ref[T]] = []

    def add(self, item: T) -> None:
        """Adds an object, which can be referred to weakly."""
        while (dead := popped(self._dead)) is not None:
            self._entries.pop(id(dead), None)
        entry = ref(item, self._dead.append)
        self._entries[id(entry)] = entry

    def __iter__(self) -> Iterator[T]:
        for entry in list(self._entries.values()):
            item = entry()
            if item is not None:
                yield item


class _Entry(ref[T]):
    """A reference that knows its key."""

    __slots__ = ("key",)
    key: Any


class WeakTable(Generic[Key, T]):
    """Objects by keys, as long as they live. Those who add exclude each other."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry[T]] = {}
        self._dead: list[ref[T]] = []

    def __len__(self) -> int:
        return len(self._entries) - len(self._dead)

    def get(self, key: Key) -> T | None:
        """The living object of that key."""
        entry = self._entries.get(key)
        return None if entry is None else entry()

    def setdefault(self, key: Key, item: T) -> T:
        """The living object of that key, which is this one if there is none."""
        while (dead := popped(self._dead)) is not None:
            assert isinstance(dead, _Entry)
            if self._entries.get(dead.key) is dead:
                del self._entries[dead.key]
        known = self.get(key)
        if known is not None:
            return known
        entry = _Entry(item, self._dead.append)
        entry.key = key
        self._entries[key] = entry
        return item


def popped(items: list[T]) -> T | None:
    """The last item of a list, taken out of it; None if there is none."""
    try:
        return items.pop()
    except IndexError:
        return None


__all__ = ["WeakBag", "WeakTable", "popped"]
