"""``insert``, ``delete``, ``resize``, ``select`` and ``piecewise`` against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

CASES: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("delete", lambda m, x: m.delete(x, 1)),
    ("delete the last", lambda m, x: m.delete(x, -1, axis=1)),
    ("delete some", lambda m, x: m.delete(x, [0, 2, 2], axis=1)),
    ("delete a slice", lambda m, x: m.delete(x, slice(None, None, 2), axis=0)),
    ("delete by a mask", lambda m, x: m.delete(x, np.array([True, False, True, False]), axis=1)),
    ("delete all", lambda m, x: m.delete(x, slice(None), axis=0)),
    ("delete nothing", lambda m, x: m.delete(x, [], axis=0)),
    ("insert", lambda m, x: m.insert(x, 2, 9)),
    ("insert a row", lambda m, x: m.insert(x, 1, x[2], axis=0)),
    ("insert rows", lambda m, x: m.insert(x, 1, x[:2], axis=0)),
    ("insert a column", lambda m, x: m.insert(x, 4, x[:, 0], axis=1)),
    ("insert columns", lambda m, x: m.insert(x, 1, m.transpose(x)[:2], axis=1)),
    ("insert columns at one", lambda m, x: m.insert(x, [1], x[:, :2], axis=1)),
    ("insert at some", lambda m, x: m.insert(x, [3, 0, 0, -1], x, axis=1)),
    ("insert at a slice", lambda m, x: m.insert(x, slice(1, 3), x[0], axis=0)),
    ("resize", lambda m, x: m.resize(x, (5, 5))),
    ("resize to less", lambda m, x: m.resize(x, (2, 3))),
    ("resize to nothing", lambda m, x: m.resize(x, (0, 3))),
    ("select", lambda m, x: m.select([x > 8, x > 3], [x * 2, -x], 5)),
    ("select of numbers", lambda m, x: m.select([x > 8], [1])),
    ("piecewise", lambda m, x: m.piecewise(x, [x < 3, x > 9], [lambda v: v * v, 7])),
    ("piecewise and rest", lambda m, x: m.piecewise(
        x, [x < 3, x < 5], [-1, lambda v, k: v + k, lambda v, k: v - k], 100)),
]  # fmt: skip


@pytest.mark.parametrize("element", ["int64", "float64"])
def test_results_are_numpy_s(element: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(element)
    with gx.Graph() as graph:
        x = gx.placeholder(array.shape, element)
        fetches = [function(gx, x) for _, function in CASES]
    for (name, function), got in zip(
        CASES, gx.Session(graph).run(fetches, {x: array}), strict=True
    ):
        wanted = function(np, array)
        assert got.dtype == wanted.dtype, name
        np.testing.assert_array_equal(got, wanted, err_msg=name)


REFUSED: list[tuple[str, type[Exception], Callable[[Any], Any]]] = [
    ("delete along an axis of", gx.ConcreteValueError, lambda x: gx.delete(x, 0, axis=0)),
    ("places that only a run", gx.ConcreteValueError, lambda x: gx.delete(x, gx.arange(2), 1)),
    ("index 4 is out of range", gx.IndexRangeError, lambda x: gx.delete(x, 4, 1)),
    ("index 5 is out of range", gx.IndexRangeError, lambda x: gx.insert(x, 5, 0, 1)),
    ("are no places", gx.ShapeError, lambda x: gx.insert(x, 1.5, 0, 1)),
    ("2 choices for 1", gx.ShapeError, lambda x: gx.select([x > 0], [x, x])),
    ("a condition of float32", gx.DTypeError, lambda x: gx.select([x], [x])),
    ("3 functions for 1", gx.DTypeError, lambda x: gx.piecewise(x, x > 0, [1, 2, 3])),
]  # fmt: skip


@pytest.mark.parametrize(("message", "kind", "call"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_has_no_meaning_is_refused(
    message: str, kind: type[Exception], call: Callable[[Any], Any]
) -> None:
    with gx.Graph():
        x = gx.placeholder((None, 4))
        with pytest.raises(kind, match=message) as caught:
            call(x)
    assert caught.value.where is not None and caught.value.where.filename == __file__  # type: ignore[attr-defined]


def test_where_there_is_nothing_to_repeat_there_are_zeros() -> None:
    with gx.Graph() as graph:
        x, empty = gx.placeholder((None,), "int32"), gx.placeholder((0, 3))
        found = [gx.resize(x, (2, 2)), gx.resize(empty, 5)]
    session = gx.Session(graph)
    for size in (0, 1, 3, 4, 9):
        array = np.arange(1, size + 1, dtype=np.int32)
        some, none = session.run(found, {x: array, empty: np.ones((0, 3))})
        np.testing.assert_array_equal(some, np.resize(array, (2, 2)))
        np.testing.assert_array_equal(none, np.zeros(5))
