"""Joins: pieces of concatenations are computed in their slices of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from check import check_pass
from slow_parameters import slow_unless

import graphc as gx
from graphc import aot
from graphc.base.errors import ParseError, VerifyError
from graphc.base.options import Options
from graphc.base.tuning.fusion import FusionTuning
from graphc.checking.compare import same_bits
from graphc.checking.interpreter import evaluate
from graphc.ir.graph import Graph
from graphc.ir.text.parser import parse_graph
from graphc.ir.verify import verify
from graphc.kernel.ir import stored_parts
from graphc.ops.move.placing import wholes
from graphc.plan.ir import Launch, Plan
from graphc.plan.printer import constants_of, parse_plan, print_plan
from graphc.plan.verify import verify_plan
from passes.graph.concat_in_place import concat_in_place

pytestmark = pytest.mark.check_mode


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few bytes are saved."""
    monkeypatch.setattr(FusionTuning, "slice_bytes", 0)


def p(*shape: Any, **rest: Any) -> Any:
    return gx.placeholder(shape, **rest)


def joined(plan: Plan) -> list[int]:
    """The slots that are written in parts, each once a part."""
    return [
        step.arguments[place]
        for step in plan.steps
        if isinstance(step, Launch)
        for place in stored_parts(plan.kernels[step.kernel])
    ]


# --- the pass ------------------------------------------------------------------------------------


def test_pieces_are_put_in_their_slices() -> None:
    context = check_pass(
        concat_in_place,
        """
        graph "graph" dims (n: 0..) (%0: float32[n, 512], %1: float32[n, 256], %2: float32[n, 8]) {
          %3 = tanh(%0) : float32[n, 512]
          %4 = exp(%1) : float32[n, 256]
          %5 = concatenate(%3, %4, %2) {axis = 1} : float32[n, 776]
          return %5
        }
        """,
        """
        graph "graph" dims (n: 0..) (%0: float32[n, 512], %1: float32[n, 256], %2: float32[n, 8]) {
          %3 = tanh(%0) : float32[n, 512]
          %4 = exp(%1) : float32[n, 256]
          %5 = place_slice(%3) {shape = (dim(n), 776), starts = (0, 0)} : float32[n, 776]
          %6 = place_slice(%4) {shape = (dim(n), 776), starts = (0, 512)} : float32[n, 776]
          %7 = place_slice(%2) {shape = (dim(n), 776), starts = (0, 768)} : float32[n, 776]
          %8 = join_slices(%5, %6, %7) {axis = 1, starts = (0, 512, 768)} : float32[n, 776]
          return %8
        }
        """,
    )
    assert [decision.rule for decision in context.decisions] == ["concat_in_place"]


def test_concatenations_of_concatenations_are_one() -> None:
    check_pass(
        concat_in_place,
        """
        graph "graph" (%0: float32[64, 512], %1: float32[64, 256]) {
          %2 = tanh(%0) : float32[64, 512]
          %3 = exp(%1) : float32[64, 256]
          %4 = sin(%1) : float32[64, 256]
          %5 = concatenate(%3, %4) {axis = 1} : float32[64, 512]
          %6 = concatenate(%2, %5) {axis = 1} : float32[64, 1024]
          return %6
        }
        """,
        """
        graph "graph" (%0: float32[64, 512], %1: float32[64, 256]) {
          %2 = tanh(%0) : float32[64, 512]
          %3 = exp(%1) : float32[64, 256]
          %4 = sin(%1) : float32[64, 256]
          %5 = place_slice(%2) {shape = (64, 1024), starts = (0, 0)} : float32[64, 1024]
          %6 = place_slice(%3) {shape = (64, 1024), starts = (0, 512)} : float32[64, 1024]
          %7 = place_slice(%4) {shape = (64, 1024), starts = (0, 768)} : float32[64, 1024]
          %8 = join_slices(%5, %6, %7) {axis = 1, starts = (0, 512, 768)} : float32[64, 1024]
          return %8
        }
        """,
    )


