"""Loops of lanes as kernels: bits, errors and effects are those of the loops themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from lane_loop_programs import lane_loop
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.tuning import fusion
from graphc.compiling.extraction import extract
from passes.control_flow.fuse_loops import fuse_loops
from passes.infra.base import PassContext

OFF = gx.Options(off={"fuse_loops", "join_loops"})
SHAPES = ((), (1,), (5,), (64,), (67,), (3, 5), (0,), (130,))


def run_both(fetches: Sequence[gx.Value], feeds: dict[gx.Value, Any], **options: Any) -> Any:
    """The executable with loops as kernels; its results have the bits of those without."""
    graph = fetches[0].graph
    with gx.Session(graph, options=OFF) as session:
        expected = session.run(fetches, feeds)
    with gx.Session(graph, options=gx.Options(**options)) as session:
        executable = session.compile(fetches)
        found = session.run(fetches, feeds)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        # NaNs of narrow floats are equal to none
        wide = np.float64 if one.dtype.itemsize < 4 else one.dtype
        np.testing.assert_array_equal(one.astype(wide), other.astype(wide))
    return executable


def loops(executable: Any) -> int:
    """How many loops the plan still runs."""
    return sum(
        node.op.name == "while" for node in executable.graph.nodes if node.op.name != "fused"
    )


def kernels(executable: Any) -> list[str]:
    """The names of the kernels that run loops."""
    return re.findall(r'kernel "(loop_\w*)"', executable.kernel_ir())


def reason(executable: Any) -> str:
    """What the decision about the one loop says."""
    (found,) = [
        decision.reason
        for record in executable.passes
        for decision in record.decisions
        if decision.rule == "fuse_loops"
    ]
    return str(found)


@slow_unless(lambda seed, shape: seed % 2 == SHAPES.index(shape) % 2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_random_loops(seed: int, shape: tuple[int, ...]) -> None:
    program = lane_loop(np.random.default_rng([seed, *shape]), shape)
    run_both(program.fetches, program.feeds)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(150))
def test_many_random_loops(seed: int, dtype: str) -> None:
    random = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    program = lane_loop(random, shape, dtype)
    run_both(program.fetches, program.feeds, threads=1 + seed % 2)


def logistic(trips: int, lanes: int) -> tuple[gx.Value, gx.Value, gx.Value, gx.Value]:
    """The logistic map's first values, rates, last values and all values."""
    x, r = (gx.placeholder((lanes,), "float64") for _ in range(2))
    last, every = gx.scan(lambda c, _: (r * c * (1.0 - c),) * 2, x, length=trips)
    return x, r, last, every


def fed(x: gx.Value, r: gx.Value) -> dict[gx.Value, Any]:
    random = np.random.default_rng(0)
    return {x: random.random(x.shape), r: 3.5 + random.random(r.shape) / 2}


def test_a_loop_is_one_launch() -> None:
    with gx.Graph():
        x, r, last, every = logistic(50, 9)
    executable = run_both([last, every], fed(x, r))
    assert loops(executable) == 0
    assert len(executable.kernels) == 1


def test_a_gradient_is_one_launch_with_a_tape() -> None:
    with gx.Graph():
        x, r, last, _ = logistic(50, 100)
        gradients = gx.gradients(last.sum(), [x, r])
    executable = run_both(gradients, fed(x, r))
    assert len(kernels(executable)) == 1
    assert re.search(r"scratch %tape0: float64\[50, 32\]", executable.kernel_ir())


def test_second_derivatives_are_loops_of_lanes_too() -> None:
    with gx.Graph():
        x, r, last, _ = logistic(5, 7)
        (first,) = gx.gradients(last.sum(), [x])
        second = gx.gradients(first.sum(), [x, r])
    assert loops(run_both(second, fed(x, r))) == 0


def test_work_between_loops_is_done_between_them() -> None:
    with gx.Graph():
        x, r, last, _ = logistic(6, 10)
        target = gx.placeholder((10,), "float64")
        loss = ((last - target) ** 2).sum()
        gradients = gx.gradients(loss, [x, r])
    feeds = {**fed(x, r), target: np.linspace(0, 1, 10)}
    executable = run_both([loss, *gradients], feeds)
    assert len(kernels(executable)) == 1


def test_rows_of_what_is_computed_of_stacks_are_computed_where_they_are_read() -> None:
    with gx.Graph():
        x, r, _, every = logistic(12, 10)
        target = gx.placeholder((12, 10), "float64")
        loss = ((every - target) ** 2 * 0.5).sum()
        gradients = gx.gradients(loss, [x, r])
    feeds = {**fed(x, r), target: np.linspace(0, 1, 120).reshape(12, 10)}
    assert len(kernels(run_both(gradients, feeds))) == 1
    assert len(kernels(run_both([loss, *gradients], feeds))) == 1


