"""The file of decisions as lines of text, for bisection from outside.

Invariant: one line a decision, in the order in which they were made; only the owner may read it.
The number of lines is the number of decisions, also when several programs write in turn.
Programs compiled at the same time may give one number to several decisions.
"""

from __future__ import annotations

import os

from graphc.base.errors import GraphError


def count(path: str) -> int:
    """How many decisions the file holds; 0 if there is none."""
    try:
        with open(path, "rb") as file:
            return file.read().count(b"\n")
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise _failure(path, error) from error


def append(path: str, decision: str) -> None:
    """Adds a decision's text as one line."""
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in decision)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _failure(path, error) from error


def number_of(line: str) -> int:
    """The number of the decision on a line; 0 if the line is none."""
    number = line.rpartition(", #")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0


def _failure(path: str, error: OSError) -> GraphError:
    return GraphError(
        f"the file of decisions {path} can't be used: {error.strerror}",
        hint="decisions=FILE names a file that you may write",
    )


__all__ = ["append", "count", "number_of"]
