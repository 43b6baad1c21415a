"""``interp`` against NumPy: between points, beyond them, at them, around a period."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

POINTS = np.array([-2.0, -1.5, 0.0, 0.25, 3.0])
VALUES = np.array([1.0, 4.0, 4.0, -1.0, 7.5])
AT = np.array([[-3.0, -2.0, -1.75, -1.5], [0.1, 0.25, 2.9, 3.0], [3.1, np.nan, np.inf, -np.inf]])


@pytest.mark.parametrize("known", [True, False])
def test_interp_is_numpy_s(known: bool) -> None:
    options: list[dict[str, Any]] = [
        {}, {"left": -9, "right": 2.5}, {"left": np.nan}, {"period": 2.5}, {"period": -4},
    ]  # fmt: skip
    with gx.Graph() as graph:
        x, xp, fp = (
            gx.placeholder(a.shape if known else (None,) * a.ndim, "float64")
            for a in (AT, POINTS, VALUES)
        )
        fetches = [gx.interp(x, xp, fp, **option) for option in options]
    results = gx.Session(graph).run(fetches, {x: AT, xp: POINTS, fp: VALUES})
    for option, got in zip(options, results, strict=True):
        with np.errstate(invalid="ignore"):
            wanted = np.interp(AT, POINTS, VALUES, **option)
        np.testing.assert_allclose(got, wanted, rtol=1e-14, atol=1e-14, err_msg=str(option))


def test_interp_of_few_and_of_infinite_points() -> None:
    cases = [
        ([2.0], [5.0]),
        ([0.0, 1.0], [3.0, 4.0]),
        ([-np.inf, 0.0, np.inf], [1.0, 2.0, 2.0]),
        ([0.0, 1.0, 2.0], [0.0, np.inf, np.inf]),
    ]
    at = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.nan])
    for points, values in cases:
        with gx.Graph() as graph:
            x = gx.placeholder((None,), "float64")
            y = gx.interp(x, np.array(points), np.array(values))
        with np.errstate(invalid="ignore"):
            wanted = np.interp(at, points, values)
        if len(points) == 1:
            # where NumPy has the only value at NaN too
            wanted[-1] = np.nan
        np.testing.assert_allclose(gx.Session(graph).run(y, {x: at}), wanted)


def test_interp_keeps_float32_and_makes_floats_of_integers() -> None:
    with gx.Graph():
        x = gx.placeholder((3,))
        assert gx.interp(x, x, x).dtype is gx.float32
        assert gx.interp(gx.placeholder((3,), "int8"), [0, 1], [2, 3]).dtype is gx.float64


def test_slopes_of_interp() -> None:
    with gx.Graph() as graph:
        x, xp, fp = (gx.placeholder((None,), "float64") for _ in range(3))
        fetches = gx.gradients(gx.sum(gx.interp(x, xp, fp)), [x, fp])
    at = np.array([-1.75, 0.1, 9.0])
    along, heights = gx.Session(graph).run(list(fetches), {x: at, xp: POINTS, fp: VALUES})
    np.testing.assert_allclose(along, [6, -20, 0])
    np.testing.assert_allclose(heights, [0.5, 0.5, 0.6, 0.4, 1])


def test_points_that_are_none() -> None:
    with gx.Graph() as graph:
        x, y = gx.placeholder((None,)), gx.placeholder((None, None))
        z = gx.placeholder((None,))
        with pytest.raises(gx.ShapeError, match="both are vectors"):
            gx.interp(x, y, x)
        with pytest.raises(gx.ShapeError, match="interp with points"):
            gx.interp(x, np.ones(2), np.ones(3))
        with pytest.raises(gx.DTypeError, match="period of 0"):
            gx.interp(x, x, x, period=0)
        unequal = gx.interp(x, x, z)
    for sizes in ((2, 3), (0, 0)):
        a, b = map(np.ones, sizes)
        with pytest.raises(gx.ShapeError, match=r"interp with points \[\d\] and values \[\d\]"):
            gx.Session(graph).run(unequal, {x: a, z: b})
