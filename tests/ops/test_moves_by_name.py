"""Creation, joining, cutting and turning by NumPy's names, against NumPy.

One graph for each set of sizes, compiled: with sizes that are known, and the same unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

Case = tuple[str, Callable[[Any, Any], Any]]
"""What it is called, and from a module and an array to the result."""

MATRIX: list[Case] = [
    ("roll", lambda m, x: m.roll(x, 2)),
    ("roll back", lambda m, x: m.roll(x, -7, axis=1)),
    ("roll two", lambda m, x: m.roll(x, (1, -2), axis=(0, 1))),
    ("roll twice", lambda m, x: m.roll(x, 3, axis=(0, 0))),
    ("roll by two", lambda m, x: m.roll(x, (1, 3), axis=0)),
    ("rot90", lambda m, x: m.rot90(x)),
    ("rot180", lambda m, x: m.rot90(x, 2)),
    ("rot270", lambda m, x: m.rot90(x, -1, axes=(1, 0))),
    ("fliplr", lambda m, x: m.fliplr(x)),
    ("flipud", lambda m, x: m.flipud(x)),
    ("matrix_transpose", lambda m, x: m.matrix_transpose(x)),
    ("permute_dims", lambda m, x: m.permute_dims(x, (1, 0))),
    ("rollaxis", lambda m, x: m.rollaxis(x, 1)),
    ("rollaxis to the end", lambda m, x: m.rollaxis(x, 0, 2)),
    ("hstack", lambda m, x: m.hstack([x, x])),
    ("hstack of vectors", lambda m, x: m.hstack([x[0], x[1]])),
    ("vstack", lambda m, x: m.vstack([x, x[0], x])),
    ("dstack", lambda m, x: m.dstack([x, x])),
    ("dstack of vectors", lambda m, x: m.dstack([x[0], x[1]])),
    ("column_stack", lambda m, x: m.column_stack([x[:, 0], x, x[:, 1]])),
    ("append", lambda m, x: m.append(x, x[:1], axis=0)),
    ("append all", lambda m, x: m.append(x, x[0])),
    ("block", lambda m, x: m.block([[x, x * 2], [x + 1, x]])),
    ("block of vectors", lambda m, x: m.block([x[0], x[1], x[0]])),
    ("block of one", lambda m, x: m.block(x)),
    ("block of rows", lambda m, x: m.block([[x], [x]])),
    ("atleast_1d", lambda m, x: m.atleast_1d(x[0, 0])),
    ("atleast_2d", lambda m, x: m.atleast_2d(x[0], x[0, 1])),
    ("atleast_3d", lambda m, x: m.atleast_3d(x, x[0], x[1, 1])),
    ("array_split", lambda m, x: m.array_split(x, 2, axis=1)),
    ("array_split into many", lambda m, x: m.array_split(x, 7)),
    ("array_split at places", lambda m, x: m.array_split(x, [1, 2])),
    ("vsplit", lambda m, x: m.vsplit(x, [1])),
    ("hsplit", lambda m, x: m.hsplit(x, [2, 3])),
    ("hsplit of a vector", lambda m, x: m.hsplit(x[0], [2])),
    ("dsplit", lambda m, x: m.dsplit(m.dstack([x, x, x]), 3)),
    ("broadcast_arrays", lambda m, x: m.broadcast_arrays(x, x[0], 1)),
    ("meshgrid", lambda m, x: m.meshgrid(x[0], x[:, 1])),
    ("meshgrid of three", lambda m, x: m.meshgrid(x[0], x[:, 1], x[0, :2], indexing="ij")),
    ("meshgrid, sparse", lambda m, x: m.meshgrid(x[0], x[:, 1], x[0], sparse=True)),
    ("meshgrid of one", lambda m, x: m.meshgrid(x[0])),
    ("tril", lambda m, x: m.tril(x)),
    ("tril above", lambda m, x: m.tril(x, 1)),
    ("triu", lambda m, x: m.triu(x)),
    ("triu below", lambda m, x: m.triu(x, -1)),
    ("triu of a vector", lambda m, x: m.triu(x[0])),
    ("diagonal", lambda m, x: m.diagonal(x)),
    ("diagonal above", lambda m, x: m.diagonal(x, 2)),
    ("diagonal below", lambda m, x: m.diagonal(x, -1, 1, 0)),
    ("diagonal of nothing", lambda m, x: m.diagonal(x, 9)),
    ("diag", lambda m, x: m.diag(x[0])),
    ("diag above", lambda m, x: m.diag(x[0], 2)),
    ("diag below", lambda m, x: m.diag(x[0], -3)),
    ("diag of a matrix", lambda m, x: m.diag(x, -1)),
    ("diagflat", lambda m, x: m.diagflat(x)),
    ("trace", lambda m, x: m.trace(x)),
    ("trace above", lambda m, x: m.trace(x, 1)),
    ("vander", lambda m, x: m.vander(x[0] % 4, 4)),
    ("vander, increasing", lambda m, x: m.vander(x[0] % 4, increasing=True)),
    ("repeat", lambda m, x: m.repeat(x, np.array([0, 2, 1]), axis=0)),
    ("tile", lambda m, x: m.tile(x, (2, 1))),
]  # fmt: skip


def flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


@pytest.mark.parametrize(
    ("element", "known"),
    [("int16", True), ("float64", True), ("bool", True), ("float64", False)],
)
def test_moves_are_numpy_s(element: str, known: bool) -> None:
    array = np.arange(12).reshape(3, 4).astype(element)
    cases = [case for case in MATRIX if element != "bool" or "vander" not in case[0]]
    with gx.Graph() as graph:
        x = gx.placeholder(array.shape if known else (None, None), element)
        fetches = [flat(function(gx, x)) for _, function in cases]
    for (name, function), got in zip(
        cases, gx.Session(graph).run(fetches, {x: array}), strict=True
    ):
        wanted = flat(function(np, array))
        assert len(got) == len(wanted), name
        for one, other in zip(got, wanted, strict=True):
            assert one.dtype == other.dtype, name
            np.testing.assert_array_equal(one, other, err_msg=name)


def test_moves_of_empty_axes() -> None:
    names = ("roll", "fliplr", "tril", "triu", "diagonal", "trace", "block", "array_split")
    cases = [case for case in MATRIX if case[0] in names]
    with gx.Graph() as graph:
        x = gx.placeholder((None, None))
        fetches = [flat(function(gx, x)) for _, function in cases]
    session = gx.Session(graph)
    for shape in ((0, 3), (4, 0), (0, 0), (1, 1)):
        array = np.ones(shape, np.float32)
        results = session.run(fetches, {x: array})
        for (name, function), got in zip(cases, results, strict=True):
            for one, other in zip(got, flat(function(np, array)), strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{name} of {shape}")


CREATED: list[tuple[str, Callable[[Any], Any]]] = [
    ("eye", lambda m: m.eye(3, dtype="float32")),
    ("eye, wide", lambda m: m.eye(3, 5, 1, dtype="int8")),
    ("eye, high", lambda m: m.eye(3, 2, -1, dtype="bool")),
    ("identity", lambda m: m.identity(4, dtype="float64")),
    ("tri", lambda m: m.tri(3, 5, -1, dtype="int64")),
    ("tri, square", lambda m: m.tri(3, dtype="float32")),
    ("indices", lambda m: m.indices((2, 3))),
    ("indices, sparse", lambda m: m.indices((2, 3), dtype="int32", sparse=True)),
    ("indices of nothing", lambda m: m.indices(())),
    ("linspace", lambda m: m.linspace(0, 1, 7, dtype="float64")),
    ("linspace of one", lambda m: m.linspace(2, 3, 1, dtype="float64")),
    ("linspace of none", lambda m: m.linspace(2, 3, 0, dtype="float64")),
    ("linspace, open", lambda m: m.linspace(-2, 3.5, 9, endpoint=False, dtype="float64")),
    ("linspace to integers", lambda m: m.linspace(-2, 9, 5, dtype="int32")),
    ("linspace and step", lambda m: m.linspace(0.0, 9, 4, retstep=True, dtype="float64")),
    ("linspace of arrays", lambda m: m.linspace(np.array([0.0, 1]), np.array([[4.0], [9]]), 5)),
    ("linspace at the end", lambda m: m.linspace(np.array([0.0, 1]), 4, 5, axis=-1)),
    ("logspace", lambda m: m.logspace(0, 2, 5, dtype="float64")),
    ("logspace to base 2", lambda m: m.logspace(-3, 4, 8, base=2.0, dtype="float64")),
    ("geomspace", lambda m: m.geomspace(1, 1000, 4, dtype="float64")),
    ("geomspace below 0", lambda m: m.geomspace(-2.0, -32, 5, dtype="float64")),
    ("geomspace, open", lambda m: m.geomspace(3, 1e-4, 6, endpoint=False, dtype="float64")),
]  # fmt: skip


def test_what_is_created_is_numpy_s() -> None:
    with gx.Graph() as graph:
        fetches = [flat(function(gx)) for _, function in CREATED]
    for (name, function), got in zip(CREATED, gx.Session(graph).run(fetches), strict=True):
        wanted = flat(function(np))
        assert len(got) == len(wanted), name
        for one, other in zip(got, map(np.asarray, wanted), strict=True):
            assert one.dtype == other.dtype or "step" in name, name
            room = 1e-6 if one.dtype == np.float32 else 2e-15
            np.testing.assert_allclose(one, other, rtol=room, atol=1e-16, err_msg=name)
            if name.startswith(("linspace", "geom")) and "open" not in name and one.size > 1:
                assert one.ravel()[-1] == other.ravel()[-1], name


def test_sizes_of_what_is_created_may_be_dims() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, None))
        rows, columns = x.shape
        line = gx.linspace(0.0, 1.0, rows)
        fetches = [gx.eye(rows, columns), gx.tri(columns, rows, 1), line, gx.indices(x.shape)]
    session = gx.Session(graph)
    for shape in ((3, 4), (1, 2), (0, 2)):
        eye, tri, ends, places = session.run(fetches, {x: np.zeros(shape)})
        np.testing.assert_array_equal(eye, np.eye(*shape))
        np.testing.assert_array_equal(tri, np.tri(*shape[::-1], 1))
        np.testing.assert_allclose(ends, np.linspace(0, 1, shape[0]), rtol=1e-6)
        np.testing.assert_array_equal(places, np.indices(shape))


@pytest.mark.parametrize("far", [2**62, 2**63 - 1, 2**63, 2**64 + 1, 2**70])
@pytest.mark.parametrize("sizes", [(2, 3), (None, None)])
def test_diagonals_beside_all_of_a_matrix(far: int, sizes: Any) -> None:
    """Their numbers need not fit in 64 bits, and the sum with a row's number is no other's."""
    array = np.arange(1.0, 7.0).reshape(2, 3)
    with gx.Graph() as graph:
        x = gx.placeholder(sizes, "float64")
        fetches = [
            made
            for k in (far, -far)
            for made in (
                gx.eye(2, 3, k), gx.tri(2, 3, k), gx.tril(x, k), gx.triu(x, k),
                gx.diagonal(x, k), gx.trace(x, k),
            )
        ]  # fmt: skip
    nothing, none = np.zeros((2, 3)), np.zeros(0)
    above = [nothing, np.ones((2, 3)), array, nothing, none, 0.0]
    below = [nothing, nothing, nothing, array, none, 0.0]
    for got, wanted in zip(
        gx.Session(graph).run(fetches, {x: array}), above + below, strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


def test_unstack_gives_slices() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    with gx.Graph() as graph:
        x = gx.placeholder((None, 3, None), "int64")
        parts = gx.unstack(x, axis=1)
    for got, wanted in zip(
        gx.Session(graph).run(list(parts), {x: array}), np.unstack(array, axis=1), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


def test_gradients_of_moves() -> None:
    """Each is linear, so that a weighted sum is the product of x with its gradient."""
    rng = np.random.default_rng(0)
    array = rng.normal(size=(3, 4))
    with gx.Graph() as graph:
        x = gx.placeholder((3, 4), "float64")
        fetches = []
        for name, function in MATRIX:
            if "vander" in name:
                continue
            outputs = flat(function(gx, x))
            weights = [rng.normal(size=np.shape(y)) for y in flat(function(np, array))]
            pairs = zip(outputs, weights, strict=True)
            loss = sum(gx.sum(y * w) for y, w in pairs)
            fetches.append([loss, gx.gradients(loss, x)])
    names = [name for name, _ in MATRIX if "vander" not in name]
    results = gx.Session(graph).run(fetches, {x: array})
    for name, (loss, back) in zip(names, results, strict=True):
        affine = name in ("block", "broadcast_arrays")
        assert affine or np.isclose(loss, np.sum(back * array)), name


REFUSED: list[tuple[str, type[Exception], Callable[[Any], Any]]] = [
    ("2 shifts for 3 axes", gx.ShapeError, lambda x: gx.roll(x, (1, 2), axis=(0, 1, 0))),
    ("shift is", gx.DTypeError, lambda x: gx.roll(x, 1.5)),
    ("no plane", gx.ShapeError, lambda x: gx.rot90(x, axes=(0, 0))),
    ("rank 1", gx.ShapeError, lambda x: gx.matrix_transpose(x[0])),
    ("nothing to stack", gx.ShapeError, lambda x: gx.hstack([])),
    ("unequal depth", gx.ShapeError, lambda x: gx.block([[x], x])),
    ("empty list", gx.ShapeError, lambda x: gx.block([[]])),
    ("does not split", gx.ShapeError, lambda x: gx.array_split(x, 0)),
    ("fewer than 3", gx.ShapeError, lambda x: gx.dsplit(x, 1)),
    ("how many values", gx.ConcreteValueError, lambda x: gx.unstack(x)),
    ("do not broadcast", gx.ShapeError, lambda x: gx.broadcast_arrays(np.ones(2), np.ones(3))),
    ("indexing='yx'", gx.ShapeError, lambda x: gx.meshgrid(x[0], indexing="yx")),
    ("axes are vectors", gx.ShapeError, lambda x: gx.meshgrid(x)),
    ("number of elements", gx.ShapeError, lambda x: gx.linspace(0, 1, -1)),
    ("geometric", gx.DTypeError, lambda x: gx.geomspace(-1, 1)),
    ("tril of a scalar", gx.ShapeError, lambda x: gx.tril(x[0, 0])),
    ("a diagonal of", gx.ShapeError, lambda x: gx.diagonal(x[0])),
    ("are one axis", gx.ShapeError, lambda x: gx.diagonal(x, axis1=1, axis2=-1)),
    ("diag of", gx.ShapeError, lambda x: gx.diag(x[0, 0])),
    ("vander of", gx.ShapeError, lambda x: gx.vander(x)),
    ("number of repetitions", gx.ShapeError, lambda x: gx.repeat(x, [1, -2])),
]  # fmt: skip


@pytest.mark.parametrize(("message", "kind", "call"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_has_no_meaning_is_refused(
    message: str, kind: type[Exception], call: Callable[[Any], Any]
) -> None:
    with gx.Graph():
        x = gx.placeholder((None, None))
        with pytest.raises(kind, match=message) as caught:
            call(x)
    assert caught.value.where is not None and caught.value.where.filename == __file__  # type: ignore[attr-defined]


def test_repetitions_that_a_run_tells_don_t_fit() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,))
        y = gx.repeat(x, [1, 2])
    with pytest.raises(gx.ShapeError, match=r"2 numbers of repetitions for axis 0 of \[3\]"):
        gx.Session(graph).run(y, {x: np.ones(3)})
