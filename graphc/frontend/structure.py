"""Nested lists, tuples and dicts: taking them apart and putting results back the same way.

Invariant: what contains itself, and so has no end, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from graphc.base.errors import GraphError, ShapeError
from graphc.base.source import caller

MAXIMUM_DEPTH = 200
"""Nested deeper than this is what nobody writes."""


def leaves(structure: Any) -> Iterator[Any]:
    """All leaves, left to right; dicts in insertion order.

    Raises:
        GraphError: for a structure that is nested without end.
    """
    stack = [iter((structure,))]
    while stack:
        if len(stack) > MAXIMUM_DEPTH:
            raise _endless()
        for item in stack[-1]:
            if isinstance(item, (list, tuple)):
                stack.append(iter(item))
                break
            if isinstance(item, dict):
                stack.append(iter(item.values()))
                break
            yield item
        else:
            stack.pop()


def is_nested(item: Any) -> bool:
    """Whether it is a structure and no leaf."""
    return isinstance(item, (list, tuple, dict))


def leaves_like(pattern: Any, given: Any, what: str) -> list[Any]:
    """The leaves of ``given`` in the order of a pattern's; dicts are matched by key."""
    result: list[Any] = []
    stack = [(pattern, given)]
    while stack:
        like, item = stack.pop()
        if isinstance(like, dict) and isinstance(item, dict) and like.keys() == item.keys():
            stack.extend((like[key], item[key]) for key in reversed(like))
        elif (
            isinstance(like, (list, tuple))
            and isinstance(item, (list, tuple))
            and len(like) == len(item)
        ):
            stack.extend(zip(reversed(like), reversed(item), strict=True))
        elif is_nested(like) or is_nested(item):
            raise ShapeError(
                f"{what} {described(item)} where {described(like)} is expected",
                where=caller(),
                hint="give the same nested lists, tuples and dicts of values",
            )
        else:
            result.append(item)
    return result


def described(item: Any) -> str:
    """A structure as errors speak of it."""
    if isinstance(item, dict):
        return f"a dict with keys {', '.join(map(repr, item)) or 'none'}"
    if isinstance(item, (list, tuple)):
        return f"a {type(item).__name__} of {len(item)}"
    return "no value" if item is None else "one value"


def rebuild(structure: Any, leaf: Callable[[Any], Any]) -> Any:
    """The same structure with each leaf replaced; leaves are visited left to right.

    Recursion is as deep as the nesting that the user wrote.

    Raises:
        GraphError: for a structure that is nested without end.
    """
    return _rebuilt(structure, leaf, 0)


def filled(structure: Any, values: Iterable[Any]) -> Any:
    """The same structure with other leaves, in order."""
    remaining = iter(values)
    return rebuild(structure, lambda leaf: next(remaining))


def _rebuilt(structure: Any, leaf: Callable[[Any], Any], depth: int) -> Any:
    if not isinstance(structure, (list, tuple, dict)):
        return leaf(structure)
    if depth >= MAXIMUM_DEPTH:
        raise _endless()
    if isinstance(structure, dict):
        pairs = ((key, _rebuilt(item, leaf, depth + 1)) for key, item in structure.items())
        return type(structure)(pairs)
    items = (_rebuilt(item, leaf, depth + 1) for item in structure)
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*items)
    return type(structure)(items)


def _endless() -> GraphError:
    return GraphError(
        f"a structure is nested more than {MAXIMUM_DEPTH} deep, or contains itself",
        where=caller(),
        hint="fetch and feed lists, tuples and dicts that have an end",
    )
