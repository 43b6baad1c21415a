"""What a program computes again, and what that saves and costs.

Invariant: kernels are read off the final graph, and their times are estimates of the cost model, as
those that the plan was made by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphc.base.options import Options
from graphc.base.source import Location
from graphc.compiling.compiled import Compiled
from graphc.ir.dims.expressions import at_hint
from graphc.ir.graph import Node
from graphc.lower.estimate import Groups
from graphc.ops.fused import fused_op
from passes.infra.base import open_nodes
from passes.recompute.copies import CAUSE


@dataclass(frozen=True, slots=True)
class Repetition:
    """Kernels of one line of the user that run again.

    Attributes:
        where: the line.
        times: how many launches of kernels it adds.
        bytes: what they make, which is not kept meanwhile.
        seconds: what they are estimated to take.
    """

    where: Location | None
    times: int
    bytes: int
    seconds: float

    def __str__(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return (
            f"{self.where or 'no line'}: made again {times}, saves {self.bytes:,} bytes, "
            f"costs {self.seconds * 1e3:.3g} ms"
        )


@dataclass(frozen=True, slots=True)
class Recomputation:
    """What a program computes again; its text is a report. Sizes are those planned for.

    Attributes:
        natural_bytes: the most bytes that would be alive at once if nothing were made again.
        planned_bytes: the same as it was planned.
        peak_bytes: the arena.
        limit_bytes: the memory limit, if there is one.
        extra_work: the estimated time that it adds, as a part of that of all kernels.
        repetitions: by the user's lines, those that save most first.
    """

    natural_bytes: int
    planned_bytes: int
    peak_bytes: int
    limit_bytes: int | None
    extra_work: float
    repetitions: tuple[Repetition, ...]

    def __str__(self) -> str:
        limit = f", the limit {self.limit_bytes:,}" if self.limit_bytes is not None else ""
        head = (
            f"natural {self.natural_bytes:,} bytes, planned {self.planned_bytes:,}, the arena "
            f"{self.peak_bytes:,}{limit}; extra work {100 * self.extra_work:.1f} %"
        )
        return "\n".join([head, *(f"  {each}" for each in self.repetitions)])


def recomputation_of(compiled: Compiled, options: Options) -> Recomputation:
    """What a program computes again."""
    levels = compiled.levels
    layout = levels.plan.layout
    assert layout is not None, "a compiled plan is placed"
    made = levels.recomputed
    planned = layout.solution.lower_bound
    return Recomputation(
        planned if made is None else made.natural,
        planned if made is None else made.peak,
        layout.solution.peak,
        options.most_bytes,
        0.0 if made is None or not made.work else made.again / made.work,
        repetitions_of(compiled, options, open_nodes(levels.graph)),
    )


def repetitions_of(
    compiled: Compiled, options: Options, nodes: Iterable[Node]
) -> tuple[Repetition, ...]:
    """Those of the nodes that run kernels again, by lines."""
    groups = Groups(compiled.target, options.thread_count)
    found: dict[object, list[Node]] = {}
    for node in nodes:
        if node.op is fused_op and node.provenance.cause == CAUSE:
            where = node.provenance.where
            found.setdefault(where and where.place, []).append(node)
    repetitions = [
        Repetition(
            copies[0].provenance.where,
            len(copies),
            sum(at_hint(value.type.bytes) for node in copies for value in node.outputs),
            sum(groups.estimate(node).work for node in copies) * 1e-12,
        )
        for copies in found.values()
    ]
    return tuple(sorted(repetitions, key=lambda each: -each.bytes))


__all__ = ["Recomputation", "Repetition", "recomputation_of"]
