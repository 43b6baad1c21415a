"""The benchmark harness: it runs, checks what it times, and does its arithmetic right.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.conductor import Measurement, compared, worker_environment
from benchmarks.peers import PEERS
from benchmarks.report import line, ratio, reached, spread
from benchmarks.workloads import Goal, Workload, chosen, workloads

ROOT = Path(__file__).resolve().parent.parent


def run_harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``python -m benchmarks`` with these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, object]]:
    """What a quick run on graphc and NumPy prints and writes."""
    path = tmp_path_factory.mktemp("bench") / "figures.json"
    finished = run_harness("--quick", "--peers", "graphc,numpy", "--json", str(path))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout, json.loads(path.read_text(encoding="utf-8"))


def test_every_workload_agrees_with_its_reference(quick_run):
    """Each peer's result is within the tolerance, and was timed."""
    _, figures = quick_run
    assert list(figures["workloads"]) == [workload.name for workload in workloads()]
    for name, workload in figures["workloads"].items():
        for peer, measured in workload["peers"].items():
            assert measured["status"] == "timed", (name, peer, measured)
            assert measured["error_in_tolerances"] <= 1
            assert len(measured["samples_microseconds"]) == 3
    assert "llvmlite" in figures["machine"]["versions"]


def test_the_table_names_the_machine_and_every_workload(quick_run):
    """The printed text is a Markdown table of equally many columns, below the machine's lines."""
    printed, figures = quick_run
    assert f"- cpu: {figures['machine']['cpu']}" in printed
    rows = [text for text in printed.splitlines() if text.startswith("|")]
    assert len(rows) == 2 + len(workloads())
    assert {row.count("|") for row in rows} == {rows[0].count("|")}
    assert "graphc/numpy" in rows[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--peers", "fortran"], "unknown peer 'fortran'; known are graphc, numpy"),
        (["--only", "nothing*"], "no workload matches 'nothing*'; known are ew_chain"),
    ],
)
def test_unknown_names_are_refused(arguments, message):
    """A misspelt name is an error that names what there is."""
    finished = run_harness(*arguments)
    assert finished.returncode == 2
    assert message in " ".join(finished.stderr.split())


def test_choosing_by_patterns():
    """Patterns are globs, separated by commas, in the order of the list."""
    names = [workload.name for workload in chosen("matmul_5*, ew_*")]
    assert names == ["ew_chain", "matmul_512"]


def test_inputs_are_the_same_in_every_process_and_differ_between_workloads():
    """Inputs come from the workload's name alone."""
    first, second = chosen("softmax,layer_norm", quick=True)
    np.testing.assert_array_equal(first.inputs()["x"], first.inputs()["x"])
    assert not np.array_equal(first.inputs()["x"], second.inputs()["x"])


def test_workers_get_one_thread_and_an_unsteered_openblas():
    """What holds OpenBLAS back is taken out of the environment; the rest stays."""
    environment = worker_environment(
        {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_L2_SIZE": "1", "HOME": os.sep}
    )
    assert "OPENBLAS_CORETYPE" not in environment
    assert "OPENBLAS_L2_SIZE" not in environment
    assert environment["OPENBLAS_NUM_THREADS"] == "1"
    assert environment["GRAPHC"] == "cache=off"
    assert environment["HOME"] == os.sep


class TestChecking:
    """Results that are not right are not timed."""

    @pytest.fixture
    def workload(self) -> Workload:
        (workload,) = chosen("call_16")
        return replace(workload, absolute=0.5, relative=0.0)

    def test_within_tolerance(self, workload):
        worst, wrong = compared([np.float32([1.25])], (np.array([1.0]),), workload)
        assert (worst, wrong) == (0.5, "")

    @pytest.mark.parametrize(
        ("outputs", "message"),
        [
            ([np.float32([2.0])], "2 times the tolerance"),
            ([np.float32([np.nan])], "tolerance"),
            ([np.float32([1.0, 1.0])], "shape (2,) instead of (1,)"),
            ([], "0 results instead of 1"),
        ],
    )
    def test_wrong(self, workload, outputs, message):
        worst, wrong = compared(outputs, (np.array([1.0]),), workload)
        assert worst > 1
        assert message in wrong


class TestFigures:
    """Ratios are of speed, within rounds."""

    def test_ratio_is_the_median_within_rounds(self):
        results = {
            "graphc": Measurement("timed", samples=[1.0, 10.0, 2.0]),
            "numpy": Measurement("timed", samples=[3.0, 20.0, 8.0]),
        }
        assert ratio(results, "numpy") == 3.0
        assert ratio(results, "jax") is None
        assert reached(Goal(3.0), results) is True
        assert reached(Goal(3.5), results) is False
        assert reached(Goal(3.5, peer="jax"), results) is None
        assert reached(Goal(most_microseconds=2.5), results) is True

    def test_a_wrong_result_has_no_ratio(self):
        results = {
            "graphc": Measurement("wrong", detail="far off"),
            "numpy": Measurement("timed", samples=[3.0, 3.0, 4.0]),
        }
        assert ratio(results, "numpy") is None
        (workload,) = chosen("ew_chain")
        assert "| ew_chain | **wrong** | 3 µs | – |" in line(workload, results, PEERS[:2])

    def test_spread(self):
        assert spread(Measurement("timed", samples=[2.0, 2.0, 3.0])) == 0.5
        assert spread(Measurement("timed", samples=[4.0] * 8)) == 0.0
