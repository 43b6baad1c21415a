"""Where elements come from: broadcasts, strides, transposes, margins, pieces, counters."""

from __future__ import annotations

import math
from typing import Any

import graphc as gx
from golden.registry import p, program


@program()
def broadcasts() -> Any:
    """A row, a column, a scalar and a matrix over more axes, in one nest or merged into a loop."""
    x, row, column = p(37, 50), p(50), p(37, 1)
    whole = p(5, 37, 50)
    return [
        x + row, x * column, row * column, x - p(), whole + x, whole * row + column,
        gx.broadcast_to(row, (6, 50)), gx.broadcast_to(p(), (130,)), p(5, 1, 50) * p(37, 1) + x,
        x + gx.constant(2.5), p(3, 1, 7) + p(1, 4, 1),
    ]  # fmt: skip


@program()
def strides() -> Any:
    """Slices with steps of either sign: contiguous, reversed and gathered loads."""
    x = p(40, 130)
    return [
        x[3:30, 5:101] * 2.0, x[:, ::-1] + x, x[::-1, ::-1] * 3.0, x[:, ::3] + 1.0,
        x[::2, 100::-2] * x[1::2, :51], x[5] + x[:, 0][:1], x[..., None] * 2.0, x.ravel()[::-1],
        p(64, dtype="bool")[::-1] ^ p(64, dtype="bool"), x[2:4, ::-4], gx.flip(p(7, 33), 0) + 1.0,
    ]  # fmt: skip


@program()
def transposes() -> Any:
    """Tiles of every element size, with borders and without, of two axes and of more."""
    fetched = []
    for dtype in ("float32", "float64", "int8", "int16", "bool"):
        fetched += [p(64, 48, dtype=dtype).T, p(101, 67, dtype=dtype).T]
    cube, four = p(9, 20, 33), p(3, 17, 16, 32)
    fetched += [gx.transpose(cube, (2, 0, 1)), gx.transpose(cube, (1, 2, 0))]
    fetched += [gx.transpose(four, axes) for axes in ((0, 2, 3, 1), (3, 1, 0, 2), (1, 0, 3, 2))]
    return [*fetched, p(3, 5).T, p(1, 40).T, p(40, 2).T, p(7, 16).T, gx.swapaxes(p(2, 7, 5), 1, 2)]


@program()
def transposes_with_work() -> Any:
    """Tiles that pointwise work shares: of several sources and sizes, beside plain loads."""
    x, y, row = p(70, 37), p(37, 70), p(70)
    double = p(70, 37, dtype="float64")
    return [
        gx.tanh(x.T) + y * row, x.T * y.T.T + row, x.T.astype("int8"), double.T + y,
        [x.T + 1.0, x.T > 0], gx.where(p(70, 37, dtype="bool").T, y, x.T), x.T @ p(70, 12),
        p(16, 16).T + p(16, 16), x.T[::-1] * 2.0, x.T[3:, 4:] + 1.0, gx.transpose(x) * p(37, 1),
    ]  # fmt: skip


@program()
def reshapes() -> Any:
    """Regrouped axes: as one run, and with divisions of indices."""
    x = p(24, 30)
    cube = p(4, 6, 30)
    return [
        x.reshape((720,)) * 2.0, x.reshape((20, 36)) + p(36),
        gx.exp(x).reshape((2, 12, 30)) + cube[:2, :1],
        x.reshape((4, 6, 30)) * cube, x.T.reshape((720,)) + 1.0, x.reshape((48, 15)).T * 2.0,
        cube.reshape((24, 30)).sum(axis=1), gx.expand_dims(x, 1) * gx.squeeze(p(24, 1, 1, 30), 1),
        gx.repeat(x, 3, axis=1) + 1.0, gx.tile(x, (2, 1)) * 2.0,
        p(8, 1, 45).reshape((9, 40)) + p(9, 40),
    ]  # fmt: skip


