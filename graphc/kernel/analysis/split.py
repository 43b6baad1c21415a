"""Splitting: a kernel's outermost iterations in ranges, which tasks run.

``Kernel.split`` is the number of outermost levels whose iterations one flat range numbers. The
levels are loops whose iterations are independent, each the only effect of the body around it, and
at last perhaps a matrix product, whose iterations are blocks of columns or rows. So any ranges that
cover all iterations, run in any order or at once, write what one run over everything writes. A
kernel of several nests has none (``graphc.lower.launch_fission`` makes several kernels of it).

Whether a kernel is split depends on itself alone, not on how many threads there are. How finely
the iterations are handed out is decided when it runs (``graphc.kernel.analysis.task_size``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from graphc.base.tuning.sharing import SHARING
from graphc.base.tuning.tasks import TASKS
from graphc.ir.dims.expressions import Dim, at_hint, ceil_div, product
from graphc.kernel.analysis.cost import kernel_work
from graphc.kernel.ir import (
    Apply,
    Check,
    Contract,
    Kernel,
    Loop,
    Reduce,
    Split,
    Statement,
    Store,
    Var,
    walk,
)
from graphc.kernel.scalar import PRIMITIVES

Level: TypeAlias = Loop | Contract


# --- levels --------------------------------------------------------------------------------------


def split_levels(kernel: Kernel) -> tuple[Level, ...]:
    """The levels that a range goes over, outermost first."""
    return possible_levels(kernel)[: kernel.split.levels] if kernel.split is not None else ()


def possible_levels(kernel: Kernel) -> tuple[Level, ...]:
    """All levels that a range could go over."""
    result: list[Level] = []
    body: Sequence[Statement] = kernel.body
    while True:
        effects = [s for s in body if isinstance(s, _EFFECTS)]
        if len(effects) != 1:
            return tuple(result)
        if result and any(isinstance(s, Check) for s in body):
            # an index is checked even if the loops inside have no iteration
            return tuple(result)
        (only,) = effects
        if isinstance(only, Contract):
            is_known = not isinstance(only.m, Var) and not isinstance(only.n, Var)
            return (*result, only) if is_known else tuple(result)
        if not isinstance(only, Loop) or only.kind == "serial":
            return tuple(result)
        if isinstance(only.extent, Var):
            return tuple(result)
        result.append(only)
        if only.kind != "parallel":
            return tuple(result)
        body = only.body


_EFFECTS = (Store, Loop, Reduce, Contract)


def level_extent(level: Level) -> Dim:
    """How many iterations a level has."""
    if isinstance(level, Loop):
        assert not isinstance(level.extent, Var), "levels have extents known before they run"
        return level.extent
    return ceil_div(*divided(level)[1:])


def divided(statement: Contract) -> tuple[Literal["m", "n"], Dim, int]:
    """The size of a product that ranges cut, its extent, and how much an iteration takes of it.

    Columns, where there are enough of them: no part of the right operand is then packed twice.
    """
    n, m = statement.n, statement.m
    assert not isinstance(n, Var) and not isinstance(m, Var), "so have products"
    few_columns = isinstance(n, int) and n < 4 * SHARING.column_block
    few_rows = isinstance(m, int) and m < 4 * SHARING.row_block
    if few_columns and not few_rows:
        return "m", m, SHARING.row_block
    return "n", n, SHARING.column_block


def is_streamed(statement: Contract) -> bool:
    """Whether a product is known to have so few rows that it streams through its right operand."""
    has_few_rows = isinstance(statement.m, int) and statement.m <= SHARING.few_rows
    return has_few_rows and statement.template == "panel" and statement.b.column_stride == 1


def with_best_split(kernel: Kernel) -> Kernel:
    """The kernel with as many levels handed out as pays, perhaps none."""
    work = kernel_work(kernel)
    return _with_split(kernel, _chosen_levels(kernel, work), work)


def with_split(kernel: Kernel, levels: int) -> Kernel:
    """The kernel with ``levels`` levels handed out, or as many as there are; 0 for none."""
    return _with_split(kernel, levels, kernel_work(kernel) if levels else 0)


def _with_split(kernel: Kernel, levels: int, work: Dim) -> Kernel:
    if levels == 0:
        return replace(kernel, split=None)
    cut = possible_levels(kernel)[:levels]
    extent = product(level_extent(level) for level in cut)
    split = Split(levels, extent, work, _least(cut[-1]))
    return replace(kernel, split=split)


def _streams_down(level: Loop) -> bool:
    """Whether a level reads memory down its columns as fast as that gives it, and does no more.

    Positions of extremes, functions and what is written for each element take so long that narrow
    stripes cost nothing.
    """
    if level.kind != "vector":
        return False
    reductions = [statement for statement in level.body if isinstance(statement, Reduce)]
    return (
        bool(reductions)
        and not any(isinstance(statement, Loop) for statement in level.body)
        and not any(r.combine.startswith("arg") for s in reductions for r in s.reducers)
        and all(PRIMITIVES[s.primitive].exact for s in walk(reductions) if isinstance(s, Apply))
    )


def _least(last: Level) -> int:
    """Iterations of the last level that a task has at least."""
    if isinstance(last, Loop):
        return SHARING.reduced_columns if _streams_down(last) else 1
    axis, _, size = divided(last)
    if axis != "n" or not is_streamed(last):
        return 1
    bytes_ = size * last.b.buffer.type.dtype.bytes
    whole, count = SHARING.few_rows_bytes // bytes_, level_extent(last)
    return max(1, min(whole, -(-count // 2)) if isinstance(count, int) else whole)


def _chosen_levels(kernel: Kernel, work: Dim) -> int:
    """How many levels to hand out; 0 where it cannot pay at any size, or cannot be done."""
    if isinstance(work, int) and work < TASKS.serial_work:
        return 0
    iterations: Dim = 1
    count = 0
    for level in possible_levels(kernel):
        extent = level_extent(level)
        if extent == 0:
            return 0
        if isinstance(iterations, int) and iterations >= SHARING.enough_iterations:
            break
        short = isinstance(extent, int) and extent < SHARING.long_loop
        if count and short and isinstance(level, Loop) and level.kind != "parallel":
            break
        iterations = iterations * extent
        count += 1
    return 0 if iterations == 1 else count


def is_worth_sharing(kernel: Kernel) -> bool:
    """Whether threads can share a kernel, and would at sizes that are likely."""
    split = with_best_split(kernel).split
    if split is None or at_hint(split.extent, SHARING.large_size) < 2:
        return False
    return at_hint(split.work, SHARING.large_size) >= TASKS.serial_work


__all__ = [
    "Level",
    "divided",
    "is_streamed",
    "is_worth_sharing",
    "level_extent",
    "possible_levels",
    "split_levels",
    "with_best_split",
    "with_split",
]
