"""Collapsed rows: rows that follow each other in memory, as one vector loop."""

from __future__ import annotations

from graphc.codegen.kernels.loops import emit_vector_loop
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.kernels.table import emits
from graphc.ir.dims.expressions import product
from graphc.kernel.ir import Block, Var
from graphc.kernel.schedule.collapsed import Collapsed


@emits(Collapsed)
def emit_flat_rows(k: KernelScope, rows: Block, schedule: Collapsed) -> None:
    """Emits a loop over rows as one over their elements."""
    *before, last = rows.body
    row = last.block
    assert row is not None, "so legality says"
    assert not isinstance(rows.extent, Var) and not isinstance(row.extent, Var)
    k.bind(rows.index, k.e.const(0))
    k.statements(before)
    emit_vector_loop(k, row.over(product((rows.extent, row.extent))), schedule)


__all__ = ["emit_flat_rows"]
