"""Libraries do what a session does, to the bit: any program, any sizes, with what they remember."""

from __future__ import annotations

import ctypes
import gc
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from libraries import library_of, module_of
from random_programs import Recipe, build, recipes

import graphc as gx
from graphc.aot.native import binding
from graphc.base.target import host, named
from graphc.checking.compare import difference
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Routine
from graphc.codegen.llvm.types import I64
from graphc.kernel.analysis import task_size
from graphc.runtime.jit import load

FEW = settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)
MANY = settings(FEW, max_examples=400, derandomize=False)

TARGET = "x86-64-v3"


def agrees(recipe: Recipe) -> None:
    """A library of a random program gives what a session gives, or fails where it does."""
    program = build(recipe)
    session = gx.Session(program.graph, target=named(TARGET))
    placeholders = list(program.feeds)
    executable = session.compile(program.fetches, placeholders)
    arrays = [program.feeds[key] for key in placeholders]
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(executable, Path(folder) / "program", target=TARGET)
        try:
            expected = executable(*arrays)
        except gx.GraphcError as error:
            with pytest.raises(ValueError) as raised:
                library(*arrays)
            assert error.message in str(raised.value)
            return
        for one, other in zip(library(*arrays), expected, strict=True):
            assert difference(one, other) is None
        library.close()


@FEW
@given(recipes())
def test_random_programs(recipe: Recipe) -> None:
    agrees(recipe)


@pytest.mark.slow
@MANY
@given(recipes())
def test_fuzz_random_programs(recipe: Recipe) -> None:
    agrees(recipe)


def network() -> tuple[gx.Graph, Any, Any, Any, Any]:
    """A small classifier with its loss and a training step."""
    random = np.random.default_rng(3)
    graph = gx.Graph()
    with graph:
        x = gx.placeholder(("batch", 20), "float32", name="x")
        t = gx.placeholder(("batch",), "int64", name="t")
        w1 = gx.variable(random.standard_normal((20, 32)).astype(np.float32) / 4, name="w1")
        b1 = gx.variable(np.zeros(32, np.float32), name="b1")
        w2 = gx.variable(random.standard_normal((32, 5)).astype(np.float32) / 4, name="w2")
        logits = gx.relu(x @ w1 + b1) @ w2
        loss = gx.nn.softmax_cross_entropy(logits, t).mean()
        train = gx.optim.Adam(1e-2).minimize(loss)
    return graph, x, t, logits, (train, loss)


