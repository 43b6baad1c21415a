"""Blocks, loads and stores among the statements of a body, in order.

Given ``walk(body)``, these functions look at all levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphc.ir.dims.expressions import Dim
from graphc.kernel.signature import Buffer
from graphc.kernel.statements.base import Access, Block, Statement, Var


def dims_of(statement: Statement) -> tuple[Dim, ...]:
    """The dims that a statement itself mentions."""
    return tuple([size for size in statement.sizes if not isinstance(size, Var)])


def blocks_in(body: Iterable[Statement]) -> list[Block]:
    """The loops and reductions among statements."""
    return [s for each in body if (s := each.block) is not None]


def loops_in(body: Iterable[Statement]) -> list[Block]:
    """The loops among statements."""
    return [s for each in body if (s := each.loop()) is not None]


def reductions_in(body: Iterable[Statement]) -> list[Block]:
    """The reductions among statements."""
    return [s for each in body if (s := each.block) is not None and s.reducers]


def accesses_in(body: Iterable[Statement]) -> list[Access]:
    """The loads and stores among statements."""
    return [s for each in body if (s := each.access) is not None]


def loads_in(body: Iterable[Statement]) -> list[Access]:
    """The loads among statements."""
    return [s for each in body if (s := each.access) is not None and s.is_scalar]


def stores_in(body: Iterable[Statement]) -> list[Access]:
    """The stores among statements."""
    return [s for each in body if (s := each.access) is not None and not s.is_scalar]


def moved(body: Iterable[Statement], to: Mapping[Buffer, Buffer]) -> tuple[Statement, ...]:
    """Statements with other buffers in place of those that are keys."""
    return tuple([statement.moved(to) for statement in body])
