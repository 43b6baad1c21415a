"""When a first program answers, and which results have memory that is used again."""

from __future__ import annotations

from typing import NamedTuple


class RunningTuning(NamedTuple):
    """What trades the first answer, memory and the time of a run."""

    two_programs_nodes: int = 256
    """With at least this many operations it pays to answer with kernels of single operations first.
    They must be compiled too. Below, the fused program takes some tens of milliseconds more."""

    rest_seconds: float = 0.01
    """The delay before background compilation begins, so that it leaves the core to the caller who
    has just had the first answer."""

    block_bytes: int = 1 << 20
    """A result of as many bytes has a block; smaller ones are left to NumPy."""

    block_grain_bytes: int = 64 << 10
    """Sizes of blocks are multiples of this, so that sizes that hardly differ share blocks."""


RUNNING = RunningTuning()


__all__ = ["RUNNING", "RunningTuning"]