def batch(size: int, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random.standard_normal((size, 20)).astype(np.float32), random.integers(0, 5, size)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("embed_weights", [True, False])
def test_training_is_that_of_a_session(
    tmp_path: Path, target: str, embed_weights: bool
) -> None:
    graph, x, t, _, (train, loss) = network()
    session = gx.Session(graph, target=named(target))
    step = session.compile([train, loss], [x, t])
    library = library_of(step, tmp_path / "train", target=target, embed_weights=embed_weights)
    for number in range(60):
        arrays = batch(8 + number % 3, number)
        assert library(*arrays)[0].tobytes() == step(*arrays)[1].tobytes()
    variables = {
        node.output.name: node.output for node in graph.nodes if node.op.name == "variable"
    }
    for name, _, _ in library_module(library)["variables"]:
        assert library.get(name).tobytes() == session.get(variables[name]).tobytes()
    assert len(library_module(library)["variables"]) > 6


def library_module(library: Any) -> Any:
    """What the module of a library says of it."""
    return library.__init__.__globals__["SIGNATURE"]


def test_a_failed_run_changes_no_variable(tmp_path: Path) -> None:
    graph, x, t, _, (train, loss) = network()
    step = gx.Session(graph).compile([train, loss], [x, t])
    library = library_of(step, tmp_path / "train")
    arrays = batch(8)
    library(*arrays)
    before = library.get("w1")
    wrong = arrays[1].copy()
    wrong[3] = 7
    with pytest.raises(ValueError, match=r"index 7 is out of range for axis 1 of size 5 \(line"):
        library(arrays[0], wrong)
    assert library.get("w1").tobytes() == before.tobytes()
    library(*arrays)
    assert library.get("w1").tobytes() != before.tobytes()


def test_a_singular_matrix_has_a_status_of_its_own(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        a = gx.placeholder((None, 3, 3), "float64", name="a")
        ids = gx.placeholder((2,), "int64", name="ids")
        inverses, rows = gx.linalg.inv(a), gx.take(a, ids, axis=0)
    exe = gx.Session(graph).compile([inverses, rows], [a, ids])
    library = library_of(exe, tmp_path / "inverses")
    matrices, ids = np.stack([np.eye(3)] * 5), np.array([0, 1])
    assert np.array_equal(library(matrices, ids)[0], matrices)
    matrices[3, 2] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"inv: matrix 3 of 5 is singular \(line"):
        library(matrices, ids)
    with pytest.raises(ValueError, match="index 9 is out of range") as caught:
        library(np.stack([np.eye(3)] * 5), np.array([0, 9]))
    assert not isinstance(caught.value, np.linalg.LinAlgError)
    assert library._status(8).decode() == "a matrix is singular, or not positive definite"
    header = (tmp_path / "inverses" / "inverses.h").read_text()
    assert "GRAPHC_BAD_INDEX = 3" in header and "GRAPHC_BAD_MATRIX = 8" in header


def test_fault_12_rows_of_a_table_are_written_where_they_lie(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        table = gx.variable(np.zeros((1 << 12, 8), np.float32), name="table")
        ids = gx.placeholder((None,), "int64", name="ids")
        rows = gx.placeholder((ids.shape[0], 8), name="rows")
        step = gx.group(table.assign(gx.scatter_add(table, ids, rows)), name="step")
    run = gx.Session(graph).compile(step, [ids, rows])
    assert run.compiled.plan.commit is not None
    library = library_of(run, tmp_path / "table")
    expected = np.zeros((1 << 12, 8), np.float32)
    for n in range(3):
        places, added = np.array([n, 4, 4, -1]), np.full((4, 8), n + 0.5, np.float32)
        library(places, added)
        np.add.at(expected, places, added)
        assert np.array_equal(library.get("table"), expected)
        with pytest.raises(ValueError, match=r"index 4096 is out of range for axis 0"):
            library(np.array([0, 4096, 1, 2]), added)
        assert np.array_equal(library.get("table"), expected)


def test_fault_12_loops_of_a_library(tmp_path: Path) -> None:
    """One array is written in place, two take turns; any number of trips."""
    with gx.Graph() as graph:
        x, trips = gx.placeholder((None,), "float64", name="x"), gx.placeholder((), "int64")
        _, one, two = gx.while_loop(
            lambda t, *_: t < trips,
            lambda t, a, b: (t + 1, gx.scatter_add(a, t % 3, 1.5), b[::-1] + a[0]),
            (np.int64(0), x, x * 2.0),
        )
    run = gx.Session(graph).compile([one, two], [x, trips])
    library = library_of(run, tmp_path / "loops")
    for count in (0, 1, 2, 5):
        given = np.arange(7.0), np.int64(count)
        assert all(map(np.array_equal, library(*given), run(*given)))


def test_variables_can_be_written(tmp_path: Path) -> None:
    graph, x, _, logits, _ = network()
    session = gx.Session(graph)
    infer = session.compile(logits, [x])
    library = library_of(infer, tmp_path / "infer", freeze=False)
    arrays = batch(4)[:1]
    assert library(*arrays)[0].tobytes() == infer(*arrays).tobytes()
    new = np.full((32, 5), 0.5, np.float32)
    library.set("w2", new)
    (w2,) = [n.output for n in graph.nodes if n.output.name == "w2"]
    session.set({w2: new})
    assert library(*arrays)[0].tobytes() == infer(*arrays).tobytes()
    assert library.get("w2").tobytes() == new.tobytes()
    with pytest.raises(KeyError):
        library.get("nothing")


def test_frozen_variables_are_no_longer_there(tmp_path: Path) -> None:
    graph, x, _, logits, _ = network()
    session = gx.Session(graph)
    infer = session.compile(logits, [x])
    library = library_of(infer, tmp_path / "infer")
    assert library_module(library)["variables"] == []
    for size in (0, 1, 2, 33, 1000):
        arrays = batch(size)[:1]
        assert library(*arrays)[0].tobytes() == infer(*arrays).tobytes()


def test_two_contexts_have_variables_of_their_own(tmp_path: Path) -> None:
    graph, x, t, _, (train, loss) = network()
    step = gx.Session(graph).compile([train, loss], [x, t])
    one = library_of(step, tmp_path / "train")
    two = type(one)(1)
    arrays = batch(8)
    first = [one(*arrays)[0] for _ in range(5)]
    assert [two(*arrays)[0] for _ in range(5)] == first


def test_results_do_not_depend_on_threads(tmp_path: Path) -> None:
    graph = gx.Graph()
    with graph:
        x = gx.placeholder(("n", 300), "float32", name="x")
        w = gx.constant(np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32))
        y = gx.tanh(x @ w).sum(axis=0)
    exe = gx.Session(graph).compile([y, gx.nn.softmax(x)], [x])
    one = library_of(exe, tmp_path / "many")
    feed = np.random.default_rng(1).standard_normal((700, 300)).astype(np.float32)
    expected = [a.tobytes() for a in one(feed)]
    for threads in (2, 3, 8):
        assert [a.tobytes() for a in type(one)(threads)(feed)] == expected
    with_none = library_of(exe, tmp_path / "none", threads=4, **{"name": "none"})
    assert [a.tobytes() for a in with_none(feed)] == expected


def test_many_launches_that_threads_share(tmp_path: Path) -> None:
    graph = gx.Graph()
    with graph:
        x = y = gx.placeholder((300, 400), "float32", name="x")
        w = gx.constant(np.eye(400, dtype=np.float32))
        for _ in range(3):
            y = gx.nn.softmax(y @ w)
    exe = gx.Session(graph, threads=2).compile(y, [x])
    feed = np.random.default_rng(1).standard_normal((300, 400)).astype(np.float32)
    library = library_of(exe, tmp_path / "many", threads=2)
    assert library(feed)[0].tobytes() == exe(feed).tobytes()


def test_tasks_are_those_of_a_session() -> None:
    module = ModuleEmitter(host())
    names = ("work", "extent", "seats", "least")
    routine = Routine(module, "grain", dict.fromkeys(names, I64), I64, linkage="")
    routine.finish(binding.grain_of(routine, *routine.parameters))
    word = ctypes.c_int64
    library = load(module.text(), ("grain",))
    native = library.function("grain", *[word] * 4, result=word)
    random = np.random.default_rng(0)
    for _ in range(2000):
        work, extent = (int(10 ** random.uniform(0, high)) - 1 for high in (10, 4))
        seats, least = int(random.integers(1, 9)), int(random.choice([1, 1, 2, 64]))
        expected = task_size.grain_of(work, extent, seats, least)
        assert native(work, extent, seats, least) == expected, (work, extent, seats, least)


def test_sums_whose_groups_threads_share(tmp_path: Path) -> None:
    """What follows the groups is run once, by threads or without."""
    graph = gx.Graph()
    with graph:
        x = gx.placeholder((700_001,), "float32", name="x")
        y = gx.sum(x * 2.0)
    exe = gx.Session(graph, threads=4).compile(y, [x])
    feed = np.random.default_rng(1).standard_normal(700_001).astype(np.float32)
    one = library_of(exe, tmp_path / "sum")
    for threads in (1, 2, 3):
        assert np.float32(type(one)(threads)(feed)).tobytes() == exe(feed).tobytes()


def test_dims_have_bounds(tmp_path: Path) -> None:
    graph, x, _, logits, _ = network()
    infer = gx.Session(graph).compile(logits, [x])
    library = library_of(infer, tmp_path / "infer", dims={"batch": (1, 16)})
    library(batch(16)[0])
    for size in (0, 17):
        text = f"the size of dim batch is {size}, it must be 1 to 16"
        with pytest.raises(ValueError, match=text):
            library(batch(size)[0])
    loaded = gx.aot.load(tmp_path / "infer")
    for _ in range(3):
        assert loaded(batch(16)[0]).tobytes() == library(batch(16)[0])[0].tobytes()
        for size in (0, 17):
            with pytest.raises(gx.ShapeError, match=f"batch is {size}, it must be 1 to 16"):
                loaded(batch(size)[0])
    with pytest.raises(gx.GraphcError, match="the symbolic dims are batch"):
        gx.aot.compile(infer, tmp_path / "other", dims={"rows": (1, 2)})


@pytest.mark.parametrize("wrong", [(3, 2), (-1, 4), (0, 2**41), (1, 2.5), (1, None), ("1", 2), 5])
def test_bounds_that_cannot_be(tmp_path: Path, wrong: Any) -> None:
    graph, x, _, logits, _ = network()
    infer = gx.Session(graph).compile(logits, [x])
    with pytest.raises(gx.GraphError, match="batch can't have the bounds") as caught:
        gx.aot.compile(infer, tmp_path / "infer", dims={"batch": wrong})
    assert "from 0 to" in str(caught.value)


def test_names_of_any_letters(tmp_path: Path) -> None:
    graph = gx.Graph()
    name = "w: null 'and' \"\U0001f600\""
    with graph:
        x = gx.placeholder((3,), "float32", name="x")
        w = gx.variable(np.float32(2), name=name)
        grown = w.assign_add(1.0)
    library = library_of(gx.Session(graph).compile([x * w, grown], [x]), tmp_path / "names")
    library(np.ones(3, np.float32))
    assert library.get(name) == 3


def test_a_workspace_that_is_too_small_is_refused(tmp_path: Path) -> None:
    graph, x, _, logits, _ = network()
    infer = gx.Session(graph).compile(logits, [x])
    library = library_of(infer, tmp_path / "infer")
    feed, out = batch(50)[0], np.empty((50, 5), np.float32)
    dims, size = np.array([50]), ctypes.c_int64()
    context, places = library._context, library._places
    library._check(library._workspace(context, dims.ctypes.data, ctypes.addressof(size)))
    assert size.value > 0
    room = np.empty(size.value + 64, np.uint8)

    def run(dims: Any, feeds: Any, outs: Any, workspace: Any, count: int) -> Any:
        return library._run(
            context, None if dims is None else dims.ctypes.data, places(feeds), places(outs),
            None if workspace is None else workspace.ctypes.data, count,
        )  # fmt: skip

    for start in (0, 1, 33, 63):
        assert run(dims, [feed], [out], room[start:], size.value) == 0
    wrong = f"the workspace has {size.value - 1} bytes, {size.value} are needed at these sizes"
    assert run(dims, [feed], [out], room, size.value - 1) == 7
    assert library._error(context).decode() == wrong
    assert run(dims, [feed], [out], None, size.value) == 7
    missing = f"the workspace is NULL; at these sizes {size.value} bytes are needed"
    assert library._error(context).decode() == missing
    assert run(None, [feed], [out], room, size.value) == 1
    assert library._error(context).decode() == "dims is NULL"
    assert library._run(context, dims.ctypes.data, None, places([out]), room.ctypes.data, size) == 1
    assert library._error(context).decode() == "input 0 is NULL"
    assert library._status(7).decode() == "the workspace is too small"
    assert library._run(None, None, None, None, None, 0) == 1


def test_weights_in_a_file_must_be_the_librarys(tmp_path: Path) -> None:
    graph, x, _, logits, _ = network()
    infer = gx.Session(graph).compile(logits, [x])
    folder = tmp_path / "infer"
    library = library_of(infer, folder, embed_weights=False)
    feed = batch(5)[0]
    assert library(feed)[0].tobytes() == infer(feed).tobytes()
    (file,) = folder.glob("*.safetensors")
    content = file.read_bytes()
    program = type(library)
    for damaged in (content[:-1], content[:100], b"", content.replace(b"sha256", b"sha257")):
        other = tmp_path / "other.safetensors"
        other.write_bytes(damaged)
        with pytest.raises(RuntimeError, match="the file of weights"):
            program(1, weights=other)
    with pytest.raises(RuntimeError, match="the file of weights"):
        program(1, weights=tmp_path / "missing")


@pytest.mark.parametrize("name", ["", "9lives", "a-b", "a b", "naïve", "graphc"])
def test_names_must_be_those_of_c(tmp_path: Path, name: str) -> None:
    graph, x, _, logits, _ = network()
    infer = gx.Session(graph).compile(logits, [x])
    with pytest.raises(gx.GraphcError, match="can't be the name of a library"):
        gx.aot.compile(infer, tmp_path / "infer", name=name)


def test_fault_15_contexts_of_dead_programs_are_freed_once_and_without_python(
    tmp_path: Path,
) -> None:
    """Code of Python that runs where something dies is where Ctrl-C is lost."""
    with gx.Graph():
        x = gx.placeholder((4,), name="x")
        exe = gx.Session().compile(x * 2, [x])
    gx.aot.compile(exe, tmp_path / "library")
    module = module_of(tmp_path / "library")
    freed: list[int] = []
    keep = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(freed.append)

    class Watched(module.Program):  # type: ignore[misc, name-defined]
        def _function(self, name: str, *parameters: Any, result: Any = ctypes.c_int) -> Any:
            found = super()._function(name, *parameters, result=result)
            return keep if name == "destroy" else found

    program = Watched(1)
    context = program._context
    assert program(np.ones(4, np.float32))[0].tolist() == [2] * 4
    ran: list[str] = []
    sys.setprofile(lambda frame, event, argument: ran.append(event))
    del program
    sys.setprofile(None)
    assert freed == [context] and "call" not in ran
    closed = Watched(1)
    contexts = [context, closed._context]
    closed.close()
    closed.close()
    assert freed == contexts
    del closed
    gc.collect()
    assert freed == contexts
    for _ in range(3):
        assert module.Program(1)(np.ones(4, np.float32))[0].tolist() == [2] * 4
    assert len(module._ENDINGS) <= 2
