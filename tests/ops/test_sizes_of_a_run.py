"""Functions over sizes that only a run tells: they take what NumPy takes, and refuse the rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphc as gx

Array = np.ndarray[Any, Any]


def _run(function: Callable[..., Any], arrays: Sequence[Array], sizes: Sequence[bool]) -> Any:
    """The result over placeholders whose sizes are known, or are not."""
    with gx.Graph() as graph:
        operands = [
            gx.placeholder(a.shape if known else (None,) * a.ndim, a.dtype)
            for a, known in zip(arrays, sizes, strict=True)
        ]
        made = function(*operands)
        return gx.Session(graph).run(made, dict(zip(operands, arrays, strict=True)))


def _alike(
    function: Callable[..., Any], of_numpy: Callable[..., Any], *arrays: Array
) -> None:
    """Known and unknown sizes give what NumPy gives, or a ShapeError where it raises."""
    try:
        wanted = of_numpy(*arrays)
    except ValueError:
        wanted = None
    for sizes in itertools.product((False, True), repeat=len(arrays)):
        if wanted is None:
            with pytest.raises(gx.ShapeError):
                _run(function, arrays, sizes)
        else:
            np.testing.assert_allclose(_run(function, arrays, sizes), wanted, rtol=1e-12)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize(("count", "size"), [(5, 2), (2, 5), (4, 4), (70, 66), (66, 71), (3, 0)])
def test_either_vector_may_be_the_longer_one(name: str, mode: str, count: int, size: int) -> None:
    rng = np.random.default_rng(count)
    arrays = rng.normal(size=count), rng.normal(size=size)
    of_graphc, of_numpy = getattr(gx, name), getattr(np, name)
    _alike(lambda a, v: of_graphc(a, v, mode), lambda a, v: of_numpy(a, v, mode), *arrays)


@pytest.mark.parametrize("known", [0, 1, 2, 3, 5])
def test_an_integral_has_a_constant_or_one_for_each(known: int) -> None:
    arrays = np.arange(1.0, 5.0), np.arange(2.0, 2.0 + known)
    _alike(lambda p, k: gx.polyint(p, 3, k), lambda p, k: np.polyint(p, 3, k), *arrays)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("kth", [0, 2, -3, (1, -1)])
@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (1, 1), (0, 4), (4, 0)])
def test_a_partition_is_at_places_that_there_are(shape: Any, kth: Any, axis: Any) -> None:
    array = np.random.default_rng(1).normal(size=shape)

    def of_numpy(x: Array) -> Array:
        np.partition(x, kth, axis)
        return np.sort(x, axis)

    _alike(lambda x: gx.partition(x, kth, axis), of_numpy, array)


@pytest.mark.parametrize("size", [0, 3, 4, 5])
def test_a_sorter_has_a_place_for_each_element(size: int) -> None:
    arrays = np.arange(4.0), np.array([0.5, 2.0]), np.arange(size) % 4
    _alike(
        lambda a, v, s: gx.searchsorted(a, v, sorter=s),
        lambda a, v, s: np.searchsorted(a, v, sorter=s),
        *arrays,
    )


@pytest.mark.parametrize("size", [0, 1, 2, 5, 6])
def test_glu_takes_two_halves(size: int) -> None:
    array = np.arange(3.0 * size).reshape((3, size))

    def halves(x: Array) -> Array:
        first, second = np.split(x, 2, -1)
        return first / (1 + np.exp(-second))

    _alike(gx.nn.glu, halves, array)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_bins_go_from_0_to_1_without_an_element(size: int) -> None:
    array = np.random.default_rng(2).normal(size=(size, 1))
    _alike(lambda x: gx.histogram(x, 3)[1], lambda x: np.histogram(x, 3)[1], array)


@pytest.mark.parametrize("sizes", [(4, 3, 2), (4, 4, 2), (4, 3, 3), (4, 1, 2)])
def test_each_slope_needs_the_places_along_all_axes(sizes: tuple[int, int, int]) -> None:
    rows, one, other = sizes
    arrays = np.ones((rows, 2)), np.arange(one + 0.0), np.arange(other + 0.0)
    for place in (0, 1):
        _alike(
            lambda f, x, y, place=place: gx.gradient(f, x, y)[place],
            lambda f, x, y, place=place: np.gradient(f, x, y)[place],
            *arrays,
        )


def test_places_along_an_axis_are_a_vector() -> None:
    with gx.Graph(), pytest.raises(gx.ShapeError, match=r"gradient of \[4\] at \[4, 1\]"):
        gx.gradient(gx.ones(4), gx.ones((4, 1)))


def _sum(x: gx.Value, y: gx.Value) -> gx.Value:
    return gx.sum(x + y)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: gx.zeros_like(_sum(x, y)),
        lambda x, y: gx.full_like(_sum(x, y), gx.sum(x)),
        lambda x, y: gx.jvp([gx.stop_gradient(_sum(x, y)), gx.sum(x)], [x], [x])[0],
        lambda x, y: gx.jacobian(gx.sin(x) * y, y, "forward"),
        lambda x, y: gx.jacobian(gx.sin(x) * y, x, "reverse"),
        lambda x, y: gx.histogram(x, 3, (0, 1), weights=y)[1],
        lambda x, y: gx.histogram2d(x, y, 3, [(0, 1), (0, 1)])[1],
        lambda x, y: gx.histogram2d(x, y, 3, [(0, 1), (0, 1)])[2],
        lambda x, y: gx.linalg.lstsq(gx.stack([x, x], 1), y).rank,
        lambda x, y: gx.linalg.lstsq(gx.stack([x, x], 1), y).s,
    ],
)
@pytest.mark.parametrize("size", [0, 3])
def test_what_reads_less_than_all_needs_all_to_fit(function: Any, size: int) -> None:
    arrays = np.ones(size), np.ones(5)
    for sizes in ((True, True), (False, False)):
        with pytest.raises(gx.ShapeError):
            _run(function, arrays, sizes)
    if size:
        _run(function, [np.ones(size)] * 2, (False, False))
