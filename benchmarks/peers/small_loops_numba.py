"""numba's loops over small arrays: everything that a loop needs lies in arrays made before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numba import prange

from benchmarks.workloads.base import Array
from benchmarks.workloads.small_loops import ESCAPED, HEAT_RATE

Arrays = Callable[[Mapping[str, Array]], tuple[Array, ...]]


class Loop(NamedTuple):
    """A function of the inputs, the results, and arrays that are kept for it to work in."""

    results: Arrays
    function: Callable[..., None]
    room: Arrays = lambda arrays: ()


_PLACES, _SEEN = 4, 2
"""Of the Kalman filter: loops of known lengths are unrolled."""


def _kalman(seen, move, observe, drift, noise, state, spread, states, last):  # type: ignore[no-untyped-def]
    now, ahead, rest = state.copy(), np.empty(_PLACES), np.empty(_SEEN)
    moved, cross = np.empty((_PLACES, _PLACES)), np.empty((_PLACES, _SEEN))
    gain, s = np.empty((_PLACES, _SEEN)), np.empty((_SEEN, _SEEN))
    last[:] = spread
    for n in range(seen.shape[0]):
        for i in range(_PLACES):
            total = 0.0
            for k in range(_PLACES):
                total += move[i, k] * now[k]
            ahead[i] = total
            for j in range(_PLACES):
                total = 0.0
                for k in range(_PLACES):
                    total += move[i, k] * last[k, j]
                moved[i, j] = total
        for i in range(_PLACES):
            for j in range(_PLACES):
                total = drift[i, j]
                for k in range(_PLACES):
                    total += moved[i, k] * move[j, k]
                last[i, j] = total
        for i in range(_PLACES):
            for j in range(_SEEN):
                total = 0.0
                for k in range(_PLACES):
                    total += last[i, k] * observe[j, k]
                cross[i, j] = total
        for i in range(_SEEN):
            total = seen[n, i]
            for k in range(_PLACES):
                total -= observe[i, k] * ahead[k]
            rest[i] = total
            for j in range(_SEEN):
                total = noise[i, j]
                for k in range(_PLACES):
                    total += observe[i, k] * cross[k, j]
                s[i, j] = total
        factor = 1.0 / (s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0])
        for i in range(_PLACES):
            gain[i, 0] = (cross[i, 0] * s[1, 1] - cross[i, 1] * s[1, 0]) * factor
            gain[i, 1] = (cross[i, 1] * s[0, 0] - cross[i, 0] * s[0, 1]) * factor
            now[i] = ahead[i] + gain[i, 0] * rest[0] + gain[i, 1] * rest[1]
            states[n, i] = now[i]
        for i in range(_PLACES):
            # one half for both: were they to drift apart, the difference would grow
            for j in range(i + 1):
                total = last[i, j] - gain[i, 0] * cross[j, 0] - gain[i, 1] * cross[j, 1]
                last[i, j] = last[j, i] = total


def _hmm(seen, transition, emission, first, out):  # type: ignore[no-untyped-def]
    states = first.size
    now, ahead = np.empty(states), first.copy()
    logarithm = 0.0
    for n in range(seen.size):
        if n > 0:
            # no ``ahead[:] = 0.0``, which several threads would share
            for j in range(states):
                ahead[j] = 0.0
            for i in range(states):
                for j in range(states):
                    ahead[j] += now[i] * transition[i, j]
        row, scale = seen[n], 0.0
        for j in range(states):
            ahead[j] *= emission[row, j]
            scale += ahead[j]
        for j in range(states):
            now[j] = ahead[j] / scale
        logarithm += math.log(scale)
    out[()] = logarithm


def _heat(plate, trips, out, other):  # type: ignore[no-untyped-def]
    out[:] = plate
    other[:] = plate
    now, after = (out, other) if trips.size % 2 == 0 else (other, out)
    for _ in range(trips.size):
        for i in prange(1, plate.shape[0] - 1):
            for j in range(1, plate.shape[1] - 1):
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
                after[i, j] = now[i, j] + HEAT_RATE * (around - 4.0 * now[i, j])
        now, after = after, now


def _tridiagonal(lower, middle, upper, right, out, ratios):  # type: ignore[no-untyped-def]
    ratio = value = 0.0
    for n in range(middle.size):
        pivot = middle[n] - lower[n] * ratio
        ratio, value = upper[n] / pivot, (right[n] - lower[n] * value) / pivot
        ratios[n], out[n] = ratio, value
    value = 0.0
    for n in range(middle.size - 1, -1, -1):
        value = out[n] - ratios[n] * value
        out[n] = value


def _tridiagonal_many(lower, middle, upper, right, out, ratios):  # type: ignore[no-untyped-def]
    rows, systems = middle.shape
    for j in range(systems):
        ratios[0, j], out[0, j] = upper[0, j] / middle[0, j], right[0, j] / middle[0, j]
    for n in range(1, rows):
        for j in range(systems):
            pivot = middle[n, j] - lower[n, j] * ratios[n - 1, j]
            ratios[n, j] = upper[n, j] / pivot
            out[n, j] = (right[n, j] - lower[n, j] * out[n - 1, j]) / pivot
    for n in range(rows - 2, -1, -1):
        for j in range(systems):
            out[n, j] -= ratios[n, j] * out[n + 1, j]


def _mandelbrot(x, y, trips, counts):  # type: ignore[no-untyped-def]
    for i in prange(y.size):
        for j in range(x.size):
            a = b = 0.0
            n = 0
            while n < trips.size:
                a, b = a * a - b * b + x[j], 2.0 * a * b + y[i]
                if a * a + b * b > ESCAPED:
                    break
                n += 1
            counts[i, j] = n


def _lstm(x, w_input, w_hidden, bias, states, cells, given, gates):  # type: ignore[no-untyped-def]
    steps, batch, width = x.shape
    units = w_hidden.shape[0]
    one = np.float32(1)
    np.dot(x.reshape(steps * batch, width), w_input, given)
    cells[:] = 0
    for n in range(steps):
        if n == 0:
            gates[:] = 0
        else:
            np.dot(states[n - 1], w_hidden, gates)
        for i in range(batch):
            row = given[n * batch + i]
            for j in range(units):
                taken = gates[i, j] + row[j] + bias[j]
                k = j + units
                kept = gates[i, k] + row[k] + bias[k]
                k += units
                new = gates[i, k] + row[k] + bias[k]
                k += units
                shown = gates[i, k] + row[k] + bias[k]
                new = math.tanh(new) / (one + math.exp(-taken))
                cells[i, j] = cells[i, j] / (one + math.exp(-kept)) + new
                states[n, i, j] = math.tanh(cells[i, j]) / (one + math.exp(-shown))


def _like(name: str) -> Arrays:
    return lambda arrays: (np.empty_like(arrays[name]),)


LOOPS = {
    "kalman": Loop(
        lambda a: (np.empty((len(a["seen"]), _PLACES)), np.empty_like(a["spread"])), _kalman
    ),
    "hmm": Loop(lambda a: (np.empty(()),), _hmm),
    "heat": Loop(_like("plate"), _heat, _like("plate")),
    "tridiagonal": Loop(_like("right"), _tridiagonal, _like("right")),
    "tridiagonal_many": Loop(_like("right"), _tridiagonal_many, _like("right")),
    "mandelbrot": Loop(lambda a: (np.empty((a["y"].size, a["x"].size), np.int64),), _mandelbrot),
    "lstm_loop": Loop(
        lambda a: (
            np.empty((*a["x"].shape[:2], len(a["w_hidden"])), np.float32),
            np.empty((a["x"].shape[1], len(a["w_hidden"])), np.float32),
        ),
        _lstm,
        lambda a: (
            np.empty((a["x"].shape[0] * a["x"].shape[1], a["bias"].size), np.float32),
            np.empty((a["x"].shape[1], a["bias"].size), np.float32),
        ),
    ),
}
"""By kind."""
