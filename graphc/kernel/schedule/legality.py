"""Which schedules are right for a statement, whether or not they pay.

Kernel passes ask before they choose and ``verify_kernel`` checks what was chosen, so this is the
one place that says what code generation may rely on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from graphc.ir.dtypes import bool_
from graphc.kernel.analysis.index_range import loads_across, runs_as_one, used_otherwise
from graphc.kernel.ir import Statement, Var, walk
from graphc.kernel.schedule import row_stages
from graphc.kernel.schedule.kinds import (
    Collapsed,
    ColumnBlocked,
    Gathered,
    Pipelined,
    Prefetched,
    RowBlocked,
    Schedule,
    Streaming,
    Tiled,
    Vector,
)
from graphc.kernel.schedule.nest import Nest, row_of
from graphc.kernel.schedule.picked_rows import picked_from
from graphc.kernel.statements.bodies import accesses_in, blocks_in, reductions_in, stores_in


def obstacle(nest: Nest, statement: Statement, schedule: Schedule) -> str | None:
    """Why a statement of a kernel can't have a schedule; None if it can."""
    if statement.loop() is not None and statement not in nest.loops:
        return "a loop inside a vector loop or a reduction in lanes has no schedule"
    return _OBSTACLES[type(schedule)](nest, statement, schedule)


def vector_obstacle(nest: Nest, loop: Statement) -> str | None:
    """Why a loop can't run in vectors."""
    return None if loop.loop("vector") is not None else "it is no vector loop"


def column_block_obstacle(nest: Nest, loop: Statement) -> str | None:
    """Why a vector loop around reductions can't go block by block of its columns."""
    if loop.loop("vector") is None:
        return "it is no vector loop"
    reductions = reductions_in(loop.body)
    if not reductions:
        return "nothing is reduced in it"
    for inner in blocks_in(walk(loop.body)):
        if inner not in reductions:
            return "a loop stands in it"
        if any(r.combine.startswith("arg") or r.term.dtype is bool_ for r in inner.reducers):
            return "positions or truth values are reduced"
        if stores_in(inner.body):
            return "a reduction writes"
    inside = [*walk(loop.body)]
    written = {buffer for s in inside for buffer in s.writes}
    read = {buffer for s in inside for buffer in s.reads}
    return "what is written is read" if written & read else None


def tile_obstacle(nest: Nest, outer: Statement) -> str | None:
    """Why a loop can't go by tiles of it and the vector loop inside."""
    across = outer.loop("across")
    if across is None or not across.body:
        return "it is no loop across another"
    *before, last = across.body
    inner = last.loop("vector")
    if inner is None:
        return "no vector loop ends it"
    if isinstance(across.extent, Var) or isinstance(inner.extent, Var):
        return "an extent is a scalar"
    if blocks_in((*before, *inner.body)):
        return "further loops stand in it"
    if not loads_across(nest.forms, inner.body, across.index, inner.index):
        return "nothing is read across the vector loop"
    return None


def pipeline_obstacle(nest: Nest, rows: Statement) -> str | None:
    """Why rows can't be in different stages at the same time."""
    loop = rows.loop()
    return "it is no loop" if loop is None else row_stages.obstacle(loop, nest.kernel)


def row_block_obstacle(nest: Nest, rows: Statement) -> str | None:
    """Why several rows can't be gone through at a time."""
    row = row_of(rows)
    if row is None:
        return "it is no loop over rows"
    if not isinstance(row.extent, int) or row in nest.cut:
        return "how many columns run is known at run time only"
    if not all(s.is_scalar and s.is_plain for s in rows.body[:-1]):
        return "what is done once a row is more than scalars"
    if not all(s.is_plain for s in row.body):
        return "a row is more than scalars"
    return None


