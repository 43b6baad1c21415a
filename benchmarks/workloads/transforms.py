"""Discrete Fourier transforms: batches of rows, and a long one."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.workloads.base import Arrays, Goal, Workload, normal


def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family."""
    sizes = ((8, 64), (16, 16), (1, 1 << 10)) if quick else ((256, 1024), (2048, 64), (1, 1 << 20))
    goals = 0.6, 1.0, 0.6
    names = "fft_rows", "fft_short_rows", "fft_long_row"
    return tuple(
        _of_rows(name, *size, share) for name, size, share in zip(names, sizes, goals, strict=True)
    )


def _of_rows(name: str, rows: int, length: int, share: float) -> Workload:
    def complexes(random: np.random.Generator) -> Arrays:
        return {"x": normal(random, rows, 2 * length).view(np.complex64)}

    return Workload(
        name,
        "fft",
        f"Fourier transforms of complex64, {rows}×{length}",
        complexes,
        lambda i: (np.fft.fft(i["x"].astype(np.complex128)),),
        # what is counted by custom, whatever the algorithm does
        flops=5 * rows * length * math.log2(length),
        bytes=rows * length * 16,
        absolute=1e-3 * math.sqrt(length / 1024),
        goals=(Goal(share),),
    )
