"""Gradients by central differences, of programs of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphc as gx


def of_arrays(*arrays: Any) -> dict[gx.Value, Any]:
    """Placeholders of unknown length for arrays, and what they are fed."""
    shapes = [tuple(f"n{size}" for size in np.shape(array)) for array in arrays]
    dtypes = [np.asarray(array).dtype for array in arrays]
    values = list(map(gx.placeholder, shapes, dtypes))
    return dict(zip(values, arrays, strict=True))


def check(function: Callable[..., gx.Value], *arrays: Any, second: bool = True) -> Sequence[Any]:
    """Holds gradients of a scalar against differences, their own too, and against jvp.

    Args:
        function: gives the scalar of the operands, which are placeholders of named sizes.
        arrays: what they are fed; the gradients are by those of float64.
        second: whether second derivatives are checked too.

    Gives the gradients.
    """
    random = np.random.default_rng(16)
    with gx.Graph() as graph:
        feeds = of_arrays(*arrays)
        xs = [x for x in feeds if x.dtype.is_float]
        y = function(*feeds)
        gradients = gx.gradients(y, xs, unconnected="zeros")
        directions = {x: random.normal(size=np.shape(feeds[x])) for x in xs}
        tangent = gx.jvp(y, xs, [gx.constant(directions[x]) for x in xs])
        along = sum((g * directions[x]).sum() for g, x in zip(gradients, xs, strict=True))
        again = gx.gradients(along, xs, unconnected="zeros") if second else []
    session = gx.Session(graph)

    def values(feeds: dict[gx.Value, Any]) -> Any:
        return session.run([y, along, tangent, gradients, again], feeds)

    _, pulled, pushed, first, of_first = values(feeds)
    np.testing.assert_allclose(pushed, pulled, rtol=1e-9, atol=1e-12)
    for number, x in enumerate(xs):
        base = np.asarray(feeds[x])
        for place in np.ndindex(base.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = base.copy()
                moved[place] += step
                ends.append(values({**feeds, x: moved})[:2])
            expected = (np.array(ends[0]) - ends[1]) / 2e-6
            np.testing.assert_allclose(first[number][place], expected[0], rtol=1e-5, atol=1e-7)
            if second:
                found = of_first[number][place]
                np.testing.assert_allclose(found, expected[1], rtol=1e-4, atol=1e-6)
    return first  # type: ignore[no-any-return]


__all__ = ["check"]
