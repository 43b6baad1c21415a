"""Memory of this process: what it holds now, and the peak it reaches within a block."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1_000_000


@dataclass(slots=True)
class Growth:
    """Bytes by which the resident memory grew: at its peak, and at the block's end."""

    peak: int = 0
    final: int = 0


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(key)


@contextmanager
def memory_growth() -> Iterator[Growth]:
    """Measure the block; the figures are valid once it has ended."""
    growth = Growth()
    gc.collect()
    # Writing 5 resets the kernel's record of the peak to the memory held now.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    yield growth
    growth.peak = _status("VmHWM") - before
    gc.collect()
    growth.final = _status("VmRSS") - before
