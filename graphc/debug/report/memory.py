"""The memory plan as plain data: what lies where in the arena, during which steps."""

from __future__ import annotations

from typing import Any

from graphc.compiling.compiled import Compiled
from graphc.debug.profile import Profile
from graphc.debug.report.tables import Tables
from graphc.ir.dims.expressions import HINT, Dim, evaluate, symbol_name, symbols_of
from graphc.plan.ir import Branch, Copy, HostCall, Launch, Plan, Require, Step
from graphc.plan.memory import offsets_for_sizes
from passes.memory.arena import bytes_at
from passes.plan.liveness import live_intervals


def memory_data(compiled: Compiled, tables: Tables, profile: Profile | None) -> dict[str, Any]:
    """The arena at the sizes of the profiled run, else at those planned for.

    ``buffers``: [name, value or -1, offset, bytes, first step, step past the last, line, kind,
    number of the group that shares memory]; ``steps``: [what, kernel or -1, line, seconds or None].
    """
    plan = compiled.plan
    layout = plan.layout
    assert layout is not None, "a compiled plan is placed"
    sizes = {name: HINT for kernel in plan.kernels for name in kernel.dims}
    sizes |= {name: HINT for slot in plan.slots for name in _symbols(slot.bytes)}
    if profile is not None:
        sizes = dict(profile.sizes)
    taken = [evaluate(plan.slots[slot].bytes, sizes) for slot in layout.slots]
    offsets, _ = offsets_for_sizes(layout.solution, taken)
    peak, unplanned, lower = bytes_at(plan, sizes)
    values = {slot: value for value, slot in compiled.slots.items()}
    intervals = live_intervals(plan)
    buffers = []
    for place, slot in enumerate(layout.slots):
        known = plan.slots[slot]
        value = values.get(slot)
        start, end = intervals[slot]
        buffers.append(
            [
                known.name or _made_by(plan, start),
                -1 if value is None else tables.value(value, known.where),
                offsets[place],
                taken[place],
                start,
                end,
                tables.line(known.where),
                known.kind,
                layout.solution.roots[place],
            ]
        )
    return {
        "peak": peak,
        "unplanned": unplanned,
        "lower": lower,
        "sizes": sizes,
        "measured": profile is not None,
        "buffers": buffers,
        "steps": [
            [*_step(plan, step, tables), None if profile is None else profile.steps.get(n)]
            for n, step in enumerate(plan.steps)
        ],
        "loops": plan.loops,
    }


def _symbols(size: Dim) -> list[str]:
    return [] if isinstance(size, int) else [symbol_name(symbol) for symbol in symbols_of(size)]


def _made_by(plan: Plan, position: int) -> str:
    """What to call a slot without a name: the kernel that writes it first."""
    step = plan.steps[position]
    if isinstance(step, HostCall):
        return step.function.name
    return plan.kernels[step.kernel].name if isinstance(step, Launch) else "copy"


def _step(plan: Plan, step: Step, tables: Tables) -> tuple[str, int, int]:
    if isinstance(step, Launch):
        return plan.kernels[step.kernel].name, step.kernel, tables.line(step.where)
    if isinstance(step, Copy):
        return "copy", -1, -1
    if isinstance(step, Branch):
        return f"branch to {step.target}", -1, -1
    if isinstance(step, HostCall):
        return f"host {step.function.name}", -1, tables.line(step.where)
    if isinstance(step, Require):
        return "require", -1, tables.line(step.guard.where)
    return f"jump to {step.target}", -1, -1
