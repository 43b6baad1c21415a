"""The benchmark harness: it runs, checks what it times, and does its arithmetic right.

Nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from tools import ROOT

from benchmarks import chart
from benchmarks.conductor import Measurement, compared, worker_environment
from benchmarks.figures import best, geometric_mean, ratio, reached, share_of_limit, spread
from benchmarks.limits import LimitsProcess, least_seconds, needed
from benchmarks.pages import moved
from benchmarks.peers import OWNS, PEERS
from benchmarks.report import line
from benchmarks.workloads import chosen, workloads
from benchmarks.workloads.base import Goal, Workload


def run_harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``python -m benchmarks`` with these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
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
            if peer == "graphc-out" and measured["status"] == "unsupported":
                continue
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
    assert "of best" in rows[0]


def test_peers_that_take_too_long_are_not_waited_for():
    """Their cell says so, and nothing counts as failed."""
    given = "--quick", "--peers", "graphc,numpy", "--only", "softmax,ew_chain"
    finished = run_harness(*given, "--cell-seconds", "1e-6")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.count("| > 1e-06 s | > 1e-06 s |") == 2


def test_memory_is_that_of_the_program_and_of_a_call(tmp_path):
    """NumPy holds nothing of softmax, and a call makes at least its result."""
    path = tmp_path / "memory.json"
    given = "--memory", "--only", "softmax", "--peers", "graphc,numpy", "--json", str(path)
    finished = run_harness(*given)
    assert finished.returncode == 0, finished.stderr
    rows = [text for text in finished.stdout.splitlines() if text.startswith("|")]
    assert [row.count("|") for row in rows] == [4, 4, 4]
    measured = json.loads(path.read_text())["workloads"]["softmax"]["peers"]
    mib = 4096 * 1024 * 4 / 2**20
    assert mib <= measured["numpy"]["call_mib"] <= measured["numpy"]["program_mib"] < 4 * mib
    assert mib <= measured["graphc"]["program_mib"] < 2 * mib


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--peers", "fortran"], "unknown peer 'fortran'; known are graphc, graphc-out, graphc-"),
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
    names = [workload.name for workload in chosen("matmul_5*, ew_ch*n")]
    assert names == ["ew_chain", "matmul_512"]


def test_inputs_are_the_same_in_every_process_and_differ_between_workloads():
    """Inputs come from the workload's name alone."""
    first, second = chosen("softmax,layer_norm", quick=True)
    np.testing.assert_array_equal(first.inputs()["x"], first.inputs()["x"])
    assert not np.array_equal(first.inputs()["x"], second.inputs()["x"])


@pytest.mark.skipif(sys.platform != "linux", reason="workers run on Linux alone")
@pytest.mark.parametrize("count", [1 << 12, 3 << 20])
def test_inputs_move_to_other_pages_unseen(count):
    """What holds an array sees nothing of it; the old pages are held, content and all."""
    array = np.random.default_rng(5).random(count, np.float32)
    expected, address = array.copy(), array.ctypes.data
    held = [moved(array) for _ in range(3)]
    assert array.ctypes.data == address
    np.testing.assert_array_equal(array, expected)
    whole = expected[1024:2048].tobytes()
    assert all(room is not None and room.find(whole) >= 0 for room in held)


def test_what_fills_no_page_stays():
    """There is nothing to move."""
    assert moved(np.zeros(16, np.float32)) is None


