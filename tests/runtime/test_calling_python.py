"""Native runs that call Python: threads and the lock, errors, signals, reentrancy, forks, loops."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tools import ROOT, lean_environment

import graphc as gx

Array = np.ndarray[Any, Any]


def _program(function: Callable[..., Any], **options: Any) -> tuple[gx.Session, Any, Any]:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), name="x")
        y = gx.host_call(function, x * 2, result_types=x, ordered=True) + 1
    return gx.Session(graph, **options), x, y


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_error_is_raised_as_it_is(kind: type[BaseException]) -> None:
    def leave(a: Array) -> Array:
        if a[0] > 2:
            raise kind("now")
        return a

    session, x, y = _program(leave)
    for _ in range(3):
        with pytest.raises(kind) as caught:
            session.run(y, {x: np.full(3, 2, np.float32)})
        assert caught.value.args == ("now",)
        np.testing.assert_array_equal(session.run(y, {x: np.ones(3, np.float32)}), np.full(3, 3))


def test_errors_in_loops_end_the_run_there() -> None:
    calls: list[int] = []

    def third(i: Array) -> Array:
        calls.append(int(i))
        if i == 3:
            raise LookupError
        return i + 1

    with gx.Graph() as graph:
        (end,) = gx.while_loop(
            lambda i: i < 10, lambda i: [gx.host_call(third, i, result_types=i, ordered=True)], [0]
        )
    session = gx.Session(graph)
    for _ in range(2):
        with pytest.raises(gx.HostCallError, match="raised LookupError") as caught:
            session.run(end)
        assert type(caught.value.__cause__) is LookupError
        assert calls == [0, 1, 2, 3]
        calls.clear()


def test_an_error_is_not_kept() -> None:
    class Large(Exception):
        pass

    def fail(a: Array) -> Array:
        raise Large

    session, x, y = _program(fail)
    exe = session.compile(y, [x])
    for _ in range(3):
        with pytest.raises(gx.HostCallError):
            exe(np.ones(3, np.float32))
    gc.collect()
    assert not [item for item in gc.get_objects() if type(item) is Large]


# --- the lock ------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_many_threads_call_at_once(threads: int) -> None:
    lock = threading.Lock()
    seen: dict[int, list[float]] = {}

    def note(a: Array) -> Array:
        with lock:
            seen.setdefault(threading.get_ident(), []).append(float(a[0]))
        time.sleep(0)
        return a * 2

    session, x, y = _program(note, threads=threads)
    exe = session.compile(y, [x])
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(50):
                given = np.full(1000 + number, number * 100 + n, np.float32)
                np.testing.assert_array_equal(exe(given), given * 4 + 1)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive(), "a run waits for the interpreter's lock for ever"
    assert not failures, failures
    assert sorted(len(found) for found in seen.values()) == [50] * 4
    for found in seen.values():
        assert found == sorted(found)


def test_kernels_do_not_hold_the_lock_that_functions_wait_for() -> None:
    """Two runs, each of which waits in Python for the other to have got there."""
    met = threading.Barrier(2, timeout=30)

    def meet(a: Array) -> Array:
        met.wait()
        return a

    session, x, y = _program(meet)
    results: list[Any] = []
    workers = [
        threading.Thread(target=lambda: results.append(session.run(y, {x: np.ones(5)})))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(results) == 2


def test_functions_run_in_the_thread_of_the_call() -> None:
    threads: list[int] = []

    def note(a: Array) -> Array:
        threads.append(threading.get_ident())
        return a

    with gx.Graph() as graph:
        x = gx.placeholder((64, 64), name="x")
        y = gx.host_call(note, gx.exp(x) @ x, result_types=x)
        z = gx.host_call(note, gx.sin(x) @ x, result_types=x)
    gx.Session(graph, threads=2).run([y, z], {x: np.ones((64, 64), np.float32)})
    assert threads == [threading.get_ident()] * 2


@pytest.mark.usefixtures("small_tasks", "small_groups")
def test_order_holds_beside_kernels_of_several_threads() -> None:
    calls: list[int] = []
    with gx.Graph() as graph:
        x = gx.placeholder((100, 100), name="x")
        effects, values = [], []
        for n in range(20):
            values.append(gx.sum(gx.exp(x * n), axis=n % 2))
            # late ones need little, early ones much
            given = values[-1][0] if n < 10 else x[0, 0]
            effects.append(gx.host_call(lambda a, n=n: calls.append(n), given, ordered=True))
        fetches = [*values[::-1], *effects[::-1]]
    for level in range(4):
        session = gx.Session(graph, threads=2, options=gx.Options(optimize=level))
        calls.clear()
        session.run(fetches, {x: np.zeros((100, 100), np.float32)})
        assert calls == [*range(20)]


# --- signals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loops", [False, True])
def test_ctrl_c_ends_a_function_at_once(loops: bool) -> None:
    def wait(a: Array) -> Array:
        signal.raise_signal(signal.SIGINT)
        time.sleep(30)
        return a

    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        v = gx.variable(0, name="v")
        new = v.assign_add(1)
        if loops:
            (y,) = gx.while_loop(
                lambda s: gx.sum(s) < 100,
                lambda s: [gx.host_call(wait, s, result_types=x)],
                [x],
            )
        else:
            y = gx.host_call(wait, x, result_types=x)
    session = gx.Session(graph)
    handler = signal.getsignal(signal.SIGINT)
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            session.run([y, new], {x: np.ones(3, np.float32)})
        assert time.monotonic() - started < 20
        assert session.get(v) == 0 and signal.getsignal(signal.SIGINT) is handler


def test_a_handler_that_a_function_sets_stays() -> None:
    caught: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def choose(a: Array) -> Array:
        signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
        return a

    session, x, y = _program(choose)
    try:
        session.run(y, {x: np.ones(3, np.float32)})
        signal.raise_signal(signal.SIGINT)
        assert caught == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_kernels_run_between_calls() -> None:
    """The signal comes in the midst of native steps of a loop that calls Python, too."""
    turns = [0]

    def count(s: Array) -> Array:
        turns[0] += 1
        if turns[0] == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return s

    with gx.Graph() as graph:
        (end,) = gx.while_loop(
            lambda i: i >= 0,
            lambda i: [gx.host_call(count, i, result_types=i, ordered=True) + 1],
            [0],
        )
    session = gx.Session(graph)
    with pytest.raises(KeyboardInterrupt):
        session.run(end)
    assert 5 <= turns[0] < 1000


def test_an_alarm_before_the_first_line_of_a_function_is_not_lost() -> None:
    """It comes while kernels run, so that Python sees to it where the function begins."""

    class Late(Exception):
        pass

    def ring(number: int, frame: Any) -> None:
        raise Late

    with gx.Graph() as graph:
        x = gx.placeholder((1200, 1200), name="x")
        long = x
        for _ in range(4):
            long = long @ x
        y = gx.host_call(lambda a: a, long, result_types=x)
    session = gx.Session(graph, threads=1)
    exe = session.compile(y, [x])
    given = np.zeros((1200, 1200), np.float32)
    exe(given)
    before = signal.signal(signal.SIGALRM, ring)
    found: list[BaseException] = []
    try:
        for _ in range(5):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            try:
                exe(given)
            except (Late, gx.HostCallError) as error:
                found.append(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(found) == 5
    np.testing.assert_array_equal(exe(given), given)


# --- reentrancy ----------------------------------------------------------------------------------


def test_a_function_may_run_another_session() -> None:
    with gx.Graph() as other:
        u = gx.placeholder((None,), name="u")
        w = gx.host_call(lambda a: a + 1, gx.sin(u), result_types=u)
    inner = gx.Session(other)
    session, x, y = _program(lambda a: inner.run(w, {u: a}))
    given = np.ones(3, np.float32)
    np.testing.assert_allclose(session.run(y, {x: given}), np.sin(given * 2) + 2, rtol=1e-6)


def test_runs_of_one_program_within_each_other_keep_apart() -> None:
    def nested(a: Array) -> Array:
        if a[0] >= 1000:
            return a
        before = a.copy()
        deeper = session.run(y, {x: a * 10})
        np.testing.assert_array_equal(a, before)
        return np.asarray(deeper)

    session, x, y = _program(nested)
    # 1 -> 2 -> 20 -> 40 -> 400 -> 800 -> 8000 -> 16000, and one more on each way back
    np.testing.assert_array_equal(session.run(y, {x: np.ones(4, np.float32)}), [16004.0] * 4)


def test_a_function_may_read_variables_and_not_write_them_in_a_run_that_does() -> None:
    seen: list[int] = []

    def look(a: Array) -> Array:
        seen.append(int(session.get(v)))
        try:
            session.run(step)
        except gx.GraphError:
            seen.append(-1)
        return a

    with gx.Graph() as graph:
        v = gx.variable(5, name="v")
        step = v.assign_add(1)
        y = gx.host_call(look, step, result_types=((), "int64"))
    session = gx.Session(graph)
    assert session.run([y, step]) == [6, 6]
    assert seen == [5, -1] and session.get(v) == 6


# --- processes -----------------------------------------------------------------------------------


def test_forks_within_a_function_and_before_it() -> None:
    def forked(a: Array) -> Array:
        child = os.fork()
        if child == 0:
            good = bool((session.run(z, {x: a}) == a * 3).all())
            os._exit(0 if good else 1)
        _, status = os.waitpid(child, 0)
        return a + status

    with gx.Graph() as graph:
        x = gx.placeholder((None,), name="x")
        y = gx.host_call(forked, x, result_types=x, ordered=True)
        z = gx.host_call(lambda a: a * 3, x, result_types=x, ordered=True)
    session = gx.Session(graph)
    given = np.ones(5, np.float32)
    np.testing.assert_array_equal(session.run(z, {x: given}), given * 3)
    np.testing.assert_array_equal(session.run(y, {x: given}), given)


def test_a_process_ends_well_while_a_thread_is_in_a_call() -> None:
    code = """