def test_elements_picked_of_what_is_computed_are_stored() -> None:
    with gx.Graph():
        x = gx.placeholder((6,), "float64")
        w = gx.placeholder((6,), "float64")
        s = gx.placeholder((), "float64")

        def body(i: gx.Value, carry: tuple[gx.Value, gx.Value]) -> tuple[gx.Value, gx.Value]:
            c, scale = carry
            return c + gx.pad(w[1:] * scale, (1, 0)), scale * 0.5

        last, _ = gx.fori_loop(0, 4, body, (x, s))
    executable = run_both([last], {x: np.arange(6.0), w: np.ones(6), s: np.float64(2.0)})
    assert loops(executable) == 1


def test_lanes_that_meet_between_loops_are_two_launches() -> None:
    with gx.Graph():
        x, r, last, _ = logistic(6, 10)
        gradients = gx.gradients((last / last.sum()).max(), [x, r])
    assert len(kernels(run_both(gradients, fed(x, r)))) == 2


def test_a_body_whose_lanes_meet_stays_a_loop() -> None:
    with gx.Graph():
        x = gx.placeholder((4,), "float64")
        y = gx.fori_loop(0, 5, lambda i, c: c / c.sum(), x)
    executable = run_both([y], {x: np.arange(1.0, 5.0)})
    assert loops(executable) == 1
    assert reason(executable) == "reduce_sum: no loop over lanes computes it"


def test_trips_that_nobody_knows_run_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = fusion.FUSION._replace(loop_work=16 * 3 * 4)
    monkeypatch.setattr("passes.control_flow.fuse_loops.FUSION", tuning)
    for trips in (0, 1, 3, 4, 5, 23):
        with gx.Graph():
            x = gx.placeholder((3,), "float64")
            n = gx.placeholder((), "int64")
            y = gx.fori_loop(0, n, lambda i, c: gx.sin(c) * 1.5, x)
        executable = run_both([y], {x: np.arange(3.0), n: np.int64(trips)})
        assert loops(executable) == 1
        assert len(kernels(executable)) == 1


def test_any_number_of_lanes_runs_in_turns_that_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = fusion.FUSION._replace(loop_work=300)
    monkeypatch.setattr("passes.control_flow.fuse_loops.FUSION", tuning)
    with gx.Graph():
        x = gx.placeholder(("lanes",), "float64")
        y = gx.fori_loop(0, 9, lambda i, c: c * 0.5 + 1.0, x)
    for lanes in (0, 1, 40, 1000):
        executable = run_both([y], {x: np.arange(float(lanes))})
        assert loops(executable) == 1
        assert len(kernels(executable)) == 1


@pytest.mark.parametrize("lanes", [10**5, "lanes"])
def test_functions_that_many_lanes_share_are_not_computed_by_each(lanes: int | str) -> None:
    with gx.Graph():
        x = gx.placeholder((lanes,), "float64")
        y = gx.fori_loop(0, 9, lambda i, c: c * gx.sin(i.astype("float64")), x)
    executable = run_both([y], {x: np.arange(1e5)})
    assert reason(executable) == "each lane would compute functions of what lanes share"


def test_a_condition_ends_a_loop_inside_a_kernel() -> None:
    with gx.Graph():
        a = gx.placeholder((), "float64")
        # Newton's method for the square root
        root, trips = gx.while_loop(
            lambda x, n: gx.abs(x * x - a) > 1e-9 * a,
            lambda x, n: ((x + a / x) / 2.0, n + 1),
            (a, 0),
        )
    executable = run_both([root, trips], {a: np.float64(2.0)})
    assert len(kernels(executable)) == 1


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0, 5e-324, 1e308])
def test_special_values_stay_in_their_lanes(special: float) -> None:
    with gx.Graph():
        x, r, last, every = logistic(4, 35)
        gradients = gx.gradients(every.sum(), [x, r])
    feeds = fed(x, r)
    feeds[x][17] = special
    run_both([last, every, *gradients], feeds)


def test_an_index_out_of_range_names_the_line() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), "float64")
        table = gx.placeholder((4, 3), "float64")
        y = gx.fori_loop(0, 6, lambda i, c: c + table[i], x)
    with gx.Session(y.graph) as session, pytest.raises(gx.IndexRangeError) as caught:
        session.run(y, {x: np.zeros(3), table: np.ones((4, 3))})
    assert "4" in str(caught.value)
    assert "test_fuse_loops.py" in str(caught.value)


