"""``choose``, and the modes of ``put_along_axis``, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode


def test_choices() -> None:
    with gx.Graph() as graph:
        p, x = gx.placeholder((None,), "int64", name="p"), gx.placeholder((2, None), "float64")
        i = gx.placeholder((2, None), "int64")
        fetches = [
            gx.choose(p % 3, [p, p * 2, np.arange(1)]), gx.choose(p, [10, 20, 30], mode="wrap"),
            gx.choose(p, [10, 20, 30], mode="clip"), gx.choose([[1], [0]], [p, p * 2]),
            gx.put_along_axis(x, i, 5, axis=1), gx.put_along_axis(x, i[0], p * 1.0, axis=None),
            gx.put_along_axis(x, i + 9, 5, axis=1, mode="drop"),
            gx.put_along_axis(x, i + 9, i * 1.0, axis=1, mode="clip"),
        ]  # fmt: skip
        slope = gx.gradients(gx.sum(gx.sin(fetches[4])), x)
        with pytest.raises(gx.ShapeError):
            gx.choose(p, [])
        failing = gx.choose(p, [10, 20, 30])
    places, array = np.array([0, 23, 7, 2]), np.arange(6.0).reshape(2, 3)
    at = np.array([[2, 0, -1, 2], [1, 1, 0, -3]])
    put = [array.copy() for _ in range(3)]
    np.put_along_axis(put[0], at, 5, 1)
    put[1].flat[at[0]] = places
    put[2][:, 2] = at[:, -1]
    wanted = [
        np.choose(places % 3, [places, places * 2, np.arange(1)]),
        np.choose(places, [10, 20, 30], mode="wrap"), np.choose(places, [10, 20, 30], mode="clip"),
        np.choose([[1], [0]], [places, places * 2]),
        put[0], put[1], array, put[2],
    ]  # fmt: skip
    session, feeds = gx.Session(graph), {p: places, x: array, i: at}
    got, found = session.run([fetches, slope], feeds)
    for number, (result, expected) in enumerate(zip(got, wanted, strict=True)):
        np.testing.assert_allclose(result, expected, rtol=1e-15, err_msg=str(number))
    kept = np.ones((2, 3))
    np.put_along_axis(kept, at, 0, 1)
    np.testing.assert_allclose(found, np.cos(array) * kept)
    for wrong in (3, -1):
        with pytest.raises(gx.IndexRangeError, match="out of range"):
            session.run(failing, {p: [wrong]})
