"""Random numbers: the generator and its known answers, keys, laws, and what bits depend on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

Array = Any
KEY = np.array([0x12345678, 0x9ABCDEF0], np.uint32)


def drawn(function: Callable[..., Any], *arguments: Any, seed: int = 0, **options: Any) -> Array:
    """What a function of ``gx.random`` gives for the key of a seed."""
    with gx.Graph() as graph:
        value = function(gx.random.key(seed), *arguments, **options)
    return gx.Session(graph).run(value)


# --- the generator -------------------------------------------------------------------------------

KNOWN = (
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 2, (2**32 - 1,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
"""Keys, counters and blocks of ``philox4x32 10`` in the file ``kat_vectors`` of Random123."""


@pytest.mark.parametrize(("key", "counter", "block"), KNOWN)
def test_blocks_are_those_of_random123(key: Any, counter: Any, block: Any) -> None:
    with gx.Graph() as graph:
        k, c = gx.placeholder((2,), "uint32"), gx.placeholder((None, 4), "uint32")
        words = gx.random.philox(k, c)
    counters = np.array([counter] * 19, np.uint32)
    found = gx.Session(graph).run(words, {k: np.array(key, np.uint32), c: counters})
    assert found.tolist() == [list(block)] * 19


def blocks(key: Array, count: int, purpose: int) -> Array:
    """Words of a stream, by Python's integers: the definition, written out once more."""
    words = []
    for number in range(count):
        counter = [number, 0, 0, purpose]
        k, m = (int(word) for word in key)
        for _ in range(10):
            p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            low = 2**32 - 1
            counter = [(q >> 32) ^ counter[1] ^ k, q & low, (p >> 32) ^ counter[3] ^ m, p & low]
            k, m = (k + 0x9E3779B9) & low, (m + 0xBB67AE85) & low
        words += counter
    return np.array(words, np.uint32)


def test_streams_are_counted_and_seen_as_bytes() -> None:
    wanted = blocks(KEY, 6, 0).tobytes()
    with gx.Graph() as graph:
        key = gx.placeholder((2,), "uint32")
        draws = [
            gx.random.bits(key, (23,), dtype) for dtype in ("uint8", "uint16", "uint32", "uint64")
        ]
        keys = gx.random.split(key, 5)
    *found, split = gx.Session(graph).run([*draws, keys], {key: KEY})
    for array in found:
        assert array.tobytes()[: len(wanted)] == wanted[: array.nbytes]
    assert split.tobytes() == blocks(KEY, 3, 1)[:10].tobytes()


def test_keys() -> None:
    with gx.Graph() as graph:
        seed = gx.placeholder((), "int64")
        fed, known = gx.random.key(seed), gx.random.key(-5)
        step = gx.placeholder((), "int32")
        folded = [gx.random.fold_in(known, data) for data in (step, 7, -3 % 2**64)]
        one, two = gx.random.split(known)
    session = gx.Session(graph)
    keys = session.run([fed, known, *folded, one, two], {seed: -5, step: 7})
    assert keys[0].dtype == np.uint32 and keys[0].tolist() == [2**32 - 5, 2**32 - 1]
    assert np.array_equal(keys[0], keys[1]) and np.array_equal(keys[2], keys[3])
    assert len({tuple(key.tolist()) for key in keys[1:] if key is not keys[3]}) == 5
    again = session.run(folded[0], {step: -3})
    assert np.array_equal(again, keys[4])


def test_what_is_no_key_or_seed_is_refused() -> None:
    with gx.Graph():
        key = gx.random.key(0)
        for call, error, word in (
            (lambda: gx.random.key(1.5), gx.DTypeError, "seed"),
            (lambda: gx.random.key(2**64), gx.DTypeError, "seed"),
            (lambda: gx.random.key(gx.constant([1, 2])), gx.ShapeError, "seed"),
            (lambda: gx.random.uniform(0, (3,)), gx.DTypeError, "gx.random.key"),
            (lambda: gx.random.uniform(gx.random.split(key), (3,)), gx.ShapeError, "[2]"),
            (lambda: gx.random.normal(key, (3,), "int32"), gx.DTypeError, "int32"),
            (lambda: gx.random.bits(key, (3,), "int32"), gx.DTypeError, "int32"),
            (lambda: gx.random.normal(key, (-1,)), gx.ShapeError, "negative"),
            (lambda: gx.random.fold_in(key, 0.5), gx.DTypeError, "fold"),
            (lambda: gx.random.randint(key, (3,), 0, 300, "int8"), gx.DTypeError, "300"),
            (lambda: gx.random.randint(key, (3,), 0.0, 3), gx.DTypeError, "minval"),
            (lambda: gx.random.bernoulli(key, np.ones(4), (3,)), gx.ShapeError, "4"),
            (lambda: gx.random.dropout(key, np.ones(4), 1.5), gx.DTypeError, "1.5"),
        ):
            with pytest.raises(error, match=word.replace("[", r"\[")) as caught:
                call()
            assert "test_ops_random" in str(caught.value.where)
    with pytest.raises(AttributeError, match=r"gx\.random\.normal"):
        _ = gx.random.randn


