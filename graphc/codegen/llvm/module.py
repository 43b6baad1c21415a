"""Modules of LLVM text: functions, what they declare, and constants."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from graphc.base.target import Target
from graphc.codegen.llvm.types import constant_text, ltype


class ModuleEmitter:
    """A module: functions, the declarations they need, and global constants.

    Attributes:
        target: what code is made for.
        calls_functions: whether elementary functions are called, not inlined.
        libraries: modules that this one calls into, by the symbol they define.
        streams: whether a function stores past the caches, and so needs the mark ``!0``.
    """

    def __init__(self, target: Target, calls_functions: bool = False) -> None:
        self.target = target
        self.calls_functions = calls_functions
        self._functions: dict[str, str] = {}
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self.libraries: dict[str, str] = {}
        self.streams = False

    def declare(self, name: str, result: str, parameters: str, attributes: str = "") -> None:
        """Declares an external function once."""
        self._declarations.setdefault(name, f"declare {result} @{name}({parameters}) {attributes}")

    def constant_table(self, name: str, element: str, values: Sequence[int | float]) -> str:
        """The symbol of a private constant array, 64-byte aligned.

        Equal names must mean equal content.
        """
        if name not in self._globals:
            type_ = ltype(element)
            items = ", ".join(f"{element} {constant_text(value, type_)}" for value in values)
            self._globals[name] = (
                f"@{name} = private unnamed_addr constant "
                f"[{len(values)} x {element}] [{items}], align 64"
            )
        return name

    def string(self, text: str) -> str:
        """The symbol of a private constant of UTF-8 bytes that ends in a zero."""
        return self.octets(text.encode() + b"\0")

    def octets(self, content: bytes) -> str:
        """The symbol of a private constant of these bytes."""
        name = f"bytes.{hashlib.sha256(content).hexdigest()[:16]}"
        spelled = "".join(f"\\{byte:02X}" for byte in content)
        self._globals.setdefault(
            name, f'@{name} = private unnamed_addr constant [{len(content)} x i8] c"{spelled}"'
        )
        return name

    def define(self, name: str, text: str) -> None:
        """Adds a function's text once."""
        self._functions.setdefault(name, text)

    def has(self, name: str) -> bool:
        """True if a function of that name was defined."""
        return name in self._functions

    def text(self) -> str:
        """The whole module."""
        return "\n".join(
            (
                *self._globals.values(),
                *(d for n, d in self._declarations.items() if n not in self._functions),
                *self._functions.values(),
                "!0 = !{i32 1}" if self.streams else "",
                "",
            )
        )
