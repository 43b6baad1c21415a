"""Calls of executables: natively where arguments are plain, with the same errors where not."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from call_harness import Subclass, counter, increment, symbolic, warm

import graphc as gx
from graphc.base.errors import FeedError, IndexRangeError, ShapeError
from graphc.ir.dtypes import ALL
from graphc.runtime import entry
from graphc.runtime.program import RECENT_BINDINGS
from graphc.session import fast_call
from graphc.session.executable import Executable

RANDOM = np.random.default_rng(7)


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


def test_without_the_native_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_call, "available", lambda: False)
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
