"""What the machine can do: multiply-adds and memory, for the share of the limit in the table.

``python -m benchmarks.limits CPUS`` prints the figures as JSON, measured with one thread on each of
the CPUs. The loops are LLVM text, as graphc's kernels are, so no C compiler is needed. Invariant:
each figure is the best of several repetitions, since disturbances only ever take time.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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

    def seconds(self, flops: float, moved: float, *, double: bool, reads: bool) -> float:
        """The least time for so much arithmetic and so many bytes.

        What is few bytes stays in a cache between calls. ``reads`` says that almost nothing is
        written.
        """
        arithmetic = flops / (self.double if double else self.single)
        if moved <= _NEAR_BYTES:
            return max(arithmetic, moved / (self.near_read if reads else self.near_copy))
        if moved <= _FAR_BYTES:
            return max(arithmetic, moved / (self.far_read if reads else self.far_copy))
        return max(arithmetic, moved / (self.read if reads else self.copy))


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
    return (
        f"define void @{name}(ptr %to, ptr %from, i64 %count) {{\nentry:\n  br label %loop\nloop:\n"
        "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]\n"
        "  %p = getelementptr float, ptr %from, i64 %i\n"
        "  %q = getelementptr float, ptr %to, i64 %i\n"
        f"  %v = load {vector}, ptr %p, align 64\n"
        f"  store {vector} %v, ptr %q, align 64{mark}\n"
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


def measured(cpus: Sequence[int]) -> Limits:
    """The limits of these CPUs together."""
    target = host()
    bits = vector_bits(target)
    lanes = bits // 32
    text = {
        "single": _arithmetic("single", "float", lanes),
        "double": _arithmetic("double", "double", bits // 64),
        "copy": _copy(lanes, "copy", True),
        "stay": _copy(lanes, "stay", False),
        "read": _read(lanes),
    }
    loaded = {name: load(module, (name,), target) for name, module in text.items()}
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    keep: list[object] = [loaded]

    def streams(name: str, size: int) -> float:
        """Seconds a call over arrays of so many bytes."""
        function = loaded[name].function(name, pointer, pointer, number)
        floats, times = size // 4, max(1, _STREAM_BYTES // size)

        def work(_: int) -> Callable[[], None]:
            arrays = [np.ones(floats + 16, np.float32) for _ in range(2)]
            keep.append(arrays)
            to, source = (array.ctypes.data + (-array.ctypes.data) % 64 for array in arrays)

            def call() -> None:
                for _ in range(times):
                    function(to, source, floats)

            return call

        return _together(cpus, work) / times

    def arithmetic(name: str) -> float:
        function = loaded[name].function(name, pointer, number)

        def work(_: int) -> Callable[[], None]:
            out = np.zeros(64, np.float64)
            keep.append(out)
            return lambda: function(out.ctypes.data, _ROUNDS // lanes)

        return _together(cpus, work)

    count = len(cpus)
    operations = 2.0 * _CHAINS * (_ROUNDS // lanes) * count
    far, near = _FAR_BYTES // 4 // count, _NEAR_BYTES // 4
    return Limits(
        copy=2.0 * _STREAM_BYTES * count / streams("copy", _STREAM_BYTES),
        read=1.0 * _STREAM_BYTES * count / streams("read", _STREAM_BYTES),
        far_read=1.0 * _FAR_READ_BYTES / streams("read", _FAR_READ_BYTES // count),
        near_read=2.0 * near * count / streams("read", 2 * near),
        far_copy=2.0 * far * count / streams("stay", far),
        near_copy=2.0 * near * count / streams("stay", near),
        single=operations * lanes / arithmetic("single"),
        double=operations * (bits // 64) / arithmetic("double"),
    )


def measured_by_a_process(cpus: Sequence[int]) -> Limits:
    """The same in a process of its own, whose threads and memory end with it."""
    command = (sys.executable, "-m", "benchmarks.limits", ",".join(map(str, cpus)))
    root = Path(__file__).resolve().parent.parent
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return Limits(**json.loads(finished.stdout))


def main() -> None:
    """Measures on the CPUs that the command line lists."""
    found = measured([int(cpu) for cpu in sys.argv[1].split(",")])
    figures = {name: getattr(found, name) for name in Limits.__slots__}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
