"""``graphc explain``: what the compiler did to a value."""

from __future__ import annotations

import argparse

from graphc.cli.command import FILE, Command, argument


def _explain(options: argparse.Namespace) -> int:
    from graphc.cli.common import job_of_file
    from graphc.debug.explain import Explainer

    job = job_of_file(options.file)
    graph = job.extraction.graph
    explainer = Explainer(graph, job.compiled(), job.options, None)
    items = graph.outputs if options.value is None else (options.value,)
    print("\n\n".join(str(explainer.explain(item)) for item in items))
    return 0


COMMAND = Command(
    "explain",
    "say what the compiler did to a value",
    "Compiles a saved graph, or the graph of a capsule, and says which passes, rules and fusions "
    "touched a value, and where it is computed and kept. The environment variable GRAPHC gives "
    "options of the compiler; a capsule brings its own.",
    (
        FILE,
        argument("--value", metavar="NAME", help="the name of a value; all results if left out"),
    ),
    _explain,
)
