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

from graphc.base.tuning.sharing import SHARING
from graphc.base.tuning.tasks import TASKS
from graphc.ir.dims.expressions import Dim, at_hint, product
from graphc.kernel.analysis.cost import kernel_work
from graphc.kernel.ir import Kernel, Split, Statement, walk
from graphc.kernel.statements.base import Cut
from graphc.kernel.statements.bodies import loops_in, reductions_in

# --- levels --------------------------------------------------------------------------------------


def split_levels(kernel: Kernel) -> tuple[Statement, ...]:
    """The levels that a range goes over, outermost first."""
    return possible_levels(kernel)[: kernel.split.levels] if kernel.split is not None else ()


def possible_levels(kernel: Kernel) -> tuple[Statement, ...]:
    """All levels that a range could go over."""
    result: list[Statement] = []
    body: Sequence[Statement] = kernel.body
    while True:
        effects = [s for s in body if not s.is_scalar]
        if len(effects) != 1:
            return tuple(result)
        if result and any(s.may_fail for s in body):
            # an index is checked even if the loops inside have no iteration
            return tuple(result)
        (only,) = effects
        cut = only.cut
        if cut is None:
            return tuple(result)
        result.append(only)
        if not (cut.is_loop and cut.is_parallel):
            return tuple(result)
        body = only.body


def level_cut(level: Statement) -> Cut:
    """How a level is handed out."""
    cut = level.cut
    assert cut is not None, "levels are what may be handed out"
    return cut


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
    extent = product(level_cut(level).extent for level in cut)
    split = Split(levels, extent, work, _least(cut[-1]))
    return replace(kernel, split=split)


def _streams_down(level: Statement) -> bool:
    """Whether a level reads memory down its columns as fast as that gives it, and does no more.

    Positions of extremes, functions and what is written for each element take so long that narrow
    stripes cost nothing.
    """
    if level.loop("vector") is None:
        return False
    reductions = reductions_in(level.body)
    return (
        bool(reductions)
        and not loops_in(level.body)
        and not any(r.combine.startswith("arg") for s in reductions for r in s.reducers)
        and all(s.is_exact for s in walk(reductions))
    )


def _least(last: Statement) -> int:
    """Iterations of the last level that a task has at least."""
    return SHARING.reduced_columns if _streams_down(last) else level_cut(last).least


def _chosen_levels(kernel: Kernel, work: Dim) -> int:
    """How many levels to hand out; 0 where it cannot pay at any size, or cannot be done."""
    if isinstance(work, int) and work < TASKS.serial_work:
        return 0
    iterations: Dim = 1
    count = 0
    for level in possible_levels(kernel):
        cut = level_cut(level)
        extent = cut.extent
        if extent == 0:
            return 0
        if isinstance(iterations, int) and iterations >= SHARING.enough_iterations:
            break
        short = isinstance(extent, int) and extent < SHARING.long_loop
        if count and short and not cut.is_parallel:
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
    "is_worth_sharing",
    "level_cut",
    "possible_levels",
    "split_levels",
    "with_best_split",
    "with_split",
]
