"""``gx.nn.attention`` against NumPy: shapes, masks, scales, one kernel, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradient_harness import arrays, close, run

import graphc as gx

pytestmark = pytest.mark.check_mode


def reference(
    q: Any, k: Any, v: Any, mask: Any = None, scale: Any = None, causal: bool = False
) -> np.ndarray:
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True) @ v)


MASK = np.random.default_rng(0).random((5, 7)) < 0.7
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "scale": {"scale": 0.25},
    "bools": {"mask": MASK},
    "bools and causal": {"mask": MASK, "causal": True},
    "floats": {"mask": np.linspace(-3, 2, 7)},
    "floats and causal": {"mask": np.linspace(-3, 2, 7), "causal": True},
    "a mask for each head": {"mask": np.ones((2, 3, 1, 7), bool)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_against_numpy(name: str) -> None:
    given = arrays((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6))
    with gx.Graph() as graph:
        fed = [gx.placeholder(array.shape, "float64") for array in given]
        result = gx.nn.attention(*fed, **OPTIONS[name])
    got = gx.Session(graph).compile(result, fed)(*given)
    np.testing.assert_allclose(got, reference(*given, **OPTIONS[name]), rtol=1e-12)


def test_leading_dims_broadcast() -> None:
    q, k, v = arrays((2, 3, 5, 4), (7, 4), (3, 7, 6))
    np.testing.assert_allclose(
        run(gx.nn.attention(gx.constant(q), k, v, causal=True)),
        reference(q, k, v, causal=True),
        rtol=1e-12,
    )


def test_sizes_known_at_run_time() -> None:
    with gx.Graph() as graph:
        q, k, v = (gx.placeholder((2, "t", "d"), "float64") for _ in range(3))
        result = gx.nn.attention(q, k, v, causal=True)
    compiled = gx.Session(graph).compile(result, [q, k, v])
    for length, depth in ((1, 3), (6, 4), (40, 9)):
        given = arrays(*[(2, length, depth)] * 3)
        np.testing.assert_allclose(
            compiled(*given), reference(*given, causal=True), rtol=1e-12
        )


@pytest.mark.parametrize("causal", [False, True])
def test_scores_are_not_stored(causal: bool) -> None:
    with gx.Graph() as graph:
        fed = [gx.placeholder((2, 128, 16)) for _ in range(3)]
        result = gx.nn.attention(*fed, causal=causal)
    kernels = gx.Session(graph).compile(result, fed).kernels
    # the mask is made, and looked at, before all matrices
    assert len(kernels) == (3 if causal else 1)
    sizes = {buffer.type.size for kernel in kernels for buffer in kernel.buffers}
    assert 2 * 128 * 128 not in sizes


def test_queries_that_see_nothing_are_nan() -> None:
    q, k, v = arrays((5, 4), (7, 4), (7, 6))
    mask = MASK.copy()
    mask[2] = False
    got = run(gx.nn.attention(gx.constant(q), k, v, mask))
    assert np.isnan(got).any(axis=1).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("mask", [None, MASK])
def test_derivative(mask: Any) -> None:
    given = arrays((5, 4), (7, 4), (7, 6))
    fed = [gx.placeholder(array.shape, "float64") for array in given]
    result = gx.sum(gx.sin(gx.nn.attention(*fed, mask=mask, causal=True)))
    gradients = run(gx.gradients(result, fed), dict(zip(fed, given, strict=True)))

    def value(arrays_: list[np.ndarray]) -> float:
        return float(np.sin(reference(*arrays_, mask=mask, causal=True)).sum())

    for number, gradient in enumerate(gradients):
        expected = np.empty_like(gradient)
        for place in np.ndindex(expected.shape):
            moved = []
            for step in (1e-6, -1e-6):
                changed = [array.copy() for array in given]
                changed[number][place] += step
                moved.append(value(changed))
            expected[place] = (moved[0] - moved[1]) / 2e-6
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


def test_keys_that_are_hidden_have_no_derivative() -> None:
    given = arrays((5, 4), (7, 4), (7, 6))
    given[1][6], given[2][6] = 1e300, -1e300
    fed = [gx.placeholder(array.shape, "float64") for array in given]
    result = gx.sum(gx.nn.attention(*fed, causal=True))
    gradients = run(gx.gradients(result, fed), dict(zip(fed, given, strict=True)))
    close(gradients[1][5:], np.zeros((2, 4)))
    assert np.isfinite(gradients[0]).all()


def test_what_is_refused() -> None:
    q, k, v = (gx.constant(array) for array in arrays((5, 4), (7, 4), (7, 6)))
    with pytest.raises(gx.DTypeError, match="bools or floats, not int64"):
        gx.nn.attention(q, k, v, mask=np.ones((5, 7), np.int64))
    with pytest.raises(gx.ShapeError, match="do not multiply"):
        gx.nn.attention(q, v, k)
