"""Programs whose results every target must agree on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import graphc as gx
from graphc.ops.fft.core import transform_pairs
from graphc.ops.fft.real import pairs_to_real, real_to_pairs

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A graph, its fetches by name, effects, and feeds."""

    graph: gx.Graph
    fetches: dict[str, Any]
    effects: list[Any]
    feeds: dict[Any, Array]


class Recorder:
    """Collects values under names that say what they are."""

    def __init__(self) -> None:
        self.fetches: dict[str, Any] = {}
        self.effects: list[Any] = []
        self.feeds: dict[Any, Array] = {}
        self.rng = np.random.default_rng(5)

    def feed(self, array: Array, dims: Any = None) -> Any:
        value = gx.placeholder(array.shape if dims is None else dims, array.dtype.name)
        self.feeds[value] = array
        return value

    def normal(self, *shape: int, dtype: str = "float32", dims: Any = None) -> Any:
        return self.feed(self.rng.standard_normal(shape).astype(dtype), dims)

    def add(self, name: str, value: Any) -> None:
        assert name not in self.fetches
        self.fetches[name] = value


# --- samples -------------------------------------------------------------------------------------


def specials(dtype: str) -> Array:
    """Values at the edges of a dtype."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        info = np.finfo(kind)
        positive = [
            0.0, info.smallest_subnormal, info.tiny / 2, info.tiny, info.eps, 0.5, 1.0, 1.5, 2.5,
            3.0, 127.5, 2.0**31, 2.0**32, 2.0**63, 2.0**64, info.max, np.inf,
        ]  # fmt: skip
        return np.array([*positive, *(-x for x in positive), np.nan], kind)
    if kind.kind == "b":
        return np.array([False, True])
    limits = np.iinfo(kind)
    numbers = {0, 1, 2, 3, 7, 8, 31, limits.bits - 1, limits.bits, limits.max, limits.max - 1}
    if limits.min:
        numbers |= {-1, -2, -3, -7, -limits.bits, limits.min, limits.min + 1}
    return np.array(sorted(numbers), kind)


def samples(dtype: str, count: int, rng: np.random.Generator) -> Array:
    """Edges, then any bits at all and numbers of common size: whole vectors and a tail."""
    edges = specials(dtype)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(count) < 0.5
    raw = rng.integers(0, 256, count * kind.itemsize, dtype=np.uint8).view(kind)
    if kind.kind == "f":
        common = (rng.standard_normal(count) * 4).astype(kind)
        raw = np.where(rng.random(count) < 0.5, raw, common)
    raw[: len(edges)] = edges[:count]
    return raw


def pairs(dtype: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """All pairs of edges, then pairs of samples."""
    edges = specials(dtype)
    left, right = (part.ravel() for part in np.meshgrid(edges, edges))
    more = [samples(dtype, 203, rng), samples(dtype, 203, rng)]
    rng.shuffle(more[1])
    return np.concatenate([left, more[0]]), np.concatenate([right, more[1]])


# --- programs ------------------------------------------------------------------------------------

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")


def scalars(r: Recorder) -> None:
    """Arithmetic, comparisons, conversions, bits: on edges of every dtype."""
    for dtype in DTYPES:
        array = samples(dtype, 259, r.rng)
        x = r.feed(array)
        for target in DTYPES:
            if target != dtype:
                r.add(f"{dtype} to {target}", x.astype(target))
        if dtype == "bool":
            continue
        a, b = (r.feed(part) for part in pairs(dtype, r.rng))
        for function in (
            gx.add, gx.subtract, gx.multiply, gx.floor_divide, gx.mod, gx.fmod, gx.minimum,
            gx.maximum, gx.less, gx.equal,
        ):  # fmt: skip
            r.add(f"{function.__name__} of {dtype}", function(a, b))
        if dtype in FLOATS:
            r.add(f"divide of {dtype}", a / b)
            r.add(f"arithmetic of {dtype}", (a * b + a) - b * 0.3)
            for function in (gx.sqrt, gx.floor, gx.ceil, gx.round, gx.trunc, gx.abs, gx.sign,
                             gx.isnan, gx.isinf, gx.isfinite):  # fmt: skip
                r.add(f"{function.__name__} of {dtype}", function(x))
        else:
            for function in (gx.left_shift, gx.right_shift, gx.bitwise_xor):
                r.add(f"{function.__name__} of {dtype}", function(a, b))
            r.add(f"power of {dtype}", gx.power(a, b))
            r.add(f"abs, sign of {dtype}", gx.abs(a) + gx.sign(b))
    # code for one lane: shapes of one element
    for number, value in enumerate((np.inf, -1e30, np.nan, -0.0, 1e-310, 37.5)):
        for dtype in FLOATS:
            x = r.feed(np.array([value]).astype(dtype))
            r.add(f"one {dtype} {number} to int32", x.astype("int32"))
            r.add(f"one {dtype} {number} to uint64", x.astype("uint64"))
            r.add(f"one {dtype} {number} mod", gx.fmod(x, x * 0 + 0.7))
            r.add(f"one {dtype} {number} extremes", gx.maximum(x, 0.0) - gx.minimum(-x, 0.0))


def functions(r: Recorder) -> None:
    """Elementary functions, so many that they are called."""
    for dtype in FLOATS:
        x = r.feed(samples(dtype, 517, r.rng))
        for function in (
            gx.exp, gx.exp2, gx.expm1, gx.log, gx.log2, gx.log1p, gx.sin, gx.cos, gx.tan, gx.tanh,
            gx.sinh, gx.cosh, gx.arctan, gx.erf, gx.erfc, gx.sigmoid,
        ):  # fmt: skip
            r.add(f"{function.__name__} of {dtype}", function(x))
        angles = r.feed((10.0 ** r.rng.uniform(-3, 30, 203)).astype(dtype))
        r.add(f"huge angles of {dtype}", gx.sin(angles) + gx.cos(angles) + gx.tan(angles))
        bases, exponents = pairs(dtype, r.rng)
        # glibc's powl, against which functions are held, gives inf for (-inf)^(-2^63)
        exponents[np.abs(exponents) == 2.0**63] = 9.0
        r.add(f"power of {dtype}", gx.power(r.feed(bases), r.feed(exponents)))
        small = r.normal(77, dtype=dtype)
        r.add(f"power, common, of {dtype}", gx.power(gx.abs(small), small * 5))


def arrays(r: Recorder) -> None:
    """Kernels of every kind: reductions, rows, products, attention, moves, scatters, loops."""
    for dtype in FLOATS:
        x = r.normal(37, 203, dtype=dtype)
        for name in ("sum", "mean", "max", "min", "var"):
            r.add(f"{name} of rows, {dtype}", getattr(gx, name)(x, axis=1))
            r.add(f"{name} of columns, {dtype}", getattr(gx, name)(x, axis=0))
        r.add(f"sum of all, {dtype}", x.sum())
        r.add(f"argmax, {dtype}", gx.argmax(x, axis=1))
        r.add(f"prod, {dtype}", gx.prod(x * 0.1 + 1.0, axis=1))
        r.add(f"softmax, {dtype}", gx.softmax(x))
        r.add(f"layer norm, {dtype}", gx.layer_norm(x, (203,)))
        r.add(f"cumsum, {dtype}", gx.cumsum(x, axis=1))
        r.add(f"transpose, {dtype}", gx.transpose(x) * 2.0)
        r.add(f"flip, {dtype}", gx.flip(x, 1) + x)
        r.add(f"pad, {dtype}", gx.pad(x, ((1, 2), (3, 0))))
        r.add(f"concatenate, {dtype}", gx.concatenate([x, x * 3.0], axis=1))
        places = r.feed(r.rng.integers(0, 37, 61))
        r.add(f"take, {dtype}", gx.take(x, places, axis=0) + 1.0)
        r.add(f"gather, {dtype}", x[places, places + 5])
        r.add(f"scatter, {dtype}", gx.scatter_add(gx.zeros((40, 203), dtype), places,
                                                  r.normal(61, 203, dtype=dtype)))  # fmt: skip
        for m, n, k in ((1, 40, 70), (3, 33, 65), (29, 77, 131), (50, 1, 90), (70, 300, 700)):
            left, right = r.normal(m, k, dtype=dtype), r.normal(k, n, dtype=dtype)
            r.add(f"product {m} {n} {k}, {dtype}", left @ right)
        left, right = r.normal(33, 65, dtype=dtype), r.normal(31, 65, dtype=dtype)
        bias = r.normal(31, dtype=dtype)
        r.add(f"epilogue, {dtype}", gx.relu(left @ gx.transpose(right) + bias))
        weight = gx.constant(r.rng.standard_normal((65, 48)).astype(dtype))
        r.add(f"panels, {dtype}", gx.sigmoid(left @ weight))
        r.add(f"rows of a product, {dtype}", gx.softmax(left @ weight))
    rows = r.normal(150, 7)
    picked = gx.take_along_axis(rows, r.feed(r.rng.integers(-7, 7, (150, 1))), axis=1)
    r.add("picked", picked)
    r.add("sum of picked", picked.sum())
    q, k, v = (r.normal(2, 45, 16) for _ in range(3))
    r.add("attention", gx.attention(q, k, v))
    scores = q @ gx.transpose(k, (0, 2, 1))
    hidden = gx.expand_dims(gx.arange(45), 1) < gx.arange(45)
    r.add("causal", gx.softmax(gx.where(hidden, -np.inf, scores)) @ v)
    for dtype in ("int8", "int32", "int64", "bool"):
        a = r.feed(samples(dtype, 20 * 33, r.rng).reshape(20, 33))
        b = r.feed(samples(dtype, 33 * 17, r.rng).reshape(33, 17))
        r.add(f"product of {dtype}", a @ b)
        r.add(f"sum of {dtype}", a.sum(axis=0))
        r.add(f"max of {dtype}", a.max(axis=1))
        r.add(f"transpose of {dtype}", gx.transpose(a))
    batch = r.normal(19, 24, dims=("batch", 24))
    r.add("symbolic rows", gx.softmax(batch * 2.0))
    r.add("symbolic columns", batch.sum(axis=0))
    r.add("symbolic transpose", gx.transpose(batch))
    flag = r.feed(np.array(True))
    r.add("cond", gx.cond(flag, lambda: batch * 2.0, lambda: batch + 1.0))
    count, total = gx.while_loop(
        lambda i, t: i < 5, lambda i, t: (i + 1, t * 0.5 + batch), (gx.constant(0), batch)
    )
    r.add("while", total)
    r.add("trips", count)
    large = r.normal(2300, 1801)
    r.add("streamed", gx.relu(large * 0.3 + 1.0))


def sorting(r: Recorder) -> None:
    """Rows that native routines sort, short and long, with special values and ties."""
    sorts: list[tuple[Any, str]] = [
        (gx.sort, "float32"), (gx.argsort, "float32"), (gx.sort, "uint64"), (gx.sort, "int8"),
        (gx.argsort, "float64"), (lambda x, descending: gx.top_k(x, 3)[1], "int32"),
    ]  # fmt: skip
    for number, (function, dtype) in enumerate(sorts):
        for length in (5, 100, 700, 3000):
            x = r.feed(samples(dtype, 3 * length, r.rng).reshape(3, length))
            r.add(f"{number}: {length} of {dtype}", function(x, descending=length == 100))
    x, v = r.normal(90), r.normal(3, 41)
    r.add("found", gx.searchsorted(gx.sort(x), v, "right"))
    r.add("counts", gx.bincount(r.feed(r.rng.integers(0, 9, 300)), length=7))
    r.add("histogram", gx.histogram(v, 6, (-1, 1), weights=v)[0])
    r.add("middle", gx.nanmedian(v, 1))
    r.add("columns", gx.sort(r.normal(70, 20, dims=(None, 20)), axis=0))


def transforms(r: Recorder, dtype: str) -> None:
    """Fourier transforms of pairs: short ones, of large primes, of sizes of run time; of batches
    side by side."""
    for length in (1, 5, 24, 51, 256, 331, 1000):
        pairs = r.normal(3, length, 2, dtype=dtype)
        r.add(f"{length}", transform_pairs(pairs, length == 24, "root", "fft"))
        half = real_to_pairs(pairs[..., 0], "none", "rfft")
        r.add(f"{length} real", half)
        r.add(f"{length} back", pairs_to_real(half, length, "length", "irfft"))
    rows = r.normal(3, 74, 2, dims=(3, None, 2), dtype=dtype)
    r.add("symbolic", transform_pairs(rows, True, "length", "ifft"))
    for length in (7, 37, 60):
        batch = r.normal(18, length, 2, dtype=dtype)
        r.add(f"batch {length}", transform_pairs(batch, True, "root", "fft"))
        half = real_to_pairs(batch[..., 0], "none", "rfft")
        r.add(f"batch {length} real", half)
        r.add(f"batch {length} back", pairs_to_real(half, length, "length", "irfft"))


def fast(r: Recorder) -> None:
    """What fast math allows: approximate functions, contracted and reordered arithmetic."""
    for dtype in FLOATS:
        x, y, z = (r.normal(41, 67, dtype=dtype) for _ in range(3))
        for function in (
            gx.log, gx.tanh, gx.sigmoid, gx.erf, gx.erfc, gx.sin, gx.cos, gx.exp,
        ):  # fmt: skip
            r.add(f"{function.__name__} of {dtype}", function(x * 2.0) * y + z)
        r.add(f"polynomial of {dtype}", ((x * 0.3 + 0.2) * x - 0.7) * x + y / 3.0)
        r.add(f"chain of {dtype}", (x @ gx.transpose(y)) @ z)
        r.add(f"gelu of {dtype}", gx.gelu(x))


def training(r: Recorder) -> None:
    """A step of Adam on a network with a normalised layer: gradients, and variables written."""
    x = r.normal(24, 40)
    labels = r.feed(r.rng.integers(0, 10, 24))
    first, second = (
        gx.variable((r.rng.standard_normal(shape) * 0.2).astype(np.float32))
        for shape in ((40, 64), (64, 10))
    )
    bias = gx.variable(np.zeros(64, np.float32))
    hidden = gx.gelu(gx.layer_norm(x @ first + bias, (64,)))
    loss = gx.mean(gx.softmax_cross_entropy(hidden @ second, labels))
    step = gx.optim.Adam(1e-2).minimize(loss)
    r.add("loss", loss)
    r.add("gradient", gx.gradients(loss, [first])[0])
    r.effects.append(step)


PROGRAMS: dict[str, Callable[[Recorder], None]] = {
    "scalars": scalars, "functions": functions, "arrays": arrays, "sorting": sorting,
    "transforms32": partial(transforms, dtype="float32"),
    "transforms64": partial(transforms, dtype="float64"), "fast": fast, "training": training,
}  # fmt: skip
OPTIONS = {"fast": {"fast_math": frozenset({"nsz", "reassoc", "contract", "approx"})}}


@cache
def recorded(name: str) -> Recorded:
    """A program, built."""
    recorder = Recorder()
    with gx.Graph(name) as graph:
        PROGRAMS[name](recorder)
    return Recorded(graph, recorder.fetches, recorder.effects, recorder.feeds)
