"""Kernels of several loop nests as several launches: where they are cut, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.target import host
from graphc.base.tuning.sharing import SharingTuning
from graphc.base.tuning.tasks import TaskTuning
from graphc.ir.dims.expressions import ceil_div, evaluate, symbol
from graphc.ir.dtypes import float32, int64
from graphc.ir.types import TensorType
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.interp import run_kernel
from graphc.kernel.ir import Kernel
from graphc.kernel.verify import verify_kernel
from graphc.lower.launch_fission import Member, Series, series_of

pytestmark = pytest.mark.check_mode

Array = np.ndarray[Any, Any]
SIZE = 50


@pytest.fixture(autouse=True)
def _everything_is_worth_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskTuning, "serial_work", 1)


def scaled_by_sum(b: KernelBuilder, n: Any) -> None:
    """y = x · sum of x, z = sum + 1."""
    x, y, z = (
        b.buffer(name, "in" if name == "x" else "out", TensorType(float32, shape))
        for name, shape in (("x", (n,)), ("y", (n,)), ("z", ()))
    )
    with b.reduce(n, "lanes") as scope:
        scope.terms.append(("add", b.load(x, scope.index)))
    (total,) = scope.results
    b.store(z, b.dim(0), b.apply("add", total, b.constant(1, float32)))
    with b.loop(n, "vector") as loop:
        b.store(y, loop.index, b.apply("multiply", b.load(x, loop.index), total))


def through_scratch(b: KernelBuilder, n: Any) -> None:
    """scratch = x + 1, y = reversed scratch, both by loops that threads can share."""
    x = b.buffer("x", "in", TensorType(float32, (n,)))
    y = b.buffer("y", "out", TensorType(float32, (n,)))
    room = b.buffer("room", "scratch", TensorType(float32, (n,)))
    with b.loop(n, "vector") as loop:
        b.store(room, loop.index, b.apply("add", b.load(x, loop.index), b.constant(1, float32)))
    with b.loop(n, "vector") as loop:
        last = b.apply("subtract", b.dim(n), b.constant(1, int64))
        b.store(y, loop.index, b.load(room, b.apply("subtract", last, loop.index)))


def two_halves(b: KernelBuilder, n: Any) -> None:
    """y is x, and then -x."""
    x = b.buffer("x", "in", TensorType(float32, (n,)))
    y = b.buffer("y", "out", TensorType(float32, (2 * n,)))
    for number in range(2):
        with b.loop(n, "vector") as loop:
            value = b.load(x, loop.index)
            value = b.apply("negative", value) if number else value
            b.store(y, b.apply("add", loop.index, b.dim(n * number)), value)


def twice_over(b: KernelBuilder, n: Any) -> None:
    """y = x, then y = y + y, which reads what the first loop wrote."""
    x = b.buffer("x", "in", TensorType(float32, (n,)))
    y = b.buffer("y", "out", TensorType(float32, (n,)))
    with b.loop(n, "vector") as loop:
        b.store(y, loop.index, b.load(x, loop.index))
    with b.loop(n, "vector") as loop:
        value = b.load(y, loop.index)
        b.store(y, loop.index, b.apply("add", value, value))


def one_sum(b: KernelBuilder, n: Any) -> None:
    x = b.buffer("x", "in", TensorType(float32, (n,)))
    y = b.buffer("y", "out", TensorType(float32, ()))
    with b.reduce(n, "lanes") as scope:
        scope.terms.append(("add", b.load(x, scope.index)))
    b.store(y, b.dim(0), scope.results[0])


Making = Callable[[KernelBuilder, Any], None]


def built(make: Making, n: Any = SIZE) -> Kernel:
    b = KernelBuilder("k")
    make(b, n)
    return b.finish()


def run(series: Series, x: Array) -> list[Array]:
    """What the launches write to the outputs, one after the other."""
    dims = {"n": x.size}
    given = [buffer for buffer in series.whole.buffers if not buffer.is_room]
    arrays = [
        np.full([evaluate(dim, dims) for dim in buffer.type.shape], 7, np.float32)
        for buffer in (*given, *series.rooms)
    ]
    arrays[0] = x
    for member in series.members:
        verify_kernel(member.kernel)
        needed = {name: dims[name] for name in member.kernel.dims}
        run_kernel(member.kernel, [arrays[place] for place in member.places], needed)
    return arrays[1 : len(given)]


@pytest.mark.parametrize(
    ("make", "splits", "handed"),
    [
        (scaled_by_sum, [False, True], 1),
        (through_scratch, [True, True], 1),
        (two_halves, [True, True], 0),
        (twice_over, [False], 0),
        (one_sum, [False], 0),
    ],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_launches(make: Making, splits: list[bool], handed: int, symbolic: bool) -> None:
    whole = built(make, symbol("n") if symbolic else SIZE)
    series = series_of(whole)
    assert [member.kernel.split is not None for member in series.members] == splits
    assert len(series.handed) == handed
    x = np.random.default_rng(1).normal(size=SIZE).astype(np.float32)
    rooms = tuple(buffer for buffer in whole.buffers if buffer.is_room)
    alone = Series(whole, (Member(whole, tuple(range(len(whole.buffers)))),), rooms)
    for got, wanted in zip(run(series, x), run(alone, x), strict=True):
        assert got.tobytes() == wanted.tobytes()


def test_roles_of_what_is_handed_on() -> None:
    first, second = (m.kernel for m in series_of(built(through_scratch)).members)
    assert [buffer.role for buffer in first.buffers] == ["in", "out"]
    assert [buffer.role for buffer in second.buffers] == ["out", "in"]
    roles = [[b.role for b in m.kernel.buffers] for m in series_of(built(two_halves)).members]
    assert roles == [["in", "part"], ["in", "part"]]


def test_small_kernels_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskTuning, "serial_work", 10**12)
    for make in (scaled_by_sum, through_scratch, two_halves):
        assert len(series_of(built(make)).members) == 1


def test_one_likely_block_is_not_worth_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_blocks(b: KernelBuilder, n: Any) -> None:
        """y = x · sum of x, by blocks of 5000."""
        x = b.buffer("x", "in", TensorType(float32, (n,)))
        y = b.buffer("y", "out", TensorType(float32, (n,)))
        with b.reduce(n, "lanes") as scope:
            scope.terms.append(("add", b.load(x, scope.index)))
        with b.loop(ceil_div(n, 5000), "parallel") as block:
            first = b.apply("multiply", block.index, b.dim(5000))
            held = b.apply("minimum", b.dim(5000), b.apply("subtract", b.dim(n), first))
            with b.loop(held, "vector") as loop:
                place = b.apply("add", first, loop.index)
                b.store(y, place, b.apply("multiply", b.load(x, place), scope.results[0]))

    assert len(series_of(built(in_blocks, symbol("n"))).members) == 1
    monkeypatch.setattr(SharingTuning, "large_size", 20_000)
    assert len(series_of(built(in_blocks, symbol("n"))).members) == 2


def test_what_is_handed_on_is_a_temporary_of_the_plan() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((300_000,), name="x")
        y = gx.softmax(x)
        z = gx.concatenate([x, -x]) * 2.0
    exe = gx.Session(graph, threads=2, target=host()).compile([y, z], [x])
    plan = exe.compiled.plan
    assert any(slot.kind == "temporary" and "handed" in slot.name for slot in plan.slots)
    array = np.random.default_rng(2).normal(size=300_000).astype(np.float32)
    alone = gx.Session(graph, threads=1).compile([y, z], [x])(array)
    for got, wanted in zip(exe(array), alone, strict=True):
        assert got.tobytes() == wanted.tobytes()
