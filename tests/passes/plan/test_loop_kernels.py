"""Loops whose trips do little, inside one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.errors import IndexRangeError
from graphc.base.tuning.fusion import FUSION
from graphc.plan.ir import Branch, Copy, Jump, Launch, Require
from passes.plan import loop_kernels as module

NAME = "loop_kernels"


def compiled(graph: gx.Graph, fetches: Any, feeds: Any, **options: Any) -> Any:
    given = gx.Options(**{"verify": True, "cache": "off", **options})
    return gx.Session(graph, options=given).compile(fetches, feeds)


def both(graph: gx.Graph, fetches: Any, feeds: Any, *arrays: Any, runs: int = 2) -> Any:
    """The program with loops as kernels; it gives the bits of the one without, on all levels."""
    exe = compiled(graph, fetches, feeds, check=True)
    plain = compiled(graph, fetches, feeds, off={NAME})
    assert not any("loop_" in kernel.name for kernel in plain.compiled.plan.kernels)
    for _ in range(runs):
        found, wanted = exe(*arrays), plain(*arrays)
        for one, other in zip(found, wanted, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    return exe


def enclosed(exe: Any) -> int:
    """How many loops are kernels."""
    return sum(d.rule == NAME and d.number > 0 for r in exe.passes for d in r.decisions)


def kalman(steps: int | str) -> tuple[gx.Graph, list[gx.Value], list[gx.Value], list[Any]]:
    """Small products, an inverse, rows read and written."""
    with gx.Graph() as graph:
        f = gx.placeholder((4, 4), "float64", "f")
        h = gx.placeholder((2, 4), "float64", "h")
        rows = gx.placeholder((steps, 2), "float64", "rows")

        def body(carry: Any, y: Any) -> Any:
            m, p = carry
            m, p = f @ m, f @ p @ gx.transpose(f, (1, 0)) + 0.01 * gx.eye(4, dtype="float64")
            s = h @ p @ gx.transpose(h, (1, 0)) + 0.1 * gx.eye(2, dtype="float64")
            k = p @ gx.transpose(h, (1, 0)) @ gx.linalg.inv(s)
            m = m + k @ (y - h @ m)
            return (m, p - k @ h @ p), m

        start = gx.constant(np.zeros(4)), gx.constant(np.eye(4))
        (m, p), states = gx.scan(body, start, rows)
    transition = np.eye(4)
    transition[0, 2] = transition[1, 3] = 0.1
    arrays = [transition, np.eye(2, 4), np.random.default_rng(0).normal(size=(50, 2))]
    return graph, [m, p, states], [f, h, rows], arrays


@pytest.mark.parametrize("steps", [50, "n"])
def test_a_filter_is_one_kernel(steps: int | str) -> None:
    graph, fetches, feeds, arrays = kalman(steps)
    exe = both(graph, fetches, feeds, *arrays)
    assert enclosed(exe) == 1
    plan = exe.compiled.plan
    if steps == "n":
        ((start, end),) = plan.loops
        # the kernel has seen to the condition, so the loop goes back to its branch
        branch, *required, launch, jump = plan.steps[start:end]
        assert all(isinstance(step, Require) for step in required)
        assert isinstance(branch, Branch) and isinstance(launch, Launch) and jump == Jump(start)
    else:
        # all trips are one launch, so that a call need not be interruptible
        assert not plan.loops
        launch = next(s for s in reversed(plan.steps) if isinstance(s, Launch))
    assert plan.kernels[launch.kernel].name.startswith("loop_")


def test_no_trips() -> None:
    graph, fetches, feeds, arrays = kalman("n")
    exe = both(graph, fetches, feeds, *arrays[:2], np.zeros((0, 2)))
    m, p, states = exe(*arrays[:2], np.zeros((0, 2)))
    assert np.array_equal(m, np.zeros(4)) and np.array_equal(p, np.eye(4))
    assert states.shape == (0, 4)


def small(body: Callable[..., Any], condition: Callable[..., Any], *start: Any) -> Any:
    with gx.Graph() as graph:
        values = [gx.placeholder(np.shape(each), str(np.asarray(each).dtype)) for each in start]
        fetches = list(gx.while_loop(condition, body, tuple(values)))
    return graph, fetches, values, start


def test_trips_that_depend_on_data() -> None:
    """The condition is a sum over what a trip has made."""
    graph, fetches, values, start = small(
        lambda n, x: (n + 1, (x @ x) * 0.5), lambda n, x: gx.sum(gx.abs(x)) > 1e-3,
        np.int64(0), np.random.default_rng(0).random((5, 5)) * 0.3,
    )  # fmt: skip
    exe = both(graph, fetches, values, *start)
    assert enclosed(exe) == 1
    assert exe(*start)[0] > 2


def test_a_kernel_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some trips it gives others a turn, and goes on where it was."""
    monkeypatch.setattr(module, "FUSION", FUSION._replace(loop_time=1))
    graph, fetches, feeds, arrays = kalman(50)
    exe = both(graph, fetches, feeds, *arrays)
    kernel = next(k for k in exe.compiled.plan.kernels if k.name.startswith("loop_"))
    assert kernel.body[-1].block.extent == 1


