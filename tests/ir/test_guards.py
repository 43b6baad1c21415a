"""Guards refuse sizes that don't fit wherever they count, and only there (faults 1, 29, 32)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mistakes import refuses

import graphc as gx
from graphc.ir.graph import Graph
from graphc.ir.guard import Guard
from graphc.ir.text.parser import parse_graph
from graphc.plan.ir import Require
from graphc.plan.printer import constants_of, parse_plan, print_plan
from graphc.plan.verify import verify_plan
from graphc.plan.verify_bounds import verify_bounds
from graphc.runtime.program import MAX_BINDINGS

pytestmark = pytest.mark.check_mode

OPTIONS = gx.Options(verify=True)


def fed(**sizes: int) -> dict[str, Any]:
    return {name: np.arange(1.0, size + 1) for name, size in sizes.items()}


@pytest.fixture
def vectors() -> Any:
    with gx.Graph() as graph:
        a, b = (gx.placeholder((None,), "float64", name=name) for name in "ab")
        yield gx.Session(graph, options=OPTIONS), a, b


def test_fault_1_a_gradient_alone_has_the_guards_of_its_value(vectors: Any) -> None:
    session, a, b = vectors
    slope = gx.gradients(gx.sum(a * b), b)
    curve = gx.gradients(gx.sum(gx.gradients(gx.sum(a * b * b), b)), a)
    for value in (slope, curve):
        refuses(lambda value=value: session.run(value, fed(a=3, b=5)), r"shapes \[3\] and \[5\]")
    np.testing.assert_array_equal(session.run(slope, fed(a=3, b=3)), [1, 2, 3])
    np.testing.assert_array_equal(session.run(slope, fed(a=3, b=1)), [6])


@pytest.mark.parametrize("name", ["hypot", "logaddexp", "arctan2", "fmod", "power"])
def test_fault_1_operations_that_decompose_are_guarded(vectors: Any, name: str) -> None:
    session, a, b = vectors
    value = getattr(gx, name)(a, b)
    refuses(lambda: session.run(value, fed(a=5, b=2)), rf"{name}: shapes \[5\] and \[2\]")
    assert session.run(value, fed(a=5, b=1)).shape == (5,)


def test_fault_1_what_only_relies_on_a_value_is_guarded(vectors: Any, tmp_path: Path) -> None:
    session, a, b = vectors
    fetched = [gx.ones_like(a + b), gx.sum_to(a, b.shape), gx.gradients(gx.sum(a * b), [a, b])]
    gx.save(tmp_path / "graph.gir", fetched)
    loaded = gx.load(tmp_path / "graph.gir")
    other = gx.Session(loaded[0].graph, options=OPTIONS)
    for one, values in ((session, fetched), (other, loaded)):
        for value in values:
            with pytest.raises(gx.ShapeError, match=r"\[3\].*\[5\]"):
                one.run(value, fed(a=3, b=5))
        assert one.run(values[0], fed(a=3, b=3)).tolist() == [1, 1, 1]


def test_fault_1_what_has_a_known_shape_may_rely_on_unknown_sizes(tmp_path: Path) -> None:
    """A sum of 3 columns and of a vector has 3 columns, if the vector fits."""
    with gx.Graph() as graph:
        x = gx.placeholder((2, 3), "float64", name="x")
        b = gx.placeholder((None,), "float64", name="b")
        ones = gx.ones_like(gx.exp(x + b))
        known = gx.zeros_like(gx.exp(x * 2.0))
    session = gx.Session(graph, options=OPTIONS)
    feeds = {"x": np.ones((2, 3))}
    for size in (1, 3):
        assert session.run(ones, {**feeds, **fed(b=size)}).tolist() == [[1, 1, 1]] * 2
    refuses(lambda: session.run(ones, {**feeds, **fed(b=2)}), r"\[2, 3\] and \[2\]")
    gx.save(tmp_path / "graph.gir", [ones, known])
    loaded = gx.load(tmp_path / "graph.gir")
    with pytest.raises(gx.ShapeError, match=r"\[2, 3\] and \[2\]"):
        gx.Session(loaded[0].graph).run(loaded[0], fed(b=2))
    # what always holds is neither saved nor run
    assert "multiply" not in (tmp_path / "graph.gir").read_text()
    assert session.run(known, {}).tolist() == [[0, 0, 0]] * 2


def test_fault_1_a_step_alone_refuses_weights_that_do_not_fit() -> None:
    """25 weights for 40 rows: the variables keep their values, whatever is fetched."""
    with gx.Graph() as graph:
        weight = gx.placeholder((None,), "float64", name="weight")
        x = gx.placeholder((None, 3), "float64", name="x")
        v = gx.variable(np.ones((3,)), name="v")
        loss = gx.sum(weight * (x @ v) ** 2)
        step = gx.optim.SGD(0.01).minimize(loss)
    session = gx.Session(graph, options=OPTIONS)
    feeds = {weight: np.ones(25), x: np.ones((40, 3))}
    for fetched in (step, [step, loss], loss):
        refuses(lambda fetched=fetched: session.run(fetched, feeds), r"\[25\] and \[40\]")
    np.testing.assert_array_equal(session.get(v), np.ones(3))
    session.run(step, {weight: np.ones(40), x: np.ones((40, 3))})
    assert (session.get(v) < 1).all()


def test_fault_1_sizes_of_feeds_that_nothing_reads_are_checked(vectors: Any) -> None:
    """The gradient reads neither operand of the quotient: they may be left out, or have to fit."""
    session, a, b = vectors
    with session.graph:
        w = gx.placeholder((), "float64", name="w")
    slope = gx.gradients(gx.sum(gx.floor_divide(a * w, b)) + 2.0 * w, w)
    both = session.compile(slope, [a, w, b])
    for _ in range(2):
        assert session.run(slope, {w: 3.0}) == 2
        assert session.run(slope, {w: 3.0, "a": np.ones(4)}) == 2
        assert session.run(slope, {w: 3.0, **fed(a=3, b=3)}) == both(np.ones(3), 3.0, np.ones(3))
        text = r"floor_divide: shapes \[3\] and \[5\]"
        refuses(lambda: session.run(slope, {w: 3.0, **fed(a=3, b=5)}), text)
        refuses(lambda: both(np.ones(3), 3.0, np.ones(5)), text)
    assert session.compile_count == 2


def test_fault_1_a_value_that_is_fed_tells_its_sizes(vectors: Any) -> None:
    """What would compute it is neither needed nor checked."""
    session, a, _ = vectors
    kept = gx.stop_gradient(a)
    rows = gx.zeros_like(kept) + gx.dim(a.shape[0])
    assert session.run(rows, {kept: np.ones(3)}).tolist() == [3, 3, 3]
    assert session.compile(rows, [kept])(np.ones(2)).tolist() == [2, 2]
    # what is fed has the size of n, which the gradient relies on
    with session.graph:
        n = gx.placeholder(("n",), "float64", name="n")
        m = gx.placeholder(("m",), "float64", name="m")
    product = gx.stop_gradient(n) * 1.0
    fitting = gx.stop_gradient(n + m)[:0]
    slope = gx.gradients(gx.sum(product) * 2.0 + gx.sum(fitting), product)
    with pytest.raises(gx.ShapeError, match=r"\[3\] and \[2\]"):
        session.run(slope, {n: np.ones(3), m: np.ones(2)})
    assert session.run(slope, {product: np.ones(3)}).tolist() == [2, 2, 2]


@pytest.mark.parametrize("size", [3, 6])
def test_fault_1_a_value_of_sizes_together_is_fed_beside_these(vectors: Any, size: int) -> None:
    """It tells neither size: both operands are asked for, and it must have the size they give."""
    session, a, b = vectors
    kept = gx.stop_gradient(a + b if size == 3 else gx.concatenate([a, b]))
    rest = gx.gradients(gx.sum(gx.floor_divide(kept, kept)) + 2.0, kept)
    for value in (kept * 2.0, gx.ones_like(kept), rest):
        for given in ({}, fed(a=3)):
            with pytest.raises(gx.FeedError, match="placeholder"):
                session.run(value, {kept: np.ones(size), **given})
        assert session.run(value, {kept: np.ones(size), **fed(a=3, b=3)}).shape == (size,)
        with pytest.raises(gx.ShapeError, match=rf"which is {size}, but is {size + 1}"):
            session.run(value, {kept: np.ones(size + 1), **fed(a=3, b=3)})


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_fault_29_guards_of_a_branch_hold_when_it_runs(level: int) -> None:
    with gx.Graph() as graph:
        v = gx.placeholder((None,), "float64", name="v")
        n = gx.placeholder((), "int64", name="n")
        most = gx.cond(n > 0, lambda: gx.max(v), lambda: -1.0)
        last = gx.cond(n > 0, lambda: gx.cond(n > 1, lambda: v[-1], lambda: v[1]), lambda: -1.0)
        _, total = gx.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + gx.max(v)), (0, 0.0))
    session = gx.Session(graph, options=gx.Options(optimize=level, verify=True))
    empty, two = {"v": np.zeros(0)}, {"v": np.array([1.0, 2.0])}
    for value, expected in ((most, 2), (last, 2), (total, 4)):
        assert session.run(value, {**two, "n": 2}) == expected
        assert session.run(value, {**empty, "n": 0}) == (0 if value is total else -1)
        kind, text = gx.ShapeError, "max of an empty axis 0"
        if value is last:
            kind, text = gx.IndexRangeError, "of size 0"
        refuses(lambda: session.run(value, {**empty, "n": 2}), text, kind)  # noqa: B023


@pytest.mark.parametrize("trips", [0, 2])
def test_fault_29_sizes_that_leave_later_guards_without_a_meaning(trips: int) -> None:
    """3 columns beside none: what a body asks for later divides by a size that there is not."""
    with gx.Graph() as graph:
        x, y = (gx.placeholder((None, None), "float64", name=name) for name in "xy")
        n = gx.placeholder((), "int64", name="n")

        def slope() -> gx.Value:
            root = gx.hypot(x, y)
            return gx.sum(gx.gradients(gx.sum(root * root), x))

        def body(i: gx.Value, s: gx.Value) -> tuple[gx.Value, gx.Value]:
            return i + 1, s + gx.cond(gx.equal(i % 2, 0), slope, lambda: np.float64(0))

        looped = gx.while_loop(lambda i, s: i < n, body, (0, np.float64(0)))[1]
    session = gx.Session(graph, options=gx.Options(optimize=1, verify=True))
    feeds = {x: np.ones((257, 3)), y: np.ones((257, 0)), n: trips}
    if trips:
        refuses(lambda: session.run(looped, feeds), r"\[257, 3\] and \[257, 0\]")
    else:
        assert session.run(looped, feeds) == 0
    assert session.run(looped, {**feeds, y: np.ones((257, 3))}) == (1542 if trips else 0)


def test_fault_32_a_dim_of_zero_leaves_no_size_for_a_reshape(vectors: Any) -> None:
    session, a, b = vectors
    value = a.reshape((b.shape[0], -1))
    refuses(lambda: session.run(value, fed(a=0, b=0)), r"\[0\] to \[0, -1\].*any size")
    assert session.run(value, fed(a=0, b=2)).shape == (2, 0)
    assert session.run(value, fed(a=6, b=2)).shape == (2, 3)


def test_fault_29_libraries_have_the_guards_of_branches(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        v = gx.placeholder((None,), "float64", name="v")
        n = gx.placeholder((), "int64", name="n")
        most = gx.cond(n > 0, lambda: gx.max(v), lambda: -1.0)
    gx.aot.compile(gx.Session(graph).compile(most, [v, n]), tmp_path / "most")
    loaded = gx.aot.load(tmp_path / "most")
    assert loaded(np.zeros(0), np.int64(0)) == -1
    assert loaded(np.array([1.0, 3.0]), np.int64(1)) == 3
    with pytest.raises(gx.ShapeError, match="max of an empty axis 0"):
        loaded(np.zeros(0), np.int64(1))


@pytest.mark.parametrize("nested", [False, True])
def test_fault_32_guards_of_regions_in_files_have_lines(tmp_path: Path, nested: bool) -> None:
    with gx.Graph():
        a, b = (gx.placeholder((None,), "float64", name=name) for name in "ab")

        def product() -> gx.Value:
            return gx.sum(a * b)

        def inside() -> gx.Value:
            return gx.cond(gx.sum(b) > 0.0, product, lambda: 0.0) if nested else product()

        looped = gx.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, s + inside()), (0, 0.0))[1]
    path = tmp_path / "graph.gir"
    gx.save(path, looped)
    loaded = gx.load(path)
    with pytest.raises(gx.ShapeError, match=r"shapes \[3\] and \[5\]") as caught:
        gx.Session(loaded.graph, options=OPTIONS).run(loaded, fed(a=3, b=5))
    where = caught.value.where
    assert where is not None and where.filename == str(path)
    line = path.read_text().splitlines()[where.line - 1]
    assert line.strip().startswith("guard broadcasts") and "multiply" in line


def test_fault_32_errors_of_a_run_say_what_those_of_a_build_say() -> None:
    def build(*shapes: tuple[Any, ...]) -> list[Any]:
        a, b = (gx.placeholder(s, "float64", name=n) for s, n in zip(shapes, "ab", strict=True))
        return [a @ b]

    with gx.Graph(), pytest.raises(gx.ShapeError) as known:
        build((2, 3), (4, 5))
    with gx.Graph() as graph:
        (value,) = build((None, None), (None, None))
    feeds = {"a": np.ones((2, 3)), "b": np.ones((4, 5))}
    with pytest.raises(gx.ShapeError) as run:
        gx.Session(graph).run(value, feeds)
    assert run.value.message == known.value.message
    assert run.value.where.line == known.value.where.line


BROADCASTS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], type[gx.GraphcError]]] = {
    "index arrays of shapes [2] and [3]": (
        lambda x, i, j: x[i, j], [(3, 4), (2,), (3,)], gx.IndexRangeError,
    ),
    "index arrays of shapes [2, 0] and [3]": (
        lambda x, i, j: x[i, j], [(3, 4), (2, 0), (3,)], gx.IndexRangeError,
    ),
    "a mask of shape [3]": (
        lambda x, i: x[i, np.array([True, True, False])], [(3, 4), (3,)], gx.IndexRangeError,
    ),
    "the leading dims do not broadcast": (
        lambda x, y: x @ y, [(2, 3, 4), (3, 4, 5)], gx.ShapeError,
    ),
    "[2, 3, 4] and [3, 6, 5] do not multiply as matrices": (
        lambda x, y: x @ y, [(2, 3, 4), (3, 6, 5)], gx.ShapeError,
    ),
    "of [2, 3] by indices [3, 3]": (
        lambda x, i: gx.take_along_axis(x, i, 1), [(2, 3), (3, 3)], gx.ShapeError,
    ),
    "shapes [2] and [3], which ... stands for": (
        lambda x, y: gx.einsum("...ij,...jk", x, y), [(2, 3, 4), (3, 4, 5)], gx.ShapeError,
    ),
}  # fmt: skip
"""What a call says of operands of these shapes; those called i and j are indices."""


@pytest.mark.parametrize("text", BROADCASTS)
def test_what_does_not_broadcast_is_told_as_what_it_is(text: str) -> None:
    function, shapes, kind = BROADCASTS[text]
    names = function.__code__.co_varnames
    arrays = [
        np.zeros(shape, np.int64 if name in "ij" else np.float64)
        for name, shape in zip(names, shapes, strict=True)
    ]

    def run(unknown: bool) -> Any:
        with gx.Graph() as graph:
            operands = [
                gx.placeholder((None,) * array.ndim if unknown else array.shape, array.dtype)
                for array in arrays
            ]
            value = function(*operands)
        feeds = dict(zip(operands, arrays, strict=True))
        return gx.Session(graph, options=OPTIONS).run(value, feeds)

    told = []
    for unknown in (False, True):
        with pytest.raises(kind, match=re.escape(text)) as caught:
            run(unknown)
        told.append(caught.value.message)
    assert told[0] == told[1]


def test_guards_are_text_and_read_back(vectors: Any) -> None:
    session, a, b = vectors
    value = gx.cond(gx.sum(a) > 0, lambda: a + b, lambda: a * 2.0 + b * 0.0)
    compiled = session.compile(value).compiled
    graph: Graph = compiled.graph
    assert "guard broadcasts" in str(graph)
    assert str(parse_graph(str(graph))) == str(graph)
    plan = compiled.plan
    assert any(isinstance(step, Require) for step in plan.steps)
    assert print_plan(parse_plan(print_plan(plan), constants_of(plan))) == print_plan(plan)
    verify_plan(plan)


def test_the_verifier_finds_a_guard_that_is_not_there(vectors: Any) -> None:
    from dataclasses import replace

    session, a, b = vectors
    plan = session.compile(gx.sum(a[1:] * b[:-1]) + a[2]).compiled.plan
    verify_bounds(plan)
    assert plan.guards
    with pytest.raises(gx.VerifyError, match="may touch"):
        verify_bounds(replace(plan, guards=()))


def test_guards_that_nothing_mends_end_no_session(vectors: Any) -> None:
    session, a, b = vectors
    value = a + b
    for _ in range(3):
        refuses(lambda: session.run(value, fed(a=3, b=5)), "do not broadcast")
        assert session.run(value, fed(a=3, b=3)).tolist() == [2, 4, 6]


def test_guards_are_checked_once_for_sizes(vectors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session, a, b = vectors
    run = session.compile(a * b, [a, b])
    checked: list[Guard] = []
    failure = Guard.failure

    def counted(guard: Guard, sizes: Any) -> Any:
        checked.append(guard)
        return failure(guard, sizes)

    monkeypatch.setattr(Guard, "failure", counted)

    def checks(m: int, n: int) -> int:
        """How many guards a call checks; lists are converted, which native code does not do."""
        checked.clear()
        assert run([2.0] * m, [3.0] * n).tolist() == [6.0] * max(m, n)
        return len(checked)

    assert checks(4, 4) and not checks(4, 4)
    assert checks(5, 1) and not checks(5, 1) and not checks(4, 4)
    for _ in range(2):
        refuses(lambda: checks(4, 5), r"shapes \[4\] and \[5\]")
    for size in range(10, 10 + MAX_BINDINGS):
        assert checks(size, size)
    assert checks(4, 4)
