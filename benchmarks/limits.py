"""What the machine can do: multiply-adds and memory, for the share of the limit in the table.

``python -m benchmarks.limits CPUS`` prints the figures as JSON, measured with one thread on each of
the CPUs. With ``--serve`` it measures those that each line names, so that a workload can be set
against what the machine does in the same second: on a virtual machine that changes. Two processors
that the host runs side by side share a third-level cache and the way from there to memory, and copy
50 GB/s where two that lie apart copy 80; the host moves them every few seconds.

The loops are LLVM text, as graphc's kernels are, so no C compiler is needed. Invariant: each figure
is the best of several repetitions, since disturbances only ever take time.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphc.base.target import host
from graphc.kernel.panels import vector_bits
from graphc.runtime.jit import load

_CHAINS = 12
"""Independent multiply-adds: two pipes, four cycles of latency, and some to spare."""
_REPEATS = 7
_STREAM_BYTES = 64 << 20
_NEAR_BYTES = 512 << 10
"""What certainly lies in the second-level cache."""
_FAR_BYTES = 20 << 20
"""What certainly lies in the third-level cache, of which other processors use a part."""
_FAR_READ_BYTES = 16 << 20
"""What is read there, as much as the workloads do that only read: the more, the slower it is."""
_ROUNDS = 20_000_000
_AHEAD = 2048
"""Bytes between what is copied past the caches and what is asked for: that is a tenth faster."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of as many threads as were measured.

    Attributes:
        copy: bytes a second, read and written past the caches.
        read, far_read, near_read: bytes a second, read only, from memory, the third-level cache
            and the second.
        far_copy, near_copy: bytes a second, read and written in the third-level cache and in the
            second.
        single, double: floating-point operations a second in float32 and float64.
    """

    copy: float
    read: float
    far_read: float
    near_read: float
    far_copy: float
    near_copy: float
    single: float
    double: float


def needed(flops: float, moved: float, *, double: bool, reads: bool) -> dict[str, float]:
    """What has to be done, by the figure that limits it.

    What is few bytes stays in a cache between calls. ``reads`` says that almost nothing is written.
    """
    place = "near_" if moved <= _NEAR_BYTES else "far_" if moved <= _FAR_BYTES else ""
    found = {"double" if double else "single": flops, place + ("read" if reads else "copy"): moved}
    return {name: amount for name, amount in found.items() if amount}


def least_seconds(
    figures: Mapping[str, float], flops: float, moved: float, *, double: bool, reads: bool
) -> float:
    """The least time for so much arithmetic and so many bytes, by the figures that it needs."""
    amounts = needed(flops, moved, double=double, reads=reads)
    return max((amount / figures[name] for name, amount in amounts.items()), default=0.0)


def _accumulating(
    head: str, vector: str, chains: int, step: int, link: Callable[[int], str]
) -> str:
    """A function that adds up chains in a loop over ``%count`` by ``step``.

    ``link(n)`` makes ``%b<n>`` of ``%a<n>``; the sum is stored, so that nothing can be left out.
    """
    names = range(chains)
    phis = "\n".join(
        f"  %a{n} = phi {vector} [ zeroinitializer, %entry ], [ %b{n}, %loop ]" for n in names
    )
    links = "\n".join(map(link, names))
    total, sums = "%b0", []
    for n in names[1:]:
        sums.append(f"  %s{n} = fadd {vector} {total}, %b{n}")
        total = f"%s{n}"
    return (
        f"define void {head} {{\nentry:\n  br label %loop\nloop:\n"
        f"  %i = phi i64 [ 0, %entry ], [ %j, %loop ]\n{phis}\n{links}\n"
        f"  %j = add i64 %i, {step}\n  %more = icmp slt i64 %j, %count\n"
        "  br i1 %more, label %loop, label %done\ndone:\n" + "\n".join(sums) + "\n"
        f"  store {vector} {total}, ptr %out, align 8\n  ret void\n}}\n"
    )


def _arithmetic(name: str, element: str, lanes: int) -> str:
    vector = f"<{lanes} x {element}>"
    fma = f"@llvm.fma.{_suffix(element, lanes)}"
    splat = ", ".join(f"{element} 0x3FEFF7CEE0000000" for _ in range(lanes))

    def link(n: int) -> str:
        return (
            f"  %b{n} = call {vector} {fma}({vector} %a{n}, {vector} <{splat}>, {vector} <{splat}>)"
        )

    declared = f"declare {vector} {fma}({vector}, {vector}, {vector})\n"
    return declared + _accumulating(f"@{name}(ptr %out, i64 %count)", vector, _CHAINS, 1, link)


def _suffix(element: str, lanes: int) -> str:
    return f"v{lanes}f{32 if element == 'float' else 64}"


def _copy(lanes: int, name: str, past: bool) -> str:
    vector = f"<{lanes} x float>"
    mark = ", !nontemporal !0" if past else ""
    ahead = (
        f"  %r = getelementptr i8, ptr %p, i64 {_AHEAD}\n"
        "  call void @llvm.prefetch.p0(ptr %r, i32 0, i32 3, i32 1)\n"
    )
    return (
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
        f"define void @{name}(ptr %to, ptr %from, i64 %count) {{\nentry:\n  br label %loop\nloop:\n"
        "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]\n"
        "  %p = getelementptr float, ptr %from, i64 %i\n"
        "  %q = getelementptr float, ptr %to, i64 %i\n"
        f"  %v = load {vector}, ptr %p, align 64\n"
        f"  store {vector} %v, ptr %q, align 64{mark}\n"
        f"{ahead if past else ''}"
        f"  %j = add i64 %i, {lanes}\n  %more = icmp slt i64 %j, %count\n"
        "  br i1 %more, label %loop, label %done\ndone:\n"
        "  fence seq_cst\n  ret void\n}\n!0 = !{i32 1}\n"
    )


def _read(lanes: int) -> str:
    vector, count = f"<{lanes} x float>", 8

    def link(n: int) -> str:
        return (
            f"  %k{n} = add i64 %i, {n * lanes}\n"
            f"  %p{n} = getelementptr float, ptr %from, i64 %k{n}\n"
            f"  %v{n} = load {vector}, ptr %p{n}, align 64\n"
            f"  %b{n} = fadd {vector} %a{n}, %v{n}"
        )

    head = "@read(ptr %out, ptr %from, i64 %count)"
    return _accumulating(head, vector, count, lanes * count, link)


def _together(cpus: Sequence[int], work: Callable[[int], Callable[[], None]]) -> float:
    """Seconds that all CPUs need for the same work, started together; the best of several."""
    barrier = threading.Barrier(len(cpus))
    spans: list[list[tuple[float, float]]] = [[] for _ in cpus]

    def run(number: int) -> None:
        os.sched_setaffinity(threading.get_native_id(), {cpus[number]})
        call = work(number)
        call()
        for _ in range(_REPEATS):
            barrier.wait()
            start = time.perf_counter()
            call()
            spans[number].append((start, time.perf_counter()))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(cpus))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rounds = zip(*spans, strict=True)
    times: list[float] = [
        max(end for _, end in one) - min(start for start, _ in one) for one in rounds
    ]
    return min(times)


class Meter:
    """Measures on some CPUs, each figure when it is asked for."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus
        target = host()
        bits = vector_bits(target)
        self._bits, self._lanes = bits, bits // 32
        text = {
            "single": _arithmetic("single", "float", self._lanes),
            "double": _arithmetic("double", "double", bits // 64),
            "copy": _copy(self._lanes, "copy", True),
            "stay": _copy(self._lanes, "stay", False),
            "read": _read(self._lanes),
        }
        self._loaded = {name: load(module, (name,), target) for name, module in text.items()}
        self._arrays: dict[tuple[int, int], list[NDArray[np.float32]]] = {}

    def figure(self, name: str) -> float:
        """One of ``Limits``."""
        count = len(self._cpus)
        if name in ("single", "double"):
            lanes = self._bits // (32 if name == "single" else 64)
            rounds = _ROUNDS // self._lanes
            return 2.0 * _CHAINS * rounds * lanes * count / self._arithmetic(name, rounds)
        # how many bytes each thread goes through, in which loop, and how often a byte counts
        size, loop, times = {
            "copy": (_STREAM_BYTES, "copy", 2),
            "read": (_STREAM_BYTES, "read", 1),
            "far_read": (_FAR_READ_BYTES // count, "read", 1),
            "near_read": (_NEAR_BYTES // 2, "read", 1),
            "far_copy": (_FAR_BYTES // 4 // count, "stay", 2),
            "near_copy": (_NEAR_BYTES // 4, "stay", 2),
        }[name]
        return 1.0 * times * size * count / self._streams(loop, size)

    def figures(self, names: Sequence[str]) -> dict[str, float]:
        """Several of them, by name."""
        return {name: self.figure(name) for name in names}

    def limits(self) -> Limits:
        """All of them."""
        return Limits(**self.figures(Limits.__slots__))

    def _streams(self, loop: str, size: int) -> float:
        """Seconds a call over arrays of so many bytes."""
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        function = self._loaded[loop].function(loop, pointer, pointer, number)
        floats, times = size // 4, max(1, _STREAM_BYTES // size)

        def work(thread: int) -> Callable[[], None]:
            arrays = self._arrays.get((thread, size))
            if arrays is None:
                arrays = [np.ones(floats + 16, np.float32) for _ in range(2)]
                self._arrays[thread, size] = arrays
            to, source = (array.ctypes.data + (-array.ctypes.data) % 64 for array in arrays)

            def call() -> None:
                for _ in range(times):
                    function(to, source, floats)

            return call

        return _together(self._cpus, work) / times

    def _arithmetic(self, name: str, rounds: int) -> float:
        """Seconds of so many rounds."""
        function = self._loaded[name].function(name, ctypes.c_void_p, ctypes.c_int64)

        def work(_: int) -> Callable[[], None]:
            out = np.zeros(64, np.float64)
            return lambda: function(out.ctypes.data, rounds)

        return _together(self._cpus, work)


class LimitsProcess:
    """Measures in a process of its own, which waits in between."""

    def __init__(self, cpus: Sequence[int]) -> None:
        listed = ",".join(map(str, cpus))
        root = Path(__file__).resolve().parent.parent
        self._process = subprocess.Popen(
            (sys.executable, "-m", "benchmarks.limits", listed, "--serve"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
            text=True,
            bufsize=1,
        )

    def figures(self, names: Sequence[str]) -> dict[str, float]:
        """Figures by name, as they are now.

        Raises:
            RuntimeError: the process ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(names)) + "\n")
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"measuring the limits ended with {self._process.wait()}")
        found: dict[str, float] = json.loads(answer)
        return found

    def limits(self) -> Limits:
        """All of them."""
        return Limits(**self.figures(Limits.__slots__))

    def close(self) -> None:
        """Lets the process end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    """Measures on the CPUs that the command line lists."""
    listed, *options = sys.argv[1:]
    meter = Meter([int(cpu) for cpu in listed.split(",")])
    if "--serve" not in options:
        print(json.dumps(meter.figures(Limits.__slots__)))
        return
    for line in sys.stdin:
        print(json.dumps(meter.figures(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
