"""The table of statements, and the reader of their text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeVar

from graphc.kernel.scanner import Scanner
from graphc.kernel.signature import Buffer
from graphc.kernel.statements.base import Size, Statement, Var


class Reader(Scanner):
    """The reader of statements; ``graphc.kernel.parser``."""

    def read(self) -> Var:
        """A scalar that is defined."""
        raise NotImplementedError

    def size(self) -> Size:
        """A dim, or a scalar that is defined."""
        raise NotImplementedError

    def buffer(self) -> Buffer:
        """A buffer of the kernel."""
        raise NotImplementedError


@dataclass(slots=True)
class Head:
    """A statement with a body of which the head is read.

    Attributes:
        word: its first word.
        defined: names, their places and scalars that its body knows; the index first.
        item: reads one item of what its body yields; None if it yields nothing.
        close: makes the statement, of its body and the items; one for each result.
    """

    word: str
    defined: list[tuple[str, int, Var]]
    item: Callable[[], Var] | None
    close: Callable[[tuple[Statement, ...], Sequence[Var]], Statement]


class Parsed(Protocol):
    """A class of statements, as its text is read."""

    @classmethod
    def parse(
        cls, reader: Reader, word: str, start: int, results: Sequence[str]
    ) -> Statement | Head:
        """Reads it behind its first word, which began at ``start``; of one with a body the head.

        ``results`` are the names of its results.
        """


class Word(NamedTuple):
    """How a statement is read.

    Attributes:
        parse: reads it.
        gives: whether results stand before it: one, some, or none.
    """

    parse: Callable[[Reader, str, int, Sequence[str]], Statement | Head]
    gives: Literal["one", "some", "none"]


WORDS: dict[tuple[str, bool], Word] = {}
"""How statements are read, by the first word and whether results stand before it."""

STATEMENTS: list[type] = []
"""All classes of statements."""

P = TypeVar("P", bound=Parsed)


def statement(
    words: Iterable[str], gives: Literal["one", "some", "none"], also: Iterable[str] = ()
) -> Callable[[type[P]], type[P]]:
    """Enters a class in the tables: the words that its text begins with, behind so many results,
    and those that it begins with where there are no results."""

    def enter(made: type[P]) -> type[P]:
        for word in words:
            WORDS[word, gives != "none"] = Word(made.parse, gives)
        for word in also:
            WORDS[word, False] = Word(made.parse, "none")
        STATEMENTS.append(made)
        return made

    return enter
