"""Reductions, differences, products and sequences by NumPy's names, against NumPy.

One graph for each set of operands, compiled: with sizes that are known, and the same unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

Case = tuple[str, Callable[..., Any]]
"""What it is called, and from a module and arrays to the result."""

NAN: list[Case] = [
    (f"{name} {axis} {keepdims}", lambda m, x, n=name, a=axis, k=keepdims: getattr(m, n)(
        x, axis=a, keepdims=k))
    for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")
    for axis, keepdims in ((None, False), (0, False), (1, True), ((0, 1), False))
] + [
    ("nancumsum", lambda m, x: m.nancumsum(x)),
    ("nancumsum 1", lambda m, x: m.nancumsum(x, axis=1)),
    ("nancumprod", lambda m, x: m.nancumprod(x, axis=0)),
    ("nanargmax", lambda m, x: m.nanargmax(x)),
    ("nanargmin", lambda m, x: m.nanargmin(x[:2], axis=1)),
    ("nanargmax 0", lambda m, x: m.nanargmax(x, axis=0, keepdims=True)),
    ("nanvar ddof", lambda m, x: m.nanvar(x, axis=0, ddof=2)),
    ("nanstd ddof", lambda m, x: m.nanstd(x, axis=1, ddof=1)),
]  # fmt: skip

PLAIN: list[Case] = [
    ("ptp", lambda m, x, y: m.ptp(x)),
    ("ptp 1", lambda m, x, y: m.ptp(x, axis=1, keepdims=True)),
    ("count_nonzero", lambda m, x, y: m.count_nonzero(x)),
    ("count_nonzero 0", lambda m, x, y: m.count_nonzero(x, axis=0, keepdims=True)),
    ("average", lambda m, x, y: m.average(x, axis=0)),
    ("average, weighted", lambda m, x, y: m.average(x, weights=y * y)),
    ("average, of rows", lambda m, x, y: m.average(x, axis=1, weights=y[0] * y[0])),
    ("average and weights", lambda m, x, y: m.average(x, 1, y[0] * y[0], returned=True)),
    ("average and count", lambda m, x, y: m.average(x, axis=0, returned=True)),
    ("cov", lambda m, x, y: m.cov(x)),
    ("cov of two", lambda m, x, y: m.cov(x, y, rowvar=False)),
    ("cov of one", lambda m, x, y: m.cov(x[0])),
    ("cov, biased", lambda m, x, y: m.cov(x, bias=True)),
    ("cov, weighted", lambda m, x, y: m.cov(x, ddof=1, fweights=[1, 2, 1, 3], aweights=[1., 1, 2, 3])),  # noqa: E501
    ("corrcoef", lambda m, x, y: m.corrcoef(x, y)),
    ("corrcoef of one", lambda m, x, y: m.corrcoef(x[0])),
    ("diff", lambda m, x, y: m.diff(x)),
    ("diff twice", lambda m, x, y: m.diff(x, n=2, axis=0)),
    ("diff too often", lambda m, x, y: m.diff(x, n=5)),
    ("diff, between", lambda m, x, y: m.diff(x, axis=0, prepend=y[:1], append=0)),
    ("ediff1d", lambda m, x, y: m.ediff1d(x, to_begin=y[0], to_end=9)),
    ("trapezoid", lambda m, x, y: m.trapezoid(x)),
    ("trapezoid at", lambda m, x, y: m.trapezoid(x, x=y[0])),
    ("trapezoid at all", lambda m, x, y: m.trapezoid(x, x=y, axis=0)),
    ("trapezoid by", lambda m, x, y: m.trapezoid(x, dx=0.5, axis=0)),
    ("gradient", lambda m, x, y: m.gradient(x)),
    ("gradient by", lambda m, x, y: m.gradient(x, 2, axis=1)),
    ("gradient at", lambda m, x, y: m.gradient(x, m.cumsum(y[0] * y[0] + 1), axis=1)),
    ("gradient of order 2", lambda m, x, y: m.gradient(x, 0.5, axis=1, edge_order=2)),
    ("gradient of order 2 at", lambda m, x, y: m.gradient(
        x, 1.5, m.cumsum(y[0] * y[0] + 1), edge_order=2)),
    ("unwrap", lambda m, x, y: m.unwrap(x * 3)),
    ("unwrap by", lambda m, x, y: m.unwrap(x * 3, axis=0, period=4.0, discont=3.0)),
    ("inner", lambda m, x, y: m.inner(x, y)),
    ("inner of scalars", lambda m, x, y: m.inner(x[0, 0], y)),
    ("vdot", lambda m, x, y: m.vdot(x, y)),
    ("vecdot", lambda m, x, y: m.vecdot(x, y)),
    ("vecdot 0", lambda m, x, y: m.vecdot(x, y, axis=0)),
    # NumPy 2.1 has neither of these
    ("matvec", lambda m, x, y: m.matvec(x, y) if m is gx else y @ x.T),
    ("vecmat", lambda m, x, y: m.vecmat(x[:, 0], y) if m is gx else x[:, 0] @ y),
    ("tensordot", lambda m, x, y: m.tensordot(x, y)),
    ("tensordot 0", lambda m, x, y: m.tensordot(x, y, 0)),
    ("tensordot of axes", lambda m, x, y: m.tensordot(x, y, axes=(1, 1))),
    ("tensordot of both", lambda m, x, y: m.tensordot(x, y, axes=([0, 1], [0, 1]))),
    ("kron", lambda m, x, y: m.kron(x, y)),
    ("kron of ranks", lambda m, x, y: m.kron(x[0], y)),
    ("cross", lambda m, x, y: m.cross(x[:, :3], y[:, 1:])),
    ("cross of one", lambda m, x, y: m.cross(x[:, :3], y[0, 1:], axisc=0)),
    ("cross 0", lambda m, x, y: m.cross(x, y, axis=0)),
    ("convolve", lambda m, x, y: m.convolve(x[0], y[1])),
    ("convolve, same", lambda m, x, y: m.convolve(x[0], y[1, :3], "same")),
    ("convolve, valid", lambda m, x, y: m.convolve(x[0], y[1, :2], mode="valid")),
    ("correlate", lambda m, x, y: m.correlate(x[0], y[1, :2])),
    ("correlate, same", lambda m, x, y: m.correlate(x[0], y[1, :2], "same")),
    ("correlate, full", lambda m, x, y: m.correlate(x[0], y[1, :3], "full")),
    ("polyadd", lambda m, x, y: m.polyadd(x[0], y[0, 1:])),
    ("polysub", lambda m, x, y: m.polysub(x[0, 2:], y[0])),
    ("polymul", lambda m, x, y: m.polymul(x[0], y[0])),
    ("polyder", lambda m, x, y: m.polyder(x[0], 2)),
    ("polyint", lambda m, x, y: m.polyint(x[0], 2, k=[1.0, 2.0])),
]  # fmt: skip

KNOWN: list[Case] = [
    ("polyval", lambda m, x, y: m.polyval(x[0], y)),
    ("polyval of numbers", lambda m, x, y: m.polyval([1, 0, -2], y)),
    ("convolve, shorter", lambda m, x, y: m.convolve(x[0, :2], y[1], "same")),
    ("correlate, shorter", lambda m, x, y: m.correlate(x[0, :2], y[1], "full")),
    ("correlate, shorter same", lambda m, x, y: m.correlate(x[0, :3], y[1], "same")),
    ("correlate, shorter valid", lambda m, x, y: m.correlate(x[0, :3], y[1])),
]
"""What wants some size to be known."""

OF_BOOLS = ("count", "diff", "vdot", "vecdot", "inner", "tensordot", "kron", "convolve")


def flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def agree(cases: list[Case], known: bool, *arrays: Any) -> None:
    """That compiled results are NumPy's, to rounding."""
    with gx.Graph() as graph:
        operands = [
            gx.placeholder(a.shape if known else (None,) * a.ndim, a.dtype) for a in arrays
        ]
        fetches = [flat(function(gx, *operands)) for _, function in cases]
    results = gx.Session(graph).run(fetches, dict(zip(operands, arrays, strict=True)))
    for (name, function), got in zip(cases, results, strict=True):
        with np.errstate(all="ignore"):
            wanted = flat(function(np, *arrays))
        assert len(got) == len(wanted), name
        for one, other in zip(got, map(np.asarray, wanted), strict=True):
            assert one.shape == other.shape, name
            assert one.dtype == other.dtype or arrays[0].dtype == np.float32, name
            room = 2e-5 if one.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(one, other, rtol=room, atol=room, err_msg=name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("element", "known"), [("float32", True), ("float64", False)])
