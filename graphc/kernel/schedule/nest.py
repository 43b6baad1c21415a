"""The loops of a kernel as kernel passes, legality and code generation look at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.base.lazily import once
from graphc.base.target import Target
from graphc.ir.dims.expressions import Dim
from graphc.kernel.analysis.index_range import Affine, index_forms
from graphc.kernel.analysis.periods import Periods
from graphc.kernel.analysis.split import split_levels
from graphc.kernel.ir import Block, Kernel, Statement, Var, walk
from graphc.kernel.statements.base import Access


class Nest:
    """The loops, loads and stores of a kernel.

    Attributes:
        kernel: the kernel.
        loops: those that no vector loop and no reduction in lanes is around, outer ones first.
        stores: those that stand in vector loops, in order.
        loads: all of them, in order.
        around: for each of the loops the loop around it, if there is one.
        reduces: whether there is a reduction.
        cut: the levels of which a task runs a range of iterations.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.loops: list[Block] = []
        self.stores: list[Access] = []
        self.loads: list[Access] = []
        self.around: dict[Statement, Block] = {}
        self.reduces = False
        self.cut: frozenset[Statement] = frozenset(split_levels(kernel))
        self._enter(kernel.body, None, False)

    def _enter(self, body: Sequence[Statement], around: Block | None, is_vector: bool) -> None:
        # as deep as loops are nested
        for statement in body:
            access, block = statement.access, statement.block
            if access is not None:
                if access.reads:
                    self.loads.append(access)
                elif around is not None and around.kind == "vector":
                    self.stores.append(access)
            elif block is not None:
                inside = around
                if block.reducers:
                    self.reduces = True
                else:
                    inside = block
                    if not is_vector:
                        self.loops.append(block)
                        if around is not None:
                            self.around[block] = around
                self._enter(block.body, inside, is_vector or block.lanes_inside)

    @once
    def forms(self) -> Mapping[Var, Affine]:
        """The forms of all indices that have one."""
        return index_forms(self.kernel)

    @once
    def periods(self) -> Periods:
        """Which loads and stores share the elements of a few neighbours."""
        return Periods(self.kernel, self.forms)


def row_of(rows: Statement) -> Block | None:
    """The one vector loop of a loop over rows, behind statements that run once a row."""
    around = rows.loop("parallel")
    if around is None or around.carries or not around.body:
        return None
    return around.body[-1].loop("vector")


def widest_bits(body: Sequence[Statement]) -> int:
    """The bits of the widest data in flight."""
    widest = 8
    for statement in walk(body):
        access = statement.access
        if access is not None:
            widest = max(widest, access.value.dtype.bits)
        elif statement.is_scalar and statement.operands:
            (result,) = statement.results
            if result.dtype.is_float:
                widest = max(widest, result.dtype.bits)
    return widest


def fitting(width: int, extent: int, target: Target) -> int:
    """The lanes of a vector, ``width`` at most, for rows of ``extent`` elements: with masks the
    fewest that hold a whole row, else the most that a row fills."""
    if target.masks:
        return min(width, 1 << max(extent - 1, 0).bit_length())
    return min(width, 1 << max(extent, 1).bit_length() - 1)


def tile_extent(extent: Dim, most: int) -> int:
    """Rows or columns of a tile: the most that a loop of that extent fills, by halves."""
    while isinstance(extent, int) and most > extent:
        most //= 2
    return most


__all__ = ["Nest", "fitting", "row_of", "tile_extent", "widest_bits"]
