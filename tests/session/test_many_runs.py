"""``Session.run_many``: several steps in one call give what so many runs give."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from session_harness import assert_same

import graphc as gx
from graphc.base.tuning.fusion import MEMORY

STEPS = 12

IN_PLACE = MEMORY.renewal_bytes // 4
"""So many float32 are written where they lie."""


class Program(NamedTuple):
    """A training loop.

    Attributes:
        graph: of all of it.
        fetches: the loss, and what writes.
        feeds: stacked, or the same in all steps.
        names: of variables that it writes.
    """

    graph: Any
    fetches: Any
    feeds: dict[Any, Any]
    names: list[str]

    def feeds_of(self, step: int) -> dict[Any, Any]:
        """Those of one step."""
        return {key: item[step] if np.ndim(item) else item for key, item in self.feeds.items()}

    def one_by_one(self, session: Any) -> Any:
        """The losses of runs of their own, stacked."""
        found = [session.run(self.fetches, self.feeds_of(n))["loss"] for n in range(STEPS)]
        return np.stack(found)


def trained(size: int = 6, batch: int | None = 4) -> Program:
    """Adam with a rate that is fed and noise; a variable that is written and never read."""
    rng = np.random.default_rng(0)
    with gx.Graph() as graph:
        x = gx.placeholder((batch, size), name="x")
        rate = gx.placeholder((), name="rate")
        w = gx.variable(rng.normal(size=size).astype("float32"), name="w")
        noise = gx.random.normal(gx.random.next_key(), (), dtype="float32")
        loss = gx.mean((x @ w + noise) ** 2)
        step = gx.optim.Adam(rate).minimize(loss, [w])
        last = gx.variable(np.zeros(size, np.float32), name="last").assign(gx.sum(x, axis=0))
    feeds = {x: rng.normal(size=(STEPS, 4, size)).astype("float32"), "rate": np.float32(0.01)}
    names = ["w", "w/first_moment", "adam/step", "random_state", "last"]
    return Program(graph, {"loss": loss, "others": [step, last]}, feeds, names)


def counting(size: int = 6) -> Program:
    """Counts by numbers that are picked, by an index that may be out of range."""
    with gx.Graph() as graph:
        i = gx.placeholder((), "int64", name="i")
        count = gx.variable(np.zeros(size, np.float32), name="count")
        written = gx.variable(0.0, name="written")
        picked = gx.take(gx.constant([1.0, 2.0, 3.0]), i, axis=0)
        steps = [count.assign_add(picked), written.assign(picked)]
    return Program(graph, {"loss": steps[0], "others": steps[1]},
                   {i: np.arange(STEPS) % 3}, ["count", "written"])  # fmt: skip


@pytest.mark.parametrize("held", [False, True], ids=["alone", "held"])
@pytest.mark.parametrize(
    "make",
    [
        trained,
        lambda: trained(batch=None),
        lambda: trained(IN_PLACE),
        counting,
        lambda: counting(IN_PLACE),
    ],
    ids=["small", "any batch", "in place", "counting", "counting in place"],
)
def test_steps_in_one_call_are_as_many_runs(make: Any, held: bool) -> None:
    """Results and variables have the bits of single runs, also where who reads a variable keeps it
    from being lent; what is read doesn't change."""
    program = make()
    one, many = gx.Session(program.graph), gx.Session(program.graph)
    losses = program.one_by_one(one)
    values = [program.graph.find(name) for name in program.names]
    kept = many.holdings.read(values) if held else []
    before = [array.copy() for array in kept]
    found = many.run_many(program.fetches, program.feeds)
    np.testing.assert_array_equal(found["loss"], losses, strict=True)
    assert_same(one.get(program.names), many.get(program.names))
    assert_same(kept, before)
    again = many.run_many(program.fetches, program.feeds, steps=STEPS)
    np.testing.assert_array_equal(again["loss"], program.one_by_one(one), strict=True)


