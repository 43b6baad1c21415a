"""Small graphs and sessions that tests of sessions share."""

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
