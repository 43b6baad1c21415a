"""One row for each kind of kernel, beside NumPy: ``python -m benchmarks.kinds [WORD ...]``.

Kinds that no workload of ``benchmarks.workloads`` has: complex numbers, sorting, counting, small
matrices in batches, random numbers, narrow floats. Words choose rows by their names. PyTorch is the
peer in place of NumPy where NumPy has no such function and PyTorch is installed. Both sides run
in this process on one thread, in turn. Times are medians, with the least ones behind them, which
are left where other work on the machine disturbs. A row has a goal: its share of the peer's time.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import graphc as gx

_RUNS = 41
_SECONDS = 1.5

Make = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One row.

    Attributes:
        name: what words choose it by.
        make: the inputs.
        ours: of placeholders for them, what to compute.
        peer: what computes the same of arrays.
        goal: the share of the peer's time.
    """

    name: str
    make: Make
    ours: Callable[..., Any]
    peer: Callable[..., Any]
    goal: float


def _complex(*shape: int, count: int = 1) -> Make:
    def make(random: np.random.Generator) -> tuple[Any, ...]:
        parts = random.standard_normal((count, *shape, 2)).astype(np.float32)
        return tuple(parts.view(np.complex64)[..., 0])

    return make


def _floats(*shape: int, count: int = 1, dtype: str = "float32") -> Make:
    def make(random: np.random.Generator) -> tuple[Any, ...]:
        return tuple(random.standard_normal(shape).astype(dtype) for _ in range(count))

    return make


def _complex_kinds() -> Iterator[Kind]:
    one = _complex
    for count in (65_536, 1 << 22):
        yield Kind(f"complex a * b, {count:,}", _complex(count, count=2), lambda a, b: a * b,
                   np.multiply, 1.0)  # fmt: skip
        yield Kind(
            f"complex |z|^2, {count:,}", one(count),
            lambda a: gx.real(a) ** 2 + gx.imag(a) ** 2, lambda a: a.real**2 + a.imag**2, 0.5,
        )  # fmt: skip
    yield Kind("complex conj, 65,536", one(65_536), gx.conj, np.conj, 1.0)
    yield Kind("complex real, 65,536", one(65_536), gx.real, lambda a: a.real.copy(), 1.0)
    yield Kind("complex imag, 65,536", one(65_536), gx.imag, lambda a: a.imag.copy(), 1.0)
    yield Kind("complex abs, 65,536", one(65_536), gx.abs, np.abs, 1.0)
    yield Kind("complex exp, 65,536", one(65_536), gx.exp, np.exp, 0.5)
    yield Kind("complex sum, 65,536", one(65_536), gx.sum, np.sum, 1.0)
    yield Kind("complex sum of rows, 256x256", one(256, 256), lambda a: gx.sum(a, 1),
               lambda a: a.sum(1), 1.0)  # fmt: skip
    yield Kind("complex transpose, 1024x1024", one(1024, 1024), lambda a: a.T,
               lambda a: a.T.copy(), 1.0)  # fmt: skip
    yield Kind("complex matmul, 256x256", _complex(256, 256, count=2), lambda a, b: a @ b,
               np.matmul, 1.0)  # fmt: skip
    yield Kind("every second, 1M", _floats(1 << 20), lambda x: x[::2] * 2,
               lambda x: x[::2] * np.float32(2), 1.0)  # fmt: skip
    yield Kind("channel of 3, 1M", _floats(1 << 20, 3), lambda x: x[:, 1] * 2,
               lambda x: x[:, 1] * np.float32(2), 1.0)  # fmt: skip
    for count in (2, 3, 4):
        yield Kind(f"stack {count}, 2M", _floats(1 << 21, count=count),
                   lambda *x: gx.stack(list(x), -1), lambda *x: np.stack(x, -1), 0.6)  # fmt: skip


def _edges(random: np.random.Generator) -> tuple[Any, ...]:
    edges = np.sort(random.standard_normal(10_000))
    return edges.astype(np.float32), random.standard_normal(100_000).astype(np.float32)


def _taps(random: np.random.Generator) -> tuple[Any, ...]:
    return tuple(random.standard_normal(count).astype(np.float32) for count in (100_000, 64))


def _largest(count: int) -> tuple[str, Callable[..., Any]]:
    """Who finds the largest of rows and their places, in order, and how."""
    try:
        import torch
    except ImportError:

        def sorted_parts(x: Any) -> Any:
            places = np.argpartition(x, -count, 1)[:, -count:]
            values = np.take_along_axis(x, places, 1)
            order = np.argsort(-values, 1)
            return [np.take_along_axis(part, order, 1) for part in (values, places)]

        return "NumPy", sorted_parts
    torch.set_num_threads(1)
    return "torch", lambda x: torch.topk(torch.from_numpy(x), count)


