"""Answers of docs/coverage_answers.py, evaluated: what is spelled otherwise gives the same numbers.

An expression stands for each answer, and uses a function that it names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from tools import ROOT

import graphc as gx

sys.path.insert(0, str(ROOT / "docs"))

import coverage_answers as data

Reference = Callable[..., Any]
Case = tuple[str, Reference]

RANDOM = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "x": RANDOM.normal(size=(3, 4)), "y": RANDOM.normal(size=(3, 4)),
    "p": RANDOM.uniform(0.5, 3, (3, 4)), "q": RANDOM.uniform(0.5, 3, (3, 4)),
    "u": RANDOM.uniform(0.05, 0.95, (3, 4)),
    "i": RANDOM.integers(-9, 9, (3, 4)), "j": RANDOM.integers(1, 5, (3, 4)),
    "n": RANDOM.integers(5, 9, (3, 4)).astype(np.float64),
    "k": RANDOM.integers(0, 5, (3, 4)).astype(np.float64),
    "b": RANDOM.integers(0, 2, (3, 4)).astype(np.bool_),
    "c": RANDOM.integers(0, 2, (3, 4)).astype(np.bool_),
    "s": RANDOM.normal(size=(4, 4)) + 4 * np.eye(4), "v": RANDOM.normal(size=4),
    "f": RANDOM.normal(size=(2, 5, 3, 8)).astype(np.float32),
}  # fmt: skip
"""Operands by letter: numbers, positive numbers, integers, truth values, a matrix."""


def _attention(f: Any) -> Any:
    weights = scipy.special.softmax(f @ np.swapaxes(f, -1, -2) / np.sqrt(8), axis=-1)
    return weights @ f


def _sorted_pairs(x: Any, y: Any) -> Any:
    return np.take_along_axis(y, np.argsort(x, axis=-1), axis=-1)


def _slope(function: Callable[[Any], Any], at: Any) -> Any:
    return (function(at + 1e-6) - function(at - 1e-6)) / 2e-6


LAX: dict[str, Case] = {
    "approx_max_k": ("gx.top_k(x, 2)[0]", lambda x: np.sort(x)[:, :1:-1]),
    "approx_min_k": ("-gx.top_k(-x, 2)[0]", lambda x: np.sort(x)[:, :2]),
    "batch_matmul": ("gx.matmul(x, s)", np.matmul),
    "bessel_i0e": ("gx.special.i0e(x)", scipy.special.i0e),
    "bessel_i1e": ("gx.special.i1e(x)", scipy.special.i1e),
    "betainc": ("gx.special.betainc(p, q, u)", scipy.special.betainc),
    "broadcast": ("gx.broadcast_to(x, (2, *x.shape))", lambda x: np.stack([x, x])),
    "broadcast_in_dim": (
        "gx.broadcast_to(gx.expand_dims(v, 1), (2, 4, 3))",
        lambda v: np.broadcast_to(v[:, None], (2, 4, 3)),
    ),
    "broadcast_like": ("gx.broadcast_to(v, x.shape)", lambda v, x: np.broadcast_to(v, x.shape)),
    "broadcast_to_rank": ("gx.expand_dims(v, 0)", lambda v: v[None]),
    "broadcasted_iota": (
        "gx.broadcast_to(gx.arange(4), x.shape)",
        lambda x: np.broadcast_to(np.arange(4), x.shape),
    ),
    "clamp": ("gx.clip(x, -0.5, 0.5)", lambda x: np.clip(x, -0.5, 0.5)),
    "collapse": ("gx.reshape(x, (12,))", np.ravel),
    "convert_element_type": ("gx.astype(x, 'float32')", lambda x: x.astype(np.float32)),
    "cumlogsumexp": ("gx.logcumsumexp(x, 1)", lambda x: np.logaddexp.accumulate(x, 1)),
    "digamma": ("gx.special.digamma(p)", scipy.special.digamma),
    "div": (
        "gx.stack([gx.divide(x, p), gx.trunc(gx.divide(i, j))])",
        lambda x, p, i, j: np.stack([x / p, np.trunc(i / j)]),
    ),
    "dot_general": (
        "gx.einsum('bij,kb->bik', gx.stack([x, y]), gx.stack([x[0], y[0]])[:, :2])",
        lambda x, y: np.einsum("bij,kb->bik", np.stack([x, y]), np.stack([x[0], y[0]])[:, :2]),
    ),
    "eq": ("gx.equal(i, j)", np.equal),
    "erf_inv": ("gx.special.erfinv(u)", scipy.special.erfinv),
    "gather": ("gx.take(x, gx.constant([2, 0]), 0)", lambda x: x[[2, 0]]),
    "ge": ("gx.greater_equal(i, j)", np.greater_equal),
    "gt": ("gx.greater(i, j)", np.greater),
    "igamma": ("gx.special.gammainc(p, q)", scipy.special.gammainc),
    "igamma_grad_a": (
        "gx.gradients(gx.sum(gx.special.gammainc(p, q)), [p])[0]",
        lambda p, q: _slope(lambda a: scipy.special.gammainc(a, q), p),
    ),
    "igammac": ("gx.special.gammaincc(p, q)", scipy.special.gammaincc),
    "index_in_dim": ("gx.take(x, 1, 0)", lambda x: x[1]),
    "index_take": ("gx.take(x, gx.constant([1, 1]), 1)", lambda x: x[:, [1, 1]]),
    "integer_pow": ("gx.power(x, 3)", lambda x: x**3),
    "iota": ("gx.arange(5)", lambda: np.arange(5)),
    "is_finite": ("gx.isfinite(x / 0)", lambda x: np.zeros(x.shape, bool)),
    "le": ("gx.less_equal(i, j)", np.less_equal),
    "lgamma": ("gx.special.gammaln(p)", scipy.special.gammaln),
    "logistic": ("gx.sigmoid(x)", scipy.special.expit),
    "lt": ("gx.less(i, j)", np.less),
    "max": ("gx.maximum(x, y)", np.maximum),
    "min": ("gx.minimum(x, y)", np.minimum),
    "mul": ("gx.multiply(x, y)", np.multiply),
    "ne": ("gx.not_equal(i, j)", np.not_equal),
    "neg": ("gx.negative(x)", np.negative),
    "pad": (
        "gx.pad(gx.zeros((3, 7), 'float64').at[:, ::2].set(x), ((0, 1), (2, 0)))",
        lambda x: np.pad(
            np.stack([x, 0 * x], -1).reshape(3, 8)[:, :7], ((0, 1), (2, 0))
        ),
    ),
    "polygamma": ("gx.special.polygamma(2, p)", lambda p: scipy.special.polygamma(2, p)),
    "random_gamma_grad": (
        "-(lambda d: d[0] / d[1])(gx.gradients(gx.sum(gx.special.gammainc(p, q)), [p, q]))",
        # along a curve of equal probability
        lambda p, q: _slope(
            lambda a: scipy.special.gammaincinv(a, scipy.special.gammainc(p, q)), p
        ),
    ),
    "reduce": ("gx.sum(x, (0, 1))", np.sum),
    "reduce_max": ("gx.max(x, 0)", lambda x: x.max(0)),
    "reduce_min": ("gx.min(x, 0)", lambda x: x.min(0)),
    "reduce_prod": ("gx.prod(x, 0)", lambda x: x.prod(0)),
    "reduce_sum": ("gx.sum(x, 0)", lambda x: x.sum(0)),
    "rem": ("gx.fmod(i, j)", np.fmod),
    "rev": ("gx.flip(x, (0, 1))", lambda x: x[::-1, ::-1]),
    "round": ("gx.round(gx.constant([0.5, 1.5, 2.6]))", lambda: np.float32([0, 2, 3])),
    "scaled_dot": (
        "gx.nn.scaled_matmul(x[None], y[None], p[None, :, :2], q[None, :, :1], 'float64')",
        lambda x, y, p, q: ((x * np.repeat(p[:, :2], 2, 1)) @ (y * q[:, :1]).T)[None],
    ),
    "scatter": ("x.at[gx.constant([1])].set(0.0)", lambda x: np.stack([x[0], 0 * x[1], x[2]])),
    "scatter_apply": (
        "x.at[gx.constant([1])].apply(gx.exp, unique_indices=True)",
        lambda x: np.stack([x[0], np.exp(x[1]), x[2]]),
    ),
    "scatter_max": (
        "x.at[1].max(y[0])", lambda x, y: np.stack([x[0], np.maximum(x[1], y[0]), x[2]]),
    ),
    "scatter_min": (
        "x.at[1].min(y[0])", lambda x, y: np.stack([x[0], np.minimum(x[1], y[0]), x[2]]),
    ),
    "scatter_mul": ("x.at[1].multiply(2.0)", lambda x: np.stack([x[0], 2 * x[1], x[2]])),
    "scatter_sub": ("x.at[1].subtract(2.0)", lambda x: np.stack([x[0], x[1] - 2, x[2]])),
    "select": ("gx.where(b, x, y)", np.where),
    "select_n": (
        "gx.choose(gx.astype(b, 'int64'), [x, y])", lambda b, x, y: np.where(b, y, x),
    ),
    "shift_left": ("gx.left_shift(i, j)", np.left_shift),
    "shift_right_arithmetic": ("gx.right_shift(i, j)", np.right_shift),
    "shift_right_logical": (
        "gx.right_shift(gx.astype(i, 'uint64'), gx.astype(j, 'uint64'))",
        lambda i, j: i.astype(np.uint64) >> j.astype(np.uint64),
    ),
    "slice": ("x[0:3:2]", lambda x: x[::2]),
    "slice_in_dim": ("x[0:3:2]", lambda x: x[::2]),
    "sort_key_val": ("gx.take_along_axis(y, gx.argsort(x))", lambda y, x: _sorted_pairs(x, y)),
    "sub": ("gx.subtract(x, y)", np.subtract),
    "zeta": ("gx.special.zeta(p + 1, q)", lambda p, q: scipy.special.zeta(p + 1, q)),
    "shape_as_value": ("gx.stack([gx.dim(d) for d in x.shape])", lambda x: np.array(x.shape)),
}  # fmt: skip

SPECIAL: dict[str, Case] = {
    "binom": ("gx.special.comb(n, k)", scipy.special.binom),
    "cosdg": ("gx.cos(gx.radians(x))", scipy.special.cosdg),
    "cotdg": ("1 / gx.tan(gx.radians(p))", scipy.special.cotdg),
    "exp10": ("gx.power(10.0, x)", scipy.special.exp10),
    "loggamma": ("gx.special.gammaln(p)", scipy.special.loggamma),
    "perm": ("gx.special.comb(n, k) * gx.special.factorial(k)", scipy.special.perm),
    "poch": ("gx.special.gamma(p + q) / gx.special.gamma(p)", scipy.special.poch),
    "powm1": ("gx.expm1(x * gx.log(p))", lambda x, p: scipy.special.powm1(p, x)),
    "radian": ("gx.radians(x)", lambda x: scipy.special.radian(x, 0, 0)),
    "rgamma": ("1 / gx.special.gamma(p)", scipy.special.rgamma),
    "round": ("gx.round(x)", scipy.special.round),
    "sindg": ("gx.sin(gx.radians(x))", scipy.special.sindg),
    "tandg": ("gx.tan(gx.radians(x))", scipy.special.tandg),
    "zetac": ("gx.special.zeta(p + 1, 1) - 1", lambda p: scipy.special.zetac(p + 1)),
}  # fmt: skip

LINALG: dict[str, Case] = {
    "ishermitian": ("gx.allclose(s, gx.conj(gx.matrix_transpose(s)))", scipy.linalg.ishermitian),
    "issymmetric": ("gx.allclose(s, gx.matrix_transpose(s))", scipy.linalg.issymmetric),
    "lu_factor": ("gx.linalg.lu(s)[-1]", lambda s: scipy.linalg.lu(s)[2]),
    "lu_solve": ("gx.linalg.solve(s, v)", np.linalg.solve),
}  # fmt: skip

NN: dict[str, Case] = {
    "dot_product_attention": ("gx.nn.attention(f, f, f)", _attention),
    "identity": ("gx.positive(x)", lambda x: x),
}

EVALUATED = {"jax.lax": LAX, "jax.nn": NN, "scipy.special": SPECIAL, "scipy.linalg": LINALG}
NO_NUMBERS = {
    "dtype", "empty", "optimization_barrier", "rng_bit_generator", "rng_uniform",
}  # fmt: skip
"""What gives no numbers to compare: a dtype, elements that don't matter, what is drawn."""


