"""The table of passes over kernels, and the function that applies it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from graphc.base.target import Target
from graphc.kernel.ir import Block, Kernel, Statement
from graphc.kernel.schedule.kinds import Schedule
from graphc.kernel.schedule.nest import Nest
from passes.kernels.base import KernelContext, KernelPass
from passes.kernels.block_columns import block_columns
from passes.kernels.block_rows import block_rows
from passes.kernels.collapse_rows import collapse_rows
from passes.kernels.gather_ahead import gather_ahead
from passes.kernels.pipeline_rows import pipeline_rows
from passes.kernels.prefetch import prefetch
from passes.kernels.stream_stores import stream_stores
from passes.kernels.tile import tile
from passes.kernels.vectorize import vectorize

Asked = Literal["stores", "loops", "parallel", "across", "vector"]


@dataclass(frozen=True, slots=True)
class KernelStep:
    """One row of the table.

    Attributes:
        run: the pass.
        of: the statements it gets: stores, or loops of a kind that have no schedule yet.
        again: it gets loops that have one too, because it adds to it.
    """

    run: KernelPass
    of: Asked
    again: bool = False

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.run.__name__


STEPS: tuple[KernelStep, ...] = (
    KernelStep(stream_stores, "stores"),
    KernelStep(tile, "across"),
    KernelStep(pipeline_rows, "parallel"),
    KernelStep(collapse_rows, "parallel"),
    KernelStep(block_columns, "vector"),
    KernelStep(vectorize, "vector"),
    KernelStep(block_rows, "parallel"),
    KernelStep(gather_ahead, "parallel"),
    KernelStep(prefetch, "loops", again=True),
)
"""A loop belongs to the first pass that has a schedule for it. Passes over whole rows come before
those over one row. Stores come first, because rows are blocked only if all of their stores are
non-temporal. Vectors come before row blocking, because blocks consist of them. Prefetches come
last, because the distance depends on how a loop runs."""

NAMES = frozenset(step.name for step in STEPS)
"""Names that ``off=`` may have."""

Decide = Callable[[str, Mapping[Statement, Schedule]], bool]
"""Whether a pass of that name may give these schedules."""


@dataclass(frozen=True, slots=True)
class Considered:
    """One answer of a pass.

    Attributes:
        name: of the pass.
        statement: the statement that it got.
        reason: why it gave no schedule; None if it gave one.
    """

    name: str
    statement: Statement
    reason: str | None


def scheduled(
    kernel: Kernel,
    target: Target,
    *,
    is_glue: bool = False,
    decide: Decide = lambda name, chosen: True,
) -> Kernel:
    """The kernel with a schedule for the target, in place of the one it has."""
    chosen: dict[Statement, Schedule] = {}
    for _ in _answers(kernel, target, is_glue, decide, chosen):
        pass
    return replace(kernel, schedule=chosen) if chosen or kernel.schedule else kernel


def considered(kernel: Kernel, target: Target, is_glue: bool = False) -> list[Considered]:
    """The answers of the passes when the kernel got its schedule, in order."""

    def was_made(name: str, chosen: Mapping[Statement, Schedule]) -> bool:
        return all(kernel.schedule.get(statement) == one for statement, one in chosen.items())

    return list(_answers(kernel, target, is_glue, was_made, {}))


def _answers(
    kernel: Kernel,
    target: Target,
    is_glue: bool,
    decide: Decide,
    chosen: dict[Statement, Schedule],
) -> Iterator[Considered]:
    nest = Nest(kernel)
    context = KernelContext(nest, target, is_glue, chosen)
    for step in STEPS:
        for statement in _asked(nest, step, chosen):
            choice = step.run(statement, context)
            if choice is None:
                continue
            if isinstance(choice, str):
                yield Considered(step.name, statement, choice)
                continue
            given = {statement: choice} if isinstance(choice, Schedule) else choice
            if decide(step.name, given):
                chosen.update(given)
                yield Considered(step.name, statement, None)
            else:
                yield Considered(step.name, statement, "it is switched off, or no fuel was left")


def _asked(
    nest: Nest, step: KernelStep, chosen: Mapping[Statement, Schedule]
) -> Iterable[Statement]:
    if step.of == "stores":
        return nest.stores
    loops: Iterable[Block] = nest.loops
    return [
        loop
        for loop in loops
        if (step.of in ("loops", loop.kind)) and (step.again or loop not in chosen)
    ]


__all__ = ["NAMES", "STEPS", "Considered", "KernelStep", "considered", "scheduled"]
