"""The command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import child_environment

import graphc as gx
from graphc import aot
from graphc.aot.artifact import opened
from graphc.aot.families import family_of
from graphc.cli import main
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import print_graph
from graphc.kernel.parser import parse_kernel
from graphc.plan.printer import parse_plan, print_plan


def build() -> tuple[Any, Any]:
    x = gx.placeholder(("n", 3), name="x")
    w = gx.variable(np.arange(6, dtype="float32").reshape(3, 2), name="w")
    return gx.nn.softmax(x @ w), w.assign_add(1.0)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    with gx.Graph("shown"), gx.Session() as session:
        result, update = build()
        gx.save(tmp_path / "a.gir", {"y": result, "train": gx.group(update)}, session=session)
    return str(tmp_path / "a.gir")


@pytest.fixture
def library(tmp_path: Path) -> str:
    with gx.Graph("packed"), gx.Session() as session:
        result, update = build()
        spare = gx.placeholder((2,), name="a=b")
        exe = session.compile((result, gx.group(update)), ["x", spare])
        aot.compile(exe, tmp_path / "p")
    return str(tmp_path / "p")


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that goes with exit code 2."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("graphc: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_show_prints_what_the_fetches_need(
    saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = output(capsys, "show", saved)
    assert print_graph(parse_graph(text)) == text
    assert "assign" not in text and '"x"' in text


def test_show_before_and_after_passes(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    head, *lines, _ = output(capsys, "show", saved, "--passes").splitlines()
    assert head.startswith("pass ")
    names = [line.split()[0] for line in lines]
    assert names[0].endswith("#1")
    source = output(capsys, "show", saved)
    assert output(capsys, "show", saved, "--before", names[0]) == source
    previous = source
    for name in names:
        assert output(capsys, "show", saved, "--before", name) == previous
        previous = output(capsys, "show", saved, "--after", name)
        assert print_graph(parse_graph(previous)) == previous
    assert "softmax(" in output(capsys, "show", saved, "--before", "decompose")
    assert "softmax(" not in output(capsys, "show", saved, "--after", "decompose#1")
    both = output(capsys, "show", saved, "--before", "decompose", "--after", "decompose#1")
    first, second = both.split("// after decompose#1\n")
    assert first.startswith("// before decompose#1\n") and "softmax(" in first
    assert parse_graph(first).nodes and parse_graph(second).nodes


def test_show_lower_levels(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = output(capsys, "show", saved, "--kernels")
    for text in kernels.split("\n\n"):
        parse_kernel(text)
    plan = output(capsys, "show", saved, "--plan")
    assert print_plan(parse_plan(plan, constants_like(plan))) == plan
    assert "define " in output(capsys, "show", saved, "--llvm")
    assert ".text" in output(capsys, "show", saved, "--asm")


def constants_like(plan: str) -> dict[str, Any]:
    assert " constant " not in plan
    return {}


def test_show_obeys_the_environment(
    saved: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHC", "off=dce")
    assert "dce#1" not in output(capsys, "show", saved, "--passes")
    monkeypatch.setenv("GRAPHC", "nonsense=1")
    assert "nonsense" in complaint(capsys, "show", saved, "--passes")


def test_show_complains_in_one_line(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = complaint(capsys, "show", saved, "--after", "nonsense#3")
    assert "no pass nonsense#3 ran" in message and "decompose#1" in message
    assert "no pass # ran" in complaint(capsys, "show", saved, "--after", "#")
    assert "exclude" in complaint(capsys, "show", saved, "--plan", "--before", "dce")
    assert "No such file" in complaint(capsys, "show", str(tmp_path / "none.gir"))
    assert "directory" in complaint(capsys, "show", str(tmp_path))
    (tmp_path / "bad.gir").write_text("graph x")
    assert main(["show", str(tmp_path / "bad.gir")]) == 2
    problem, place, source, caret = capsys.readouterr().err.splitlines()
    assert problem == "graphc: expected the graph's name in quotes, found 'x'"
    assert "line 1, column 7" in place
    assert source.strip() == "graph x" and caret.index("^") == source.index("x")
    (tmp_path / "bad.gir").write_bytes(b"\xff\xfe")
    assert "UTF-8" in complaint(capsys, "show", str(tmp_path / "bad.gir"))
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"graphc {gx.__version__}\n"
    with pytest.raises(SystemExit) as caught:
        main(["show"])
    assert caught.value.code == 2


def test_run_prints_or_writes_results(
    library: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "x=1.npy", x)
    expected = aot.load(library)(x, None)[0]
    for feed in (f"x={tmp_path}/x=1.npy", f"0={tmp_path}/x=1.npy"):
        text = output(capsys, "run", library, "--feed", feed)
        assert text == f"result 0 output_0: float32[4, 2]\n{np.array2string(expected)}\n"
    out = tmp_path / "out" / "deep"
    text = output(capsys, "run", library, "--feed", f"x={tmp_path}/x=1.npy", "--out", str(out))
    assert str(out / "result_0.npy") in text
    np.testing.assert_array_equal(np.load(out / "result_0.npy"), expected)


def test_run_complains_in_one_line(
    library: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 5)))
    np.save(tmp_path / "trap.npy", np.array([None]), allow_pickle=True)
    np.savez(tmp_path / "many.npz", np.ones(3))
    assert "not fed: x: float32[n, 3]" in complaint(capsys, "run", library)
    assert "expected float32[n, 3]" in complaint(
        capsys, "run", library, "--feed", f"x={tmp_path}/x.npy"
    )
    for feed, message in (
        ("x", "names no argument"),
        ("z=x.npy", "names no argument"),
        ("7=x.npy", "names no argument"),
        (f"x={tmp_path}/none.npy", "No such file"),
        (f"x={tmp_path}/trap.npy", "no .npy file"),
        (f"x={tmp_path}/many.npz", "archive"),
        (f"x={library}/p.json", "no .npy file"),
        (f"a=b={library}/p.json", "p.json is no .npy file"),
    ):
        assert message in complaint(capsys, "run", library, "--feed", feed)
    twice = ["--feed", f"x={tmp_path}/x.npy", "--feed", f"0={tmp_path}/x.npy"]
    assert "fed twice" in complaint(capsys, "run", library, *twice)
    assert "No such file" in complaint(capsys, "run", str(tmp_path / "none"))
    assert "no signature" in complaint(capsys, "inspect", str(tmp_path))


def test_inspect(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "inspect", library)
    assert text.startswith(f"library 'p' (shared), graphc {gx.__version__}\n")
    for line in (
        "  0 x: float32[n, 3]",
        "  1 a=b: float32[2], not needed",
        "  0 output_0: float32[n, 2]",
        "  1 effect",
        "  0 w: float32[3, 2]",
        "  n: 0 to 1,099,511,627,776",
    ):
        assert f"{line}\n" in text


def test_bench(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "bench", library, "--dim", "n=5", "--seconds", "0.01", "--threads", "1")
    assert text.startswith("p at n=5\nmedian ")
    assert re.search(r"^median \S+ (µs|ms|s), least \S+ (µs|ms|s) a call$", text, re.MULTILINE)
    assert "p at n=32" in output(capsys, "bench", library, "--seconds", "0.01")
    for dim, message in (("m=1", "names no symbolic dim"), ("n=-1", "no size"), ("n", "no size")):
        assert message in complaint(capsys, "bench", library, "--dim", dim)
    assert "no time" in complaint(capsys, "bench", library, "--seconds", "0")
    assert "threads is 0" in complaint(capsys, "bench", library, "--threads", "0")


def test_compile(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(12.0).reshape(4, 3)
    out = str(tmp_path / "whole")
    told = output(capsys, "compile", saved, "-o", out)
    assert told == f"wrote {out}: 1 variable with values of a session\n"
    loaded = gx.load(saved)
    target = family_of("host").programs[0][2]
    expected = gx.Session(loaded["y"].graph, target=target).run(loaded, {"x": x})
    result = aot.load(out)(x)
    np.testing.assert_array_equal(result["y"], expected["y"], strict=True)
    assert result["train"] is None
    out = str(tmp_path / "part")
    output(
        capsys, "compile", saved, "-o", out, "--fetch", "w", "--feed", "x", "--name", "chosen",
        "--kind", "package", "--dim", "n=1:9", "--no-threads", "--no-embed-weights", "--no-freeze",
        "--variant", "x86-64-v2",
    )  # fmt: skip
    with opened(out) as artifact:
        signature = artifact.signature
    assert (signature.name, signature.kind, signature.threads) == ("chosen", "package", False)
    assert [program.level for program in signature.programs] == [2]
    np.testing.assert_array_equal(aot.load(out)(x), np.arange(6.0).reshape(3, 2))
    for options, message in (
        (["--dim", "n"], "no range"), (["--dim", "n=1:x"], "no range"),
        (["--dim", "m=1:2"], "symbolic dims are n"), (["--fetch", "nothing"], "nothing"),
        (["--target", "moon"], "unknown target"), (["--kind", "odd"], "known are shared"),
        (["--name", "a-b"], "can't be the name"),
    ):  # fmt: skip
        assert message in complaint(capsys, "compile", saved, "-o", str(tmp_path / "q"), *options)
    assert not (tmp_path / "q").exists()


def test_running_as_a_module_and_a_reader_that_goes_away(saved: str, library: str) -> None:
    environment = child_environment()
    command = [sys.executable, "-m", "graphc"]
    done = subprocess.run(
        [*command, "inspect", library], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("library 'p'")
    done = subprocess.run(
        [*command, "inspect", saved], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    reading, writing = os.pipe()
    os.close(reading)
    gone = subprocess.run(
        [*command, "show", saved], env=environment, stdout=writing, stderr=subprocess.PIPE,
        text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (gone.returncode, gone.stderr) == (1, "")


def test_cache_shows_and_clears(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHC", f"cache={tmp_path}/kept")
    assert output(capsys, "cache") == f"{tmp_path}/kept: 0 files, 0.0 MB of 1,074 MB\n"
    with gx.Graph(), gx.Session() as session:
        session.run(gx.constant(1.0) + gx.exp(gx.constant(1.0)))
    first, *realms = output(capsys, "cache", "show").splitlines()
    count = int(first.split()[1])
    assert first.startswith(f"{tmp_path}/kept: {count} files") and count > 1
    assert sum(int(line.split()[0]) for line in realms) == count
    assert {line.split()[1] for line in realms} == {"objects", "programs"}
    assert len({line.split(maxsplit=1)[1] for line in realms}) == len(realms)
    assert output(capsys, "cache", "clear") == f"{tmp_path}/kept: {count} files removed\n"
    assert output(capsys, "cache").startswith(f"{tmp_path}/kept: 0 files")
    monkeypatch.setenv("GRAPHC", "cache=off")
    assert output(capsys, "cache") == "the cache is off\n"
