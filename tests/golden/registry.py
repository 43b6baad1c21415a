"""What a golden program is, and what programs are written with.

Invariant: a program depends on nothing but its own lines. Arrays are made by arithmetic, not by a
generator of random numbers, and options are given in full, so neither NumPy's version, the
environment nor the number of processors has an influence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc as gx

THREADS = 4
"""Plans have room for so many; which kernels are split does not depend on it."""


@dataclass(frozen=True, slots=True)
class Program:
    """A graph to compile.

    Attributes:
        name: of the program, and of its file of hashes.
        build: makes the graph in the current one; gives what is fetched, effects included.
        options: what it is compiled with.
    """

    name: str
    build: Callable[[], Any]
    options: gx.Options


PROGRAMS: dict[str, Program] = {}
"""The programs by name, in the order of their modules."""


def program(**options: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Decorator: registers a program under the name of its function.

    Constants are not computed ahead (``precompute``), which would run machine code.
    """
    off = frozenset({"precompute", *options.pop("off", ())})
    chosen = gx.Options(threads=THREADS, cache="off", off=off, **options)

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        name = build.__name__
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(name, build, chosen)
        return build

    return register


def p(*shape: Any, dtype: str = "float32") -> Any:
    """A placeholder; a dim is a number, a name or None."""
    return gx.placeholder(shape, dtype)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """An array of small numbers of both signs, exact in every dtype."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 % 31 - 15) / 8).astype(dtype).reshape(shape)


def weights(*shape: int, dtype: str = "float32") -> Any:
    """A constant of ``numbers``."""
    return gx.constant(numbers(*shape, dtype=dtype))


def variable(*shape: int, dtype: str = "float32") -> Any:
    """A variable that begins as ``numbers``."""
    return gx.variable(numbers(*shape, dtype=dtype))


def causal(scores: Any) -> Any:
    """Scores of which each row sees the columns up to its own number."""
    rows, columns = (gx.arange(size) for size in scores.shape[-2:])
    return hidden(scores, gx.expand_dims(rows, 1) >= columns)


def hidden(scores: Any, mask: Any) -> Any:
    """Scores where a mask shows them, and minus infinity elsewhere."""
    return gx.where(mask, scores, -float("inf"))


__all__ = [
    "PROGRAMS", "THREADS", "Program", "causal", "hidden", "numbers", "p", "program", "variable",
    "weights",
]  # fmt: skip
