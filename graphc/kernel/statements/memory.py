"""Loads and stores of elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from graphc.kernel.signature import Buffer
from graphc.kernel.statements.base import Access, Names, Scalar, Var
from graphc.kernel.statements.words import Reader, statement


def _element(reader: Reader) -> tuple[Buffer, Var]:
    buffer = reader.buffer()
    reader.expect("[")
    index = reader.read()
    reader.expect("]")
    return buffer, index


@statement(("load",), "one")
@dataclass(slots=True, eq=False)
class Load(Access, Scalar):
    """An element. With a condition, ``other`` where it fails, and nothing is read."""

    result: Final[Var]
    buffer: Final[Buffer]
    index: Final[Var]
    condition: Final[Var | None] = None
    other: Final[Var | None] = None

    @property
    def value(self) -> Var:
        return self.result

    @property
    def operands(self) -> tuple[Var, ...]:
        if self.condition is None and self.other is None:
            return (self.index,)
        extra = (self.condition, self.other)
        return (self.index, *[var for var in extra if var is not None])

    @property
    def reads(self) -> tuple[Buffer, ...]:
        return (self.buffer,)

    def moved(self, to: Mapping[Buffer, Buffer]) -> Load:
        buffer = to.get(self.buffer, self.buffer)
        return Load(self.result, buffer, self.index, self.condition, self.other)

    def expression(self, names: Names) -> str:
        text = f"load {self.element(names)}"
        if self.condition is not None:
            text += f" if {names.read(self.condition)}"
        if self.other is not None:
            text += f" else {names.read(self.other)}"
        return text

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Load:
        buffer, index = _element(reader)
        condition = reader.read() if reader.accept_word("if") else None
        other = reader.read() if reader.accept_word("else") else None
        return cls(Var(buffer.type.dtype), buffer, index, condition, other)


@statement(("store",), "none")
@dataclass(slots=True, eq=False)
class Store(Access):
    """Writes an element of an output or scratch buffer."""

    buffer: Final[Buffer]
    index: Final[Var]
    value: Final[Var]

    @property
    def operands(self) -> tuple[Var, ...]:
        return (self.index, self.value)

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.buffer,)

    def moved(self, to: Mapping[Buffer, Buffer]) -> Store:
        return Store(to.get(self.buffer, self.buffer), self.index, self.value)

    def text(self, names: Names) -> str:
        return f"store {self.element(names)}, {names.read(self.value)}"

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Store:
        buffer, index = _element(reader)
        reader.expect(",")
        return cls(buffer, index, reader.read())