def test_nan_is_left_out(element: str, known: bool) -> None:
    rng = np.random.default_rng(3)
    array = rng.normal(size=(4, 5)).astype(element)
    array[rng.random(array.shape) < 0.3] = np.nan
    array[0], array[:, 1] = [1, np.nan, 3, -np.inf, 2], [np.nan, 2, np.nan, np.nan]
    agree(NAN, known, array)
    array[3] = np.nan
    agree([case for case in NAN if "arg" not in case[0]], True, array)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_have_no_nan() -> None:
    agree([case for case in NAN if "(" not in case[0]], True, np.arange(12).reshape(3, 4))


def test_a_row_of_nan_has_no_position() -> None:
    array = np.array([[np.nan, np.nan], [np.nan, 1]])
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "float64")
        fetches = [gx.nanargmax(x, 1), gx.nanargmin(x, axis=1)]
    for got in gx.Session(graph).run(fetches, {x: array}):
        assert got.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("element", "known"), [("float32", True), ("int32", True), ("bool", True), ("float64", False)]
)
def test_reductions_and_products_are_numpy_s(element: str, known: bool) -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.normal(size=(3, 4)) * 3, rng.normal(size=(3, 4)) * 3)
    if element == "bool":
        cases = [case for case in PLAIN if case[0].startswith(OF_BOOLS)]
        agree([case for case in cases if "between" not in case[0]], known, x > 0, y > 1)
        return
    cases = PLAIN + (KNOWN if known else [])
    if element == "int32":
        # NumPy drops leading zeros
        cases = [case for case in cases if case[0] != "polymul"]
    agree(cases, known, x.astype(element), y.astype(element))


