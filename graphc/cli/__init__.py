"""The command line; one module a command.

Each command imports what it needs when it runs, so that running a package loads no compiler. What
goes wrong is said in one line on the error stream, and the exit code is 2. What stands behind
``--`` is a command to run, for those that take one.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from graphc.base.errors import GraphcError, GraphError
from graphc.cli import bisect, explain, inspect, opt, reduce, replay, report, run, show

COMMANDS = (show, explain, report, opt, bisect, reduce, replay, run, inspect)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    rest: list[str] | None = None
    if "--" in given:
        place = given.index("--")
        given, rest = given[:place], given[place + 1 :]
    options = _parser().parse_args(given)
    try:
        if rest is not None and not options.takes_command:
            raise GraphError("this command takes nothing after --")
        options.rest = rest
        code: int = options.command(options)
        sys.stdout.flush()
    except GraphcError as error:
        return _complain(_one_line(error))
    except BrokenPipeError:
        # The reader went away; what is left in the buffer must not complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return 130
    return code


def _complain(text: str) -> int:
    print(f"graphc: {text}", file=sys.stderr)
    return 2


def _one_line(error: GraphcError) -> str:
    text = error.message if error.hint is None else f"{error.message} ({error.hint})"
    return " ".join(text.split())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="graphc",
        description="Look into graphs, find what made a result wrong, run exported programs.",
    )
    parser.set_defaults(takes_command=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return parser


__all__ = ["main"]
