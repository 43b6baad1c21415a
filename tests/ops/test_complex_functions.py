"""Elementary functions, reductions and products of complex numbers: accuracy, special values,
derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from slow_parameters import slow_unless
from test_complex import OFF, agree, draw, run

import graphc as gx

NAMES = (
    "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh",
)  # fmt: skip

TRUE: dict[str, Callable[[Any], Any]] = {
    "log2": lambda z: mpmath.log(z) / mpmath.log(2),
    "log1p": lambda z: mpmath.log(1 + z),
    "expm1": lambda z: mpmath.exp(z) - 1,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh,
}

MOST = 2.5
"""Units in the last place of the length of the result that functions may differ by."""


def places(dtype: str) -> Any:
    random = np.random.default_rng(0)
    near = np.exp(1j * random.uniform(-np.pi, np.pi, 40)) * (1 + random.normal(0, 1e-4, 40))
    spread = [draw(n, 30, dtype=np.complex128) * s for n, s in enumerate((1e-3, 0.1, 1, 4, 20))]
    return np.concatenate([near, *spread]).astype(dtype)


@slow_unless(
    lambda name, dtype, every: every > 1 and (dtype == "complex128" or NAMES.index(name) % 3 == 0)
)
@pytest.mark.parametrize("every", [3, 1])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_functions_are_accurate(name: str, dtype: str, every: int) -> None:
    array = places(dtype)[::every]
    given = run(getattr(gx, name), array)
    assert given.dtype == dtype
    eps, largest = np.finfo(dtype).eps, float(np.finfo(dtype).max)
    function = TRUE.get(name) or getattr(mpmath, name)
    with mpmath.workprec(200):
        for z, found in zip(array.tolist(), given.tolist(), strict=True):
            true = function(mpmath.mpc(z))
            if abs(true) < largest:
                assert abs(mpmath.mpc(found) - true) <= MOST * eps * abs(true), z


SPECIALS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan, 1e300, -1e300)


def alike(given: Any, wanted: Any) -> Any:
    """Parts that agree, but for the sign of zeros and infinities beside an infinite angle."""
    return (
        (np.abs(given) == np.abs(wanted))
        | (np.isnan(given) & np.isnan(wanted))
        | np.isclose(given, wanted, rtol=1e-12, atol=0)
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name != "expm1"])
def test_special_values_are_numpys(name: str) -> None:
    """NumPy's expm1 has NaN where C99's exp has infinities, so that one has a test of its own."""
    re, im = (part.ravel() for part in np.meshgrid(SPECIALS, SPECIALS))
    array = np.empty(re.size, np.complex128)
    array.real, array.imag = re, im
    given = run(getattr(gx, name), array)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(array)
    if name == "arccosh":  # C99's value, which NumPy 2.1 has not yet
        wanted.imag[(re == 0) & np.isnan(im)] = np.pi / 2
    fits = alike(given.real, wanted.real) & alike(given.imag, wanted.imag)
    assert fits.all(), (array[~fits], given[~fits], wanted[~fits])


def test_expm1_at_infinities() -> None:
    array = np.array([complex(np.inf, 0), complex(-np.inf, 0), complex(np.nan, 0), 0])
    given = run(gx.expm1, array)
    assert given[0] == complex(np.inf, 0) and given[1] == -1 and given[3] == 0
    assert np.isnan(given[2].real) and given[2].imag == 0


@pytest.mark.parametrize("name", ["sqrt", "log", "arcsin", "arccos", "arctanh", "arccosh"])
def test_cuts_follow_the_sign_of_zero(name: str) -> None:
    array = np.array([complex(-4, 0.0), complex(-4, -0.0)])
    agree(run(getattr(gx, name), array), getattr(np, name)(array))


def test_powers() -> None:
    x = draw(0, 20, dtype=np.complex128)
    agree(run(lambda v: v**2, x), x * x)
    agree(run(lambda v: v**-3, x), 1 / (x * x * x), ulp=16)
    agree(run(lambda v, w: v**w, x, x[::-1].copy()), x ** x[::-1], ulp=32)
    agree(run(lambda v: v**0.5, x), np.sqrt(x), ulp=16)
    single = x.astype(np.complex64)
    agree(run(gx.float_power, single, single), np.float_power(single, single), ulp=32)
    agree(run(lambda v: 2.0**v, x), 2.0**x, ulp=16)
    zero = np.array([0, 1e-300j, 2], np.complex128)
    agree(run(lambda v, w: v**w, zero, np.zeros(3, complex)), np.ones(3, complex))
    agree(run(lambda v, w: v**w, zero[:1], np.array([2.0 + 1j])), np.zeros(1, complex))


# --- reductions and products ---------------------------------------------------------------------

X, Y = draw(1, 5, 6), draw(2, 6, 4)

REDUCED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda x: gx.sum(x), lambda x: x.sum()),
    "mean": (lambda x: gx.mean(x, 0), lambda x: x.mean(0)),
    "cumsum": (lambda x: gx.cumsum(x, 1), lambda x: x.cumsum(1)),
    "any": (lambda x: gx.any(x, 0), lambda x: x.any(0)),
    "all": (lambda x: gx.all(x), lambda x: x.all()),
    "var": (lambda x: gx.var(x, 1), lambda x: x.var(1)),
    "std": (lambda x: gx.std(x, 0, ddof=1), lambda x: x.std(0, ddof=1)),
    "count": (lambda x: gx.count_nonzero(x, 0), lambda x: np.count_nonzero(x, 0)),
    "vdot": (lambda x: gx.vdot(x, x * 2j), lambda x: np.vdot(x, x * np.complex64(2j))),
    "trace": (lambda x: gx.trace(x), lambda x: np.trace(x)),
    "diff": (lambda x: gx.diff(x, axis=1), lambda x: np.diff(x, axis=1)),
    "matmul": (lambda x: x @ Y, lambda x: x @ Y),
    "dot": (lambda x: gx.dot(x, Y[:, 0]), lambda x: np.dot(x, Y[:, 0])),
    "tensordot": (lambda x: gx.tensordot(x, Y, 1), lambda x: np.tensordot(x, Y, 1)),
    "einsum": (lambda x: gx.einsum("ij,jk->ki", x, Y), lambda x: np.einsum("ij,jk->ki", x, Y)),
    "outer": (lambda x: gx.outer(x[0], Y[0]), lambda x: np.outer(x[0], Y[0])),
    "real_left": (lambda x: gx.real(x) @ Y, lambda x: x.real @ Y),
    "vecmat": (lambda x: gx.vecmat(x, Y), lambda x: x.conj() @ Y),
    "matvec": (lambda x: gx.matvec(Y.T, x), lambda x: x @ Y),
    "nansum": (lambda x: gx.nansum(x, 0), lambda x: np.nansum(x, 0)),
}


@slow_unless(lambda name, dtype: dtype == "complex64" or [*REDUCED].index(name) % 4 == 0)
@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_reductions_and_products_are_numpys(name: str, dtype: str) -> None:
    function, wanted = REDUCED[name]
    array = X.astype(dtype)
    agree(run(function, array), wanted(array), ulp=32)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8])
def test_products_of_elements(size: int) -> None:
    array = draw(3, 2, size, 3, dtype=np.complex128)
    with gx.Graph() as graph:
        x = gx.placeholder(array.shape, "complex128")
        fetches = [
            gx.prod(x, 1), gx.prod(x, (0, 1), keepdims=True), gx.prod(x), gx.cumprod(x, 1)
        ]  # fmt: skip
    results = gx.Session(graph, options=OFF).run(fetches, {x: array})
    wanted = array.prod(1), array.prod((0, 1), keepdims=True), array.prod(), array.cumprod(1)
    for given, expected in zip(results, wanted, strict=True):
        agree(given, expected, ulp=64)


def test_products_need_a_known_length() -> None:
    with gx.Graph():
        x = gx.placeholder((None,), "complex64")
        for function in (gx.prod, gx.cumprod):
            with pytest.raises(gx.UnsupportedError, match="unknown size"):
                function(x)


# --- derivatives ---------------------------------------------------------------------------------

SLOPES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (gx.exp, np.exp),
    "expm1": (gx.expm1, np.exp),
    "log": (gx.log, lambda z: 1 / z),
    "log1p": (gx.log1p, lambda z: 1 / (1 + z)),
    "sqrt": (gx.sqrt, lambda z: 0.5 / np.sqrt(z)),
    "sin": (gx.sin, np.cos),
    "cos": (gx.cos, lambda z: -np.sin(z)),
    "tan": (gx.tan, lambda z: 1 / np.cos(z) ** 2),
    "sinh": (gx.sinh, np.cosh),
    "cosh": (gx.cosh, np.sinh),
    "tanh": (gx.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "arcsin": (gx.arcsin, lambda z: 1 / np.sqrt(1 - z * z)),
    "arctan": (gx.arctan, lambda z: 1 / (1 + z * z)),
    "arctanh": (gx.arctanh, lambda z: 1 / (1 - z * z)),
    "arcsinh": (gx.arcsinh, lambda z: 1 / np.sqrt(1 + z * z)),
    "cube": (lambda z: z**3, lambda z: 3 * z * z),
    "power": (lambda z: z ** (1.5 - 0.5j), lambda z: (1.5 - 0.5j) * z ** (0.5 - 0.5j)),
    "quotient": (lambda z: z / (z + 2j), lambda z: 2j / (z + 2j) ** 2),
}


@pytest.mark.parametrize("name", SLOPES)
def test_holomorphic_derivatives(name: str) -> None:
    """On both axes too, where a part is 0, and beside the unit circle."""
    function, slope = SLOPES[name]
    near = np.array([1.5, -0.75, 2j, -0.5j, 1, 0.6 + 0.8j, 1 + 1j, -1 - 1j, 3 - 2j])
    array = near[near.real >= 0] if name in ("sqrt", "log", "log1p", "power") else near
    if name.startswith("arc"):
        # away from the cuts, where a derivative has two sides
        array = np.array([0.25, -0.5, 0.5j, -0.75j, 1 + 1j, -1 - 1j, 0.3 - 2j, -2 + 0.5j])
    weight = draw(5, array.size, dtype=np.complex128)
    with gx.Graph() as graph:
        z = gx.placeholder(array.shape, "complex128")
        y = function(z)
        backward = gx.gradients(y, z, grad_ys=gx.constant(weight))
        forward = gx.jvp(y, z, gx.constant(weight))
    for found in gx.Session(graph, options=OFF).run([backward, forward], {z: array}):
        agree(found, slope(array) * weight, ulp=2000)


def test_gradients_through_products_of_matrices() -> None:
    """d|tr(ab)|² by a is bᵀ times twice the conjugate of the trace."""
    a, b = draw(6, 3, 4, dtype=np.complex128), draw(7, 4, 3, dtype=np.complex128)
    with gx.Graph() as graph:
        x, y = gx.placeholder((3, 4), "complex128"), gx.placeholder((4, 3), "complex128")
        slope = gx.gradients(abs(gx.trace(x @ y)) ** 2, x)
    given = gx.Session(graph, options=OFF).run(slope, {x: a, y: b})
    agree(given, 2 * np.conj(np.trace(a @ b)) * b.T, ulp=64)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_order_is_numpys(dtype: str) -> None:
    special = [0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf]
    every = np.array([complex(re, im) for re in special for im in special], dtype)
    random = np.random.default_rng(5)
    rows = np.stack([random.permutation(np.repeat(every, 2)) for _ in range(3)])
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), dtype)
        made = [gx.sort(x), gx.argsort(x), gx.sort(x, 0), gx.sort(x, None),
                gx.sort(x, descending=True)]  # fmt: skip
        distinct = list(gx.unique(x, True, True, True, size=rows.size))
    got, found = gx.Session(graph, options=OFF).run([made, distinct], {x: rows})
    wanted = [np.sort(rows), np.argsort(rows, kind="stable"), np.sort(rows, 0), np.sort(rows, None)]
    for result, right in zip(got, wanted, strict=False):
        np.testing.assert_array_equal(result, right)
    np.testing.assert_array_equal(got[4], wanted[0][:, ::-1])
    for result, right in zip(found, np.unique(rows, True, True, True), strict=True):
        np.testing.assert_array_equal(result[: len(right)] if result.ndim == 1 else result, right)


def test_gradients_through_sorting_go_to_where_elements_came_from() -> None:
    array = np.array([2 + 1j, 1 - 3j, 2 - 1j])
    weights = np.array([1j, 2.0, 3 + 1j])
    with gx.Graph() as graph:
        x = gx.placeholder((3,), "complex128")
        slope = gx.gradients(gx.sum(gx.real(gx.sort(x) * weights)), x)
    found = gx.Session(graph, options=OFF).run(slope, {x: array})
    np.testing.assert_array_equal(found, weights[np.argsort(np.argsort(array))])