@program()
def margins() -> Any:
    """Padding of either sign: loads under a condition, in vectors and for one element."""
    x = p(30, 45)
    return [
        gx.pad(x, ((1, 2), (3, 0))), gx.pad(x, ((0, 0), (2, 2))) * 2.0, gx.pad(p(5), ((1, 1),)),
        gx.pad(x, ((2, 2), (2, 2))).T, gx.pad(p(4, dtype="bool"), ((3, 70),)),
        gx.pad(x, ((1, 1), (0, 0))).sum(axis=0), gx.pad(x, ((0, 0), (5, 5))).max(axis=1),
        gx.pad(gx.arange(7) * 2, ((2, 3),)),
    ]  # fmt: skip


@program()
def counters() -> Any:
    """Elements that are made of their index alone."""
    x = p(20, 40)
    return [
        gx.arange(130), gx.arange(40, dtype="float32") * x, gx.zeros((5, 70)),
        gx.ones((70,), "int8"),
        gx.full((3, 33), 2.5), gx.one_hot(p(20, dtype="int64"), 40) + x,
        gx.where(gx.expand_dims(gx.arange(20), 1) < gx.arange(40), x, 0.0), gx.zeros_like(x) + x[0],
    ]  # fmt: skip


@program()
def pieces() -> Any:
    """Concatenations that pointwise work is computed with: a nest for each piece."""
    x, y = p(8, 16), p(8, 16)
    whole = gx.concatenate([x, y, x], 1)
    return [
        whole, gx.concatenate([x, y], 0), gx.tanh(whole) * 2.0, whole + p(48), whole * x[:, :1],
        whole * gx.concatenate([y, x, x], 1), whole + p(48, 8).T, [whole + 1.0, gx.sin(whole)],
        gx.softmax(whole * 2.0), gx.stack([x, y], 1) + 1.0, gx.stack([x, y]), gx.split(whole, 3, 1),
        gx.concatenate([x, y], 0) + p(1, 16),
        gx.concatenate([x > 0, y > 0], 1) & p(8, 1, dtype="bool"),
    ]  # fmt: skip


@program()
def choices_of_pieces() -> Any:
    """Concatenations that are chosen from at each element: turned, and cut at other places."""
    x, y = p(8, 16), p(8, 16)
    whole = gx.concatenate([x, y], 1)
    return [
        whole.T + 1.0, whole + gx.concatenate([x, p(8, 8), p(8, 8)], 1), whole[:, ::-1] * 2.0,
        gx.concatenate([x, y], 0)[3:12] + 1.0, whole.reshape((16, 16)) * 2.0,
        gx.concatenate([p(3), p(4)]) + p(7),
    ]  # fmt: skip


@program()
def joined_pieces() -> Any:
    """Pieces of large concatenations, of every kind of kernel, computed in their slices."""
    x, y = p(512, 512), p(512, 256)
    kinds = [
        gx.tanh(x), y, gx.softmax(x), x @ p(512, 256), gx.cumsum(y, axis=0), x.T * 2.0,
        gx.relu(x @ p(512, 128) + p(128)), gx.exp(x).sum(axis=1, keepdims=True) * y,
    ]  # fmt: skip
    return [
        gx.concatenate(kinds, 1), gx.stack([gx.exp(y), gx.sin(y)], 1),
        gx.concatenate([gx.tanh(x), gx.scatter_add(x, p(9, dtype="int32"), p(9, 512))], 0),
    ]  # fmt: skip


@program()
def windows_of_images() -> Any:
    """Reductions of windows, of known and of unknown sizes."""
    x, y = p(2, 3, 20, 33), p("n", "m")
    return [
        gx.reduce_window(x, -math.inf, gx.maximum, (1, 1, 2, 2), (1, 1, 2, 2), "SAME"),
        gx.reduce_window(x, 0, gx.add, (1, 1, 3, 3)), gx.sliding_window_view(y, (3, 2)),
    ]  # fmt: skip
