"""A size of a value that nothing computes is an error where there is no such value.

The programs are the calls of the guard sweep whose nodes have guards: what NumPy refuses, a size of
it refuses too, wherever that is used.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
from collections.abc import Callable
from functools import cache
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest
from effort import lines_run
from guard_calls import CALLS, MADE_BY_PASSES, Call
from guard_programs import SIZES, unknown
from guard_sweep import Report, run_program
from slow_parameters import slow_unless

import graphc as gx
from graphc.ir.node_guards import demands, guards_within
from graphc.ir.op import OpDef, all_ops

CONTEXTS = (
    ("plain", "call"), ("taken", "call"), ("untaken", "call"), ("loop", "call"), ("nested", "call"),
    ("plain", "run"), ("plain", "saved"), ("plain", "library"), ("taken", "saved"),
    ("loop", "library"), ("depends", "call"), ("group", "call"), ("assign", "call"),
)  # fmt: skip
"""Wrappers and carriers."""

OF_DERIVATIVES = frozenset(
    {
        "scatter_add_along_axis", "zeta_slope", "gammainc_by_a", "gammainc_by_x", "betainc_by_a",
        "betainc_by_b", "betainc_by_x",
    }
)  # fmt: skip
"""Operations that only derivatives build."""


@cache
def _guarded() -> dict[Call, set[str]]:
    """The calls whose nodes have guards over unknown sizes, and the operations of these nodes."""
    found = {}
    for call in CALLS:
        with gx.Graph() as graph:
            operands = unknown(call, "number", "plain", "call").operands
            call.function(*(gx.placeholder((None,) * len(o.axes), o.dtype) for o in operands))
        names = {node.op.name for node in graph.nodes if demands(node) or guards_within(node)}
        if names:
            found[call] = names
    return found


def _may_have_guards(op: OpDef) -> bool:
    """Whether an operation takes guards, or has several operands that broadcast."""
    if not op.broadcasts:
        if isinstance(op.reference, BuiltinFunctionType):
            return False  # NumPy's own, whose signature only newer releases tell
        return "guards" in inspect.signature(op.reference).parameters
    example = op.domain.example
    assert example is not None
    return len(example(np.random.default_rng(0), op.domain.dtypes[0])[0]) > 1


def test_every_operation_with_guards_is_called() -> None:
    may = {op.name for op in all_ops() if _may_have_guards(op)}
    assert len(may) > 40
    # reductions of bits are made as they are, and need no elements
    bits = {"reduce_and", "reduce_or", "reduce_xor"}
    assert not may - set().union(*_guarded().values()) - MADE_BY_PASSES - OF_DERIVATIVES - bits


@slow_unless(lambda core, part: part == SIZES.index(core))
@pytest.mark.parametrize("part", range(12))
@pytest.mark.parametrize("core", SIZES)
def test_sizes_of_what_nothing_computes(core: str, part: int) -> None:
    report = Report()
    for number, call in enumerate(_guarded()):
        if number % 12 == part:
            turn = number // 6 + 4 * SIZES.index(core)
            contexts = {CONTEXTS[turn % len(CONTEXTS)], CONTEXTS[0] if core == "number" else None}
            for wrapper, carrier in filter(None, contexts):
                report.add(run_program(unknown(call, core, wrapper, carrier, number)))
    assert not report.faults, report.table()
    assert report.raised > 0.1 * report.runs, report.table()


@pytest.mark.parametrize("use", [
    lambda x, k: x + k * 0.0,
    lambda x, k: np.arange(3) + k,
    lambda x, k: gx.sum(x) > k,
    lambda x, k: x[k - 1],
    lambda x, k: gx.take(x, k - 1, axis=0),
    lambda x, k: gx.pad(x, ((0, k), (0, 0))),
    lambda x, k: gx.broadcast_to(1.0, (2, k)),
    lambda x, k: gx.zeros((x.shape[0] + k, np.int64(2) * k)),
    lambda x, k: gx.full((2,), 2 ** -k),
    lambda x, k: gx.dim(-abs(k) // 3 + k**2 % 5),
    lambda x, k: gx.dim(divmod(7, k)[0]),
    lambda x, k: gx.placeholder((k,), name="p") * 2,
    lambda x, k: gx.zeros((gx.zeros((k, 1)).shape[0],)),
])  # fmt: skip
def test_ways_of_using_a_size(use: Callable[[Any, Any], Any]) -> None:
    with gx.Graph() as graph:
        x, y = (gx.placeholder((None, None), name=name) for name in "xy")
        product = x @ y
        result = use(x, product.shape[1])
        # what is of no value that may fail needs nothing
        other = use(x, y.shape[1])
    session = gx.Session(graph)
    given: dict[Any, Any] = {"x": np.ones((3, 3)), "y": np.ones((3, 2)), "p": np.ones(2)}
    names = [node.outputs[0].name for node in graph.nodes]
    feeds = {name: array for name, array in given.items() if names.count(name) == 1}
    if "p" in names:
        feeds |= {v: np.ones(2) for node in graph.nodes for v in node.outputs if v.name == "p"}
    for value in (result, other):
        session.run(value, feeds)
    feeds["y"] = np.ones((4, 2))
    session.run(other, feeds)
    with pytest.raises(gx.ShapeError, match=r"\[3, 3\] and \[4, 2\] do not multiply") as caught:
        session.run(result, feeds)
    where = caught.value.where
    assert where is not None and where.line == product.graph.producer(product).provenance.where.line


def test_a_size_equals_itself_wherever_it_was_read() -> None:
    with gx.Graph() as graph:
        x, y = (gx.placeholder((None, None), name=name) for name in "xy")
        size, plain = (x @ y).shape[1], y.shape[1]
        assert size == plain and plain == size and hash(size) == hash(plain)
        assert (x @ y).shape == (x.shape[0], y.shape[1]) and {size: 1}[plain] == 1
        assert str(size) == str(plain) and size - plain == 0
        with pytest.raises(gx.ConcreteValueError):
            assert size == 3
        # a node is built of bare dims
        made = gx.zeros((size,))
        assert made.type.shape[0] is plain and made.graph.producer(made).attrs["shape"][0] is plain
    for other, dim in (copy.deepcopy((graph, size)), pickle.loads(pickle.dumps((graph, size)))):
        with other:
            again = gx.dim(dim)
        with pytest.raises(gx.ShapeError):
            gx.Session(other).run(again, {"x": np.ones((1, 2)), "y": np.ones((3, 1))})
    with gx.Graph() as elsewhere:
        feed = gx.placeholder((size,), name="feed")
        assert gx.Session(elsewhere).run(gx.dim(size), {feed: np.ones(4)}) == 4


def test_sizes_of_control_flow_need_what_runs_in_it() -> None:
    """7 rows do not split by 3, where the branch that splits them is the one that is taken."""
    with gx.Graph() as graph:
        x = gx.placeholder((None,), name="x")
        way = gx.placeholder((), "bool", name="way")
        chosen = gx.cond(way, lambda: gx.split(x, 3)[0], lambda: x[: x.shape[0] // 3])
        within = gx.cond(way, lambda: gx.sum(x) + chosen.shape[0], lambda: gx.sum(x))
        results = [gx.dim(chosen.shape[0]), gx.zeros_like(gx.exp(chosen)).shape[0] * 1.0 + way,
                   gx.zeros_like(chosen), within]  # fmt: skip
    session = gx.Session(graph)
    for size, taken in itertools.product((6, 7), (True, False)):
        feeds = {"x": np.ones(size), "way": taken}
        for result in results:
            if size == 7 and taken:
                with pytest.raises(gx.ShapeError, match=r"\[7\] does not split into 3"):
                    session.run(result, feeds)
            else:
                session.run(result, feeds)


def _offsets(count: int) -> Callable[[], object]:
    def run() -> object:
        with gx.Graph() as graph:
            x = gx.placeholder((None,), name="x")
            offset: Any = 0
            for _ in range(count):
                offset = offset + gx.split(x, 2)[0].shape[0]
                last = gx.dim(offset)
                assert last.shape == ()
        session = gx.Session(graph)
        assert session.run(last, {"x": np.ones(4)}) == 2 * count
        with pytest.raises(gx.ShapeError):
            session.run(last, {"x": np.ones(5)})
        return None

    return run


def test_sums_of_sizes_share_what_they_were_read_off() -> None:
    """Four times as many values take four times the work, though each sum is of all before it."""
    _offsets(5)()
    few, many = lines_run(_offsets(40)), lines_run(_offsets(160))
    assert many <= 6 * few
