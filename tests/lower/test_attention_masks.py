"""Attention leaves out what its mask hides from whole blocks of rows, and no bit shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.target import Target, host, named
from graphc.kernel.ir import Var, walk
from graphc.kernel.statements.blocks import Loop, Reduce
from graphc.kernel.statements.products import Contract

pytestmark = pytest.mark.check_mode

Build = Callable[..., Any]
Arrays = list[np.ndarray]


def softmax_by_hand(scores: Any) -> Any:
    exponentials = gx.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def of_softmax(softmax: Build) -> Build:
    """Attention with this softmax, and a mask that is fed."""

    def build(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = q @ gx.swapaxes(k, -1, -2) * 0.5
        return softmax(gx.where(mask, scores, -np.inf)) @ v

    return build


ATTENTION = of_softmax(gx.nn.softmax)


def inverted(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = gx.where(~mask, -np.inf, q @ gx.swapaxes(k, -1, -2))
    return gx.nn.softmax(scores) @ v


def run(
    build: Build, arrays: Arrays, target: Target | None = None
) -> tuple[bool, np.ndarray]:
    """Whether columns are left out, and the result, which fusion must not change by a bit."""
    with gx.Graph() as graph:
        fed = [gx.placeholder(array.shape, array.dtype) for array in arrays]
        result = build(*fed)
    executable = gx.Session(graph, target=target).compile(result, fed)
    options = gx.Options(off=("fuse", "fuse-merge", "fuse-siblings"))
    apart = gx.Session(graph, target=target, options=options).compile(result, fed)
    got, wanted = executable(*arrays), apart(*arrays)
    # NaN may differ in sign and payload
    for array in (got, wanted):
        array[np.isnan(array)] = np.nan
    assert got.tobytes() == wanted.tobytes()
    products = [s for s in walk(executable.kernels[-1].body) if isinstance(s, Contract)]
    return isinstance(products[1].k, Var), got


def sample(
    rows: int, columns: int, dtype: str = "float32", batch: tuple[int, ...] = (2,)
) -> Arrays:
    rng = np.random.default_rng(rows + columns)
    shapes = (*batch, rows, 16), (*batch, columns, 16), (*batch, columns, 24)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def causal(rows: int, columns: int) -> np.ndarray:
    return np.tril(np.ones((rows, columns), bool), columns - rows)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, columns", [(200, 200), (97, 97), (40, 310), (130, 128)])
def test_causal(rows: int, columns: int, dtype: str) -> None:
    is_cut, _ = run(ATTENTION, [*sample(rows, columns, dtype), causal(rows, columns)])
    assert is_cut


@pytest.mark.parametrize(
    "target", [named("x86-64-v2"), host().without_fma()], ids=["narrow", "without_fma"]
)
def test_other_targets(target: Target) -> None:
    is_cut, _ = run(ATTENTION, [*sample(100, 100), causal(100, 100)], target)
    assert is_cut


@pytest.mark.parametrize("build", [inverted, of_softmax(softmax_by_hand)])
def test_other_spellings(build: Build) -> None:
    is_cut, _ = run(build, [*sample(100, 100), causal(100, 100)])
    assert is_cut


def test_unshifted_exponentials() -> None:
    def softmax(scores: Any) -> Any:
        exponentials = gx.exp(scores)
        return exponentials / exponentials.sum(axis=-1, keepdims=True)

    run(of_softmax(softmax), [*sample(100, 100), causal(100, 100)])


@pytest.mark.parametrize("length", [1, 31, 32, 33, 150, 160])
def test_lengths_that_differ_by_sequence(length: int) -> None:
    mask = np.arange(160) < np.array([length, 90])[:, None, None]
    is_cut, _ = run(ATTENTION, [*sample(70, 160), mask])
    assert is_cut


@pytest.mark.parametrize("leading", [(), (1,), (2,)])
def test_a_mask_of_all_matrices_is_looked_at_once(leading: tuple[int, ...]) -> None:
    mask = np.broadcast_to(causal(100, 130), (*leading, 100, 130)).copy()
    mask[..., -1, 40:] = False
    arrays = sample(100, 130)
    is_cut, _ = run(ATTENTION, [*arrays, mask])
    assert is_cut
    with gx.Graph() as graph:
        fed = [gx.placeholder(array.shape, array.dtype) for array in (*arrays, mask)]
        result = ATTENTION(*fed)
    kernel = gx.Session(graph).compile(result, fed).kernels[-1]
    (matrices,) = (s for s in kernel.body if isinstance(s, Loop) and _multiplies(s))
    looks = [s for s in walk(matrices.body) if isinstance(s, Reduce) and s.order == "chain"]
    assert len(looks) == (1 if leading == (2,) else 0)


def _multiplies(loop: Loop) -> bool:
    return any(isinstance(s, Contract) for s in walk(loop.body))


@pytest.mark.parametrize("density", [0.0, 0.001, 0.02, 1.0])
def test_any_mask(density: float) -> None:
    mask = np.random.default_rng(3).random((2, 64, 200)) < density
    run(ATTENTION, [*sample(64, 200), mask])


def test_rows_that_see_nothing_are_nan() -> None:
    mask = causal(100, 100)
    mask[[0, 3, 99]] = False
    mask[32:64] = False
    _, got = run(ATTENTION, [*sample(100, 100), mask])
    hidden = ~mask.any(axis=1)
    assert np.isnan(got[:, hidden]).all() and not np.isnan(got[:, ~hidden]).any()


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("place", [0, 50, 99])
def test_what_is_not_finite(number: float, which: int, place: int) -> None:
    arrays = sample(100, 100)
    arrays[which][0, place, 3] = number
    run(ATTENTION, [*arrays, causal(100, 100)])


@pytest.mark.parametrize("hidden", [1.0, -1.0, 0.0, -0.0])
def test_zeros_keep_their_sign(hidden: float) -> None:
    q, k, v = sample(100, 100)
    # weights of about 1 and exp(-80), whose product with -1e-12 is rounded to -0
    q[:], k[:] = 0, 0
    q[..., 0] = 1
    k[..., 1:40, 0] = -160
    v[:] = hidden
    v[..., 0, :], v[..., 1:40, :] = 0, -1e-12
    _, got = run(ATTENTION, [q, k, v, causal(100, 100)])
    zeros = got[:, 1:32]
    assert (zeros == 0).all()
    assert (np.signbit(zeros) == np.signbit(hidden)).all()


def masked_twice(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = gx.where(mask, q @ gx.swapaxes(k, -1, -2), -np.inf)
    return gx.nn.softmax(gx.where(gx.arange(100) < 50, scores, -np.inf)) @ v


def masked_between(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = gx.where(mask, q @ gx.swapaxes(k, -1, -2), -np.inf)
    later = gx.where(gx.arange(100) < 20, scores, -np.inf)
    exponentials = gx.exp(later - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True) @ v


def test_two_masks() -> None:
    arrays = [*sample(100, 100), causal(100, 100)]
    is_cut, _ = run(masked_twice, arrays)
    assert is_cut
    # a maximum that only one of them hides from
    run(masked_between, arrays)


def low_mask(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return gx.nn.softmax(gx.where(mask, q @ gx.swapaxes(k, -1, -2), -1e9)) @ v


def other_sum(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q @ gx.swapaxes(k, -1, -2)
    exponentials = gx.exp(gx.where(mask, scores, -np.inf))
    return exponentials / gx.exp(scores).sum(axis=-1, keepdims=True) @ v


def other_shift(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q @ gx.swapaxes(k, -1, -2)
    exponentials = gx.exp(gx.where(mask, scores, -np.inf) - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True) @ v


def mask_of_scores(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q @ gx.swapaxes(k, -1, -2)
    return gx.nn.softmax(gx.where(mask & (scores > 0), scores, -np.inf)) @ v


def scaled_weights(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = gx.where(mask, q @ gx.swapaxes(k, -1, -2), -np.inf)
    return gx.nn.softmax(scores) * 2.0 @ v


def no_mask(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return gx.nn.softmax(q @ gx.swapaxes(k, -1, -2) + gx.astype(mask, q.dtype)) @ v


@pytest.mark.parametrize(
    "build", [low_mask, other_sum, other_shift, mask_of_scores, scaled_weights, no_mask]
)
def test_what_is_not_proved_is_computed(build: Build) -> None:
    is_cut, _ = run(build, [*sample(100, 100), causal(100, 100)])
    assert not is_cut


def test_weights_that_are_wanted_are_complete() -> None:
    arrays = [*sample(100, 100), causal(100, 100)]
    with gx.Graph() as graph:
        q, k, v, mask = fed = [gx.placeholder(array.shape, array.dtype) for array in arrays]
        weights = gx.nn.softmax(gx.where(mask, q @ gx.swapaxes(k, -1, -2), -np.inf))
        fetches = [weights, weights @ v]
    got, _ = gx.Session(graph).compile(fetches, fed)(*arrays)
    assert (got[:, ~arrays[3]] == 0).all()
    np.testing.assert_allclose(got.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("build", [ATTENTION, inverted])
def test_sizes_known_at_run_time(build: Build) -> None:
    with gx.Graph() as graph:
        shapes: list[Any] = [("b", "t", 16), ("b", "s", 16), ("b", "s", 24)]
        fed = [gx.placeholder(shape) for shape in shapes]
        fed.append(gx.placeholder(("t", "s"), "bool"))
        result = build(*fed)
    executable = gx.Session(graph, threads=2).compile(result, fed)
    options = gx.Options(off=("fuse", "fuse-merge", "fuse-siblings"))
    apart = gx.Session(graph, threads=1, options=options).compile(result, fed)
    products = [s for s in walk(executable.kernels[-1].body) if isinstance(s, Contract)]
    assert isinstance(products[1].k, Var)
    sizes = [(1, 1), (1, 300), (64, 64), (97, 130), (40, 310), (0, 5), (1, 0), (64, 0)]
    for rows, columns in sizes:
        arrays = [*sample(rows, columns), causal(rows, columns)]
        for value in (1.0, np.inf, np.nan):
            arrays[2][0, columns // 2 :][:1] = value
            got, wanted = executable(*arrays), apart(*arrays)
            for array in (got, wanted):
                array[np.isnan(array)] = np.nan
            assert got.tobytes() == wanted.tobytes()


def test_few_columns_are_all_computed() -> None:
    is_cut, _ = run(ATTENTION, [*sample(64, 64), causal(64, 64)])
    assert not is_cut
