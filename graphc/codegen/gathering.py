"""Rows that are picked by number from a large table, asked for some iterations before their turn.

Where such a row lies is known only when its number has been read, and no processor guesses it: each
row would be waited for. Invariant: of the numbers only those are read that a later iteration reads
anyway, and what is asked for changes nothing but caches, so values and errors stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphc.codegen.binding import storage
from graphc.codegen.caches import LINE, prefetch
from graphc.codegen.emitter import I64, PTR, Reg
from graphc.kernel.ir import (
    Apply,
    Check,
    Const,
    DimValue,
    Load,
    Loop,
    Reduce,
    Statement,
    Var,
    operands_of,
)

if TYPE_CHECKING:
    from graphc.codegen.kernel import KernelEmitter

AHEAD = 4
"""Iterations. Taking 8192 of 50,000 rows of 256 floats took 0.47 ms on a Zen 4; asked for one row
ahead 0.34, 4 rows 0.31, 16 rows 0.34."""

MIN_ROW_BYTES = 2 * LINE
"""Of shorter rows so many are under way at once that none is waited for long."""

MAX_LINES = 16
"""Lines of a row that are asked for, beyond which the processor reads ahead by itself."""

UNKNOWN_LINES = 4
"""The same for rows of unknown length."""

_SCALARS = (Apply, Check, Const, DimValue, Load)


@dataclass(frozen=True, slots=True)
class Picked:
    """A load of rows whose number the loop around reads.

    Attributes:
        load: the load, in a loop over the row.
        column: the index of that loop.
        needed: what leads to the place of the row's first element, in order.
        lines: how many lines to ask for.
    """

    load: Load
    column: Var
    needed: Sequence[Statement]
    lines: int


def picked_rows(loop: Loop, l2_bytes: int) -> list[Picked]:
    """The rows that iterations of a loop pick from tables that the near caches may not hold."""
    if loop.kind != "parallel":
        return []
    found = []
    outer = {s.result: s for s in loop.body if isinstance(s, _SCALARS)}
    for inner in loop.body:
        if not isinstance(inner, (Loop, Reduce)):
            continue
        made = outer | {s.result: s for s in inner.body if isinstance(s, _SCALARS)}
        for load in inner.body:
            if not isinstance(load, Load) or load.buffer.role != "in":
                continue
            size, lines = load.buffer.type.bytes, UNKNOWN_LINES
            if isinstance(inner.extent, int):
                row = inner.extent * load.buffer.type.dtype.bytes
                lines = 0 if row < MIN_ROW_BYTES else min(-(-row // LINE), MAX_LINES)
            if not lines or (isinstance(size, int) and size <= l2_bytes):
                continue
            needed = _needed(load.index, made)
            if _is_picked(needed, made):
                found.append(Picked(load, inner.index, needed, lines))
    return found


def _needed(wanted: Var, made: Mapping[Var, Statement]) -> list[Statement]:
    """What a scalar follows from, in order; what is not made here counts as known."""
    marked, stack = {wanted}, [wanted]
    while stack:
        statement = made.get(stack.pop())
        if statement is not None:
            new = [var for var in operands_of(statement) if var not in marked]
            marked.update(new)
            stack += new
    return [statement for var, statement in made.items() if var in marked]


def _is_picked(needed: Sequence[Statement], made: Mapping[Var, Statement]) -> bool:
    """Whether a place follows from a checked number that is read at a place known by itself."""
    loads = [s for s in needed if isinstance(s, Load)]
    checks = [s for s in needed if isinstance(s, Check)]
    if not loads or not checks or any(load.condition is not None for load in loads):
        return False
    before = [s for load in loads for s in _needed(load.index, made)]
    return not any(isinstance(s, (Check, Load)) for s in before)


def ask_ahead(k: KernelEmitter, loop: Loop, rows: Sequence[Picked], index: Reg, upper: Reg) -> None:
    """Asks for the rows of a later iteration, and leaves its scalars bound."""
    e = k.e
    last = e.binary("sub", upper, e.const(1, I64))
    later = e.intrinsic("smin", I64, e.binary("add", index, e.const(AHEAD, I64)), last)
    for picked in rows:
        k.bind(loop.index, later)
        k.bind(picked.column, e.const(0, I64))
        for statement in picked.needed:
            if isinstance(statement, Check):
                k.bind(statement.result, _place(k, statement))
            else:
                k.statements([statement])
        place = k.uniform(picked.load.index)
        assert place is not None, "one place for all lanes"
        element = storage(picked.load.buffer.type.dtype)
        base = k.pointer(picked.load.buffer)
        address = e.assign(PTR, f"getelementptr {element}, {base}, {place}")
        prefetch(e, address, picked.lines * LINE)


def _place(k: KernelEmitter, check: Check) -> Reg:
    """The place that a number says; one out of range is reported when its turn comes."""
    e = k.e
    number = k.uniform(check.index)
    assert number is not None, "one number for all lanes"
    if not check.wraps:
        return number
    from_end = e.binary("add", number, k.dim(check.bound))
    return e.select(e.icmp("slt", number, e.const(0, I64)), from_end, number)
