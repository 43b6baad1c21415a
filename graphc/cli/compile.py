"""``graphc compile``: a saved graph as a library."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphc.base.errors import GraphError
from graphc.base.words import plural, shown
from graphc.cli.command import Command, argument

if TYPE_CHECKING:
    from graphc.session.executable import Executable


def _compile(options: argparse.Namespace) -> int:
    from graphc.aot import compile
    from graphc.frontend.saving import load
    from graphc.frontend.state import effect_values
    from graphc.frontend.structure import leaves
    from graphc.session.session import Session

    fetches = load(options.model)
    values = [value for leaf in leaves(fetches) for value in effect_values(leaf)]
    if not values:
        raise GraphError(f"{options.model} has nothing to compute")
    with Session(values[0].graph) as session:
        chosen = fetches
        if options.fetch:
            chosen = options.fetch[0] if len(options.fetch) == 1 else options.fetch
        executable = session.compile(chosen, options.feed or None)
        compile(
            executable,
            options.output,
            target=options.target,
            kind=options.kind,
            threads=not options.no_threads,
            embed_weights=not options.no_embed_weights,
            dims=_bounds(options.dim),
            variants=tuple(options.variant),
            name=options.name,
            freeze=False if options.no_freeze else None,
        )
        told, untrained = _about_variables(executable)
    print(f"wrote {options.output}: {told}")
    if untrained:
        print(
            f"warning: {options.model} holds initial values, not trained ones, of "
            f"{', '.join(untrained)}; gx.save(path, fetches, session=session) keeps those of a "
            "session",
            file=sys.stderr,
        )
    return 0


def _about_variables(executable: Executable) -> tuple[str, list[str]]:
    """Whose values the variables of a program have, and the names of those not trained."""
    counts: dict[str, int] = {}
    untrained: list[str] = []
    for value in executable.variables:
        stored = getattr(value, "stored", None)
        kind = "values of a session" if stored == "session" else "initial values"
        counts[kind] = counts.get(kind, 0) + 1
        if stored == "initial":
            untrained.append(shown(value.name))
    told = ", ".join(f"{plural(count, 'variable')} with {kind}" for kind, count in counts.items())
    return told or "no variables", untrained


def _bounds(given: Sequence[str]) -> dict[str, tuple[int, int]]:
    bounds: dict[str, tuple[int, int]] = {}
    for text in given:
        name, _, sizes = text.partition("=")
        least, colon, greatest = sizes.partition(":")
        if not name or not all(map(_is_size, (least, greatest if colon else least))):
            raise GraphError(
                f"--dim {text!r} is no range of sizes", hint="as --dim batch=1:4096"
            )
        bounds[name] = int(least), int(greatest if colon else least)
    return bounds


def _is_size(text: Any) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


COMMAND = Command(
    "compile",
    "write a saved graph as a library",
    "Compiles a graph that graphc.save wrote, with the values of variables that it saved, to a "
    "library: machine code, a C header and a Python module. Says whether these are values of a "
    "session or initial ones.",
    (
        argument("model", metavar="MODEL", help="the file that graphc.save wrote"),
        argument("-o", "--output", metavar="DIR", required=True, help="the directory to write"),
        argument(
            "--fetch", metavar="NAME", action="append", default=[],
            help="a value to return, by name; may be repeated. All that was saved if left out",
        ),
        argument(
            "--feed", metavar="NAME", action="append", default=[],
            help="an argument, by name, in order; may be repeated. All placeholders if left out",
        ),
        argument("--name", help="begins the names of the functions; by default the directory's"),
        argument("--target", default="host", help="what to compile for; this machine if left out"),
        argument(
            "--variant", metavar="LEVEL", action="append", default=[],
            help="a level of x86-64 to have code for, as x86-64-v3; may be repeated",
        ),
        argument("--kind", default="shared", help="shared, object or package; shared if left out"),
        argument(
            "--dim", metavar="NAME=LEAST:GREATEST", action="append", default=[],
            help="the sizes that a symbolic dim may have; may be repeated",
        ),
        argument("--no-threads", action="store_true", help="kernels run on one thread"),
        argument("--no-embed-weights", action="store_true", help="weights in a file of their own"),
        argument("--no-freeze", action="store_true", help="variables stay variables"),
    ),
    _compile,
)  # fmt: skip
