"""Starts one worker a peer, checks their results and lets them take turns.

Invariant: at most one worker computes at any time, and in every round each peer measures once, so
that a disturbance of the machine falls on all of them alike.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.limits import LimitsProcess, least_seconds, needed
from benchmarks.peers import OWNS
from benchmarks.workloads.base import Array, Workload

ROOT = Path(__file__).resolve().parent.parent

# Set on some machines for the sake of old builds of OpenBLAS; they hold back a current one.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREAD_COUNTS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
)
SETTINGS = {
    "JAX_PLATFORMS": "cpu",
    # what counts is the time without a cache on disk
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "GRAPHC": "cache=off",
}
XLA_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
LEAST_ROUNDS = 3
REST_SECONDS = 0.3
"""Between measurements with several threads: idle threads of some peers spin for a while."""
START_SECONDS = 180.0
"""After this time without a word a worker could not start."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure.

    Attributes:
        rounds: how often each peer measures a workload.
        batch_seconds: how long one measurement takes.
        workload_seconds: after this time no further rounds are begun, once three are done.
        cell_seconds: a peer that gives no answer in this time is late; one whose answers have
            taken longer in all takes no part in further rounds of the workload.
        cpus: the CPUs that the workers are tied to; each peer is told to use as many threads.
        quick: tiny workloads, to see that everything works.
        clock: "wall", or "cpu": processor time of all threads, which leaves out the time that
            other processes took.
        python: the interpreter that runs the peers; graphc runs in the conductor's own.
    """

    rounds: int
    batch_seconds: float
    workload_seconds: float
    cell_seconds: float
    cpus: tuple[int, ...]
    quick: bool
    clock: str = "wall"
    python: str = sys.executable


@dataclass(slots=True)
class Measurement:
    """One peer on one workload.

    Attributes:
        status: "timed", "unsupported" (the peer cannot do it), "late" (no answer in the time that
            it may take), "wrong" or "failed".
        detail: what is wrong, if something is; of what is late, the time.
        first_seconds: from definition to first result, the first time.
        call_mib: growth of the resident memory's high-water mark in a steady call.
        program_mib: the same from before the definition on: what the program holds, too.
        error: the largest difference from the reference, as a part of what is tolerated.
        samples: microseconds a call, one a round.
        least: of graphc, microseconds that the machine would have needed at that time at least.
        spent: seconds that answers have taken.
    """

    status: str
    detail: str = ""
    first_seconds: float = 0.0
    call_mib: float = 0.0
    program_mib: float = 0.0
    error: float = 0.0
    samples: list[float] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    spent: float = 0.0


def worker_environment(present: Mapping[str, str], threads: int = 1) -> dict[str, str]:
    """The environment of a worker: so many threads, nothing that steers OpenBLAS."""
    environment = {name: text for name, text in present.items() if name not in UNSET} | SETTINGS
    environment |= dict.fromkeys(THREAD_COUNTS, str(threads))
    if threads == 1:
        environment["XLA_FLAGS"] = XLA_ONE_THREAD
    return environment


class WorkerFailed(RuntimeError):
    """A worker ended when an answer was expected."""


class WorkerLate(WorkerFailed):
    """A worker gave no answer in the time that it had, and was ended."""


def _interpreter(name: str, settings: Settings) -> str:
    return sys.executable if name in OWNS else settings.python


class WorkerProcess:
    """A worker and the pipes to it."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        scale = "quick" if settings.quick else "full"
        self._log = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [
                *(_interpreter(name, settings), "-m", "benchmarks.worker"),
                *(name, ",".join(map(str, settings.cpus)), scale, settings.clock),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=worker_environment(os.environ, len(settings.cpus)),
            cwd=ROOT,
            text=True,
            bufsize=1,
        )
        try:
            hello = self._answer(START_SECONDS)
        except WorkerFailed:
            self.close()
            raise
        self.missing: str | None = hello.get("missing")
        self.versions: dict[str, str] = hello.get("versions", {})

    def ask(self, command: str, within: float, /, **arguments: Any) -> dict[str, Any]:
        """Sends a command and waits so many seconds for the answer.

        Raises:
            WorkerLate: there was none.
            WorkerFailed: the worker ended; the error carries the last lines it wrote.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        except BrokenPipeError:
            raise self._failure() from None
        return self._answer(within)

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            self._process.kill()
            self._process.wait()
            raise WorkerLate(f"no answer in {seconds:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._failure()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _failure(self) -> WorkerFailed:
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()[-3:]
        return WorkerFailed(f"ended with {code}: {' / '.join(lines)}")

    def close(self) -> None:
        """Lets the worker end."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        self._process.wait()
        self._log.close()


