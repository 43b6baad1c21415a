"""Vector loops: their width, and the loop tail, a masked vector or one element after the other.

Rows of few columns consist of a tail alone. Lanes outside the mask read and write nothing and
report no index, and their results are dropped. Lanes and single elements are emitted by the same
code, so the bits don't depend on which of them a target has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graphc.codegen.kernels.lane_values import LinearLanes
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.masked import first_lanes
from graphc.kernel.ir import Block
from graphc.kernel.schedule.nest import fitting


def lanes_for(k: KernelScope, width: int, left: int | None) -> int:
    """The lanes of a vector for what is left of vectors of ``width``, ``left`` elements if that is
    known; 1 where single elements are as good, or all there is.

    Half of a vector has one register. Functions that are called are there for whole ones only.
    """
    if not k.target.masks or (left is not None and left < 2):
        return 1
    if k.module.calls_functions:
        return width
    return width // 2 if left is None else fitting(width, left, k.target)


@contextmanager
def some_lanes(k: KernelScope, count: Reg | int, lanes: int) -> Iterator[None]:
    """Inside, statements are emitted for the first ``count`` of so many lanes, at least one."""
    k.lanes, k.mask = lanes, None if count == lanes else first_lanes(k.e, count, lanes)
    k.count = count
    yield
    k.lanes, k.mask = 1, None


def emit_leftover(
    k: KernelScope,
    loop: Block,
    lower: Reg,
    upper: Reg,
    width: int,
    left: int | None,
    aligned: int = 1,
) -> None:
    """Runs a vector loop from ``lower`` to ``upper``, over ``left`` elements if that is known.

    ``lower`` is a multiple of ``aligned``.
    """
    e, lanes = k.e, lanes_for(k, width, left)
    aligned = min(aligned, lanes)
    if lanes == 1:
        with e.loop(lower, upper) as single:
            k.bind(loop.index, single.index)
            k.iteration(loop.body)
    elif left is not None:
        k.bind(loop.index, LinearLanes(lower, e.const(1), aligned))
        with some_lanes(k, left, lanes):
            k.iteration(loop.body)
    else:
        with e.loop(lower, upper, lanes) as several:
            k.bind(loop.index, LinearLanes(several.index, e.const(1), aligned))
            with some_lanes(k, upper - several.index, lanes):
                k.iteration(loop.body)


__all__ = ["emit_leftover", "lanes_for", "some_lanes"]
