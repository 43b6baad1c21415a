"""Results that are written to arrays of the caller."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np
import pytest
from call_harness import Subclass, counter, increment, symbolic

import graphc as gx
from graphc.base.errors import FeedError
from graphc.session.executable import Executable


def test_given_arrays_are_written_natively(careful_calls: list[Any]) -> None:
    executable = symbolic_product()
    a, b = np.ones((2, 3), np.float32), np.full(3, 2, np.float32)
    target = np.empty((2, 3), np.float32)
    for _ in range(3):
        executable(a, b, out=target)
    careful_calls.clear()
    target[:] = -1
    references = sys.getrefcount(target)
    assert executable(a, b, out=target) is target
    assert executable(a, b, out=None) is not target
    assert np.all(target == 2) and not careful_calls
    assert sys.getrefcount(target) == references
    room = np.zeros((3, 3), np.float32)
    assert np.all(executable(a, room[2], out=room[:2]) == 0) and not careful_calls
    with pytest.raises(FeedError, match="shares memory"):
        executable(a, room[2], out=room[1:])
    with pytest.raises(FeedError, match=r"shape \(3, 3\); the result has shape \(2, 3\)"):
        executable(a, b, out=room)


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_given_arrays_are_written_natively(kind: type, careful_calls: list[Any]) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 3), name="x")
        results = kind([x + 1, gx.sum(x, axis=-1)])
    executable = gx.Session(graph).compile(results, [x])
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    room = np.empty(12, np.float32)
    targets = [room[:6].reshape(2, 3), room[6:8]]
    for _ in range(3):
        executable(array)
    careful_calls.clear()
    references = [sys.getrefcount(target) for target in targets]
    for out in (targets, tuple(targets)):
        room[:] = -1
        given = executable(array, out=out)
        assert type(given) is kind and all(map(operator.is_, given, targets))
        np.testing.assert_array_equal(targets[0], array + 1)
        np.testing.assert_array_equal(targets[1], [3, 12])
    del given, out
    assert not careful_calls
    assert [sys.getrefcount(target) for target in targets] == references
    assert executable(array, out=[targets[0], None])[0] is targets[0] and careful_calls
    for wrong, message in (
        ([targets[0]], "a list of 1 where the fetches have"),
        ([targets[0], room[5:7]], "share memory"),
        ([targets[0], room[6:9]], r"shape \(3,\); the result has shape \(2,\)"),
        ([targets[1], targets[0]], r"shape \(2,\)"),
        ([array, targets[1]], "shares memory with an argument"),
    ):
        with pytest.raises(FeedError, match=message):
            executable(array, out=wrong)


def symbolic_product() -> Executable:
    with gx.Graph() as graph:
        a = gx.placeholder(("n", "m"), name="a")
        b = gx.placeholder(("m",), name="b")
        y = a * b
    return gx.Session(graph).compile(y, [a, b])


def test_results_are_written_to_given_arrays() -> None:
    session, x, y = increment()
    z = gx.sum(y)
    array = np.arange(16, dtype=np.float32)
    executable = session.compile(y, [x])
    target = np.empty(16, np.float32)
    for _ in range(4):
        target[:] = -1
        assert executable(array, out=target) is target
        np.testing.assert_array_equal(target, array + array)
    several = session.compile({"y": y, "all": [z, y]}, [x])
    total = np.empty((), np.float32)
    for _ in range(4):
        total[...] = 0
        result = several(array, out={"y": target, "all": [total, None]})
        assert result["y"] is target and result["all"][0] is total and total == 240
        np.testing.assert_array_equal(result["all"][1], array + array)
    assert several(array, out={"y": None, "all": None})["all"][0] == 240


def test_symbolic_results_are_written_to_given_arrays() -> None:
    executable = symbolic()
    a, b = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    target = np.empty((2, 3), np.float32)
    assert executable(a, b, out=[target, None])[0] is target
    assert np.all(target == 2)
    with pytest.raises(FeedError, match=r"shape \(5, 3\); the result has shape \(2, 3\)"):
        executable(a, b, out=[np.empty((5, 3), np.float32), None])


def test_programs_with_variables_write_to_given_arrays() -> None:
    session, first, _, step = counter()
    executable = session.compile([first * 2, step], [session.graph.find("x")])
    target = np.empty(3, np.float32)
    for trip in range(4):
        result = executable(np.ones(3, np.float32), out=[target, None])
        assert result[0] is target and result[1] is None
        np.testing.assert_array_equal(target, np.full(3, 2 * trip))


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


WRONG: dict[str, tuple[Any, str]] = {
    "dtype": (np.empty(16), r"array of float64 for float32\[16\]"),
    "shape": (np.empty(15, np.float32), r"shape \(15,\)"),
    "rank": (np.empty((16, 1), np.float32), r"shape \(16, 1\)"),
    "strided": (np.empty(32, np.float32)[::2], "not contiguous"),
    "frozen": (frozen(np.empty(16, np.float32)), "can't be written"),
    "list": ([np.empty(16, np.float32)], "a list of 1"),
    "order": (np.empty(16, ">f4"), ">f4"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_arrays_that_cannot_take_a_result(kind: str) -> None:
    session, x, y = increment()
    executable = session.compile(y, [x])
    target, message = WRONG[kind]
    for _ in range(4):
        with pytest.raises(FeedError, match=message):
            executable(np.zeros(16, np.float32), out=target)
        executable(np.zeros(16, np.float32))


def test_arrays_of_other_types_can_take_a_result() -> None:
    session, x, y = increment()
    executable = session.compile(y, [x])
    target = np.empty(16, np.float32).view(Subclass)
    for _ in range(4):
        target[:] = 0
        assert executable(np.ones(16, np.float32), out=target) is target
        assert np.all(target == 2)


def test_arrays_that_share_memory() -> None:
    session, x, y = increment()
    array = np.zeros(17, np.float32)
    with pytest.raises(FeedError, match="shares memory with an argument"):
        session.compile(y, [x])(array[:16], out=array[1:])
    twice = session.compile([y, y + 1], [x])
    with pytest.raises(FeedError, match="share memory"):
        twice(np.zeros(16, np.float32), out=[array[:16], array[1:]])
    with pytest.raises(FeedError, match="a list of 1 where the fetches have a list of 2"):
        twice(array[:16], out=[None])