def _sorting_kinds() -> Iterator[Kind]:
    yield Kind("sort 1M", _floats(1_000_000), gx.sort, np.sort, 0.3)
    yield Kind("sort 256 rows of 1,000", _floats(256, 1000), gx.sort, np.sort, 0.4)
    yield Kind("sort 2,560 rows of 100", _floats(2560, 100), gx.sort, np.sort, 1.1)
    yield Kind("stable argsort 1M", _floats(1_000_000), gx.argsort,
               lambda x: np.argsort(x, kind="stable"), 0.15)  # fmt: skip
    yield Kind("stable argsort 256 rows of 1,000", _floats(256, 1000), gx.argsort,
               lambda x: np.argsort(x, kind="stable"), 0.15)  # fmt: skip
    yield Kind("median of 256 rows of 1,000", _floats(256, 1000), lambda x: gx.median(x, 1),
               lambda x: np.median(x, 1), 0.3)  # fmt: skip
    name, largest = _largest(10)
    yield Kind(f"top 10 of 64 rows of 10,000 ({name})", _floats(64, 10_000),
               lambda x: list(gx.top_k(x, 10)), largest, 0.2)  # fmt: skip
    yield Kind("histogram 500,000", _floats(500_000),
               lambda x: gx.histogram(x, 64, range=(-4.0, 4.0))[0],
               lambda x: np.histogram(x, 64, range=(-4.0, 4.0))[0], 0.55)  # fmt: skip
    yield Kind("bincount 500,000", lambda random: (random.integers(0, 1000, 500_000),),
               lambda i: gx.bincount(i, length=1000), lambda i: np.bincount(i, minlength=1000),
               0.7)  # fmt: skip
    yield Kind("searchsorted 100,000 in 10,000", _edges, gx.searchsorted, np.searchsorted, 0.8)
    yield Kind("flatnonzero 1M", lambda random: (random.uniform(size=1_000_000) < 0.1,),
               lambda x: gx.flatnonzero(x, size=120_000), np.flatnonzero, 1.0)  # fmt: skip


def _matrix_kinds() -> Iterator[Kind]:
    for dtype in ("float32", "float64"):
        for n in (3, 4, 8, 12, 16):

            def make(random: np.random.Generator, n: int = n, dtype: str = dtype) -> Any:
                x = random.standard_normal((4096, n, n))
                return ((x @ x.swapaxes(1, 2) + n * np.eye(n)).astype(dtype),)

            name = f"4,096 of {n}x{n} {dtype}"
            yield Kind(f"cholesky {name}", make, gx.linalg.cholesky, np.linalg.cholesky, 0.15)
            yield Kind(f"solve {name}", make, lambda a: gx.linalg.solve(a, a[:, :, :1]),
                       lambda a: np.linalg.solve(a, a[:, :, :1]), 0.15)  # fmt: skip
            yield Kind(f"inv {name}", make, gx.linalg.inv, np.linalg.inv, 0.15)


def _other_kinds() -> Iterator[Kind]:
    yield Kind("cbrt 1M", _floats(1 << 20), gx.cbrt, np.cbrt, 1.0)
    yield Kind("cbrt 1M float64", _floats(1 << 20, dtype="float64"), gx.cbrt, np.cbrt, 1.0)
    yield Kind("convolve 100,000 with 64", _taps, gx.convolve, np.convolve, 1.0)
    none, generator, size = _floats(count=0), np.random.default_rng(1), 10_000_000
    yield Kind("uniform 10M", none, lambda: gx.random.uniform(gx.random.key(1), (size,)),
               lambda: generator.random(size, np.float32), 0.25)  # fmt: skip
    yield Kind("normal 10M", none, lambda: gx.random.normal(gx.random.key(1), (size,)),
               lambda: generator.standard_normal(size, np.float32), 0.4)  # fmt: skip
    for dtype in ("float16", "bfloat16"):
        # the peer is the same in float32, which moves twice the bytes
        yield Kind(f"relu(a * 2 + b) * 0.5 of 4M {dtype}", _narrow(dtype),
                   lambda a, b, *_: gx.maximum(a * 2 + b, 0) * 0.5,
                   _float32_chain(), 0.5)  # fmt: skip


def _narrow(dtype: str) -> Make:
    def make(random: np.random.Generator) -> tuple[Any, ...]:
        import ml_dtypes

        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
        wide = [random.standard_normal(1 << 22).astype(np.float32) for _ in range(2)]
        return (*(x.astype(kind) for x in wide), *wide)

    return make


def _float32_chain() -> Callable[..., Any]:
    with gx.Graph() as graph:
        a, b = (gx.placeholder((1 << 22,)) for _ in range(2))
        y = gx.maximum(a * 2 + b, 0) * 0.5
    run = gx.Session(graph, threads=1).compile(y, [a, b])
    return lambda _a, _b, a, b: run(a, b)


KINDS = (_complex_kinds, _sorting_kinds, _matrix_kinds, _other_kinds)
"""Rows by family."""


def _timed(function: Callable[..., Any], arrays: tuple[Any, ...]) -> float:
    started = time.perf_counter()
    function(*arrays)
    return time.perf_counter() - started


def measured(kind: Kind) -> tuple[list[float], list[float]]:
    """Seconds of runs in turn, ours and the peer's."""
    arrays = kind.make(np.random.default_rng(7))
    with gx.Graph() as graph:
        given = [gx.placeholder(x.shape, x.dtype) for x in arrays]
        wanted = kind.ours(*given)
    run = gx.Session(graph, threads=1).compile(wanted, given)
    ours: list[float] = []
    peer: list[float] = []
    for function in (run, kind.peer):
        function(*arrays)
    ends = time.perf_counter() + _SECONDS
    while len(ours) < 5 or (len(ours) < _RUNS and time.perf_counter() < ends):
        ours.append(_timed(run, arrays))
        peer.append(_timed(kind.peer, arrays))
    return ours, peer


def main() -> None:
    words = sys.argv[1:]
    print(f"{'kind':40} {'graphc, us':>20} {'peer, us':>20} {'ratio':>6} {'least':>6} {'goal':>5}")
    for family in KINDS:
        for kind in family():
            if words and not any(word in kind.name for word in words):
                continue
            ours, peer = measured(kind)
            (a, x), (b, y) = ((statistics.median(t), min(t)) for t in (ours, peer))
            pairs = [f"{m * 1e6:.1f} ({n * 1e6:.1f})" for m, n in ((a, x), (b, y))]
            print(f"{kind.name:40} {pairs[0]:>20} {pairs[1]:>20} {a / b:6.2f} {x / y:6.2f} "
                  f"{kind.goal:5.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
