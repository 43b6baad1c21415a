"""What may be fed where: every conversion rule, and arrays of every layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
ALL = ("bool", *INTEGERS, *FLOATS)


def fed(given: Any, dtype: str = "float32", shape: Any = None) -> np.ndarray[Any, Any]:
    """What arrives in a program; through an operation, so that native code reads it."""
    if shape is None:
        shape = (None,) * np.ndim(given)
    with gx.Graph() as graph:
        x = gx.placeholder(shape, dtype, name="x")
        y = gx.where(x == x, x, x) if dtype in ("float32", "float64") else gx.flip(gx.flip(x))
    result: np.ndarray[Any, Any] = gx.Session(graph).run(y, {x: given})
    assert result.dtype == np.dtype(dtype)
    return result


def refused(given: Any, dtype: str, match: str, shape: Any = None) -> None:
    with pytest.raises(gx.FeedError, match=match) as caught:
        fed(given, dtype, shape)
    assert "feed for x: expected " in str(caught.value)
    assert isinstance(caught.value, ValueError)


# --- dtypes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL)
def test_bool_goes_to_anything(dtype: str) -> None:
    given = np.array([True, False, True])
    np.testing.assert_array_equal(fed(given, dtype), given.astype(dtype))


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", (*INTEGERS, *FLOATS))
def test_integers_go_where_they_fit(source: str, target: str) -> None:
    info = np.iinfo(source)
    np.testing.assert_array_equal(fed(np.array([0, 1, 127], source), target), [0, 1, 127])
    for extreme in (info.min, info.max):
        given = np.array([extreme], source)
        if target in FLOATS:
            np.testing.assert_array_equal(fed(given, target), given.astype(target))
        elif np.iinfo(target).min <= extreme <= np.iinfo(target).max:
            assert int(fed(given, target)[0]) == extreme
        else:
            refused(given, target, f"given values from {extreme} to {extreme}")


@pytest.mark.parametrize("source", ("float16", "float32", "float64", "longdouble"))
@pytest.mark.parametrize("target", FLOATS)
def test_floats_go_to_floats(source: str, target: str) -> None:
    given = np.array([0.1, -0.0, np.inf, -np.inf, np.nan], source)
    got = fed(given, target)
    np.testing.assert_array_equal(got, given.astype(target))
    assert np.signbit(got[1])


def test_floats_round_and_overflow_silently() -> None:
    with np.errstate(all="raise"):
        got = fed(np.array([1e300, -1e300, 1e-300, 1 + 1e-12]), "float32")
    np.testing.assert_array_equal(got, [np.inf, -np.inf, 0, 1])


@pytest.mark.parametrize("target", ("bool", *INTEGERS))
@pytest.mark.parametrize("number", (1.0, 0.5, np.nan, np.inf))
def test_floats_do_not_go_to_integers(target: str, number: float) -> None:
    refused(np.array([number]), target, "given dtype float64")
    refused([number], target, "given dtype float64")


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_do_not_go_to_bool(source: str) -> None:
    refused(np.array([0, 1], source), "bool", f"given dtype {source}")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("text", "given"), (["a", "b"], "given"), (b"bytes", "given"), (None, "given None"),
        ([None], "given"), (1j, "given"), (np.array([1j]), "given dtype complex128"),
        ({"a": 1}, "given"), ({1, 2}, "given"), (object(), "given"), ([[1, 2], [3]], "given"),
        (np.array(["2020-01-01"], "datetime64[D]"), "given dtype datetime64"),
        (np.array([(1, 2)], [("a", "i4"), ("b", "f4")]), "given dtype"),
        ((n for n in range(3)), "given"),
    ],
)  # fmt: skip
def test_what_is_no_array_of_numbers(given: Any, what: str) -> None:
    for dtype in ("float32", "int64", "bool"):
        refused(given, dtype, what, shape=(None,) if np.ndim(np.array(given, object)) else ())


def test_symbolic_values_are_not_fed() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        y = x + 1.0
    for given in (y, [y, y]):
        with pytest.raises(gx.FeedError, match="feed for x"):
            gx.Session(graph).run(y, {x: given})


def test_huge_integers() -> None:
    assert fed([2**63], "uint64", (1,))[0] == 2**63
    refused([2**63], "int64", "values from 9223372036854775808", (1,))
    refused([2**64], "uint64", "given", (1,))
    refused(2**200, "float64", "given", ())
    refused([-1], "uint64", "values from -1 to -1", (1,))
    refused(300, "int8", "values from 300 to 300", ())
    np.testing.assert_array_equal(fed([2**62 + 1], "float32", (1,)), [2.0**62])


# --- shapes --------------------------------------------------------------------------------------


def test_wrong_ranks_and_sizes_name_both() -> None:
    refused([1, 2, 3], "float32", r"expected float32\[2\], given an array of shape \(3,\)", (2,))
    refused(1.0, "float32", r"expected float32\[2\], given an array of shape \(\)", (2,))
    refused([[1.0]], "float32", r"expected float32\[\], given an array of shape \(1, 1\)", ())
    refused(np.zeros((2, 3)), "float64", r"expected float64\[n, 2\]", ("n", 2))
    refused(np.zeros((2, 1)), "float32", r"expected float32\[2\]", (2,))


def test_feeds_do_not_broadcast() -> None:
    refused([1.0], "float32", "given an array of shape", (3,))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_empty_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    assert fed(np.zeros(shape, dtype), dtype).shape == shape
    assert fed(np.zeros(shape, dtype)[::-1], dtype).shape == shape


@pytest.mark.parametrize("dtype", ALL)
def test_empty_lists_have_no_dtype_of_their_own(dtype: str) -> None:
    assert fed([], dtype, (None,)).shape == (0,)
    assert fed([[], []], dtype, (2, None)).shape == (2, 0)


# --- layouts -------------------------------------------------------------------------------------

BASE = np.arange(7 * 12, dtype=np.float32).reshape(7, 12)


def unaligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    room = np.zeros(array.nbytes + 1, np.uint8)[1:]
    result = np.frombuffer(room.data, array.dtype, array.size).reshape(array.shape)
    room[:] = np.frombuffer(array.tobytes(), np.uint8)
    assert not result.flags.aligned
    return result


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    result = array.copy()
    result.flags.writeable = False
    return result


LAYOUTS = {
    "packed": BASE,
    "transposed": BASE.T,
    "fortran": np.asfortranarray(BASE),
    "strided": BASE[::2, 1::3],
    "negative": BASE[::-1, ::-2],
    "partly negative": BASE[:, ::-1],
    "broadcast": np.broadcast_to(BASE[0], (5, 12)),
    "broadcast scalar": np.broadcast_to(np.float32(3), (4, 4)),
    "read-only": read_only(BASE),
    "big-endian": BASE.astype(">f4"),
    "big-endian strided": BASE.astype(">f4")[::-2],
    "unaligned": unaligned(BASE),
    "unaligned strided": unaligned(BASE)[::-2],
    "wider": BASE.astype(np.float64),
    "ints": BASE.astype(np.int16)[::2],
    "field": np.rec.array([(1.5, 2), (2.5, 3)], [("a", "f4"), ("b", "i2")])["a"][None],
    "one row": BASE[3:4],
    "one column": BASE[:, 3:4],
    "sliding": np.lib.stride_tricks.sliding_window_view(BASE[0], 4),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    given = LAYOUTS[layout]
    before = given.tobytes()
    np.testing.assert_array_equal(fed(given), np.asarray(given, np.float32))
    np.testing.assert_array_equal(fed(given, "float64"), np.asarray(given, np.float64))
    assert given.tobytes() == before, "a fed array is never written"


@pytest.mark.parametrize("dtype", ALL)
def test_big_endian_of_every_dtype(dtype: str) -> None:
    given = np.array([0, 1, 1, 0, 1]).astype(np.dtype(dtype).newbyteorder(">"))
    np.testing.assert_array_equal(fed(given, dtype), given.astype(dtype))


def test_zero_dimensional() -> None:
    for given in (1.5, np.float32(1.5), np.array(1.5), np.array(1.5, ">f8"), np.array([1.5])[0]):
        got = fed(given, "float64", ())
        assert got.shape == () and got == 1.5
    assert fed(True, "bool", ()) and fed(np.True_, "int8", ()) == 1
    assert fed(2**40, "int64", ()) == 2**40


def test_lists_tuples_ranges_buffers() -> None:
    np.testing.assert_array_equal(fed([[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(fed(((1, 2.5), [3, True])), [[1, 2.5], [3, 1]])
    np.testing.assert_array_equal(fed(range(4), "int8", (4,)), [0, 1, 2, 3])
    np.testing.assert_array_equal(fed([np.float32(1), np.arange(2)[1]]), [1, 1])
    np.testing.assert_array_equal(fed(memoryview(BASE)), BASE)
    np.testing.assert_array_equal(fed(memoryview(BASE[::2])), BASE[::2])
    np.testing.assert_array_equal(fed(bytearray(b"\x01\x02"), "uint8", (2,)), [1, 2])


def test_masked_arrays() -> None:
    whole = np.ma.array([1.0, 2.0], mask=[False, False])
    np.testing.assert_array_equal(fed(whole), [1, 2])
    refused(np.ma.array([1.0, 2.0], mask=[False, True]), "float32", "masked entries")
    refused(np.ma.masked, "float64", "masked entries", ())


def test_what_has_the_array_protocol() -> None:
    class Wrapper:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
            return np.array([1, 2], dtype)

    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
            raise ValueError("out of order")

    np.testing.assert_array_equal(fed(Wrapper(), "float32", (2,)), [1, 2])
    refused(Broken(), "float32", "out of order", (2,))


def test_bools_that_are_other_bytes() -> None:
    # NumPy allows any byte behind a bool that was made by a view
    given = np.array([0, 1, 2, 255, 128] * 9, np.uint8).view(np.bool_)
    with gx.Graph() as graph:
        x = gx.placeholder((45,), "bool")
        results = [gx.logical_not(x), x.sum(), gx.where(x, 1.0, 2.0), x & True, x.astype("int32")]
    truth = np.array([0, 1, 1, 1, 1] * 9, bool)
    got = gx.Session(graph).run(results, {x: given})
    np.testing.assert_array_equal(got[0], ~truth)
    assert got[1] == truth.sum()
    np.testing.assert_array_equal(got[2], np.where(truth, 1, 2))
    np.testing.assert_array_equal(got[3], truth)
    np.testing.assert_array_equal(got[4], truth.astype(int))


def test_one_array_may_be_fed_many_times() -> None:
    with gx.Graph() as graph:
        values = [gx.placeholder((4,), name=f"x{n}") for n in range(5)]
        total = values[0]
        for value in values[1:]:
            total = total + value
        v = gx.variable(np.zeros(4, np.float32))
        keep = v.assign(values[0])
    given = np.arange(4, dtype=np.float32)
    session = gx.Session(graph)
    got = session.run([total, keep], dict.fromkeys(values, given))
    np.testing.assert_array_equal(got[0], 5 * np.arange(4))
    given[:] = 9
    np.testing.assert_array_equal(session.get(v), np.arange(4))


def test_the_same_rules_hold_for_variables_and_executables() -> None:
    with gx.Graph() as graph:
        v = gx.variable(np.zeros((2, 3), np.float32), name="x")
        y = v * 2.0
    session = gx.Session(graph)
    given = np.arange(6, dtype=">f8").reshape(3, 2).T
    session.set({v: given})
    np.testing.assert_array_equal(session.get(v), given)
    np.testing.assert_array_equal(session.compile(y, [v])(given[::-1]), 2 * given[::-1])
    with pytest.raises(gx.FeedError, match="expected float32"):
        session.compile(y, [v])(given.T)