def test_unwrap_of_integers_stays_exact() -> None:
    array = np.array([[5, 9, 2, 255, 3]], np.int64)
    with gx.Graph() as graph:
        x = gx.placeholder((1, None), "int64")
        fetches = [gx.unwrap(x, period=period) for period in (7, 8)]
    for period, got in zip((7, 8), gx.Session(graph).run(fetches, {x: array}), strict=True):
        wanted = np.unwrap(array, period=period)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_gradients_by_finite_differences() -> None:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    x[1, 1] = np.nan
    wanted = [case for case in NAN if not case[0].startswith("nanarg") and "False" not in case[0]]
    clean = np.where(np.isnan(x), 0.5, x)
    names = ("cov, weighted", "corrcoef", "gradient of order 2 at", "cross", "convolve, same",
             "trapezoid at", "average, weighted", "tensordot of axes", "kron", "polyint", "ptp")
    picked = [case for case in PLAIN if case[0] in names] + KNOWN[:1]
    with gx.Graph() as graph:
        a, b = gx.placeholder((3, 4), "float64"), gx.placeholder((3, 4), "float64")
        whole = [gx.placeholder((3, 4), "float64") for _ in range(2)]
        fetches = []
        for _, function in wanted:
            total = gx.sum(gx.nan_to_num(function(gx, a)))
            fetches.append([total, gx.gradients(total, a)])
        for _, function in picked:
            total = sum(gx.sum(part) for part in flat(function(gx, *whole)))
            fetches.append([total, gx.gradients(total, whole[0])])
    session = gx.Session(graph)
    feeds = {a: x, b: y, whole[0]: clean, whole[1]: y}
    slopes = [back for _, back in session.run(fetches, feeds)]
    step, way = 1e-6, rng.normal(size=(3, 4))
    ends = []
    for side in (step, -step):
        moved = {**feeds, a: x + side * way, whole[0]: clean + side * way}
        ends.append([total for total, _ in session.run(fetches, moved)])
    for (name, _), back, high, low in zip(wanted + picked, slopes, *ends, strict=True):
        assert np.isclose(np.sum(back * way), (high - low) / (2 * step), rtol=1e-5, atol=1e-6), name


