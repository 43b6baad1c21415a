"""Timing the kernels of a program, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from report_harness import small_model

import graphc as gx

# --- timing kernels ------------------------------------------------------------------------------


def test_profile_names_kernels_and_launches() -> None:
    exe = small_model()
    profile = exe.profile(np.ones((4, 16), "float32"), runs=3)
    assert profile is exe.last_profile
    assert profile.runs == 3
    assert profile.sizes == {"batch": 4}
    assert {time.kernel for time in profile.kernels} <= set(range(-1, len(exe.kernels)))
    assert all(time.seconds > 0 and time.launches >= 1 for time in profile.kernels)
    assert sum(time.share for time in profile.kernels) == pytest.approx(1)
    names = [exe.kernels[time.kernel].name for time in profile.kernels if time.kernel >= 0]
    assert all(name in str(profile) for name in names)
    rows = [line.split()[:2] for line in str(profile).splitlines()[1:]]
    assert [[str(time.kernel), time.name] for time in profile.kernels if time.kernel >= 0] == [
        row for row in rows if row[0].isdigit()
    ]


def test_stepwise_runs_give_the_same_bits_through_branches_and_loops() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        count, total = gx.while_loop(
            lambda count, total: count < 5,
            lambda count, total: (
                count + 1,
                gx.cond(count > 2, lambda: total * x, lambda: total + x),
            ),
            (gx.constant(0), x),
        )
    exe = gx.Session(graph).compile([count, total], [x])
    program = exe.compiled.program
    for seed in range(3):
        array = np.random.default_rng(seed).normal(size=3).astype("float32")
        seen: list[int] = []
        expected = program.run([array])
        actual = program.run([array], observer=lambda position, _, seen=seen: seen.append(position))
        for one, other in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(seen) > len(set(seen)), "the loop's body ran several times"


@pytest.mark.parametrize("count", [3, 1 << 16])
def test_profiling_changes_no_variable(count: int) -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.zeros(count, "float32"), name="v")
        w = gx.variable(np.zeros(count, "float32"), name="w")
        step = [v.assign_add(1.0), w.assign(v * 2.0)]
    session = gx.Session(graph)
    exe = session.compile(step)
    assert (exe.compiled.program.plan.commit is not None) == (count > 3)
    for _ in range(2):
        exe.profile(runs=2)
        np.testing.assert_array_equal(session.get(v), np.zeros(count))
        np.testing.assert_array_equal(session.get(w), np.zeros(count))
    np.testing.assert_array_equal(exe()[0], np.ones(count))


def test_profile_raises_what_a_run_raises() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4,), name="x")
        i = gx.placeholder((2,), "int64", name="i")
        y = gx.tanh(gx.take(x, i, axis=0)) + 1.0
    exe = gx.Session(graph).compile(y, [x, i])
    with pytest.raises(gx.IndexRangeError):
        exe.profile(np.ones(4, "float32"), np.array([0, 4]))
    exe.profile(np.ones(4, "float32"), np.array([0, 3]))
    with pytest.raises(gx.GraphError, match="runs=0"):
        exe.profile(np.ones(4, "float32"), np.array([0, 3]), runs=0)
    with pytest.raises(gx.FeedError):
        exe.profile()
