"""``graphc bisect``: the decision of the compiler that makes a command or a run wrong."""

from __future__ import annotations

import argparse
import linecache
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence

from graphc.base.errors import GraphError
from graphc.cli.command import TOLERANCE, Command, argument
from graphc.cli.common import progress

_PLACE = re.compile(r" at (?P<file>.+):(?P<line>[0-9]{1,9}), #[0-9]+$")


def _bisect(options: argparse.Namespace) -> int:
    if bool(options.rest) is bool(options.file):
        raise GraphError("bisect takes a file, or a command after --")
    if options.rest:
        return _bisect_command(options)
    return _bisect_file(options)


# --- a captured run or a saved graph -------------------------------------------------------------


def _bisect_file(options: argparse.Namespace) -> int:
    from graphc.cli.common import cases_of_file
    from graphc.debug.bisecting import bisect_case
    from graphc.debug.case import differs

    cases = cases_of_file(options.file)
    for case in cases:
        given, _ = case.native()
        if differs(case, case.interpreted(), given, options.tolerance) is not None:
            print(bisect_case(case, tolerance=options.tolerance))
            return 0
    what = "the captured inputs" if len(cases) == 1 else f"{len(cases)} random inputs"
    raise GraphError(f"compiled code gives what the interpreter gives on {what}")


# --- a command -----------------------------------------------------------------------------------


def _bisect_command(options: argparse.Namespace) -> int:
    from graphc.debug.bisecting import first_bad

    with tempfile.TemporaryDirectory(prefix="graphc-") as directory:
        file = os.path.join(directory, "decisions.txt")
        trial = _Trial(options.rest, file, options.timeout, options.verbose)
        code = trial.run(None)
        if code == 0:
            raise GraphError("the command succeeds, so there is nothing to look for")
        made = len(trial.decisions())
        if not made:
            raise GraphError(
                f"the command fails ({_meaning(code)}) and graphc decides nothing in it",
                hint="it must run graphs with graphc, with GRAPHC as its environment",
            )
        code = trial.run(0)
        if code != 0:
            raise GraphError(
                f"the command fails without any optional decision too ({_meaning(code)})",
                hint="GRAPHC=check compares the levels below",
            )
        found = first_bad(lambda fuel: trial.run(fuel) != 0, 0, made)
        # the last run need not be that of the decision found
        code = trial.run(found)
        if code == 0:
            raise GraphError("the command does not always give the same: it now succeeds")
        from passes.infra.decision_file import number_of

        guilty = [line for line in trial.decisions() if number_of(line) == found]
        if not guilty:
            raise GraphError(
                "the command does not always decide the same",
                hint="nothing may depend on time or on a random seed",
            )
    progress()
    for line in guilty:
        print(f"{line} of {made} decisions makes the difference")
        print(_excerpt(line), end="")
    print(f"GRAPHC=fuel={found - 1} is right, GRAPHC=fuel={found} is wrong ({_meaning(code)}),")
    print(f"GRAPHC=off={guilty[0].partition(':')[0]} leaves out all decisions of this kind")
    return 0


class _Trial:
    """A command that is run with limits to the decisions."""

    def __init__(
        self, command: Sequence[str], file: str, timeout: float | None, verbose: bool
    ) -> None:
        self.command = list(command)
        self.file = file
        self.timeout = timeout
        self.verbose = verbose
        self.runs = 0

    def run(self, fuel: int | None) -> int:
        """The exit code; negative for a signal, 124 if it took too long."""
        if os.path.exists(self.file):
            os.unlink(self.file)
        settings = [os.environ.get("GRAPHC", ""), f"decisions={self.file}"]
        if fuel is not None:
            settings.append(f"fuel={fuel}")
        environment = {**os.environ, "GRAPHC": ",".join(filter(None, settings))}
        output = None if self.verbose else subprocess.DEVNULL
        self.runs += 1
        if not self.verbose:
            limit = "all decisions" if fuel is None else f"{fuel} decisions"
            progress(f"graphc: run {self.runs} of the command, with {limit}")
        try:
            return subprocess.run(
                self.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=self.timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return 124

    def decisions(self) -> list[str]:
        """The lines of the decisions that the last run made."""
        try:
            with open(self.file, encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []


def _meaning(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _excerpt(decision: str) -> str:
    """The user's line, indented; empty if it can't be read."""
    place = _PLACE.search(decision)
    if place is None or not os.path.isfile(place["file"]):
        return ""
    text = linecache.getline(place["file"], int(place["line"])).strip()
    return f"    {text}\n" if text else ""


COMMAND = Command(
    "bisect",
    "find the decision of the compiler that makes a command or a captured run wrong",
    "With a COMMAND: runs it again and again, each time with another limit to the optional "
    "decisions of the compiler; exit code 0 means right. With a FILE, a capsule or a saved graph: "
    "compares compiled code with the interpreter, on random inputs if the file holds none. Prints "
    "the decision that makes the difference, with the line of the user's program. The exit code is "
    "0 if one was found, 2 if not.",
    (
        argument("file", metavar="FILE", nargs="?"),
        argument(
            "--timeout", type=float, metavar="SECONDS", help="a command that takes longer is wrong"
        ),
        argument("--verbose", action="store_true", help="show what the command prints"),
        TOLERANCE,
    ),
    _bisect,
    usage="graphc bisect [-h] [--timeout SECONDS] [--verbose] -- COMMAND …\n"
    "       graphc bisect [-h] [--tolerance X] FILE",
    takes_command=True,
)