REFUSED: list[tuple[str, type[Exception], Callable[[Any], Any]]] = [
    ("ptp does not take bool", gx.DTypeError, lambda x: gx.ptp(x > 0)),
    ("weights", gx.ShapeError, lambda x: gx.average(x, 0, x[:, :, None])),
    ("covariances of", gx.ShapeError, lambda x: gx.cov(x[None])),
    ("diff of a scalar", gx.ShapeError, lambda x: gx.diff(x[0, 0])),
    ("diff of order -1", gx.ShapeError, lambda x: gx.diff(x, -1)),
    ("3 distances for 2 axes", gx.ShapeError, lambda x: gx.gradient(x, 1, 2, 3)),
    ("edge_order=3", gx.ShapeError, lambda x: gx.gradient(x, edge_order=3)),
    ("it takes 2 elements", gx.ShapeError, lambda x: gx.gradient(x[:, :1][:, 0:1], axis=1)),
    ("vecdot of a scalar", gx.ShapeError, lambda x: gx.vecdot(x, 1.0)),
    ("matvec of", gx.ShapeError, lambda x: gx.matvec(x[0], x)),
    ("vecmat of", gx.ShapeError, lambda x: gx.vecmat(x, x[0])),
    ("over 3 axes", gx.ShapeError, lambda x: gx.tensordot(x, x, 3)),
    ("no pair", gx.ShapeError, lambda x: gx.tensordot(x, x, (0, 1, 1))),
    ("equally many", gx.ShapeError, lambda x: gx.tensordot(x, x, ((0, 1), (1,)))),
    ("not three elements", gx.ShapeError, lambda x: gx.cross(np.ones(2), np.ones(2))),
    ("mode 'all'", gx.ShapeError, lambda x: gx.convolve(x[0], x[1], "all")),
    ("convolve of", gx.ShapeError, lambda x: gx.convolve(x, x)),
    ("neither may be empty", gx.ShapeError, lambda x: gx.convolve(x[0], np.ones(0))),
    ("how many there are", gx.ConcreteValueError, lambda x: gx.polyval(x[0], 1.0)),
    ("polyval of coefficients", gx.ShapeError, lambda x: gx.polyval(x, 1.0)),
    ("polyder of order -2", gx.ShapeError, lambda x: gx.polyder(x[0], -2)),
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


def test_what_a_run_tells_not_to_fit() -> None:
    cases: list[tuple[str, Callable[[Any, Any], Any]]] = [
        (r"gradient along axis 1 of \[2, 1\]", lambda x, y: gx.gradient(x, axis=1)),
        (r"vecdot of \[2, 1\] and \[3, 2\]", gx.vecdot),
        (r"tensordot of \[2, 1\] and \[3, 2\] over the axes \[1\] and \[1\]", gx.inner),
        (r"vectors of the first operand, \[2, 1\]", gx.cross),
        (r"weights \[3, 2\] of \[2, 1\]", lambda x, y: gx.average(x, weights=y)),
    ]
    for message, function in cases:
        with gx.Graph() as graph:
            x, y = gx.placeholder((None, None)), gx.placeholder((None, None))
            result = function(x, y)
        with pytest.raises(gx.ShapeError, match=message):
            gx.Session(graph).run(result, {x: np.ones((2, 1)), y: np.ones((3, 2))})


def test_cumulative_sums_with_what_comes_first() -> None:
    array = np.arange(6, dtype=np.int8).reshape(2, 3) + 1
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "int8")
        fetches = [
            gx.cumulative_sum(x, axis=1), gx.cumulative_sum(x, axis=0, include_initial=True),
            gx.cumulative_prod(x[0], dtype="float32", include_initial=True),
        ]  # fmt: skip
        with pytest.raises(gx.ShapeError, match="cumulative_sum of"):
            gx.cumulative_sum(x)
    wanted = [
        np.cumulative_sum(array, axis=1), np.cumulative_sum(array, axis=0, include_initial=True),
        np.cumulative_prod(array[0], dtype="float32", include_initial=True),
    ]  # fmt: skip
    for got, other in zip(gx.Session(graph).run(fetches, {x: array}), wanted, strict=True):
        assert got.dtype == other.dtype
        np.testing.assert_array_equal(got, other)


@pytest.mark.parametrize("size", [1, 5, 16, 17, 40, 64, 65])
def test_convolutions_have_the_same_bits_whether_sizes_are_known(size: int) -> None:
    rng = np.random.default_rng(size)
    long, short = rng.normal(size=150).astype("float32"), rng.normal(size=size).astype("float32")
    results = []
    for shapes in (((150,), (size,)), ((None,), (None,))):
        with gx.Graph() as graph:
            x, y = (gx.placeholder(shape) for shape in shapes)
            z = gx.convolve(x, y, "same")
        results.append(gx.Session(graph).run(z, {x: long, y: short}))
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], np.convolve(long, short, "same"), rtol=1e-4, atol=1e-5)
