"""Elements put at places and where a mask holds, and groups of rows: against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits

import graphc as gx

RANDOM = np.random.default_rng(0)
A, MASK = RANDOM.normal(size=(4, 5)).astype(np.float32), RANDOM.normal(size=(4, 5)) > 0
unknown_sizes = pytest.mark.parametrize("unknown", [False, True])


def run(function: Callable[..., Any], *arrays: Any, unknown: bool = False) -> Any:
    with gx.Graph() as graph:
        operands = [
            gx.placeholder((None,) * array.ndim if unknown else array.shape, array.dtype)
            for array in arrays
        ]
        result = function(*operands)
    return gx.Session(graph).run(result, dict(zip(operands, arrays, strict=True)))


@unknown_sizes
def test_elements_are_put_as_numpy_does(unknown: bool) -> None:
    for mode, places in (
        ("raise", [[3, 0, 19], [-1, 7, 7]]), ("wrap", [[23, 20, 39]]), ("clip", [[3, 0, 99]]),
    ):  # fmt: skip
        wanted = A.copy()
        np.put(wanted, places, [1, 2, 3, 4], mode)  # type: ignore[arg-type]
        got = run(
            lambda a, places=places, mode=mode: gx.put(a, places, [1.0, 2.0, 3.0, 4.0], mode),
            A,
            unknown=unknown,
        )
        assert_same_bits(got, wanted)
    for name, write in (("place", np.place), ("putmask", np.putmask)):
        wanted = A.copy()
        write(wanted, MASK, [1, 2, 3])
        put = getattr(gx, name)
        got = run(lambda a, m, put=put: put(a, m, [1.0, 2.0, 3.0]), A, MASK, unknown=unknown)
        assert_same_bits(got, wanted, name)
    wanted = A.copy()
    np.copyto(wanted, np.arange(5), where=MASK)
    got = run(lambda a, m: gx.copyto(a, np.arange(5), where=m), A, MASK, unknown=unknown)
    assert_same_bits(got, wanted)
    assert_same_bits(run(lambda a: gx.copyto(a, 3), A), np.full_like(A, 3))


def test_what_cannot_be_put() -> None:
    with pytest.raises(gx.IndexRangeError):
        run(lambda a: gx.put(a, [20], [1.0]), A)
    with pytest.raises(gx.IndexRangeError):
        run(lambda a, m: gx.place(a, m, np.zeros(0, np.float32)), A, MASK)
    with gx.Graph(), pytest.raises(gx.DTypeError, match="an update of float32"):
        gx.put(gx.placeholder((3,), "int8"), [0], [1.5])


@unknown_sizes
def test_groups_of_rows(unknown: bool) -> None:
    left = RANDOM.normal(size=(7, 4)).astype(np.float32)
    right = RANDOM.normal(size=(3, 4, 5)).astype(np.float32)
    right[1, 0, 0] = np.inf
    for sizes in ([2, 0, 4], [0, 0, 0], [3, 3, 3], [1, 1, 5]):
        wanted, start = np.zeros((7, 5), np.float32), 0
        for group, size in enumerate(sizes):
            wanted[start : start + size] = left[start : start + size] @ right[group]
            start += size
        got = run(gx.ragged_dot, left, right, np.array(sizes, np.int32), unknown=unknown)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(gx.ShapeError, match="3 matrices and 2 group sizes"):
        run(gx.ragged_dot, left, right, np.ones(2, np.int64), unknown=unknown)
    with pytest.raises(gx.ShapeError, match=r"ragged_dot of \[\d+, \d+\] and \[\d+, 1, \d+\]"):
        run(gx.ragged_dot, left, right[:, :1], np.ones(3, np.int64), unknown=unknown)


def test_scales_of_blocks() -> None:
    a = RANDOM.normal(size=(2, 3, 64)).astype(gx.float8_e4m3fn.numpy)
    b = (RANDOM.normal(size=(2, 5, 64)) * 3).astype(np.int8).astype(gx.int4.numpy)
    first = RANDOM.uniform(0.5, 2, (2, 3, 2)).astype(np.float32)
    second = RANDOM.uniform(0.5, 2, (2, 5, 4)).astype(np.float16)
    got = run(gx.nn.scaled_matmul, a, b, first, second)
    left = a.astype(np.float32) * np.repeat(first, 32, -1)
    right = b.astype(np.float32) * np.repeat(second.astype(np.float32), 16, -1)
    np.testing.assert_allclose(got, left @ right.swapaxes(1, 2), rtol=1e-5, atol=1e-4)
    with gx.Graph(), pytest.raises(gx.ShapeError, match="shared out among scales"):
        gx.nn.scaled_matmul(*(gx.placeholder((1, 2, n)) for n in (64, 64, 3, 2)))