def test_along_another_axis_slices_of_slices_are_joined() -> None:
    check_pass(
        concat_in_place,
        """
        graph "graph" (%0: float32[64, 512], %1: float32[64, 256]) {
          %2 = tanh(%0) : float32[64, 512]
          %3 = exp(%1) : float32[64, 256]
          %4 = concatenate(%3, %1) {axis = 1} : float32[64, 512]
          %5 = concatenate(%2, %4) {axis = 0} : float32[128, 512]
          return %5
        }
        """,
        """
        graph "graph" (%0: float32[64, 512], %1: float32[64, 256]) {
          %2 = tanh(%0) : float32[64, 512]
          %3 = exp(%1) : float32[64, 256]
          %4 = place_slice(%2) {shape = (128, 512), starts = (0, 0)} : float32[128, 512]
          %5 = place_slice(%3) {shape = (128, 512), starts = (64, 0)} : float32[128, 512]
          %6 = place_slice(%1) {shape = (128, 512), starts = (64, 256)} : float32[128, 512]
          %7 = join_slices(%5, %6) {axis = 1, starts = (0, 256)} : float32[128, 512]
          %8 = join_slices(%4, %7) {axis = 0, starts = (0, 64)} : float32[128, 512]
          return %8
        }
        """,
    )


def test_what_is_stacked_lies_side_by_side() -> None:
    check_pass(
        concat_in_place,
        """
        graph "graph" dims (n: 0..) (%0: float32[n, 512], %1: float32[n, 1, 512]) {
          %2 = tanh(%0) : float32[n, 512]
          %3 = reshape(%2) {shape = (dim(n), 1, 512)} : float32[n, 1, 512]
          %4 = concatenate(%3, %1, %3) {axis = 1} : float32[n, 3, 512]
          return %4
        }
        """,
        """
        graph "graph" dims (n: 0..) (%0: float32[n, 512], %1: float32[n, 1, 512]) {
          %2 = tanh(%0) : float32[n, 512]
          %3 = place_slice(%2) {shape = (dim(n), 1536), starts = (0, 0)} : float32[n, 1536]
          %4 = reshape(%1) {shape = (dim(n), 512)} : float32[n, 512]
          %5 = place_slice(%4) {shape = (dim(n), 1536), starts = (0, 512)} : float32[n, 1536]
          %6 = place_slice(%2) {shape = (dim(n), 1536), starts = (0, 1024)} : float32[n, 1536]
          %7 = join_slices(%3, %5, %6) {axis = 1, starts = (0, 512, 1024)} : float32[n, 1536]
          %8 = reshape(%7) {shape = (dim(n), 3, 512)} : float32[n, 3, 512]
          return %8
        }
        """,
    )


@pytest.mark.parametrize(
    ("reason", "build"),
    [
        ("0 bytes less to copy", lambda x, y: gx.concatenate([x, y])),
        ("bytes less to copy", lambda x, y: gx.concatenate([gx.tanh(x[:2]), gx.exp(y[:2])])),
        ("its readers compute", lambda x, y: gx.concatenate([gx.tanh(x), gx.exp(y)]) + 1.0),
        ("its readers compute", lambda x, y: gx.concatenate([gx.tanh(x), gx.exp(y)]).T),
    ],
)
def test_what_stays_a_concatenation(reason: str, build: Callable[[Any, Any], Any]) -> None:
    with gx.Graph() as graph:
        fetched = build(p(200, 200), p(200, 200))
    exe = gx.Session(graph).compile(fetched)
    assert joined(exe.compiled.plan) == []
    (record,) = (record for record in exe.passes if record.name.startswith("concat_in_place"))
    assert any(reason in decision.reason for decision in record.decisions)


