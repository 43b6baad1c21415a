"""Rows that follow each other in memory, run through as one where they are no whole vectors.

Maps are lowered so; what stands behind a matrix product is a loop over the rows of a block. Rows
that are written where they were read would wait for each other otherwise: a load of some lanes
waits for the store of some lanes before it, whichever they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphc.codegen.emitter import I64
from graphc.ir.dims import product
from graphc.kernel.index_range import runs_as_one, used_otherwise
from graphc.kernel.ir import Apply, Cast, Const, DimValue, Load, Loop, Store, Var, walk

if TYPE_CHECKING:
    from graphc.codegen.kernel import KernelEmitter

WHOLE = 32
"""Rows of a multiple of this have nothing left behind their vectors."""


def emit_flat_rows(k: KernelEmitter, rows: Loop) -> bool:
    """Emits a loop over rows as one over their elements, or nothing and False where it isn't."""
    *before, row = rows.body
    if not isinstance(row, Loop) or rows.kind != "parallel" or row.kind != "vector":
        return False
    if not isinstance(row.extent, int) or row.extent % WHOLE == 0 or isinstance(rows.extent, Var):
        return False
    if k.ranges.cuts(rows) or not all(isinstance(s, (Apply, Const, DimValue)) for s in before):
        return False
    if not all(isinstance(s, (Apply, Cast, Const, DimValue, Load, Store)) for s in row.body):
        return False
    accesses = [s.index for s in row.body if isinstance(s, (Load, Store))]
    if any(index not in k.forms for index in accesses):
        return False
    if {rows.index, row.index} & used_otherwise(walk(rows.body), k.forms):
        return False
    places = [k.forms[index] for index in accesses]
    if not runs_as_one(places, rows.index, row.index, row.extent):
        return False
    k.bind(rows.index, k.e.const(0, I64))
    k.statements(before)
    k.vector_loop(replace(row, extent=product((rows.extent, row.extent))))
    return True


__all__ = ["emit_flat_rows"]
