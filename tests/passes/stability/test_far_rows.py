"""Norms and deviations of rows whose squares leave the range of their dtype.

Fault 31: an operation is no worse than its spelling, which is recognised as a root of squares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx

LONG = np.longdouble
FAR = [
    *[("float32", scale) for scale in (1e20, 1e30, 1e-20, 1e-30)],
    *[("float64", scale) for scale in (1e200, 1e300, 1e-200, 1e-300)],
]
Function = Callable[..., Any]


def rows(shape: tuple[int, ...], element: str, scale: float) -> Any:
    array = np.random.default_rng(0).uniform(-1, 1, shape)
    return (array * scale).astype(element)


def ran(function: Function, array: Any, symbolic: bool = False, **options: Any) -> Any:
    with gx.Graph() as graph:
        shape = [None] * array.ndim if symbolic else array.shape
        x = gx.placeholder(shape, array.dtype, name="x")
        result = function(x)
    return gx.Session(graph, options=gx.Options(**options)).run(result, {x: array})


def near(given: Any, expected: Any, units: float = 64) -> None:
    """Within some units of the largest element of all rows."""
    eps = np.finfo(given.dtype).eps
    assert given.shape == expected.shape and np.isfinite(given).all()
    assert np.max(np.abs(given - expected)) <= units * eps * np.max(np.abs(expected))


def rms_norm(x: Any, epsilon: float) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + LONG(epsilon))


def layer_norm(x: Any, epsilon: float) -> Any:
    return rms_norm(x - np.mean(x, axis=-1, keepdims=True), epsilon)


@pytest.mark.parametrize(("element", "scale"), FAR)
@pytest.mark.parametrize("epsilon", [1e-5, 0.0])
@pytest.mark.parametrize(
    ("function", "true"), [(gx.nn.rms_norm, rms_norm), (gx.nn.layer_norm, layer_norm)]
)
def test_norms_of_far_rows(
    function: Function, true: Function, epsilon: float, element: str, scale: float
) -> None:
    array = rows((3, 40), element, scale)
    expected = true(array.astype(LONG), epsilon)
    for numerics in ("default", "strict"):
        given = ran(lambda x: function(x, epsilon=epsilon), array, numerics=numerics)
        near(given, expected)


@slow_unless(
    lambda axis, symbolic, scale: (
        (scale in (1e30, 1e-300) and symbolic == (axis in (0, 2, (0, 1))))
        or (axis is None and not symbolic)
    )
)
@pytest.mark.parametrize(("element", "scale"), FAR)
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), None])
@pytest.mark.parametrize("symbolic", [False, True])
def test_deviations_of_far_rows(
    axis: Any, symbolic: bool, element: str, scale: float
) -> None:
    array = rows((5, 12, 300), element, scale)
    for ddof in (0, 1):
        given = ran(lambda x, ddof=ddof: gx.std(x, axis=axis, ddof=ddof), array, symbolic)
        near(given, np.std(array.astype(LONG), axis=axis, ddof=ddof))


@pytest.mark.parametrize(("element", "scale"), FAR)
def test_deviations_of_one_long_row(element: str, scale: float) -> None:
    array = rows((200_000,), element, scale)
    near(ran(gx.std, array), np.std(array.astype(LONG)))


@slow_unless(lambda scale: scale in (1e30, 1e-30, 1e300, 1e-300))
@pytest.mark.parametrize(("element", "scale"), FAR)
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "std"])
def test_slopes_at_far_rows(name: str, element: str, scale: float) -> None:
    """A slope is that of a row of ordinary size; that of a norm is divided by the scale."""

    def slope(x: Any) -> Any:
        y = gx.std(x, axis=-1) if name == "std" else getattr(gx.nn, name)(x, epsilon=0.0)
        weights = gx.cos(gx.constant(np.arange(40)[: y.shape[-1]].astype(element)))
        return gx.gradients(gx.sum(y * weights), x)

    array = rows((3, 40), element, scale)
    given = ran(slope, array).astype(LONG)
    ordinary = ran(slope, rows((3, 40), element, 1.0)).astype(LONG)
    if name != "std":
        given *= LONG(scale)
    near(given.astype(element), ordinary, 1000)


@pytest.mark.parametrize("element", ["float32", "float64"])
def test_ordinary_rows_keep_their_bits(element: str) -> None:
    array = rows((30, 100), element, 1.0)

    def spelled(x: Any) -> Any:
        mean_square = gx.mean(x * x, axis=-1, keepdims=True)
        return x * gx.rsqrt(mean_square + 1e-5), gx.sqrt(gx.var(x, axis=1))

    def named(x: Any) -> Any:
        return gx.nn.rms_norm(x), gx.std(x, axis=1)

    pairs = zip(ran(spelled, array, numerics="strict"), ran(named, array), strict=True)
    for one, other in pairs:
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("function", [gx.nn.rms_norm, gx.nn.layer_norm, gx.std])
def test_infinite_rows_are_what_is_spelled(function: Function) -> None:
    array = np.float32([[1, np.inf, 2], [np.nan, 1, 2], [0, 0, 0]])
    given = ran(function, array)
    if function is gx.std:
        assert np.isnan(given)
        return
    assert np.isnan(given[1]).all() and (given[2] == 0).all() and np.isnan(given[0, 1])


@pytest.mark.parametrize("element", ["float32", "float64"])
@pytest.mark.parametrize(("exponent", "units"), [(3, 2), (4, 2.5), (-2, 2.5), (-0.5, 2), (2, 0.5),
                                                 (-1, 0.5), (0.5, 0.5)])  # fmt: skip
def test_powers_are_within_what_is_said(exponent: float, units: float, element: str) -> None:
    array = np.random.default_rng(1).uniform(0.5, 2, 50_000).astype(element)
    true = array.astype(LONG) ** LONG(exponent)
    given = ran(lambda x: x**exponent, array)
    error = np.abs(given - true) / np.spacing(true.astype(element))
    assert np.max(error) <= units + 1e-6