def test_it_can_be_switched_off() -> None:
    with gx.Graph() as graph:
        x = p(512, 512)
        fetched = gx.concatenate([gx.tanh(x), gx.exp(x)])
    for off in (set(), {"concat_in_place"}):
        session = gx.Session(graph, options=Options(off=off))
        names = [kernel.name for kernel in session.compile(fetched).kernels]
        assert any("concatenate" in name for name in names) is bool(off)


# --- running -------------------------------------------------------------------------------------


def several(x: Any, y: Any) -> list[Any]:
    """Pieces of all kinds of kernels, of 6 rows each."""
    product = x @ y
    return [
        gx.tanh(x), x, product, gx.nn.softmax(x), gx.cumsum(x, axis=0), x.sum(1, keepdims=True),
        gx.zeros((6, 2), x.dtype), x[::-1, 1:3], gx.take(x, [1, 0], axis=1), x.T[:6, :3],
        gx.reshape(gx.exp(x), (6, 6)), x.T @ x[:, :4], gx.cond(x[0, 0] > 0, lambda: x, lambda: -x),
    ]  # fmt: skip


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "columns": lambda x, y: gx.concatenate(several(x, y), axis=1),
    "rows": lambda x, y: gx.concatenate([part.T for part in several(x, y)], axis=0),
    "rows of products": lambda x, y: gx.concatenate([x @ y, y @ x, x @ x], axis=0),
    "stacked products": lambda x, y: gx.stack([x @ y, gx.tanh(x @ x), y], axis=1),
    "batches": lambda x, y: gx.concatenate(
        [gx.stack([x, y]) @ gx.stack([y, y]), gx.exp(gx.stack([x, y]))], axis=2
    ),
    "batches of products": lambda x, y: gx.concatenate(
        [gx.stack([x, y]) @ gx.stack([y, y]), gx.stack([y]) @ x], axis=0
    ),
    "twice": lambda x, y: gx.concatenate([gx.exp(x), gx.exp(x), y, gx.exp(x)], axis=1),
    "products twice": lambda x, y: gx.concatenate([x @ y] * 2, axis=1),
    "of each other": lambda x, y: gx.concatenate(
        [gx.concatenate([gx.exp(x), y], 1), gx.concatenate([y, gx.tanh(x)], 1)], axis=0
    ),
    "one split": lambda x, y: gx.concatenate(gx.split(gx.exp(x), 3, axis=1)[::-1], axis=1),
    "read on": lambda x, y: gx.concatenate([gx.exp(x), x @ y], axis=1) @ gx.concatenate([x, -y]),
    "several readers": lambda x, y: [
        (whole := gx.concatenate([gx.exp(x), x @ y], axis=0)), whole.sum(0), whole + 1.0, x @ y
    ],
    "empty": lambda x, y: gx.concatenate([gx.exp(x[:0]), x[:0] @ y, gx.sin(y), gx.cos(x)]),
    "scattered": lambda x, y: gx.concatenate(
        [gx.gradients(gx.take(x * x, [0, 0, 3]).sum(), [x])[0], x], axis=1
    ),
}  # fmt: skip


@slow_unless(
    lambda case, symbolic, dtype: (
        case == "columns"
        or (dtype == "float32" and symbolic == bool([*CASES].index(case) % 2))
    )
)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_bits_stay(case: str, symbolic: bool, dtype: str) -> None:
    shape = ("n", "n") if symbolic and case not in {"columns", "rows"} else (6, 6)
    with gx.Graph() as graph:
        x, y = p(*shape, dtype=dtype), p(*shape, dtype=dtype)
        fetched = CASES[case](x, y)
    random = np.random.default_rng(3)
    feeds = {v: random.standard_normal((6, 6)).astype(dtype) for v in (x, y)}
    options = Options(numerics="strict", verify=True)
    checked = replace(options, check=True)
    plain = gx.Session(graph, options=replace(options, off={"concat_in_place"})).run(fetched, feeds)
    session = gx.Session(graph, options=checked)
    exe = session.compile(fetched, [x, y])
    assert joined(exe.compiled.plan) or "join_slices" in str(exe.graph)
    for one, other in zip(as_list(plain), as_list(session.run(fetched, feeds)), strict=True):
        assert same_bits(one, other).all()


