"""How the calls of the guard sweep are written, one for each public function.

Operands are written as words: one letter an axis, equal letters are sizes that fit each other, a
digit is a size that the call speaks of. ``b:`` before it makes bools, ``i:`` small integers, and
``i>a:`` integers that index an axis of the size of ``a`` (``i>ab:`` one of a times b). ``.`` is a
scalar.

Invariant: each call is on a line of its own, so that an error's line says which it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc as gx


@dataclass(frozen=True, slots=True)
class Call:
    """A spelling of a public function.

    Attributes:
        name: the public function that it is about, or what several of them are together.
        operands: their words.
        function: from values to a value, or to a list of them.
        numpy: the same from arrays to arrays, where NumPy has it.
    """

    name: str
    operands: tuple[str, ...]
    function: Callable[..., Any]
    numpy: Callable[..., Any] | None = None

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.operands)})"


CALLS: list[Call] = []


def call(
    name: str, words: str, function: Callable[..., Any], numpy: Callable[..., Any] | None = None
) -> None:
    """Adds a call for each of several lists of operands, which ``|`` parts."""
    CALLS.extend(
        Call(name, tuple(part.split()), function, numpy) for part in words.split("|")
    )


def named(names: str, words: str) -> None:
    """Adds calls of functions that take the operands and nothing else."""
    for name in names.split():
        call(name, words, getattr(gx, name), getattr(np, name, None))
