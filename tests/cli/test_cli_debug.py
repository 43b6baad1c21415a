"""The commands that find errors: opt, bisect, reduce, replay."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import planted
import pytest
from test_cli import complaint, output, saved  # noqa: F401
from tools import ROOT, SUPPORT, child_environment

import graphc as gx
from graphc.cli import main
from graphc.debug.capsule import load_capsule
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import print_graph

CHILD = '''
import os, sys
sys.path[:0] = {paths!r}
import numpy as np, pytest, graphc as gx, planted
if {plant!r}:
    getattr(planted, {plant!r})(pytest.MonkeyPatch())
x = gx.placeholder((4, 4), name="x")
first = gx.tanh(x * 1.0) + gx.exp(-x)
second = gx.sinh(first) * (x + 1.0)
data = np.linspace(0.5, 1, 16).reshape(4, 4)
one = gx.Session().run(first * 2.0 + 0.0, {{x: data}})
two = gx.Session().run(second, {{x: data}})
expected = np.sinh(np.tanh(data) + np.exp(-data)) * (data + 1)
print("looked at", os.environ.get("GRAPHC"))
sys.exit(0 if np.allclose(two, expected, rtol=1e-4) else {code})
'''


@pytest.fixture
def script(tmp_path: Path) -> Any:
    def write(plant: str = "", code: int = 3) -> list[str]:
        paths = [str(ROOT), str(SUPPORT)]
        text = CHILD.format(paths=paths, plant=plant, code=code)
        (tmp_path / "child.py").write_text(text)
        return [sys.executable, str(tmp_path / "child.py")]

    return write


@pytest.fixture
def capsule(tmp_path: Path) -> str:
    with gx.Graph("held"), gx.Session() as session:
        x = gx.placeholder((None, 3), name="x")
        first = gx.tanh(x * 1.0) + gx.exp(-x)
        exe = session.compile(gx.sinh(first) * (x + 1.0))
        exe.capture(tmp_path / "a.gxr", np.linspace(0.5, 1, 12).reshape(4, 3))
    return str(tmp_path / "a.gxr")


# --- opt -----------------------------------------------------------------------------------------


def test_opt_is_text_in_and_text_out(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]  # noqa: F811
) -> None:
    text = output(capsys, "opt", saved, "--passes", "decompose, cse,dce")
    assert print_graph(parse_graph(text)) == text
    assert "softmax(" not in text and "exp(" in text
    (tmp_path / "b.gir").write_text(text)
    again = output(capsys, "opt", str(tmp_path / "b.gir"), "--passes", "fusion")
    assert "fused(" in again
    assert "fused(" in output(capsys, "opt", saved)
    untouched = output(capsys, "opt", saved, "--passes", "")
    assert untouched == output(capsys, "show", saved)


def test_opt_reads_the_standard_input(saved: str) -> None:  # noqa: F811
    text = 'graph "g" (%0 "x": float32[2]) { %1 = negative(%0) : float32[2]\n'
    text += "%2 = negative(%1) : float32[2]\n return %2 }"
    environment = child_environment()
    command = [sys.executable, "-m", "graphc", "opt", "-", "--passes", "simplify", "--decisions"]
    done = subprocess.run(
        command, input=text, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("// simplify#1: neg-neg: float32[2] at ")
    assert "negative" not in done.stdout.partition("\n")[2]


def test_opt_complains(saved: str, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    assert "no pass 'cze' (there are " in complaint(capsys, "opt", saved, "--passes", "cze")
    assert "No such file" in complaint(capsys, "opt", "nothing.gir")
    assert "opt does not take b.gir" in complaint(capsys, "opt", saved, "b.gir")
    assert "stands after --" in complaint(capsys, "bisect", "python", "b.py")
    assert "nothing after --" in complaint(capsys, "opt", saved, "--", "ls")


def test_explain(
    saved: str, capsule: str, capsys: pytest.CaptureFixture[str]  # noqa: F811
) -> None:
    text = output(capsys, "explain", capsule)
    assert "kernel: " in text and "mul-one" not in text and "test_cli_debug.py" in text
    assert output(capsys, "explain", saved).count("kernel: ") == 2
    assert "'nothing'" in complaint(capsys, "explain", saved, "--value", "nothing")


def test_capsules_are_shown_as_graphs_are(
    capsule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    text = output(capsys, "show", capsule)
    assert "tanh(" in text and print_graph(parse_graph(text)) == text
    assert output(capsys, "opt", capsule, "--passes", "simplify").count("multiply(") == 1
    monkeypatch.setenv("GRAPHC", "nonsense")  # a capsule brings its own options
    assert "kernel " in output(capsys, "show", capsule, "--kernels")
    page = tmp_path / "out.html"
    assert output(capsys, "report", capsule, "-o", str(page)) == f"{page}\n"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


# --- replay --------------------------------------------------------------------------------------


def test_replay(
    capsule: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    kernel_watch: Any,
) -> None:  # fmt: skip
    text = output(capsys, "replay", capsule, "--interpreter")
    assert text.startswith(f"captured with graphc {gx.__version__}, numpy {np.__version__} on ")
    assert "result 0, float32[_d1, 3] at test_cli_debug.py:" in text
    assert ": the same bits" in text and "interpreter: the same" in text
    with kernel_watch.pause():
        planted.wrong_rule(monkeypatch)
        assert main(["replay", capsule]) == 1
    assert ": element [0, 0] is" in capsys.readouterr().out


def test_replay_of_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with gx.Graph(), gx.Session() as session:
        places = gx.placeholder((None,), "int64", name="places")
        exe = session.compile(gx.take(gx.constant(np.arange(3.0)), places, axis=0))
        exe.capture(tmp_path / "a.gxr", [0, 9])
    text = output(capsys, "replay", str(tmp_path / "a.gxr"))
    assert "then IndexRangeError: " in text and "now IndexRangeError: " in text
    (tmp_path / "b.gxr").write_bytes(b"PK")
    assert "no capsule" in complaint(capsys, "replay", str(tmp_path / "b.gxr"))


# --- bisect --------------------------------------------------------------------------------------


def test_bisect_of_a_command(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    command = script("wrong_rule")
    monkeypatch.setenv("GRAPHC", "off=fold")
    text = output(capsys, "bisect", "--", *command)
    lines = text.splitlines()
    # the decisions of the first program count too
    assert lines[0].startswith(f"{planted.WRONG_RULE}: float32[4, 4] at ")
    assert "child.py:9, #" in lines[0] and lines[0].endswith("decisions makes the difference")
    assert lines[1] == "    second = gx.sinh(first) * (x + 1.0)"
    number = int(lines[0].rpartition("#")[2].split()[0])
    assert number > 3
    assert f"GRAPHC=fuel={number - 1} is right" in lines[2] and "exit code 3" in lines[2]
    assert f"GRAPHC=off={planted.WRONG_RULE} leaves" in lines[3]


def test_bisect_of_commands_that_show_nothing(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "succeeds" in complaint(capsys, "bisect", "--", *script())
    wrong = script("wrong_code")
    assert "without any optional decision too (exit code 3)" in complaint(
        capsys, "bisect", "--", *wrong
    )
    assert "graphc decides nothing" in complaint(capsys, "bisect", "--", "false")
    assert "takes a file, or a command" in complaint(capsys, "bisect")
    assert "takes a file, or a command" in complaint(capsys, "bisect", "a.gxr", "--", "false")
    assert "No such file" in complaint(capsys, "bisect", "--", "no-such-command-is-here")
    sleepy = [sys.executable, "-c", "import time; time.sleep(60)"]
    message = complaint(capsys, "bisect", "--timeout", "0.2", "--", *sleepy)
    assert "exit code 124" in message


def test_bisect_and_reduce_of_files(
    capsule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, kernel_watch: Any,
) -> None:  # fmt: skip
    assert "on the captured inputs" in complaint(capsys, "bisect", capsule)
    assert "on the captured inputs" in complaint(capsys, "reduce", capsule)
    with gx.Graph("stored"):
        x = gx.placeholder((None, 3), name="x")
        gx.save(tmp_path / "a.gir", gx.tanh(gx.sinh(gx.sin(x) + 1.0) * x))
    plain = str(tmp_path / "a.gir")
    assert "random inputs" in complaint(capsys, "bisect", plain)
    with kernel_watch.pause():
        planted.wrong_rule(monkeypatch)
        for file in (capsule, plain):
            text = output(capsys, "bisect", file)
            assert text.startswith(f"{planted.WRONG_RULE}: float32[")
            assert "test_cli_debug.py" in text or file == plain
            small = str(tmp_path / "small.gxr")
            text = output(capsys, "reduce", file, "-o", small)
            assert "-> 2\n" in text and "sinh(" in text and "multiply(" in text
            assert stat.S_IMODE(os.stat(small).st_mode) == 0o600
            assert len(load_capsule(small).case.graph.nodes) == 2
            assert "the same bits" in output(capsys, "replay", small)


def test_a_failing_compilation_is_bisected_and_reduced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    kernel_watch: Any,
) -> None:  # fmt: skip
    """Fault 6."""
    with gx.Graph("stored"):
        x = gx.placeholder((None, 8, 4), name="x")
        y = gx.tanh(gx.sin(x) @ np.ones((4, 3), "float32")).reshape((x.shape[0] * 8, 3))
        gx.save(tmp_path / "a.gir", gx.nn.relu(y + 1.0))
    file, small = str(tmp_path / "a.gir"), str(tmp_path / "small.gxr")
    with kernel_watch.pause():
        planted.failing_products(monkeypatch)
        assert "ends with RuntimeError (planted)" in output(capsys, "bisect", file)
        assert "contract(" in output(capsys, "reduce", file, "-o", small)
        assert len(load_capsule(small).case.graph.nodes) <= 3


def test_reduce_with_a_command(
    capsule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; sys.exit(7 if b'= exp(' in open(sys.argv[1], 'rb').read() else 0)"
    small = str(tmp_path / "small.gxr")
    command = [sys.executable, "-c", code]
    text = output(capsys, "reduce", capsule, "-o", small, "--tries", "80", "--", *command, "{}")
    assert [node.op.name for node in load_capsule(small).case.graph.nodes] == ["exp"]
    assert "// nodes: 10 -> 1" in text
    assert "the command succeeds" in complaint(capsys, "reduce", capsule, "--", "true")
    assert "no command" in complaint(capsys, "reduce", capsule, "--")
    missing = str(tmp_path / "nowhere" / "small.gxr")
    # before the file is even read
    assert "no folder" in complaint(capsys, "reduce", "absent.gxr", "-o", missing)
    assert "no folder" in complaint(capsys, "report", "absent.gir", "-o", missing)


@pytest.mark.parametrize(
    "name", ["show", "explain", "report", "opt", "bisect", "reduce", "replay", "run", "inspect"]
)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: graphc ")
