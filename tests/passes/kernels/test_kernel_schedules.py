"""Schedules of kernels: what each pass chooses, that bits stay, and what the verifier refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from schedules import schedules_of

import graphc as gx
from graphc.base.errors import ParseError, VerifyError
from graphc.base.target import Target, named
from graphc.compiling.compiler import levels_of
from graphc.compiling.extraction import extract
from graphc.kernel.parser import parse_kernel
from graphc.kernel.printer import print_kernel, print_statements
from graphc.kernel.verify import verify_kernel
from passes.kernels.explained import schedule_lines
from passes.kernels.pipeline import names, scheduled

Function = Callable[..., Any]

V2, V3, V4, ARM = (named(n) for n in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"))
MIB = 1 << 20


def kernels_of(function: Function, given: Sequence[Any], target: Target, **options: Any) -> Any:
    with gx.Graph() as graph:
        fed = [gx.placeholder(shape, dtype) for shape, dtype in given]
        results = function(*fed)
    fetches = results if isinstance(results, list) else [results]
    levels = levels_of(extract(graph, fetches), gx.Options(**options), target)
    return levels.plan.kernels


def schedule_of(function: Function, *given: Any, target: Target = V3, **options: Any) -> list[str]:
    """What has a schedule, without the numbers of scalars."""
    typed = [g if isinstance(g[-1], str) else (g, "float32") for g in given]
    lines = []
    for kernel in kernels_of(function, typed, target, **options):
        for statement, text in print_statements(kernel).items():
            if statement in kernel.schedule:
                head, _, schedule = text.partition(" @ ")
                kind = "load" if "load" in head else head.split()[0]
                lines.append(f"{kind} @ {schedule}")
    return lines


# --- what is chosen ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "dtype", "length", "lanes"),
    [
        (V2, "float32", 1000, 32), (V4, "float32", 1000, 32), (ARM, "int8", 1000, 32),
        (V2, "float64", 1000, 8), (V3, "float64", 1000, 8), (V4, "float64", 1000, 16),
        (V2, "float32", 5, 4), (V4, "float32", 5, 8), (V4, "float32", 2, 2),
        (V3, "float32", None, 32),
    ],
)  # fmt: skip
def test_vectorize(target: Target, dtype: str, length: int | None, lanes: int) -> None:
    """Two registers of the widest data; of short rows what they fill, or all with masks."""
    found = schedule_of(lambda x: x + 1, ((length,), dtype), target=target)
    assert found[0] == f"vector @ vector({lanes})"


def test_tile() -> None:
    shapes = ((48, 64), (3, 64), (48, 1), (None, None))
    found = [schedule_of(lambda x: gx.transpose(x) * 2, shape) for shape in shapes]
    assert found[0] == ["across @ tiled(16, 16, 384)"]
    assert found[1] == ["across @ tiled(16, 2, 384)"]
    assert found[2] == ["vector @ vector(32)"]
    assert found[3] == ["across @ tiled(16, 16, 384)", "store @ streaming(12582912, 2048)"]
    assert schedule_of(lambda x: gx.transpose(x) * 2, ((48, 64), "float64")) == [
        "across @ tiled(8, 8, 384)"
    ]


def test_pipeline_rows() -> None:
    def softmax(x: Any) -> Any:
        return gx.nn.softmax(x)

    assert schedule_of(softmax, (256, 256)) == ["parallel @ pipelined(3)"]
    assert schedule_of(softmax, (512, 1024)) == [
        "parallel @ pipelined(3)", "load @ prefetched(16384, 2)",
    ]  # fmt: skip
    assert "parallel @ pipelined(3)" not in schedule_of(softmax, (512, 40))
    assert "parallel @ pipelined(3)" not in schedule_of(softmax, (512, None))
    gradient = [
        schedule_of(
            lambda x: gx.gradients(gx.sum(softmax(x) * gx.arange(256.0)), [x]), (64, 256), target=t
        )
        for t in (V3, V4)
    ]
    assert "parallel @ pipelined(4)" not in gradient[0]
    assert "parallel @ pipelined(4)" in gradient[1]


def test_block_columns() -> None:
    def total(x: Any) -> Any:
        return gx.sum(x, axis=0)

    assert schedule_of(total, (512, 1024)) == ["vector @ column_blocked(32, 4096)"]
    assert schedule_of(total, (8192, 1024))[:2] == [
        "vector @ column_blocked(32, 4096)", "load @ prefetched(1024, 2)",
    ]  # fmt: skip
    assert schedule_of(total, (50, 1024)) == ["vector @ vector(32)"]
    assert schedule_of(total, (512, 63)) == ["vector @ vector(32)"]
    assert schedule_of(lambda x: gx.argmax(x, axis=0), (512, 1024)) == ["vector @ vector(8)"]


def test_stream_stores_and_prefetch() -> None:
    def function(x: Any) -> Any:
        return gx.nn.relu(x * 2 + 1)

    assert schedule_of(function, (12 * MIB // 4 - 1,)) == ["vector @ vector(32)"]
    assert schedule_of(function, (12 * MIB // 4,)) == [
        "vector @ vector(32)", "load @ prefetched(2048, 1)", "store @ streaming(12582912, 2048)",
    ]  # fmt: skip
    assert schedule_of(function, (12 * MIB,), target=ARM) == ["vector @ vector(32)"]


def test_block_rows() -> None:
    def function(x: Any, bias: Any, column: Any) -> Any:
        return (x + bias) * column

    wide, narrow = ((2048, n) for n in (8192, 1024))
    assert "parallel @ row_blocked(8, 128)" in schedule_of(function, wide, (8192,), (2048, 1))
    assert "parallel @ row_blocked(8, 128)" not in schedule_of(
        function, (2048 * 8, 1024), narrow[1:], (2048 * 8, 1)
    )


def test_interleave_rows() -> None:
    assert schedule_of(lambda x: gx.cummax(x, 1), (8, 50)) == ["parallel @ interleaved(4)"]
    assert schedule_of(lambda x: gx.cummax(x, 1), (None, None)) == ["parallel @ interleaved(4)"]
    assert schedule_of(lambda x: gx.cummax(x, 1), (3, 50)) == []
    assert schedule_of(lambda x: gx.cummax(x, 0), (50, 8)) == ["vector @ vector(8)"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(0, 5), (1, 5), (5, 0), (4, 1), (7, 33), (1003, 70), (3, 5, 9)])
def test_interleaved_rows_are_those_of_numpy(shape: tuple[int, ...], threads: int) -> None:
    x = sample(*shape)
    x[x > 2] = np.nan
    with gx.Graph() as graph:
        fed = gx.placeholder((None,) * len(shape))
        results = [gx.cummax(fed, -1), gx.cumprod(fed, -1)]
    found = gx.Session(graph, threads=threads).run(results, {fed: x})
    np.testing.assert_array_equal(found[0], np.maximum.accumulate(x, -1))
    np.testing.assert_array_equal(found[1], np.multiply.accumulate(x, -1))


def test_collapse_rows() -> None:
    found = schedule_of(lambda x, y: gx.tanh(x @ y), (300, 200), (200, 30))
    assert "parallel @ collapsed(32)" in found
    found = schedule_of(lambda x, y: gx.tanh(x @ y), (300, 200), (200, 64))
    assert "parallel @ collapsed(32)" not in found and "vector @ vector(32)" in found


def test_gather_ahead() -> None:
    def function(table: Any, rows: Any) -> Any:
        return gx.take(table, rows, axis=0)

    ids = ((8192,), "int64")
    assert "load @ gathered(4, 16)" in schedule_of(function, (50_000, 256), ids)
    assert not any("gathered" in s for s in schedule_of(function, (50_000, 16), ids))
    assert not any("gathered" in s for s in schedule_of(function, (50, 256), ids))


# --- bits ----------------------------------------------------------------------------------------


def sample(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


EXAMPLES: dict[str, tuple[Function, list[Any]]] = {
    "vectorize": (lambda x: gx.tanh(x) * 2, [sample(1003)]),
    "tile": (lambda x: gx.transpose(x) + 1, [sample(77, 95)]),
    "pipeline_rows": (lambda x: gx.nn.softmax(x), [sample(30, 700)]),
    "block_columns": (lambda x: gx.sum(x, axis=0), [sample(300, 200)]),
    "collapse_rows": (lambda x, y: gx.tanh(x @ y), [sample(300, 200), sample(200, 30)]),
    "stream_stores": (lambda x: x * 2 + 1, [sample(12 * MIB // 4 + 5)]),
    "block_rows": (lambda x, b: (x + b) * 0.5, [sample(400, 8192), sample(8192)]),
    "interleave_rows": (lambda x: gx.cummin(x, 1), [sample(203, 70)]),
    "prefetch": (lambda x: x * 2 + 1, [sample(12 * MIB // 4 + 5)]),
    "gather_ahead": (
        lambda t, i: gx.take(t, i, axis=0), [sample(9000, 64), np.arange(0, 8999, 7)]
    ),
}  # fmt: skip

GIVES = {
    "vectorize": "vector", "tile": "tiled", "pipeline_rows": "pipelined",
    "block_columns": "column_blocked", "collapse_rows": "collapsed", "stream_stores": "streaming",
    "block_rows": "row_blocked", "prefetch": "prefetched", "gather_ahead": "gathered",
    "interleave_rows": "interleaved",
}  # fmt: skip


def test_each_pass_has_an_example() -> None:
    assert EXAMPLES.keys() == GIVES.keys() == names()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_pass_that_is_off_leaves_the_bits(name: str) -> None:
    function, arrays = EXAMPLES[name]
    with gx.Graph() as graph:
        fed = [gx.placeholder(a.shape, a.dtype) for a in arrays]
        result = function(*fed)
    found = []
    for off in ((), (name,)):
        options = gx.Options(off=frozenset(off), cache=None, verify=True)
        program = gx.Session(graph, options=options).compile(result, fed)
        assert (GIVES[name] in schedules_of(program)) is not bool(off)
        found.append(np.asarray(program(*arrays)).tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_passes_can_be_off_in_any_company(name: str) -> None:
    """So bisecting can stop between any two of them."""
    function, arrays = EXAMPLES[name]
    with gx.Graph() as graph:
        fed = [gx.placeholder(a.shape, a.dtype) for a in arrays]
        result = function(*fed)
    found = set()
    for off in ((), ("vectorize",), tuple(names() - {name}), tuple(names())):
        options = gx.Options(off=frozenset(off), cache=None, verify=True)
        program = gx.Session(graph, options=options).compile(result, fed)
        found.add(np.asarray(program(*arrays)).tobytes())
    assert len(found) == 1


# --- text and legality ---------------------------------------------------------------------------

SUM = """kernel "sum" (in %x: float32[64, 128], out %y: float32[128]) {
  %0 = const int64 128
  vector %1 < 128 {
    %2 = reduce chain %3 < 64 {
      %4 = multiply %3, %0
      %5 = add %4, %1
      %6 = load %x[%5]
      yield add %6
    }
    store %y[%1], %2
  }
}
"""


def test_texts_of_schedules_are_read_back() -> None:
    text = (
        SUM.replace("< 128 {", "< 128 @ column_blocked(32, 64) {")
        .replace("load %x[%5]", "load %x[%5] @ prefetched(1024, 2)")
        .replace("store %y[%1], %2", "store %y[%1], %2 @ streaming(1, 64)")
    )
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    assert print_kernel(kernel) == text
    assert print_kernel(scheduled(kernel, V3)) != text


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("vector(24)", "lanes are a power of two"),
        ("column_blocked(32, 48)", "divide the columns"),
        ("tiled(8, 8, 384)", "it is no loop across another"),
        ("pipelined(2)", "rows are not independent"),
        ("row_blocked(8, 64)", "it is no loop over rows"),
        ("interleaved(4)", "no chain of operations is a row"),
        ("collapsed(32)", "it is no loop over rows"),
        ("streaming(1, 1)", "it is no store"),
        ("prefetched(64, 1)", "it is no load"),
        ("gathered(4, 1)", "it is no load"),
    ],
)
def test_the_verifier_refuses_a_schedule_of_another_loop(schedule: str, problem: str) -> None:
    kernel = parse_kernel(SUM.replace("< 128 {", f"< 128 @ {schedule} {{"))
    with pytest.raises(VerifyError, match=problem) as caught:
        verify_kernel(kernel)
    assert schedule in str(caught.value)


def test_the_verifier_refuses_a_schedule_of_what_is_not_there() -> None:
    kernel, other = parse_kernel(SUM), parse_kernel(SUM.replace("< 128 {", "< 128 @ vector(8) {"))
    assert other.schedule
    kernel.schedule.update(other.schedule)  # type: ignore[attr-defined]
    with pytest.raises(VerifyError, match="of no statement of the kernel"):
        verify_kernel(kernel)


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("fast(1)", "expected one of collapsed, column_blocked"),
        ("vector(1, 2)", "expected '\\)'"),
        ("vector(-1)", "not negative"),
    ],
)
def test_texts_that_are_no_schedules(schedule: str, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        parse_kernel(SUM.replace("< 128 {", f"< 128 @ {schedule} {{"))


def test_reasons_are_given() -> None:
    (kernel,) = kernels_of(lambda x: gx.sum(x, axis=0), [((50, 1024), "float32")], V3)
    assert schedule_lines(kernel, V3) == [
        "vector %2 < 1024 @ vector(32)",
        "  not block_columns: there are few rows",
        "  not prefetch: what it writes stays in the caches",
    ]
    off = kernels_of(
        lambda x: gx.sum(x, axis=0), [((50, 1024), "float32")], V3, off=frozenset({"vectorize"})
    )
    assert "  not vectorize: it is switched off, or no fuel was left" in schedule_lines(off[0], V3)


def test_explain_says_how_loops_run_and_why() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((512, 1024), name="x")
        y = gx.nn.softmax(x)
    text = str(gx.Session(graph).compile(y, [x]).explain(y))
    assert "parallel %5 < 512 @ pipelined(3)" in text
    assert "schedules | pipeline_rows" in text
