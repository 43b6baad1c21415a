"""4K aliasing: where in their pages rows lie that a loop reads and writes.

A processor compares a load with earlier stores by the lowest 12 bits of their addresses first. If
these agree, the load waits for the store, though the addresses differ. Where given rows lie is up
to the caller. But a row in scratch can begin anywhere in a page, and a result can be written from
any column on. Both are chosen here, when a kernel begins.

Invariant: the choice moves no element of a result and changes no order of a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.base.target import PAGE
from graphc.base.tuning.machine import Tuning
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.types import I1


def beginning(e: FunctionEmitter, row_bytes: int, gap: Reg | None) -> Reg:
    """By how many bytes a row in scratch begins before the row it is made of, modulo a page.

    ``row_bytes`` lie between a row and the next one, ``gap`` between what is written of it and what
    is read, if something is.
    """
    tuning = Tuning.of(e.module.target)
    clear = tuning.alias_free_bytes
    choices = [at for at in tuning.alias_beginnings if (row_bytes + at) % PAGE < clear]
    return _first(e, choices, lambda place: [] if gap is None else [gap - place])


def turn(
    e: FunctionEmitter, row_bytes: int, step_bytes: int, steps: int, rows: int, gap: Reg | None
) -> Reg:
    """By how many steps writing a row is ahead of reading ``rows`` rows behind it."""
    tuning = Tuning.of(e.module.target)
    clear, turns = tuning.alias_free_bytes, tuning.alias_turns
    choices = [
        count
        for count in turns
        if count < steps and step_bytes <= (count * step_bytes - row_bytes) % PAGE < clear
    ]
    distances = {number * row_bytes % PAGE for number in range(1, rows + 1)}

    def to_reads(count: int) -> list[Reg]:
        if gap is None:
            return []
        return [gap + (place - count * step_bytes) for place in sorted(distances)]

    return _first(e, choices or [min(turns)], to_reads)


def _first(
    e: FunctionEmitter, choices: Sequence[int], distances: Callable[[int], Sequence[Reg]]
) -> Reg:
    """The first choice that leaves all distances clear, or the last one."""
    clear = Tuning.of(e.module.target).alias_free_bytes
    chosen = e.const(choices[-1])
    for choice in reversed(choices[:-1]):
        fits = e.const(True, I1)
        for distance in distances(choice):
            inside = distance & (PAGE - 1)
            is_clear = e.icmp("ult", inside, clear)
            fits = fits & is_clear
        chosen = e.select(fits, choice, chosen)
    return chosen