class Conductor:
    """All workers of a run, in the order the peers were asked for.

    With ``limits``, those are measured anew beside each measurement of graphc.

    Attributes:
        versions: versions of what was measured, by distribution.
        absent: peers that could not start, and why.
        peers: those that take part.
    """

    def __init__(
        self, peers: Sequence[str], settings: Settings, limits: LimitsProcess | None = None
    ) -> None:
        self.settings = settings
        self._limits = limits
        self.versions: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self._workers: dict[str, WorkerProcess] = {}
        for name in peers:
            self._start(name)
        self.peers = tuple(self._workers)

    def _start(self, name: str) -> None:
        try:
            worker = WorkerProcess(name, self.settings)
        except WorkerFailed as error:
            self.absent[name] = str(error)
            return
        if worker.missing is not None:
            self.absent[name] = worker.missing
            worker.close()
            return
        self._workers[name] = worker
        self.versions |= worker.versions

    def run(self, workloads: Sequence[Workload]) -> Iterator[dict[str, Measurement]]:
        """Measures each workload on each peer."""
        for workload in workloads:
            yield self._measured(workload)

    def run_for_memory(self, workloads: Sequence[Workload]) -> Iterator[dict[str, Measurement]]:
        """Builds and calls each workload on each peer, in a process of its own; times nothing."""
        for workload in workloads:
            expected = workload.expected()
            results: dict[str, Measurement] = {}
            for name in self.peers:
                worker = self._workers.pop(name, None)
                if worker is not None:
                    worker.close()
                self._start(name)
                results[name] = self._checked(name, workload, expected)
            yield results

    def close(self) -> None:
        """Ends all workers."""
        for worker in self._workers.values():
            worker.close()

    def _measured(self, workload: Workload) -> dict[str, Measurement]:
        expected = workload.expected()
        results: dict[str, Measurement] = {}
        calls: dict[str, int] = {}
        for name in self.peers:
            results[name] = self._checked(name, workload, expected)
            if results[name].status == "timed" and workload.timed == "call":
                answer = self._ask(name, results[name], "calibrate", self.settings.batch_seconds)
                calls[name] = answer.get("calls", 0)
        deadline = time.monotonic() + self.settings.workload_seconds
        for turn in range(self.settings.rounds):
            if turn >= LEAST_ROUNDS and time.monotonic() > deadline:
                break
            timed = [name for name in results if results[name].status == "timed"]
            first = turn % len(timed) if timed else 0
            for name in timed[first:] + timed[:first]:
                if results[name].samples and results[name].spent > self.settings.cell_seconds:
                    continue
                if len(self.settings.cpus) > 1:
                    time.sleep(REST_SECONDS)
                if workload.timed == "first":
                    answer = self._ask(name, results[name], "measure_first")
                else:
                    answer = self._ask(name, results[name], "measure", calls[name])
                if answer:
                    results[name].samples.append(answer["microseconds"])
                    if name in OWNS:
                        results[name].least += self._least(workload)
        for name in self.peers:
            self._ask(name, results[name], "drop")
        return results

    def _least(self, workload: Workload) -> list[float]:
        """The least microseconds for a workload now; empty where that says nothing."""
        needs = {"double": workload.double, "reads": workload.reads}
        names = list(needed(workload.flops, workload.bytes, **needs))
        if self._limits is None or workload.timed != "call" or not names:
            return []
        figures = self._limits.figures(names)
        return [1e6 * least_seconds(figures, workload.flops, workload.bytes, **needs)]

    def _checked(self, name: str, workload: Workload, expected: tuple[Array, ...]) -> Measurement:
        measurement = Measurement("timed")
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "outputs.npz")
            answer = self._ask(name, measurement, "build", workload.name, path)
            if measurement.status != "timed":
                return measurement
            if answer.get("unsupported"):
                return Measurement("unsupported")
            if "failed" in answer:
                return Measurement("failed", answer["failed"])
            with np.load(path) as saved:
                outputs = [saved[f"arr_{n}"] for n in range(len(saved.files))]
        measurement.first_seconds = answer["first_seconds"]
        measurement.call_mib, measurement.program_mib = answer["call_mib"], answer["program_mib"]
        measurement.error, measurement.detail = compared(outputs, expected, workload)
        if measurement.detail:
            measurement.status = "wrong"
        return measurement

    def _ask(
        self, name: str, measurement: Measurement, command: str, *arguments: Any
    ) -> dict[str, Any]:
        """Asks a worker; one that ends is replaced, and what it was at counts as failed."""
        keys = {"build": ("name", "outputs"), "calibrate": ("seconds",), "measure": ("calls",)}
        named = dict(zip(keys.get(command, ()), arguments, strict=True))
        worker = self._workers.get(name)
        if worker is None:
            measurement.status, measurement.detail = "failed", self.absent[name]
            return {}
        seconds, started = self.settings.cell_seconds, time.monotonic()
        try:
            answer = worker.ask(command, seconds, **named)
            measurement.spent += time.monotonic() - started
            return answer
        except WorkerFailed as error:
            late = isinstance(error, WorkerLate)
            measurement.status = "late" if late else "failed"
            measurement.detail = f"> {seconds:g} s" if late else str(error)
            del self._workers[name]
            worker.close()
            self._start(name)
            return {}


def compared(
    outputs: Sequence[Array], expected: Sequence[Array], workload: Workload
) -> tuple[float, str]:
    """The largest error as a part of the tolerance, and what is wrong (nothing: an empty text)."""
    if len(outputs) != len(expected):
        return float("inf"), f"{len(outputs)} results instead of {len(expected)}"
    worst = 0.0
    for output, reference in zip(outputs, expected, strict=True):
        if output.shape != reference.shape:
            return float("inf"), f"shape {output.shape} instead of {reference.shape}"
        allowed = workload.absolute + workload.relative * np.abs(reference)
        parts = np.abs(output - reference) / allowed
        worst = max(worst, float(np.max(parts, initial=0.0)) if not np.isnan(parts).any() else 1e99)
    return worst, f"{worst:.3g} times the tolerance away" if worst > 1 else ""
