"""``graphc explain``: what the compiler did to a value."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.cli.common import Commands


def add(commands: Commands) -> None:
    """Adds the command."""
    explain = commands.add_parser(
        "explain",
        help="say what the compiler did to a value",
        description="Compiles a saved graph, or the graph of a capsule, and says which passes, "
        "rules and fusions touched a value, and where it is computed and kept. The environment "
        "variable GRAPHC gives options of the compiler; a capsule brings its own.",
    )
    explain.add_argument("file", metavar="FILE")
    explain.add_argument(
        "--value", metavar="NAME", help="the name of a value; all results if left out"
    )
    explain.set_defaults(command=_explain)


def _explain(options: argparse.Namespace) -> int:
    from graphc.cli.common import job_of_file
    from graphc.explain import Explainer

    job = job_of_file(options.file)
    graph = job.extraction.graph
    explainer = Explainer(graph, job.compiled(), job.options, None)
    items = graph.outputs if options.value is None else (options.value,)
    print("\n\n".join(str(explainer.explain(item)) for item in items))
    return 0
