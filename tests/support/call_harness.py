"""Executables that tests of calls share."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gx
from graphc.session.executable import Executable


def warm(executable: Executable, *arguments: Any) -> None:
    """Calls until native code is there."""
    for _ in range(3):
        executable(*arguments)


def increment(
    shape: tuple[Any, ...] = (16,), dtype: str = "float32"
) -> tuple[gx.Session, gx.Value, gx.Value]:
    with gx.Graph() as graph:
        x = gx.placeholder(shape, dtype, name="x")
        y = gx.where(gx.equal(x, x), x, x) if dtype == "bool" else x + x
    return gx.Session(graph), x, y


class Subclass(np.ndarray[Any, Any]):
    """An array of another type."""


def symbolic() -> Executable:
    with gx.Graph() as graph:
        a = gx.placeholder(("n", "m"), name="a")
        b = gx.placeholder(("m",), name="b")
        z = [a + b, gx.sum(a, axis=1)]
    return gx.Session(graph).compile(z, [a, b])


def counter() -> tuple[gx.Session, Any, Any, gx.Value]:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        first = gx.variable(np.zeros(3, np.float32), name="first")
        second = gx.variable(np.zeros(3, np.float32), name="second")
        step = gx.group(first.assign_add(x), second.assign_sub(x))
    return gx.Session(graph), first, second, step
