"""Gradients through softmax spelled by hand, of huge logits: they are those of gx.nn.softmax."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx

pytestmark = pytest.mark.check_mode

E = gx.exp
MATRIX = np.random.default_rng(3).standard_normal((3, 4))
WEIGHTS = np.array([1.0, 3.0, -2.0])
ROWS = [
    [1000, 0, -5], [1, 2, 3], [1000, 1000, 999], [710, 700, 705], [-1000, -1001, -1002],
    [5000, -5000, 0], [89, 90, 1], [-110, -100, -104],
]  # fmt: skip


def divided(powers: gx.Value) -> gx.Value:
    return powers / gx.sum(powers, axis=1, keepdims=True)


FORMS: dict[str, Callable[[gx.Value], gx.Value]] = {
    "quotient": lambda x: divided(E(x)),
    "exponentials twice": lambda x: E(x) / gx.sum(E(x), axis=1, keepdims=True),
    "times the inverse": lambda x: E(x) * (1 / gx.sum(E(x), axis=1, keepdims=True)),
    "reshaped sum": lambda x: E(x) / gx.reshape(gx.sum(E(x), axis=1), (-1, 1)),
    "mean": lambda x: E(x) / gx.mean(E(x), axis=1, keepdims=True) / 3,
    "columns": lambda x: (lambda e: e / gx.sum(e, axis=0))(E(x.T)).T,
    "scaled logits": lambda x: divided(E(x * 0.5 + x * 0.5)),
    "shifted": lambda x: divided(E(x - gx.max(x, axis=1, keepdims=True))),
    "logarithm": lambda x: E(x - gx.log(gx.sum(E(x), axis=1, keepdims=True))),
}
LOSSES: dict[str, Callable[[gx.Value], gx.Value]] = {
    "sum": gx.sum,
    "weights": lambda p: gx.sum(p * WEIGHTS.astype(p.dtype.numpy)),
    "squares": lambda p: gx.sum(p * p),
    "cubes": lambda p: gx.sum(p * p * p),
    "product": lambda p: gx.sum((p @ MATRIX.astype(p.dtype.numpy)) ** 2),
    "column": lambda p: gx.sum(p[:, 0]),
    "columns": lambda p: gx.sum(p[:, 0] * p[:, 1]),
    "entropy": lambda p: -gx.sum(p * gx.log(p + 1e-9)),
    "tanh": lambda p: gx.sum(gx.tanh(p * 2) * WEIGHTS.astype(p.dtype.numpy)),
    "exponential": lambda p: gx.sum(E(p)),
    "largest": lambda p: gx.sum(gx.max(p * WEIGHTS.astype(p.dtype.numpy), axis=1)),
    "quotient": lambda p: gx.sum(p / (2 - p)),
    "taken": lambda p: gx.sum(gx.take(p, np.array([0, 2]), axis=1)),
    "running": lambda p: gx.sum(gx.cumsum(p, axis=1) * WEIGHTS.astype(p.dtype.numpy)),
    "chosen": lambda p: gx.sum(gx.where(p > 0.4, p * 3, p)),
    "likelihood": lambda p: -gx.sum(gx.log(p) * WEIGHTS.astype(p.dtype.numpy)),
}


def slopes(form: Any, loss: Any, dtype: str, symbolic: bool) -> Any:
    with gx.Graph() as g:
        x = gx.placeholder((None, None if symbolic else 3), dtype, name="x")
        slope = gx.gradients(loss(form(x)), x)
    return gx.Session(g).run(slope, {x: np.array(ROWS, dtype)})


def ways(form: str, dtype: str, some: bool) -> bool:
    """Every form has some losses, and "quotient" all of them; the rest repeats their rewriting."""
    return dtype == "float32" and (some or form == "quotient")


SOME = ["sum", "weights", "product", "entropy", "largest", "likelihood"]


@cache
def by_softmax(loss: str, dtype: str) -> Any:
    """The slopes of a loss of the library's softmax, which every form is held against."""
    return slopes(gx.nn.softmax, LOSSES[loss], dtype, symbolic=False)


@slow_unless(ways)
@pytest.mark.parametrize("some", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_slopes_of_softmax_by_hand(form: str, dtype: str, some: bool) -> None:
    """1 / sum was left as spelled: 0 where the sum overflows, which guards take for a mask."""
    # the rounding of x - logsumexp(x) counts as many units as x is large
    precision = 3000 * float(np.finfo(dtype).eps)
    for name in [name for name in LOSSES if (name in SOME) is some]:
        loss = LOSSES[name]
        wanted = by_softmax(name, dtype)
        found = slopes(FORMS[form], loss, dtype, symbolic=False)
        np.testing.assert_allclose(
            found, wanted, rtol=precision, atol=precision, err_msg=f"{form}, {name}"
        )


@pytest.mark.parametrize("form", ["quotient", "columns"])
def test_slopes_of_rows_of_any_length(form: str) -> None:
    wanted = slopes(gx.nn.softmax, LOSSES["tanh"], "float64", symbolic=False)
    found = slopes(FORMS[form], LOSSES["squares"], "float64", symbolic=True)
    assert np.isfinite(found).all() and found.shape == wanted.shape
    wanted = slopes(gx.nn.softmax, LOSSES["squares"], "float64", symbolic=False)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def weighted(x: gx.Value) -> gx.Value:
    e = E(x)
    return gx.sum(e * WEIGHTS, axis=1) / gx.sum(e, axis=1)


def beside(x: gx.Value) -> gx.Value:
    return divided(E(x)) * E((x[:, ::-1] - x) * 1e-3)


def ratio(x: gx.Value) -> gx.Value:
    e = E(x)
    return (e[:, 0] + e[:, 1]) / gx.sum(e, axis=1)


def unnormalised(x: gx.Value) -> gx.Value:
    e = E(x)
    return (e @ MATRIX) / gx.sum(e, axis=1, keepdims=True)


def inner(x: gx.Value) -> gx.Value:
    return divided(E(divided(E(x)) * 3))


@pytest.mark.parametrize("build", [weighted, beside, ratio, unnormalised, inner])
def test_values_and_slopes_are_right_or_as_spelled(build: Any) -> None:
    """What is finite is right: the same of logits less their largest, where nothing overflows."""
    x = np.array(ROWS, np.float64)

    def run(shifts: bool) -> Any:
        with gx.Graph() as g:
            given = gx.placeholder((None, 3), "float64", name="x")
            logits = given
            if shifts:
                logits = given - gx.stop_gradient(gx.max(given, axis=1, keepdims=True))
            value = build(logits)
            slope = gx.gradients(gx.sum(value * value), given)
        strict = gx.Options(numerics="strict") if shifts else None
        with np.errstate(all="ignore"):
            return gx.Session(g, options=strict).run([value, slope], {given: x})

    for found, right in zip(run(False), run(True), strict=True):
        known = np.isfinite(found) & np.isfinite(right)
        assert known.any()
        np.testing.assert_allclose(found[known], right[known], rtol=1e-9, atol=1e-9)
