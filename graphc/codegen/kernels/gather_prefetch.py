"""Prefetches of gathered rows, some iterations before their turn.

Invariant: only row numbers that a later iteration reads anyway are read in advance. A prefetch
changes caches alone, so values and errors stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.prefetch import LINE, prefetch
from graphc.codegen.llvm.storage import storage
from graphc.codegen.llvm.types import PTR
from graphc.kernel.ir import Block
from graphc.kernel.schedule.gathered import Gathered
from graphc.kernel.schedule.picked_rows import Picked, picked_from


def gathered_rows(k: KernelScope, loop: Block) -> list[tuple[Picked, Gathered]]:
    """The loads of a loop whose later rows are prefetched."""
    if not k.kernel.sites:
        return []
    schedule, result = k.kernel.schedule, []
    for picked in picked_from(loop):
        found = schedule.get(picked.load)
        if isinstance(found, Gathered):
            result.append((picked, found))
    return result


def prefetch_rows(
    k: KernelScope,
    loop: Block,
    rows: Sequence[tuple[Picked, Gathered]],
    index: Reg,
    upper: Reg,
) -> None:
    """Prefetches the rows of a later iteration, and leaves its scalars bound."""
    e = k.e
    last = upper - 1
    ahead = e.const(rows[0][1].iterations)
    later = e.least(index + ahead, last)
    for picked, schedule in rows:
        k.bind(loop.index, later)
        k.bind(picked.inner.index, e.const(0))
        with k.unreported():
            k.statements(picked.needed)
        place = k.uniform(picked.load.index)
        assert place is not None, "one place for all lanes"
        element = storage(picked.load.buffer.type.dtype)
        base = k.pointer(picked.load.buffer)
        address = e.assign(PTR, f"getelementptr {element}, {base}, {place}")
        prefetch(e, address, schedule.lines * LINE)
