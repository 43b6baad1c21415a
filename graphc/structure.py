"""Nested lists, tuples and dicts: taking them apart and putting results back the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def leaves(structure: Any) -> Iterator[Any]:
    """All leaves, left to right; dicts in insertion order."""
    stack = [structure]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(item.values()))
        else:
            yield item


def rebuild(structure: Any, leaf: Callable[[Any], Any]) -> Any:
    """The same structure with each leaf replaced; leaves are visited left to right.

    Recursion is as deep as the nesting that the user wrote.
    """
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(rebuild(item, leaf) for item in structure))
    if isinstance(structure, (list, tuple)):
        return type(structure)(rebuild(item, leaf) for item in structure)
    if isinstance(structure, dict):
        return type(structure)((key, rebuild(item, leaf)) for key, item in structure.items())
    return leaf(structure)