def test_a_variable_is_whole_where_a_loop_fails() -> None:
    with gx.Graph() as graph:
        state = gx.variable(np.zeros(3), name="state")
        table = gx.placeholder((None, 3), "float64")
        update = state.assign(gx.fori_loop(0, 6, lambda i, c: c + table[i], state))
    with gx.Session(graph) as session:
        session.run(update, {table: np.ones((6, 3))})
        with pytest.raises(gx.IndexRangeError):
            session.run(update, {table: np.ones((5, 3))})
        np.testing.assert_array_equal(session.run(state), np.full(3, 6.0))


Indexed = Callable[[gx.Value, gx.Value, gx.Value], gx.Value]
INDEXED: dict[str, Indexed] = {
    "a number": lambda table, k, i: table[k],
    "a number that counts": lambda table, k, i: table[k + i],
    "a row": lambda table, k, i: gx.stack([table, table], axis=1)[k + i],
    "an index of each lane": lambda table, k, i: table[k + i + gx.arange(2)],
    "a part of what is looked up": lambda table, k, i: table[k + i + gx.arange(5)][1],
    "a padded one": lambda table, k, i: gx.pad(table[k + i][None], ((2, 0),))[:2],
}


@slow_unless(lambda name, trips, lanes: (trips and lanes) or name == next(iter(INDEXED)))
@pytest.mark.parametrize("lanes", [0, 3])
@pytest.mark.parametrize("trips", [0, 4])
@pytest.mark.parametrize("name", INDEXED)
def test_indices_are_checked_once_in_each_trip(name: str, trips: int, lanes: int) -> None:
    with gx.Graph() as graph:
        x, rows = gx.placeholder(("lanes", 2), "float64"), gx.placeholder(("trips",), "float64")
        table, k = gx.placeholder((9,), "float64"), gx.placeholder((), "int64")
        (y, _), _ = gx.scan(
            lambda c, row: ((c[0] + row + INDEXED[name](table, k, c[1]), c[1] + 1), None),
            (x, 0),
            rows,
        )
    feeds = {x: np.ones((lanes, 2)), rows: np.ones(trips), table: np.arange(9.0)}
    for first in (0, 7, 9, -12):
        found = []
        for options in (OFF, gx.Options()):
            with gx.Session(graph, options=options) as session:
                try:
                    found.append(session.run(y, {**feeds, k: np.int64(first)}).tolist())
                except gx.IndexRangeError as error:
                    found.append(str(error))
        assert found[0] == found[1]


def test_lanes_are_shared_by_threads() -> None:
    with gx.Graph():
        x, r, last, every = logistic(40, 5000)
        gradients = gx.gradients(last.sum(), [x, r])
    run_both([last, every], fed(x, r), threads=2)
    run_both(gradients, fed(x, r), threads=2)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("trips", "lanes"), [(16, 1024), (17, 1100), (40, 256), (3, 300), (33, 2048)]
)
def test_rows_of_many_lanes_are_written_by_blocks(trips: int, lanes: int, known: bool) -> None:
    with gx.Graph():
        x = gx.placeholder((lanes if known else "lanes",), "float64")
        shape = (trips, lanes) if known else ("trips", "lanes")
        rows = gx.placeholder(shape, "float64")
        last, every = gx.scan(lambda c, row: (c * 0.5 + row, c), x, rows)
    random = np.random.default_rng(trips)
    feeds = {x: random.normal(size=lanes), rows: random.normal(size=(trips, lanes))}
    executable = run_both([last, every], feeds, threads=2)
    assert ("scratch %v" in executable.kernel_ir()) == (not known or trips >= 16)


def test_lanes_and_trips_of_any_number() -> None:
    with gx.Graph():
        x = gx.placeholder(("lanes",), "float32")
        rows = gx.placeholder(("trips", "lanes"), "float32")
        last, every = gx.scan(lambda c, row: (gx.tanh(c + row),) * 2, x, rows)
        (gradient,) = gx.gradients(every.sum(), [rows])
    random = np.random.default_rng(1)
    for trips, lanes in ((0, 3), (3, 0), (1, 1), (7, 33), (2, 200)):
        feeds = {
            x: random.normal(size=lanes).astype("float32"),
            rows: random.normal(size=(trips, lanes)).astype("float32"),
        }
        assert loops(run_both([last, every, gradient], feeds)) == 0


def test_a_loop_of_which_nothing_is_read_goes() -> None:
    """A kernel makes something; passes before may have left a loop that makes nothing."""
    with gx.Graph() as recorder:
        x = gx.placeholder((4,), "float64")
        last = gx.fori_loop(0, 5, lambda i, v: v * 0.5, x)
        graph = extract(recorder, [x + 1.0, last], [], {}).graph
    graph = graph.with_parts(outputs=graph.outputs[:1])
    assert any(node.op.name == "while" for node in graph.nodes)
    left = fuse_loops(graph, PassContext())
    assert not any(node.regions for node in left.nodes)