def test_every_answer_is_evaluated() -> None:
    for library, answers in data.OTHERWISE.items():
        assert answers.keys() - NO_NUMBERS <= EVALUATED.get(library, {}).keys(), library


@pytest.mark.parametrize(
    ("library", "name"),
    [
        (library, name)
        for library, answers in data.OTHERWISE.items()
        for name in answers
        if name not in NO_NUMBERS
    ],
)
def test_an_answer_gives_the_same_numbers(library: str, name: str) -> None:
    expression, reference = EVALUATED[library][name]
    answer = data.OTHERWISE[library][name]
    named = set(re.findall(r"gx[.\w]*\.(\w+)", answer))
    used = set(re.findall(r"gx[.\w]*\.(\w+)", expression))
    assert not named or named & used, f"{name}: {expression!r} is not {answer!r}"
    letters = list(dict.fromkeys(re.findall(r"(?<![.\w'])[a-z](?![\w'(=])", expression)))
    letters = [letter for letter in letters if letter in ARRAYS]
    with gx.Graph() as graph:
        values = {
            letter: gx.placeholder(ARRAYS[letter].shape, ARRAYS[letter].dtype)
            for letter in letters
        }
        result = eval(expression, {"gx": gx, **values})
    feeds = {values[letter]: ARRAYS[letter] for letter in letters}
    with np.errstate(all="ignore"):
        got = gx.Session(graph).run(result, feeds)
        wanted = np.asarray(reference(*(ARRAYS[letter] for letter in letters)))
    assert got.shape == wanted.shape, name
    tolerance = 2e-6 if "grad" in name or got.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance, err_msg=name)