def collapse_obstacle(nest: Nest, rows: Statement) -> str | None:
    """Why rows can't run as one loop over all of their elements."""
    around, row = rows.block, row_of(rows)
    if around is None or row is None:
        return "it is no loop over rows"
    if not isinstance(row.extent, int) or isinstance(around.extent, Var):
        return "an extent is known at run time only"
    if rows in nest.cut:
        return "rows are handed out in ranges"
    if not all(s.is_arithmetic for s in rows.body[:-1]):
        return "what is done once a row is more than indices"
    if not all(s.is_plain for s in row.body):
        return "a row is more than scalars"
    accesses = [access.index for access in accesses_in(row.body)]
    if any(index not in nest.forms for index in accesses):
        return "a place is not affine"
    if {around.index, row.index} & used_otherwise(walk(rows.body), nest.forms):
        return "an index is computed with"
    places = [nest.forms[index] for index in accesses]
    if not runs_as_one(places, around.index, row.index, row.extent):
        return "rows do not follow each other in memory"
    return None


def stream_obstacle(nest: Nest, store: Statement) -> str | None:
    """Why a store can't be non-temporal."""
    access = store.access
    if access is None or not access.writes:
        return "it is no store"
    if access.buffer.role not in ("out", "part") or not access.buffer.type.shape:
        return "what it writes is no result of several elements"
    return None if store in nest.stores else "it stands in no vector loop"


def prefetch_obstacle(nest: Nest, load: Statement) -> str | None:
    """Why a load can't be prefetched. A condition is no reason: a prefetch never faults."""
    return None if load.access is not None and load.reads else "it is no load"


def gather_obstacle(nest: Nest, load: Statement) -> str | None:
    """Why the row of a later iteration can't be prefetched."""
    if load.access is None or not load.reads:
        return "it is no load"
    for loop in nest.loops:
        if any(picked.load is load for picked in picked_from(loop)):
            return None
    return "no number that the loop around reads picks its rows"


S = TypeVar("S", bound=Schedule)


def _when(
    find: Callable[[Nest, Statement], str | None], holds: Callable[[S], bool], otherwise: str
) -> Callable[[Nest, Statement, S], str | None]:
    """An obstacle of the statement, or of the schedule's own numbers."""

    def check(nest: Nest, statement: Statement, schedule: S) -> str | None:
        return find(nest, statement) if holds(schedule) else otherwise

    return check


def _is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _pipelined(nest: Nest, rows: Statement, schedule: Pipelined) -> str | None:
    found, loop = pipeline_obstacle(nest, rows), rows.loop()
    if found is not None or loop is None:
        return found
    count = len(row_stages.stages_of(loop)[0])
    return None if schedule.stages == count else f"there are {count} stages"


def _row_blocked(nest: Nest, rows: Statement, schedule: RowBlocked) -> str | None:
    found = row_block_obstacle(nest, rows)
    row = row_of(rows)
    if found is not None or row is None:
        return found
    if not isinstance(nest.kernel.schedule.get(row), Vector):
        return "a row has no vectors"
    assert isinstance(row.extent, int), "so it was found to be"
    fits = schedule.rows > 0 and 0 < schedule.columns <= row.extent
    return None if fits else f"rows have {row.extent} columns"


_POWERS = "lanes are a power of two"

_OBSTACLES: Mapping[type[Schedule], Callable[..., str | None]] = {
    Vector: _when(vector_obstacle, lambda s: _is_power(s.lanes), _POWERS),
    Collapsed: _when(collapse_obstacle, lambda s: _is_power(s.lanes), _POWERS),
    ColumnBlocked: _when(
        column_block_obstacle,
        lambda s: _is_power(s.lanes) and s.columns > 0 and s.columns % s.lanes == 0,
        f"{_POWERS} and divide the columns",
    ),
    Tiled: _when(
        tile_obstacle,
        lambda s: min(s.rows, s.columns) > 1 and _is_power(s.rows) and _is_power(s.columns),
        "rows and columns of a tile are powers of two",
    ),
    Pipelined: _pipelined,
    RowBlocked: _row_blocked,
    Streaming: _when(stream_obstacle, lambda s: True, ""),
    Prefetched: _when(prefetch_obstacle, lambda s: s.level in (1, 2), "the levels are 1 and 2"),
    Gathered: _when(gather_obstacle, lambda s: s.lines > 0, "no line is fetched"),
}


__all__ = [
    "collapse_obstacle",
    "column_block_obstacle",
    "gather_obstacle",
    "obstacle",
    "pipeline_obstacle",
    "prefetch_obstacle",
    "row_block_obstacle",
    "stream_obstacle",
    "tile_obstacle",
    "vector_obstacle",
]
