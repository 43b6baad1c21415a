"""The lanes of vector loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.kernel.analysis.lane_groups import MOST, grain
from graphc.kernel.ir import Block, Size, Statement
from graphc.kernel.schedule.base import Schedule
from graphc.kernel.schedule.collapsed import Collapsed
from graphc.kernel.schedule.nest import Nest, fitting, widest_bits
from graphc.kernel.schedule.pipelined import Pipelined
from graphc.kernel.schedule.tiled import Tiled
from graphc.kernel.schedule.vector import Vector
from graphc.kernel.statements.bodies import blocks_in, loops_in
from passes.kernels.base import Choice, KernelContext, kernel_pass

_WITH_LANES = (Collapsed, Pipelined, Tiled)
"""Schedules that set the lanes of the loops inside."""


def runs_as_around(loop: Statement, nest: Nest, schedule: Mapping[Statement, Schedule]) -> bool:
    """Whether the schedule of the loop around a vector loop has lanes for it."""
    around = nest.around.get(loop)
    return around is not None and isinstance(schedule.get(around), _WITH_LANES)


@kernel_pass("vector", "block_columns")
def vectorize(statement: Statement, context: KernelContext) -> Choice:
    """Vectors for a vector loop."""
    loop = statement.loop()
    if loop is None or Vector.obstacle(context.nest, loop) is not None:
        return None
    if runs_as_around(loop, context.nest, context.chosen):
        return None
    lanes = lanes_of(loop.body, loop.extent, context)
    lanes = max(lanes, _lanes_in_flight(loop, context))
    if not context.is_glue and grain(context.nest.forms, loop.body, loop.index) > 1:
        # what groups of lanes share fills fewer registers, and waits for itself
        twice = min(2 * lanes, MOST)
        if not isinstance(loop.extent, int) or loop.extent >= twice:
            lanes = twice
    return Vector(lanes)


def _lanes_in_flight(loop: Block, context: KernelContext) -> int:
    """Lanes for a loop inside which an innermost one carries values; 1 if none does.

    Each of its iterations waits for the one before. Several vectors side by side hide that, as long
    as the values of all stay in registers.
    """
    inside = [s for s in loops_in(loop.body) if s.carries and not blocks_in(s.body)]
    if not inside or context.is_glue:
        return 1
    bits = context.target.vector_bits * context.tuning.carried_registers
    lanes = bits // widest_bits(loop.body) // max(len(s.carries) for s in inside)
    lanes = min(1 << max(0, lanes.bit_length() - 1), MOST)
    extent = loop.extent
    return fitting(lanes, extent, context.target) if isinstance(extent, int) else lanes


def lanes_of(body: Sequence[Statement], extent: Size, context: KernelContext) -> int:
    """Lanes for a vector loop over ``extent`` elements: two or more registers of the widest data.

    In glue one register, where registers are wide enough: LLVM compiles values of one register in a
    third of the time, and spills around calls take half the stack.
    """
    target, widest = context.target, widest_bits(body)
    width = max(8, 2 * target.vector_bits // 64) if widest == 64 else 32
    if context.is_glue and target.vector_bits == 512:
        width = min(width, 512 // widest)
    return fitting(width, extent, target) if isinstance(extent, int) else width


__all__ = ["lanes_of", "runs_as_around", "vectorize"]
