"""Programs from the cache: what hits, what must not, and that nobody can tell the difference."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import child_environment

import graphc as gx
import graphc.session.session
from graphc.base.errors import GraphcError, UnsupportedError
from graphc.base.source import Location
from graphc.base.target import host
from graphc.compiling.cached import keys
from graphc.ir import op as ops
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import symbol
from graphc.ir.op import OpDef, is_own, lookup, register
from graphc.kernel.printer import print_kernel
from graphc.kernel.verify import verify_kernel
from graphc.plan.printer import print_plan
from graphc.plan.serialize import StoredKernel, plan_of, plan_text
from graphc.plan.verify import verify_plan
from graphc.runtime.cache import Cache

WEIGHTS = np.random.default_rng(3).standard_normal((24, 16)).astype("float32")

Built = tuple[Any, list[gx.Value], list[np.ndarray[Any, Any]]]


def linear(weights: np.ndarray[Any, Any] = WEIGHTS, name: str = "x") -> Built:
    x = gx.placeholder(("n", weights.shape[0]), name=name)
    y = gx.tanh(x @ gx.constant(weights) + 0.5)
    return {"y": y, "most": gx.max(y)}, [x], [np.ones((3, weights.shape[0]), "float32")]


def counting() -> Built:
    x = gx.placeholder((4,), name="x")
    count, total = gx.while_loop(
        lambda i, t: i < 10, lambda i, t: (i + 1, t * x + 1.0), (gx.constant(0), x)
    )
    return (
        [count, gx.cond(gx.sum(total) > 3.0, lambda: total, lambda: -total)],
        [x],
        [np.linspace(0, 1, 4, dtype="float32")],
    )


def picking() -> Built:
    x, i = gx.placeholder(("n",), name="x"), gx.placeholder(("m",), "int64", name="i")
    return x[i] * 2.0, [x, i], [np.arange(5, dtype="float32"), np.array([4, 0])]


def training() -> Built:
    x = gx.placeholder((8, 4), name="x")
    w = gx.variable(np.full((4, 2), 0.25, "float32"), name="w")
    loss = gx.mean((x @ w - 1.0) ** 2)
    return [loss, gx.optim.Adam(0.1).minimize(loss)], [x], [np.ones((8, 4), "float32")]


def broadcasting() -> Built:
    a, b = gx.placeholder(("n",), name="a"), gx.placeholder(("m",), name="b")
    return a + b, [a, b], [np.arange(3, dtype="float32"), np.ones(3, "float32")]


def constants_only() -> Built:
    return gx.exp(gx.constant(np.arange(6, dtype="float64"))) + 1, [], []


BUILDERS = (linear, counting, picking, training, broadcasting, constants_only)
everyone = pytest.mark.parametrize("build", BUILDERS, ids=[build.__name__ for build in BUILDERS])


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


def compiled(build: Callable[[], Built], place: str, **options: Any) -> Any:
    """A session, its executable and what a run gives, flat."""
    with gx.Graph() as graph:
        fetches, feeds, arrays = build()
    session = gx.Session(graph, options=gx.Options(**{"cache": place, **options}))
    program = session.compile(fetches, feeds)
    results = [program(*arrays) for _ in range(2)]
    return session, program, [np.asarray(leaf) for leaf in _flat(results) if leaf is not None]


def _flat(nested: Any) -> list[Any]:
    if isinstance(nested, dict):
        nested = list(nested.values())
    if not isinstance(nested, (list, tuple)):
        return [nested]
    return [leaf for item in nested for leaf in _flat(item)]


def reason(build: Callable[[], Built], place: str, **options: Any) -> str:
    session, _, _ = compiled(build, place, **options)
    (made,) = session.compilations
    told: str = made.cache
    return told


# --- hits ----------------------------------------------------------------------------------------


@everyone
def test_a_hit_runs_no_pass_and_gives_the_same(
    build: Callable[[], Built], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, expected = compiled(build, place)
    assert first.compilations[0].cache == "no entry"
    with monkeypatch.context() as patch:
        patch.setattr("graphc.compiling.compiler.compile_graph", None)
        patch.setattr("graphc.runtime.jit._emitted", None)
        session, _, results = compiled(build, place)
    assert session.compilations[0].cache == "hit"
    assert len(results) == len(expected)
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, other, strict=True)


@everyone
def test_what_is_shown_of_a_hit_is_what_compiling_shows(
    build: Callable[[], Built], place: str
) -> None:
    _, fresh, _ = compiled(build, place)
    _, hit, _ = compiled(build, place)
    assert hit.compiled.from_cache and not fresh.compiled.from_cache
    assert "levels" not in vars(hit.compiled)
    for kernel in hit.compiled.plan.kernels:
        assert isinstance(kernel, StoredKernel)
    assert hit.kernel_ir() == fresh.kernel_ir()
    verify_plan(hit.compiled.plan)
    assert hit.memory == fresh.memory
    assert "levels" not in vars(hit.compiled)
    assert str(hit.graph) == str(fresh.graph) and hit.llvm_ir() == fresh.llvm_ir()
    assert print_plan(hit.compiled.levels.plan) == print_plan(hit.compiled.plan)
    assert print_plan(hit.compiled.plan) == print_plan(fresh.compiled.plan)
    names = [record.name for record in fresh.passes if record.name != "llvm"]
    assert [record.name for record in hit.passes] == names
    assert "came from the cache" in hit.pass_table()
    assert "came from the cache" not in fresh.pass_table()
    assert [*hit.compiled.slots.values()] == [*fresh.compiled.slots.values()]


def test_a_hit_explains_profiles_reports_and_is_exported(place: str, tmp_path: Path) -> None:
    compiled(linear, place)
    _, hit, (y, _, _, _) = compiled(linear, place)
    assert "tanh" in str(hit.explain(hit.compiled.source.outputs[0]))
    hit.profile(np.ones((3, 24), "float32"), runs=1)
    hit.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    gx.aot.compile(hit, tmp_path / "model")
    loaded = gx.aot.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded(np.ones((3, 24), "float32"))["y"], y)


def test_kernels_of_a_hit_can_be_interpreted(place: str) -> None:
    """They are read in full when somebody asks for them, as the verifier wants them."""
    compiled(linear, place)
    session, exe, _ = compiled(linear, place)
    assert session.compilations[0].cache == "hit"
    for kernel in exe.kernels:
        verify_kernel(kernel)
    assert exe.kernels


def test_another_process_takes_what_this_one_left(place: str) -> None:
    code = (
        "import numpy as np, graphc as gx\n"
        "with gx.Graph() as graph:\n"
        "    x = gx.placeholder((4, 4), name='x')\n"
        "    y = gx.tanh(x @ x) + 1.0\n"
        "session = gx.Session(graph)\n"
        "print(session.run(y, {x: np.full((4, 4), 0.25, 'f4')}).tobytes().hex())\n"
        "print(session.compilations[0].cache)\n"
        "import sys; compiler = ('passes', 'graphc.codegen.kernels', 'graphc.lower', 'networkx')\n"
        "print([name for name in sys.modules if name.startswith(compiler)])\n"
    )
    environment = child_environment(GRAPHC=f"cache={place}")
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            check=True,
            text=True,
            capture_output=True,
        ).stdout.split("\n")
        for _ in range(2)
    ]
    assert told[0][0] == told[1][0]
    assert [lines[1] for lines in told] == ["no entry", "hit"]
    assert told[1][2] == "[]"


def test_weights_that_the_graph_holds_are_not_stored_again(place: str) -> None:
    def large() -> Built:
        x = gx.placeholder((1024, 64), name="x")
        return (
            x + gx.constant(np.random.default_rng(0).standard_normal((1024, 64))),
            [x],
            [np.ones((1024, 64), "float32")],
        )

    compiled(large, place)
    assert Cache(place).usage().bytes < 100_000
    assert compiled(large, place)[0].compilations[0].cache == "hit"


# --- misses --------------------------------------------------------------------------------------


def test_what_a_program_depends_on_makes_a_miss(place: str) -> None:
    def other_bound() -> Built:
        x = gx.placeholder((symbol("n", 1), 24), name="x")
        y = gx.tanh(x @ gx.constant(WEIGHTS) + 0.5)
        return {"y": y, "most": gx.max(y)}, [x], [np.ones((3, 24), "float32")]

    changed = WEIGHTS.copy()
    changed[3, 4] += 1e-6
    assert reason(linear, place) == "no entry"
    assert reason(lambda: linear(changed), place) == "no entry"
    assert reason(lambda: linear(name="z"), place) == "no entry"
    assert reason(linear, place, numerics="strict") == "no entry"
    assert reason(linear, place, fast_math={"nsz"}) == "no entry"
    assert reason(linear, place, off={"cse"}) == "no entry"
    assert reason(linear, place, check_numerics=True) == "hit"
    assert reason(linear, place) == "hit"
    assert reason(other_bound, place) == "no entry"


def test_another_target_is_a_miss_that_says_so(place: str) -> None:
    def told(**arguments: Any) -> str:
        with gx.Graph() as graph:
            x = gx.placeholder((3,), name="x")
            y = gx.exp(x)
        session = gx.Session(graph, options=gx.Options(cache=place), **arguments)
        session.run(y, {x: np.ones(3, "float32")})
        return session.compilations[0].cache

    assert told() == "no entry"
    assert told(target=host().without_fma()) == "no entry, but one for other features or versions"
    assert told() == told(target=host().without_fma()) == "hit"


def test_an_edit_of_graphc_is_a_miss(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(linear, place) == "no entry"
    monkeypatch.setattr(keys, "sources", lambda: "edited")
    keys.program_realm.cache_clear()
    try:
        assert reason(linear, place) == "no entry, but one for other features or versions"
    finally:
        keys.program_realm.cache_clear()


def test_the_hash_of_the_sources_sees_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deeper").mkdir()
    for name in ("__init__.py", "deeper/module.py"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(keys, "PACKAGE_ROOTS", (f"{tmp_path}/",))
    sources = keys.sources.__wrapped__
    assert sources() == "", "they are newer than this process"
    monkeypatch.setattr(keys, "LOADED_NANOSECONDS", time.time_ns() + 10**9)
    before = sources()
    assert before == sources() != ""
    (tmp_path / "deeper" / "module.py").write_text("x = 1\n")
    assert sources() not in ("", before)
    monkeypatch.setattr(keys, "PACKAGE_ROOTS", (f"{tmp_path}/no/",))
    assert sources() == ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"cache": "off"}, "off"),
        ({"verify": True}, "off: under verify the passes are to be seen at work"),
        ({"check": True}, "off: under check"),
        ({"fuel": 3}, "off: under fuel"),
        ({"shuffle_seed": 0}, "off: under shuffle_seed"),
    ],
)
def test_passes_that_are_to_be_seen_run(place: str, options: dict[str, Any], told: str) -> None:
    for _ in range(2):
        assert reason(linear, place, **options).startswith(told)


def test_operations_of_others_are_not_trusted_to_stay_the_same(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "_REGISTRY", dict(ops._REGISTRY))
    assert is_own(lookup("exp")) and is_own(lookup("fused"))
    tanh = lookup("tanh")
    mine = register(
        OpDef("my_own_tanh", tanh.doc, tanh.infer, tanh.reference, tanh.derivative, tanh.lowering)
    )
    assert not is_own(mine)

    def build() -> Built:
        x = gx.placeholder((3,), name="x")
        return apply(mine, x), [x], [np.ones(3, "float32")]

    for _ in range(2):
        assert reason(build, place) == (
            "off: my_own_tanh may have changed, which is declared outside of graphc"
        )


def test_damage_is_a_miss_and_is_mended(place: str) -> None:
    _, _, expected = compiled(linear, place)
    for path in Path(place).glob("*/*"):
        path.write_bytes(path.read_bytes()[:-1])
    session, _, results = compiled(linear, place)
    assert session.compilations[0].cache.startswith("corrupt")
    np.testing.assert_array_equal(results[0], expected[0])
    assert reason(linear, place) == "hit"


def test_a_program_whose_code_is_gone_is_compiled(place: str) -> None:
    compiled(linear, place)
    for about in Path(place).glob("*/about"):
        if about.read_text().startswith("objects"):
            for path in about.parent.glob("[0-9a-f]*"):
                path.unlink()
    assert reason(linear, place) == "no entry of its machine code"
    assert reason(linear, place) == "hit"


def test_a_cache_that_cannot_be_is_told_and_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _, _, expected = compiled(linear, "off")
    for _ in range(2):
        session, _, results = compiled(linear, str(tmp_path / "file"))
        assert "not kept" in session.compilations[0].cache
        np.testing.assert_array_equal(results[0], expected[0])


# --- lines ---------------------------------------------------------------------------------------

SOURCE = """
import graphc as gx
with gx.Graph() as graph:
    x = gx.placeholder(("n",), name="x")
    i = gx.placeholder((2,), "int64", name="i")
    b = gx.placeholder(("m",), name="b")
    y = x[i] + 1.0
    z = x + b
    u = x[i + 1]; v = x[i * 2]
