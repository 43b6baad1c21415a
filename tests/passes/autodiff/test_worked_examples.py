"""The chain rule by hand, run natively: equal to the bit where binary64 is exact, else to 1e-12."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode


def value_and_gradients(
    build: Callable[..., Any], points: Sequence[Any], dtype: str = "float64"
) -> tuple[Any, list[Any]]:
    """The value at the points and its gradient to each of them."""
    arrays = [np.asarray(point, dtype) for point in points]
    with gx.Graph() as graph:
        inputs = [gx.placeholder(array.shape, dtype) for array in arrays]
        value = build(*inputs)
        gradients = gx.gradients(value, inputs)
    fed = dict(zip(inputs, arrays, strict=True))
    value, gradients = gx.Session(graph).run([value, gradients], fed)
    return value, gradients


X, Y = 3.0, -2.0

SCALAR = {
    "z = (x + y) w": (lambda x, y, w: (x + y) * w, (2.0, 3.0, 4.0), 20.0, (4.0, 4.0, 5.0)),
    "L = (x + y) y": (lambda x, y: (x + y) * y, (X, Y), (X + Y) * Y, (Y, X + 2 * Y)),
    "u = x + y, L = u y + u²": (
        lambda x, y: (x + y) * y + (x + y) ** 2,
        (X, Y),
        (X + Y) * Y + (X + Y) ** 2,
        (Y + 2 * (X + Y), (X + 2 * Y) + 2 * (X + Y)),
    ),
    "a = x y, b = a + y, L = b²": (
        lambda x, y: (x * y + y) ** 2,
        (X, Y),
        (X * Y + Y) ** 2,
        (2 * Y**2 * (X + 1), 2 * Y * (X + 1) ** 2),
    ),
    "v = u², w = 3 u, L = v w": (lambda u: u**2 * (3 * u), (X,), 3 * X**3, (9 * X**2,)),
    "L = (x w + b - y)²": (
        lambda x, w, b, y: (x * w + b - y) ** 2,
        (2.0, 3.0, 1.0, 4.0),
        9.0,
        (2 * 3.0 * 3.0, 2 * 3.0 * 2.0, 2 * 3.0, -2 * 3.0),
    ),
}


@pytest.mark.parametrize("name", SCALAR)
def test_scalar_chains_to_the_bit(name: str) -> None:
    build, points, value, gradients = SCALAR[name]
    result, found = value_and_gradients(build, points)
    assert result == value
    assert [float(gradient) for gradient in found] == list(gradients)


def test_least_squares() -> None:
    w = np.array([[1.0, 2.0, -1.0], [0.0, 3.0, 1.0]])
    x, b, t = np.array([1.0, -1.0, 2.0]), np.array([0.5, -0.5]), np.array([1.0, 2.0])
    value, (to_w, to_x, to_b) = value_and_gradients(
        lambda w, x, b: 0.5 * ((w @ x + b - gx.constant(t)) ** 2).sum(), (w, x, b)
    )
    e = w @ x + b - t
    assert value == 0.5 * (e**2).sum()
    assert np.array_equal(to_w, np.outer(e, x))
    assert np.array_equal(to_b, e)
    assert np.array_equal(to_x, w.T @ e)


def test_relu_masks() -> None:
    w = np.array([[1.0, -2.0], [-1.0, 0.5], [2.0, 2.0]])
    x, b = np.array([2.0, 0.5]), np.array([0.25, 0.5, -1.0])
    value, (to_w, to_x, to_b) = value_and_gradients(
        lambda w, x, b: gx.nn.relu(w @ x + b).sum(), (w, x, b)
    )
    mask = (w @ x + b > 0).astype(float)
    assert value == np.maximum(w @ x + b, 0).sum()
    assert np.array_equal(to_w, np.outer(mask, x))
    assert np.array_equal(to_b, mask)
    assert np.array_equal(to_x, w.T @ mask)


def by_hand(s: Any, k: int) -> Any:
    """−log softmax(s)[k], spelled as a textbook does."""
    e = gx.exp(s)
    return -gx.log(e[k] / e.sum())


SPELLINGS = {
    "softmax_cross_entropy": lambda s, k: gx.nn.softmax_cross_entropy(s, gx.constant(k)),
    "log_softmax": lambda s, k: -gx.nn.log_softmax(s)[k],
    "by hand": by_hand,
    "log sum exp by hand": lambda s, k: gx.log(gx.sum(gx.exp(s))) - s[k],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e4])
def test_cross_entropy_of_huge_logits(spelling: str, scale: float) -> None:
    s = np.array([1.0, 0.998, -1.0, 0.9975]) * scale
    k = int(s.argmin())
    value, (gradient,) = value_and_gradients(lambda v: SPELLINGS[spelling](v, k), (s,))
    shifted = s - s.max()
    total = np.exp(shifted).sum()
    expected = np.exp(shifted) / total - (np.arange(4) == k)
    np.testing.assert_allclose(value, np.log(total) - shifted[k], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-300)
