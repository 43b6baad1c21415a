"""Programs in memory: addresses of arrays, shared kernels, frames, how long placing takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from at_once import at_once

import graphc as gx
from graphc.base.errors import IndexRangeError
from graphc.ir.dims.magnitude import may_exceed
from graphc.plan.ir import Launch
from graphc.plan.memory import Buffer, MemoryProblem
from graphc.runtime import address
from graphc.runtime import program as program_module
from graphc.runtime.program import MAX_BINDINGS
from passes.memory.planner import solve


def _arrays() -> list[Any]:
    whole = np.arange(60.0).reshape(5, 12)
    return [whole, whole[2:, ::-3], whole.T, whole[1:1], np.array(3), np.frombuffer(b"abcd", "u1")]


@pytest.mark.parametrize(
    "way", [address.address_of, address.documented_address], ids=["chosen", "documented"]
)
def test_addresses_are_those_of_the_first_elements(way: Callable[[Any], int]) -> None:
    for array in _arrays():
        assert way(array) == array.ctypes.data


@pytest.mark.skipif(not address.can_read_directly(), reason="arrays of another layout")
def test_direct_addresses_are_right_where_they_are_used() -> None:
    assert address.address_of is address.direct_address
    for array in _arrays():
        assert address.direct_address(array) == array.ctypes.data


def test_wrong_direct_addresses_are_found_out() -> None:
    right = address.documented_address
    assert not address.can_read_directly(lambda array: right(array) + 8)
    # right for the arrays that own their elements only
    assert not address.can_read_directly(lambda array: right(array) if array.base is None else 0)


def test_other_interpreters_get_the_documented_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(array: object) -> int:
        raise AssertionError("nothing may be read at an id that is no address")

    with monkeypatch.context() as patch:
        patch.setattr(sys.implementation, "name", "pypy")
        readable = address.can_read_directly(never)
    assert not readable


def test_equal_nodes_share_a_kernel() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((4, 4), name="x")
        y = x
        for _ in range(6):
            y = gx.tanh(y @ y)
    exe = gx.Session(g).compile(y, [x])
    steps = [step for step in exe.compiled.plan.steps if isinstance(step, Launch)]
    assert (len(steps), len(exe.kernels)) == (6, 1)


def test_sizes_of_other_names_are_not_shared() -> None:
    with gx.Graph() as g:
        a = gx.placeholder(("n",), name="a")
        b = gx.placeholder(("m",), name="b")
        total = gx.exp(a), gx.exp(b)
    exe = gx.Session(g).compile(total, [a, b])
    one, two = exe(np.zeros(3, "f4"), np.zeros(5, "f4"))
    assert (one.shape, two.shape) == ((3,), (5,))
    np.testing.assert_array_equal(two, np.ones(5, "f4"))


def test_failed_checks_of_equal_nodes_name_their_own_lines() -> None:
    with gx.Graph() as g:
        table = gx.placeholder((8,), name="table")
        one = gx.placeholder((2,), "int64", name="one")
        two = gx.placeholder((2,), "int64", name="two")
        first = gx.take(table, one)
        second = gx.take(table, two)
    exe = gx.Session(g).compile([first, second], [table, one, two])
    lines = []
    for wrong in ([[9, 0], [0, 0]], [[0, 0], [9, 0]]):
        with pytest.raises(IndexRangeError) as caught:
            exe(np.zeros(8, "f4"), *map(np.array, wrong))
        assert caught.value.where is not None
        lines.append(caught.value.where.line)
    assert lines[1] == lines[0] + 1


def test_only_so_many_bindings_keep_their_frames() -> None:
    with gx.Graph() as g:
        x = gx.placeholder(("n",), name="x")
        y = (x * 2).sum() + x
    exe = gx.Session(g).compile(y, [x])
    for size in range(MAX_BINDINGS + 10):
        np.testing.assert_array_equal(exe(np.ones(size, "f4")), np.full(size, 2.0 * size + 1))
    assert len(exe.compiled.program._bounds) == MAX_BINDINGS


def test_threads_have_frames_of_their_own() -> None:
    with gx.Graph() as g:
        x = gx.placeholder(("n", "n"), name="x")
        y = gx.tanh(x @ x) @ x
    exe = gx.Session(g).compile(y, [x])
    inputs = [np.full((size, size), 0.01 * size, "f4") for size in (3, 17, 40, 40)]
    expected = [exe(array) for array in inputs]

    def work(number: int) -> None:
        for _ in range(50):
            assert np.array_equal(exe(inputs[number]), expected[number]), number

    at_once(*(partial(work, number) for number in range(len(inputs))))


def test_the_search_spends_what_a_byte_is_worth() -> None:
    random = np.random.default_rng(4)
    buffers = []
    for number in range(120):
        start, length, size = (int(random.integers(0, high)) for high in (60, 25, 5000))
        buffers.append(Buffer(f"b{number}", size + 1, start, start + length + 1))
    problem = MemoryProblem(tuple(buffers))
    greedy = solve(problem, slack=0.0, effort=0)
    gap = greedy.peak - greedy.lower_bound
    assert gap > 0
    assert solve(problem, slack=0.0, effort_per_byte=0) == greedy
    for worth in (10, 1000):
        spent = solve(problem, slack=0.0, effort_per_byte=worth)
        assert greedy.lower_bound <= spent.peak <= greedy.peak
        assert spent.steps - greedy.steps <= worth * gap * 2
    assert spent.steps > greedy.steps


def test_idle_arenas_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "MAX_IDLE_BYTES", 1 << 20)
    with gx.Graph() as graph:
        x = gx.placeholder((None, 64), name="x")
        y = (x @ gx.constant(np.eye(64, dtype=np.float32))).sum()
    session = gx.Session(graph)
    for rows in range(1000, 1020):
        fed = np.ones((rows, 64), np.float32)
        assert session.run(y, {x: fed}) == rows * 64
    program = session.compile(y, [x]).compiled.program
    assert program._idle_bytes() < 2 << 20


def test_a_guard_of_the_plan_may_divide_by_what_is_zero_where_it_asks_nothing() -> None:
    """Its parts have no value at an empty axis; the tables of a run do not need them."""
    with gx.Graph() as graph:
        x, w = (gx.placeholder((None, None), name=name) for name in "xw")
        slope = gx.gradients(gx.sum(x * w), x)
    empty = np.zeros((2, 0), np.float32)
    assert gx.Session(graph).run(slope, {x: empty, w: empty}).shape == (2, 0)


@pytest.mark.parametrize("times", [2**62, 2**59])
def test_sizes_that_64_bits_do_not_hold(times: int) -> None:
    """Of the result, or of its bytes; what is known when the graph is built is refused then."""
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64")
        y = gx.repeat(x, times)
    session = gx.Session(graph)
    with pytest.raises(gx.ShapeError, match="these sizes are too large") as caught:
        session.run(y, {x: [1.0, 2.0, 3.0]})
    assert caught.value.where is not None
    assert "is 3" in str(caught.value)
    assert session.run(y, {x: []}).shape == (0,)


LARGE: dict[str, Callable[[gx.Value, Any], gx.Value]] = {
    "where a slice begins": lambda x, n: x[(n * 2**40) * (n * 2**40) - 5 :: -1],
    "by how much rows turn": lambda x, n: gx.roll(x, n * 2**62 + 1),
    "which diagonal": lambda x, n: gx.tri(n, n, n * 2**61) @ x,
    "an end that another one limits": lambda x, n: x[: n * n * 2**61],
}


@pytest.mark.parametrize("carrier", ["session", "cached", "library"])
@pytest.mark.parametrize("name", LARGE)
def test_places_that_64_bits_do_not_hold(name: str, carrier: str, tmp_path: Path) -> None:
    """What a kernel computes of sizes is checked, too, where no array is as large."""
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64", name="x")
        y = LARGE[name](x, x.shape[0])
    options = gx.Options(cache=str(tmp_path / "cache") if carrier == "cached" else "off")
    for _ in range(1 + (carrier == "cached")):
        run: Any = gx.Session(graph, options=options).compile([y], [x])
        if carrier == "library":
            gx.aot.compile(run, tmp_path / "library", kind="package")
            run = gx.aot.load(tmp_path / "library")
        with pytest.raises(gx.ShapeError, match="these sizes are too large"):
            run(np.arange(5.0))
        assert np.size(run(np.zeros(0))[0]) == 0


def test_sums_of_sizes_of_arrays_are_not_reckoned() -> None:
    with gx.Graph():
        b, n, m = gx.placeholder((None, None, None)).shape
    assert may_exceed([n * m, 4 * n * m + n, n + 3, b * 1000], [b * n * m]) == ()
    assert may_exceed([n * m], [b * n]) == (n * m,)
    # a quotient may be of no value
    assert may_exceed([n * 2**40, n * 2**40 // m], [b]) == (n * 2**40,)