"""


def built(tmp_path: Path, before: str, source: str = SOURCE) -> dict[str, Any]:
    path = tmp_path / "user.py"
    path.write_text(before + source)
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


@pytest.mark.parametrize(("fetch", "line"), [("y", 7), ("z", 8), ("u", 9), ("v", 9)])
def test_errors_of_a_hit_name_the_lines_of_today(
    tmp_path: Path, place: str, fetch: str, line: int
) -> None:
    told = []
    for before in ("", "# a remark\n\n", ""):
        names = built(tmp_path, before)
        session = gx.Session(names["graph"], options=gx.Options(cache=place))
        feeds = {
            names["x"]: np.ones(3, "float32"),
            names["i"]: np.array([2, 7]),
            names["b"]: np.ones(2, "float32"),
        }
        with pytest.raises(GraphcError) as caught:
            session.run(names[fetch], feeds)
        where = caught.value.where
        assert where is not None and where.line == line + before.count("\n")
        told.append((session.compilations[0].cache, where.column, caught.value.message))
    assert [item[0] for item in told] == ["no entry", "hit", "hit"]
    assert told[0][1:] == told[1][1:] == told[2][1:]


def test_nodes_that_share_a_line_no_more_make_another_program(tmp_path: Path, place: str) -> None:
    """The plan says which nodes are of one line; only graphs that agree in it may share one."""
    looped = SOURCE + "    w = x\n    for j in (i, i + 1): w = w[j]\n"
    apart = SOURCE + "    w = x\n    w = w[i]\n    w = w[i + 1]\n"
    reasons, lines = [], []
    for source in (looped, apart, looped, apart):
        names = built(tmp_path, "", source)
        session = gx.Session(names["graph"], options=gx.Options(cache=place))
        with pytest.raises(GraphcError) as caught:
            session.run(
                names["w"], {names["x"]: np.ones(8, "float32"), names["i"]: np.array([1, 5])}
            )
        reasons.append(session.compilations[0].cache)
        assert caught.value.where is not None
        lines.append(caught.value.where.line)
    assert reasons == ["no entry", "no entry", "hit", "hit"]
    assert lines == [11, 12, 11, 12]


# --- plans as text -------------------------------------------------------------------------------


@everyone
def test_plans_come_back_as_they_were(build: Callable[[], Built]) -> None:
    _, program, _ = compiled(build, "off")
    plan = program.compiled.plan
    lines: list[Location] = []

    def number_of(where: Location) -> int:
        lines.append(where)
        return len(lines) - 1

    text = plan_text(plan, number_of)
    back = plan_of(text, plan.constants, lines)
    assert print_plan(back) == print_plan(plan)
    assert (back.slots, back.steps, back.guards) == (plan.slots, plan.steps, plan.guards)
    assert (back.layout, back.loops) == (plan.layout, plan.loops)
    for kernel, original in zip(back.kernels, plan.kernels, strict=True):
        assert kernel.dims == original.dims and kernel.sites == original.sites
        assert print_kernel(kernel) == print_kernel(original)


@pytest.mark.parametrize("name", ["x{}", "x"])
def test_what_is_alike_in_a_plan_is_written_in_letters(name: str) -> None:
    with gx.Graph() as graph:
        feeds = [gx.placeholder((4,), name=name.format(n)) for n in range(9)]
        sums = [gx.sum(x * n) for n, x in enumerate(feeds, 1)]
    plan = gx.Session(graph, options=gx.Options(cache="off")).compile(sums, feeds).compiled.plan
    text = plan_text(replace(plan, steps=()), lambda where: 0)
    assert any(8 * letter in text for letter in "aj")
    slots = plan_of(text, plan.constants, []).slots
    assert slots == plan.slots
    assert (slots[0] is slots[8]) == (name == "x")


def test_a_plan_that_holds_something_unknown_is_refused_when_it_is_written() -> None:
    _, program, _ = compiled(linear, "off")
    plan = program.compiled.plan
    object.__setattr__(plan, "loops", frozenset())
    with pytest.raises(UnsupportedError, match="frozenset"):
        plan_text(plan, lambda where: 0)
