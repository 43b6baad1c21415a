"""Calls of executables and ``session.run``: the native entry gives what the careful way gives."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import sys
import threading
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc import direct
from graphc.base.errors import FeedError, GraphError, IndexRangeError, NameLookupError, ShapeError
from graphc.calls import MAX_QUESTIONS
from graphc.executable import Executable
from graphc.ir.dtypes import ALL
from graphc.runtime import entry
from graphc.runtime.blocks import SMALLEST_BLOCK
from graphc.runtime.program import RECENT_BINDINGS

RANDOM = np.random.default_rng(7)


@pytest.fixture
def careful_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of the calls that went the careful way."""
    found: list[tuple[Any, ...]] = []
    for name in ("_careful", "_all_results"):
        inner = getattr(Executable, name)

        def recorded(self: Executable, *arguments: Any, inner: Any = inner, **named: Any) -> Any:
            found.append(arguments)
            return inner(self, *arguments, **named)

        monkeypatch.setattr(Executable, name, recorded)
    return found


def warm(executable: Executable, *arguments: Any) -> None:
    """Calls until native code is there."""
    for _ in range(3):
        executable(*arguments)


def increment(
    shape: tuple[Any, ...] = (16,), dtype: str = "float32"
) -> tuple[gx.Session, gx.Value, gx.Value]:
    with gx.Graph() as graph:
        x = gx.placeholder(shape, dtype, name="x")
        y = gx.where(gx.equal(x, x), x, x) if dtype == "bool" else x + x
    return gx.Session(graph), x, y


def test_the_native_entry_is_available_here() -> None:
    """Where the layout of arrays changes, calls become slow but not wrong: notice it."""
    assert entry.available()


def test_plain_calls_run_no_python(careful_calls: list[Any]) -> None:
    session, x, y = increment()
    executable = session.compile(y, [x])
    array = np.arange(16, dtype=np.float32)
    warm(executable, array)
    before = len(careful_calls)
    result = executable(array)
    assert len(careful_calls) == before
    assert type(result) is np.ndarray and result.flags.writeable and result.flags.c_contiguous
    np.testing.assert_array_equal(result, array + array)
    assert not np.shares_memory(result, executable(array))


@pytest.mark.parametrize("dtype", [dtype.name for dtype in ALL])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 5), (2, 0, 4), (2, 3, 4, 5)])
def test_dtypes_and_ranks(dtype: str, shape: tuple[int, ...], careful_calls: list[Any]) -> None:
    session, x, y = increment(shape, dtype)
    executable = session.compile(y, [x])
    array = np.asarray(RANDOM.integers(0, 2, shape)).astype(dtype)
    expected = executable(array)
    warm(executable, array)
    before = len(careful_calls)
    result = executable(array)
    assert len(careful_calls) == before
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    assert result.tobytes() == expected.tobytes()


class Subclass(np.ndarray[Any, Any]):
    """An array of another type."""


