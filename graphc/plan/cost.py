"""Whether a plan is over in a few microseconds, whatever it computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from graphc.base.tuning.tasks import TASKS
from graphc.ir.dims.expressions import Dim, evaluate
from graphc.plan.ir import Copy, HostCall, Launch, Plan

if TYPE_CHECKING:
    from graphc.kernel.ir import Kernel


def is_brief(plan: Plan, binding: Mapping[str, int]) -> bool:
    """Whether a plan has little to do at these sizes of the symbolic dims."""
    if len(plan.steps) > TASKS.brief_steps or plan.loops:
        return False
    left = TASKS.brief_work
    for step in plan.steps:
        if isinstance(step, Launch):
            kernel = plan.kernels[step.kernel]
            work = _work(kernel) if kernel.split is None else kernel.split.work
        elif isinstance(step, HostCall):
            return False
        elif isinstance(step, Copy):
            work = TASKS.copied_byte * plan.slots[step.target].type.bytes
        else:
            continue
        try:
            left -= evaluate(work, binding)
        except ZeroDivisionError:
            continue  # in a branch whose guards do not hold, so it does not run
        if left < 0:
            return False
    return True


def _work(kernel: Kernel) -> Dim:
    """An estimate from the statements, which nothing else in a run looks at."""
    from graphc.kernel.analysis.cost import kernel_work

    return kernel_work(kernel)
