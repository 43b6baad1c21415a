"""``gx.fft``: NumPy's transforms along axes, lengths, norms, dtypes, gradients, frequencies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx

SHAPE = (4, 6, 5)
ONE_AXIS = (
    {}, {"n": 3}, {"n": 9, "axis": 1}, {"axis": 0, "norm": "ortho"}, {"n": 8, "norm": "forward"},
)  # fmt: skip
AXES = (
    {}, {"axes": (0,)}, {"axes": (2, 0)}, {"s": (3, 7), "axes": (0, 1)},
    {"s": (3, -1, 4), "axes": (0, 1, 2), "norm": "ortho"},
)  # fmt: skip
PLANES = ({}, {"axes": (0, 1)}, {"s": (3, 7), "norm": "forward"})
CASES = {
    "fft": ONE_AXIS, "ifft": ONE_AXIS, "rfft": ONE_AXIS, "irfft": ONE_AXIS, "hfft": ONE_AXIS,
    "ihfft": ONE_AXIS, "fftn": AXES, "ifftn": AXES, "rfftn": AXES, "irfftn": AXES,
    "fft2": PLANES, "ifft2": PLANES, "rfft2": PLANES, "irfft2": PLANES,
}  # fmt: skip
REAL = {"rfft", "rfftn", "rfft2", "ihfft"}


def sample(kind: str, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    array = 5 * rng.normal(size=shape)
    return (array + 5j * rng.normal(size=shape) if kind[0] == "c" else array).astype(kind)


@slow_unless(lambda name: name not in ("ifft", "ifftn", "rfftn", "fft2", "irfft2"))
@pytest.mark.parametrize("name", CASES)
def test_transforms_are_numpy_s(name: str) -> None:
    kinds = ["float64", "float32", "int64"]
    kinds += [] if name in REAL else ["complex128", "complex64"]
    numpy, feeds, wanted, fetched = getattr(np.fft, name), {}, [], []
    with gx.Graph() as graph:
        for number, kind in enumerate(kinds):
            dims = (None, None, 5) if number % 2 else SHAPE
            x = gx.placeholder(dims, kind, name=kind)
            feeds[x] = sample(kind)
            for options in CASES[name]:
                fetched.append(getattr(gx.fft, name)(x, **options))
                wanted.append(numpy(feeds[x], **options))
    for got, right in zip(gx.Session(graph).run(fetched, feeds), wanted, strict=True):
        assert (got.shape, got.dtype) == (right.shape, right.dtype)
        eps = np.finfo(right.dtype).eps
        np.testing.assert_allclose(got, right, rtol=0, atol=50 * eps * np.abs(right).max())


def test_sizes_of_the_run_cut_off_and_fill_up() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("rows", "n"), "complex64", name="x")
        y = gx.placeholder(("m",), name="y")
        result = gx.fft.fft(x, y.shape[0])
        back = gx.fft.irfft(gx.fft.rfft(y), y.shape[0])
    exe = gx.Session(graph).compile([result, back], [x, y])
    for length in (1, 3, 8, 17):
        given = sample("float32", (length,))
        for size in (1, 3, 20):
            array = sample("complex64", (2, size))
            got, same = exe(array, given)
            np.testing.assert_allclose(got, np.fft.fft(array, length), atol=1e-4)
            np.testing.assert_allclose(same, given, atol=1e-5)


def test_views_and_strides_and_empty_batches() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "complex128", name="x")
        y = gx.fft.fft(x, axis=0)
    exe = gx.Session(graph).compile(y, [x])
    array = sample("complex128", (12, 14))
    for view in (array.T, array[::2, ::-1], array[3:4]):
        np.testing.assert_allclose(exe(view), np.fft.fft(view, axis=0), atol=1e-12)
    assert exe(np.zeros((3, 0), complex)).shape == (3, 0)
    with pytest.raises(gx.ShapeError, match="fft: a transform of 0 numbers"):
        exe(np.zeros((0, 3), complex))


def test_gradients_are_those_of_the_sums() -> None:
    a, b = sample("float64", (7,)), sample("complex128", (7,), 1)
    with gx.Graph() as graph:
        x = gx.placeholder((7,), "float64", name="x")
        z = gx.placeholder((7,), "complex128", name="z")
        loss = gx.sum(abs(gx.fft.rfft(x, 9)) ** 2) + gx.sum(abs(gx.fft.ifft(z * x)) ** 4)
        loss = loss + gx.sum(gx.fft.irfft(z, 6) ** 3)
        slopes = gx.gradients(loss, [x, z])

    def numpy(x: Any, z: Any) -> Any:
        total = (np.abs(np.fft.rfft(x, 9)) ** 2).sum() + (np.abs(np.fft.ifft(z * x)) ** 4).sum()
        return total + (np.fft.irfft(z, 6) ** 3).sum()

    value, (by_x, by_z) = gx.Session(graph).run([loss, slopes], {x: a, z: b})
    np.testing.assert_allclose(value, numpy(a, b))
    for n in range(7):
        step = 1e-6 * np.eye(7)[n]
        for got, one, other in (
            (by_x[n], (a + step, b), (a - step, b)),
            (by_z[n].real, (a, b + step), (a, b - step)),
            (-by_z[n].imag, (a, b + 1j * step), (a, b - 1j * step)),
        ):
            slope = (numpy(*one) - numpy(*other)) / 2e-6
            np.testing.assert_allclose(got, slope, rtol=1e-5, atol=1e-4)


def test_frequencies_and_shifts() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 7), name="x")
        fetched, wanted = [], []
        for n in (1, 2, 7, 8):
            for name in ("fftfreq", "rfftfreq"):
                fetched.append(getattr(gx.fft, name)(n, 0.3, dtype="float64"))
                wanted.append(getattr(np.fft, name)(n, 0.3))
        array = sample("float32", (6, 7))
        for name in ("fftshift", "ifftshift"):
            for axes in (None, 0, (1,), (0, 1)):
                fetched.append(getattr(gx.fft, name)(x, axes))
                wanted.append(getattr(np.fft, name)(array, axes))
        fetched += [gx.fft.fftfreq(x.shape[0]), gx.fft.rfftfreq(x.shape[0])]
        wanted += [f(6).astype(np.float32) for f in (np.fft.fftfreq, np.fft.rfftfreq)]
    for got, right in zip(gx.Session(graph).run(fetched, {x: array}), wanted, strict=True):
        np.testing.assert_array_equal(got, right)
        assert got.dtype == right.dtype


def test_what_comes_back_of_an_empty_half() -> None:
    with gx.Graph() as graph:
        z = gx.placeholder((None,), "complex64", name="z")
        back = [gx.fft.irfft(z), gx.fft.hfft(z)]
        for name in ("irfft", "hfft"):
            with pytest.raises(gx.ShapeError, match=f"{name}: a transform of -2 numbers"):
                getattr(gx.fft, name)(gx.zeros((0,)))
    for value, name in zip(back, ("irfft", "hfft"), strict=True):
        with pytest.raises(gx.ShapeError, match=f"{name}: a transform of -2 numbers"):
            gx.Session(graph).run(value, {z: []})


def test_wrong_arguments() -> None:
    with gx.Graph():
        x, z = gx.placeholder((4, 6), name="x"), gx.placeholder((4,), "complex64", name="z")
        for call, error, words in (
            (lambda: gx.fft.fft(x, 0), gx.ShapeError, "fft: a transform of 0 numbers"),
            (lambda: gx.fft.irfft(z[:1]), gx.ShapeError, "irfft: a transform of 0 numbers"),
            (lambda: gx.fft.fft(x, -3), gx.ShapeError, "-3 is not a size"),
            (lambda: gx.fft.fft(x, axis=2), gx.ShapeError, "axis 2"),
            (lambda: gx.fft.fft(x, norm="unit"), gx.ShapeError, "norm is 'unit'"),
            (lambda: gx.fft.rfft(z), gx.DTypeError, "rfft takes real numbers, not complex64"),
            (lambda: gx.fft.fftn(x, (2, 2, 2)), gx.ShapeError, "3 sizes of 2 axes"),
            (lambda: gx.fft.fftn(x, (2,), (0, 1)), gx.ShapeError, "1 sizes for 2 axes"),
            (lambda: gx.fft.rfftn(x, axes=()), gx.ShapeError, "along no axis"),
            (lambda: gx.fft.stft, AttributeError, "gx.fft.rfft of windows"),
        ):  # fmt: skip
            with pytest.raises(error, match=words):
                call()


def test_libraries_have_them(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 100), name="x")
        y = gx.placeholder((None,), name="y")
        fetched = [gx.fft.rfft(x), gx.fft.irfft(gx.fft.rfft(y), y.shape[0])]
    exe = gx.Session(graph).compile(fetched, [x, y])
    gx.aot.compile(exe, tmp_path / "fourier")
    loaded = gx.aot.load(tmp_path / "fourier")
    arrays = sample("float32", (3, 100)), sample("float32", (37,))
    for got, right in zip(loaded(*arrays), exe(*arrays), strict=True):
        np.testing.assert_array_equal(got, right)
