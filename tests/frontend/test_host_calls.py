"""Python functions in graphs: what they get and give, their order, where they run, derivatives."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphc as gx

LEVELS = (0, 1, 2, 3)

pytestmark = pytest.mark.check_mode


def each_session(graph: Any) -> list[gx.Session]:
    return [
        gx.Session(graph, options=gx.Options(optimize=level, verify=True, threads=threads))
        for level in LEVELS
        for threads in (1, 2)
    ]


# --- what goes in and comes out ------------------------------------------------------------------


def test_a_function_gets_arrays_and_gives_arrays() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 3), "float64", name="x")
        product, count = gx.host_call(
            lambda a, b: (a @ b, (a > 2).sum()),
            x, gx.transpose(x) + 1,
            result_types=[((x.shape[0], x.shape[0]), x.dtype), ((), "int64")],
            name="out",
        )  # fmt: skip
        total = gx.sum(product) + count
    given = np.arange(6.0).reshape(2, 3)
    for session in each_session(graph):
        for rows in (given, given[:1], given[:0], np.arange(15.0).reshape(5, 3)):
            made, above, whole = session.run([product, "out_1", total], {x: rows})
            np.testing.assert_array_equal(made, rows @ (rows.T + 1))
            assert above == (rows > 2).sum()
            np.testing.assert_allclose(whole, made.sum() + above)


def test_shapes_are_those_after_a_reshape() -> None:
    """A reshape moves nothing, so that before it and after it is one memory."""
    shapes: list[tuple[int, ...]] = []

    def negated(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        shapes.append(a.shape)
        return -a

    with gx.Graph() as graph:
        x = gx.placeholder((2, None), name="x")
        row = gx.reshape(x, (-1,))
        made = gx.reshape(gx.host_call(negated, row, result_types=row), x.shape)
        twice = gx.reshape(gx.host_call(negated, made, result_types=made), (-1,))
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    for session in each_session(graph):
        first, second = session.run([made, twice], {x: given})
        assert np.array_equal(first, -given) and np.array_equal(second, given.ravel())
    assert shapes == [(6,), (2, 3)] * 2 * len(LEVELS)


def test_shapes_of_a_loops_turns() -> None:
    """Carried values of two shapes swap; the function sees one of them."""
    shapes: set[tuple[int, ...]] = set()

    def doubled(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        shapes.add(a.shape)
        return 2 * a

    def turn(n: Any, row: Any, block: Any) -> Any:
        made = gx.host_call(doubled, row, result_types=row)
        return n + 1, gx.reshape(block, (6,)), gx.reshape(made, (2, 3))

    with gx.Graph() as graph:
        x = gx.placeholder((6,), name="x")
        start = gx.constant(0), x, gx.reshape(x + 1, (2, 3))
        row, block = gx.while_loop(lambda n, *_: n < 5, turn, start)[1:]
    given = np.arange(6, dtype=np.float32)
    for session in each_session(graph):
        first, second = session.run([row, block], {x: given})
        assert np.array_equal(first, 4 * (given + 1))
        assert np.array_equal(second, (8 * given).reshape(2, 3))
    assert shapes == {(6,)}


def test_arrays_are_the_functions_own() -> None:
    kept: list[np.ndarray[Any, Any]] = []

    def keep(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        kept.append(a)
        result = a.copy()
        a += 100
        return result

    with gx.Graph() as graph:
        x = gx.placeholder((4,), name="x")
        y = gx.host_call(keep, x * 2, result_types=x)
        z = gx.host_call(keep, x, result_types=x) + y
    session = gx.Session(graph)
    given = np.arange(4, dtype=np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(session.run(z, {x: given}), given * 3)
    np.testing.assert_array_equal(given, np.arange(4))
    assert len(kept) == 6
    for array in kept:
        assert array.flags.writeable and array.flags.owndata and array.min() >= 100


@pytest.mark.parametrize(
    "layout",
    [
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1][::-1],
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: a.T.copy().T,
        lambda a: [[float(item) for item in row] for row in a],
        lambda a: (a,),
        lambda a: np.ma.masked_array(a),
    ],
)
def test_results_may_have_any_layout(layout: Callable[[Any], Any]) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3, 4), name="x")
        y = gx.host_call(layout, x, result_types=x) * 1
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    expected = np.asarray(layout(given)).reshape(3, 4)
    np.testing.assert_array_equal(gx.Session(graph).run(y, {x: given}), expected)


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        ("float32", 2.5, 2.5),
        ("float32", 3, 3.0),
        ("float64", True, 1.0),
        ("int32", 7, 7),
        ("uint8", 255, 255),
        ("bool", False, False),
        ("int64", np.int64(5), 5),
        ("float32", np.float32(5), 5),
    ],
)
def test_scalars_are_results(dtype: str, given: Any, expected: Any) -> None:
    with gx.Graph() as graph:
        y = gx.host_call(lambda: given, result_types=((), dtype))
    found = gx.Session(graph).run(y)
    assert found == expected and found.dtype == np.dtype(dtype) and found.shape == ()


@pytest.mark.parametrize(
    ("type_", "given", "words"),
    [
        (((3,), "float32"), np.zeros(3), "gave float64[3], not float32[3]"),
        (((3,), "float32"), np.zeros(3, ">f4"), "not float32[3]"),
        (((3,), "float32"), np.zeros((3, 1), "float32"), "gave float32[3, 1], not float32[3]"),
        (((), "float32"), np.zeros(1, "float32"), "gave float32[1], not float32[]"),
        (((3,), "float32"), None, "gave None"),
        (((3,), "float32"), "text", "gave 'text'"),
        (((3,), "float32"), [1, [2, 3], 4], "a list of 3"),
        (((), "int32"), 2.5, "gave 2.5"),
        (((), "uint8"), 256, "gave 256"),
        (((), "uint8"), -1, "gave -1"),
        (((), "bool"), 1, "gave 1"),
        ([((), "int32"), ((), "int32")], 1, "not 2 arrays"),
        ([((), "int32"), ((), "int32")], (1,), "a tuple of 1, not 2 arrays"),
        ([((), "int32"), ((), "int32")], (1, 2.5), "as result 1"),
    ],
)
def test_a_wrong_result_is_an_error_at_the_users_line(type_: Any, given: Any, words: str) -> None:
    with gx.Graph() as graph:
        y = gx.host_call(lambda: given, result_types=type_, ordered=True, name="wrong")
    session = gx.Session(graph)
    for _ in range(2):
        with pytest.raises(gx.HostCallError) as caught:
            session.run(y)
        assert words in caught.value.message and "wrong" in caught.value.message
        assert caught.value.where is not None and caught.value.where.filename == __file__
        assert "gx.host_call(lambda: given" in str(caught.value)


def test_what_gives_nothing_must_give_nothing() -> None:
    with gx.Graph() as graph:
        effect = gx.host_call(lambda: 3, ordered=True)
    with pytest.raises(gx.HostCallError, match="to give nothing"):
        gx.Session(graph).run(effect)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda x: gx.host_call(3, x, result_types=x), gx.GraphError, "not a function"),
        (lambda x: gx.host_call(abs, x), gx.GraphError, "never runs"),
        (lambda x: gx.host_call(abs, x, result_types=3), gx.ShapeError, "result_types is 3"),
        (lambda x: gx.host_call(abs, x, result_types=[3]), gx.ShapeError, "result type is 3"),
        (
            lambda x: gx.host_call(abs, x, result_types=((None,), "int8")),
            gx.ShapeError, "must be known before",
        ),
        (lambda x: gx.host_call(abs, x, result_types=((-1,), "int8")), gx.ShapeError, "-1"),
        (lambda x: gx.host_call(abs, x, result_types=((2,), "text")), gx.DTypeError, "text"),
        (
            lambda x: gx.host_call(abs, x, result_types=x, derivative=3),
            gx.GraphError, "the derivative",
        ),
        (lambda x: gx.host_call(abs, x, result_types=x, ordered=3), gx.DTypeError, "ordered"),
        (lambda x: gx.print("{} {}", x), gx.GraphError, "does not fit"),
        (lambda x: gx.print("{:q}", x), gx.GraphError, "does not fit"),
        (lambda x: gx.print("{", x), gx.GraphError, "does not fit"),
        (lambda x: gx.check(x, "m"), gx.DTypeError, "float32, not bool"),
        (lambda x: gx.check(x > 0, "{}"), gx.GraphError, "does not fit"),
        (lambda x: gx.check(x > 0, x), gx.GraphError, "message of check"),
        (lambda x: gx.summary(x, callback=3), gx.GraphError, "callback"),
        (lambda x: gx.print(x, name=3), gx.GraphError, "no name"),
    ],
)  # fmt: skip
def test_bad_arguments(build: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with gx.Graph():
        x = gx.placeholder((3,), name="x")
        with pytest.raises(error) as caught:
            build(x)
    assert words in caught.value.message  # type: ignore[attr-defined]
    assert caught.value.where.filename == __file__  # type: ignore[attr-defined]


# --- what is pure --------------------------------------------------------------------------------


def test_unordered_calls_are_pure_but_never_folded_or_moved_ahead() -> None:
    calls: list[str] = []

    def noted(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        calls.append("called")
        return a

    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        one = gx.host_call(noted, gx.constant([1.0, 2.0]), result_types=((2,), "float32"))
        gx.host_call(noted, x, result_types=x, name="unread")
        twice = gx.host_call(noted, x, result_types=x) + gx.host_call(noted, x, result_types=x)
        taken = gx.cond(
            gx.sum(x) > 0, lambda: gx.host_call(noted, x + 1, result_types=x), lambda: x
        )
        several = gx.while_loop(
            lambda i, s: i < 4,
            lambda i, s: (i + 1, s + gx.host_call(noted, x + 5, result_types=x)),
            (0, x),
        )
    session = gx.Session(graph)
    assert not calls
    positive = np.ones(3, np.float32)
    for fetch, feed, count in (
        (one, positive, 1),
        (twice, positive, 1),
        (taken, -positive, 0),
        (taken, positive, 1),
        (several, positive, 4),
    ):
        exe = session.compile(fetch, [x])
        assert not calls
        exe(feed)
        assert len(calls) == count
        calls.clear()


def test_equal_is_the_same_function() -> None:
    class Box:
        def method(self, a: Any) -> Any:
            return a

    box, other = Box(), Box()
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        given = [
            gx.host_call(function, x, result_types=x)
            for function in (box.method, box.method, other.method, lambda a: a, lambda a: a)
        ]
    nodes = gx.Session(graph).compile(given, [x]).compiled.graph.nodes
    functions = [node.attrs["function"] for node in nodes if node.op.name == "host_call"]
    assert len(functions) == 4 and len({id(function) for function in functions}) == 4


def test_a_function_lives_as_long_as_what_calls_it() -> None:
    class Function:
        def __call__(self, a: Any) -> Any:
            return a + 1

    function = Function()
    held = weakref.ref(function)
    with gx.Graph() as graph:
        x = gx.placeholder((), name="x")
        y = gx.host_call(function, x, result_types=x)
    del function
    exe = gx.Session(graph).compile(y, [x])
    del graph, x, y
    gc.collect()
    assert exe(np.float32(2)) == 3
    del exe
    gc.collect()
    assert held() is None


# --- derivatives ---------------------------------------------------------------------------------


def _cube(derivative: Any) -> Any:
    def apply(x: Any) -> Any:
        return gx.host_call(lambda a: a**3, x, result_types=x, derivative=derivative)

    return apply


def test_derivatives_are_built_of_values_and_further_calls() -> None:
    def square(x: Any) -> Any:
        return gx.host_call(
            lambda a: a * a, x, result_types=x,
            derivative=lambda inputs, outputs, cotangents: cotangents[0] * 2 * inputs[0],
        )  # fmt: skip

    def derivative(inputs: Any, outputs: Any, cotangents: Any) -> Any:
        return (cotangents[0] * 3 * square(inputs[0]),)

    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64", name="x")
        y = _cube(derivative)(gx.sin(x))
        first = gx.gradients(y, x)
        second = gx.gradients(first, x)
    given = np.linspace(-1, 2, 7)
    sine, cosine = np.sin(given), np.cos(given)
    for session in each_session(graph):
        found = session.run([first, second], {x: given})
        np.testing.assert_allclose(found[0], 3 * sine**2 * cosine, rtol=1e-12)
        np.testing.assert_allclose(
            found[1], 6 * sine * cosine**2 - 3 * sine**3, rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("ordered", [False, True])
def test_derivatives_of_several_results(ordered: bool) -> None:
    seen: list[Any] = []

    def derivative(inputs: Any, outputs: Any, cotangents: Any) -> Sequence[Any]:
        seen.append((inputs, outputs, cotangents))
        total, picked, _ = cotangents
        return gx.broadcast_to(total, inputs[0].shape) + picked, None, 2.0

    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        y = gx.placeholder((), name="y")
        parts = gx.host_call(
            lambda a, n, b: (a.sum(), a * b, n), x, gx.constant(3), y,
            result_types=[((), "float32"), x, ((), "int64")],
            derivative=derivative, ordered=ordered,
        )  # fmt: skip
        by_x, by_y = gx.gradients(parts[0] * 5, [x, y])
    assert len(seen[0][0]) == 3 and seen[0][1] == parts and seen[0][2][2] is None
    found = gx.Session(graph).run([by_x, by_y], {x: np.ones(3, np.float32), y: 1})
    np.testing.assert_array_equal(found[0], np.full(3, 5))
    assert found[1] == 2


def test_gradients_without_derivatives_are_errors() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), name="x")
        y = gx.host_call(lambda a: a, x, result_types=x, name="mine")
        with pytest.raises(gx.GradientError, match="host_call of mine has no derivative") as caught:
            gx.gradients(y, x)
        assert caught.value.where is not None and caught.value.where.filename == __file__
        with pytest.raises(gx.GradientError, match="forward mode"):
            gx.jvp(y, x, x)
        gx.gradients(gx.stop_gradient(y) * x, x)
        wrong = _cube(lambda inputs, outputs, cotangents: (None, None))(x)
        with pytest.raises(gx.GradientError, match="gives 2 cotangents for 1 operand"):
            gx.gradients(wrong, x)
        doing = _cube(lambda i, o, c: (gx.print("x", passing=c[0]),))(x)
        with pytest.raises(gx.GraphError, match="can't be built by a derivative"):
            gx.gradients(doing, x)
