"""Schedules: how the loops, loads and stores of a kernel are carried out, never what they compute.

A schedule is data beside the statements (``Kernel.schedule``). Kernel passes choose it
(``passes/kernels/``), its kind says what is right, code generation obeys, and the interpreter
ignores it: results are those of the statements alone, to the bit.

Each kind is a module of this package. The text of a schedule follows ``@`` behind its statement:
``vector %2 < 64 @ vector(32) {``.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Schedule:
    """How one statement is carried out. Attributes are numbers; they stand in its text."""

    name: ClassVar[str]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, astuple(self)))})"


__all__ = ["Schedule"]
