"""``graphc report``: a page that shows how a saved graph is compiled."""

from __future__ import annotations

import argparse

from graphc.cli.command import FILE, Command, argument


def _report(options: argparse.Namespace) -> int:
    from graphc.base.paths import check_writable
    from graphc.cli.common import job_of_file
    from graphc.debug.report import write_report

    check_writable(options.out, "a report")
    write_report(job_of_file(options.file).compiled(), options.out)
    print(options.out)
    return 0


COMMAND = Command(
    "report",
    "write an HTML page that shows a whole compilation",
    "Compiles a saved graph, or the graph of a capsule, and writes one HTML page with its passes, "
    "kernels and memory, to open in a browser. The environment variable GRAPHC gives options of "
    "the compiler; a capsule brings its own.",
    (
        FILE,
        argument(
            "-o",
            "--out",
            metavar="OUT.html",
            default="report.html",
            help="the page; report.html if left out",
        ),
    ),
    _report,
)