def test_which_programs_write_in_place() -> None:
    """Of the tests here some write variables where they lie, and some have blocks take turns."""
    commits = []
    for program in (trained(), trained(IN_PLACE), counting(IN_PLACE)):
        compiled = gx.Session(program.graph).compile(program.fetches).compiled
        commits.append(compiled.plan.commit is not None)
    assert commits == [False, True, True]


@pytest.mark.parametrize("wrong", [0, 1, 7], ids=["first", "second", "later"])
@pytest.mark.parametrize("size", [6, IN_PLACE], ids=["turns", "in place"])
def test_a_step_that_fails_leaves_those_before(size: int, wrong: int) -> None:
    """The message names the step and the line; variables are as the steps before made them."""
    program = counting(size)
    session = gx.Session(program.graph)
    (key,) = program.feeds
    indices = np.zeros(STEPS, int)
    indices[wrong] = 5
    with pytest.raises(gx.IndexRangeError) as caught:
        session.run_many(program.fetches, {key: indices})
    assert caught.value.message.startswith(f"step {wrong}: take: index 5 is out of range for axis")
    assert caught.value.where is not None and caught.value.where.filename == __file__
    assert session.get("count")[0] == wrong
    session.run_many(program.fetches, {key: np.ones(3, int)})
    assert session.get("count")[-1] == wrong + 6


def test_checked_steps_name_the_one_that_is_not_finite() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((), name="x")
        total = gx.variable(0.0, name="total")
        step = total.assign_add(gx.log(x))
    session = gx.Session(graph, options=gx.Options(check_numerics=True))
    with pytest.raises(gx.NumericsError, match=r"step 2: a result is not finite: .*log"):
        session.run_many(step, {x: [1.0, 1.0, 0.0, 1.0]})
    assert session.get(total) == 0


def test_what_may_be_fed() -> None:
    """Arrays of steps, arrays for all of them, lists, strided and mapped arrays, fed variables."""
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 2), name="x")
        scale = gx.variable(2.0, name="scale")
        y = x * scale
    session = gx.Session(graph)
    whole = np.arange(24.0, dtype=np.float32).reshape(3, 4, 2)
    others = whole.tolist(), whole[::-1], whole.astype(">f8"), np.asfortranarray(whole)
    for given in (whole, *others):
        wanted = np.asarray(given, np.float32) * 2
        np.testing.assert_array_equal(session.run_many(y, {x: given}), wanted, strict=True)
    np.testing.assert_array_equal(
        session.run_many(y, {"x": whole[0], scale: [1, 2]}), np.stack([whole[0], whole[0] * 2])
    )
    np.testing.assert_array_equal(
        session.run_many([y], {x: whole[1]}, steps=2)[0], np.stack([whole[1] * 2] * 2)
    )
    empty = session.run_many(y, {x: np.zeros((3, 0, 2))})
    assert empty.shape == (3, 0, 2)


@pytest.mark.parametrize(
    ("feeds", "steps", "message"),
    [
        ({"x": np.ones((3, 4)), "y": np.ones(2)}, None, "x says 3 steps, the feed for y 2"),
        ({"x": np.ones((3, 4)), "y": 1.0}, 4, "steps= says 4 steps, the feed for x 3"),
        ({"x": np.ones(4), "y": 1.0}, None, "nothing tells how many steps"),
        ({"x": np.ones((0, 4)), "y": 1.0}, None, "the number of steps is 0"),
        ({"x": np.ones(4), "y": 1.0}, 2.5, "the number of steps is 2.5"),
        ({"x": np.ones((3, 5)), "y": 1.0}, None, r"axis 0 has size 5, not 4"),
        ({"x": np.ones((2, 3, 4)), "y": 1.0}, 2, "3 axes instead of 1"),
        ({"x": np.ones((3, 4))}, None, "missing|needed|not fed|y"),
        ([], None, "the iterator gave no feeds"),
        (3, None, "feeds are 3, not a mapping"),
    ],
)
def test_what_may_not_be_fed(feeds: Any, steps: Any, message: str) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4,), name="x")
        total = x + gx.placeholder((), name="y")
    with pytest.raises(gx.FeedError, match=message):
        gx.Session(graph).run_many(total, feeds, steps=steps)


