"""Small graphs and sessions that tests share, and comparing what runs give."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gx


def small() -> tuple[Any, Any, Any, Any]:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        y = gx.placeholder((3,), name="y")
        z = gx.add(x, y)
    return graph, x, y, z


def counter() -> tuple[Any, Any, Any]:
    with gx.Graph() as graph:
        v = gx.variable(np.zeros(3, np.float32), name="v")
        step = v.assign_add(1.0)
    return gx.Session(graph), v, step


def assert_same(one: Any, two: Any) -> None:
    """Results of one structure whose arrays are equal, dtypes and shapes too.

    Named tuples are known by their names and fields, since those out of files have other classes.
    """
    fields = [getattr(type(item), "_fields", None) for item in (one, two)]
    assert fields[0] == fields[1]
    assert type(one) is type(two) or (fields[0] and type(one).__name__ == type(two).__name__)
    if isinstance(one, dict):
        assert list(one) == list(two)
        one, two = list(one.values()), list(two.values())
    if isinstance(one, (list, tuple)):
        assert len(one) == len(two)
        for left, right in zip(one, two, strict=True):
            assert_same(left, right)
    elif one is not None:
        np.testing.assert_array_equal(one, two, strict=True)