def test_workers_get_their_threads_and_an_unsteered_openblas():
    """What holds OpenBLAS back is taken out of the environment; the rest stays."""
    environment = worker_environment(
        {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_L2_SIZE": "1", "HOME": os.sep}
    )
    assert "OPENBLAS_CORETYPE" not in environment
    assert "OPENBLAS_L2_SIZE" not in environment
    assert environment["OPENBLAS_NUM_THREADS"] == "1"
    assert environment["GRAPHC"] == "cache=off"
    assert environment["HOME"] == os.sep
    assert worker_environment({}, 2)["OMP_NUM_THREADS"] == "2"


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


def timed(*samples: float) -> Measurement:
    """A measurement with these samples."""
    return Measurement("timed", samples=list(samples))


class TestFigures:
    """Ratios are of time, within rounds."""

    def test_ratio_is_the_median_within_rounds(self):
        results = {"graphc": timed(1.0, 10.0, 2.0), "numpy": timed(4.0, 20.0, 8.0)}
        assert ratio(results, "numpy") == 0.25
        assert ratio(results, "jax") is None

    def test_who_keeps_buffers_is_compared_with_graphc_that_keeps_them(self):
        results = {
            "graphc": timed(8.0),
            "graphc-out": timed(2.0),
            "numba": timed(4.0),
            "numpy": timed(4.0),
        }
        assert ratio(results, "numba") == 0.5
        assert ratio(results, "numpy") == 2.0
        leader = best(results)
        assert leader is not None
        assert (leader.peer, leader.ratio) == ("numpy", 2.0)

    def test_goals(self):
        results = {"graphc": timed(1.0), "numpy": timed(3.0), "jax": timed(2.0)}
        assert reached(Goal(0.5), results) is True
        assert reached(Goal(0.4), results) is False
        assert reached(Goal(0.4, "numpy"), results) is True
        assert reached(Goal(0.4, "torch"), results) is None

    def test_the_physical_limit_reaches_any_goal(self):
        """Its share is the median within rounds, of the better of graphc's variants."""
        own = Measurement("timed", samples=[10.0, 20.0, 11.0], least=[9.5, 19.0, 2.0])
        results = {"graphc": own, "graphc-out": timed(8.0), "numpy": timed(10.0, 20.0, 11.0)}
        assert share_of_limit(results) == 0.95
        assert reached(Goal(0.1), results) is True
        own.least.clear()
        assert share_of_limit(results) is None
        assert reached(Goal(0.1), results) is False

    def test_the_least_time_follows_from_what_has_to_be_done(self):
        figures = dict(
            copy=1e9, read=0.5e9, far_read=2e10, near_read=2e11, far_copy=1e10, near_copy=1e11,
            single=1e9, double=1e8,
        )  # fmt: skip
        assert least_seconds(figures, 1e6, 0, double=True, reads=False) == 0.01
        moved = [
            least_seconds(figures, 0, size, double=False, reads=reads)
            for reads in (False, True)
            for size in (1e5, 1e6, 1e9)
        ]
        assert moved == [1e-6, 1e-4, 1.0, 5e-7, 5e-5, 2.0]
        assert needed(1e6, 1e9, double=False, reads=True) == {"single": 1e6, "read": 1e9}
        assert least_seconds({"single": 1e9, "read": 1e9}, 1e9, 5e8, double=False, reads=True) == 1

    def test_geometric_mean(self):
        assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)

    def test_a_wrong_result_has_no_ratio(self):
        results = {"graphc": Measurement("wrong", detail="far off"), "numpy": timed(3.0, 3.0, 4.0)}
        assert ratio(results, "numpy") is None
        (workload,) = chosen("ew_chain", quick=True)
        text = line(workload, results, ("graphc", "numpy"))
        assert text == "| ew_chain |  | – | – | – | – | **wrong** | 3 µs |"

    def test_spread(self):
        assert spread(timed(2.0, 2.0, 3.0)) == 0.5
        assert spread(timed(*[4.0] * 8)) == 0.0


def test_limits_are_measured_when_they_are_asked_for():
    """By a process that waits in between."""
    process = LimitsProcess([min(os.sched_getaffinity(0))])
    found = process.figures(["near_copy", "single"]), process.figures(["near_read"])
    process.close()
    assert [sorted(one) for one in found] == [["near_copy", "single"], ["near_read"]]
    assert all(figure > 1e8 for one in found for figure in one.values())


def test_the_chart_is_well_formed_and_names_what_it_shows():
    """One dot a workload and peer, names escaped."""
    (workload,) = chosen("ew_chain")
    results = {"graphc": timed(1.0), "numpy": timed(4.0), "jax": timed(2.0)}
    text = chart.drawn([(replace(workload, name="a<b"), results)], 1)
    root = ElementTree.fromstring(text)
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["a<b: 0.25 of numpy", "a<b: 0.50 of jax"]


def test_the_legend_of_all_peers_fits_into_the_chart():
    """It goes on in another row, clear of the lines below."""
    (workload,) = chosen("ew_chain")
    names = [name for name in PEERS if name not in OWNS]
    root = ElementTree.fromstring(
        chart.drawn([(workload, {"graphc": timed(1.0)} | {name: timed(2.0) for name in names})], 2)
    )
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    legend = [node for node in texts if node.text in names]
    placed = {node.text: (int(node.get("x")), int(node.get("y"))) for node in legend}
    assert sorted(placed) == sorted(names)
    assert all(x + 7 * len(name) < int(root.get("width")) for name, (x, _) in placed.items())
    lines = [int(node.get("y1")) for node in root.iter("{http://www.w3.org/2000/svg}line")]
    assert max(y for _, y in placed.values()) < min(lines)
    assert "2 threads" in texts[0].text


def test_every_peer_is_registered_with_a_module():
    """Names on the command line lead to a module each."""
    folder = ROOT / "benchmarks" / "peers"
    assert all((folder / f"{module}.py").exists() for module, _ in PEERS.values())
