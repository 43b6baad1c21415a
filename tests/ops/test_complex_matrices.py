"""Linear algebra of complex matrices against NumPy and SciPy, with its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from slow_parameters import slow_unless
from test_complex import OFF, draw

import graphc as gx

A, B = draw(0, 2, 4, 4, dtype=np.complex128), draw(1, 2, 4, 3, dtype=np.complex128)
TALL, VECTOR = draw(2, 2, 5, 3, dtype=np.complex128), draw(3, 4, dtype=np.complex128)


def adjoint(a: Any) -> Any:
    return np.swapaxes(a.conj(), -1, -2)


POSITIVE = A @ adjoint(A) + np.eye(4)
FAR = A + 3 * np.eye(4)


def triangle(trans: int, lower: bool, unit: bool) -> tuple[Any, Any, tuple[Any, ...]]:
    def wanted(a: Any, b: Any) -> Any:
        solve = scipy.linalg.solve_triangular
        return np.stack([solve(*pair, trans, lower, unit) for pair in zip(a, b, strict=True)])

    return lambda a, b: gx.linalg.solve_triangular(a, b, trans, lower, unit), wanted, (FAR, B)


def projected(m: Any, values: Any, vectors: Any) -> Any:
    """The projection to the first two eigenvectors, whose phases it does not have."""
    some = vectors[..., :2]
    return some @ m.conj(m.swapaxes(some, -1, -2))


def cond_1(a: Any) -> Any:
    """By its definition: NumPy 2.1 makes a complex number of it."""
    return np.linalg.norm(a, 1, (-2, -1)) * np.linalg.norm(np.linalg.inv(a), 1, (-2, -1))


def svd_parts(m: Any, u: Any, values: Any, vh: Any) -> Any:
    """What phases of vectors don't change: the values, and the projections to two pairs."""
    left, right = u[..., :2], vh[..., :2, :]
    across = m.conj(m.swapaxes(right, -1, -2))
    return [values, (left * values[..., None, :2]) @ right, across @ right]


gl, nl = gx.linalg, np.linalg
NO_SLOPES = ("svd_full",)
"""Functions of which only the first result is differentiated."""
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "inv": (gl.inv, nl.inv, (A,)),
    "solve": (gl.solve, nl.solve, (A, B)),
    "solve_vector": (gl.solve, nl.solve, (A, VECTOR)),
    "solve_real_right": (gl.solve, nl.solve, (A, B.real)),
    "solve_real_left": (gl.solve, nl.solve, (A.real, B)),
    "cholesky": (gl.cholesky, nl.cholesky, (POSITIVE,)),
    "cholesky_upper": (
        lambda a: gl.cholesky(a, upper=True), lambda a: adjoint(nl.cholesky(a)), (POSITIVE,),
    ),
    "eigvalsh": (gl.eigvalsh, nl.eigvalsh, (A,)),
    "eigvalsh_upper": (lambda a: gl.eigvalsh(a, "U"), lambda a: nl.eigvalsh(a, "U"), (A,)),
    "svdvals": (gl.svdvals, nl.svdvals, (TALL,)),
    "pinv": (gl.pinv, nl.pinv, (TALL,)),
    "pinv_wide": (gl.pinv, nl.pinv, (adjoint(TALL),)),
    "norm_2": (lambda a: gl.matrix_norm(a, ord=2), lambda a: nl.norm(a, 2, (-2, -1)), (TALL,)),
    "norm_nuc": (
        lambda a: gl.matrix_norm(a, ord="nuc"), lambda a: nl.norm(a, "nuc", (-2, -1)), (TALL,),
    ),
    "cond": (gl.cond, nl.cond, (A,)),
    "cond_1": (lambda a: gl.cond(a, 1), cond_1, (A,)),
    "matrix_rank": (gl.matrix_rank, nl.matrix_rank, (TALL[..., :1] * [1, 1j, 2],)),
    "expm": (gl.expm, scipy.linalg.expm, (A,)),
    "matrix_power": (lambda a: gl.matrix_power(a, -2), lambda a: nl.matrix_power(a, -2), (A,)),
    "lstsq": (
        lambda a, b: list(gl.lstsq(a, b)), lambda a, b: list(nl.lstsq(a, b)), (TALL[0], TALL[1]),
    ),
    "lu": (lambda a: list(gl.lu(a)), lambda a: list(scipy.linalg.lu(a)), (TALL,)),
    "lu_wide": (
        lambda a: list(gl.lu(a, permute_l=True)),
        lambda a: list(scipy.linalg.lu(a, permute_l=True)), (adjoint(TALL),),
    ),
    "triangle_lower": triangle(0, True, False),
    "triangle_upper_turned": triangle(1, False, False),
    "triangle_lower_adjoint": triangle(2, True, False),
    "triangle_of_ones": triangle(2, False, True),
    "eigh": (
        lambda a: [gl.eigh(a)[0], projected(gx, *gl.eigh(a))],
        lambda a: [nl.eigh(a)[0], projected(np, *nl.eigh(a))], (A,),
    ),
    "eigh_upper": (
        lambda a: projected(gx, *gl.eigh(a, "U")), lambda a: projected(np, *nl.eigh(a, "U")), (A,),
    ),
    "svd": (
        lambda a: svd_parts(gx, *gl.svd(a, full_matrices=False)),
        lambda a: svd_parts(np, *nl.svd(a, full_matrices=False)), (TALL,),
    ),
    "svd_full": (
        lambda a: svd_parts(gx, *gl.svd(a)), lambda a: svd_parts(np, *nl.svd(a)),
        (adjoint(TALL),),
    ),
    "qr": (lambda a: list(gl.qr(a)), lambda a: list(nl.qr(a)), (TALL,)),
    "qr_wide": (lambda a: list(gl.qr(a)), lambda a: list(nl.qr(a)), (adjoint(TALL),)),
    "qr_square": (
        lambda a: list(gl.qr(a, "complete")), lambda a: list(nl.qr(a, "complete")), (A,),
    ),
    "det": (gl.det, nl.det, (A,)),
    "slogdet": (lambda a: list(gl.slogdet(a)), lambda a: list(nl.slogdet(a)), (A,)),
}  # fmt: skip


