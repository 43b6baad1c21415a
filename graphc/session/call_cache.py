"""The call cache of ``session.run``: from fetches and keys of feeds to the executable.

The key is the identity of the fetched values and of the keys of the feeds. Names are looked up anew
when the graph has grown or a name in it has changed. Invariant: an entry holds the objects whose
identities are its key, so no other object can get the same identity. Equal names are interned.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from operator import itemgetter
from sys import intern
from typing import Any

MAX_QUESTIONS = 256
"""Fetches that are noted; where there are more, all are forgotten."""

MAX_ITEMS = 10_000
"""Types, keys and leaves of fetches that are noted."""

MAX_FEEDINGS = 4
"""Sets of keys noted for the same fetches; the one noted first goes first."""


class KnownCall:
    """How to answer a question: the keys of the feeds in order, and what takes their arrays."""

    __slots__ = ("_keys", "_pick", "_revision", "function", "identities")

    def __init__(
        self, keys: tuple[Any, ...], revision: int | None, function: Callable[..., Any]
    ) -> None:
        self.function = function
        self.identities = tuple(map(id, keys))
        self._keys = keys
        self._pick = _picker(keys)
        self._revision = revision

    def arguments(self, feeds: Any, revision: int) -> tuple[Any, ...] | None:
        """The arrays in order, or None where this is another question."""
        if self._revision is not None and self._revision != revision:
            return None
        if type(feeds) is not dict:
            return () if feeds is None and not self._keys else None
        if len(feeds) != len(self._keys):
            return None
        try:
            return self._pick(feeds)
        except KeyError:
            return None


def _picker(keys: tuple[Any, ...]) -> Callable[[Mapping[Any, Any]], tuple[Any, ...]]:
    if len(keys) > 1:
        return itemgetter(*keys)
    if not keys:
        return lambda feeds: ()
    (key,) = keys
    return lambda feeds: (feeds[key],)


_END = object()
"""Stands behind the items of a list, tuple or dict."""


def _flat(fetches: Any) -> list[Any]:
    """All that makes a structure what it is, in one list: types, keys of dicts, leaves, ends.

    Nothing for a structure that is very large, or endless because it contains itself.
    """
    found: list[Any] = []
    stack = [fetches]
    while stack:
        if len(found) > MAX_ITEMS:
            return []
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            found.append(type(item))
            stack.append(_END)
            stack.extend(item[::-1])
        elif isinstance(item, dict):
            found.append(type(item))
            found.extend(item)
            stack.append(_END)
            stack.extend(reversed(item.values()))
        else:
            found.append(intern(item) if type(item) is str else item)
    return found


class _Question:
    """Fetches, and the calls known for them."""

    __slots__ = ("calls", "fetches", "once")

    def __init__(self, fetches: tuple[Any, ...]) -> None:
        self.fetches = fetches
        self.calls: tuple[KnownCall, ...] = ()
        self.once: dict[tuple[int, ...], tuple[Any, ...]] = {}


class KnownCalls:
    """The calls of a session that were made at least twice."""

    __slots__ = ("_questions",)

    def __init__(self) -> None:
        self._questions: dict[Hashable, _Question] = {}

    def find(self, fetches: Any) -> tuple[KnownCall, ...]:
        """The calls known for these fetches."""
        if type(fetches) is str:
            fetches = intern(fetches)
        question = self._questions.get(id(fetches))
        if question is None:
            if not isinstance(fetches, (list, tuple, dict)):
                return ()
            question = self._questions.get(tuple(map(id, _flat(fetches))))
            if question is None:
                return ()
        return question.calls

    def note(
        self, fetches: Any, feeds: Any, revision: int, make: Callable[[], Callable[..., Any]]
    ) -> None:
        """Notes a run that went well; at the second of its kind ``make`` gives its function."""
        if type(feeds) is not dict and feeds is not None:
            return
        if isinstance(fetches, (list, tuple, dict)):
            # not by its own identity: a list stays the same when its items change
            items = tuple(_flat(fetches))
            key: Hashable = tuple(map(id, items))
        else:
            items = (intern(fetches) if type(fetches) is str else fetches,)
            key = id(items[0])
        if key == ():
            return
        question = self._questions.get(key)
        if question is None:
            if len(self._questions) >= MAX_QUESTIONS:
                self._questions.clear()
            question = self._questions.setdefault(key, _Question(items))
        keys = tuple(intern(key) if type(key) is str else key for key in feeds or ())
        identities = tuple(map(id, keys))
        if identities not in question.once:
            if len(question.once) >= MAX_QUESTIONS:
                question.once.clear()
            question.once[identities] = keys
            return
        has_names = any(isinstance(item, str) for item in (*items, *keys))
        call = KnownCall(keys, revision if has_names else None, make())
        others = [other for other in question.calls if other.identities != identities]
        question.calls = (call, *others[: MAX_FEEDINGS - 1])
