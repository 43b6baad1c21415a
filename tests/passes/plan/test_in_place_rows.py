"""Rows of variables that are written where they lie, and runs that stay atomic (fault 12)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from renewals import addresses, commit_of, data

import graphc as gx
from graphc.base.errors import IndexRangeError

pytestmark = pytest.mark.check_mode


# --- fault 12: parts of variables ----------------------------------------------------------------


def table_of(rows: int = 1 << 12) -> tuple[gx.Graph, Any, list[Any], Any]:
    """A table of 128 KB or more whose rows are added to, and a count of what was added."""
    with gx.Graph() as graph:
        table = gx.variable(np.zeros((rows, 8), np.float32), name="table")
        count = gx.variable(np.int64(0), name="count")
        ids = gx.placeholder((None,), "int64", name="ids")
        added = gx.placeholder((ids.shape[0], 8), name="added")
        step = gx.group(
            count.assign_add(gx.sum(gx.ones_like(ids))),
            table.assign(gx.scatter_add(table, ids * 2, added * 0.5)),
        )
    return graph, table, [ids, added], step


@pytest.mark.parametrize("threads", [1, 2])
def test_fault_12_rows_of_a_variable_are_written_where_they_lie(threads: int) -> None:
    graph, table, feeds, step = table_of()
    sessions = [
        gx.Session(graph, threads=threads, options=gx.Options(off=off, verify=True, cache="off"))
        for off in (frozenset[str](), frozenset({"inplace"}))
    ]
    run, copying = (session.compile(step, feeds) for session in sessions)
    assert commit_of(run) is not None and commit_of(copying) is None
    expected = np.zeros((1 << 12, 8), np.float32)
    places = []
    for n in range(4):
        ids, added = np.array([3, 3, -1, 5 + n, 0]), data(5, 8, seed=n)
        run(ids, added)
        copying(ids, added)
        np.add.at(expected, ids * 2, added * np.float32(0.5))
        assert all(np.array_equal(session.get(table), expected) for session in sessions)
        places.append(addresses(sessions[0], table))
    assert places[1] == places[2] == places[3]


def test_fault_12_a_wrong_index_among_right_ones_leaves_all_variables() -> None:
    graph, table, feeds, step = table_of()
    session = gx.Session(graph)
    run = session.compile(step, feeds)
    for _ in range(3):
        run(np.arange(5), data(5, 8))
    before, place = session.get([table, "count"]), addresses(session, table)
    with pytest.raises(IndexRangeError, match="scatter_add: index 4096 is out of range for axis 0"):
        run(np.array([0, 1, 2048, 3]), data(4, 8))
    assert all(map(np.array_equal, session.get([table, "count"]), before))
    assert addresses(session, table) == place
    run(np.arange(0), data(0, 8))
    assert np.array_equal(session.get(table), before[0])


def test_fault_12_a_row_that_somebody_holds_stays() -> None:
    """Where the old block may not be written, the copy is made."""
    graph, table, feeds, step = table_of()
    session = gx.Session(graph)
    run = session.compile(step, feeds)
    for _ in range(3):
        run(np.arange(5), np.ones((5, 8), np.float32))
    (held,) = session._holdings.read([table])
    seen = held.copy()
    run(np.arange(5), np.ones((5, 8), np.float32))
    assert np.array_equal(held, seen)
    assert np.array_equal(session.get(table)[:10:2], np.full((5, 8), 2, np.float32))


def test_fault_12_scatters_one_after_the_other_are_checked_first() -> None:
    with gx.Graph() as graph:
        table = gx.variable(np.zeros((1 << 12, 8), np.float32))
        one, two = gx.placeholder((3,), "int64"), gx.placeholder((2,), "int64")
        first = gx.scatter_add(table, one, np.ones((3, 8), np.float32))
        step = table.assign(gx.scatter_add(first, two, np.full((2, 8), 2, np.float32)))
    session = gx.Session(graph, options=gx.Options(verify=True, cache="off"))
    run = session.compile(gx.group(step), [one, two])
    assert commit_of(run) is not None
    run([0, 1, 1], [1, 4095])
    assert session.get(table)[[0, 1, 4095], 0].tolist() == [1, 4, 2]
    for wrong in (([0, 9999, 1], [1, 2]), ([0, 1, 2], [1, -9999])):
        with pytest.raises(IndexRangeError):
            run(*wrong)
        assert session.get(table)[[0, 1, 4095], 0].tolist() == [1, 4, 2]


def test_fault_12_what_is_read_of_the_old_rows_comes_first() -> None:
    with gx.Graph() as graph:
        table = gx.variable(np.ones((1 << 12, 8), np.float32))
        ids = gx.placeholder((None,), "int64")
        rows = gx.take(table, ids, axis=0)
        step = table.assign(gx.scatter_add(table, ids, rows * 2))
        total = gx.sum(rows)
    session = gx.Session(graph, options=gx.Options(verify=True, cache="off"))
    run = session.compile([total, gx.group(step)], [ids])
    assert commit_of(run) is not None
    assert [run([1, 5])[0] for _ in range(3)] == [16, 48, 144]
    assert session.get(table)[[0, 1, 5], 0].tolist() == [1, 27, 27]