def loss_of(results: Any, m: Any) -> Any:
    """A real function of the results by which they are differentiated."""
    results = results if isinstance(results, (list, tuple)) else [results]
    total = 0
    for number, result in enumerate(results, 1):
        re, im = m.real(result), m.imag(result)
        total = total + number * m.sum(re * 0.3 - im * re + im * im)
    return total


def program(
    function: Any, arrays: Any, dtype: str, known: bool, only_first: bool = False
) -> tuple[Any, Any]:
    """A call that gives results, the loss of all or the first of them, and its slopes."""
    part = "float32" if dtype == "complex64" else "float64"
    with gx.Graph() as graph:
        values = [
            gx.placeholder(
                a.shape if known else (None,) * a.ndim, dtype if np.iscomplexobj(a) else part
            )
            for a in arrays
        ]
        made = function(*values)
        results = list(made) if isinstance(made, (list, tuple)) else [made]
        kept = [r for r in results if r.dtype.is_inexact][: 1 if only_first else None]
        loss = loss_of(kept or [values[0]], gx)
        slopes = gx.gradients(loss, values)
    return gx.Session(graph, options=OFF).compile([results, loss, slopes], values), values


NARROW = (
    "solve_vector", "solve_real_right", "cholesky_upper", "eigvalsh_upper", "pinv_wide", "lu_wide",
    "triangle_upper_turned", "triangle_of_ones", "eigh_upper", "svd_full", "qr_square", "cond_1",
)  # fmt: skip
"""What differs from another by a step around the same routine: the suite has them in complex64."""


AROUND_ROUTINES = (
    "solve_real_right", "pinv_wide", "eigh_upper", "cond_1", "norm_2", "cond", "solve_real_left",
)  # fmt: skip
"""What is some steps around a routine of which the suite has another function."""

OF_ANY_SIZE = (
    "solve", "cholesky", "eigvalsh", "svdvals", "lu", "triangle_lower_adjoint",
)  # fmt: skip
"""Of what the suite has in complex128, one function of each routine has sizes that are not known:
proofs about these take most of the time."""
CASES = [
    (name, dtype, known)
    for dtype, known in (("complex128", True), ("complex128", False), ("complex64", True))
    for name in FUNCTIONS
    if known or not name.startswith(("det", "slogdet", "qr"))
]


def tells_most(name: str, dtype: str, known: bool) -> bool:
    if name in AROUND_ROUTINES:
        return False
    if dtype == "complex64":
        return name in NARROW
    return name not in NARROW and known != (name in OF_ANY_SIZE)


