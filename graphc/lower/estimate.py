"""What a fused node takes: an estimate of its time, and the memory beside its operands and results.

Kernels are lowered once, for this and for the plan.
"""

from __future__ import annotations

from graphc.base.target import Target
from graphc.ir.dims.expressions import Dim, at_hint
from graphc.ir.equal import Structure, structure
from graphc.ir.graph import Node
from graphc.kernel.analysis.cost import kernel_work
from graphc.kernel.analysis.task_size import task_count
from graphc.kernel.ir import Kernel
from graphc.lower.fused_node import lower_group
from graphc.lower.launch_fission import Series
from passes.infra.base import Estimate


class Groups:
    """The launches of fused nodes; nodes that need the same code share them.

    Errors of checks name a user's line, which is of the kernel: where there are checks, launches
    are shared only by one node, so equal regions don't settle it.
    """

    def __init__(self, target: Target, threads: int) -> None:
        self._target = target
        self._threads = threads
        self._series: dict[Structure, Series] = {}
        self._estimates: dict[Structure, Estimate] = {}

    def series(self, node: Node) -> Series:
        """The launches of a fused node."""
        region = structure(node.regions[0])
        known = self._series.get(region)
        if known is None:
            known = lower_group(node, self._target)
            if not known.whole.sites:
                self._series[region] = known
        return known

    def estimate(self, node: Node) -> Estimate:
        """What a fused node takes, at the hints of symbolic sizes."""
        region = structure(node.regions[0])
        known = self._estimates.get(region)
        if known is None:
            known = self._estimates[region] = self._estimated(self.series(node))
        return known

    def _estimated(self, series: Series) -> Estimate:
        work: Dim = 0
        copies = 1
        for member in series.members:
            work = work + kernel_work(member.kernel)
            copies = max(copies, thread_copies(member.kernel, self._threads))
        room = sum(
            at_hint(room.type.bytes) * (1 if room in series.handed else copies)
            for room in series.rooms
        )
        return Estimate(at_hint(work), room)


def thread_copies(kernel: Kernel, threads: int) -> int:
    """How many threads may run a kernel at once: each has scratch of its own."""
    if kernel.split is None:
        return 1
    work, extent = kernel.split.work, kernel.split.extent
    if isinstance(work, int) and isinstance(extent, int):
        return min(threads, task_count(work, extent, threads, kernel.split.least))
    return threads
