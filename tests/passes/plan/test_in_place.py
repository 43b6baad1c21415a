"""Variables whose new values are written where the old ones lie, and runs that stay atomic."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from at_once import meanwhile
from renewals import addresses, commit_of, data

import graphc as gx
from graphc.base.errors import IndexRangeError, VerifyError
from graphc.plan.ir import ConcurrentGroup
from graphc.plan.printer import parse_plan, print_plan
from graphc.plan.verify import verify_plan
from passes.graph.order_variable_updates import order_variable_updates
from passes.infra.base import PassContext

pytestmark = pytest.mark.check_mode

SIZE = 1 << 15
"""Elements of a variable that is large enough: 128 KB."""


def perceptron(optimizer: Any) -> tuple[gx.Graph, list[Any], Any, list[Any]]:
    with gx.Graph() as graph:
        x = gx.placeholder(("batch", 96), name="x")
        labels = gx.placeholder(("batch",), "int64", name="labels")
        first, second = gx.variable(data(96, 160) * 0.1), gx.variable(data(160, 10) * 0.1)
        bias = gx.variable(np.zeros(160, np.float32))
        h = gx.nn.relu(x @ first + bias) @ second
        loss = gx.nn.softmax_cross_entropy(h, labels).mean()
        step = optimizer.minimize(loss)
        state = [v for node in graph.nodes for v in node.outputs if isinstance(v, gx.Variable)]
    return graph, [x, labels], [loss, step], state


@pytest.mark.parametrize(
    "optimizer",
    [gx.optim.SGD(0.1), gx.optim.SGD(0.1, momentum=0.9), gx.optim.Adam(1e-2), gx.optim.AdamW()],
    ids=lambda o: type(o).__name__ + ("-momentum" if getattr(o, "momentum", 0) else ""),
)
def test_training_has_the_bits_of_two_blocks(optimizer: Any) -> None:
    graph, feeds, fetches, state = perceptron(optimizer)
    x, labels = data(32, 96), np.arange(32) % 10
    found = []
    for off in (frozenset[str](), frozenset({"inplace"})):
        session = gx.Session(graph, options=gx.Options(off=off, cache="off"))
        executable = session.compile(fetches, feeds)
        assert (commit_of(executable) is None) == bool(off)
        losses = [executable(x, labels)[0].tobytes() for _ in range(6)]
        found.append((losses, [array.tobytes() for array in session.get(state)]))
        before = addresses(session, *state)
        executable(x, labels)
        assert (addresses(session, *state) == before) != bool(off)
        assert bool(session._holdings.spare) == bool(off)
    assert found[0] == found[1]


def test_a_failing_run_leaves_variables_as_they_were() -> None:
    graph, feeds, fetches, state = perceptron(gx.optim.Adam(1e-2))
    session = gx.Session(graph)
    executable = session.compile(fetches, feeds)
    x, labels = data(32, 96), np.arange(32) % 10
    for _ in range(4):
        executable(x, labels)
    before, places = session.get(state), addresses(session, *state)
    with pytest.raises(IndexRangeError):
        executable(x, labels + 5)
    with pytest.raises(gx.ShapeError):
        executable(x, labels[:7])
    assert all(map(np.array_equal, session.get(state), before))
    assert addresses(session, *state) == places
    executable(x, labels)
    assert not any(map(np.array_equal, session.get(state), before))


def test_what_may_fail_after_the_first_write_takes_turns() -> None:
    with gx.Graph() as graph:
        x, i = gx.placeholder((SIZE,), name="x"), gx.placeholder((), "int64", name="i")
        a, b = gx.variable(data(SIZE)), gx.variable(data(SIZE, seed=1))
        new_a = a.assign(a + gx.cumsum(x))
        new_b = b.assign(b + gx.take(gx.cumsum(new_a), i))
    session = gx.Session(graph)
    executable = session.compile([gx.group(new_a, new_b)], [x, i])
    kernels = executable.compiled.plan
    checks = [
        n for n, s in enumerate(kernels.steps) if kernels.kernels[getattr(s, "kernel", 0)].sites
    ]
    assert checks and commit_of(executable) is None
    executable(data(SIZE), 3)
    before = session.get([a, b])
    with pytest.raises(IndexRangeError):
        executable(data(SIZE), SIZE)
    assert all(map(np.array_equal, session.get([a, b]), before))


def test_a_swap_needs_both_blocks() -> None:
    with gx.Graph() as graph:
        a, b = gx.variable(data(SIZE)), gx.variable(data(SIZE, seed=1))
        swap = gx.group(a.assign(b), b.assign(a))
    session = gx.Session(graph)
    executable = session.compile(swap, [])
    assert commit_of(executable) is None
    first = session.get([a, b])
    for _ in range(3):
        executable()
    assert all(map(np.array_equal, session.get([b, a]), first))


def test_an_old_value_read_in_another_order_is_not_overwritten() -> None:
    with gx.Graph() as graph:
        a, b = gx.variable(data(160, 256)), gx.variable(data(256, 160, seed=1))
        step = gx.group(a.assign(b.T * 0.5), b.assign(a.T + b))
    session = gx.Session(graph)
    executable = session.compile(step, [])
    one, two = session.get([a, b])
    for _ in range(4):
        executable()
        one, two = two.T * np.float32(0.5), one.T + two
    assert np.array_equal(session.get(a), one) and np.array_equal(session.get(b), two)


def test_rows_that_are_read_for_each_of_their_elements_are_not_overwritten() -> None:
    """Of a variable, and of a temporary."""
    rows, others = data(200, 160), data(160, 160, seed=1)
    with gx.Graph() as graph:
        kept = gx.variable(rows)
        step = kept.assign(gx.max(gx.expand_dims(kept, 1) + others, axis=-1))
        sums = gx.cumsum(gx.constant(rows[:5]), axis=1)
        largest = gx.max(gx.expand_dims(sums, 1) + others, axis=-1)
        again = gx.cumsum(largest, axis=1)
    session = gx.Session(graph)
    for _ in range(3):
        rows = (rows[:, None] + others).max(-1)
        assert np.array_equal(session.run(step), rows)
    added, (in_turn, of_these) = session.run(again), session.run([sums, largest])
    assert np.array_equal(of_these, (in_turn[:, None] + others).max(-1))
    assert np.allclose(added, np.cumsum(of_these, axis=1), rtol=1e-4)


def test_what_is_only_written_lies_where_it_was_too() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((SIZE,), name="x")
        a, seen = gx.variable(data(SIZE)), gx.variable(np.zeros(SIZE, np.float32))
        step = gx.group(a.assign(a + x), seen.assign(gx.tanh(x)))
    session = gx.Session(graph)
    executable = session.compile(step, [x])
    assert commit_of(executable) is not None
    for n in range(4):
        executable(data(SIZE, seed=n))
    places = addresses(session, a, seen)
    executable(data(SIZE, seed=9))
    assert addresses(session, a, seen) == places
    assert np.allclose(session.get(seen), np.tanh(data(SIZE, seed=9)), atol=1e-6)


def test_small_variables_take_turns() -> None:
    with gx.Graph() as graph:
        a = gx.variable(np.zeros(8, np.float32))
        step = a.assign_add(1.0)
    assert commit_of(gx.Session(graph).compile(step, [])) is None


# --- sharing -------------------------------------------------------------------------------------


def counters() -> tuple[gx.Graph, Any, Any, Any]:
    with gx.Graph() as graph:
        a, b = (gx.variable(np.zeros(SIZE, np.float32), name=name) for name in "ab")
        step = gx.group(a.assign_add(1.0), b.assign_add(1.0))
    return graph, a, b, step


def test_readers_see_whole_runs_and_are_not_kept_waiting() -> None:
    graph, a, b, step = counters()
    session = gx.Session(graph)
    run = session.compile(step, [])
    assert commit_of(run) is not None
    with graph:
        spread = gx.max(gx.abs(a - b))
    read = session.compile(spread, [])
    seen: list[float] = []

    def copies() -> float:
        one, two = session.get([a, b])
        return float(abs(one - two).max() + np.ptp(one))

    with meanwhile(lambda: seen.append(copies()), lambda: seen.append(float(read()))):
        runs = 0
        while runs < 300 or len(seen) < 3:
            run()
            runs += 1
    assert not any(seen)
    assert session.get(a)[0] == runs


def test_what_somebody_holds_is_not_written_over() -> None:
    graph, a, b, step = counters()
    session = gx.Session(graph)
    run = session.compile(step, [])
    for _ in range(3):
        run()
    held = session._holdings.read([a])
    run()
    assert (held[0] == 3).all()
    assert (session.get(a) == 4).all() and (session.get(b) == 4).all()


def test_what_a_pickle_gave_is_not_written_over() -> None:
    """Arrays from one may lie in memory of ``bytes``, which must never change."""
    graph, _, _, step = counters()
    session = gx.Session(graph)
    session.run(step)
    other, again = pickle.loads(pickle.dumps((session, step), protocol=5))
    stored = [id(array) for array in other.holdings.values.values()]
    other.run(again)
    assert not {id(array) for array in other.holdings.values.values()} & {*stored}
    assert (other.get("a") == 2).all() and (session.get("a") == 1).all()


def test_values_that_were_set_are_copies_and_stay_in_place() -> None:
    graph, a, b, step = counters()
    session = gx.Session(graph)
    given = np.full(SIZE, 5, np.float32)
    session.set({a: given, b: given})
    places = addresses(session, a, b)
    session.run(step)
    session.run(step)
    session.run(step)
    assert addresses(session, a, b) == places
    assert (given == 5).all() and (session.get(a) == 8).all()
    assert (pickle.loads(pickle.dumps(session)).get("b") == 8).all()


def test_an_error_after_the_run_finds_all_new_values(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, a, b, step = counters()
    session = gx.Session(graph)
    run = session.compile(step, [])
    for _ in range(3):
        run()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session._holdings, "_replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    monkeypatch.undo()
    one, two = session.get([a, b])
    assert np.array_equal(one, two) and (one == one[0]).all()
    run()
    assert np.array_equal(*session.get([a, b]))


def test_checked_numbers_keep_the_old_values() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((), name="x")
        a = gx.variable(np.ones(SIZE, np.float32))
        step = a.assign(a / x)
    session = gx.Session(graph, options=gx.Options(check_numerics=True))
    run = session.compile(step, [x])
    run(1.0)
    run(1.0)
    with pytest.raises(gx.NumericsError):
        run(0.0)
    assert (session.get(a) == 1).all()


def test_long_programs_commit_too() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((SIZE,), name="x")
        a = gx.variable(np.zeros(SIZE, np.float32))
        doubled, _ = gx.while_loop(
            lambda value, n: n < 5, lambda value, n: (value + value, n + 1), (x, 0)
        )
        step = a.assign(a + gx.cumsum(doubled))
    # a loop in a kernel ends soon
    session = gx.Session(graph, options=gx.Options(off={"fuse_loops"}))
    run = session.compile(step, [x])
    assert run.compiled.program.is_long and commit_of(run) not in (None, 0)
    ones = np.ones(SIZE, np.float32)
    for _ in range(3):
        run(ones)
    assert np.array_equal(session.get(a)[:4], [96, 192, 288, 384])


# --- plans and order -----------------------------------------------------------------------------


def test_plans_say_where_they_commit() -> None:
    graph, _, _, step = counters()
    plan = gx.Session(graph).compile(step, []).compiled.plan
    text = print_plan(plan)
    assert f"\ncommit {plan.commit}\n" in text
    assert print_plan(parse_plan(text, {})) == text
    verify_plan(plan)
    with pytest.raises(VerifyError, match="commits at step 99"):
        verify_plan(replace(plan, commit=99))


def test_steps_that_fail_do_not_follow_a_commit() -> None:
    graph, feeds, fetches, _ = perceptron(gx.optim.Adam(1e-2))
    plan = gx.Session(graph).compile(fetches, feeds).compiled.plan
    assert plan.commit
    with pytest.raises(VerifyError, match="may fail after the commit at step 0"):
        verify_plan(replace(plan, commit=0))


def test_readers_behind_or_beside_an_update_are_refused() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((160, 160), name="x")
        weights = gx.variable(data(160, 160), name="weights")
        fetches = [x @ weights, gx.group(weights.assign(weights * 0.5))]
    plan = gx.Session(graph, threads=1).compile(fetches, [x]).compiled.plan
    assert plan.renewed == ((plan.feeds[1], plan.outputs[-1]),)
    read, write = range(2)
    assert len(plan.steps) == 2 and plan.commit == write
    verify_plan(plan)
    swapped = replace(plan, steps=plan.steps[::-1], commit=read)
    with pytest.raises(VerifyError, match="reads the state slot %1 'weights', where step 0"):
        verify_plan(swapped)
    beside = replace(plan, commit=read, groups=(ConcurrentGroup((0, 1, 2), (1, 1)),))
    with pytest.raises(VerifyError, match="memory of the state slot %1 'weights', beside another"):
        verify_plan(beside)
    for allowed in (swapped, beside):
        verify_plan(replace(allowed, commit=None))


@pytest.mark.parametrize("sizes", [(784, 512, 512, 10), (64, 128, 64, 10), (300, 100, 10)])
def test_training_steps_are_in_place_whatever_their_sizes(sizes: tuple[int, ...]) -> None:
    with gx.Graph() as graph:
        h: Any = gx.placeholder(("batch", sizes[0]), name="x")
        x, labels = h, gx.placeholder(("batch",), "int64", name="labels")
        for n, (rows, columns) in enumerate(itertools.pairwise(sizes)):
            bias = gx.variable(np.zeros(columns, np.float32))
            h = (gx.nn.relu(h) if n else h) @ gx.variable(data(rows, columns)) + bias
        loss = gx.mean(gx.nn.softmax_cross_entropy(h, labels))
        step = gx.optim.Adam(1e-3).minimize(loss)
    assert commit_of(gx.Session(graph).compile([loss, step], [x, labels])) is not None


def test_ordering_updates_is_linear() -> None:
    with gx.Graph() as recorder:
        value: Any = gx.variable(data(4))
        start = value
        for _ in range(20_000):
            value = value + start
        step = start.assign(value)
    from graphc.compiling.extraction import extract

    extraction = extract(recorder, [], [step])
    context = PassContext(renewed=extraction.renewed)
    assert order_variable_updates(extraction.graph, context) is extraction.graph


FORKS = """
import os, threading, time
import numpy as np
import graphc as gx

with gx.Graph() as graph:
    a, b = (gx.variable(np.zeros(500_000), name=name) for name in "ab")
    step = gx.group(a.assign_add(1.0), b.assign_add(1.0))
session = gx.Session(graph, threads=1)
exe = session.compile(step, [])
for _ in range(3):
    exe()
stop = []
def work():
    while not stop:
        exe()
thread = threading.Thread(target=work)
thread.start()
codes = []
for round in range(5):
    time.sleep(0.003)
    child = os.fork()
    if not child:
        first, second = session.get([a, b])
        whole = np.array_equal(first, second) and bool((first == first[0]).all())
        exe()
        os._exit(0 if whole and session.get(a)[0] == first[0] + 1 else 7)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.append(1)
thread.join()
print(codes)
"""


def test_a_fork_finds_whole_variables_while_another_thread_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.stdout, done.returncode) == ("[0, 0, 0, 0, 0]\n", 0), done.stderr
