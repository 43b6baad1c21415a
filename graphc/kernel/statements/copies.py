"""Copies of statements: the same work once more in a kernel, over buffers and scalars of its own.

A scalar is defined once in a kernel, so statements that stand there twice need other scalars.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from graphc.kernel.signature import Buffer
from graphc.kernel.statements.base import Statement, Var

_CHECK = "site"
"""The field of statements that number what they check."""


def copied(
    body: Iterable[Statement], to: Mapping[Buffer, Buffer], first_site: int = 0
) -> tuple[Statement, ...]:
    """Statements that define all their scalars anew, with other buffers in place of the keys.

    Args:
        body: whole bodies of kernels, which read no scalars from outside.
        to: the buffers.
        first_site: what the numbers of checks begin with.
    """
    copy = _Copy(to, first_site)
    return tuple([copy.of(statement) for statement in body])


class _Copy:
    def __init__(self, to: Mapping[Buffer, Buffer], first_site: int) -> None:
        self._to = to
        self._first_site = first_site
        self._scalars: dict[Var, Var] = {}

    def of(self, item: Any) -> Any:
        """A copy of what a statement holds."""
        if isinstance(item, Var):
            known = self._scalars.get(item)
            if known is None:
                known = self._scalars[item] = Var(item.dtype)
            return known
        if isinstance(item, Buffer):
            return self._to.get(item, item)
        if isinstance(item, tuple):
            # as deep as loops are nested
            return tuple([self.of(each) for each in item])
        if not is_dataclass(item) or isinstance(item, type):
            return item
        names = _held(type(item))
        if not names:
            return item
        held = {name: self.of(getattr(item, name)) for name in names}
        if isinstance(item, Statement) and held.get(_CHECK) is not None:
            held[_CHECK] += self._first_site
        return type(item)(**held)


@cache
def _held(kind: type) -> tuple[str, ...]:
    """What is given when an object of a class is made; nothing of one that is a plain value."""
    if not kind.__module__.startswith("graphc.kernel."):
        return ()
    return tuple(field.name for field in fields(kind) if field.init)


__all__ = ["copied"]
