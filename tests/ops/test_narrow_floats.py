"""float16 and bfloat16 in programs: rounding, accumulating, gradients, randomness, files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tools import ROOT

import graphc as gx
from graphc.checking.compare import same_bits
from graphc.ir.dtypes import ALL, NARROW_FLOATS, DType, bfloat16, float16, float32, promote

each_dtype = pytest.mark.parametrize("element", NARROW_FLOATS, ids=str)
EVERY = np.arange(2**16, dtype=np.uint16)


def run(function: Any, *arrays: Any) -> Any:
    """What a function of values gives for arrays, compiled."""
    with gx.Graph() as graph:
        inputs = [gx.placeholder(array.shape, array.dtype) for array in arrays]
        outputs = function(*inputs)
    return gx.Session(graph).run(outputs, dict(zip(inputs, arrays, strict=True)))


def drawn(element: DType, *shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(element.numpy)


def assert_same(got: Any, wanted: Any) -> None:
    """Equal to the bit."""
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    same = same_bits(wanted, got)
    assert same.all(), (got[~same][:4], wanted[~same][:4])


# --- arithmetic ----------------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_arithmetic_is_numpy_s(element: DType, name: str) -> None:
    x = EVERY.view(element.numpy)
    y = np.random.default_rng(1).permutation(EVERY).view(element.numpy)
    with np.errstate(all="ignore"):
        assert_same(run(getattr(gx, name), x, y), getattr(np, name)(x, y))


@each_dtype
def test_operations_on_every_number_are_numpy_s(element: DType) -> None:
    x = EVERY.view(element.numpy)
    names = ("sqrt", "negative", "abs", "floor", "ceil", "trunc", "sign", "isnan", "isfinite")
    results = run(lambda x: [getattr(gx, name)(x) for name in names], x)
    with np.errstate(all="ignore"):
        for name, result in zip(names, results, strict=True):
            wanted = getattr(np, name)(x.astype(np.float32))
            assert_same(result, wanted if wanted.dtype == bool else wanted.astype(element.numpy))


@each_dtype
def test_chains_round_after_each_operation(element: DType) -> None:
    x, y, z = (drawn(element, 1000, seed=seed) for seed in range(3))
    (got,) = run(lambda x, y, z: [(x * y + z) * x - y], x, y, z)
    assert_same(got, (x * y + z) * x - y)
    wide = [array.astype(np.float32) for array in (x, y, z)]
    at_once = ((wide[0] * wide[1] + wide[2]) * wide[0] - wide[1]).astype(element.numpy)
    assert not same_bits(at_once, got).all()


@each_dtype
def test_nan_of_any_digits_stays_nan(element: DType) -> None:
    fractions = np.array([1, 0x1FFF, 0x7FFF, 0xFFFF, 0x400000, 0x7F8000, 0x7FFFFF], np.uint32)
    words = np.concatenate([fractions | np.uint32(0x7F800000), fractions | np.uint32(0xFF800000)])
    x = np.resize(words, 1000).view(np.float32)
    h = np.resize(np.arange(0x7C01, 0x8000, dtype=np.uint16), 1000).view(np.float16)

    def narrowed(x: Any, h: Any) -> Any:
        wide = h.astype("float32")
        values = (x, x + 1, -x, gx.maximum(x, 0), gx.where(x > 0, 1, x), h, -wide, wide * x)
        return [value.astype(element) for value in values]

    for result in run(narrowed, x, h):
        assert np.isnan(result).all()


@each_dtype
def test_a_chain_is_one_kernel(element: DType) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((1000,), element)
        y = gx.nn.relu(x * x + 0.5) * x
    executable = gx.Session(graph).compile([y], [x])
    assert executable.kernel_ir().count("kernel ") == 1
    assert executable.kernel_ir().count("load") == executable.kernel_ir().count("store") == 1


@each_dtype
def test_moves_keep_the_words(element: DType) -> None:
    words = EVERY.reshape(256, 256)
    x = words.view(element.numpy)

    def moves(x: Any) -> list[Any]:
        return [
            x.T, x[::-1, 3:], gx.concatenate([x, x[:3]], 0), gx.take(x, [5, 0, 5], axis=1),
            gx.where(gx.isnan(x.T), x, x.T), x.at[3].set(x[5]), x.reshape(-1),
        ]  # fmt: skip

    wanted = [
        words.T, words[::-1, 3:], np.concatenate([words, words[:3]]), words[:, [5, 0, 5]],
        np.where(np.isnan(x.T), words, words.T), words.copy(), words.reshape(-1),
    ]  # fmt: skip
    wanted[5][3] = words[5]
    for got, right in zip(run(moves, x), wanted, strict=True):
        np.testing.assert_array_equal(got.view(np.uint16), right)


# --- accumulating --------------------------------------------------------------------------------


@each_dtype
def test_reductions_add_up_in_float32_and_round_once(element: DType) -> None:
    x = drawn(element, 37, 1001)
    names = ("sum", "mean", "var", "std", "logsumexp", "prod")
    for name in names:
        got = run(lambda x, name=name: getattr(gx, name)(x, axis=1), x)
        wide = run(lambda x, name=name: getattr(gx, name)(x, axis=1), x.astype(np.float32))
        assert_same(got, wide.astype(element.numpy))


@each_dtype
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "gelu", "silu", "layer_norm"])
def test_layers_round_once(element: DType, name: str) -> None:
    x = drawn(element, 16, 100)
    function = getattr(gx.nn, name)
    wide = run(function, x.astype(np.float32))
    assert_same(run(function, x), wide.astype(element.numpy))


@each_dtype
def test_products_are_those_of_float32_rounded(element: DType) -> None:
    a, b = drawn(element, 65, 130), drawn(element, 130, 70, seed=1)
    wide = run(lambda a, b: a @ b, a.astype(np.float32), b.astype(np.float32))
    assert_same(run(lambda a, b: a @ b, a, b), wide.astype(element.numpy))


def test_a_mean_does_not_overflow_where_a_sum_does() -> None:
    x = np.full(8, 60000, np.float16)
    total, mean = run(lambda x: [gx.sum(x), gx.mean(x)], x)
    assert total == np.inf and mean == 60000


@each_dtype
def test_running_sums_and_scatters(element: DType) -> None:
    x = drawn(element, 300)
    single = x.astype(np.float32)
    total = run(lambda x: gx.cumsum(x), x)
    assert_same(total, run(lambda x: gx.cumsum(x), single).astype(element.numpy))
    added = run(lambda x: gx.zeros((1,), element).at[np.zeros(300, np.int64)].add(x), x)
    wanted = np.zeros(1, np.float32)
    for term in single:
        wanted += term
    assert_same(added, wanted.astype(element.numpy))


@each_dtype
def test_order(element: DType) -> None:
    x = np.random.default_rng(0).permutation(EVERY).view(element.numpy)
    names = ("sort", "argsort", "max", "argmax", "median")
    results = run(lambda x: [*(getattr(gx, name)(x) for name in names), gx.top_k(x, 3)[0]], x)
    ordered, places, largest, place, median, top = results
    with np.errstate(invalid="ignore"):
        single = x.astype(np.float32)
        np.testing.assert_array_equal(places, np.argsort(single, kind="stable"))
        np.testing.assert_array_equal(ordered.astype(np.float32), np.sort(single))
        assert all(np.isnan(found).all() for found in (largest, x[place], median, top))


# --- promotion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ALL, ids=str)
def test_promotion_of_float16_is_numpy_s(other: DType) -> None:
    if other is not bfloat16:
        assert promote(float16, other).numpy == np.promote_types(np.float16, other.numpy)


@pytest.mark.parametrize(
    ("other", "common"),
    [("bool", "bfloat16"), ("int8", "bfloat16"), ("uint8", "bfloat16"), ("int16", "float32"),
     ("uint16", "float32"), ("int32", "float64"), ("float16", "float32"),
     ("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float64")],
)  # fmt: skip
def test_promotion_of_bfloat16(other: str, common: str) -> None:
    with gx.Graph():
        a, b = gx.placeholder((), "bfloat16"), gx.placeholder((), other)
        assert (a + b).dtype == (b + a).dtype == gx.constant(0, common).dtype


@each_dtype
def test_python_numbers_are_weak(element: DType) -> None:
    with gx.Graph():
        x = gx.placeholder((2,), element)
        results = [x + 1, 2.5 * x, x + True, gx.where(x > 0, x, 0.0), gx.maximum(x, 0), x**2]
        assert all(result.dtype is element for result in results)
        assert (x + np.float32(1)).dtype is float32


# --- gradients -----------------------------------------------------------------------------------


@each_dtype
def test_gradients_have_the_dtype_of_their_values(element: DType) -> None:
    x, w = drawn(element, 8, 16), drawn(element, 16, 4, seed=1)

    def slopes(x: Any, w: Any) -> list[Any]:
        loss = gx.mean(gx.nn.gelu(gx.nn.layer_norm(x)) @ w) + gx.logsumexp(x @ w)
        return list(gx.gradients(loss, [x, w]))

    got = run(slopes, x, w)
    wide = run(slopes, x.astype(np.float64), w.astype(np.float64))
    for part, true in zip(got, wide, strict=True):
        assert part.dtype == element.numpy
        room = 4 * element.format.spacing * np.abs(true).max()
        np.testing.assert_allclose(part.astype(np.float64), true, rtol=0, atol=room)


@each_dtype
def test_forward_mode(element: DType) -> None:
    x = drawn(element, 20)
    with gx.Graph() as graph:
        value = gx.placeholder((20,), element)
        (ahead,) = gx.jvp([gx.std(gx.sin(value) * value)], [value], [gx.ones_like(value)])
    assert ahead.dtype is element
    assert np.isfinite(gx.Session(graph).run(ahead, {value: x}).astype(np.float32))


def test_wide_parts_keep_gradients_in_range() -> None:
    """A derivative by parts computes these in float32: squares of float16 would overflow."""
    x = np.array([300.0, 400.0], np.float16)
    (slope,) = run(lambda x: gx.gradients(gx.sum(gx.hypot(x[:1], x[1:])), [x]), x)
    np.testing.assert_allclose(slope.astype(np.float64), [0.6, 0.8], rtol=2e-3)


# --- randomness ----------------------------------------------------------------------------------


@each_dtype
def test_uniform_draws_are_below_one(element: DType) -> None:
    with gx.Graph() as graph:
        key = gx.random.key(3)
        draws = [gx.random.uniform(key, (50_000,), element), gx.random.normal(key, 1000, element)]
        kept = gx.random.bernoulli(key, gx.full((20_000,), 0.001, element))
    uniform, normal, some = gx.Session(graph).run([*draws, kept])
    assert uniform.dtype == normal.dtype == element.numpy
    single = uniform.astype(np.float64)
    assert single.min() == 0 and single.max() == 1 - 2.0**-element.digits
    assert abs(single.mean() + 2.0 ** -(element.digits + 1) - 0.5) < 0.01
    assert abs(normal.astype(np.float64).std() - 1) < 0.1 and 0 < some.sum() < 60


# --- around --------------------------------------------------------------------------------------


@each_dtype
def test_values_survive_every_file(element: DType, tmp_path: Path) -> None:
    words = np.arange(5000, dtype=np.uint16) * 13
    array = words.view(element.numpy)
    with gx.Graph() as graph:
        state = gx.variable(array, name="state")
        fetched = [state + 0, gx.constant(array) + 0, gx.constant(array[:7])]
    session = gx.Session(graph)
    wanted = session.run(fetched)
    session.save(tmp_path / "values.safetensors")
    assert gx.Session(graph).restore(tmp_path / "values.safetensors").is_complete
    gx.save(tmp_path / "graph", fetched)
    loaded = gx.load(tmp_path / "graph")
    for got, right in zip(gx.Session(loaded[0].graph).run(loaded), wanted, strict=True):
        assert_same(got, right)


@each_dtype
def test_loops_and_branches_carry_them(element: DType) -> None:
    x = drawn(element, 5)

    def steps(x: Any) -> Any:
        _, total = gx.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + x), (0, x))
        return gx.cond(gx.sum(x) > 0, lambda: total * 2, lambda: total)

    total = x + x + x + x
    assert_same(run(steps, x), total + total if x.sum() > 0 else total)


def test_neighbours_are_those_of_what_is_computed_in() -> None:
    with gx.Graph(), pytest.raises(gx.DTypeError, match="nextafter does not take float16"):
        gx.nextafter(gx.placeholder((), "float16"), 1.0)


def test_without_ml_dtypes_there_is_float16() -> None:
    program = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
import graphc as gx
x = gx.placeholder((2,), "float16")
print(gx.Session().run(x + 1, {x: np.ones(2, np.float16)}))
try:
    gx.placeholder((2,), "bfloat16")
except gx.DTypeError as error:
    print(error.hint)
try:
    gx.bfloat16
except gx.DTypeError as error:
    print(error.hint)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first == "[2. 2.]" and all("pip install" in other for other in others)
    assert len(others) == 2


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    assert gx.bfloat16 == ml_dtypes.bfloat16 == np.dtype(ml_dtypes.bfloat16)
    with gx.Graph():
        assert gx.constant(np.zeros(2, ml_dtypes.bfloat16)).dtype is gx.bfloat16
        assert gx.constant(ml_dtypes.bfloat16(1)).dtype is gx.bfloat16


@each_dtype
@pytest.mark.parametrize("factor", [1, 2, -2, 4, 2**15, 0.125, 3, 0.0, np.inf])
def test_what_is_read_without_rounding_needs_none(element: DType, factor: float) -> None:
    x = EVERY.view(element.numpy)
    y = np.random.default_rng(1).permutation(x)
    scalar = element.numpy.type
    with np.errstate(all="ignore"):
        wanted = [
            x * scalar(factor) + y,
            scalar(factor) * x,
            np.maximum(x * scalar(factor) + y, scalar(0)) * scalar(0.5),
            -np.abs(x * scalar(2)) * scalar(factor) - y,
            np.floor(x * scalar(factor)) * scalar(3),
            np.rint(np.minimum(y * scalar(factor), x)) * np.sign(x),
        ]
    got = run(
        lambda a, b: [
            a * factor + b,
            factor * a,
            gx.maximum(a * factor + b, 0) * 0.5,
            -gx.abs(a * 2) * factor - b,
            gx.floor(a * factor) * 3,
            gx.round(gx.minimum(b * factor, a)) * gx.sign(a),
        ],
        x,
        y,
    )
    for one, other in zip(got, wanted, strict=True):
        # zeros of both signs are one in minima and maxima, and signs of zero
        np.testing.assert_array_equal(one.astype(np.float32), other.astype(np.float32))
