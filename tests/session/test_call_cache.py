"""What a session remembers of its runs, and when it no longer holds."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from call_harness import counter, increment

import graphc as gx
from graphc.base.errors import FeedError, GraphError, NameLookupError
from graphc.session.call_cache import MAX_QUESTIONS


def test_runs_are_remembered(careful_calls: list[Any]) -> None:
    session, x, y = increment()
    z = y + 1
    array = np.arange(16, dtype=np.float32)
    pair = namedtuple("pair", "first second")
    nested = {"a": y, "b": [z, (y,)]}, [[y], {"z": z}], pair(z, y), OrderedDict(k=y)
    for fetches in (y, [y, z], (y, z), "x", ["x", z], *nested):
        for feeds in ({x: array}, {"x": array}, {x: array, y: array * 3}):
            expected = session.run(fetches, feeds)
            for _ in range(4):
                result = session.run(fetches, dict(feeds))
                assert type(result) is type(expected) and str(result) == str(expected)
    assert not careful_calls


def test_names_are_remembered_though_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _, y = increment()
    with session.graph:
        gx.placeholder((2,), name="other")
    array = np.arange(16, dtype=np.float32)

    def ask() -> Any:
        name = "".join(["o", "ther"])
        return session.run([name, y], {"".join(["", "x"]): array, name: array[:2]})

    for _ in range(2):
        ask()
    monkeypatch.setattr(session, "_executable", None)
    np.testing.assert_array_equal(ask()[1], array + array)
    monkeypatch.undo()
    for n in range(MAX_QUESTIONS + 3):
        session.run([y, *[[]] * n], {"x": array})
    np.testing.assert_array_equal(ask()[1], array + array)


def test_lists_that_change() -> None:
    session, x, y = increment()
    z = y + 1
    fetches = [y]
    array = np.ones(16, np.float32)
    for _ in range(3):
        assert session.run(fetches, {x: array})[0][0] == 2
    fetches[0] = z
    for _ in range(3):
        assert session.run(fetches, {x: array})[0][0] == 3
    fetches.append(y)
    assert len(session.run(fetches, {x: array})) == 2
    nested: Any = [[y]]
    for _ in range(3):
        assert session.run(nested, {x: array})[0][0][0] == 2
    nested[0][0] = z
    assert session.run(nested, {x: array})[0][0][0] == 3
    nested.append(nested)
    with pytest.raises(GraphError, match="contains itself"):
        session.run(nested, {x: array})


def test_names_are_looked_up_anew_when_the_graph_grows() -> None:
    session, _, _ = increment()
    with session.graph:
        once = gx.placeholder((2,), name="once")
        _ = once + 1
    array = np.ones(2, np.float32)
    for _ in range(4):
        np.testing.assert_array_equal(session.run("once", {"once": array}), [1, 1])
    with session.graph:
        gx.placeholder((2,), name="once")
    with pytest.raises(NameLookupError, match="2 values are called 'once'"):
        session.run("once", {once: array})
    with pytest.raises(NameLookupError):
        session.run(once, {"once": array})


def test_runs_with_wrong_feeds_say_so_however_often() -> None:
    session, x, y = increment()
    array = np.ones(16, np.float32)
    for _ in range(4):
        session.run(y, {x: array})
    with pytest.raises(FeedError, match="x"):
        session.run(y, {})
    with pytest.raises(FeedError):
        session.run(y, {x: np.ones(3, np.float32)})
    with pytest.raises(NameLookupError):
        session.run(y, {"unknown": array})
    with pytest.raises(FeedError, match="fed twice"):
        session.run(y, {x: array, "x": array})
    np.testing.assert_array_equal(session.run(y, {x: array * 2}), np.full(16, 4))


def test_effects_run_each_time() -> None:
    session, first, _, step = counter()
    x = session.graph.find("x")
    for trip in range(1, 7):
        assert session.run(step, {x: np.ones(3, np.float32)}) is None
        np.testing.assert_array_equal(session.run(first), np.full(3, trip))
