"""``graphc report``: a page that shows a whole compilation."""

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
        description="Compiles a saved graph, or the graph of a capsule, and writes one page with "
        "all passes, kernels and the memory plan, for reading in a browser. The environment "
        "variable GRAPHC gives options of the compiler; a capsule brings its own.",
    )
    report.add_argument("file", metavar="FILE")
    report.add_argument(
        "-o", "--output", metavar="PAGE", default="report.html", help="default: report.html"
    )
    report.set_defaults(command=_report)


def _report(options: argparse.Namespace) -> int:
    from graphc.cli.common import compiled_file
    from graphc.report import write_report

    write_report(compiled_file(options.file)[0], options.output)
    print(options.output)
    return 0
