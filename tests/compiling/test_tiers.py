"""The program that answers while the full one compiles.

Both have the same bits; one takes over from the other between two runs; what is asked about a
program is said of the full one, which is waited for.
"""

from __future__ import annotations

import gc
import os
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from at_once import at_once
from bits import same_bits
from slow_parameters import slow_unless
from tier_harness import array, assert_same, large
from tools import FORKING, lean_environment

import graphc as gx
import graphc.compiling.compiler
from graphc.base.errors import GraphError
from graphc.compiling.compiler import Prepared
from graphc.runtime.program import Program


class Gate:
    """Lets the compilation in the background go on only when it is opened."""

    def __init__(self, patch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.calls = 0
        go_on = Prepared.in_background

        def waiting(given: Prepared, poll: Callable[[], None]) -> Prepared:
            self.calls += 1
            self.reached.set()
            while not self.open.wait(0.005):
                poll()
            if error is not None:
                raise error
            return go_on(given, poll)

        patch.setattr(Prepared, "in_background", waiting)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Open in the end: others wait for their turn behind it."""
    made = Gate(monkeypatch)
    yield made
    made.open.set()


def test_the_first_answer_has_the_bits_of_all_others() -> None:
    graph, x, y = large()
    session = gx.Session(graph)
    exe = session.compile(y, [x])
    assert exe.tier == "baseline"
    special = np.array([[np.nan, np.inf, -np.inf, -0.0, 1e-42]], np.float32)
    inputs = [array(), special, array(0), array(1), array(1000)]
    first = [exe(a) for a in inputs]
    assert exe.wait()
    assert exe.tier == "full"
    assert_same(first, [exe(a) for a in inputs])
    assert_same(first, [exe(a) for a in inputs])


def training() -> tuple[gx.Graph, list[gx.Value], gx.Value, Any, list[gx.Value]]:
    rng = np.random.default_rng(3)
    with gx.Graph() as graph:
        x = gx.placeholder(("batch", 6), name="x")
        labels = gx.placeholder(("batch",), "int64", name="labels")
        weights, h = [], x
        for n in range(8):
            w = gx.variable(rng.standard_normal((6, 6)).astype(np.float32), name=f"w{n}")
            b = gx.variable(np.zeros(6, np.float32), name=f"b{n}")
            weights += [w, b]
            h = h + gx.tanh(h @ w + b)
        loss = gx.mean(gx.nn.softmax_cross_entropy(h, labels))
        step = gx.optim.Adam(1e-2).minimize(loss)
    return graph, [x, labels], loss, step, weights


@pytest.mark.parametrize("threads", [1, 2])
def test_training_goes_on_where_the_first_program_left_it(threads: int) -> None:
    graph, (x, labels), loss, step, weights = training()
    rng = np.random.default_rng(4)
    batches = [
        (rng.standard_normal((16, 6)).astype(np.float32), rng.integers(0, 6, 16)) for _ in range(9)
    ]

    def trained(session: gx.Session, after: Callable[[int], None]) -> list[Any]:
        losses = []
        for number, (rows, classes) in enumerate(batches):
            losses.append(session.run([loss, step], {x: rows, labels: classes})[0])
            after(number)
        return [*losses, *session.get(weights)]

    switching = gx.Session(graph, threads=threads)
    tiers = []

    def switch(number: int) -> None:
        tiers.append(switching.compilations[0].tiers.tier)
        if number == 4:
            assert switching.wait()

    results = trained(switching, switch)
    assert tiers[0] == "baseline" and tiers[-1] == "full"
    for level in range(4):
        session = gx.Session(graph, threads=threads, options=gx.Options(optimize=level))
        assert_same(results, trained(session, lambda number: None))


# --- taking over ---------------------------------------------------------------------------------


def test_the_second_program_waits_for_the_first_answer(gate: Gate) -> None:
    graph, x, y = large()
    exe = gx.Session(graph).compile(y, [x])
    assert not gate.reached.wait(0.05)
    first = exe(array())
    assert gate.reached.wait(300)
    assert exe.tier == "baseline" and "baseline" in repr(exe)
    assert not exe.wait(0.01)
    assert_same([first], [exe(array())])
    gate.open.set()
    assert exe.wait(300) and exe.tier == "full" and "baseline" not in repr(exe)
    for _ in range(3):
        assert_same([first], [exe(array())])
    assert gate.calls == 1


def test_what_is_asked_is_said_of_the_full_program() -> None:
    graph, x, y = large()
    exe = gx.Session(graph).compile(y, [x])
    assert any(node.op.name == "fused" for node in exe.graph.nodes)
    assert exe.tier == "full"


def test_structures_and_orders_of_one_program_take_over_together(gate: Gate) -> None:
    graph, x, y = large()
    session = gx.Session(graph)
    one, two = session.compile(y, [x]), session.compile([y], [x])
    one(array())
    gate.open.set()
    session.wait()
    assert (one.tier, two.tier, session.compile_count) == ("full", "full", 1)
    assert_same([one(array())], two(array()))


def test_many_threads_run_while_it_takes_over(gate: Gate) -> None:
    graph, feeds, loss, _, _ = training()
    session = gx.Session(graph)
    total = gx.Session(graph)
    rows = np.random.default_rng(5).standard_normal((4, 6)).astype(np.float32)
    given = dict(zip(feeds, (rows, np.arange(4)), strict=True))
    expected = total.run(loss, given)
    session.run(loss, given)
    counts = [0] * 10

    def run(number: int) -> None:
        while counts[number] < 400 and not (gate.open.is_set() and counts[number] > 60):
            assert same_bits(session.run(loss, given), expected)
            counts[number] += 1
            if min(counts) == 10:
                gate.open.set()

    at_once(*(partial(run, number) for number in range(10)))
    session.wait()
    assert same_bits(session.run(loss, given), expected)


def test_writers_take_turns_while_it_takes_over(gate: Gate) -> None:
    graph, feeds, loss, step, weights = training()
    rows = np.random.default_rng(5).standard_normal((4, 6)).astype(np.float32)
    given = dict(zip(feeds, (rows, np.arange(4)), strict=True))
    session = gx.Session(graph)
    session.run([loss, step], given)
    left = iter(range(99))
    lock = threading.Lock()

    def run() -> None:
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            if number == 40:
                gate.open.set()
            session.run(step, given)

    at_once(*[run] * 4)
    session.wait()
    alone = gx.Session(graph, options=gx.Options(optimize=3))
    for _ in range(100):
        alone.run([loss, step], given)
    assert_same(session.get(weights), alone.get(weights))


def test_an_array_for_the_result(gate: Gate) -> None:
    graph, x, y = large()
    exe = gx.Session(graph).compile(y, [x])
    first, kept = exe(array()), np.zeros((4, 5), np.float32)
    assert exe(array(), out=kept) is kept
    assert_same([first], [kept])
    gate.open.set()
    exe.wait()
    kept[:] = 0
    assert exe(array(), out=kept) is kept
    assert_same([first], [kept])


def test_too_large_temporaries_wait_for_the_full_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphc.compiling.compiler, "MOST_BASELINE_BYTES", 10_000)
    graph, x, y = large()
    exe = gx.Session(graph).compile(y, [x])
    small = exe(array(1))
    large_ = exe(array(5000))
    assert exe.tier == "full"
    assert_same([small, large_], [exe(array(1)), exe(array(5000))])


# --- what may go wrong ---------------------------------------------------------------------------


def test_an_error_in_the_background_is_told_once_and_raised_by_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate(monkeypatch, GraphError("planted"))
    graph, x, y = large()
    session = gx.Session(graph)
    first = session.run(y, {x: array()})
    gate.open.set()
    while not session.compilations[0].tiers._ended.wait(1):
        pass
    with pytest.warns(RuntimeWarning, match="planted") as told:
        assert_same([first], [session.run(y, {x: array()})])
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same([first], [session.run(y, {x: array()})])
    exe = session.compile(y, [x])
    assert exe.tier == "baseline"
    raised = []
    for ask in (exe.wait, lambda: exe.graph, session.wait, exe.wait):
        with pytest.raises(GraphError, match="planted") as caught:
            ask()
        raised.append(caught)
    first_one, last = raised[0].value, raised[-1].value
    assert first_one is not last and first_one.__cause__ is last.__cause__
    assert len(raised[0].traceback) == len(raised[-1].traceback)


SCRIPT = """
import sys
import numpy as np
import graphc as gx
{before}
with gx.Graph() as graph:
    x = gx.placeholder((4,), name="x")
    y = x
    for n in range({length}):
        y = gx.tanh(y * 0.5 + x)
session = gx.Session(graph)
result = session.run(y, {{x: np.ones(4, np.float32)}})
{more}
print(float(result[0]) < 1, session.compilations[0].tiers.tier)
"""


def ran(
    more: str = "",
    length: int = 3000,
    environment: dict[str, str] | None = None,
    before: str = "",
) -> str:
    done = subprocess.run(
        [*FORKING, "-c", SCRIPT.format(length=length, more=more, before=before)],
        capture_output=True, text=True, timeout=600, check=False,
        env=lean_environment(environment),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize("pause", [0, 0.02, 0.1, 0.3, 0.6, 1.0])
def test_the_interpreter_may_end_at_any_time(pause: float) -> None:
    out = ran(f"import time; time.sleep({pause})")
    assert out.startswith("True")


def test_who_asks_while_the_interpreter_ends_is_answered() -> None:
    out = ran("pass", before="import atexit; atexit.register(lambda: print(session.wait()))")
    assert out.splitlines() in (["True baseline", "True"], ["True full", "True"])


def test_no_thread_to_compile_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    graph, x, y = large()
    exe = gx.Session(graph).compile(y, [x])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    first = exe(array())
    with pytest.warns(RuntimeWarning, match="can't start new thread"):
        assert_same([first], [exe(array())])
    with pytest.raises(RuntimeError, match="can't start"):
        exe.wait()


def test_numbers_that_are_not_finite_are_found_in_the_first_program(gate: Gate) -> None:
    graph, x, y = large()
    session = gx.Session(graph, options=gx.Options(check_numerics=True))
    exe = session.compile(y, [x])
    exe(array())
    with pytest.raises(gx.NumericsError, match="not finite"):
        exe(array() * np.float32(np.nan))
    assert exe.tier == "baseline"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@slow_unless(lambda pause: pause in (0, 0.2))
@pytest.mark.parametrize("pause", [0, 0.02, 0.2, 0.5])
def test_a_forked_child_compiles_for_itself(pause: float) -> None:
    out = ran(
        f"""
import os, time
time.sleep({pause})
child = os.fork()
again = session.run(y, {{x: np.ones(4, np.float32)}})
assert session.wait(300)
last = session.run(y, {{x: np.ones(4, np.float32)}})
assert (result == again).all() and (result == last).all()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""",
        length=1000,
    )
    assert out == "True full"


def test_programs_that_are_dropped_leave_nothing_behind() -> None:
    graph, x, y = large()
    gc.collect()
    before = sum(isinstance(item, Program) for item in gc.get_objects())
    for _ in range(3):
        session = gx.Session(graph)
        session.run(y, {x: array()})
        session.wait()
    del session
    gc.collect()
    assert sum(isinstance(item, Program) for item in gc.get_objects()) <= before


# --- the cache -----------------------------------------------------------------------------------


def test_the_cache_gets_the_full_program(tmp_path: Any) -> None:
    graph, x, y = large()
    options = gx.Options(cache=str(tmp_path))
    first = gx.Session(graph, options=options)
    result = first.run(y, {x: array()})
    assert first.compilations[0].cache == "no entry"
    assert first.wait()
    for level in (2, 3):
        second = gx.Session(graph, options=gx.Options(cache=str(tmp_path), optimize=level))
        assert_same([result], [second.run(y, {x: array()})])
        assert second.compilations[0].cache == "hit"
        assert second.compilations[0].tiers.tier == "full"
    small = gx.Session(graph, options=gx.Options(cache=str(tmp_path), optimize=0))
    assert_same([result], [small.run(y, {x: array()})])
    assert small.compilations[0].cache == "hit"


def test_the_cache_gets_the_first_program_too(tmp_path: Any, gate: Gate) -> None:
    """A process may end before there is more; the next one goes on from there."""
    graph, x, y = large()
    options = gx.Options(cache=str(tmp_path))
    first = gx.Session(graph, options=options)
    result = first.run(y, {x: array()})
    assert gate.reached.wait(300)
    second = gx.Session(graph, options=options)
    assert_same([result], [second.run(y, {x: array()})])
    (made,) = second.compilations
    assert made.cache == "no entry; the first program was there"
    assert made.tiers.tier == "baseline" and made.tiers.current.from_cache
    gate.open.set()
    assert second.wait(300) and first.wait(60)
    assert not made.compiled.from_cache
    assert_same([result], [second.run(y, {x: array()})])
    third = gx.Session(graph, options=options)
    assert_same([result], [third.run(y, {x: array()})])
    assert third.compilations[0].cache == "hit"


HELD = """
import time
import graphc.compiling.compiler

def held(given, poll):
    while True:
        poll()
        time.sleep(0.005)

graphc.compiling.compiler.Prepared.in_background = held
"""
"""Compiling in the background never ends, so that the process ends first however slow it is."""


def test_a_process_that_ends_at_once_leaves_its_first_program(tmp_path: Any) -> None:
    environment = {**os.environ, "GRAPHC": f"cache={tmp_path}"}
    told = [
        ran("print(session.compilations[0].cache)", environment=environment, before=HELD)
        for _ in "12"
    ]
    assert [text.splitlines()[0] for text in told] == [
        "no entry", "no entry; the first program was there",
    ]  # fmt: skip


@pytest.mark.parametrize("timeout", ["1", float("nan"), [1], True])
def test_seconds_that_are_none(timeout: Any) -> None:
    with gx.Graph():
        x = gx.placeholder((2,))
        session = gx.Session()
        exe = session.compile(x * 2, [x])
    for waits in (exe.wait, session.wait):
        with pytest.raises(GraphError, match="the timeout is ") as caught:
            waits(timeout)
        assert caught.value.where is not None and caught.value.where.filename == __file__
        assert waits(1e30) and waits(-1) and waits(None)
