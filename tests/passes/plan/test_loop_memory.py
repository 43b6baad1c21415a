"""Fault 12: what a loop carries is written where it lies, or blocks take turns; no trip copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import assert_linear
from random_loops import program
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.errors import IndexRangeError, VerifyError
from graphc.base.target import host
from graphc.compiling.compiler import levels_of
from graphc.compiling.extraction import extract
from graphc.lower.program import plan_program
from graphc.plan.interp import run_plan
from graphc.plan.ir import Copy, Launch, Plan
from graphc.plan.printer import constants_of, parse_plan, print_plan
from graphc.plan.verify import verify_plan
from passes.checks.copies import check_copies
from passes.plan.copy_elision import without_copies
from passes.plan.loop_turns import in_turns

# what the plan does with loops, not kernels with loops inside
STRICT = gx.Options(verify=True, cache="off", off={"fuse_loops", "loop_kernels"})
SIZE = 64


def loop(body: Callable[..., Any], *start: Any, trips: Any) -> Any:
    """Repeats ``body``, which takes the trip and the carried values."""

    def step(t: Any, *now: Any) -> Any:
        given = body(t, *now)
        return (t + 1, *(given if isinstance(given, tuple) else (given,)))

    found = gx.while_loop(lambda t, *_: t < trips, step, (np.int64(0), *start))
    return found[1:] if len(start) > 1 else found[1]


def plan_of(graph: gx.Graph, fetches: Any, feeds: Sequence[Any], **options: Any) -> Plan:
    session = gx.Session(graph, options=replace(STRICT, **options))
    return session.compile(fetches, feeds).compiled.plan


def copies_inside(plan: Plan) -> list[Copy]:
    """The copies of more than a number that trips make, those that only begin inner loops aside."""
    return [
        step
        for start, end in plan.loops
        for step in plan.steps[start:end]
        if isinstance(step, Copy) and plan.slots[step.target].type.size != 1
    ]


def traced(body: Callable[..., Any], count: int = 1) -> tuple[gx.Graph, Any, Any, list[Any]]:
    """A loop over ``count`` vectors of 64 float64, the trips, its results and all that is fed."""
    with gx.Graph() as graph:
        xs = [gx.placeholder((SIZE,), "float64", name=f"x{n}") for n in range(count)]
        trips = gx.placeholder((), "int64", name="trips")
        found = loop(body, *xs, trips=trips)
    return graph, trips, found, [*xs, trips]


def element(t: Any, x: Any) -> Any:
    return gx.scatter_add(x, t % SIZE, 1.5)


def stencil(t: Any, x: Any) -> Any:
    return gx.concatenate([x[:1], x[2:] * 0.25 + x[:-2] * 0.75, x[-1:]])


def wave(t: Any, x: Any, y: Any) -> Any:
    return y, y[::-1] * 0.5 - x


BODIES: list[tuple[Callable[..., Any], int]] = [
    (element, 1),
    (stencil, 1),
    (wave, 2),
    (lambda t, x: 3.9 * x * (1.0 - x), 1),
    (lambda t, x, y: (y, x), 2),
    (lambda t, x, y: (y[::-1], x), 2),
    (lambda t, x, y: (gx.scatter_add(x, t % SIZE, y[t % SIZE]), y + x), 2),
    (lambda t, x, y: (x + y, gx.scatter_add(y, (t * 7) % SIZE, gx.max(x))), 2),
    (lambda t, x: gx.cond(t % 2 == 0, lambda: gx.scatter_add(x, t % SIZE, 2.0), lambda: x), 1),
    (lambda t, x: loop(lambda u, y: gx.scatter_add(y, u, 1.0), x, trips=t % 3), 1),
    (lambda t, x: loop(lambda u, y: y[::-1] + 1.0, x, trips=t % 3), 1),
]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_fault_12_no_trip_copies_an_array(number: int) -> None:
    graph, _, found, feeds = traced(*BODIES[number])
    # behind an odd number of trips of the last one's inner loop there is one
    assert len(copies_inside(plan_of(graph, found, feeds))) == (number == len(BODIES) - 1)
    if number not in (4, 8, 9):
        # what is switched off is copied at each trip
        assert copies_inside(plan_of(graph, found, feeds, off=frozenset({"inplace", *STRICT.off})))


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_fault_12_any_number_of_trips_gives_the_bits_of_each_level(number: int) -> None:
    body, count = BODIES[number]
    graph, _, found, feeds = traced(body, count)
    rng = np.random.default_rng(number)
    arrays = [rng.random(SIZE) for _ in range(count)]
    options = [replace(STRICT, optimize=level) for level in (0, 1, 2, 3)]
    copying = replace(STRICT, off=frozenset({"inplace", *STRICT.off}))
    options += [copying, replace(STRICT, threads=2)]
    sessions = [gx.Session(graph, options=each) for each in options]
    for turns in (0, 1, 2, 3, 4, 5, 70):
        given = dict(zip(feeds, [*arrays, np.int64(turns)], strict=True))
        results = [session.run(found, given) for session in sessions]
        texts = [[np.asarray(array).tobytes() for array in result] for result in results]
        assert all(text == texts[0] for text in texts[1:])
        if not turns:
            assert all(map(np.array_equal, np.reshape(results[0], (count, SIZE)), arrays))


def test_fault_12_a_trip_that_writes_an_element_is_five_steps() -> None:
    graph, _, found, feeds = traced(element)
    plan = plan_of(graph, found, feeds)
    ((start, end),) = plan.loops
    assert end - start == 5
    # the operand is copied once, to the result, and nothing else takes room
    assert [step.target for step in plan.steps if isinstance(step, Copy)][-1] == plan.outputs[0]
    assert plan.layout is not None and plan.layout.solution.peak < 64


def test_fault_12_large_pieces_are_computed_where_the_other_block_lies() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((1 << 13,), "float64")
        found = loop(stencil, x, trips=5)
    plan = plan_of(graph, found, [x])
    assert copies_inside(plan) == []
    assert any(buffer.role == "part" for kernel in plan.kernels for buffer in kernel.buffers)
    array = np.arange(1 << 13) % 7 / 8
    expected = array
    for _ in range(5):
        inner = expected[2:] * 0.25 + expected[:-2] * 0.75
        expected = np.concatenate([expected[:1], inner, expected[-1:]])
    given = gx.Session(graph, options=STRICT).run(found, {x: array})
    assert np.array_equal(given, expected)


def test_fault_12_what_was_computed_before_is_not_copied_at_all() -> None:
    """A scatter to zeros; a loop that starts from what nobody else needs."""
    with gx.Graph() as graph:
        x = gx.placeholder((SIZE,), "float64")
        places = gx.placeholder((5,), "int64")
        counts = gx.scatter_add(gx.tanh(x), places, np.ones(5))
        found = loop(lambda t, y: gx.scatter_add(y, t, 1.0), gx.cumsum(x), trips=3)
    for value in (counts, found):
        plan = plan_of(graph, value, [x, places])
        assert not [s for s in plan.steps if isinstance(s, Copy) and s.target in plan.outputs]


def test_fault_12_what_is_needed_later_is_copied_once() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((SIZE,), "float64")
        y = gx.cumsum(x)
        one = loop(lambda t, a: gx.scatter_add(a, t, 1.0), y, trips=3)
        two = loop(lambda t, a: gx.scatter_add(a, t + 1, 2.0), y, trips=4)
    session = gx.Session(graph, options=STRICT)
    given = np.arange(SIZE) / 8
    first, second, kept = session.run([one, two, y], {x: given})
    expected = np.cumsum(given)
    assert np.array_equal(kept, expected)
    expected[:3] += 1
    assert np.array_equal(first, expected)
    expected = np.cumsum(given)
    expected[1:5] += 2
    assert np.array_equal(second, expected)


def test_fault_12_rows_and_sizes_that_nobody_knows() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "float64")
        rows = gx.placeholder((None,), "int64")
        row = gx.placeholder((x.shape[1],), "float64")
        found = loop(
            lambda t, y: gx.scatter_add(y, rows[t], row + y[rows[t]]), x,
            trips=gx.dim(rows.shape[0]),
        )  # fmt: skip
    session = gx.Session(graph, options=STRICT)
    executable = session.compile(found, [x, rows, row])
    assert copies_inside(executable.compiled.plan) == []
    for n, m in ((3, 4), (70, 65), (1, 1)):
        array, given = np.arange(n * m, dtype=np.float64).reshape(n, m), np.arange(m) / 4
        places = np.arange(2 * n) % n
        expected = array.copy()
        for place in places:
            expected[place] += given + expected[place]
        assert np.array_equal(executable(array, places, given), expected)


# --- variables -----------------------------------------------------------------------------------


def test_fault_12_variables_are_whole_when_an_index_is_wrong_in_the_middle() -> None:
    with gx.Graph() as graph:
        table = gx.variable(np.zeros((1 << 12, 8)), name="table")
        places = gx.placeholder((6,), "int64")

        def body(t: Any) -> Any:
            table.assign(gx.scatter_add(table.read(), places[t], np.ones(8)))
            return t + 1

        turns = gx.while_loop(lambda t: t < 6, body, [np.int64(0)])
    session = gx.Session(graph, options=STRICT)
    executable = session.compile(turns, [places])
    assert copies_inside(executable.compiled.plan) == []
    expected = np.zeros((1 << 12, 8))
    for _ in range(3):
        executable(np.array([1, 5, 5, 4095, 0, 1]))
        np.add.at(expected, [1, 5, 5, 4095, 0, 1], 1)
        assert np.array_equal(session.get("table"), expected)
        with pytest.raises(IndexRangeError):
            executable(np.array([1, 5, 5, 4096, 0, 1]))
        assert np.array_equal(session.get("table"), expected)


def test_fault_12_negative_and_repeated_indices() -> None:
    with gx.Graph() as graph:
        x, places = gx.placeholder((5,), "float64"), gx.placeholder((4,), "int64")
        found = loop(lambda t, y: gx.scatter_add(y, places, gx.arange(4) + 0.5), x, trips=3)
    expected = np.zeros(5)
    for _ in range(3):
        np.add.at(expected, [-1, -1, 0, -5], np.arange(4) + 0.5)
    session = gx.Session(graph, options=STRICT)
    assert np.array_equal(session.run(found, {x: np.zeros(5), places: [-1, -1, 0, -5]}), expected)


# --- order, plans --------------------------------------------------------------------------------


def test_fault_12_readers_of_the_old_value_come_first() -> None:
    """The body names the new value first, and reads the old one in a kernel of its own."""

    def body(t: Any, x: Any, y: Any) -> Any:
        new = gx.scatter_add(x, t % SIZE, 1.0)
        return new, gx.cumsum(x) + y

    graph, _, found, feeds = traced(body, 2)
    assert copies_inside(plan_of(graph, found, feeds)) == []


def test_fault_12_two_trips_side_by_side_are_in_the_text() -> None:
    graph, _, found, feeds = traced(lambda t, x: x[::-1] * 0.5)
    plan = plan_of(graph, found, feeds)
    text = print_plan(plan)
    assert print_plan(parse_plan(text, constants_of(plan))) == text
    launches = [step.kernel for step in plan.steps if isinstance(step, Launch)]
    assert len(launches) == 2 * len(set(launches))
    ((_, end),) = plan.loops
    assert [type(step) for step in plan.steps[end:]] == [Copy]


def lowered(body: Callable[..., Any], count: int) -> Plan:
    """The plan before anything is done about its copies."""
    graph, _, found, _ = traced(body, count)
    fetches = list(found) if count > 1 else [found]
    extraction = extract(graph, fetches)
    levels = levels_of(extraction, STRICT, host())
    return plan_program(levels.graph, 0, host(), 1).plan


def removed(plan: Plan) -> tuple[Plan, list[int]]:
    first = without_copies(plan, (), lambda old, new: True)
    second = in_turns(first.plan, lambda old, new: True)
    return second.plan, [first.origins[n] if n >= 0 else n for n in second.origins]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_fault_12_the_checker_finds_whatever_is_wrong(number: int) -> None:
    """Launches of other slots, copies left out, targets moved: refused, or the same result."""
    before = lowered(*BODIES[number])
    after, origins = removed(before)
    check_copies(before, after, origins)
    rng = np.random.default_rng(number)
    found = 0
    for _ in range(120):
        steps = list(after.steps)
        at = int(rng.integers(len(steps)))
        step = steps[at]
        slots = [n for n, slot in enumerate(after.slots) if slot.kind in ("temporary", "output")]
        other = int(rng.choice(slots))
        if isinstance(step, Launch):
            place = int(rng.integers(len(step.arguments)))
            given = (*step.arguments[:place], other, *step.arguments[place + 1 :])
            steps[at] = Launch(step.kernel, given, step.where)
        elif isinstance(step, Copy):
            steps[at] = Copy(other, step.target) if rng.random() < 0.5 else Copy(step.source, other)
        else:
            steps[at] = replace(step, target=int(rng.integers(len(steps))))
        broken = replace(after, steps=tuple(steps))
        if broken.steps == after.steps:
            continue
        try:
            check_copies(before, broken, origins)
            verify_plan(broken)
        except VerifyError:
            found += 1
        else:
            assert_same_results(before, broken)
    assert found > 50


def assert_same_results(before: Plan, after: Plan) -> None:
    """A changed plan that passes computes what the plan did."""
    for turns in (0, 1, 2, 3):
        rng = np.random.default_rng(turns)
        arrays: list[Any] = [
            np.int64(turns).reshape(()) if not before.slots[n].type.shape else rng.random(SIZE)
            for n in before.feeds
        ]
        one, two = run_plan(before, arrays, {}), run_plan(after, arrays, {})
        assert [array.tobytes() for array in one] == [array.tobytes() for array in two]


def test_fault_12_removing_copies_is_linear() -> None:
    def make(count: int) -> Callable[[], object]:
        def body(t: Any, x: Any) -> Any:
            for n in range(count):
                x = gx.cond(t % (n + 2) == 0, lambda x=x, n=n: element(n, x), lambda x=x: x)
            return x

        plan = lowered(body, 1)
        return lambda: removed(plan)

    assert_linear(make, 8)


@slow_unless(lambda seed: seed % 3 == 0)
@pytest.mark.parametrize("seed", range(24))
def test_fault_12_random_loops(seed: int) -> None:
    made = program(seed)
    for options in (STRICT, replace(STRICT, optimize=3, threads=2), replace(STRICT, optimize=1)):
        session = gx.Session(made.graph, options=options)
        found = session.run(made.fetches, made.feeds)
        for one, other in zip(found, made.expected, strict=True):
            assert np.array_equal(one, other)


def test_fault_12_explain_tells_how_a_value_goes_from_trip_to_trip() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((SIZE,), "float64")
        a, b, c = loop(
            lambda t, a, b, c: (gx.scatter_add(a, t, 1.0), b[::-1] * 0.5, x + 0 * c[::-1]), x, x, x,
            trips=3,
        )  # fmt: skip
    fetches = [a, b, c]
    told = gx.Session(graph, options=STRICT).compile(fetches, [x])
    assert told.explain(a).memory.endswith("from trip to trip it is written in place")
    assert told.explain(b).memory.endswith("from trip to trip 2 blocks take turns")
    off = replace(STRICT, off=frozenset({"inplace", *STRICT.off}))
    told = gx.Session(graph, options=off).compile(fetches, [x])
    for value in (a, b):
        assert "it is copied, since" in told.explain(value).memory


def test_fault_12_each_decision_can_be_left_out() -> None:
    """Bits stay whatever fuel there is, and each unit of it is a decision that is recorded."""
    graph, _, found, feeds = traced(*BODIES[2])
    given = dict(zip(feeds, [np.arange(64.0), np.ones(64), np.int64(5)], strict=True))
    whole = gx.Session(graph, options=STRICT)
    expected = [array.tobytes() for array in whole.run(found, given)]
    records = whole.compile(found, feeds).compiled.records
    decisions = [d for record in records for d in record.decisions if d.rule == "inplace"]
    assert decisions
    for fuel in range(max(d.number for d in decisions) + 1):
        session = gx.Session(graph, options=replace(STRICT, fuel=fuel))
        assert [array.tobytes() for array in session.run(found, given)] == expected
