"""What a command of the command line is, and the arguments that several commands take.

Invariant: a command is data but for its function, so what it takes is declared once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, as ``argparse`` takes it."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]


def argument(*names: str, **settings: Any) -> Argument:
    """An argument of these names, with the settings of ``ArgumentParser.add_argument``."""
    return Argument(names, settings)


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        name: what it is called by.
        help: what it does, in a line.
        description: what it does, with the exit code where that says something.
        arguments: what it takes; a tuple stands for arguments of which only one may be given.
        run: does it, and gives the exit code.
        usage: how it is called, where that can't be seen from the arguments.
        takes_command: whether a command to run may stand after ``--``.
    """

    name: str
    help: str
    description: str
    arguments: tuple[Argument | tuple[Argument, ...], ...]
    run: Callable[[argparse.Namespace], int]
    usage: str | None = None
    takes_command: bool = False

    def add_to(self, commands: Commands) -> None:
        """Adds it to a parser's commands."""
        parser = commands.add_parser(
            self.name, help=self.help, description=self.description, usage=self.usage
        )
        for one in self.arguments:
            if isinstance(one, Argument):
                parser.add_argument(*one.names, **one.settings)
                continue
            group = parser.add_mutually_exclusive_group()
            for alternative in one:
                group.add_argument(*alternative.names, **alternative.settings)
        parser.set_defaults(command=self)


FILE = argument("file", metavar="FILE")
LIBRARY = argument("library", metavar="LIBRARY", help="its directory, or a file of it")
THREADS = argument("--threads", type=int, metavar="N", help="how many may run a kernel")
TOLERANCE = argument(
    "--tolerance", type=float, metavar="X", help="how far results may differ, relatively"
)

__all__ = ["FILE", "LIBRARY", "THREADS", "TOLERANCE", "Argument", "Command", "argument"]
