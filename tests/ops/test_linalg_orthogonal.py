"""Orthogonal factors, norms, pseudo-inverses and powers against NumPy's and SciPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from slow_parameters import slow_unless
from test_linalg_systems import definite, general, run

import graphc as gx
from graphc.base import lapack

L, N = gx.linalg, np.linalg


def turned(a: Any) -> Any:
    return np.swapaxes(a, -1, -2)


@slow_unless(lambda shape, dtype: (dtype == "float32") == (shape in ((1, 1), (20, 3, 5))))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5, 3), (20, 3, 5), (60, 40), (2, 4, 4)])
def test_factors_make_up_the_matrix(shape: tuple[int, ...], dtype: str) -> None:
    a = general(*shape, dtype=dtype)
    s = (a @ turned(a)).astype(dtype)

    def function(x: Any, y: Any) -> tuple[Any, ...]:
        return (
            *L.qr(x), *L.qr(x, "complete"), L.qr(x, "r"), *L.eigh(y), *L.eigh(y, "U"),
            L.eigvalsh(y), *L.svd(x), *L.svd(x, full_matrices=False), L.svdvals(x),
        )  # fmt: skip

    q, r, whole_q, whole_r, alone, w, v, w_u, v_u, values, u, s_, vt, u2, s2, vt2, s3 = run(
        function, a, s
    )
    room = (2e-5 if dtype == "float32" else 1e-13) * max(1.0, float(np.abs(s).max()))

    def same(one: Any, other: Any) -> None:
        np.testing.assert_allclose(one, np.broadcast_to(other, one.shape), rtol=0, atol=room)

    m, n, k = *shape[-2:], min(shape[-2:])
    assert (q.shape[-1], whole_q.shape[-1], u.shape[-1], vt.shape[-2]) == (k, m, m, n)
    same(q @ r, a)
    same(whole_q @ whole_r, a)
    same(turned(q) @ q, np.eye(k))
    same(whole_q @ turned(whole_q), np.eye(m))
    np.testing.assert_array_equal(alone, r)
    assert not np.tril(r, -1).any()
    same((v * w[..., None, :]) @ turned(v), s)
    same((v_u * w_u[..., None, :]) @ turned(v_u), s)
    same(values, N.eigvalsh(s))
    assert (np.diff(w) >= 0).all() and (np.diff(s_) <= 0).all() and (s_ >= 0).all()
    same((u[..., :k] * s_[..., None, :]) @ vt[..., :k, :], a)
    same((u2 * s2[..., None, :]) @ vt2, a)
    same(u @ turned(u), np.eye(m))
    same(turned(vt) @ vt, np.eye(n))
    same(s3, N.svd(a, compute_uv=False))


def test_bits_do_not_depend_on_threads_or_the_batch() -> None:
    a = general(24, 30, 30)
    with gx.Graph() as graph:
        x = gx.placeholder((None, 30, 30), "float64")
        made = [*L.svd(x), *L.eigh(x), *L.qr(x)]
    results = [
        gx.Session(graph, options=gx.Options(threads=threads)).run(made, {x: a})
        for threads in (1, 2)
    ]
    alone = gx.Session(graph).run(made, {x: a[11:12]})
    for one, other, single in zip(*results, alone, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one[11:12], single)


def test_openblas_gets_its_threads_back() -> None:
    import ctypes

    kept = lapack.addresses([lapack.GET_THREADS, lapack.SET_THREADS])
    count = ctypes.CFUNCTYPE(ctypes.c_int32)(kept[lapack.GET_THREADS])
    set_count = ctypes.CFUNCTYPE(None, ctypes.c_int32)(kept[lapack.SET_THREADS])
    before = count()
    try:
        set_count(2)
        run(L.svdvals, general(50, 8, 8))
        assert count() == 2
    finally:
        set_count(before)


def test_without_a_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    lapack._library.cache_clear()
    monkeypatch.setattr(lapack, "_candidates", lambda: iter(()))
    with pytest.raises(gx.UnsupportedError, match="no OpenBLAS with LAPACK"):
        lapack._library()
    lapack._library.cache_clear()


def test_libraries_refuse_what_calls_lapack(tmp_path: Any) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3, 3), "float64")
        values = L.svdvals(x)
    exe = gx.Session(graph).compile(values, [x])
    with pytest.raises(gx.UnsupportedError, match="hold no LAPACK, which svdvals needs") as caught:
        gx.aot.compile(exe, tmp_path / "library", kind="package")
    # the line of the call of svdvals
    assert "test_linalg_orthogonal.py" in str(caught.value)
    assert "values = L.svdvals(x)" in str(caught.value)


def test_failures_and_nan() -> None:
    a = general(12, 3, 3)
    a[9, 1, 1] = np.nan
    for name in ("svd", "svdvals", "pinv"):
        with pytest.raises(gx.LinAlgError, match="matrix 9 of 12 has singular values that do not"):
            run(getattr(L, name), a)
    # NumPy calls the same functions, which find NaN or nothing
    for name in ("eigh", "eigvalsh"):
        try:
            getattr(N, name)(a)
        except N.LinAlgError:
            with pytest.raises(gx.LinAlgError, match="matrix 9 of 12 has eigenvalues that do not"):
                run(getattr(L, name), a)
        else:
            values = run(getattr(L, name), a)[0]
            assert np.isnan(values[9]).any() and np.isfinite(values[:9]).all()
    assert np.isnan(run(L.qr, a)[1][9]).any()


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3), (2, 3, 0), (2, 0, 0)])
def test_empty(shape: tuple[int, ...]) -> None:
    a = np.zeros(shape)
    for unknown in (False, True):
        for function, wanted in (
            (L.qr, N.qr(a)), (L.svdvals, [N.svdvals(a)]), (L.svd, N.svd(a)), (L.pinv, [N.pinv(a)]),
        ):  # fmt: skip
            got = run(function, a, unknown=unknown)
            for one, other in zip(got if isinstance(got, list) else [got], wanted, strict=True):
                np.testing.assert_array_equal(one, other)


ORDERS = (None, "fro", "nuc", np.inf, -np.inf, 1, -1, 2, -2)


def _cases() -> list[tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]]:
    a, h, v, b = general(5, 4, 4), general(5, 4, 3), general(7), general(4, 2)
    whole = np.array([[1, 2], [3, 4]])
    made: list[tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = []

    def case(name: str, arrays: tuple[Any, ...], *args: Any, **named: Any) -> None:
        def of(module: Any) -> Callable[..., Any]:
            return lambda *operands: getattr(module, name)(*operands, *args, **named)

        made.append((of(L), of(scipy.linalg if name == "expm" else N), arrays))

    for order in ORDERS:
        case("norm", (h,), order, (1, 2))
        case("norm", (h,), order, (0, 2), True)
        case("matrix_norm", (h,), ord=order or "fro", keepdims=True)
    for order in (None, 0, 1, 2, 3, -1, 0.5, np.inf, -np.inf):
        case("norm", (v,), order)
        case("norm", (h,), order, 1, True)
        case("vector_norm", (h,), axis=(0, 2), ord=2 if order is None else order)
    case("norm", (h,))
    case("pinv", (h,))
    case("pinv", (h,), 0.3)
    for array in (a, np.ones((3, 3)), v, np.zeros((2, 2))):
        case("matrix_rank", (array,))
    for order in (None, 2, -2, 1, "fro", np.inf):
        case("cond", (a,), order)
    for power in (-2, -1, 0, 1, 2, 3, 5, 8, 13):
        case("matrix_power", (a,), power)
    case("matrix_power", (whole,), 5)
    for scale in (0.0, 1.0, 30.0):
        case("expm", (a * scale,))
    for name in ("diagonal", "trace", "svdvals"):
        case(name, (h,))
    case("lstsq", (h[0], b))
    case("lstsq", (h[0], b[:, 0]))
    for chain in ((b.T, a[0], v[:4]), (v[:4], v[1:5]), (b.T, a[0], h[0], h[1].T, v[:4])):
        made.append((lambda *x: L.multi_dot(x), lambda *x: N.multi_dot(x), chain))
    return made


@slow_unless(lambda unknown: unknown == "by turns")
@pytest.mark.parametrize("unknown", ["none", "all", "by turns"])
def test_by_numpy_s_names(unknown: str) -> None:
    cases = _cases()
    feeds: dict[Any, Any] = {}
    made = []
    with gx.Graph() as graph:
        for number, (function, _, arrays) in enumerate(cases):
            open_ = unknown == "all" or (unknown == "by turns" and number % 2)
            operands = [
                gx.placeholder([None] * x.ndim if open_ else x.shape, x.dtype) for x in arrays
            ]
            feeds.update(zip(operands, arrays, strict=True))
            made.append(function(*operands))
        made = [list(each) if isinstance(each, tuple) else each for each in made]
    results = gx.Session(graph).run(made, feeds)
    for (_, numpy, arrays), result in zip(cases, results, strict=True):
        wanted = numpy(*arrays)
        if not isinstance(result, list):
            result, wanted = [result], [wanted]
        for got, right in zip(result, wanted, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-9, atol=1e-11)


def test_gradients_of_what_is_not_determined_are_refused() -> None:
    x = gx.placeholder((5, 3), "float64")
    with pytest.raises(gx.GradientError, match="full_matrices"):
        gx.gradients(L.svd(x).U, x)
    with pytest.raises(gx.GradientError, match="complete"):
        gx.gradients(L.qr(x, "complete")[0], x)
    assert gx.gradients(L.svd(x).S, x).shape == (5, 3)


def test_gradient_of_singular_values_that_are_equal() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3, 3), "float64")
        loss = gx.sum(L.svdvals(x)) + gx.sum(L.eigvalsh(x)) + gx.sum(L.pinv(x))
        slope = gx.gradients(loss, x)
    got = gx.Session(graph).run(slope, {x: np.eye(3)})
    np.testing.assert_allclose(got, 2 * np.eye(3) - np.ones((3, 3)), atol=1e-12)


def test_expm_has_the_gradient_of_finite_differences() -> None:
    a, way = general(3, 3), general(3, 3, seed=1)
    with gx.Graph() as graph:
        x = gx.placeholder((3, 3), "float64")
        y = gx.sum(L.expm(x) * way)
        slope = gx.gradients(y, x)
    session = gx.Session(graph)
    ends = [session.run(y, {x: a + step * way}) for step in (1e-6, -1e-6)]
    found = np.sum(session.run(slope, {x: a}) * way)
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-6, rtol=1e-7)
    assert np.isnan(session.run(y, {x: a * 1e9}))


def test_least_squares_of_hilbert_matrices() -> None:
    a = scipy.linalg.hilbert(8)[:, :5]
    x, sums, rank, values = run(L.lstsq, a, np.ones(8))
    wanted = N.lstsq(a, np.ones(8), rcond=None)
    np.testing.assert_allclose(x, wanted[0], rtol=1e-6)
    np.testing.assert_allclose(sums, wanted[1], rtol=1e-6)
    assert rank == wanted[2] == 5
    np.testing.assert_allclose(values, wanted[3])
    assert run(L.matrix_rank, scipy.linalg.hilbert(20)) == N.matrix_rank(scipy.linalg.hilbert(20))
    assert run(L.cond, definite(4)) == pytest.approx(N.cond(definite(4)))


def test_bad_arguments() -> None:
    x = gx.placeholder((3, 3))
    for call, word in (
        (lambda: L.qr(x, "q"), "mode"), (lambda: L.norm(x, "x"), "ord"),
        (lambda: L.norm(x, 3, (0, 1)), "ord"), (lambda: L.eigh(x, "M"), "UPLO"),
        (lambda: L.multi_dot([x]), "multi_dot"), (lambda: L.pinv(x, 1e-3, rtol=1e-3), "rtol"),
        (lambda: L.norm(gx.placeholder((2, 2, 2)), 2), "3 axes"), (lambda: L.svd(1.0), "svd"),
        (lambda: L.lstsq(x, gx.placeholder((4,))), "lstsq"),
    ):  # fmt: skip
        with pytest.raises(gx.ShapeError, match=word):
            call()
    with pytest.raises(gx.UnsupportedError, match="raw"):
        L.qr(x, "raw")


@slow_unless(lambda unknown, shape: unknown != (shape == (0, 0)))
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (3, 0)])
def test_norms_of_nothing_are_zero(shape: tuple[int, ...], unknown: bool) -> None:
    a = np.zeros(shape)

    def function(x: Any) -> tuple[Any, ...]:
        rows = L.vector_norm(x, axis=-1, ord=np.inf)
        return rows, *[L.matrix_norm(x, ord=order) for order in ORDERS]

    ORDERS = (2, np.inf, 1) if shape[-1] == shape[-2] else (2, np.inf)
    results = run(function, a, unknown=unknown)
    assert results[0].tolist() == np.zeros(shape[:-1]).tolist()
    for result in results[1:]:
        assert result.tolist() == np.zeros(shape[:-2]).tolist()
    if shape[-1] == shape[-2]:
        assert run(L.expm, a, unknown=unknown).shape == shape


def test_norms_of_complex_numbers_are_real() -> None:
    a = np.array([[3 + 4j, 1], [0, 2j]])
    for order in (None, "fro", 1, -1, np.inf, -np.inf):
        np.testing.assert_allclose(run(lambda x, o=order: L.norm(x, o), a), N.norm(a, order))
    for order in (None, 0, 1, 2, 3, np.inf):
        got = run(lambda x, o=order: L.norm(x, o, axis=-1), a)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, N.norm(a, order, axis=-1))


def test_conditions_without_a_number_are_infinite() -> None:
    stack = np.array([np.zeros((2, 2)), np.eye(2), np.ones((2, 2))])
    assert run(L.cond, stack)[:2].tolist() == [np.inf, 1.0]


def test_expm_of_16_bits() -> None:
    a = np.array([[0.5, 0.25], [-0.25, 0.0]], np.float16)
    got = run(L.expm, a)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, scipy.linalg.expm(a.astype(np.float64)), rtol=1e-3)
