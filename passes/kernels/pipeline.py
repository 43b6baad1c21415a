"""The order of the passes over kernels, and the function that applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from graphlib import TopologicalSorter

from graphc.base.modules import load_all
from graphc.base.target import Target
from graphc.kernel.ir import Block, Kernel, Statement
from graphc.kernel.schedule.base import Schedule
from graphc.kernel.schedule.nest import Nest
from passes.kernels.base import PASSES, KernelContext, KernelStep


@cache
def steps() -> tuple[KernelStep, ...]:
    """All passes, in the order that they ask for.

    A loop belongs to the first pass that has a schedule for it. Passes over whole rows come before
    those over one row. Stores come first, because rows are blocked only if all of their stores are
    non-temporal. Vectors come before row blocking, because blocks consist of them. Prefetches come
    last, because the distance depends on how a loop runs.
    """
    load_all("passes.kernels")
    found = {step.name: step for step in PASSES}
    order = TopologicalSorter({name: step.after for name, step in sorted(found.items())})
    return tuple([found[name] for name in order.static_order()])


def names() -> frozenset[str]:
    """Names that ``off=`` may have."""
    return frozenset(step.name for step in steps())


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
    for step in steps():
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


__all__ = ["Considered", "considered", "names", "scheduled", "steps"]