def as_list(results: Any) -> Sequence[Any]:
    return results if isinstance(results, list) else [results]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sizes_known_at_run_time(axis: int) -> None:
    shapes = [("b", "m", "k"), ("b", "k", "k"), ("b", "m", "k")]
    with gx.Graph() as graph:
        a, w, c = (p(*shape) for shape in shapes)
        pieces = [a @ w, gx.exp(c), gx.nn.softmax(a), gx.cumsum(a, axis=1), c]
        fetched = [gx.concatenate(pieces, axis), gx.concatenate(pieces[:3], axis).sum()]
    exe = gx.Session(graph, options=Options(verify=True)).compile(fetched, [a, w, c])
    # five parts and three; a part of each is written by two launches
    assert len(joined(exe.compiled.plan)) == 10
    plain = gx.Session(graph, options=Options(off={"concat_in_place"})).compile(fetched, [a, w, c])
    random = np.random.default_rng(4)
    for b, m, k in [(2, 3, 5), (1, 1, 1), (3, 17, 40), (0, 2, 2), (2, 0, 3), (2, 3, 0)]:
        arrays = [
            random.standard_normal(s).astype("float32") for s in [(b, m, k), (b, k, k), (b, m, k)]
        ]
        for one, other in zip(plain(*arrays), exe(*arrays), strict=True):
            assert same_bits(one, other).all()


@pytest.mark.usefixtures("always")
def test_a_piece_may_be_empty_at_run_time() -> None:
    with gx.Graph() as graph:
        x, y, w = p("n", 4), p("m", 4), p(4, 4)
        fetched = gx.concatenate([x @ w, gx.nn.softmax(y), gx.tanh(x), gx.cumsum(y, axis=0), y @ w])
    exe = gx.Session(graph).compile(fetched, [x, y, w])
    plain = gx.Session(graph, options=Options(off={"concat_in_place"})).compile(fetched, [x, y, w])
    random = np.random.default_rng(5)
    for n, m in [(0, 3), (3, 0), (0, 0), (2, 3)]:
        arrays = [random.standard_normal((size, 4)).astype("float32") for size in (n, m, 4)]
        assert same_bits(plain(*arrays), exe(*arrays)).all()


@pytest.mark.usefixtures("always")
def test_inside_of_branches_and_loops() -> None:
    with gx.Graph() as graph:
        x = p(4, 4)

        def then() -> Any:
            return gx.concatenate([gx.exp(x), x @ x])

        def otherwise() -> Any:
            return gx.concatenate([gx.cond(x[0, 1] > 0, lambda: x + 1, lambda: x @ x), gx.tanh(x)])

        def turn(i: Any, state: Any) -> Any:
            return i + 1, gx.concatenate([gx.tanh(state[2:]), state[:2] @ x])

        branch = gx.cond(x[0, 0] > 0, then, otherwise)
        i, loop = gx.while_loop(lambda i, state: i < 5, turn, (gx.constant(0), x))
        last = gx.concatenate([branch, gx.exp(loop)])
        _, after = gx.while_loop(lambda i, state: i < 2, lambda i, s: (i + 1, -s), (i, last))
        fetched = [branch, loop, last, after]
    # the plan shows what is joined; kernels of loops hold their own slots
    options = Options(verify=True, off={"loop_kernels"})
    exe = gx.Session(graph, options=options).compile(fetched, [x])
    plain = gx.Session(graph, options=Options(off={"concat_in_place"})).compile(fetched, [x])
    within = gx.Session(graph, options=Options(verify=True)).compile(fetched, [x])
    assert len(joined(exe.compiled.plan)) >= 8
    random = np.random.default_rng(6)
    for _ in range(8):
        array = random.standard_normal((4, 4)).astype("float32")
        for program in (exe, within):
            for one, other in zip(plain(array), program(array), strict=True):
                assert same_bits(one, other).all()


