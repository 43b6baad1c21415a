"""``graphc reduce``: the smallest graph that still shows what a file shows."""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from graphc.base.errors import GraphError
from graphc.base.words import plural
from graphc.cli.command import FILE, TOLERANCE, Command, argument
from graphc.cli.common import progress

if TYPE_CHECKING:
    from graphc.debug.case import Case

PLACE = "{}"
"""Stands for the file in a command."""


def _reduce(options: argparse.Namespace) -> int:
    from graphc.base.paths import check_writable
    from graphc.cli.common import cases_of_file
    from graphc.debug.capsule import capture
    from graphc.debug.reducing import reduce, sizes
    from graphc.ir.text.printer import print_graph

    if options.out is not None:
        check_writable(options.out, "a capsule")
    cases = cases_of_file(options.file)
    with tempfile.TemporaryDirectory(prefix="graphc-") as directory:
        for case in cases:
            shows = (
                _differing(case, options.tolerance)
                if options.rest is None
                else _failing(case, options.rest, directory)
            )
            if shows is not None:
                break
        else:
            inputs = "the captured inputs" if len(cases) == 1 else f"{len(cases)} random inputs"
            if options.rest is not None:
                raise GraphError(f"the command succeeds on {inputs}, so there is nothing to reduce")
            raise GraphError(
                f"compiled code gives what the interpreter gives on {inputs}",
                hint="so there is nothing to reduce; a command to reduce for stands after --",
            )
        small = reduce(case, _counted(shows, options.tries), options.tries)
    progress()
    before, after = dict(sizes(case)), dict(sizes(small))
    for name, count in before.items():
        print(f"// {name}: {count} -> {after[name]}")
    print(print_graph(small.graph, provenance=True), end="")
    if options.out is not None:
        capture(options.out, small, small.native()[0])
    return 0


def _counted(shows: Callable[[Case], bool], most: int) -> Callable[[Case], bool]:
    """The same question, telling how often it has been asked."""
    asked = itertools.count(1)

    def told(candidate: Case) -> bool:
        nodes = len(candidate.graph.nodes)
        progress(f"graphc: try {next(asked)} of {most} at most, a graph of {plural(nodes, 'node')}")
        return shows(candidate)

    return told


def _differing(case: Case, tolerance: float | None) -> Callable[[Case], bool] | None:
    """Whether compiled code and interpreter differ in the same way; None if they don't at all."""
    from graphc.debug.case import differs

    def kinds(candidate: Case) -> tuple[str, str] | None:
        expected, (given, _) = candidate.interpreted(), candidate.native()
        if differs(candidate, expected, given, tolerance) is None:
            return None
        return type(expected).__name__, type(given).__name__

    whole = kinds(case)
    return None if whole is None else lambda candidate: kinds(candidate) == whole


def _failing(
    case: Case, command: Sequence[str], directory: str
) -> Callable[[Case], bool] | None:
    """Whether the command ends as for the whole; None if it succeeds."""
    from graphc.debug.capsule import capture

    if not command:
        raise GraphError("there is no command after --")
    path = os.path.join(directory, "case.gxr")
    given = [part.replace(PLACE, path) for part in command]
    if given == list(command):
        given.append(path)

    def code(candidate: Case) -> int:
        capture(path, candidate, candidate.interpreted())
        return subprocess.run(
            given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode

    whole = code(case)
    return (lambda candidate: code(candidate) == whole) if whole else None


COMMAND = Command(
    "reduce",
    "find the smallest graph that still shows a difference",
    "Shrinks a capsule, or a saved graph on random inputs, as long as compiled code and "
    "interpreter differ; or, with a COMMAND, as long as the command ends with the same exit code "
    "as for the whole, which must not be 0. In the command {} stands for the file, a capsule; "
    "without {} the file is its last argument. Prints the graph that is left. The exit code is 0 "
    "if FILE shows something, 2 if not.",
    (
        FILE,
        argument("-o", "--out", metavar="OUT.gxr", help="write the result as a capsule"),
        TOLERANCE,
        argument(
            "--tries", type=int, default=600, metavar="N", help="how many graphs to try at most"
        ),
    ),
    _reduce,
    usage="graphc reduce [-h] [-o OUT.gxr] [--tolerance X] [--tries N] FILE [-- COMMAND … {}]",
    takes_command=True,
)