# --- laws ----------------------------------------------------------------------------------------


def normal_cdf(x: Array) -> Array:
    return 0.5 * np.vectorize(math.erfc)(-np.asarray(x, np.float64) / math.sqrt(2))


CONTINUOUS: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "uniform": (lambda x: x, 0.5, 1 / 12),
    "normal": (normal_cdf, 0.0, 1.0),
    "exponential": (lambda x: -np.expm1(-x), 1.0, 1.0),
    "gumbel": (lambda x: np.exp(-np.exp(-x)), 0.5772156649015329, math.pi**2 / 6),
    "laplace": (lambda x: np.where(x < 0, np.exp(x) / 2, 1 - np.exp(-x) / 2), 0.0, 2.0),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), 0.0, math.pi**2 / 3),
    "cauchy": (lambda x: 0.5 + np.arctan(x) / math.pi, math.nan, math.nan),
}
"""The distribution function, mean and variance of laws without parameters."""


def kolmogorov(sample: Array, cdf: Callable[[Array], Array]) -> float:
    """The distance of a sample from a distribution, times the root of its size.

    It exceeds 2.2 in one of 8,000 samples and 3 in one of 3e7.
    """
    ordered = cdf(np.sort(sample.astype(np.float64).ravel()))
    ranks = np.arange(ordered.size + 1) / ordered.size
    distance = max(np.max(ordered - ranks[:-1]), np.max(ranks[1:] - ordered))
    return float(distance * math.sqrt(ordered.size))


def follows(sample: Array, law: str) -> None:
    cdf, mean, variance = CONTINUOUS[law]
    assert kolmogorov(sample, cdf) < 2.2
    if variance == variance:
        wide = sample.astype(np.float64)
        assert abs(wide.mean() - mean) < 4.5 * math.sqrt(variance / wide.size)
        assert abs(wide.var() / variance - 1) < 15 / math.sqrt(wide.size)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("law", CONTINUOUS)
def test_draws_follow_their_law(law: str, dtype: str) -> None:
    sample = drawn(getattr(gx.random, law), (200, 150), dtype, seed=3)
    assert sample.dtype == dtype and sample.shape == (200, 150) and np.isfinite(sample).all()
    follows(sample, law)
    # neighbours, and the words of a block, are independent
    for lag in (1, 2, 4):
        ranks = np.argsort(np.argsort(sample.ravel())) / sample.size - 0.5
        assert abs(np.mean(ranks[lag:] * ranks[:-lag])) * 12 < 5 / math.sqrt(sample.size)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("law", CONTINUOUS)
def test_ten_million_draws_follow_their_law(law: str, dtype: str) -> None:
    follows(drawn(getattr(gx.random, law), (10_000_000,), dtype, seed=11), law)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_are_the_functions_of_their_bits(dtype: str) -> None:
    """Each law is that function of the words, computed in NumPy by its own functions."""
    words, word = (32, "uint32") if dtype == "float32" else (64, "uint64")
    size = 4000
    with gx.Graph() as graph:
        key = gx.placeholder((2,), "uint32")
        bits = gx.random.bits(key, (size,), word)
        draws = {law: getattr(gx.random, law)(key, (size,), dtype) for law in CONTINUOUS}
    raw, found = gx.Session(graph).run([bits, draws], {key: KEY})
    u = (raw.astype(np.longdouble) + 0.5) / np.longdouble(2) ** words
    # the leading two bits are the quadrant, the others an angle of either sign in it
    rest = ((raw << 2).view(word[1:]) >> 2).astype(np.longdouble) + 0.5
    pi = np.longdouble("3.14159265358979323846")
    turn = (raw >> (words - 2)) * pi / 2 + rest * pi / np.longdouble(2) ** (words - 1)
    angle, radius = turn[1::2], np.sqrt(-2 * np.log(u[::2]))
    sign = np.where(raw >> (words - 1), -1, 1)
    halved = ((raw << 1).astype(np.longdouble) + 0.5) / np.longdouble(2) ** words
    digits = 24 if words == 32 else 53
    wanted = {
        "uniform": (raw >> (words - digits)) / np.longdouble(2) ** digits,
        "normal": np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).ravel(),
        "exponential": -np.log(u),
        "gumbel": -np.log(-np.log(u)),
        "laplace": sign * -np.log(halved),
        "logistic": np.log(u) - np.log1p(-u),
        "cauchy": np.tan(turn),
    }
    ulp = 2.0 ** (1 - digits)
    for law, array in found.items():
        error = np.abs(array - wanted[law])
        # sums that cancel are as good as their terms
        scale = np.maximum(np.abs(wanted[law]), 1.0 if law in ("gumbel", "logistic") else 0.0)
        room = 4 if law != "cauchy" else 8
        assert np.max(error / np.maximum(scale, 1e-300)) < room * ulp, law