ODD: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "strided": lambda a: np.repeat(a, 2)[::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "big-endian": lambda a: a.astype(">f4"),
    "unaligned": lambda a: np.frombuffer(b"-" + a.tobytes(), np.uint8)[1:].view(np.float32),
    "float64": lambda a: a.astype(np.float64),
    "int8": lambda a: a.astype(np.int8),
    "subclass": lambda a: a.view(Subclass),
    "list": lambda a: a.tolist(),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_not_plain_goes_the_careful_way(kind: str, careful_calls: list[Any]) -> None:
    session, x, y = increment()
    executable = session.compile(y, [x])
    array = np.arange(16, dtype=np.float32)
    warm(executable, array)
    before = len(careful_calls)
    np.testing.assert_array_equal(executable(ODD[kind](array)), array + array)
    assert len(careful_calls) == before + 1


@pytest.mark.parametrize("kind", ["read-only", "unpickled", "view"])
def test_what_is_plain_though_it_looks_otherwise(kind: str, careful_calls: list[Any]) -> None:
    session, x, y = increment()
    executable = session.compile(y, [x])
    array = np.arange(16, dtype=np.float32)
    warm(executable, array)
    given = {
        "read-only": np.frombuffer(array.tobytes(), np.float32),
        "unpickled": pickle.loads(pickle.dumps(array)),
        "view": np.concatenate([array, array])[16:],
    }[kind]
    before = len(careful_calls)
    np.testing.assert_array_equal(executable(given), array + array)
    assert len(careful_calls) == before


def test_scalars_are_converted() -> None:
    session, x, y = increment(())
    executable = session.compile(y, [x])
    warm(executable, np.float32(1))
    assert executable(2) == 4 and executable(np.float32(3)) == 6
    assert executable(np.array(4, np.float32)) == 8


def messages(call: Callable[..., Any], *arguments: Any) -> tuple[type, str]:
    with pytest.raises(gx.GraphcError) as caught:
        call(*arguments)
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [(), (1, 2), (np.zeros(3, np.float32),), (np.zeros((4, 4), np.float32),), (None,), ("a",),
     (np.zeros(16, complex),)],
    ids=["none", "two", "size", "rank", "None", "text", "complex"],
)  # fmt: skip
def test_errors_are_the_same(arguments: tuple[Any, ...]) -> None:
    session, x, y = increment()
    executable = session.compile(y, [x])
    given = [messages(executable, *arguments)]
    warm(executable, np.zeros(16, np.float32))
    given.append(messages(executable, *arguments))
    assert given[0] == given[1] and given[0][0] is FeedError


NAMES = ("x", "y", "self", "spare")


@pytest.mark.parametrize("kind", ["single", "dict"])
def test_arguments_by_name(kind: str) -> None:
    with gx.Graph() as graph:
        x, y, self, spare = (gx.placeholder((2,), name=name) for name in NAMES)
        z = x - y * self
    fetches = z if kind == "single" else {"z": z}
    executable = gx.Session(graph).compile(fetches, [x, y, self, spare])
    one, two, three = (np.full(2, n, np.float32) for n in (1, 2, 3))
    kept = np.empty(2, np.float32)
    out = kept if kind == "single" else {"z": kept}
    for _ in range(4):
        for given, named in (
            ((one, two), {"self": three}),
            ((one,), {"self": three, "y": two}),
            ((), {"y": two, "spare": one, "x": one, "self": three}),
            ((one, two, three, one), {}),
        ):
            for result in (executable(*given, **named), executable(*given, out=out, **named)):
                found = result if kind == "single" else result["z"]
                np.testing.assert_array_equal(found, [-5, -5])
            assert found is kept
        with pytest.raises(FeedError, match="no argument is called 'z'") as caught:
            executable(one, two, z=three)
        assert caught.value.hint == "known names are 'self', 'spare', 'x', 'y'"
        with pytest.raises(FeedError, match="'x' is given twice"):
            executable(one, two, three, x=one)
        with pytest.raises(FeedError, match=r"argument 2, self: float32\[2\], is needed"):
            executable(one, two, spare=three)
        with pytest.raises(FeedError, match="5 arguments for 4 feeds"):
            executable(one, two, three, one, one, x=one)


def test_an_executable_is_callable_with_a_signature() -> None:
    session, x, y = increment()
    executable = session.compile(y, [x])
    assert callable(executable)
    assert str(inspect.signature(executable)) == "(*arguments, out=None, **named)"
    assert "out" in (Executable.__doc__ or "")


# --- symbolic dims -------------------------------------------------------------------------------


def symbolic() -> Executable:
    with gx.Graph() as graph:
        a = gx.placeholder(("n", "m"), name="a")
        b = gx.placeholder(("m",), name="b")
        z = [a + b, gx.sum(a, axis=1)]
    return gx.Session(graph).compile(z, [a, b])


