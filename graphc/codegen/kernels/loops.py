"""Loops iteration by iteration, and vector loops with their loop tails.

A vector loop and its tail are emitted by the same code, so both agree to the bit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphc.codegen.kernels.gather_prefetch import gathered_rows, prefetch_rows
from graphc.codegen.kernels.lane_values import LinearLanes
from graphc.codegen.kernels.loads_stores import prefetch_streams
from graphc.codegen.kernels.loop_tail import emit_leftover
from graphc.codegen.kernels.nontemporal_stores import start_of_groups, start_of_lines
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.kernels.table import emits
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import any_lane
from graphc.ir.dtypes import bool_
from graphc.kernel.analysis.lane_groups import grain
from graphc.kernel.analysis.uniform import uniform_carries
from graphc.kernel.ir import Block, Var, walk
from graphc.kernel.schedule.base import Schedule
from graphc.kernel.schedule.collapsed import Collapsed
from graphc.kernel.schedule.vector import Vector


def emit_plain_loop(
    k: KernelScope, statement: Block, bounds: tuple[Reg, Reg] | None = None
) -> None:
    """Emits a loop iteration by iteration, or a part of its iterations."""
    e, carries = k.e, statement.carries
    uniform = frozenset[Var]()
    if carries and k.lanes > 1:
        uniform = uniform_carries(statement, lambda var: k.uniform(var) is not None)
    arguments = [carry.argument for carry in carries]
    words = _words_of_bools(k, statement, uniform)

    def value_of(argument: Var, register: Reg) -> Reg:
        """What a carried register holds."""
        return register < 0 if argument in words else register

    def any_goes_on(phis: Sequence[Reg]) -> Reg:
        place = next(n for n, argument in enumerate(arguments) if argument is statement.lasts)
        return any_lane(e, value_of(arguments[place], phis[place]))

    def carried(argument: Var, value: Var) -> Reg:
        found = k.uniform(value) if argument in uniform else k.spread(value)
        assert found is not None, "what agrees is one register"
        word = words.get(argument)
        return found if word is None else e.convert("sext", found, word)

    initial = [carried(carry.argument, carry.initial) for carry in carries]
    lower, upper = bounds or k.bounds(statement)
    picked = gathered_rows(k, statement)
    k.held = {}
    lasts = None if statement.lasts is None else any_goes_on
    with e.loop(lower, upper, 1, initial, lasts=lasts) as loop:
        if picked:
            prefetch_rows(k, statement, picked, loop.index, upper)
        k.bind(statement.index, loop.index)
        for argument, register in zip(arguments, loop.carries, strict=True):
            k.bind(argument, value_of(argument, register))
        with k.ranges.iteration(statement, loop.index):
            (k.statements if carries else k.iteration)(statement.body)
        loop.yields = [carried(carry.argument, carry.following) for carry in carries]
    k.held = {}
    for carry, register in zip(carries, loop.results, strict=True):
        k.bind(carry.result, value_of(carry.argument, register))


def _words_of_bools(k: KernelScope, loop: Block, uniform: Collection[Var]) -> dict[Var, str]:
    """For the bools that lanes carry the integers whose sign they are.

    Without mask registers a bool of a lane is as wide as the numbers that it decides on. LLVM would
    carry it as a byte, and pack and widen in each iteration.
    """
    carried = [carry.argument for carry in loop.carries if carry.argument not in uniform]
    widest = max((var.dtype.bits for var in carried if var.dtype is not bool_), default=0)
    if k.lanes == 1 or k.e.module.target.masks or not widest:
        return {}
    return {var: f"i{widest}" for var in carried if var.dtype is bool_}


@emits(Vector)
def emit_vector_loop(
    k: KernelScope,
    statement: Block,
    schedule: Schedule | None,
    bounds: tuple[Reg, Reg] | None = None,
) -> None:
    """Emits a vector loop, over a part of its elements or over all it is to run."""
    assert isinstance(schedule, (Vector, Collapsed)), "vector loops have lanes"
    e, extent, width = k.e, statement.extent, schedule.lanes
    cut = bounds is not None or k.ranges.cuts(statement)
    lower, upper = bounds or k.bounds(statement)
    step = grain(k.forms, walk(statement.body), statement.index)
    aligned = 1 if bounds is not None or step > width else step
    if isinstance(extent, int) and extent < max(width, 2):
        emit_leftover(k, statement, lower, upper, width, None if cut else extent, aligned)
        return
    k.streaming.clear()
    start = start_of_lines(k, statement.body, statement.index, extent, lower)
    if start is not None and aligned > 1:
        start = start_of_groups(k, lower, start, aligned)
    if start is not None:
        start = e.least(start, upper)
        rest = (upper - start) & -width
        whole = start + rest
    elif isinstance(extent, int) and not cut:
        whole = e.const(extent - extent % width)
    else:
        count = upper - lower
        whole = lower + (count & -width)
    k.lanes = width
    with e.loop(lower if start is None else start, whole, width) as loop:
        k.bind(statement.index, LinearLanes(loop.index, e.const(1), aligned))
        k.iteration(statement.body)
        prefetch_streams(k, statement.body, width)
    k.lanes = 1
    k.streaming.clear()
    if start is not None:
        # what lies before the first line and after the last, by one piece of code
        zero = e.const(0)
        with e.loop(zero, 2) as part:
            before = part.index.equals(zero)
            first = e.select(before, lower, whole)
            past = e.select(before, start, upper)
            emit_leftover(k, statement, first, past, width, None, aligned)
    elif not isinstance(extent, int) or extent % width:
        known = extent % width if isinstance(extent, int) and not cut else None
        emit_leftover(k, statement, whole, upper, width, known, aligned)


__all__ = ["emit_plain_loop", "emit_vector_loop"]