def batches(count: int) -> Iterator[dict[str, Any]]:
    for n in range(count):
        yield {"i": n % 3}
    raise OSError("the disk is gone")


def test_feeds_of_an_iterator() -> None:
    """Each step takes one; what the iterator raises arrives as it is, after the steps before."""
    program = counting()
    one, many = gx.Session(program.graph), gx.Session(program.graph)
    losses = program.one_by_one(one)
    found = many.run_many(program.fetches, batches(STEPS + 1), steps=STEPS)
    np.testing.assert_array_equal(found["loss"], losses, strict=True)
    assert many.run_many(program.fetches, batches(3), steps=2)["others"].tolist() == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        many.run_many(program.fetches, batches(2))
    np.testing.assert_array_equal(many.get("count"), one.get("count") + 6)
    with pytest.raises(gx.IndexRangeError, match="step 1: take: index 7"):
        many.run_many(program.fetches, iter([{"i": 0}, {"i": 7}]))


def test_results_of_an_iterator_that_differ_in_shape() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), name="x")
    session = gx.Session(graph)
    with pytest.raises(gx.ShapeError, match=r"step 1: .* shape \(3,\), in step 0 .*\(2,\)"):
        session.run_many(x * 2, [{x: np.ones(2)}, {x: np.ones(3)}])


def test_steps_that_call_python() -> None:
    """Each step calls it once; what it raises names the step, and is not called again."""
    called = []

    def noted(item: Any) -> Any:
        called.append(float(item))
        if item == 3:
            raise OSError("no")
        return item * 2

    with gx.Graph() as graph:
        x = gx.placeholder((), name="x")
        total = gx.variable(0.0, name="total")
        step = total.assign_add(gx.host_call(noted, x, result_types=((), "float32")))
    session = gx.Session(graph)
    assert session.run_many(step, {x: [1.0, 2.0]}).tolist() == [2, 6]
    with pytest.raises(gx.HostCallError, match="step 1: ") as caught:
        session.run_many(step, {x: [1.0, 3.0, 2.0]})
    assert isinstance(caught.value.__cause__, OSError)
    assert called == [1, 2, 1, 3] and session.get(total) == 8


@pytest.mark.parametrize("size", [6, IN_PLACE], ids=["turns", "in place"])
def test_an_interrupt_between_steps_leaves_variables_whole(size: int) -> None:
    """Ctrl-C arrives though there is no Python between steps; all variables have the same steps."""
    with gx.Graph() as graph:
        a, b = (gx.variable(np.zeros(size, np.float32), name=name) for name in "ab")
        steps = [a.assign_add(1.0), b.assign_add(2.0)]
        total = gx.sum(a)
    session = gx.Session(graph)
    session.run_many([total, *map(gx.group, steps)], steps=3)
    alarm = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            session.run_many([total, *map(gx.group, steps)], steps=10_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
    one, other = session.get([a, b])
    assert one[0] > 3 and np.all(one == one[0]) and np.all(other == 2 * one[0])


def test_threads_read_while_steps_go_on() -> None:
    """Readers come in between, and see variables of one step."""
    with gx.Graph() as graph:
        a, b = (gx.variable(np.zeros(IN_PLACE, np.float32), name=name) for name in "ab")
        fetches = [gx.group(a.assign_add(1.0), b.assign_add(1.0))]
    session = gx.Session(graph)
    session.run(fetches)
    seen = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            one, other = session.get([a, b])
            seen.append((float(one[0]), bool(np.all(one == one[0]) and np.array_equal(one, other))))

    reader = threading.Thread(target=read)
    reader.start()
    while not seen:
        pass
    inside, total = False, 1.0
    for _ in range(100):
        # on a busy machine the reader may not have a turn in all steps of a call
        session.run_many(fetches, steps=3000)
        inside = any(total < count < total + 3000 for count, _ in [*seen])
        total += 3000
        if inside:
            break
    ended.set()
    reader.join()
    assert all(whole for _, whole in seen)
    assert inside
    assert session.get(a)[0] == total