# --- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("put", [
    lambda pieces: gx.concatenate(pieces, axis=0), lambda pieces: gx.concatenate(pieces, axis=1),
    lambda pieces: gx.stack(pieces, axis=0), lambda pieces: gx.stack(pieces, axis=1),
])  # fmt: skip
def test_pieces_need_no_memory_of_their_own(put: Callable[[list[Any]], Any]) -> None:
    with gx.Graph() as graph:
        xs = [p(256, 256, name=f"x{number}") for number in range(4)]
        fetched = put([x @ x for x in xs])
    exe = gx.Session(graph).compile(fetched, xs)
    off = gx.Session(graph, options=Options(off={"concat_in_place"})).compile(fetched, xs)
    assert joined(exe.compiled.plan) == [exe.compiled.plan.outputs[0]] * 4
    assert not any(slot.kind == "temporary" for slot in exe.compiled.plan.slots)
    pieces = [slot for slot in off.compiled.plan.slots if slot.kind == "temporary"]
    assert sum(slot.type.bytes for slot in pieces) == 4 * 256 * 256 * 4
    assert off.memory.peak_bytes - exe.memory.peak_bytes >= 4 * 256 * 256 * 4


def test_a_whole_lives_from_its_first_slice_on() -> None:
    with gx.Graph() as graph:
        x = p(256, 256)
        whole = gx.concatenate([gx.exp(x), gx.tanh(x), x @ x])
        fetched = whole @ x
    plan = gx.Session(graph).compile(fetched, [x]).compiled.plan
    (slot,) = set(joined(plan))
    touched = [
        position
        for position, step in enumerate(plan.steps)
        if any(slot == other for other, _ in plan.accesses(step))
    ]
    assert plan.slots[slot].kind == "temporary"
    assert len(touched) == 3, "two launches write it (one reads x for two slices), one reads it"


# --- what is wrong is told -----------------------------------------------------------------------


def half_of(plan: Plan, position: int) -> Plan:
    steps = tuple(step for n, step in enumerate(plan.steps) if n != position)
    return replace(plan, steps=steps, layout=None, groups=())


def test_a_slice_that_nobody_writes_is_found() -> None:
    with gx.Graph() as graph:
        x, y = p(200, 200), p(200, 200)
        whole = gx.concatenate([gx.exp(x), gx.tanh(y)])
        fetched = [whole, whole @ x]
    plan = gx.Session(graph).compile(fetched, [x, y]).compiled.plan
    verify_plan(plan)
    writers = [
        n for n, step in enumerate(plan.steps)
        if isinstance(step, Launch) and stored_parts(plan.kernels[step.kernel])
    ]
    assert len(writers) == 2
    for position in writers:
        with pytest.raises(VerifyError, match="before it is written"):
            verify_plan(half_of(plan, position))
    without_reader = [
        n for n, step in enumerate(plan.steps) if isinstance(step, Launch) and n not in writers
    ]
    broken = half_of(half_of(plan, without_reader[0]), writers[0])
    with pytest.raises(VerifyError, match="is not written on every path"):
        verify_plan(broken)


PLACED = """
graph "graph" (%0: float32[2, 3], %1: float32[2, 3]) {{
  %2 = fused(%0) : float32[4, 3] {{
    region "body" (%0: float32[2, 3]) {{
      %1 = place_slice(%0) {{shape = (4, 3), starts = ({first}, 0)}} : float32[4, 3]
      return %1
    }}
  }}
  %3 = fused(%1) : float32[4, 3] {{
    region "body" (%0: float32[2, 3]) {{
      %1 = place_slice(%0) {{shape = (4, 3), starts = (2, 0)}} : float32[4, 3]
      return %1
    }}
  }}
  %4 = join_slices({parts}) {{axis = 0, starts = (0, 2)}} : float32[4, 3]
  return {returned}
}}
"""


