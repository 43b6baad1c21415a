"""numba: loops as its users write them, ``fastmath`` on, into kept arrays."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from numba import prange

from benchmarks.peers import small_loops_numba
from benchmarks.peers.base import Peer, Prepared, arrays_of
from benchmarks.workloads import base, pointwise, recurrences
from benchmarks.workloads.base import Array, Arrays
from benchmarks.workloads.pointwise import NORMAL_TERMS


class Numba(Peer):
    """numba without SVML, which its wheel does not bring."""

    def versions(self) -> dict[str, str]:
        llvmlite = importlib.metadata.version("llvmlite")
        return {"numba": f"{numba.__version__} (with llvmlite {llvmlite})"}

    def warm_up(self) -> None:
        numba.set_num_threads(self.threads)
        numba.njit(lambda x: x + 1)(1.0)


Results = Callable[[Mapping[str, Array]], tuple[Array, ...]]


def _loop(
    results: Results,
    function: Callable[..., None],
    fastmath: bool = True,
    room: Results = lambda arrays: (),
) -> Callable[[Any, Any, Any], Prepared]:
    def build(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
        program = numba.njit(
            function, fastmath=fastmath, parallel=peer.threads > 1, error_model="numpy"
        )
        given = inputs | weights
        kept = results(given)
        arguments = (*given.values(), *kept, *room(given))

        def call() -> Any:
            program(*arguments)
            return kept

        return Prepared(call, arrays_of)

    return build


def _like_x(arrays: Mapping[str, Array]) -> tuple[Array, ...]:
    return (np.empty_like(arrays["x"]),)


def _one_a_row(arrays: Mapping[str, Array]) -> tuple[Array, ...]:
    return (np.empty(len(arrays["x"]), np.float32),)


_f = np.float32
_SCALE, _SHIFT = _f(pointwise.CHAIN_SCALE), _f(pointwise.CHAIN_SHIFT)
_FACTOR, _ZERO, _HALF, _ONE = _f(pointwise.RELU_FACTOR), _f(0), _f(0.5), _f(1)
_EPSILON = _f(base.EPSILON)
_RATE, _VOLATILITY = pointwise.RATE, pointwise.VOLATILITY
_STEP, _NORMAL = pointwise.NORMAL_STEP, pointwise.NORMAL_SCALE
_C0, _C1, _C2, _C3, _C4 = NORMAL_TERMS


def _affine(x, a, trips, out):  # type: ignore[no-untyped-def]
    state, rate = x.flat[0], a.flat[0]
    for _ in range(trips.size):
        state = rate * state + 0.5
    out[()] = state


def _affine_stacked(x, a, trips, out):  # type: ignore[no-untyped-def]
    state, rate = x.flat[0], a.flat[0]
    for n in range(trips.size):
        state = rate * state + 0.5
        out[n] = state


def _logistic(x, r, trips, out):  # type: ignore[no-untyped-def]
    out[:] = x
    for _ in range(trips.size):
        for lane in range(x.size):
            out[lane] = r[lane] * out[lane] * (1.0 - out[lane])


def _logistic_stacked(x, r, trips, out):  # type: ignore[no-untyped-def]
    for lane in range(x.size):
        out[0, lane] = r[lane] * x[lane] * (1.0 - x[lane])
    for n in range(1, trips.size):
        for lane in range(x.size):
            out[n, lane] = r[lane] * out[n - 1, lane] * (1.0 - out[n - 1, lane])


def _lorenz(x, y, z, trips, out_x, out_y, out_z):  # type: ignore[no-untyped-def]
    h = recurrences.STEP
    for lane in range(x.size):
        a, b, c = x[lane], y[lane], z[lane]
        for _ in range(trips.size):
            ka, kb, kc = 10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c
            sa, sb, sc = ka, kb, kc
            p, q, r = a + 0.5 * h * ka, b + 0.5 * h * kb, c + 0.5 * h * kc
            ka, kb, kc = 10.0 * (q - p), p * (28.0 - r) - q, p * q - 8.0 / 3.0 * r
            sa, sb, sc = sa + 2.0 * ka, sb + 2.0 * kb, sc + 2.0 * kc
            p, q, r = a + 0.5 * h * ka, b + 0.5 * h * kb, c + 0.5 * h * kc
            ka, kb, kc = 10.0 * (q - p), p * (28.0 - r) - q, p * q - 8.0 / 3.0 * r
            sa, sb, sc = sa + 2.0 * ka, sb + 2.0 * kb, sc + 2.0 * kc
            p, q, r = a + h * ka, b + h * kb, c + h * kc
            ka, kb, kc = 10.0 * (q - p), p * (28.0 - r) - q, p * q - 8.0 / 3.0 * r
            a += h / 6.0 * (sa + ka)
            b += h / 6.0 * (sb + kb)
            c += h / 6.0 * (sc + kc)
        out_x[lane], out_y[lane], out_z[lane] = a, b, c


def _increment(x, out):  # type: ignore[no-untyped-def]
    for i in prange(x.size):
        out[i] = x[i] + _ONE


def _chain(x, out):  # type: ignore[no-untyped-def]
    for i in prange(x.size):
        v = x[i]
        gate = _ONE / (_ONE + math.exp(-(_SCALE * v + _SHIFT)))
        out[i] = gate * math.tanh(v) + math.exp(-v * v) - _HALF * math.sqrt(abs(v) + _ONE)


def _relu_scale(x, out):  # type: ignore[no-untyped-def]
    for i in prange(x.size):
        out[i] = max(_SCALE * x[i] + _SHIFT, _ZERO) * _FACTOR


@numba.njit(fastmath=True, inline="always")
def _cumulative(d):  # type: ignore[no-untyped-def]
    k = 1 / (1 + _STEP * abs(d))
    tail = k * (_C0 + k * (_C1 + k * (_C2 + k * (_C3 + k * _C4))))
    tail = _NORMAL * math.exp(-0.5 * d * d) * tail
    return 1 - tail if d > 0 else tail


def _black_scholes(s, k, t, call, put):  # type: ignore[no-untyped-def]
    for i in prange(s.size):
        deviation = _VOLATILITY * math.sqrt(t[i])
        d1 = (math.log(s[i] / k[i]) + (_RATE + 0.5 * _VOLATILITY**2) * t[i]) / deviation
        strike = k[i] * math.exp(-_RATE * t[i])
        n1, n2 = _cumulative(d1), _cumulative(d1 - deviation)
        call[i] = s[i] * n1 - strike * n2
        put[i] = strike * (1 - n2) - s[i] * (1 - n1)


def _scales(x, bias, row, column, out):  # type: ignore[no-untyped-def]
    for i in prange(x.shape[0]):
        factor = row[i, 0]
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] + bias[j]) * factor * column[j]


def _softmax(x, out):  # type: ignore[no-untyped-def]
    for i in prange(x.shape[0]):
        highest = x[i, 0]
        for j in range(x.shape[1]):
            highest = max(highest, x[i, j])
        total = _ZERO
        for j in range(x.shape[1]):
            power = math.exp(x[i, j] - highest)
            out[i, j] = power
            total += power
        for j in range(x.shape[1]):
            out[i, j] /= total


def _layer_norm(x, gain, bias, out):  # type: ignore[no-untyped-def]
    n = x.shape[1]
    for i in prange(x.shape[0]):
        total = _ZERO
        for j in range(n):
            total += x[i, j]
        mean = total / _f(n)
        square = _ZERO
        for j in range(n):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        factor = _ONE / math.sqrt(square / _f(n) + _EPSILON)
        for j in range(n):
            out[i, j] = (x[i, j] - mean) * factor * gain[j] + bias[j]


def _logsumexp(x, out):  # type: ignore[no-untyped-def]
    for i in prange(x.shape[0]):
        highest = x[i, 0]
        for j in range(x.shape[1]):
            highest = max(highest, x[i, j])
        total = _ZERO
        for j in range(x.shape[1]):
            total += math.exp(x[i, j] - highest)
        out[i] = highest + math.log(total)


def _row_sum(x, out):  # type: ignore[no-untyped-def]
    for i in prange(x.shape[0]):
        total = _ZERO
        for j in range(x.shape[1]):
            total += x[i, j]
        out[i] = total


def _mean_var(x, mean, variance):  # type: ignore[no-untyped-def]
    n = x.shape[1]
    for i in prange(x.shape[0]):
        total = _ZERO
        for j in range(n):
            total += x[i, j]
        centre = total / _f(n)
        square = _ZERO
        for j in range(n):
            square += (x[i, j] - centre) * (x[i, j] - centre)
        mean[i] = centre
        variance[i] = square / _f(n)


def _column_sum(x, out):  # type: ignore[no-untyped-def]
    # blocks of columns: threads share no result and running sums stay in the nearest cache
    block = min(512, x.shape[1])
    for b in prange(x.shape[1] // block):
        sums = np.zeros(block, np.float32)
        for i in range(x.shape[0]):
            for j in range(block):
                sums[j] += x[i, b * block + j]
        out[b * block : (b + 1) * block] = sums


def _transpose(x, out):  # type: ignore[no-untyped-def]
    tile = 32
    for block in prange(x.shape[0] // tile):
        for other in range(x.shape[1] // tile):
            for i in range(block * tile, block * tile + tile):
                for j in range(other * tile, other * tile + tile):
                    out[j, i] = x[i, j]


def _embedding(table, rows, out):  # type: ignore[no-untyped-def]
    for i in prange(rows.size):
        row = rows[i]
        for j in range(table.shape[1]):
            out[i, j] = table[row, j]


def _sum(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    @numba.njit(fastmath=True, parallel=peer.threads > 1)
    def total(x):  # type: ignore[no-untyped-def]
        result = _ZERO
        for i in prange(x.size):
            result += x[i]
        return result

    x = inputs["x"]
    return Prepared(lambda: total(x), arrays_of)


Numba.builders = {
    # a fused multiply-add in place of two operations would be another recurrence
    "affine": _loop(lambda a: (np.empty(()),), _affine, fastmath=False),
    "affine_stacked": _loop(
        lambda a: (np.empty(len(a["trips"])),), _affine_stacked, fastmath=False
    ),
    "logistic": _loop(_like_x, _logistic, fastmath=False),
    "logistic_stacked": _loop(
        lambda a: (np.empty((len(a["trips"]), len(a["x"]))),), _logistic_stacked, fastmath=False
    ),
    "lorenz": _loop(lambda a: tuple(np.empty_like(a[n]) for n in "xyz"), _lorenz, fastmath=False),
    "pointwise": _loop(_like_x, _chain),
    "pointwise_approx": _loop(_like_x, _chain),
    "relu_scale": _loop(_like_x, _relu_scale),
    "black_scholes": _loop(
        lambda a: (np.empty_like(a["s"]), np.empty_like(a["s"])), _black_scholes
    ),
    "scales": _loop(_like_x, _scales),
    "softmax": _loop(_like_x, _softmax),
    "layer_norm": _loop(_like_x, _layer_norm),
    "logsumexp": _loop(_one_a_row, _logsumexp),
    "row_sum": _loop(_one_a_row, _row_sum),
    "mean_var": _loop(lambda a: (*_one_a_row(a), *_one_a_row(a)), _mean_var),
    "sum": _sum,
    "column_sum": _loop(lambda a: (np.empty(a["x"].shape[1], np.float32),), _column_sum),
    "transpose": _loop(_like_x, _transpose),
    "embedding": _loop(
        lambda a: (np.empty((a["rows"].size, a["table"].shape[1]), np.float32),), _embedding
    ),
    "increment": _loop(_like_x, _increment),
    **{
        kind: _loop(loop.results, loop.function, room=loop.room)
        for kind, loop in small_loops_numba.LOOPS.items()
    },
}
PEER = Numba
