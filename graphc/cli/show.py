"""``graphc show``: a saved graph at some point of its compilation."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphc.base.errors import GraphError
from graphc.cli.command import FILE, Command, argument

if TYPE_CHECKING:
    from graphc.cli.common import Job
    from graphc.ir.graph import Graph
    from passes.infra.manager import PassRecord

_RUN = re.compile(r"(?P<name>[^#]+)(?:#(?P<number>[1-9][0-9]{0,8}))?")


def _show(options: argparse.Namespace) -> int:
    from graphc.cli.common import job_of_file

    if options.level is not None and (options.before or options.after):
        raise GraphError(f"--{options.level} and --before or --after exclude each other")
    job = job_of_file(options.file)
    source = job.extraction.graph
    if options.level is not None and options.level != "passes":
        print(_compiled_text(job, options.level), end="")
        return 0
    if options.level is None and not options.before and not options.after:
        print(source, end="")
        return 0
    records = _records(job)
    if options.level == "passes":
        from passes.infra.manager import pass_table

        print(pass_table(records))
        return 0
    wanted: list[tuple[str, Graph]] = []
    if options.before:
        place = _place(options.before, records)
        graph = records[place - 1].graph if place else source
        wanted.append((f"before {records[place].name}", graph))
    if options.after:
        record = records[_place(options.after, records)]
        wanted.append((f"after {record.name}", record.graph))
    for label, graph in wanted:
        if len(wanted) > 1:
            print(f"// {label}")
        print(graph, end="")
    return 0


def _records(job: Job) -> list[PassRecord]:
    from passes.infra.base import PassContext
    from passes.infra.manager import run_pipeline
    from passes.pipeline import PIPELINE

    context = PassContext(options=job.options, target=job.target)
    return run_pipeline(job.extraction.graph, PIPELINE, context)[1]


def _place(text: str, records: Sequence[PassRecord]) -> int:
    """Where in the records a run of a pass is; without a number its first run."""
    found = _RUN.fullmatch(text)
    name = f"{found['name']}#{found['number'] or 1}" if found is not None else text
    for place, record in enumerate(records):
        if record.name == name:
            return place
    known = ", ".join(record.name for record in records)
    raise GraphError(f"no pass {name} ran", hint=f"these did: {known}")


def _compiled_text(job: Job, level: str) -> str:
    from graphc.kernel.printer import print_kernel
    from graphc.plan.printer import print_plan
    from graphc.runtime.jit import assembly

    compiled = job.compiled()
    if level == "kernels":
        return "\n".join(map(print_kernel, compiled.plan.kernels))
    if level == "plan":
        return print_plan(compiled.plan)
    return compiled.llvm_ir if level == "llvm" else assembly(compiled.llvm_ir, compiled.target)


COMMAND = Command(
    "show",
    "print a saved graph at some point of its compilation",
    "Prints a saved graph, or the graph of a capsule, as text. Without options: what its fetches "
    "need. PASS is a name like cse, or cse#2 for the second run. The environment variable GRAPHC "
    "gives options of the compiler; a capsule brings its own.",
    (
        FILE,
        argument("--before", metavar="PASS", help="the graph that goes into a pass"),
        argument("--after", metavar="PASS", help="the graph that comes out of a pass"),
        tuple(
            argument(
                f"--{name}", dest="level", action="store_const", const=name, help=f"print {what}"
            )
            for name, what in (
                ("passes", "the passes and what each did"),
                ("kernels", "the kernels"),
                ("plan", "the plan: slots, steps and kernels"),
                ("llvm", "the LLVM text of the kernels"),
                ("asm", "their machine code, as assembly"),
            )
        ),
    ),
    _show,
)
