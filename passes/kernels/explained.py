"""The schedules of one kernel, and why passes gave no others, as text."""

from __future__ import annotations

from graphc.base.target import Target
from graphc.kernel.ir import Kernel, Statement
from graphc.kernel.printer import print_statements
from graphc.kernel.schedule.nest import Nest
from passes.kernels.pipeline import considered
from passes.kernels.vectorize import runs_as_around


def schedule_lines(kernel: Kernel, target: Target, is_glue: bool = False) -> list[str]:
    """A line for each loop of a kernel and each other statement with a schedule, followed by the
    passes that gave it none, and why."""
    reasons: dict[Statement, list[str]] = {}
    for answer in considered(kernel, target, is_glue):
        if answer.reason is not None:
            reasons.setdefault(answer.statement, []).append(f"{answer.name}: {answer.reason}")
    lines: list[str] = []
    nest, schedule = Nest(kernel), kernel.schedule
    for statement, text in print_statements(kernel).items():
        if statement.loop() is not None:
            if runs_as_around(statement, nest, schedule):
                lines.append(f"{text}, as the loop around")
                continue
            text = text if statement in schedule else f"{text}, as it is written"
        elif statement not in schedule:
            continue
        lines += [text, *(f"  not {reason}" for reason in reasons.get(statement, ()))]
    return lines
