"""Tables of Fourier transforms from files and feeds, which may hold anything."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless
from tools import child_environment

import graphc as gx
from graphc.ir.builder import apply
from graphc.ir.dtypes import COMPUTED_FLOATS, DType, float32
from graphc.kernel.routines.fourier import table_of
from graphc.kernel.routines.fourier_plan import table_bound, table_size
from graphc.ops.fft.core import transform_pairs
from graphc.ops.fft.real import pairs_to_real, real_to_pairs

SUPPORT = Path(__file__).parent.parent / "support"


@slow_unless(lambda heads: heads == 4)
@pytest.mark.parametrize("heads", [4, 40])
def test_no_table_leads_beyond_an_array(heads: int) -> None:
    command = [sys.executable, str(SUPPORT / "guard_tables.py"), str(heads)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=child_environment(), timeout=300
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]


# --- files ---------------------------------------------------------------------------------------


def saved(path: Path, build: Callable[[], Any], *changes: tuple[str, str]) -> Path:
    """The file of a graph, changed."""
    with gx.Graph():
        gx.save(path, build())
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)
    return path


def pairs_of_100() -> Any:
    x = gx.placeholder((2, 100, 2), name="x")
    return transform_pairs(x, False, "none", "fft")


def pairs_of_any() -> Any:
    x = gx.placeholder((2, "n", 2), name="x")
    return transform_pairs(x, False, "none", "fft")


def rows_of_74() -> Any:
    return real_to_pairs(gx.placeholder((2, 74), name="x"), "none", "rfft")


def halves_of_74() -> Any:
    return pairs_to_real(gx.placeholder((2, 38, 2), name="x"), 74, "none", "irfft")


REFUSED = {
    "a smaller table": (
        pairs_of_100, [("size = 400", "size = 300"), ("[400]", "[300]")],
        "the table for rows of 100 has 400 elements, not 300",
    ),
    "a table of another length": (
        pairs_of_100, [("length = 100", "length = 128"), ("400", "600")],
        "fft: the table for rows of 100 has 400 elements, not 600",
    ),
    "no length": (pairs_of_100, [("length = 100", "length = 0")], "a transform of 0 numbers"),
    "a negative length": (pairs_of_100, [("length = 100", "length = -3")], "of -3 numbers"),
    "a length that is no size": (
        pairs_of_100, [("length = 100", "length = 1.5")], "an int or DimExpr, not float"
    ),
    "a flag that is none": (pairs_of_100, [("inverse = False", "inverse = 7")], "inverse is 7"),
    "a real that is none": (pairs_of_100, [("real = False", "real = 7")], "a bool real"),
    "another scale": (pairs_of_100, [('"none"', '"many"')], "scale is 'many'"),
    "integers": (
        pairs_of_100, [("float32[2", "int32[2"), ("@float32", "@int32")], "not float32 and int32"
    ),
    "an unknown size of another length": (
        pairs_of_any, [("9*n + 2048", "9*n + 2049")], "the table for rows of n"
    ),
    "a smaller table of real rows": (
        rows_of_74, [("length = 74, real = True", "length = 74, real = False")],
        "the table for rows of 74",
    ),
    "a longer row than the table's": (
        halves_of_74, [("length = 74, scale", "length = 75, scale"), ("[2, 74]", "[2, 75]")],
        "irfft: the table for rows of 75",
    ),
    "a row without its half": (
        halves_of_74, [("length = 74", "length = 76"), ("[2, 74]", "[2, 76]")],
        "the table for rows of 76",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_files_with_sizes_that_contradict_each_other_are_refused(case: str, tmp_path: Path) -> None:
    build, changes, message = REFUSED[case]
    path = saved(tmp_path / "graph", build, *changes)
    with pytest.raises(gx.ParseError, match=message):
        gx.load(path)


def results(path: Path, *arrays: Any) -> Any:
    fetched = gx.load(path)
    graph = fetched.graph
    fed = [node.output for node in graph.nodes if node.op.name == "placeholder"]
    return gx.Session(graph).run(fetched, dict(zip(fed, arrays, strict=True)))


def test_a_table_that_is_fed_may_be_of_another_length(tmp_path: Path) -> None:
    made = "%1 = constant() {value = float32[] 0x1p+0} : float32[]\n"
    made += "  %2 = fft_table(%1) {length = 100, real = False, size = 400} : float32[400]"
    fed = '%2 "t" = placeholder() {dtype = @float32, shape = (400,)} : float32[400]'
    path = saved(tmp_path / "graph", pairs_of_100, (made, fed))
    array = np.random.default_rng(0).normal(size=(2, 100, 2)).astype(np.float32)
    right = table_of(100, 400, float32)
    wanted = np.fft.fft(array[..., 0] + 1j * array[..., 1])
    got = results(path, array, right)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], wanted, atol=1e-3)
    for other in (table_of(99, 600, float32)[:400], right * 0, right * np.nan, right[::-1]):
        assert np.isnan(results(path, array, np.ascontiguousarray(other))).all()


def halves_of_any() -> Any:
    x = gx.placeholder((2, "n", 2), name="x")
    return pairs_to_real(x, 2 * x.shape[1] - 2, "none", "irfft")


@pytest.mark.parametrize("build", [pairs_of_any, halves_of_any])
def test_files_without_guards_of_lengths(build: Callable[[], Any], tmp_path: Path) -> None:
    path = saved(tmp_path / "graph", build)
    text = re.sub(r"guards = \(.*?,\), (?=length)", "", path.read_text())
    assert "guards" not in text
    path.write_text(text)
    right = results(path, np.ones((2, 3, 2), np.float32))
    assert np.isfinite(right).all()
    try:
        assert results(path, np.ones((2, 0, 2), np.float32)).size == 0
    except (gx.ShapeError, ValueError):
        # of no pairs there would be -2 elements
        assert build is halves_of_any


# --- feeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", COMPUTED_FLOATS, ids=str)
@pytest.mark.parametrize("length", [1, 12, 37, 100, 331])
def test_tables_of_any_size_that_are_fed(element: DType, length: int) -> None:
    rng = np.random.default_rng(length)
    complexes = rng.normal(size=(3, length, 2)).astype(element.numpy)
    with gx.Graph() as graph:
        x = gx.placeholder((3, length, 2), element, name="x")
        u = gx.placeholder((None, None, 2), element, name="u")
        table = gx.placeholder((None,), element, name="table")
        fetched = [transform_pairs(x, False, "none", "fft")]
        node = next(node for node in graph.nodes if node.op.name == "fft")
        fetched += [apply(node.op, value, table, **node.attrs) for value in (x, u)]
    exe = gx.Session(graph).compile(fetched, [x, u, table])
    exact, bound = int(table_size(length, element)), int(table_bound(length))
    for size in (exact, bound):
        first, *others = exe(complexes, complexes, table_of(length, size, element))
        for result in others:
            np.testing.assert_allclose(result, first, atol=1e-4)
    for other in (
        table_of(length, exact, element)[:-1],
        table_of(length + 1, table_bound(length + 1), element),
        np.zeros(0, element.numpy),
        np.full(bound, np.inf, element.numpy),
    ):
        for result in exe(complexes, complexes, other)[1:]:
            assert np.isnan(result).all()
