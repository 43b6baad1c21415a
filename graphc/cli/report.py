"""``graphc report``: a page that shows how a saved graph is compiled."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.cli.common import Commands


def add(commands: Commands) -> None:
    """Adds the command."""
    report = commands.add_parser(
        "report",
        help="write an HTML page that shows a whole compilation",
        description="Compiles a saved graph, or the graph of a capsule, and writes one HTML page "
        "with its passes, kernels and memory, to open in a browser. The environment variable "
        "GRAPHC gives options of the compiler; a capsule brings its own.",
    )
    report.add_argument("file", metavar="FILE")
    report.add_argument(
        "-o", "--out", metavar="OUT.html", default="report.html",
        help="the page; report.html if left out",
    )  # fmt: skip
    report.set_defaults(command=_report)


def _report(options: argparse.Namespace) -> int:
    from graphc.cli.common import job_of_file
    from graphc.report import write_report

    write_report(job_of_file(options.file).compiled(), options.out)
    print(options.out)
    return 0
