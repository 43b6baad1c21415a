"""Products of few elements, whose code stands where they do: they have the bits of the library."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.target import host, named
from graphc.codegen.kernels import matmul_calls

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 17)
TARGETS = ("host", "x86-64-v2", "x86-64-v3")
SPECIALS = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -1e308, 1.0]


def compiled(build: Any, feeds: Any, target: str) -> Any:
    chosen = host() if target == "host" else named(target)
    with gx.Graph() as graph:
        values = [gx.placeholder(shape, dtype) for shape, dtype in feeds]
        results = build(*values)
    session = gx.Session(graph, target=chosen, threads=1, options=gx.Options(cache="off"))
    return session.compile(results, values)


def both(build: Any, arrays: Any, target: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The results, which the library gives too; NaNs have no bits of their own."""
    feeds = [(array.shape, str(array.dtype)) for array in arrays]
    tiny = compiled(build, feeds, target)
    with monkeypatch.context() as patch:
        patch.setattr(matmul_calls, "_tiny", lambda *_: None)
        called = compiled(build, feeds, target)
    assert "call void @gemm" not in tiny.llvm_ir() and "call void @gemm" in called.llvm_ir()
    found, wanted = tiny(*arrays), called(*arrays)
    for one, other in zip(found, wanted, strict=True):
        numbers = ~np.isnan(one)
        assert np.array_equal(numbers, ~np.isnan(other))
        assert one[numbers].tobytes() == other[numbers].tobytes()
    return found


def drawn(random: np.random.Generator, shape: Any, dtype: str) -> Any:
    array = random.normal(size=shape)
    with np.errstate(over="ignore"):
        some = random.random(shape) < 0.02
        return np.where(some, random.choice(SPECIALS, shape), array).astype(dtype)


def compared(sizes: Any, dtype: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    arrays = [drawn(random, shape, dtype) for m, n, k in sizes for shape in ((m, k), (k, n))]
    both(
        lambda *v: [a @ b for a, b in zip(v[::2], v[1::2], strict=True)],
        arrays, target, monkeypatch,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("target", TARGETS)
def test_sizes(dtype: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [(1, 1, 1), (3, 3, 3), (4, 4, 4), (7, 7, 7), (5, 1, 8), (1, 17, 9), (12, 12, 3)]
    compared(some, dtype, target, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 800, 50))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("target", TARGETS)
def test_all_sizes(
    first: int, dtype: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [s for s in product(SIZES, repeat=3) if np.prod(s) <= 1000]
    if sizes[first : first + 50]:
        compared(sizes[first : first + 50], dtype, target, monkeypatch)


@pytest.mark.parametrize("target", TARGETS)
def test_strides(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transposes, rows and columns, stacks, and vectors."""
    random = np.random.default_rng(1)

    def build(a: Any, b: Any, v: Any) -> list[Any]:
        t = gx.transpose
        return [
            t(a, (0, 2, 1)) @ b, a @ t(b, (0, 2, 1)), t(a, (0, 2, 1)) @ t(b, (0, 2, 1)),
            a @ v, gx.matmul(v, t(a, (0, 2, 1))), a[:, 1:3] @ b[:, :, ::2],
            gx.sum(a @ b + 1.0, axis=-1),
        ]  # fmt: skip

    arrays = [drawn(random, (6, 5, 5), "float64") for _ in range(2)]
    found = both(build, [*arrays, drawn(random, (5,), "float64")], target, monkeypatch)
    with np.errstate(all="ignore"):
        wanted = np.swapaxes(arrays[0], 1, 2) @ arrays[1]
    finite = np.isfinite(wanted)
    assert np.allclose(found[0][finite], wanted[finite], rtol=1e-12)


def test_a_sum_of_no_terms_is_positive_zero() -> None:
    exe = compiled(lambda a, b: a @ b, [((3, 0), "float64"), ((0, 2), "float64")], "host")
    result = exe(np.zeros((3, 0)), np.zeros((0, 2)))
    assert result.tobytes() == np.zeros((3, 2)).tobytes()


def test_negative_zeros_add_up_to_positive_zero() -> None:
    exe = compiled(lambda a, b: a @ b, [((3, 2), "float64"), ((2, 2), "float64")], "host")
    assert exe(np.full((3, 2), -0.0), np.ones((2, 2))).tobytes() == np.zeros((3, 2)).tobytes()


def test_large_and_unknown_sizes_call_the_library() -> None:
    large = compiled(lambda a: a @ a, [((16, 16), "float64")], "host")
    unknown = compiled(lambda a: a @ a, [(("n", "n"), "float64")], "host")
    for exe in (large, unknown):
        assert "call void @gemm" in exe.llvm_ir()