def test_long_trips_stay_launches() -> None:
    graph, fetches, values, start = small(
        lambda n, x: (n + 1, gx.tanh(x @ x)), lambda n, x: n < 3,
        np.int64(0), np.full((128, 128), 0.01),
    )  # fmt: skip
    assert not enclosed(both(graph, fetches, values, *start))


def test_trips_that_launch_nothing_stay_copies() -> None:
    """They only move variables on."""
    graph, fetches, values, start = small(
        lambda p, q: (q, np.False_), lambda p, q: p, np.True_, np.True_
    )
    exe = compiled(graph, fetches, values, check=True)
    copying = compiled(graph, fetches, values, off={"fuse_loops"})
    assert not enclosed(copying) and not copying.compiled.plan.kernels
    for each in (exe, copying):
        assert [bool(result) for result in each(*start)] == [False, False]


def test_values_that_move_on_and_neighbours() -> None:
    """Copies that no slot can be spared for are made in the kernel."""
    graph, fetches, values, start = small(
        lambda n, a, b: (n + 1, b, a[::-1] * 0.5 + gx.cumsum(b)), lambda n, a, b: n < 7,
        np.int64(0), np.arange(9.0), np.arange(9.0) - 3,
    )  # fmt: skip
    exe = both(graph, fetches, values, *start)
    assert enclosed(exe) == 1
    kernel = next(k for k in exe.compiled.plan.kernels if k.name.startswith("loop_"))
    ((first, end),) = exe.compiled.plan.loops
    assert not any(isinstance(step, Copy) for step in exe.compiled.plan.steps[first:end])
    assert all(buffer.role != "out" for buffer in kernel.buffers)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_complex_values_that_move_on(dtype: str, optimize: int) -> None:
    """Kernels see complex numbers as their parts, those that are copied too."""
    x = (np.arange(3) + 1j * np.arange(3)[::-1]).astype(dtype)
    for step in (lambda a: a, lambda a: gx.cumsum(a) * 0.5):
        for counted in (True, False):
            with gx.Graph() as graph:
                a, b = gx.placeholder((3,), dtype), gx.placeholder((3,), dtype)
                t = gx.placeholder((), "int64")
                swap = lambda i, s, step=step: (s[1], step(s[0]))  # noqa: E731
                last = gx.fori_loop(0, 5 if counted else t, swap, (a, b))
            exe = compiled(graph, [*last], [a, b, t], optimize=optimize)
            off = {NAME, "fuse_loops"}
            plain = compiled(graph, [*last], [a, b, t], optimize=optimize, off=off)
            assert enclosed(exe) == (optimize > 0)
            found, wanted = exe(x, x * 2, 5), plain(x, x * 2, 5)
            for one, other in zip(found, wanted, strict=True):
                assert one.tobytes() == other.tobytes()


def test_a_wrong_index_has_its_line() -> None:
    with gx.Graph() as graph:
        table = gx.placeholder((4, 3), "float64")
        places = gx.placeholder((6,), "int64")

        def body(carry: Any, place: Any) -> Any:
            row = gx.take(table, place, axis=0)
            return gx.cumsum(carry) + row, gx.sum(row)

        last, sums = gx.scan(body, gx.constant(np.zeros(3)), places)
    good = np.array([0, 3, -1, 2, 1, -4])
    exe = both(graph, [last, sums], [table, places], np.arange(12.0).reshape(4, 3), good)
    assert enclosed(exe) == 1
    bad = np.array([0, 3, -1, 2, 4, 0])
    with pytest.raises(IndexRangeError, match="index 4") as caught:
        exe(np.arange(12.0).reshape(4, 3), bad)
    assert "test_loop_kernels.py" in str(caught.value) and "gx.take" in str(caught.value)
    assert exe(np.arange(12.0).reshape(4, 3), good)[0].shape == (3,)


