"""The errors that users meet.

Each derives from ``GraphcError`` and from the builtin that a Python programmer would catch. The
message says what is wrong; ``where`` adds the user's line with a caret, ``node`` the operation as
text, ``cause`` the pass or rule, ``hint`` how to mend it. All of it fits one screen.
"""

from __future__ import annotations

import numpy as np

from graphc.base.source import Location


class GraphcError(Exception):
    """Base of all errors raised by graphc.

    Attributes:
        message: what is wrong, in one sentence.
        where: the user's source line that is concerned, if known.
        node: the operation as IR text, if one is concerned.
        cause: the pass or rule at work, if one was.
        hint: how to mend it.
    """

    def __init__(
        self,
        message: str,
        *,
        where: Location | None = None,
        node: str | None = None,
        cause: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.where = where
        self.node = node
        self.cause = cause
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        lines = [self.message]
        if self.where is not None:
            lines.append(f"  at {self.where}")
            if excerpt := self.where.excerpt():
                lines.append(excerpt)
        if self.node is not None:
            lines.append(f"  in {self.node}")
        if self.cause is not None:
            lines.append(f"  while running {self.cause}")
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        details = {
            "message": self.message,
            "where": self.where,
            "node": self.node,
            "cause": self.cause,
            "hint": self.hint,
        }
        return (type(self), (self.message,), details)


class GraphcWarning(UserWarning):
    """Something that is allowed and seldom meant; says how to mend it."""


class ShapeError(GraphcError, ValueError):
    """Shapes that don't fit each other or the operation."""


class AxisError(ShapeError, IndexError):
    """An axis that a tensor does not have; as NumPy's it is an error of values and of indices."""


class DTypeError(GraphcError, TypeError):
    """A dtype that the operation does not take."""


class FeedError(GraphcError, ValueError):
    """A missing, unknown or ill-typed feed."""


class GraphError(GraphcError, ValueError):
    """Misuse of a graph: values of another graph, a frozen graph, an unknown option."""


class FileError(GraphcError, OSError):
    """A file that is missing, or can't be read or written."""


class NameLookupError(GraphcError, KeyError):
    """A name that no value, or more than one value, bears."""

    __str__ = GraphcError.__str__


class IndexRangeError(GraphcError, IndexError):
    """An index outside its axis."""


class LinAlgError(GraphcError, np.linalg.LinAlgError):
    """A matrix that is singular or not positive definite where it may not be."""


class UnsupportedError(GraphcError, NotImplementedError):
    """Something graphc does not do; the message names it."""


class GradientError(GraphcError, ValueError):
    """A derivative that does not exist or has no path."""


class NumericsError(GraphcError, FloatingPointError):
    """A result is not finite, and ``Options(check_numerics=True)`` asked for the cause."""


class ParseError(GraphcError, ValueError):
    """Text that is not well-formed IR."""


class VerifyError(GraphcError, AssertionError):
    """An invariant of an IR level does not hold: a bug in graphc or in a pass."""


class ArtifactError(GraphcError, ValueError):
    """An exported artifact that is damaged, foreign or made for another target."""


class HostCallError(GraphcError, RuntimeError):
    """A Python function that a graph calls has raised an error, which is the cause of this one, or
    has given what was not promised."""


class CheckError(GraphcError, AssertionError):
    """A condition of ``gx.check`` does not hold."""


class ConcreteValueError(GraphcError, TypeError):
    """A symbolic value was used where Python needs a concrete one."""