def placed(first: int = 0, parts: str = "%2, %3", returned: str = "%4") -> Graph:
    graph = parse_graph(PLACED.format(first=first, parts=parts, returned=returned))
    verify(graph)
    return graph


def test_wholes_are_joined_as_they_are_placed() -> None:
    graph = placed()
    assert [value.type for value in wholes(graph)] == [graph.outputs[0].type] * 2
    a, b = np.ones((2, 3), "float32"), np.zeros((2, 3), "float32")
    np.testing.assert_array_equal(evaluate(graph, [a, b])[0], np.concatenate([a, b]))


@pytest.mark.parametrize(
    ("problem", "graph"),
    [
        ("no kernel puts", {"first": 1}),
        ("no kernel puts", {"parts": "%3, %2"}),
        ("joined twice", {"parts": "%2, %2"}),
        ("is an output", {"returned": "%4, %2"}),
    ],
)
def test_misplaced_slices_are_told(problem: str, graph: dict[str, Any]) -> None:
    with pytest.raises(VerifyError, match=problem):
        wholes(placed(**graph))


@pytest.mark.parametrize("start", [-1, 3])
def test_a_piece_must_fit(start: int) -> None:
    with pytest.raises(ParseError, match="does not fit"):
        placed(first=start)


def test_what_is_not_written_stands_out() -> None:
    graph = placed()
    found = evaluate(Graph("graph", graph.inputs, graph.nodes, graph.nodes[0].outputs), [
        np.ones((2, 3), "float32"), np.ones((2, 3), "float32")
    ])  # fmt: skip
    assert np.isnan(found[0][2:]).all()


def test_explain_says_where_a_piece_goes() -> None:
    with gx.Graph() as graph:
        x = p(512, 512)
        piece = gx.tanh(x)
        whole = gx.concatenate([piece, x @ x])
    exe = gx.Session(graph).compile(whole, [x])
    assert "concat_in_place" in str(exe.explain(whole))
    assert "join_slices" in str(exe.explain(whole))
    assert "tanh" in str(exe.explain(piece))


def test_a_number_that_is_not_finite_is_followed_through_slices() -> None:
    with gx.Graph() as graph:
        x, y = p(300, 200), p(300, 100)
        root = gx.sqrt(y)
        fetched = gx.concatenate([gx.exp(x), root, gx.tanh(x)], axis=1)
    session = gx.Session(graph, options=Options(check_numerics=True))
    assert len(joined(session.compile(fetched, [x, y]).compiled.plan)) == 3
    data = np.ones((300, 100), "float32")
    data[7, 3] = -1
    with pytest.raises(gx.NumericsError, match=r"sqrt\(-1.0\) gave nan at \[7, 3\]"):
        session.run(fetched, {x: np.ones((300, 200), "float32"), y: data})


def test_plans_with_slices_are_text_and_packages(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        x, y = p("n", 256, name="x"), p("n", 300, name="y")
        fetched = gx.concatenate([gx.exp(x), y @ gx.constant(np.ones((300, 40), "float32")), x], 1)
    exe = gx.Session(graph).compile(fetched, [x, y])
    plan = exe.compiled.plan
    assert len(joined(plan)) == 3
    text = print_plan(plan)
    assert "part %y0" in text
    assert print_plan(parse_plan(text, constants_of(plan))) == text
    aot.compile(exe, tmp_path / "package")
    loaded = aot.load(tmp_path / "package")
    random = np.random.default_rng(7)
    arrays = [random.standard_normal((5, size)).astype("float32") for size in (256, 300)]
    assert same_bits(exe(*arrays), loaded(*arrays)).all()