def test_a_loop_in_a_branch_in_a_loop() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((6, 6), "float64")

        def inner(y: Any) -> Any:
            return gx.fori_loop(0, 4, lambda i, z: gx.cumsum(z, axis=1) * 0.3 + z.T, y)

        def body(n: Any, y: Any) -> Any:
            return n + 1, gx.cond(gx.sum(y) > 0, lambda: inner(y), lambda: y * -1.0)

        _, last = gx.while_loop(lambda n, y: n < 5, body, (np.int64(0), x))
    exe = both(graph, [last], [x], np.random.default_rng(3).normal(size=(6, 6)))
    assert enclosed(exe) == 1


def test_gradients() -> None:
    graph, fetches, feeds, arrays = kalman(20)
    with graph:
        slopes = gx.gradients(gx.sum(fetches[2]), feeds[:2])
    exe = both(graph, [*slopes], feeds, arrays[0], arrays[1], arrays[2][:20])
    assert enclosed(exe) >= 2


def test_variables() -> None:
    """A loop that reads a variable, which is written behind it."""
    with gx.Graph() as graph:
        w = gx.variable(np.eye(4) * 0.5, name="w")
        x = gx.placeholder((4,), "float64", "x")
        last = gx.fori_loop(0, 9, lambda i, v: gx.cumsum(w @ v) * 0.4 + 0.1, x)
        update = w.assign_add(gx.reshape(last, (4, 1)) * x)
    session = gx.Session(graph, options=gx.Options(cache="off", verify=True))
    other = gx.Session(graph, options=gx.Options(cache="off", off={NAME}))
    assert enclosed(session.compile([last, update], [x])) == 1
    for _ in range(4):
        array = np.random.default_rng(1).random(4)
        one, two = (each.run([last, update], {"x": array})[0] for each in (session, other))
        assert one.tobytes() == two.tobytes()
    assert session.get(w).tobytes() == other.get(w).tobytes()


def test_fuel_ends_it() -> None:
    graph, fetches, feeds, arrays = kalman(10)
    exe = compiled(graph, fetches, feeds)
    number = next(d.number for r in exe.passes for d in r.decisions if d.rule == NAME)
    part = compiled(graph, fetches, feeds, fuel=number - 1)
    assert enclosed(exe) and not enclosed(part)
    arrays[2] = arrays[2][:10]
    for one, other in zip(exe(*arrays), part(*arrays), strict=True):
        assert one.tobytes() == other.tobytes()


def test_it_is_explained() -> None:
    graph, fetches, values, _ = small(
        lambda n, a, b: (n + 1, b, a[::-1] * 0.5 + gx.cumsum(b)), lambda n, a, b: n < 7,
        np.int64(0), np.arange(9.0), np.arange(9.0) - 3,
    )  # fmt: skip
    for off, expected in (set(), "the loop is one kernel"), ({NAME}, "3 blocks take turns"):
        told = compiled(graph, fetches, values, off=off).explain(fetches[1])
        assert expected in told.memory


def test_wholes_of_which_trips_make_parts() -> None:
    """Pieces of a concatenation, and the parts of complex numbers, are written one by one."""
    with gx.Graph() as graph:
        x = gx.placeholder((4, 4), "float32")
        z = gx.placeholder((3,), "complex128")
        pieces = gx.fori_loop(
            0, 5, lambda i, s: gx.cumsum(gx.concatenate([gx.tanh(s[2:]), s[:2] @ s]), 1), x
        )
        last = gx.fori_loop(0, 4, lambda i, s: gx.cumsum(s[::-1] * (1 + 0.5j)) * s, z)
    random = np.random.default_rng(0)
    array = random.normal(0, 0.3, (4, 4)).astype(np.float32)
    both(graph, [pieces, last], [x, z], array, random.normal(size=3) + 1j)
