"""``graphc opt``: chosen passes on a graph, text in and text out."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from graphc.base.errors import GraphError
from graphc.cli.command import Command, argument

if TYPE_CHECKING:
    from passes.infra.manager import Step


def _opt(options: argparse.Namespace) -> int:
    from graphc.cli.common import job_of_file
    from passes.infra.base import PassContext
    from passes.infra.manager import run_pipeline
    from passes.pipeline import PIPELINE

    steps = PIPELINE if options.passes is None else _steps(options.passes)
    job = job_of_file(options.file)
    context = PassContext(options=job.options, target=job.target)
    graph, records = run_pipeline(job.extraction.graph, steps, context)
    if options.decisions:
        for record in records:
            for decision in record.decisions:
                print(f"// {record.name}: {' '.join(str(decision).split())}")
    print(graph, end="")
    return 0


def _steps(text: str) -> list[Step]:
    from passes.pipeline import PIPELINE

    known = {step.name: step for step in reversed(PIPELINE)}
    steps = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name not in known:
            raise GraphError(
                f"there is no pass {name!r}", hint=f"there are {', '.join(sorted(known))}"
            )
        steps.append(known[name])
    return steps


COMMAND = Command(
    "opt",
    "run chosen passes on a graph, text in and text out",
    "Reads a graph as text, runs the passes in the order given and prints the graph they give, as "
    "text that can be read again. FILE may be -, the standard input. The environment variable "
    "GRAPHC gives options of the compiler.",
    (
        argument("file", metavar="FILE.gir"),
        argument(
            "--passes",
            metavar="NAMES",
            help="names of passes, parted by commas; all that the compiler runs if left out",
        ),
        argument(
            "--decisions", action="store_true", help="print what was decided too, as comments"
        ),
    ),
    _opt,
)
