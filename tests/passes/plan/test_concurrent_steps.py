"""Steps side by side: the same bits and errors in any number of threads, and no clashes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.ir.dims.expressions import at_hint
from graphc.plan.abi import GROUP, LAUNCH
from graphc.plan.ir import ConcurrentGroup, Launch, Plan
from graphc.plan.printer import constants_of, parse_plan, print_plan
from graphc.plan.serialize import plan_of, plan_text
from graphc.plan.verify import verify_plan
from graphc.runtime.program import Program
from passes.memory.arena import check_layout

Array = np.ndarray[Any, Any]

CHECKED = gx.Options(verify=True)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32)


# --- programs ------------------------------------------------------------------------------------


def branches(x: Any, count: int = 6, width: int = 24) -> Any:
    """Layers that are added."""
    total = x
    for number in range(count):
        weights = gx.constant(normal(width, width, seed=number) * 0.2)
        total = total + gx.tanh(x @ weights)
    return total


def ensemble(x: Any, count: int = 5, width: int = 24) -> list[Any]:
    """Small networks with weights of their own."""
    results = []
    for number in range(count):
        first, second = (gx.constant(normal(width, width, seed=9 * number + n)) for n in range(2))
        results.append(gx.softmax(gx.tanh(x @ first) @ second))
    return results


def gates(x: Any, width: int = 24) -> Any:
    """A recurrent cell, some steps of it in a loop."""
    w = [gx.constant(normal(width, width, seed=n) * 0.1) for n in range(8)]

    def step(i: Any, h: Any, c: Any) -> Any:
        a, f, o, n = (x @ w[2 * k] + h @ w[2 * k + 1] for k in range(4))
        c = gx.sigmoid(f) * c + gx.sigmoid(a) * gx.tanh(n)
        return i + 1, gx.sigmoid(o) * gx.tanh(c), c

    _, h, c = gx.while_loop(lambda i, h, c: i < 5, step, (gx.constant(0), x, x))
    return [h, c]


def chosen(x: Any) -> Any:
    """Branches inside of a branch."""
    return gx.cond(gx.sum(x) > 0, lambda: branches(x), lambda: branches(x * 2.0, 4))


def pieces(x: Any, width: int = 24) -> Any:
    """Products that are computed into one array."""
    weights = [gx.constant(normal(width, 512, seed=n)) for n in range(3)]
    return gx.concatenate([x @ w for w in weights], axis=1)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "branches": branches, "ensemble": ensemble, "gates": gates, "chosen": chosen, "pieces": pieces,
}  # fmt: skip


def compiled(
    build: Callable[[Any], Any], threads: int, *, shape: Sequence[Any] = (16, 24), **options: Any
) -> Any:
    with gx.Graph() as graph:
        x = gx.placeholder(tuple(shape), "float32", "x")
        built = build(x)
    chosen_options = gx.Options(**{"verify": True, "off": {"loop_kernels"}, **options})
    return gx.Session(graph, threads=threads, options=chosen_options).compile(built, [x])


def program_of(exe: Any) -> Program:
    found = exe.compiled.program
    assert isinstance(found, Program)
    return found


def kinds(exe: Any) -> list[int]:
    """The kinds of the steps of the frame that ran last."""
    frame = program_of(exe).idle_frames[-1]
    return [int(kind) for kind in frame.tables.steps[:, 0]]


def same(one: Any, two: Any) -> bool:
    first, second = ([a] if isinstance(a, np.ndarray) else list(a) for a in (one, two))
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_bits_are_those_of_one_thread(name: str, symbolic: bool) -> None:
    build, x = PROGRAMS[name], normal(16, 24)
    shape = ("n", 24) if symbolic else (16, 24)
    alone = compiled(build, 1, shape=shape)
    expected = alone(x)
    assert not program_of(alone).plan.groups
    for threads in (2, 4):
        exe = compiled(build, threads, shape=shape)
        for _ in range(20):
            assert same(exe(x), expected)
        assert program_of(exe).plan.groups, "nothing runs side by side"
        assert GROUP in kinds(exe) or name == "chosen"


def test_what_is_worth_it_runs_side_by_side_and_little_does_not() -> None:
    many = compiled(lambda x: branches(x, 16, 64), 2, shape=(32, 64))
    assert [len(group.works) for group in program_of(many).plan.groups] == [15]
    few = compiled(lambda x: [x @ gx.constant(normal(4, 4)), gx.sum(x)], 2, shape=(4, 4))
    assert not program_of(few).plan.groups

    def chain(x: Any) -> Any:
        for number in range(30):
            x = x + gx.tanh(x @ gx.constant(normal(64, 64, seed=number)))
        return x

    assert not program_of(compiled(chain, 2, shape=(16, 64))).plan.groups


def test_large_sizes_are_shared_instead() -> None:
    exe = compiled(lambda x: branches(x, 4, 64), 2, shape=("n", 64))
    small, large = normal(64, 64), normal(20_000, 64)
    alone = compiled(lambda x: branches(x, 4, 64), 1, shape=("n", 64))
    assert same(exe(small), alone(small)) and GROUP in kinds(exe)
    assert same(exe(large), alone(large)) and GROUP not in kinds(exe)


def test_it_can_be_switched_off() -> None:
    exe = compiled(branches, 2, shape=(64, 24), off={"concurrent_steps"})
    assert not program_of(exe).plan.groups


# --- state ---------------------------------------------------------------------------------------


def trained(threads: int) -> tuple[list[Array], Plan]:
    """Some steps of training, and what the weights are then."""
    with gx.Graph() as graph:
        x = gx.placeholder(("batch", 64), name="x")
        labels = gx.placeholder(("batch",), "int64", name="labels")
        h, sizes, variables = x, (64, 96, 64, 10), []
        for number, (rows, columns) in enumerate(pairwise(sizes)):
            w = gx.variable(normal(rows, columns, seed=number) * 0.1)
            b = gx.variable(np.zeros(columns, np.float32))
            variables += [w, b]
            h = h @ w + b
            h = gx.nn.relu(h) if number < 2 else h
        loss = gx.mean(gx.nn.softmax_cross_entropy(h, labels))
        step = gx.optim.Adam(1e-2).minimize(loss)
    session = gx.Session(graph, threads=threads, options=CHECKED)
    exe = session.compile([loss, step], [x, labels])
    numbers = np.random.default_rng(3).integers(0, 10, 48)
    losses = [exe(normal(48, 64), numbers)[0] for _ in range(30)]
    return [*losses, *session.get(variables)], program_of(exe).plan


@pytest.mark.usefixtures("small_groups")
def test_training_keeps_its_bits_and_writes_variables_in_place() -> None:
    expected, alone = trained(1)
    for threads in (2, 3):
        found, plan = trained(threads)
        assert same(found, expected)
        assert plan.groups
        assert plan.commit is not None and alone.commit is not None


@pytest.mark.usefixtures("small_groups")
def test_old_values_are_read_before_any_part_of_the_new_one_is_written() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((24, 24), "float32", "x")
        earlier = gx.variable(normal(128, 128))
        variable = gx.variable(normal(24, 1536))
        first = earlier.assign(earlier * 0.5)
        with gx.control_dependencies([first]):
            read = variable @ gx.constant(normal(1536, 24))
        weights = [gx.constant(normal(24, 512, seed=n)) for n in range(3)]
        second = variable.assign(gx.concatenate([x @ w for w in weights], axis=1))
        step = gx.group(first, second)
    session = gx.Session(graph, threads=2, options=CHECKED)
    plan = program_of(session.compile([read, step], [x])).plan
    assert plan.commit is not None and plan.groups
    old = next(n for n in plan.feeds if plan.slots[n].type.shape == (24, 1536))
    new = next(n for n in plan.outputs if plan.slots[n].type.shape == (24, 1536))
    for group in plan.groups:
        steps = range(group.bounds[0], group.bounds[-1])
        touched = {slot for n in steps for slot, _ in plan.accesses(plan.steps[n])}
        assert not {old, new} <= touched


@pytest.mark.usefixtures("small_groups")
def test_no_group_has_what_may_fail_and_what_writes_variables_in_place() -> None:
    for count in (64, 128):
        with gx.Graph() as graph:
            x = gx.placeholder((24, 24), "float32", "x")
            numbers = gx.placeholder((count,), "int64", "numbers")
            variable = gx.variable(normal(24, 1536))
            weights = [gx.constant(normal(24, 512, seed=n)) for n in range(3)]
            step = variable.assign(gx.concatenate([x @ w for w in weights], axis=1))
            rows = gx.exp(gx.tanh(gx.take(gx.constant(normal(50, 512)), numbers, axis=0)))
        session = gx.Session(graph, threads=2, options=CHECKED)
        exe = session.compile([gx.sum(rows, axis=-1), gx.group(step)], [x, numbers])
        plan, before = program_of(exe).plan, session.get(variable).copy()
        # the verifier refuses a commit within a group
        assert plan.groups
        with pytest.raises(gx.IndexRangeError):
            exe(normal(24, 24), np.full(count, 99))
        assert same(session.get(variable), before)


# --- errors --------------------------------------------------------------------------------------


def picked(threads: int) -> Any:
    """Rows of three tables, each in a branch of its own, beside what cannot fail."""
    with gx.Graph() as graph:
        x = gx.placeholder((16, 24), "float32")
        indices = [gx.placeholder((7,), "int64", f"i{n}") for n in range(3)]
        results: list[Any] = list(ensemble(x, 3))
        for number, index in enumerate(indices):
            table = gx.constant(normal(30 + number, 24, seed=number))
            results.append(gx.take(table, index, axis=0) @ gx.constant(normal(24, 24)))
    session = gx.Session(graph, threads=threads, options=CHECKED)
    return session.compile(results, [x, *indices])


@pytest.mark.usefixtures("small_groups")
def test_errors_of_a_group_are_those_of_a_run_in_order() -> None:
    exe, alone = picked(3), picked(1)
    assert any(
        program_of(exe).plan.kernels[step.kernel].sites
        for group in program_of(exe).plan.groups
        for step in program_of(exe).plan.steps[group.bounds[0] : group.bounds[-1]]
        if isinstance(step, Launch)
    ), "nothing that can fail runs side by side"
    x, right = normal(16, 24), np.arange(7)
    good = exe(x, right, right, right)
    assert same(good, alone(x, right, right, right))
    for wrong in ((0,), (1,), (2,), (0, 1, 2), (1, 2)):
        indices = [right + (1000 * (n + 1) if n in wrong else 0) for n in range(3)]
        failures = []
        for one in (exe, alone):
            for _ in range(5):
                with pytest.raises(gx.IndexRangeError) as caught:
                    one(x, *indices)
                failures.append(str(caught.value))
        assert len(set(failures)) == 1
        assert same(exe(x, right, right, right), good)


@pytest.mark.usefixtures("small_groups")
def test_a_run_is_ended_within_a_group() -> None:
    """What is computed there tells the run to stop, so that the step is known."""

    def build(x: Any) -> list[Any]:
        return [gx.tanh(x @ gx.constant(normal(24, 24, seed=n))) for n in range(4)]

    exe = compiled(build, 2)
    program, x = program_of(exe), normal(16, 24)
    exe(x)
    (group,) = program.plan.groups
    assert group.bounds[-1] == len(program.plan.steps)
    bound = program._bound([x])
    frame = bound.idle.pop()
    outputs = [np.zeros((16, 24), np.float32) for _ in range(4)]
    arrays = [x, *outputs]
    places = [*program.input_places, *program.output_places]
    for array, entries in zip(arrays, places, strict=True):
        for entry in entries:
            frame.pointers[entry] = array.ctypes.data
    ended = []
    for output in outputs:
        for other in outputs:
            other[:] = 0
        cancel = ctypes.c_void_p(output.ctypes.data)
        ended.append(program._walk(*frame.arguments, cancel))
    assert ended == [-1] * 4


@pytest.mark.usefixtures("small_groups")
def test_profiles_see_every_step() -> None:
    exe = compiled(ensemble, 2)
    x = normal(16, 24)
    measured = exe.profile(x, runs=3)
    launched = [n for n, s in enumerate(program_of(exe).plan.steps) if isinstance(s, Launch)]
    assert sorted(measured.steps) == launched
    assert all(spent > 0 for spent in measured.steps.values())


# --- threads and processes -----------------------------------------------------------------------


@pytest.mark.usefixtures("small_groups")
def test_sessions_run_at_once() -> None:
    exes = [compiled(build, 3) for build in (ensemble, branches, gates)]
    inputs = [normal(16, 24, seed=n) for n in range(4)]
    expected = [[exe(x) for x in inputs] for exe in exes]
    wrong: list[int] = []

    def work(number: int) -> None:
        for trip in range(60):
            at = (number + trip) % 4
            if not same(exes[number % 3](inputs[at]), expected[number % 3][at]):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_groups() -> None:
    script = textwrap.dedent("""
        import os, sys
        import numpy as np
        import graphc as gx
        with gx.Graph() as graph:
            x = total = gx.placeholder((32, 64))
            for n in range(12):
                total = total + gx.tanh(x @ gx.constant(np.full((64, 64), n / 100, np.float32)))
        exe = gx.Session(graph, threads=2).compile(total, [x])
        x = np.ones((32, 64), np.float32)
        expected = [exe(x) for _ in range(40)][-1]
        assert exe.compiled.program.plan.groups
        child = os.fork()
        good = all(exe(x).tobytes() == expected.tobytes() for _ in range(40))
        if not child:
            os._exit(0 if good else 1)
        _, status = os.waitpid(child, 0)
        sys.exit(0 if good and status == 0 else "it differs")
    """)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


# --- plans ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("name", PROGRAMS)
def test_text_forms_have_groups(name: str) -> None:
    plan = program_of(compiled(PROGRAMS[name], 2, shape=("n", 24))).plan
    assert plan.groups
    text = print_plan(plan)
    back = parse_plan(text, constants_of(plan))
    verify_plan(back)
    assert back.groups == plan.groups and print_plan(back) == text
    lines: list[Any] = []

    def number_of(line: Any) -> int:
        lines.append(line)
        return len(lines) - 1

    stored = plan_text(plan, number_of)
    assert plan_of(stored, plan.constants, lines).groups == plan.groups


@pytest.mark.usefixtures("small_groups")
def test_programs_from_the_cache_have_groups(tmp_path: Path) -> None:
    found = [compiled(ensemble, 2, cache=str(tmp_path), verify=False) for _ in range(2)]
    assert [exe.compiled.from_cache for exe in found] == [False, True]
    assert program_of(found[1]).plan.groups == program_of(found[0]).plan.groups
    assert same(*(exe(normal(16, 24)) for exe in found))


def test_the_verifier_refuses_groups_that_are_none() -> None:
    plan = program_of(compiled(lambda x: branches(x, 16, 64), 2, shape=(32, 64))).plan
    (group,) = plan.groups
    end = len(plan.steps)
    bounds, works = group.bounds, group.works

    def refused(match: str, *groups: ConcurrentGroup, **changes: Any) -> None:
        with pytest.raises(VerifyError, match=match):
            verify_plan(replace(plan, groups=groups, **changes))

    refused("two tasks", ConcurrentGroup((0, 1), (1,)))
    refused("two tasks", ConcurrentGroup((0, 0, 1), (1, 1)))
    refused("works", ConcurrentGroup(bounds, works[1:]))
    refused("behind", ConcurrentGroup((*bounds[:-1], end + 1), works))
    refused("behind", group, group)
    # the last step adds what the others made
    refused("touches", ConcurrentGroup((*bounds[:-1], end), works))
    refused("entered", group, commit=3)
    # two tasks that write to one place of the arena
    layout = plan.layout
    assert layout is not None
    roots = list(layout.solution.roots)
    order = tuple(n for n in layout.solution.order if n != roots[1])
    roots[1] = roots[0]
    shared = replace(layout.solution, roots=tuple(roots), order=order)
    with pytest.raises(VerifyError):
        check_layout(replace(plan, layout=replace(layout, solution=shared)))


@pytest.mark.usefixtures("small_groups")
def test_slots_of_tasks_lie_apart() -> None:
    for build in PROGRAMS.values():
        plan = program_of(compiled(build, 2)).plan
        layout = plan.layout
        assert layout is not None
        place = dict(zip(layout.slots, layout.solution.offsets, strict=True))
        size = dict(zip(layout.slots, layout.sizes, strict=True))
        for group in plan.groups:
            touched = [
                {
                    (place[slot], place[slot] + size[slot], writes)
                    for step in plan.steps[start:stop]
                    for slot, writes in plan.accesses(step)
                    if slot in place
                }
                for start, stop in pairwise(group.bounds)
            ]
            for task, ours in enumerate(touched):
                for theirs in touched[task + 1 :]:
                    for start, stop, writes in ours:
                        for begin, end, also in theirs:
                            assert stop <= begin or end <= start or not (writes or also)


def test_what_takes_too_much_memory_is_refused_and_said_so() -> None:
    def build(x: Any) -> Any:
        total = x
        for number in range(12):
            total = total + gx.cumsum(x * float(number + 2), axis=0)
        return total

    with gx.Graph() as graph:
        x = gx.placeholder((100_000,), "float32")
        total = build(x)
    plans = {}
    for threads in (1, 2, 8):
        exe = gx.Session(graph, threads=threads, options=CHECKED).compile(total, [x])
        plans[threads] = plan = program_of(exe).plan
        assert plan.layout is not None
        (record,) = (record for record in exe.compiled.records if record.name == "concurrent_steps")
        refused = [decision.reason for decision in record.decisions if decision.reason]
        assert bool(refused) == (threads == 8)
        assert all("bytes at once" in reason for reason in refused)
    first, *others = (plan.layout.solution.peak for plan in plans.values())
    assert max(others) <= first + (512 << 10)
    assert plans[2].groups and not plans[8].groups


def test_explain_says_what_runs_side_by_side() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((32, 64), "float32", "x")
        parts = [gx.tanh(x @ gx.constant(normal(64, 64, seed=n))) for n in range(12)]
        total = gx.sum(gx.stack(parts, axis=0), axis=0)
    exe = gx.Session(graph, threads=2).compile([total, *parts], [x])
    assert "side by side" in str(exe.explain(parts[3]))


def test_wide_graphs_compile_and_run() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((8, 64), "float32")
        w = gx.placeholder((64, 64), "float32")
        outs = [gx.tanh(x @ (w * float(n + 1))) for n in range(300)]
    first, second = normal(8, 64), normal(64, 64)
    exes = [
        gx.Session(graph, threads=threads, options=CHECKED).compile(outs, [x, w])
        for threads in (1, 2)
    ]
    one, two = (exe(first, second) for exe in exes)
    assert same(one, two)
    plan = program_of(exes[1]).plan
    assert plan.groups and all(at_hint(work) > 0 for group in plan.groups for work in group.works)
    assert LAUNCH in kinds(exes[1])
