"""The threads of a process: how many there are, when they sleep, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import textwrap
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from at_once import at_once
from tools import FORKING, lean_environment

import graphc as gx
from graphc.base import threads as base_threads
from graphc.base.threads import usable_threads
from graphc.plan.abi import PARALLEL

Array = np.ndarray[Any, Any]


# --- the pool ------------------------------------------------------------------------------------


def loop_program(trips: int, size: int, threads: int) -> tuple[Any, Array]:
    """Adds 1 to an array once a trip, in a launch of its own; and its result."""
    with gx.Graph() as graph:
        x = gx.placeholder((size,), "float32")
        _, y = gx.while_loop(
            lambda i, v: i < trips, lambda i, v: (i + 1, v + 1.0), (gx.constant(0), x)
        )
    exe = gx.Session(graph, threads=threads).compile(y, [x])
    return exe, np.full(size, trips, np.float32)


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("threads", [2, 8])
def test_a_hundred_thousand_small_launches(threads: int) -> None:
    trips = 100_000 if threads == 2 else 10_000
    exe, expected = loop_program(trips, 640, threads)
    assert PARALLEL in exe.compiled.program.template.at({}).steps[:, 0]
    assert np.array_equal(exe(np.zeros(640, np.float32)), expected)


@pytest.mark.usefixtures("small_tasks")
def test_sessions_run_at_once() -> None:
    programs = [loop_program(trips, 640, 3) for trips in (900, 1100, 1300)]

    def work(number: int) -> None:
        exe, expected = programs[number]
        for _ in range(5):
            assert np.array_equal(exe(np.zeros(640, np.float32)), expected), number

    at_once(*(partial(work, number % 3) for number in range(6)))


@pytest.mark.usefixtures("small_tasks")
def test_after_a_pause_threads_are_woken() -> None:
    exe, expected = loop_program(20, 640, 4)
    for pause in (0.0, 0.001, 0.05):
        time.sleep(pause)
        assert np.array_equal(exe(np.zeros(640, np.float32)), expected)


def test_short_launches_wake_nobody_at_once() -> None:
    """Single calls with rests in between run alone; the ninth in a row has its threads woken."""
    done = run_script("""
        import ctypes
        from graphc.base.tuning.tasks import TASKS
        run = program(1, threads=2)
        run()
        (worker,) = {int(t) for t in os.listdir("/proc/self/task")} - {os.getpid()}

        def switches():
            with open(f"/proc/self/task/{worker}/status") as status:
                return int(status.read().split("\\nvoluntary_ctxt_switches:")[1].split()[0])

        for trial in range(20):
            time.sleep(0.02)
            before = switches()
            for call in range(3 * (TASKS.launches_alone + 1)):
                assert run() == 1
                time.sleep(0.005)
            if 0 < switches() - before <= 6:
                sys.exit(0)
        sys.exit("it was woken too often, or not at all")
        """, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert (done.returncode, done.stderr) == (0, "")


def run_script(text: str, **options: Any) -> subprocess.CompletedProcess[str]:
    head = """
        import os, signal, sys, threading, time
        import numpy as np
        import graphc as gx
        from graphc.base.tuning.tasks import TaskTuning
        TaskTuning.serial_work = TaskTuning.task_work = 1

        def program(trips, threads=3, size=640):
            with gx.Graph() as graph:
                x = gx.placeholder((size,), "float32")
                _, y = gx.while_loop(
                    lambda i, v: i < trips, lambda i, v: (i + 1, v + 1.0), (gx.constant(0), x)
                )
            exe = gx.Session(graph, threads=threads).compile(y, [x])
            return lambda: exe(np.zeros(size, np.float32))[0]

        def threads(expected):
            # the thread that compiled may not be gone yet
            for _ in range(1000):
                if (found := len(os.listdir("/proc/self/task"))) == expected:
                    break
                time.sleep(0.01)
            return found
    """
    script = textwrap.dedent(head) + textwrap.dedent(text)
    environment = lean_environment(options.pop("env", None))
    return subprocess.run(
        [*FORKING, "-c", script],
        capture_output=True, text=True, timeout=600, env=environment, **options,
    )  # fmt: skip


def test_a_forked_child_makes_threads_of_its_own() -> None:
    done = run_script("""
        run = program(200)
        before = threads(1)
        assert run() == 200 and threads(before + 2) == before + 2
        for round in range(3):
            child = os.fork()
            if not child:
                ok = threads(1) == 1 and run() == 200 and threads(3) == 3
                os._exit(0 if ok else 7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert run() == 200
        """)
    assert (done.returncode, done.stderr) == (0, "")


def test_fork_while_another_thread_runs() -> None:
    done = run_script("""
        run, other = program(200), program(100_000)
        stop = []
        def busy():
            while not stop:
                assert other() == 100_000
        thread = threading.Thread(target=busy)
        thread.start()
        for round in range(5):
            child = os.fork()
            if not child:
                os._exit(0 if run() == 200 else 7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stop.append(1)
        thread.join()
        """)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_interpreter_ends_with_threads_asleep_or_busy() -> None:
    for last in ("time.sleep(0.1)", "", "threading.Thread(target=run, daemon=True).start()"):
        done = run_script(f"run = program(20_000)\nassert run() == 20_000\n{last}\n")
        assert (done.returncode, done.stderr) == (0, ""), last


def test_control_c_stops_a_run_in_threads() -> None:
    done = run_script("""
        run = program(10**9)
        signal.signal(signal.SIGALRM, lambda *_: None)
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            run()
        except KeyboardInterrupt:
            assert program(50)() == 50
            print("stopped")
        """)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


@pytest.mark.skipif(usable_threads() < 2, reason="needs two CPUs")
def test_idle_threads_keep_off_the_callers_cpu_and_busy_ones_may_run_anywhere() -> None:
    """So that the system does not wake a thread where its caller runs, and leave it there."""
    done = run_script("""
        import ctypes
        present_cpu = ctypes.CDLL(None).sched_getcpu
        run, longer, everywhere = program(50), program(10**5), os.sched_getaffinity(0)
        main = threading.get_native_id()

        def masks():
            tasks = map(int, os.listdir("/proc/self/task"))
            return [os.sched_getaffinity(t) for t in tasks if t not in (main, caller)]

        def kept_off():
            # on a busy machine a caller may move at any time, and threads be late to sleep
            apart = 0
            for trial in range(400):
                before = present_cpu()
                run()
                time.sleep(0.02)
                apart += present_cpu() == before and masks() == 2 * [everywhere - {before}]
                if apart == 5:
                    return True
            return False

        caller = main
        run()
        assert kept_off()

        seen = []
        while 2 * [everywhere] not in seen:
            thread = threading.Thread(target=longer)
            thread.start()
            caller = thread.native_id
            while thread.is_alive():
                seen.append(masks())
            thread.join()
            assert len(seen) < 10**6
        # that caller is gone, and its number with it
        caller = main
        assert kept_off()
        """, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(usable_threads() < 2, reason="needs two CPUs")
def test_callers_that_move_and_callers_with_one_cpu() -> None:
    done = run_script("""
        run, everywhere = program(50), os.sched_getaffinity(0)
        for trial in range(4):
            for cpu in everywhere:
                os.sched_setaffinity(0, {cpu})
                assert run() == 50
                os.sched_setaffinity(0, everywhere)
                assert run() == 50
                time.sleep(0.001 * trial)
        """)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_thread_makes_none() -> None:
    done = run_script("""
        assert program(1000, threads=1)() == 1000
        print(threads(1))
        run = program(1000, threads=3)
        print(threads(1))
        """, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert (done.stdout, done.stderr) == ("1\n1\n", "")


# --- how many ------------------------------------------------------------------------------------


def test_default_is_what_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHC", raising=False)
    with gx.Graph() as graph:
        gx.placeholder((3,), "float32")
    assert gx.Session(graph).threads == usable_threads() >= 1
    assert gx.Session(graph, threads=5).threads == 5
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    for quota, expected in ((None, 6), (2.5, 2), (0.3, 1), (64.0, 6)):
        monkeypatch.setattr(base_threads, "_quota", lambda quota=quota: quota)
        assert usable_threads() == expected


def test_quotas_of_both_versions(tmp_path: Path) -> None:
    unified = tmp_path / "cpu.max"
    for text, expected in (("250000 100000\n", 2.5), ("max 100000\n", None), ("nonsense", None)):
        unified.write_text(text)
        assert base_threads._read_limit(unified) == expected
    legacy = tmp_path / "cpu.cfs_quota_us"
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    for text, expected in (("150000\n", 1.5), ("-1\n", None)):
        legacy.write_text(text)
        assert base_threads._read_limit(legacy) == expected
    assert base_threads._read_limit(tmp_path / "absent" / "cpu.max") is None


def test_sessions_in_threads_of_python_and_signals_are_left_alone() -> None:
    """A thread that runs in tasks has the signals it had."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    exe, expected = loop_program(3, 4_000_000, 2)
    assert np.array_equal(exe(np.zeros(4_000_000, np.float32)), expected)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
