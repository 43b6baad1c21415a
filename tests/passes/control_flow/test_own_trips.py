"""Loops that lanes leave one by one: numbers are those of loops in which all lanes go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits
from own_trip_programs import own_trip_loop, own_trips
from slow_parameters import slow_unless
from test_fuse_loops import OFF, kernels, loops, reason, run_both

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.ir.dtypes import DType, bfloat16, bool_, float32, float64
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.interp import run_kernel
from graphc.ops.lane_loops import ALIKE, COUNTED

TRIPS = 40
Body = Callable[..., Any]


def escape(shape: Any, dtype: str = "float64", trips: int = TRIPS) -> list[gx.Value]:
    """How long points stay within a circle, by a bool that is carried."""
    x, y = gx.placeholder(shape, dtype, name="x"), gx.placeholder(shape, dtype, name="y")

    def step(i: gx.Value, a: Any, b: Any, inside: Any, count: Any) -> Any:
        moved = a * a - b * b + x, 2 * a * b + y
        a, b = (gx.where(inside, new, old) for new, old in zip(moved, (a, b), strict=True))
        inside = a * a + b * b <= 4
        return i + 1, a, b, inside, count + inside

    start = (0, gx.zeros_like(x), gx.zeros_like(x), gx.ones(x.shape, "bool"),
             gx.zeros(x.shape, "int32"))  # fmt: skip
    found = gx.while_loop(
        lambda i, a, b, inside, count: gx.logical_and(i < trips, gx.any(inside)), step, start
    )
    return [x, y, *found[1:]]


def root(shape: Any, dtype: str = "float64") -> list[gx.Value]:
    """Square roots by Newton's method, as long as an error is large, which the condition works
    out."""
    x = gx.placeholder(shape, dtype, name="x")

    def is_far(guess: gx.Value) -> gx.Value:
        return gx.abs(guess * guess - x) > 1e-3 * x

    def step(i: gx.Value, guess: gx.Value, steps: gx.Value) -> Any:
        far = is_far(guess)
        better = 0.5 * (guess + x / guess)
        return i + 1, gx.where(far, better, guess), gx.where(far, steps + 1, steps)

    found = gx.while_loop(
        lambda i, guess, steps: gx.logical_and(i < TRIPS, gx.any(is_far(guess))),
        step,
        (0, x, gx.zeros(x.shape, "int64")),
    )
    return [x, *found[1:]]


def points(shape: Any, dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Points some of which escape at once, some never, and some are no numbers."""
    values = np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype)
    flat = values.reshape(-1)
    special = [np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324, 1e-40, 1e308, 3.0]
    with np.errstate(all="ignore"):
        special = np.array(special).astype(dtype)
    flat[: min(len(special), flat.size // 2)] = special[: flat.size // 2]
    return values


@slow_unless(lambda shape, dtype: dtype == "float64" or shape == (67,))
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("shape", [(1,), (5,), (67,), (3, 21), (0,), (2, 0), (130,)], ids=str)
def test_lanes_escape_one_by_one(shape: tuple[int, ...], dtype: str) -> None:
    with gx.Graph():
        x, y, *fetches = escape(shape, dtype)
    executable = run_both(fetches, {x: points(shape, dtype), y: points(shape, dtype, 1)})
    assert not loops(executable)
    assert len(kernels(executable)) == 1


@pytest.mark.parametrize("known", [True, False])
def test_the_condition_may_work_out_whether_lanes_go_on(known: bool) -> None:
    values = np.abs(points((77,), "float64")) + 1e-3
    with gx.Graph():
        x, *fetches = root((77,) if known else (None,))
    executable = run_both(fetches, {x: values})
    assert not loops(executable)
    with gx.Session(x.graph) as session:
        guess, steps = session.run(fetches, {x: values})
    # what is no number is never far
    finite = np.isfinite(values) & (values < 1e30)
    np.testing.assert_allclose(guess[finite], np.sqrt(values[finite]), rtol=1e-3)
    assert steps.min() == 0 < steps[finite].min() < steps[finite].max()


@pytest.mark.parametrize("sizes", [(0, 4), (3, 1), (9, 33)])
def test_lanes_of_unknown_sizes(sizes: tuple[int, int]) -> None:
    with gx.Graph():
        x, y, *fetches = escape(("m", "n"))
    given = points(sizes, "float64")
    assert not loops(run_both(fetches, {x: given, y: given[:, ::-1].copy()}))


def test_lanes_are_shared_by_threads() -> None:
    with gx.Graph():
        x, y, *fetches = escape((301, 67), trips=200)
    given = points((301, 67), "float64")
    run_both(fetches, {x: given, y: points((301, 67), "float64", 1)}, threads=2)


def _loop(step: Body, goes: Body | None = None, start: Any = None, more: Any = ()) -> list[Any]:
    """``while i < TRIPS and any(goes)`` of ``step(i, x, goes)``, with further variables."""
    x = gx.placeholder((19,), "float64", name="x")
    first = (0, x, gx.ones((19,), "bool") if start is None else start(x), *more)
    told = goes or (lambda i, x, goes, *more: gx.any(goes))
    found = gx.while_loop(lambda i, *v: gx.logical_and(i < TRIPS, told(i, *v)), step, first)
    return [x, *found]


STAYING: dict[str, tuple[Callable[[], list[Any]], slice, str]] = {
    "a lane that is done moves on": (
        lambda: _loop(lambda i, x, goes: (i + 1, x * 0.7, x > 0.1)), slice(2, 3), ALIKE,
    ),
    "lanes are done before they begin": (
        lambda: _loop(
            lambda i, x, goes: (i + 1, gx.where(goes, x * 0.7, x), gx.where(goes, x, x) > 0.1),
            start=lambda x: x > 0.5,
        ),
        slice(2, 4), ALIKE,
    ),
    "a limit moves": (
        lambda: _loop(lambda i, x, goes: (
            i + 1, gx.where(goes, x * 0.9, x), gx.where(goes, x * 0.9, x) > 0.1 + 0.01 * i
        )),
        slice(2, 3), ALIKE,
    ),
    "zero is added": (
        lambda: _loop(lambda i, x, goes: (i + 1, x + gx.where(goes, -0.1, 0.0), x > 0.1)),
        slice(2, 3), ALIKE,
    ),
    "all lanes must go on": (
        lambda: _loop(
            lambda i, x, goes: (i + 1, gx.where(goes, x * 0.9, x), gx.where(goes, x, x) > 0.1),
            lambda i, x, goes: gx.all(goes),
        ),
        slice(2, 3), ALIKE,
    ),
    "trips are counted": (
        lambda: _loop(lambda i, x, goes: (
            i + 1, gx.where(goes, x * 0.9, x), gx.where(goes, x * 0.9, x) > 0.1
        )),
        slice(1, 4), COUNTED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYING)
def test_other_loops_stay(name: str) -> None:
    make, chosen, why = STAYING[name]
    with gx.Graph():
        made = make()
    values = np.abs(points((19,), "float64"))
    executable = run_both(made[chosen], {made[0]: values})
    assert reason(executable) == why
    assert loops(executable)


def test_what_is_not_counted_is_one_launch() -> None:
    make, _, _ = STAYING["trips are counted"]
    with gx.Graph():
        x, _, *fetches = make()
    assert not loops(run_both(fetches, {x: np.abs(points((19,), "float64"))}))


def test_scalars_move_on_where_kernels_are_checked() -> None:
    with gx.Graph():
        x = gx.placeholder((19,), "float64")

        def step(i: Any, value: Any, rate: Any) -> Any:
            return i + 1, gx.where(value < 4, value + rate, value), rate * 1.5

        found = gx.while_loop(
            lambda i, value, rate: gx.logical_and(i < 9, gx.any(value < 4)), step, (0, x, 0.5)
        )
    executable = run_both(found[1:2], {x: points((19,), "float64")}, check=True)
    assert own_trips(executable)


BEGINNING: dict[str, tuple[tuple[int, ...], Callable[[], Any]]] = {
    "an array": ((19,), lambda: np.ones(19, "bool")),
    "an array of one": ((1,), lambda: np.ones(1, "bool")),
    "rows of an array": ((3, 5), lambda: gx.broadcast_to(np.ones(5, "bool"), (3, 5))),
    "a column": ((3, 5), lambda: gx.broadcast_to(np.ones((3, 1), "bool"), (3, 5))),
    "another shape": ((19,), lambda: gx.ones((19, 1), "bool").reshape((19,))),
}


@pytest.mark.parametrize("name", BEGINNING)
def test_all_lanes_begin_however_that_is_spelled(name: str) -> None:
    shape, start = BEGINNING[name]
    with gx.Graph():
        x = gx.placeholder(shape, "float64")

        def step(i: Any, value: Any, goes: Any) -> Any:
            value = gx.where(goes, value * 0.7, value)
            return i + 1, value, value > 0.1

        found = gx.while_loop(
            lambda i, value, goes: gx.logical_and(i < TRIPS, gx.any(goes)), step, (0, x, start())
        )
    assert not loops(run_both(found[1:], {x: np.abs(points(shape, "float64"))}))


def test_equal_numbers_in_pieces_of_other_sizes_are_other_limits() -> None:
    with gx.Graph():
        a, b = gx.placeholder(("m",), "float64"), gx.placeholder(("n",), "float64")

        def limits(*sizes: Any) -> gx.Value:
            return gx.concatenate([gx.zeros(sizes[0], "float64"), gx.ones(sizes[1], "float64")])

        found = gx.while_loop(
            lambda i, x: gx.logical_and(i < TRIPS, gx.any(x > limits(a.shape, b.shape))),
            lambda i, x: (i + 1, gx.where(x > limits(b.shape, a.shape), x * 0.9, x)),
            (0, gx.concatenate([a, b])),
        )
    values = np.linspace(0.1, 0.9, 60)
    executable = run_both(found[1:], {a: values[:20], b: values[20:]})
    assert reason(executable) == ALIKE


def _check_random(seed: int, **options: Any) -> bool:
    """Whether lanes of a random program run trips of their own, whose bits are as they were."""
    shapes = [(1,), (5,), (64,), (67,), (3, 5), (0,), (2, 0), (130,), (9, 33)]
    program = own_trip_loop(np.random.default_rng(seed), shapes[seed % len(shapes)])
    with gx.Session(program.fetches[0].graph, options=OFF) as session:
        expected = session.run(program.fetches, program.feeds)
    with gx.Session(program.fetches[0].graph, options=gx.Options(**options)) as session:
        executable = session.compile(program.fetches)
        found = session.run(program.fetches, program.feeds)
    for one, other in zip(found, expected, strict=True):
        assert_same_bits(one, other, program.fault)
    return own_trips(executable) > 0


def test_random_loops_with_any() -> None:
    assert sum(_check_random(seed, threads=1 + seed % 2) for seed in (1, 2, 3, 8, 9, 10)) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(11, 200))
def test_many_random_loops_with_any(seed: int) -> None:
    _check_random(seed, threads=1 + seed % 2, optimize=2 * (seed % 3 > 0))


@pytest.mark.parametrize("dtype", [float64, bfloat16], ids=str)
def test_a_kernel_may_not_change_a_lane_that_is_done(dtype: DType) -> None:
    def kernel(keeps: bool) -> Any:
        b = KernelBuilder("halves")
        x = b.buffer("x", "in", TensorType(dtype, (4,)))
        y = b.buffer("y", "out", TensorType(dtype, (4,)))
        wide = float32 if dtype is bfloat16 else dtype
        least, half = b.constant(1.0, wide), b.constant(0.5, wide)
        with b.loop(4, "vector") as lane:
            start = (b.load(x, lane.index), b.constant(True, bool_))
            with b.loop(9, "serial", start) as trip:
                value, lasts = trip.arguments
                moved = b.cast(b.apply("multiply", b.cast(value, wide), half), dtype)
                moved = b.apply("select", lasts, moved, value) if keeps else moved
                trip.lasts = lasts
                trip.following = (moved, b.apply("greater", b.cast(moved, wide), least))
            b.store(y, lane.index, trip.results[0])
        return b.finish()

    values, found = np.array([1.5, 3, 40, np.nan]).astype(dtype.numpy), np.zeros(4, dtype.numpy)
    run_kernel(kernel(True), [values, found], {})
    np.testing.assert_array_equal(found.astype("float64"), [0.75, 0.75, 0.625, np.nan])
    with pytest.raises(VerifyError, match="it changes what it has ended with"):
        run_kernel(kernel(False), [values, found], {})
