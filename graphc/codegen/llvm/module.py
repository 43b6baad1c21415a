"""Modules of LLVM text: functions, what they declare, and constants, held as data until they are
printed.

Symbols are no part of the text around them, so a module can give its own other names, and several
modules become one, without a look at what is printed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from graphc.base.target import Target
from graphc.codegen.llvm.types import constant_text, ltype

Pieces: TypeAlias = tuple[str, ...]
"""Text, a symbol, text, a symbol, … and text."""


def symbol(name: str) -> str:
    """How text under emission names what a module defines or declares."""
    return f"@{name}@"


def pieces_of(text: str) -> Pieces:
    """Text under emission, taken apart; it must name all symbols by ``symbol``."""
    pieces = tuple(text.split("@"))
    assert len(pieces) % 2, "every symbol stands between two marks"
    return pieces


def _spelled(pieces: Pieces) -> str:
    return "".join([f"@{piece}" if n % 2 else piece for n, piece in enumerate(pieces)])


def _renamed(pieces: Pieces, names: Mapping[str, str]) -> Pieces:
    return tuple(names.get(piece, piece) if n % 2 else piece for n, piece in enumerate(pieces))


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a module: a constant, a declaration, a mark, or nothing.

    Attributes:
        name: what it defines or declares; empty for a line that may stand more than once.
        pieces: its text.
        declares: whether it is a declaration, which a definition makes superfluous.
    """

    name: str
    pieces: Pieces
    declares: bool = False

    def renamed(self, names: Mapping[str, str]) -> Line:
        """The same where symbols have other names."""
        return replace(
            self, name=names.get(self.name, self.name), pieces=_renamed(self.pieces, names)
        )

    def __str__(self) -> str:
        return _spelled(self.pieces)


EMPTY = Line("", ("",))


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function.

    Attributes:
        name: its symbol.
        head: its linkage and the type of its result.
        parameters: their types, attributes and names.
        attributes: what stands behind them.
        body: its lines.
    """

    name: str
    head: str
    parameters: str
    attributes: str
    body: Pieces

    def renamed(self, names: Mapping[str, str]) -> Function:
        """The same where symbols have other names."""
        return replace(self, name=names.get(self.name, self.name), body=_renamed(self.body, names))

    @property
    def is_seen(self) -> bool:
        """Whether it is seen outside of its module."""
        return not self.head.startswith(("internal ", "private "))

    def hidden(self) -> Function:
        """The same, seen inside its module only."""
        head = self.head.removeprefix("internal ").removeprefix("dllexport ")
        return replace(self, head=f"internal {head}")

    def __str__(self) -> str:
        head = f"define {self.head} @{self.name}({self.parameters}) {self.attributes}"
        return f"{head} {{\n{_spelled(self.body)}\n}}"


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A whole module; compares by identity.

    Attributes:
        parts: what it consists of, in order.
    """

    parts: tuple[Line | Function, ...]

    @property
    def text(self) -> str:
        """What LLVM reads."""
        return "\n".join((*map(str, self.parts), ""))

    @property
    def functions(self) -> Mapping[str, Function]:
        """Those that it defines, by name."""
        return {part.name: part for part in self.parts if isinstance(part, Function)}

    @property
    def symbols(self) -> set[str]:
        """What it defines: functions and constants."""
        return {
            part.name
            for part in self.parts
            if isinstance(part, Function)
            or (not part.declares and part.name and not part.name.startswith("!"))
        }

    @property
    def exports(self) -> tuple[str, ...]:
        """The functions that are seen from outside."""
        return tuple(name for name, function in self.functions.items() if function.is_seen)

    def renamed(self, names: Mapping[str, str]) -> Module:
        """The same where symbols have other names."""
        return Module(tuple(part.renamed(names) for part in self.parts))


def joined(modules: Iterable[Module]) -> Module:
    """Several modules as one.

    What several define they define alike, and it stands once; what several declare, too.
    """
    parts = [part for module in modules for part in module.parts]
    defined = {part.name for part in parts if isinstance(part, Function)}
    kept: dict[str | int, Line | Function] = {}
    for number, part in enumerate(parts):
        if not (isinstance(part, Line) and part.declares and part.name in defined):
            kept.setdefault(part.name or number, part)
    return Module(tuple(kept.values()))


class ModuleEmitter:
    """A module under emission: functions, the declarations they need, and global constants.

    Attributes:
        target: what code is made for.
        calls_functions: whether elementary functions are called, not inlined.
        libraries: modules that this one calls into, by the symbol they define.
        streams: whether a function stores past the caches, and so needs the mark ``!0``.
    """

    def __init__(self, target: Target, calls_functions: bool = False) -> None:
        self.target = target
        self.calls_functions = calls_functions
        self._functions: dict[str, Function] = {}
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, Line] = {}
        self.libraries: dict[str, Module] = {}
        self.streams = False

    def declare(self, name: str, result: str, parameters: str, attributes: str = "") -> None:
        """Declares an external function once."""
        if name not in self._declarations:
            self._declarations[name] = f"declare {result} {symbol(name)}({parameters}) {attributes}"

    def declares(self, name: str) -> bool:
        """True if a function of that name was declared."""
        return name in self._declarations

    def constant(self, name: str, text: str) -> None:
        """Defines, once, a constant or variable; ``text`` is what stands behind ``name =``."""
        if name not in self._globals:
            self._globals[name] = Line(name, pieces_of(f"{symbol(name)} = {text}"))

    def constant_table(self, name: str, element: str, values: Sequence[int | float]) -> str:
        """The symbol of a private constant array, 64-byte aligned.

        Equal names must mean equal content.
        """
        if name not in self._globals:
            type_ = ltype(element)
            items = ", ".join(f"{element} {constant_text(value, type_)}" for value in values)
            kind = f"[{len(values)} x {element}]"
            self.constant(name, f"private unnamed_addr constant {kind} [{items}], align 64")
        return name

    def string(self, text: str) -> str:
        """The symbol of a private constant of UTF-8 bytes that ends in a zero."""
        return self.octets(text.encode() + b"\0")

    def octets(self, content: bytes) -> str:
        """The symbol of a private constant of these bytes."""
        name = f"bytes.{hashlib.sha256(content).hexdigest()[:16]}"
        spelled = "".join(f"\\{byte:02X}" for byte in content)
        self.constant(name, f'private unnamed_addr constant [{len(content)} x i8] c"{spelled}"')
        return name

    def define(self, function: Function) -> None:
        """Adds a function once."""
        self._functions.setdefault(function.name, function)

    def has(self, name: str) -> bool:
        """True if a function of that name was defined."""
        return name in self._functions

    def module(self) -> Module:
        """All that there is up to now."""
        declared = (
            Line(name, pieces_of(text), declares=True)
            for name, text in self._declarations.items()
            if name not in self._functions
        )
        mark = Line("!0", ("!0 = !{i32 1}",)) if self.streams else EMPTY
        return Module((*self._globals.values(), *declared, *self._functions.values(), mark))

    def text(self) -> str:
        """The text of all that there is up to now."""
        return self.module().text
