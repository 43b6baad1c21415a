"""Shape ops against NumPy, with dims known when the graph is built and dims that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops_harness import Run, agrees, placeholder

from graphc.base.errors import GraphcError, ShapeError, UnsupportedError
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function

pytestmark = pytest.mark.check_mode

RANDOM = np.random.default_rng(0)
X = RANDOM.integers(-9, 9, (2, 3, 4)).astype(np.float64)

reshape, broadcast_to, concatenate, stack, split, pad, sum_to = map(
    surface_function, ("reshape", "broadcast_to", "concatenate", "stack", "split", "pad", "sum_to")
)


@pytest.mark.parametrize("shape", [(6, 4), (-1,), (4, -1), (2, 3, 2, 2), (3, -1, 1), 24])
def test_reshape(shape: Any) -> None:
    agrees(lambda x: reshape(x, shape), X.reshape(shape), X)
    agrees(lambda x: x.reshape(shape), X.reshape(shape), X)


@pytest.mark.parametrize(
    ("size", "shape"), [((0, 3), (-1, 3)), ((0, 3), (3, 0)), ((), (1, 1)), ((1, 1), ())]
)
def test_reshape_of_empty_and_single(size: Any, shape: Any) -> None:
    agrees(lambda x: reshape(x, shape), np.zeros(size).reshape(shape), np.zeros(size))


@pytest.mark.parametrize(
    ("size", "shape"), [((0, 3), (0, -1)), ((2, 3), (4, -1)), ((2, 3), (-1, -1))]
)
def test_reshape_that_cannot_be(size: Any, shape: Any) -> None:
    with Recorder(), pytest.raises(ShapeError, match=r"reshape.*-1") as raised:
        reshape(placeholder(size), shape)
    assert __file__ in str(raised.value)


def test_reshape_names_both_shapes() -> None:
    with Recorder(), pytest.raises(ShapeError, match=r"\[2, 3\].*\[4, 2\]"):
        reshape(placeholder((2, 3)), (4, 2))


def test_reshape_by_dims_of_the_value() -> None:
    agrees(lambda x: reshape(x, (x.shape[0], -1)), X.reshape(2, 12), X)
    agrees(lambda x: reshape(x, (x.shape[0] * x.shape[1], x.shape[2])), X.reshape(6, 4), X)
    with Recorder():
        value = reshape(placeholder(("n", 3, 4)), (-1, 12))
        assert str(value.shape[0]) == "n"


def test_reshape_is_checked_when_it_runs() -> None:
    with Recorder() as graph:
        x = placeholder((None, None), "float64")
        y = reshape(x, (4, -1))
    assert Run(graph, {x: np.zeros((2, 6))})[y].shape == (4, 3)
    with pytest.raises(ShapeError):
        Run(graph, {x: np.zeros((2, 3))})[y]


def test_transposes() -> None:
    transpose, swapaxes, moveaxis = map(surface_function, ("transpose", "swapaxes", "moveaxis"))
    agrees(lambda x: transpose(x), X.T, X)
    agrees(lambda x: x.T, X.T, X)
    agrees(lambda x: transpose(x, (1, 2, 0)), X.transpose(1, 2, 0), X)
    agrees(lambda x: x.transpose(2, -3, 1), X.transpose(2, 0, 1), X)
    agrees(lambda x: swapaxes(x, 0, -1), X.swapaxes(0, 2), X)
    agrees(lambda x: moveaxis(x, 0, -1), np.moveaxis(X, 0, -1), X)
    agrees(lambda x: moveaxis(x, (2, 0), (0, 1)), np.moveaxis(X, (2, 0), (0, 1)), X)
    with Recorder(), pytest.raises(ShapeError):
        transpose(placeholder((2, 3)), (0, 0))


def test_expand_and_squeeze() -> None:
    expand, squeeze = map(surface_function, ("expand_dims", "squeeze"))
    one = X[:, :1, :1]
    agrees(lambda x: expand(x, (0, -1)), np.expand_dims(X, (0, -1)), X)
    agrees(lambda x: expand(x, 1), np.expand_dims(X, 1), X)
    agrees(lambda x: squeeze(x), one.squeeze(), one, dims="known")
    agrees(lambda x: squeeze(x, (1, -1)), one.squeeze(), one)
    with Recorder() as graph:
        with pytest.raises(ShapeError, match="squeeze axis 0"):
            squeeze(placeholder((2, 1)), 0)
        x = placeholder((None, 0), "float64")
        y = squeeze(x, 0)
    with pytest.raises(ShapeError):
        Run(graph, {x: np.zeros((2, 0))})[y]


@pytest.mark.parametrize(
    ("size", "shape"),
    [((3, 1), (2, 3, 4)), ((), (2, 2)), ((1,), (0,)), ((3,), (3,)), ((2, 1), (2, 1))],
)
def test_broadcast_to(size: Any, shape: Any) -> None:
    array = RANDOM.integers(-9, 9, size).astype(np.float64)
    agrees(lambda x: broadcast_to(x, shape), np.broadcast_to(array, shape), array)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (4, 4), (1, 0), (0, 0)])
def test_broadcast_to_unknown_dims(n: int, m: int) -> None:
    x, like = np.arange(3.0 * n).reshape(3, n), np.zeros((2, 3, m))
    agrees(lambda a, b: broadcast_to(a, b.shape), np.broadcast_to(x, like.shape), x, like)
    summed = like + 1
    wanted = np.sum(summed, axis=(0, 2) if n == 1 else 0).reshape(x.shape)
    agrees(lambda a, b: sum_to(b, a.shape), wanted, x, summed)


def test_broadcast_to_that_cannot_be() -> None:
    with Recorder() as graph:
        with pytest.raises(ShapeError, match=r"\[2, 3\] to \[2, 4\]"):
            broadcast_to(placeholder((2, 3)), (2, 4))
        x = placeholder((None,), "float64")
        y = broadcast_to(x, (5,))
    with pytest.raises(ShapeError):
        Run(graph, {x: np.zeros(3)})[y]


def test_tile_and_repeat() -> None:
    tile, repeat = surface_function("tile"), surface_function("repeat")
    for reps in (2, (2, 1), (2, 1, 3), (2, 1, 1, 2), (0, 1, 1), ()):
        agrees(lambda x, reps=reps: tile(x, reps), np.tile(X, reps), X)
    for axis in (None, 0, -1):
        agrees(lambda x, axis=axis: repeat(x, 3, axis), np.repeat(X, 3, axis), X)


def test_concatenate() -> None:
    empty = np.zeros((2, 0, 4))
    agrees(
        lambda a, b, c: concatenate([a, b, c], axis=-2),
        np.concatenate([X, empty, X], 1),
        X,
        empty,
        X,
    )
    agrees(lambda a: concatenate([a, a[:1]]), np.concatenate([X, X[:1]]), X)
    agrees(lambda a: concatenate([a, a], axis=None), np.concatenate([X, X], None), X)
    ints, mixed = np.arange(3), np.concatenate([np.arange(3), np.ones(2)])
    agrees(lambda a: concatenate([a, np.ones(2)]), mixed, ints)
    with Recorder():
        with pytest.raises(ShapeError, match=r"\[2, 3\] and \[2, 4\]"):
            concatenate([placeholder((2, 3)), placeholder((2, 4))])
        joined = concatenate([placeholder((2**30,)) for _ in range(4)])
        assert joined.shape == (2**32,)


def test_concatenate_is_linear_in_the_pieces() -> None:
    pieces = [np.full(1, float(i)) for i in range(300)]
    agrees(lambda *p: concatenate(p), np.concatenate(pieces), *pieces, dims="known")


def test_stack() -> None:
    a, b = X, X + 10
    for axis in (0, 1, -1, -2):
        agrees(lambda x, y, axis=axis: stack([x, y], axis=axis), np.stack([a, b], axis), a, b)
    agrees(lambda x, y: stack([x, y])[1], np.array(2.0), np.array(1.0), np.array(2.0))


def test_split() -> None:
    agrees(lambda x: split(x, 2, axis=-1), np.split(X, 2, -1), X)
    agrees(lambda x: split(x, [1, 3, 9], axis=2), np.split(X, [1, 3, 9], 2), X)
    agrees(lambda x: split(x, [-1], axis=1), np.split(X, [-1], 1), X)
    with Recorder() as graph:
        with pytest.raises(ShapeError, match="equal parts"):
            split(placeholder((3,)), 2)
        x = placeholder((None,), "float64")
        halves = split(x, 2)
    with pytest.raises(ShapeError):
        Run(graph, {x: np.zeros(3)})[halves[0]]


def test_flip() -> None:
    flip = surface_function("flip")
    for axis in (None, 1, (0, 2)):
        agrees(lambda x, axis=axis: flip(x, axis), np.flip(X, axis), X)
    agrees(lambda x: flip(x), np.zeros((0, 2)), np.zeros((0, 2)))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("width", [1, (1, 2), [(1, 0), (0, 2), (5, 7)], [(0, 0), (0, 0), (0, 0)]])
def test_pad(mode: str, width: Any) -> None:
    agrees(lambda x: pad(x, width, mode), np.pad(X, width, mode), X)


def test_pad_with_values_and_crops() -> None:
    agrees(lambda x: pad(x, 1, constant_values=7), np.pad(X, 1, constant_values=7), X)
    low = np.pad(X[:, :2], ((0, 0), (2, 0), (0, 0)), constant_values=-np.inf)
    with Recorder() as graph:
        x = placeholder(X.shape, "float64")
        y = pad(x, [(0, 0), (2, -1), (0, 0)], constant_values=-np.inf)
    np.testing.assert_array_equal(Run(graph, {x: X})[y], low)
    agrees(
        lambda x: pad(x, (-1, 2), "edge"), np.pad(np.arange(1.0, 5), (0, 2), "edge"), np.arange(5.0)
    )
    one = np.ones((1, 2))
    agrees(lambda x: pad(x, 3, "reflect"), np.pad(one, 3, "reflect"), one)
    ints = np.array([3, 4], np.uint8)
    agrees(lambda x: pad(x, 1, constant_values=200), np.pad(ints, 1, constant_values=200), ints)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_pad_of_nothing(shape: tuple[int, ...]) -> None:
    """What there is no element for is the value of the margin, not 0."""
    empty = np.zeros(shape)
    margin = np.pad(empty, 2, constant_values=7)
    agrees(lambda x: pad(x, 2, constant_values=7), margin, empty)
    width = [(0, 0)] * (len(shape) - 1) + [(0, 1)]
    last = np.pad(empty, width, constant_values=7)
    joined = np.concatenate([last, empty], axis=-1)
    agrees(
        lambda x: concatenate([pad(x, width, constant_values=7), x * 2], axis=-1), joined, empty
    )


def test_pad_by_dims_of_unknown_sign() -> None:
    for size in (3, 5, 8):
        array = np.arange(1.0, size + 1)
        wanted = np.concatenate([array, np.zeros(5)])[:5]
        agrees(lambda x: pad(x, [(0, 5 - x.shape[0])]), wanted, array)


def test_pad_that_cannot_be() -> None:
    with Recorder() as graph:
        for arguments in ((((1, 2, 3),),), (-3,), (1, "edge"), (1.5,)):
            with pytest.raises(ShapeError):
                pad(placeholder((0, 2)), *arguments)
        with pytest.raises(UnsupportedError):
            pad(placeholder((2,)), 1, "wrap")
        with pytest.raises(GraphcError):
            pad(placeholder((2,), "uint8"), 1, constant_values=300)
        x = placeholder((None,), "float64")
        y = pad(x, 1, "edge")
    with pytest.raises(ShapeError):
        Run(graph, {x: np.zeros(0)})[y]


def test_methods_of_values() -> None:
    generator = np.random.default_rng(7)
    x = generator.standard_normal((1, 3, 2))
    for function in (
        lambda v: v.cumprod(1),
        lambda v: v.swapaxes(0, 2),
        lambda v: v.squeeze(0),
        lambda v: v.ravel(),
        lambda v: v.take([1, 0], axis=1),
        lambda v: v.repeat(2, axis=2),
        lambda v: v.round(),
    ):
        agrees(function, function(x), x)