def test_extreme_words_give_finite_numbers() -> None:
    from graphc.ir.dtypes import float32, float64
    from graphc.ops.lanes import array_of, lanes
    from graphc.ops.random.elements import cos_sin, minus_log

    for dtype in (float32, float64):
        top = 1 << dtype.bits
        near = 3 * (top // 4)
        numbers = [0, 1, top // 2 - 1, top // 2, near - 1, near, top - 2, top - 1]
        (word,) = lanes(np.array(numbers, f"u{dtype.bytes}"))
        size = array_of(minus_log(word, dtype), (8,))
        exact = np.array([-np.log((np.longdouble(n) + 0.5) / top) for n in numbers[:6]])
        assert np.allclose(size[:6].astype(np.longdouble), exact, rtol=4 * np.finfo(size.dtype).eps)
        assert np.allclose(size[6:].astype(np.longdouble) * top, [1.5, 0.5], rtol=1e-6)
        for part in cos_sin(word, dtype):
            values = array_of(part, (8,))
            assert np.isfinite(values).all() and (values != 0).all() and (abs(values) <= 1).all()


# --- what there is with parameters ---------------------------------------------------------------


def test_uniform_between_bounds_and_its_gradients() -> None:
    with gx.Graph() as graph:
        key = gx.random.key(1)
        low, high = gx.placeholder((3,), "float64"), gx.placeholder((), "float64")
        mean = gx.placeholder((3,), "float64")
        u = gx.random.uniform(key, (400, 3), "float64", low, high)
        plain = gx.random.uniform(key, (400, 3), "float64")
        n = gx.random.normal(key, (400, 3), "float64") * high + mean
        slopes = gx.gradients(gx.sum(u), [low, high])
        slopes += gx.gradients(gx.sum(n * n), [mean, high])
    session = gx.Session(graph)
    feeds = {low: [-1.0, 0.0, 2.0], high: 5.0, mean: [1.0, 2.0, 3.0]}
    values, unit, draws, found = session.run([u, plain, n, slopes], feeds)
    d_low, d_high, d_mean, d_scale = found
    assert np.array_equal(values, unit * (5.0 - np.array(feeds[low])) + np.array(feeds[low]))
    assert np.allclose(d_low, (1 - unit).sum(0)) and np.allclose(d_high, unit.sum())
    assert np.allclose(d_mean, 2 * draws.sum(0))
    noise = (draws - np.array(feeds[mean])) / 5.0
    assert np.allclose(d_scale, 2 * (draws * noise).sum())


def test_integers() -> None:
    assert drawn(gx.random.randint, (5,), 3, 3).tolist() == [3] * 5
    assert drawn(gx.random.randint, (5,), 3, -8).tolist() == [3] * 5
    for low, high, dtype in (
        (0, 10, "int64"), (-3, 4, "int8"), (0, 256, "uint8"), (-128, 128, "int8"),
        (10**18, 10**18 + 7, "int64"), (-(2**63), 2**63, "int64"), (0, 2**64, "uint64"),
        (0, 3 * 2**62, "uint64"), (0, 2**32, "uint32"),
    ):  # fmt: skip
        sample = drawn(gx.random.randint, (30_000,), low, high, dtype)
        assert sample.dtype == dtype
        count = min(12, high - low)
        part = (sample.astype(object) - low) * count // (high - low)
        bins = np.bincount(part.astype(np.int64), minlength=count)
        assert bins.size == count
        expected = sample.size / count
        assert np.sum((bins - expected) ** 2 / expected) < 45 or (high - low) % count
    bounds = np.arange(1, 60_001) % 6 + 1
    sample = drawn(gx.random.randint, (60_000,), 0, bounds)
    assert (sample < bounds).all() and (sample >= 0).all()
    assert np.abs(np.bincount(sample[bounds == 5], minlength=5) / 10_000 - 0.2).max() < 0.02


def test_choices_between_two() -> None:
    p = np.array([0.0, 0.25, 1.0], np.float32)
    sample = drawn(gx.random.bernoulli, p, (20_000, 3))
    assert sample.dtype == bool and sample[:, 0].sum() == 0 and sample[:, 2].all()
    assert abs(sample[:, 1].mean() - 0.25) < 0.015
    signs = drawn(gx.random.rademacher, (20_000,), "int8")
    assert signs.dtype == np.int8 and set(signs.tolist()) == {-1, 1} and abs(signs.mean()) < 0.03


def test_categorical() -> None:
    p = np.array([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        logits = np.log(p) + 3
    sample = drawn(gx.random.categorical, logits, shape=(20_000,))
    assert sample.dtype == np.int64
    assert np.abs(np.bincount(sample, minlength=4) / sample.size - p).max() < 0.015
    assert drawn(gx.random.categorical, np.zeros((5, 3, 7)), 1).shape == (5, 7)


def test_dropout() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 50), "float32")
        y = gx.random.dropout(gx.random.key(4), x, 0.2)
        ends = [gx.random.dropout(gx.random.key(4), x, rate) for rate in (0, 1)]
        slope = gx.gradients(gx.sum(y * y), x)
    data = np.random.default_rng(0).normal(size=(300, 50)).astype(np.float32)
    value, (whole, nothing), d = gx.Session(graph).run([y, ends, slope], {x: data})
    kept = value != 0
    assert abs(kept.mean() - 0.8) < 0.01
    assert np.array_equal(value[kept], (data / np.float32(0.8))[kept])
    assert np.array_equal(whole, data) and not nothing.any()
    assert np.allclose(d, 2 * value / 0.8, rtol=1e-5)


# --- what bits depend on -------------------------------------------------------------------------


def several(x: Any, key: Any) -> list[Any]:
    """Draws of several shapes and fusions; x is of unknown size."""
    one, two = gx.random.split(key)
    n = gx.random.normal(one, (x.shape[0], 37))
    return [
        gx.random.uniform(key, (1037,)),
        gx.tanh(n) * 3 + gx.random.uniform(two, (x.shape[0], 37)),
        gx.nn.softmax(gx.random.dropout(one, n, 0.3)),
        gx.random.normal(two, (x.shape[0], 5), "float64").transpose(),
        gx.random.bits(key, (x.shape[0], 3), "uint8"),
    ]


def test_bits_depend_on_nothing_but_key_and_shape(tmp_path: Any) -> None:
    from graphc.base.target import host

    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float32", name="x")
        key = gx.placeholder((2,), "uint32", name="key")
        values = several(x, key)
    feeds = {x: np.zeros(3001, np.float32), key: KEY}
    session = gx.Session(graph, threads=1)
    wanted = session.run(values, feeds)
    others = [
        gx.Session(graph, threads=threads, options=gx.Options(optimize=level)).run(values, feeds)
        for level, threads in ((0, 2), (1, 1), (3, 2))
    ]
    others.append([session.run(value, feeds) for value in values])
    path = tmp_path / "draws"
    gx.aot.compile(session.compile(values, [x, key]), path, kind="package")
    others.append(gx.aot.load(path)(feeds[x], KEY))
    for found in others:
        for one, other in zip(found, wanted, strict=True):
            assert np.array_equal(one, other)
    # without fused multiply-add; functions that are not random have other bits there
    draws = [values[0], values[3], gx.random.gumbel(key, (99,)), gx.random.laplace(key, (99,))]
    wanted = session.run(draws, feeds)
    found = gx.Session(graph, target=host().without_fma()).run(draws, feeds)
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)


def test_draws_of_one_key_are_merged_and_of_two_are_not() -> None:
    with gx.Graph() as graph:
        key = gx.random.key(5)
        a, b = (gx.random.uniform(key, (100,)) for _ in range(2))
        c = gx.random.uniform(gx.random.fold_in(key, 1), (100,))
        d = gx.random.uniform(key, (10, 10))
    first, second, third, fourth = gx.Session(graph).run([a, b, c, d])
    assert np.array_equal(first, second) and not np.any(first == third)
    assert np.array_equal(fourth.ravel(), first)