def test_symbolic_dims(careful_calls: list[Any]) -> None:
    executable = symbolic()
    sizes = [(2, 3), (5, 3), (0, 3), (1, 1)][:RECENT_BINDINGS]
    for again in range(4):
        for n, m in sizes:
            a, b = RANDOM.normal(size=(n, m)).astype("f4"), RANDOM.normal(size=m).astype("f4")
            if again == 3:
                careful_calls.clear()
            shifted, total = executable(a, b)
            assert again < 3 or not careful_calls
            np.testing.assert_array_equal(shifted, a + b)
            np.testing.assert_allclose(total, a.sum(1), rtol=1e-5, atol=1e-5)
    careful_calls.clear()
    for n in range(100, 100 + 2 * RECENT_BINDINGS):
        a, b = np.ones((n, 2), np.float32), np.ones(2, np.float32)
        assert executable(a, b)[0].shape == (n, 2)
    assert len(careful_calls) == 2 * RECENT_BINDINGS


def test_symbolic_dims_that_differ() -> None:
    executable = symbolic()
    a, b = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    warm(executable, a, b)
    with pytest.raises(ShapeError, match="dim m is 3 in axis 1 of 'a' but 4"):
        executable(a, np.ones(4, np.float32))
    assert executable(a, b)[0].shape == (2, 3)


def test_failing_steps_say_why_and_leave_no_trace() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4,), name="x")
        index = gx.placeholder((2,), "int64", name="index")
        y = x[index]
    executable = gx.Session(graph).compile(y, [x, index])
    array, good = np.arange(4, dtype=np.float32), np.array([3, 1])
    warm(executable, array, good)
    for _ in range(3):
        with pytest.raises(IndexRangeError, match="9"):
            executable(array, np.array([0, 9]))
        np.testing.assert_array_equal(executable(array, good), [3, 1])


# --- structures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "nested", "empty", "twice"])
def test_structures(kind: str) -> None:
    session, x, y = increment()
    z = y - 1
    fetches: Any = {
        "list": [y, z], "tuple": (z, y), "dict": {"a": y, "b": z}, "nested": [(y,), {"k": [z, y]}],
        "empty": [], "twice": [y, y],
    }[kind]  # fmt: skip
    executable = session.compile(fetches, [x])
    array = np.arange(16, dtype=np.float32)
    expected = executable(array)
    for _ in range(4):
        result = executable(array)
        assert type(result) is type(expected)
        assert str(result) == str(expected)


def test_arguments_in_another_order_and_not_needed(careful_calls: list[Any]) -> None:
    with gx.Graph() as graph:
        a, b, c = (gx.placeholder((2,), name=name) for name in "abc")
        y = a - b
    executable = gx.Session(graph).compile(y, [c, b, a])
    one, two = np.ones(2, np.float32), np.full(2, 2, np.float32)
    warm(executable, "not needed", two, one)
    careful_calls.clear()
    np.testing.assert_array_equal(executable(None, two, one), [-1, -1])
    assert not careful_calls


# --- state ---------------------------------------------------------------------------------------


def counter() -> tuple[gx.Session, Any, Any, gx.Value]:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        first = gx.variable(np.zeros(3, np.float32), name="first")
        second = gx.variable(np.zeros(3, np.float32), name="second")
        step = gx.group(first.assign_add(x), second.assign_sub(x))
    return gx.Session(graph), first, second, step


def test_variables_are_read_as_they_are(careful_calls: list[Any]) -> None:
    session, first, second, _ = counter()
    executable = session.compile([first + second, first * 2], [])
    warm(executable)
    careful_calls.clear()
    session.set({first: [1, 2, 3], second: [10, 10, 10]})
    total, double = executable()
    np.testing.assert_array_equal(total, [11, 12, 13])
    np.testing.assert_array_equal(double, [2, 4, 6])
    assert not careful_calls


def test_variables_are_written_natively(careful_calls: list[Any]) -> None:
    session, first, second, step = counter()
    executable = session.compile([step, first], [session.graph.find("x")])
    one = np.ones(3, np.float32)
    for trip in range(10):
        careful_calls.clear()
        nothing, before = executable(one)
        assert nothing is None
        np.testing.assert_array_equal(before, np.full(3, trip))
        assert trip < 2 or not careful_calls
    np.testing.assert_array_equal(session.get(second), [-10, -10, -10])
    with pytest.raises(FeedError):
        executable(np.ones(4, np.float32))
    np.testing.assert_array_equal(session.get(first), [10, 10, 10])


