"""Programs over sizes that only the feeds tell: their sizes stay small, and results are NumPy's.

Faults 7, 8 and 9: what is folded names no size, diagonals of unknown length, and chains of slices,
differences and concatenations, whose sizes once grew as trees.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import lines_run
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.errors import ShapeError
from graphc.base.target import named
from graphc.ir.dims.expressions import Dim, DimExpr, program

STEPS = 40
SIZES = (0, 1, 2, 39, 40, 41, 100)




CHAINS: dict[str, Callable[[Any, Any, int], Any]] = {
    "slices": lambda lib, b, n: b[1:],
    "differences": lambda lib, b, n: b[1:] - b[:-1],
    "concatenations": lambda lib, b, n: lib.concatenate(
        [b[:1], (b[2:] + b[:-2]) * 0.5, b[-1:]]
    ),
    "pads": lambda lib, b, n: lib.pad(b, [(1, 2)]) * 0.5,
    "halves": lambda lib, b, n: b[::2],
    "reshapes": lambda lib, b, n: b.reshape((-1, 1)).reshape(-1) + 1,
    "repeats": lambda lib, b, n: lib.repeat(b[:3], 2),
    "stacks": lambda lib, b, n: lib.stack([b[:2], b[:2]]).reshape(-1),
    "mixtures": lambda lib, b, n: (
        b[1:],
        b[1:] - b[:-1],
        lib.concatenate([b[:1], (b[2:] + b[:-2]) * 0.5, b[-1:]]),
        lib.pad(b, [(1, 2)]),
        lib.concatenate([b, b[:2]])[::2],
    )[n % 5],
}


def _chained(lib: Any, kind: str, b: Any) -> Any:
    for n in range(STEPS):
        b = CHAINS[kind](lib, b, n)
    return b


def _terms(dim: Dim) -> int:
    return len(program([dim])[0])


@slow_unless(
    lambda kind: kind not in ("differences", "concatenations", "halves", "pads", "stacks")
)
@pytest.mark.parametrize("kind", CHAINS)
def test_fault_9_chains_of_unknown_sizes(kind: str) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64", name="x")
        y = _chained(gx, kind, x)
        total = gx.gradients(gx.sum(y * y), x)
    session = gx.Session(graph)
    bound = 4 * STEPS if kind == "mixtures" else 16
    assert _terms(y.shape[0]) <= bound
    assert len(str(y.shape[0])) <= 12 * bound
    for size in SIZES:
        given = np.linspace(-1, 2, size) ** 2
        expected = _chained(np, kind, given)
        got, slope = session.run((y, total), {x: given})
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-6)
        assert slope.shape == given.shape


def _compiled(count: int, options: gx.Options | None = None) -> Callable[[], object]:
    def run() -> object:
        with gx.Graph() as graph:
            parts = [gx.placeholder((None,), "float32", name=f"p{n}") for n in range(count)]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
        feeds = {part: np.ones(3 if n % 3 else 1, np.float32) for n, part in enumerate(parts)}
        (result,) = {*gx.Session(graph, options=options).run(total, feeds).tolist()}
        assert result == count
        return None

    return run


def test_fault_9_sums_of_unknown_sizes() -> None:
    """Sets of sizes share what they have in common: twice the operands take twice the work."""
    _compiled(8)()
    few, many = lines_run(_compiled(20)), lines_run(_compiled(80))
    assert many <= 6 * few


def test_fault_9_sums_of_unknown_sizes_from_the_cache(tmp_path: Path) -> None:
    """A hash of a graph is made of what its guards share, not of the text of each."""
    options = gx.Options(cache=str(tmp_path))
    _compiled(8, options)()
    compiled, _ = lines_run(_compiled(20, options)), _compiled(80, options)()
    few, many = lines_run(_compiled(20, options)), lines_run(_compiled(80, options))
    assert few < compiled / 2 and many <= 6 * few, (compiled, few, many)


def test_matrices_of_unknown_sizes_are_read_in_order() -> None:
    """Vectors are loaded, or one element is repeated: nothing is gathered element by element."""
    with gx.Graph() as graph:
        x, y, z = (gx.placeholder((None, None), name=name) for name in "xyz")
        exe = gx.Session(graph, target=named("x86-64-v3")).compile(x * y + z, [x, y, z])
    assert len(exe.kernels) == 1 and "gather" not in exe.llvm_ir()
    given = [np.ones((n, m), np.float32) * (n + m) for n in (1, 6) for m in (1, 33)]
    for a, b, c in itertools.product(given, repeat=3):
        assert np.array_equal(exe(a, b, c), a * b + c)


def test_the_order_of_a_sum_makes_no_other_size() -> None:
    with gx.Graph():
        a, b, c = (gx.placeholder((None,), "float32") for _ in range(3))
        assert ((a + b) + c).type.shape[0] is (c + (b + a)).type.shape[0]
        assert ((a + b) + (b + a)).type.shape[0] is (a + b).type.shape[0]


def test_what_broadcasts_at_run_time_is_checked() -> None:
    with gx.Graph() as graph:
        a, b, c = (gx.placeholder((None,), "float32", name=name) for name in "abc")
        y = (a + b) * c
    session = gx.Session(graph)
    for sizes in itertools.product((0, 1, 2, 3, 70), repeat=3):
        arrays = [np.arange(1, size + 1, dtype=np.float32) for size in sizes]
        feeds = dict(zip((a, b, c), arrays, strict=True))
        try:
            expected = (arrays[0] + arrays[1]) * arrays[2]
        except ValueError:
            with pytest.raises(ShapeError, match="do not broadcast"):
                session.run(y, feeds)
            continue
        np.testing.assert_array_equal(session.run(y, feeds), expected)


def test_fault_7_indices_into_axes_of_unknown_size() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 4), "float32", name="x")
        v = gx.placeholder((None,), "float32", name="v")
        results = (x[[0, 1], [2, 3]], x[[1], [2]], x[[-1, 0], [0, -1]], x[[0, 2], 1], v[[0, -1]])
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    row = given[0]
    expected = (
        given[[0, 1], [2, 3]],
        given[[1], [2]],
        given[[-1, 0], [0, -1]],
        given[[0, 2], 1],
        row[[0, -1]],
    )
    for got, want in zip(
        gx.Session(graph).run(results, {x: given, v: row}), expected, strict=True
    ):
        np.testing.assert_array_equal(got, want)


TERMS = (
    "bb->b", "bb->", "abb->ab", "bab->ab", "bbb->b", "bb,b->b", "b,bb->", "ab,bb->a", "...bb->...b",
)  # fmt: skip


@slow_unless(lambda subscripts: subscripts not in ("ab,bb->a", "bbb->b", "abb->ab", "bb,b->b"))
@pytest.mark.parametrize("subscripts", TERMS)
def test_fault_8_diagonals_of_unknown_length(subscripts: str) -> None:
    """Every axis known or not, of length 1 or 3, fed what fits and what does not."""
    terms = [term.replace("...", "") for term in subscripts.split("->")[0].split(",")]
    ranks = [len(term) for term in terms]
    for known in itertools.product((True, False), repeat=sum(ranks)):
        for lengths in itertools.product((1, 3), repeat=sum(ranks)):
            if sum(known) not in (1, 2):
                continue
            sizes = iter(zip(known, lengths, strict=True))
            axes = [[next(sizes) for _ in range(rank)] for rank in ranks]
            arrays = [
                np.arange(1.0, 1 + np.prod([n for _, n in one], dtype=int)).reshape(
                    [n for _, n in one]
                )
                for one in axes
            ]
            fits = _fits(terms, [[n for _, n in one] for one in axes])
            shapes = [tuple(n if told else None for told, n in one) for one in axes]
            try:
                with gx.Graph() as graph:
                    operands = [gx.placeholder(shape, "float64") for shape in shapes]
                    y = gx.einsum(subscripts, *operands)
                got = gx.Session(graph).run(y, dict(zip(operands, arrays, strict=True)))
            except ShapeError:
                assert not fits, (subscripts, shapes, lengths)
                continue
            assert fits is not False, (subscripts, shapes, lengths)
            np.testing.assert_allclose(got, np.einsum(subscripts, *arrays), rtol=1e-12)


def _fits(terms: list[str], shapes: list[list[int]]) -> bool | None:
    """Whether one letter has one length, None where only a length of 1 is another one."""
    lengths: dict[str, set[int]] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter in {*term}:
            own = {n for at, n in zip(term, shape, strict=True) if at == letter}
            if len(own) > 1:
                return False
            lengths.setdefault(letter, set()).update(own)
    return None if any(len(own) > 1 for own in lengths.values()) else True


def test_dims_of_results_are_shared() -> None:
    with gx.Graph():
        x = gx.placeholder((None,), "float32", name="x")
        a, b = x[1:][1:], x[2:]
    assert isinstance(a.shape[0], DimExpr)
    assert a.shape[0] is b.shape[0]


def test_fault_20_sizes_are_numbers() -> None:
    """Beside floats a dim is a Python int, and a quotient of dims a Python float."""
    with gx.Graph() as graph:
        x = gx.placeholder((None, 3), "float32", name="x")
        wide, small = x.astype("float64"), x.astype("int8")
        n = x.shape[0]
        results = {
            "mean": (gx.sum(x) / n, lambda a, k: a.sum() / k),
            "weight": (1 / n * gx.sum(x), lambda a, k: 1 / k * a.sum()),
            "wide": (1 / n * gx.sum(wide), lambda a, k: 1 / k * a.astype("f8").sum()),
            "scaled": (n * 1.5 * x, lambda a, k: k * 1.5 * a),
            "right": (n - x, lambda a, k: k - a),
            "nested": (x * (n / 2 + 1 / (n * 2.0)), lambda a, k: a * (k / 2 + 1 / (k * 2.0))),
            "integers": (small + n, lambda a, k: a.astype("i8") + k),
            "masks": (x < n, lambda a, k: a < k),
            "where": (gx.where(x > n, n, x), lambda a, k: np.where(a > k, np.float32(k), a)),
            "numpy": (np.sqrt(n) + wide, lambda a, k: np.sqrt(k) + a.astype("f8")),
            "array": (np.ones(3, np.float32) * n, lambda a, k: np.ones(3, np.float32) * k),
            "power": (x ** (n / n), lambda a, k: a),
        }
    session = gx.Session(graph)
    for size in (1, 2, 5, 200):
        given = np.arange(3 * size, dtype=np.float32).reshape(size, 3) / 7
        for name, (value, expected) in results.items():
            want = np.asarray(expected(given, size))
            got = session.run(value, {x: given})
            assert got.dtype == want.dtype, name
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    "place", [lambda n: n - 1, lambda n: n // 2, lambda n: n - 3, lambda n: 2 * n - 5, lambda n: -n]
)
def test_fault_20_indices_made_of_sizes(place: Callable[[Any], Any]) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float32", name="x")
        y = x[place(x.shape[0])]
    session = gx.Session(graph)
    for size in range(8):
        given = np.arange(size, dtype=np.float32)
        try:
            expected = given[place(size)]
        except IndexError:
            with pytest.raises(gx.IndexRangeError, match=f"for axis 0 of size {size}"):
                session.run(y, {x: given})
            continue
        assert session.run(y, {x: given}) == expected


@pytest.mark.parametrize("form", [
    lambda lib, x, n: lib.reshape(x[:0], (n, -1)),
    lambda lib, x, n: lib.reshape(x[:0, :2], (-1, n // 2)),
    lambda lib, x, n: lib.repeat(lib.sum(x, axis=1, keepdims=True), 0, axis=0),
    lambda lib, x, n: lib.tile(lib.cumsum(x, axis=1)[:, :1], (0, 1)),
    lambda lib, x, n: lib.sum(lib.repeat(lib.max(x, axis=0, keepdims=True), 0, axis=1), axis=1),
])  # fmt: skip
def test_nothing_of_unknown_sizes(form: Callable[[Any, Any, Any], Any]) -> None:
    """What has no elements for every size, of arrays that have none either or some."""
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "float64", name="x")
        y = gx.placeholder((None,), "float64", name="y")
        result = form(gx, x, y.shape[0])
    session = gx.Session(graph)
    for rows, columns, size in itertools.product((0, 1, 3), (0, 2), (0, 1, 3)):
        given = np.ones((rows, columns))
        feeds = {x: given, y: np.ones(size)}
        try:
            expected = form(np, given, size)
        except ValueError:
            with pytest.raises(ShapeError):
                session.run(result, feeds)
            continue
        assert np.array_equal(session.run(result, feeds), expected)


@pytest.mark.parametrize("name", ["a+b", "n m", "a\nb", "3", "", "_d1", "a.b"])
def test_fault_23_names_of_dims_are_identifiers(name: str) -> None:
    with gx.Graph(), pytest.raises(ShapeError, match="is not a name of a dim"):
        gx.placeholder((name, 3), "float32")


@pytest.mark.parametrize("dtype", ["int64", "float32"])
@pytest.mark.parametrize("level", [0, 2])
def test_fault_10_what_no_memory_holds_is_refused(dtype: str, level: int) -> None:
    with gx.Graph() as graph:
        i = gx.placeholder((), "int64", name="i")
        y = gx.arange(2**61, dtype=dtype)[i]
    with pytest.raises(gx.UnsupportedError, match=r"a temporary of type .* bytes"):
        gx.Session(graph, options=gx.Options(optimize=level)).run(y, {i: 5})
    with gx.Graph(), pytest.raises(ShapeError, match=r"has .* elements"):
        gx.repeat(gx.placeholder((3,), "float32"), 2**62)


@pytest.mark.parametrize("size", [
    lambda x, y: (x + y).shape[0],
    lambda x, y: 2 * gx.stack([x * y, x * y]).size,
    lambda x, y: 10 // x.shape[0],
    lambda x, y: 1 + 7 % y.shape[0],
    lambda x, y: (x + y[: 9 // x.shape[0]]).shape[0],
])  # fmt: skip
@pytest.mark.parametrize("use", [
    lambda x, n: gx.sum(x) * n,
    lambda x, n: gx.zeros((n,)),
    lambda x, n: gx.dim(n),
    lambda x, n: x[:n],
    lambda x, n: gx.cond(gx.sum(x) > -1, lambda: gx.sum(gx.arange(n)), lambda: gx.dim(x.size)),
    lambda x, n: gx.while_loop(lambda i: i < 1, lambda i: [i + n + 1], [0]),
])  # fmt: skip
def test_sizes_that_are_none(
    size: Callable[[Any, Any], Any], use: Callable[[Any, Any], Any]
) -> None:
    """A size of what does not fit, or divided by 0, is an error where it is used, though nothing
    computes the value that would have it."""
    with gx.Graph() as graph:
        x, y = (gx.placeholder((None,), name=name) for name in "xy")
        result = use(x, size(x, y))
    session = gx.Session(graph)
    for rows, columns in itertools.product((0, 1, 2, 3), repeat=2):
        feeds = {x: np.ones(rows), y: np.ones(columns)}
        try:
            with gx.Graph():
                size(*(gx.placeholder((n,)) for n in (rows, columns)))
        except (ValueError, ZeroDivisionError):
            with pytest.raises(ShapeError) as caught:
                session.run(result, feeds)
            assert caught.value.where is not None
        else:
            session.run(result, feeds)


def test_feeds_of_wrong_sizes_are_told_apart() -> None:
    """Errors say which of the feeds without names, and which size a feed in between needs."""
    with gx.Graph() as graph:
        a, b = (gx.placeholder(("n",)) for _ in range(2))
        total = a + gx.placeholder(("m",), name="c")
    session = gx.Session(graph)
    with pytest.raises(ShapeError, match=r"dim n is 2 in axis 0 of feed 1, float32\[n\], but 3 in "
                       r"axis 0 of feed 2, float32\[n\],"):  # fmt: skip
        session.run(a + b, {a: np.ones(2), b: np.ones(3)})
    with pytest.raises(ShapeError, match=r"must be broadcast\(m, n\), which is 2, but is 3"):
        session.run(total * a, {a: np.ones(2), "c": np.ones(1), total: np.ones(3)})
