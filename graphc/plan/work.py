"""Whether a plan is over in a few microseconds, whatever it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.ir.dims import evaluate
from graphc.kernel.ir import Contract, Loop, Reduce, Size, Statement, Var
from graphc.plan.ir import Copy, Launch, Plan

BRIEF_STEPS = 8
"""A plan of more steps is not looked at: it is not brief."""

BRIEF_WORK = 1 << 14
"""Executions of statements of a plan that is brief: 5 µs if each takes a third of a nanosecond."""


def is_brief(plan: Plan, binding: Mapping[str, int]) -> bool:
    """Whether a plan executes few statements at these sizes of the symbolic dims."""
    if len(plan.steps) > BRIEF_STEPS or plan.loops:
        return False
    left = BRIEF_WORK
    for step in plan.steps:
        if isinstance(step, Launch):
            left -= _work(plan.kernels[step.kernel].body, binding)
        elif isinstance(step, Copy):
            left -= evaluate(plan.slots[step.target].type.bytes, binding)
        if left < 0:
            return False
    return True


def _work(body: Sequence[Statement], binding: Mapping[str, int]) -> int:
    """Executions of statements; recursion is as deep as loops are nested, a few levels."""
    total = 0
    for statement in body:
        match statement:
            case Loop() | Reduce():
                total += _size(statement.extent, binding) * _work(statement.body, binding)
            case Contract():
                sides = statement.m, statement.n, statement.k
                rows, columns, depth = (_size(side, binding) for side in sides)
                total += rows * columns * depth
            case _:
                total += 1
    return total


def _size(size: Size, binding: Mapping[str, int]) -> int:
    """A size; one that a kernel works out is that of a block, so there is much to do."""
    return BRIEF_WORK if isinstance(size, Var) else evaluate(size, binding)