def test_readers_see_all_of_a_write_or_nothing() -> None:
    session, first, second, step = counter()
    x = session.graph.find("x")
    total = session.compile(first + second, [])
    write = session.compile(step, [x])
    one = np.ones(3, np.float32)
    warm(total)
    warm(write, one)
    torn: list[Any] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            if np.any(total()):
                torn.append(total())

    readers = [threading.Thread(target=read) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for reader in readers:
            reader.start()
        for _ in range(3000):
            write(one)
    finally:
        done.set()
        sys.setswitchinterval(interval)
    for reader in readers:
        reader.join()
    assert not torn
    np.testing.assert_array_equal(session.get(first), [3003] * 3)


# --- threads, forks, memory ----------------------------------------------------------------------


def test_threads() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((64, 64), name="x")
        y = gx.tanh(x @ x) @ x
    executable = gx.Session(graph).compile(y, [x])
    arrays = [RANDOM.normal(size=(64, 64)).astype("f4") for _ in range(4)]
    expected = [executable(array) for array in arrays]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            if executable(arrays[number]).tobytes() != expected[number].tobytes():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(executable.compiled.program.idle_frames) <= 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork() -> None:
    large = SMALLEST_BLOCK // 4
    session, x, y = increment((large,))
    executable = session.compile(y, [x])
    array = np.ones(large, np.float32)
    warm(executable, array)
    kept = executable(array)
    child = os.fork()
    if child == 0:
        good = bool(np.all(executable(array * 2) == 4)) and bool(np.all(kept == 2))
        kept[:] = 7
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert np.all(kept == 2) and np.all(executable(array) == 2)


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
def test_nothing_leaks() -> None:
    session, first, second, step = counter()
    x = session.graph.find("x")
    reads, writes = session.compile([first + x, second], [x]), session.compile(step, [x])
    one, wrong = np.ones(3, np.float32), np.ones(3, np.float64)

    def work(calls: int) -> None:
        for _ in range(calls):
            reads(one)
            writes(one)
            reads(wrong)
            session.run(first, {x: one})

    work(200)
    watched: list[Any] = [one, np.dtype(np.float32), first, second, None, np.ndarray]
    watched += [reads.compiled.program.recent[0], reads.compiled.program.idle_frames[0]]
    gc.collect()
    references, memory = [sys.getrefcount(item) for item in watched], resident_bytes()
    work(20_000)
    gc.collect()
    # interned objects are used by whoever runs beside, so their counts may move a little
    for item, before in zip(watched, references, strict=True):
        assert abs(sys.getrefcount(item) - before) < 100, repr(item)
    assert resident_bytes() - memory < 4 << 20


def test_sessions_are_collected() -> None:
    session, x, y = increment()
    executable = session.compile(y, [x])
    warm(executable, np.zeros(16, np.float32))
    for _ in range(4):
        session.run(y, {x: np.zeros(16, np.float32)})
    gone = weakref.ref(session)
    del session, executable, x, y
    gc.collect()
    assert gone() is None


def test_without_the_native_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "available", lambda: False)
    session, first, second, step = counter()
    x = session.graph.find("x")
    executable = session.compile({"step": step, "sum": first + second}, [x])
    for _ in range(4):
        result = executable(np.ones(3, np.float32))
        assert result["step"] is None and not result["sum"].any()
        session.run([first, second], {})
    np.testing.assert_array_equal(session.get(first), [4, 4, 4])
    assert executable.direct == executable._careful


@pytest.mark.parametrize(
    ("name", "place"),
    [("ARRAY_DATA", 24), ("ARRAY_RANK", 28), ("ARRAY_DIMS", 16), ("ARRAY_FLAGS", 72),
     ("ARRAY_DTYPE", 48), ("DTYPE_KIND", 28), ("DTYPE_SIZE", 48), ("OBJECT_TYPE", 0)],
)  # fmt: skip
def test_another_layout_of_arrays_is_noticed(
    name: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, name, place)
    assert not all(map(entry._lies_as_expected, entry._samples()))


# --- session.run ---------------------------------------------------------------------------------


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


# --- out -----------------------------------------------------------------------------------------


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