import threading, time
import numpy as np
import graphc as gx
with gx.Graph() as graph:
    x = gx.placeholder((3,), name="x")
    y = gx.host_call(lambda a: (begun.set(), time.sleep(60), a)[2], x, result_types=x)
begun = threading.Event()
session = gx.Session(graph)
run = lambda: session.run(y, {x: np.ones(3, np.float32)})
threading.Thread(target=run, daemon=True).start()
assert begun.wait(50)
print("done")
"""
    environment = lean_environment(os.environ | {"PYTHONPATH": str(ROOT)})
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, env=environment
    )
    assert done.stdout == "done\n" and done.returncode == 0, done.stderr


# --- loops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 2])
def test_ten_thousand_calls_in_a_loop(level: int) -> None:
    total = [0]

    def add(i: Array) -> Array:
        total[0] += int(i)
        return i + 1

    with gx.Graph() as graph:
        x = gx.placeholder((5,), name="x")
        end, s = gx.while_loop(
            lambda i, s: i < 10_000,
            lambda i, s: (gx.host_call(add, i, result_types=i, ordered=True), gx.cos(s)),
            (0, x),
        )
    session = gx.Session(graph, options=gx.Options(optimize=level))
    found, fixed = session.run([end, s], {x: np.ones(5, np.float32)})
    assert found == 10_000 and total[0] == sum(range(10_000))
    np.testing.assert_allclose(fixed, np.full(5, 0.739085), rtol=1e-5)


def test_a_call_reads_all_before_it_writes() -> None:
    """A loop hands results on in place, where the function still reads its arguments."""

    def swap(a: Array, b: Array) -> tuple[Array, Array]:
        return b, a * 2

    with gx.Graph() as graph:
        x = gx.placeholder((None,), name="x")
        _, one, two = gx.while_loop(
            lambda i, a, b: i < 7,
            lambda i, a, b: (i + 1, *gx.host_call(swap, a, b, result_types=[x, x])),
            (0, x, x + 1),
        )
    for level in range(4):
        session = gx.Session(graph, options=gx.Options(optimize=level, verify=True))
        for given in (np.arange(5, dtype=np.float32), np.zeros(0, np.float32)):
            a, b = given, given + 1
            for _ in range(7):
                a, b = b, a * 2
            found = session.run([one, two], {x: given})
            np.testing.assert_array_equal(found[0], a)
            np.testing.assert_array_equal(found[1], b)
