"""One peer in one process, driven by lines of JSON.

``python -m benchmarks.worker PEER CPUS SCALE CLOCK`` is how the conductor starts one.

Invariant: the process is tied to its CPUs before any library is imported, and while it does not
measure it waits for a line, so that the peers don't disturb each other. Each time that calls are
measured, inputs lie in other pages of memory.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from benchmarks.pages import moved

LONGEST_BATCH_CALLS = 1 << 20
KEPT_MOVES = 2
"""Pages that inputs have had of late are held, so that they don't come back to them."""
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


class Worker:
    """Answers the conductor's commands; each public method is one."""

    def __init__(self, peer: Any, workloads: Any, clock: Callable[[], float]) -> None:
        self._peer = peer
        self._clock = clock
        self._workloads = {workload.name: workload for workload in workloads}
        self._prepared: Any = None
        self._make: Any = None
        self._inputs: list[Any] = []
        self._moves: list[list[Any]] = []

    def build(self, name: str, outputs: str) -> dict[str, Any]:
        """Makes the program, calls it once and saves what it gave; tells the time of that."""
        import numpy as np

        workload = self._workloads[name]
        arrays = workload.inputs()
        given = {n: a for n, a in arrays.items() if n not in workload.weights}
        fixed = {n: a for n, a in arrays.items() if n in workload.weights}
        inputs, weights = self._peer.native(given), self._peer.native_weights(fixed)
        self._inputs = [
            array if isinstance(array, np.ndarray) else np.from_dlpack(array)
            for array in inputs.values()
        ]
        self._make = lambda: self._peer.build(workload.kind, inputs, weights)
        gc.collect()
        empty = _start_high_water()
        start = self._clock()
        try:
            self._prepared = self._make()
            if self._prepared is None:
                return {"unsupported": True}
            first = self._prepared.call()
        except Exception as error:  # whatever a peer's library raises is that peer's result
            traceback.print_exc()
            return {"failed": f"{type(error).__name__}: {error}"[:300]}
        seconds = self._clock() - start
        self._settle()
        np.savez(outputs, *self._prepared.outputs(first))
        del first
        gc.collect()
        before = _start_high_water()
        self._prepared.call()
        peak = _status("VmHWM")
        return {
            "first_seconds": seconds,
            "call_mib": max(0, peak - before) / 1024,
            "program_mib": max(0, peak - empty) / 1024,
        }

    def calibrate(self, seconds: float) -> dict[str, Any]:
        """How many calls take about so long."""
        calls = 1
        while True:
            taken = self._timed(calls)
            if taken >= seconds / 2 or calls >= LONGEST_BATCH_CALLS:
                return {"calls": max(1, round(calls * seconds / taken))}
            calls = min(4 * calls, LONGEST_BATCH_CALLS)

    def measure(self, calls: int) -> dict[str, Any]:
        """Microseconds a call, over so many calls, with inputs in other pages than before."""
        self._moves = [*self._moves[-KEPT_MOVES:], [moved(array) for array in self._inputs]]
        return {"microseconds": self._timed(calls) / calls * 1e6}

    def measure_first(self) -> dict[str, Any]:
        """Microseconds from the definition to the first result, made anew."""
        self._prepared = None
        gc.collect()
        start = self._clock()
        self._prepared = self._make()
        self._prepared.call()
        seconds = self._clock() - start
        self._settle()
        return {"microseconds": seconds * 1e6}

    def _settle(self) -> None:
        if self._prepared.settle is not None:
            self._prepared.settle()

    def drop(self) -> dict[str, Any]:
        """Frees the program."""
        self._prepared = self._make = None
        self._inputs, self._moves = [], []
        gc.collect()
        return {}

    def _timed(self, calls: int) -> float:
        if self._prepared.reset is not None:
            self._prepared.reset()
        call, clock = self._prepared.call, self._clock
        call()
        start = clock()
        for _ in range(calls):
            call()
        return clock() - start


def _status(field: str) -> int:
    """A field of this process's status, in KiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        key, _, text = line.partition(":")
        if key == field:
            return int(text.split()[0])
    raise KeyError(field)


def _start_high_water() -> int:
    """Starts the resident memory's high-water mark anew; gives the memory in use, in KiB.

    What was freed is given back first, where the C library can do so: a compiler leaves much.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def main(arguments: list[str]) -> None:
    """Serves until standard input ends."""
    name, listed, scale, clock = arguments
    cpus = {int(cpu) for cpu in listed.split(",")}
    os.sched_setaffinity(0, cpus)
    # Whatever a library prints goes to standard error; the answers have the stream to themselves.
    answers: TextIO = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from benchmarks.peers import PEERS
    from benchmarks.workloads import workloads

    module, variant = PEERS[name]
    try:
        peer = importlib.import_module(f"benchmarks.peers.{module}").PEER(len(cpus), variant)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), file=answers)
        return
    peer.warm_up()
    worker = Worker(peer, workloads(quick=scale == "quick"), CLOCKS[clock])
    print(json.dumps({"versions": peer.versions()}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(worker, request.pop("do"))(**request)), file=answers)


if __name__ == "__main__":
    main(sys.argv[1:])
