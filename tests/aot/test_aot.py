"""Libraries in Python: exported programs, written, loaded and run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from at_once import at_once
from session_harness import assert_same
from tools import child_environment

import graphc as gx
from graphc import aot
from graphc.aot.artifact import opened
from graphc.base.errors import ArtifactError
from graphc.base.target import named


def network() -> tuple[Any, Any, Any]:
    """A small classifier of any batch size, and a training step."""
    random_ = np.random.default_rng(1)
    x = gx.placeholder(("batch", 16), name="x")
    labels = gx.placeholder(("batch",), "int64", name="labels")
    value = x
    for number, (before, after) in enumerate([(16, 32), (32, 24), (24, 5)]):
        w = gx.variable(random_.normal(size=(before, after)).astype("float32") * 0.3, f"w{number}")
        b = gx.variable(np.zeros(after, "float32"), f"b{number}")
        value = gx.nn.relu(value @ w + b) if number < 2 else value @ w + b
    loss = gx.mean(gx.nn.softmax_cross_entropy(value, labels))
    weights = [node.output for node in x.graph.nodes if node.op.name == "variable"]
    steps = [
        v.assign_sub(0.1 * gradient)
        for v, gradient in zip(weights, gx.gradients(loss, weights), strict=True)
    ]
    return value, loss, gx.group(*steps, name="train")


def batch(count: int) -> tuple[Any, Any]:
    random_ = np.random.default_rng(count)
    return random_.normal(size=(count, 16)).astype("float32"), random_.integers(0, 5, count)


def export(
    path: Path, build: Callable[[], Any], feeds: Any = None, **options: Any
) -> gx.Executable:
    with gx.Graph("exported"), gx.Session() as session:
        exe = session.compile(build(), feeds)
        aot.compile(exe, path, **options)
        return exe


def test_a_network_at_every_batch_size(tmp_path: Path) -> None:
    exe = export(tmp_path / "net", lambda: network()[0])
    program = aot.load(tmp_path / "net")
    for count in (1, 7, 64, 0):
        x, _ = batch(count)
        assert_same(program(x), exe(x))
        assert_same(program(x=x[::-1].astype(">f4")), exe(x[::-1]))


def test_training_goes_on_in_the_loaded_program(tmp_path: Path) -> None:
    with gx.Graph() as g, gx.Session(g) as session:
        _, loss, train = network()
        x, labels = batch(32)
        exe = session.compile({"loss": loss, "train": train}, ["x", "labels"])
        for _ in range(3):
            exe(x, labels)
        aot.compile(exe, tmp_path / "net")
        program = aot.load(tmp_path / "net")
        assert_same(program.get("w1"), session.get(g.find("w1")))
        for _ in range(3):
            ours, theirs = program(x, labels=labels), exe(x, labels)
            assert_same(ours, theirs)
        assert ours["train"] is None
        assert_same(program.get("w1"), session.get(g.find("w1")))
        program.set({"b0": np.ones(32), "w0": np.zeros((16, 32))})
        assert_same(program.get("b0"), np.ones(32, "float32"))
        fresh = aot.load(tmp_path / "net")
        assert not np.array_equal(fresh.get("w0"), program.get("w0"))


def test_control_flow_and_structures(tmp_path: Path) -> None:
    def build() -> Any:
        x = gx.placeholder(("n",), name="x")
        v = gx.variable(np.float64(1.0), name="v")
        big = gx.constant(np.arange(50.0, dtype="float32"), name="big")
        branch = gx.cond(gx.sum(x) > 0, lambda: x * 2, lambda: x - gx.sum(big))
        looped = gx.while_loop(lambda i, t: i < 5, lambda i, t: (i + 1, t + x), (0, x))
        named = gx.linalg.slogdet(gx.eye(3) * gx.sum(x))
        updated = gx.group(v.assign_add(1.0))
        return {"a": [branch, (looped[1],)], 3: updated, None: x, "e": {}, "named": named}

    exe = export(tmp_path / "p", build)
    program = aot.load(tmp_path / "p")
    for x in (np.ones(3), -np.ones(6), np.ones(0)):
        assert_same(program(x), exe(x))
    assert program(x)["named"]._fields == ("sign", "logabsdet")
    assert program.get("v") == 5.0
    assert program.get(0) == 5.0


def test_a_fresh_process_loads_no_compiler(tmp_path: Path) -> None:
    exe = export(tmp_path / "net", lambda: network()[0])
    x, _ = batch(5)
    np.save(tmp_path / "x.npy", x)
    script = (
        "import sys, numpy as np\n"
        "import graphc\n"
        "program = graphc.aot.load('net')\n"
        "np.save('y.npy', program(np.load('x.npy')))\n"
        "print(*sys.modules, sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
        env=child_environment(), timeout=600,
    )  # fmt: skip
    unwanted = (
        "passes", "networkx", "llvmlite", "graphc.codegen", "graphc.codegen.native", "graphc.lower",
        "graphc.compiling",
    )  # fmt: skip
    for name in done.stdout.split():
        assert not any(name == root or name.startswith(root + ".") for root in unwanted), name
    assert_same(np.load(tmp_path / "y.npy"), exe(x))


def test_feeds_follow_the_rules_of_sessions(tmp_path: Path) -> None:
    with gx.Graph(), gx.Session() as session:
        x = gx.placeholder(("n", 2), name="x")
        y = gx.placeholder(("n",), "int32", name="y")
        spare = gx.placeholder((3,), name="spare")
        twice = [gx.placeholder((), name="twice") for _ in range(2)]
        exe = session.compile([x * 2, y, *twice], [x, spare, y, *twice])
        aot.compile(exe, tmp_path / "p")
    program = aot.load(tmp_path / "p")
    good = ([[1, 2]], None, [5], 1, True)
    assert_same(program(*good), exe(*good))
    for bad in (
        ([[1, 2]], None, [5.5], 1, 1),
        ([[1, 2]], None, [2**40], 1, 1),
        ([1, 2], None, [5], 1, 1),
        ([[1, 2, 3]], None, [5], 1, 1),
        ([["a", "b"]], None, [5], 1, 1),
        (None, None, [5], 1, 1),
        ([[1, 2]],),
        ([[1, 2]], None, [5], 1, 1, 1),
    ):
        with pytest.raises(gx.FeedError) as expected:
            exe(*bad)
        with pytest.raises(gx.FeedError) as actual:
            program(*bad)
        assert actual.value.message == expected.value.message
    with pytest.raises(gx.ShapeError, match="dim n is 1"):
        program([[1, 2]], None, [5, 6], 1, 1)
    with pytest.raises(gx.FeedError, match="2 arguments are called 'twice'"):
        program([[1, 2]], None, [5], twice=1)
    with pytest.raises(gx.FeedError, match="given twice"):
        program([[1, 2]], None, [5], 1, 1, x=1)
    with pytest.raises(gx.FeedError, match="no argument is called 'z'"):
        program(z=1)
    with pytest.raises(gx.FeedError, match="needed but not given"):
        program(x=[[1, 2]])


def test_results_are_written_to_given_arrays(tmp_path: Path) -> None:
    def build() -> Any:
        x = gx.placeholder(("n",), name="x")
        v = gx.variable(np.zeros(2, "float32"), name="v")
        return {"y": [x * 2, (gx.sum(x),)], "step": gx.group(v.assign_add(1.0)), "v": v}

    exe = export(tmp_path / "p", build)
    program = aot.load(tmp_path / "p")
    y, total = np.empty(3, "float32"), np.empty((), "float32")
    result = program(x=[1, 2, 3], out={"y": [y, (total,)], "step": None, "v": None})
    assert result["y"][0] is y and result["y"][1][0] is total and result["step"] is None
    assert_same(result, exe([1, 2, 3]))
    assert_same(program([1, 2, 3], out=None), exe(x=[1, 2, 3]))
    for wrong in (
        [y],
        {"y": [y, (y,)], "step": None, "v": None},
        {"y": [y[::-1], None], "step": None, "v": None},
        {"y": None, "step": y, "v": None},
        {"y": [y.astype(int), None], "step": None, "v": None},
    ):
        with pytest.raises(gx.FeedError, match="out has"):
            program([1, 2, 3], out=wrong)
    with pytest.raises(gx.FeedError, match="shares memory with an argument"):
        program(y, out={"y": [y, None], "step": None, "v": None})
    with pytest.raises(gx.FeedError, match=r"shape \(3,\); the result has shape \(2,\)"):
        program([1, 2], out={"y": [y, None], "step": None, "v": None})
    assert_same(program.get("v"), np.full(2, 2, "float32"))


def test_variables_are_looked_up_and_checked(tmp_path: Path) -> None:
    def build() -> Any:
        same = [gx.variable(np.zeros(2), name="same") for _ in range(2)]
        return same[0] + same[1] + gx.variable(1.0)

    export(tmp_path / "p", build, freeze=False)
    program = aot.load(tmp_path / "p")
    with pytest.raises(gx.NameLookupError, match="2 variables"):
        program.get("same")
    with pytest.raises(gx.NameLookupError, match="no variable"):
        program.set({"other": 1})
    with pytest.raises(gx.NameLookupError, match="no variable"):
        program.get(7)
    with pytest.raises(gx.FeedError):
        program.set({0: [1, 2], 1: [1, 2, 3]})
    assert_same(program.get(0), np.zeros(2))
    program.set({0: [1, 2], 2: 0})
    assert_same(program(), np.array([1.0, 2.0]))
    program.get(0)[:] = 9
    assert_same(program(), np.array([1.0, 2.0]))


def test_an_index_out_of_range_leaves_variables_as_they_were(tmp_path: Path) -> None:
    def build() -> Any:
        v = gx.variable(np.zeros(2), name="v")
        at = gx.placeholder((1,), "int64", name="at")
        table = gx.placeholder((5,), "float64", name="table")
        return gx.take(table, at, axis=0), v.assign_add(1.0)

    export(tmp_path / "p", build, ["table", "at"])
    program = aot.load(tmp_path / "p")
    with pytest.raises(gx.IndexRangeError, match="index 9"):
        program(np.arange(5.0), [9])
    assert_same(program.get("v"), np.zeros(2))
    assert_same(program(np.arange(5.0), [-1])[0], np.array([4.0]))


def test_threads_share_a_program(tmp_path: Path) -> None:
    def build() -> Any:
        v = gx.variable(np.float64(0), name="v")
        return v.assign_add(gx.sum(gx.placeholder(("n",), "float64")))

    export(tmp_path / "p", build)
    program = aot.load(tmp_path / "p")

    def work() -> None:
        for count in range(1, 40):
            program(np.ones(count % 5 + 1))

    at_once(*[work] * 4)
    assert program.get("v") == 4 * sum(count % 5 + 1 for count in range(1, 40))


def test_libraries_are_private_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "p"
    export(path, lambda: gx.placeholder((2,), name="x") + 1)
    assert path.stat().st_mode & 0o777 == 0o700
    assert {file.name for file in path.iterdir()} == {"libp.so", "p.h", "p.json", "p.py"}
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in path.iterdir())
    before = aot.load(path)
    export(path, lambda: gx.placeholder((2,), name="x") + 2)
    assert_same(aot.load(path)(np.zeros(2)), np.full(2, 2, "float32"))
    assert_same(before(np.zeros(2)), np.full(2, 1, "float32"))
    (tmp_path / "empty").mkdir()
    export(tmp_path / "empty", lambda: gx.placeholder((2,)) + 3)
    for name in ("file", "directory"):
        other = tmp_path / name
        if name == "file":
            other.write_text("mine")
        else:
            other.mkdir()
            (other / "mine").write_text("mine")
        with pytest.raises(ArtifactError, match="is nothing that graphc wrote"):
            export(other, lambda: gx.placeholder((2,)) + 1)
    with pytest.raises(gx.FileError, match="there is no folder"):
        export(tmp_path / "no" / "where", lambda: gx.placeholder((2,)) + 1)
    assert {entry.name for entry in tmp_path.iterdir()} == {"p", "empty", "file", "directory"}


def test_a_failing_write_leaves_the_old_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(tmp_path / "p", lambda: gx.placeholder((2,)) + 1)
    rename = os.rename

    def refuse(source: str, target: str) -> None:
        if source.endswith(".part"):
            raise OSError(28, "no space")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="no space"):
        export(tmp_path / "p", lambda: gx.placeholder((2,)) + 2)
    assert_same(aot.load(tmp_path / "p")(np.zeros(2)), np.full(2, 1, "float32"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["p"]


def test_older_cpus_can_be_exported_for(tmp_path: Path) -> None:
    x, _ = batch(9)
    with gx.Graph() as g, gx.Session(g, target=named("x86-64-v2")) as session:
        exe = session.compile(network()[0])
        aot.compile(exe, tmp_path / "p", target="x86-64-v2")
    with opened(tmp_path / "p") as artifact:
        assert [program.level for program in artifact.signature.programs] == [2]
    assert_same(aot.load(tmp_path / "p")(x), exe(x))


def test_weights_are_views_of_what_is_mapped(tmp_path: Path) -> None:
    with gx.Graph(), gx.Session() as session:
        x = gx.placeholder(("n", 300), name="x")
        w = gx.variable(np.ones((300, 300), "float32"), name="w")
        v = gx.variable(np.ones((300, 300), "float32") * 2, name="v")
        exe = session.compile([gx.tanh(x @ w) @ w, v.assign_add(w)], [x])
        for embedded in (True, False):
            path = tmp_path / str(embedded)
            aot.compile(exe, path, embed_weights=embedded, freeze=True)
            program = aot.load(path)
            plan = program.program.plan
            assert plan.constants
            initial = program._holdings.read(program._variables)
            for array in (*plan.constants.values(), *initial):
                assert not array.flags.owndata and not array.flags.writeable
            maps = Path("/proc/self/maps").read_text().splitlines()
            name = "libTrue.so" if embedded else "False.safetensors"
            spans = [line.split()[0].split("-") for line in maps if line.endswith(f"/{name}")]
            for array in plan.constants.values():
                address = array.ctypes.data
                assert any(int(low, 16) <= address < int(high, 16) for low, high in spans)
            given = np.ones((2, 300), "float32")
            assert_same(program(given), exe(given))
            assert_same(program.get("v"), np.full((300, 300), 3, "float32"))
            session.set({"v": np.ones((300, 300)) * 2})


def test_variables_are_written_in_place_or_take_turns(tmp_path: Path) -> None:
    for count in (40, 400_000):
        with gx.Graph(), gx.Session() as session:
            v = gx.variable(np.zeros(count, "float32"), name="v")
            x = gx.placeholder((count,), name="x")
            exe = session.compile(gx.group(v.assign_add(x)), [x])
            aot.compile(exe, tmp_path / str(count))
        program = aot.load(tmp_path / str(count))
        ones = np.ones(count, "float32")
        seen = set()
        for _ in range(12):
            program(ones)
            (value,) = program._holdings.read(program._variables)
            seen.add(value.ctypes.data)
        assert_same(program.get("v"), ones * 12)
        assert len(seen) <= 3


def test_calls_are_native_and_careful_where_they_must_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exe = export(tmp_path / "p", lambda: gx.placeholder(("n", 2), name="x") * 2)
    program = aot.load(tmp_path / "p")
    x, out = np.ones((3, 2), "float32"), np.empty((3, 2), "float32")
    for _ in range(3):
        program(x)
    assert type(program.__call__).__name__ == "builtin_function_or_method"
    careful: list[Any] = []
    monkeypatch.setattr(program.program, "run", careful.append)
    assert_same(program(x), exe(x))
    assert program(x, out=out) is out
    assert_same(out, exe(x))
    assert not careful
    monkeypatch.undo()
    for given in ([[1, 2]], x.astype("float64"), x[::-1], np.zeros((7, 2), "float32")):
        assert_same(program(given), exe(given))


def test_libraries_beside_each_other_and_after_a_fork(tmp_path: Path) -> None:
    executables = []
    for number in range(3):
        path = tmp_path / str(number) / "same"
        path.parent.mkdir()
        executables.append(export(path, lambda n=number: gx.placeholder(("n",)) + float(n)))
    programs = [aot.load(tmp_path / str(number) / "same") for number in range(3)]
    again = aot.load(tmp_path / "0" / "same", threads=1)
    x = np.arange(5, dtype="float32")
    for program, exe in zip((*programs, again), (*executables, executables[0]), strict=True):
        assert_same(program(x), exe(x))
    child = os.fork()
    if child == 0:
        same = all(np.array_equal(p(x), e(x)) for p, e in zip(programs, executables, strict=True))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


LONG = """
import os, signal, sys, threading
import numpy as np
from graphc import aot

program = aot.load(sys.argv[1])
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    program(np.ones(1000, "float32"))
except KeyboardInterrupt:
    assert program.get("v") == 0 and "llvmlite" not in sys.modules
    print("stopped")
"""


def test_long_runs_are_interrupted(tmp_path: Path) -> None:
    def build() -> Any:
        v = gx.variable(np.float32(0), name="v")
        x = gx.placeholder((1000,), name="x")
        _, last = gx.while_loop(
            lambda i, t: i < 2**40, lambda i, t: (i + 1, gx.tanh(t)), (gx.constant(0), x)
        )
        return v.assign(gx.sum(last))

    export(tmp_path / "p", build)
    done = subprocess.run(
        [sys.executable, "-c", LONG, str(tmp_path / "p")], capture_output=True, text=True,
        env=child_environment(), timeout=600, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("stopped"), done.stderr
