"""``graphc replay``: a captured run once more."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from graphc.cli.command import Command, argument

if TYPE_CHECKING:
    from graphc.debug.capsule import Capsule
    from graphc.debug.case import Case, Outcome
    from graphc.ir.graph import Graph
    from graphc.ir.value import Value


def _replay(options: argparse.Namespace) -> int:
    from graphc.debug.capsule import load_capsule
    from graphc.debug.case import differs

    capsule = load_capsule(options.file)
    versions = ", ".join(f"{name} {version}" for name, version in capsule.versions.items())
    print(f"captured with {versions} on {capsule.cpu}")
    if not capsule.same_bits:
        print("this machine has no fused multiply-add: bits may differ, so a tolerance holds")
    given, _ = capsule.case.native()
    same = _compare_then(capsule, given)
    if options.interpreter:
        problem = differs(capsule.case, capsule.case.interpreted(), given)
        print(f"against the interpreter: {problem or 'the same, within the tolerance'}")
        same = same and problem is None
    return 0 if same else 1


def _compare_then(capsule: Capsule, given: Outcome) -> bool:
    """Says how each result compares with that of then."""
    case: Case = capsule.case
    if capsule.failed or isinstance(given, Exception):
        then = f"{capsule.outcome[0]}: {capsule.outcome[1]}" if capsule.failed else "results"
        now = "results"
        if isinstance(given, Exception):
            message = getattr(given, "message", str(given))
            now = f"{type(given).__name__}: {message}"
        print(f"then {then}")
        print(f"now {now}")
        return then == now
    from graphc.checking.compare import difference, tolerance_of

    same = True
    for number, (expected, array) in enumerate(zip(capsule.outcome, given, strict=True)):
        tolerance = 0.0 if capsule.same_bits else tolerance_of(array.dtype)
        found = difference(expected, array, tolerance)  # type: ignore[arg-type]
        label = f"result {number}, {_label(case.graph, case.graph.outputs[number])}"
        print(f"{label}: {found or ('the same bits' if not tolerance else 'the same')}")
        same = same and found is None
    return same


def _label(graph: Graph, value: Value) -> str:
    """The name, the type and the line of a result."""
    name = "" if value.name is None else f"{value.name!r} "
    node = next((n for n in graph.nodes if any(made is value for made in n.outputs)), None)
    where = None if node is None else node.provenance.where
    return f"{name}{value.type}{'' if where is None else f' at {where.brief}'}"


COMMAND = Command(
    "replay",
    "repeat a captured run and compare the results",
    "Runs what executable.capture wrote, compiled for this machine with the options of then, and "
    "compares the results with those of then, bit for bit. The exit code is 0 if they are the "
    "same, 1 if not.",
    (
        argument("file", metavar="FILE.gxr"),
        argument("--interpreter", action="store_true", help="compare with the interpreter too"),
    ),
    _replay,
)
