"""The loops of a kernel as kernel passes, legality and code generation look at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.base.lazily import once
from graphc.base.target import Target
from graphc.ir.dims.expressions import Dim
from graphc.kernel.analysis.index_range import Affine, index_forms
from graphc.kernel.analysis.split import split_levels
from graphc.kernel.ir import (
    Apply,
    Cast,
    Const,
    Contract,
    DimValue,
    Kernel,
    Load,
    Loop,
    Reduce,
    Statement,
    Store,
    Var,
)

SCALARS = (Apply, Cast, Const, DimValue, Load)
"""Statements that give a scalar and can't fail."""


class Nest:
    """What a kernel consists of.

    Attributes:
        kernel: the kernel.
        loops: those that no vector loop and no reduction in lanes is around, outer ones first.
        stores: those that stand in vector loops, in order.
        loads: all of them, in order.
        around: of each of the loops the one around it, if there is one.
        reduces: whether there is a reduction.
        cut: what runs a range of its iterations, as the kernel is split.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.loops: list[Loop] = []
        self.stores: list[Store] = []
        self.loads: list[Load] = []
        self.around: dict[Loop, Loop] = {}
        self.reduces = False
        self.cut: frozenset[Loop | Contract] = frozenset(split_levels(kernel))
        self._enter(kernel.body, None, False)

    def _enter(self, body: Sequence[Statement], around: Loop | None, is_vector: bool) -> None:
        # as deep as loops are nested
        for statement in body:
            kind = type(statement)
            if kind is Apply:
                continue
            if isinstance(statement, Load):
                self.loads.append(statement)
            elif isinstance(statement, Store):
                if around is not None and around.kind == "vector":
                    self.stores.append(statement)
            elif isinstance(statement, Loop):
                if not is_vector:
                    self.loops.append(statement)
                    if around is not None:
                        self.around[statement] = around
                self._enter(statement.body, statement, is_vector or statement.kind == "vector")
            elif isinstance(statement, Reduce):
                self.reduces = True
                self._enter(statement.body, around, is_vector or statement.order == "lanes")

    @once
    def forms(self) -> Mapping[Var, Affine]:
        """The forms of all indices that have one."""
        return index_forms(self.kernel)


def row_of(rows: Loop) -> Loop | None:
    """The one vector loop of a loop over rows, behind what is done once a row."""
    row = rows.body[-1] if rows.body else None
    if rows.kind != "parallel" or rows.carries or not isinstance(row, Loop):
        return None
    return row if row.kind == "vector" else None


def widest_bits(body: Sequence[Statement]) -> int:
    """The bits of the widest data in flight."""
    widest, stack = 8, [body]
    while stack:
        for statement in stack.pop():
            if isinstance(statement, Load):
                widest = max(widest, statement.result.dtype.bits)
            elif isinstance(statement, Store):
                widest = max(widest, statement.value.dtype.bits)
            elif isinstance(statement, (Apply, Cast)) and statement.result.dtype.is_float:
                widest = max(widest, statement.result.dtype.bits)
            elif isinstance(statement, (Loop, Reduce)):
                stack.append(statement.body)
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


__all__ = ["SCALARS", "Nest", "fitting", "row_of", "tile_extent", "widest_bits"]
