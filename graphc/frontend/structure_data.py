"""Nested structures of results as plain data, so that files can hold them.

A leaf is a number, its place in the flat list of leaves; a list, tuple or dict is ``["list", …]``,
``["tuple", …]`` or ``["dict", [key, …], …]``. Keys are strings, ints, bools or None. A named tuple
is ``["named", [name, field, …], …]`` and comes back as one of this name and these fields: whoever
reads the file need not have its class.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from graphc.base.errors import ArtifactError, UnsupportedError
from graphc.base.source import caller

MAXIMUM_NESTING = 64
"""Structures in files may be nested this deep."""


def structure_data(structure: Any) -> Any:
    """The structure as plain data; leaves are numbered left to right.

    Raises:
        UnsupportedError: for structures that files can't hold.
    """
    count = 0

    def encode(item: Any, depth: int) -> Any:
        nonlocal count
        if not isinstance(item, (list, tuple, dict)):
            count += 1
            return count - 1
        names = _names_of(item)
        if names is None and type(item) not in (list, tuple, dict):
            raise UnsupportedError(
                f"a {type(item).__name__} cannot be saved",
                where=caller(),
                hint="use plain lists, tuples and dicts, or named tuples",
            )
        if depth >= MAXIMUM_NESTING:
            raise UnsupportedError(
                f"structures nested more than {MAXIMUM_NESTING} deep cannot be saved",
                where=caller(),
            )
        if isinstance(item, dict):
            for key in item:
                if key is not None and type(key) not in (str, int, bool):
                    raise UnsupportedError(
                        f"the key {key!r} cannot be saved",
                        where=caller(),
                        hint="keys are strings, ints, bools or None",
                    )
            return ["dict", list(item), *(encode(value, depth + 1) for value in item.values())]
        kind = ["named", names] if names else ["list" if isinstance(item, list) else "tuple"]
        return [*kind, *(encode(value, depth + 1) for value in item)]

    return encode(structure, 0)


@lru_cache(maxsize=256)
def _class_of(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """A class of named tuples; ValueError for what are no names."""
    return namedtuple(name, fields)


def _names_of(item: Any) -> list[str] | None:
    """The name and the fields of a named tuple; None for anything else."""
    fields = getattr(type(item), "_fields", None)
    if not isinstance(item, tuple) or not isinstance(fields, tuple) or len(fields) != len(item):
        return None
    names = [type(item).__name__, *fields]
    try:
        _class_of(names[0], fields)
    except (TypeError, ValueError):
        return None
    return names


def structure_of(data: Any, count: int, leaf: Callable[[int], Any]) -> Any:
    """The structure that data describes, each leaf made by its number.

    Leaves must be 0 to ``count`` - 1 from left to right.

    Raises:
        ArtifactError: if the data describes no structure of ``count`` leaves.
    """
    seen = 0

    def decode(item: Any, depth: int) -> Any:
        nonlocal seen
        if type(item) is int:
            if item != seen or item >= count:
                raise ArtifactError(f"the structure of results names leaf {item}, not {seen}")
            seen += 1
            return leaf(item)
        if depth >= MAXIMUM_NESTING or not isinstance(item, list) or not item:
            raise ArtifactError("the structure of results is damaged")
        kind, rest = item[0], item[1:]
        if kind == "dict" and rest and isinstance(rest[0], list) and len(rest[0]) == len(rest) - 1:
            for key in rest[0]:
                if key is not None and type(key) not in (str, int, bool):
                    raise ArtifactError("the structure of results has a key that is none")
            result = {
                key: decode(value, depth + 1) for key, value in zip(rest[0], rest[1:], strict=True)
            }
            if len(result) == len(rest[0]):
                return result
        elif kind == "named" and rest and isinstance(rest[0], list):
            return named(rest[0], [decode(value, depth + 1) for value in rest[1:]])
        elif kind == "list":
            return [decode(value, depth + 1) for value in rest]
        elif kind == "tuple":
            return tuple(decode(value, depth + 1) for value in rest)
        raise ArtifactError("the structure of results is damaged")

    def named(names: list[Any], items: list[Any]) -> Any:
        if len(names) == len(items) + 1 and all(type(name) is str for name in names):
            try:
                return _class_of(names[0], tuple(names[1:]))(*items)
            except ValueError:
                pass
        raise ArtifactError("the structure of results has a named tuple whose names are none")

    result = decode(data, 0)
    if seen != count:
        raise ArtifactError(f"the structure of results has {seen} leaves, not {count}")
    return result