@slow_unless(tells_most)
@pytest.mark.parametrize(("name", "dtype", "known"), CASES)
def test_results_are_numpys(name: str, dtype: str, known: bool) -> None:
    """Slopes are compared in complex128."""
    function, reference, arrays = FUNCTIONS[name]
    wanted = reference(*arrays)
    wanted = wanted if isinstance(wanted, list) else [wanted]
    given, close = arrays, 1e-10
    if dtype == "complex64":
        parts = (np.complex64 if np.iscomplexobj(a) else np.float32 for a in arrays)
        given = tuple(a.astype(part) for a, part in zip(arrays, parts, strict=True))
        close = 2e-3
    exe, _ = program(function, arrays, dtype, known, name in NO_SLOPES)
    results, _, slopes = exe(*given)
    for result, right in zip(results, wanted, strict=True):
        right = np.asarray(right)
        assert result.dtype.kind == right.dtype.kind and result.shape == right.shape
        np.testing.assert_allclose(result, right, rtol=close, atol=close)
    if dtype == "complex64":
        return
    random = np.random.default_rng(1)
    for number, slope in enumerate(slopes):
        way = random.normal(size=slope.shape)
        if np.iscomplexobj(arrays[number]):
            way = way + 1j * random.normal(size=slope.shape)
        ends = []
        for step in (1e-6, -1e-6):
            moved = list(arrays)
            moved[number] = moved[number] + step * way
            ends.append(exe(*moved)[1])
        # JAX's gradient is dL/dx - i dL/dy
        np.testing.assert_allclose(
            np.sum((slope * way).real), (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", ["inv", "svdvals", "pinv"])
def test_small_and_empty_stacks(name: str) -> None:
    for shapes in ((0, 3, 3), (2, 0, 0)), ((1, 1),):
        with gx.Graph() as graph:
            value = gx.placeholder((None,) * len(shapes[0]), "complex128")
            made = getattr(gl, name)(value)
            slope = gx.gradients(loss_of(made, gx), value)
        exe = gx.Session(graph, options=OFF).compile([made, slope], [value])
        for shape in shapes:
            a = draw(4, *shape, dtype=np.complex128)
            found, slopes = exe(a)
            np.testing.assert_allclose(found, getattr(nl, name)(a), rtol=1e-12)
            assert slopes.shape == shape


def test_singular_and_indefinite_matrices_are_named() -> None:
    rows = np.array([[1 + 1j, 2 + 2j], [1j, 2j]])
    stack = np.stack([np.eye(2) * 1j, rows])
    with gx.Graph() as graph:
        a = gx.placeholder((None, 2, 2), "complex128")
        made = {
            "inv: matrix 1 of 2 is singular": gl.inv(a),
            "solve: matrix 1 of 2 is singular": gl.solve(a, a),
            "cholesky: matrix 0 of 2 is not positive definite": gl.cholesky(a),
        }
        triangular = gl.solve_triangular(a, a, lower=True)
    session = gx.Session(graph, options=OFF)
    for text, value in made.items():
        with pytest.raises(gx.LinAlgError, match=text):
            session.run(value, {a: stack})
    stack[1, 1, 1] = 0
    with pytest.raises(gx.LinAlgError, match="matrix 1 of 2 is singular"):
        session.run(triangular, {a: stack})
    lost = np.full((1, 2, 2), complex(np.nan, 0))
    assert np.isnan(session.run(made["inv: matrix 1 of 2 is singular"], {a: lost})).all()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_check_mode_takes_matrices_at_random_that_have_no_factors(dtype: str) -> None:
    matrix = POSITIVE.astype(dtype) if dtype == "complex128" else POSITIVE.real.astype(dtype)
    with gx.Graph() as graph:
        a = gx.placeholder((2, 4, 4), dtype)
        made = [gl.svd(a).S, gl.cholesky(a + gx.eye(4) * 40), gl.inv(a), gl.eigh(a).eigenvalues]
    options = gx.Options(cache="off", check=True)
    values, _, inverse, _ = gx.Session(graph, options=options).run(made, {a: matrix})
    np.testing.assert_allclose(values, nl.svd(matrix)[1], rtol=1e-4)
    np.testing.assert_allclose(inverse, nl.inv(matrix), rtol=1e-2, atol=1e-3)
