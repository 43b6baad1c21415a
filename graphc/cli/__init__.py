"""The command line; one module a command.

Each command imports what it needs when it runs, so that running a library loads no compiler. What
goes wrong is said in a line on the error stream, and the exit code is 2. What stands behind
``--`` is a command to run, for those that take one.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from graphc import __version__
from graphc.base.errors import GraphcError, GraphError
from graphc.cli import (
    bench,
    bisect,
    cache,
    compile,
    explain,
    inspect,
    opt,
    reduce,
    replay,
    report,
    run,
    show,
)
from graphc.cli.command import Command
from graphc.cli.common import progress

COMMANDS: tuple[Command, ...] = tuple(
    module.COMMAND
    for module in (
        show, explain, report, opt, bisect, reduce, replay, compile, inspect, run, bench, cache,
    )
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    rest: list[str] | None = None
    if "--" in given:
        place = given.index("--")
        given, rest = given[:place], given[place + 1 :]
    options, unknown = _parser().parse_known_args(given)
    command: Command = options.command
    if unknown:
        hint = " (a command to run stands after --)" if command.takes_command else ""
        return _complain(f"{command.name} does not take {' '.join(unknown)}{hint}")
    try:
        if rest is not None and not command.takes_command:
            raise GraphError("this command takes nothing after --")
        options.rest = rest
        code = command.run(options)
        sys.stdout.flush()
    except GraphcError as error:
        return _complain(_told(error))
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
    progress()
    print(f"graphc: {text}", file=sys.stderr)
    return 2


def _told(error: GraphcError) -> str:
    """In one line; where a file is damaged, the place and its line follow."""
    first, *excerpt = error.message.splitlines()
    first = " ".join((first if error.hint is None else f"{first} ({error.hint})").split())
    return "\n".join([first, *excerpt])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="graphc",
        description="Look into graphs, find what made a result wrong, write and run libraries.",
    )
    parser.add_argument("--version", action="version", version=f"graphc {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return parser


__all__ = ["main"]
