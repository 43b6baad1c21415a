"""Text form of symbolic dimensions: printing of polynomials, reading of expressions.

Role: everything about characters, nothing about algebra.  Reading yields a postfix program which
``graphc.ir.dims.expressions`` runs; printing takes terms whose atoms are already text.  Invariant:
what is printed reads back to the same value, with Python's precedence of operators.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

# A name and its operand, if it has one; see ``parse_program``.
Instruction: TypeAlias = tuple[Any, ...]

RELATION_TEXT = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}

_TEXT_RELATION = {text: relation for relation, text in RELATION_TEXT.items()}
_FUNCTIONS = frozenset({"min", "max", "broadcast", "select", "let"})
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r'|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<operator>//|\*\*|==|!=|<=|<|[-+*%(),=]))',
    re.DOTALL,
)
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2, "negate": 3}
_PROGRAMS: dict[str, tuple[Instruction, ...]] = {
    "+": (("add",),),
    "-": (("const", -1), ("mul",), ("add",)),
    "*": (("mul",),),
    "//": (("floordiv",),),
    "%": (("mod",),),
    "negate": (("const", -1), ("mul",)),
}


@dataclass(frozen=True, slots=True)
class AtomText:
    """An atom ready to print; ``compound`` when it needs parentheses inside a larger product."""

    text: str
    compound: bool = False

    def tight(self) -> str:
        """The text as an operand that no neighbouring operator can tear apart."""
        return f"({self.text})" if self.compound else self.text


def format_name(name: str) -> str:
    """The symbol's name, quoted unless it is a plain identifier."""
    if name.isascii() and name.isidentifier() and name not in _FUNCTIONS:
        return name
    return json.dumps(name)


def format_polynomial(
    terms: Sequence[tuple[int, Sequence[tuple[AtomText, int]]]],
) -> AtomText:
    """Print a sum of coefficient * product of atom**power; no terms print as ``0``."""
    if not terms:
        return AtomText("0")
    if len(terms) == 1 and terms[0][0] == 1 and len(terms[0][1]) == 1 and terms[0][1][0][1] == 1:
        return terms[0][1][0][0]
    parts: list[str] = []
    for coefficient, factors in terms:
        magnitude = abs(coefficient)
        alone = magnitude == 1 and len(factors) == 1 and factors[0][1] == 1
        if alone and (coefficient > 0 or parts):
            body = factors[0][0].text
        else:
            texts = [
                atom.tight() if power == 1 else f"{atom.tight()}**{power}"
                for atom, power in factors
            ]
            if magnitude != 1 or not texts:
                texts.insert(0, str(magnitude))
            body = "*".join(texts)
        if parts:
            parts.append(" - " if coefficient < 0 else " + ")
        elif coefficient < 0:
            parts.append("-")
        parts.append(body)
    number = len(terms) == 1 and not terms[0][1] and terms[0][0] >= 0
    return AtomText("".join(parts), compound=not number)


@dataclass(slots=True)
class _Frame:
    """An open parenthesis or call and the operators waiting inside it."""

    function: str | None
    position: int
    arguments: int = 0
    relation: str | None = None
    name: str | None = None
    operators: list[tuple[str, int]] = field(default_factory=list)


def _error(text: str, position: int, message: str) -> ValueError:
    return ValueError(f"{message} at position {position} of dimension {text!r}")


def _tokens(text: str) -> list[tuple[str, str, int]]:
    """Split into (kind, text, position), closed by an ``end`` token."""
    tokens: list[tuple[str, str, int]] = []
    position = 0
    length = len(text.rstrip())
    while position < length:
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise _error(text, start, f"unexpected character {text[start]!r}")
        kind = str(match.lastgroup)
        tokens.append((kind, match.group(kind), match.start(kind)))
        position = match.end()
    tokens.append(("end", "", length))
    return tokens


class _Reader:
    """Operator-precedence reader with explicit stacks: nesting depth costs no recursion."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.index = 0
        self.frames = [_Frame(None, 0)]
        self.program: list[tuple[Instruction, int]] = []

    def run(self) -> list[tuple[Instruction, int]]:
        expects_operand = True
        while True:
            kind, token, position = self.tokens[self.index]
            self.index += 1
            if expects_operand:
                expects_operand = self.operand(kind, token, position)
            elif kind == "end":
                if len(self.frames) > 1:
                    raise _error(self.text, self.frames[-1].position, "unclosed parenthesis")
                self.flush(0)
                return self.program
            else:
                expects_operand = self.operator(kind, token, position)

    def operand(self, kind: str, token: str, position: int) -> bool:
        """Take one token where a value must start; True if a value is still to come."""
        if kind == "number":
            try:
                self.program.append((("const", int(token)), position))
            except ValueError as error:
                raise _error(self.text, position, "number too long") from error
            return False
        if kind == "quoted":
            try:
                name = str(json.loads(token))
            except json.JSONDecodeError as error:
                raise _error(self.text, position, f"bad quoted name ({error.msg})") from error
            if not name:
                raise _error(self.text, position, "empty symbol name")
            self.program.append((("symbol", name), position))
            return False
        if self.frames[-1].function == "let" and self.starts_definition(kind):
            self.frames[-1].name = token
            self.index += 1
            return True
        if kind == "name" and token in _FUNCTIONS:
            if self.tokens[self.index][1] != "(":
                raise _error(self.text, position, f"expected '(' after {token}")
            self.index += 1
            self.frames.append(_Frame(token, position))
            return True
        if kind == "name":
            self.program.append((("symbol", token), position))
            return False
        if token == "(":
            self.frames.append(_Frame(None, position))
            return True
        if token == "-":
            self.frames[-1].operators.append(("negate", position))
            return True
        found = repr(token) if token else "the end"
        raise _error(self.text, position, f"expected a value, found {found}")

    def starts_definition(self, kind: str) -> bool:
        """Whether a name and ``=`` begin here, an argument of the innermost let."""
        frame = self.frames[-1]
        is_first = not frame.operators and frame.name is None
        return is_first and kind == "name" and self.tokens[self.index][1] == "="

    def operator(self, kind: str, token: str, position: int) -> bool:
        """Take one token after a complete value; True if a value must follow."""
        frame = self.frames[-1]
        if token == "**":
            exponent_kind, exponent, exponent_position = self.tokens[self.index]
            if exponent_kind != "number" or len(exponent) > 9:
                raise _error(self.text, exponent_position, "expected a small integer exponent")
            self.index += 1
            if self.tokens[self.index][1] == "**":
                raise _error(self.text, self.tokens[self.index][2], "chained '**'")
            self.program.append((("power", int(exponent)), position))
            return False
        if kind == "operator" and token in _PRECEDENCE:
            self.flush(_PRECEDENCE[token])
            frame.operators.append((token, position))
            return True
        if token in _TEXT_RELATION:
            if frame.function != "select" or frame.arguments or frame.relation:
                raise _error(self.text, position, "comparison outside a select condition")
            self.flush(0)
            frame.relation = _TEXT_RELATION[token]
            return True
        if token == "," and frame.function is not None:
            self.flush(0)
            frame.arguments += 1
            if frame.function == "select" and frame.relation is None:
                raise _error(self.text, position, "select needs a comparison first")
            if frame.function == "let":
                if frame.name is None:
                    raise _error(self.text, position, "let needs a name and '=' first")
                self.program.append((("define", frame.name), position))
                frame.name = None
            return True
        if token == ")" and len(self.frames) > 1:
            self.flush(0)
            frame.arguments += 1
            self.close(frame, position)
            return False
        raise _error(self.text, position, f"unexpected {token!r}")

    def flush(self, precedence: int) -> None:
        """Emit waiting operators that bind at least as tightly."""
        waiting = self.frames[-1].operators
        while waiting and _PRECEDENCE[waiting[-1][0]] >= precedence:
            operator, position = waiting.pop()
            self.program.extend((instruction, position) for instruction in _PROGRAMS[operator])

    def close(self, frame: _Frame, position: int) -> None:
        self.frames.pop()
        if frame.function is None:
            return
        if frame.function == "select":
            if frame.relation is None or frame.arguments != 3:
                raise _error(self.text, position, "select takes a comparison and two values")
            self.program.append((("select", frame.relation), frame.position))
            return
        if frame.function == "let":
            if frame.name is not None:
                raise _error(self.text, position, "let ends with a value")
            self.program.append((("forget", frame.arguments - 1), frame.position))
            return
        if frame.arguments < 2:
            raise _error(self.text, position, f"{frame.function} takes two or more values")
        self.program.extend([((frame.function,), frame.position)] * (frame.arguments - 1))


def parse_program(text: str) -> list[tuple[Instruction, int]]:
    """Read an expression into postfix instructions, each with its position in the text.

    ``("const", n)`` and ``("symbol", name)`` push; ``("add",) ("mul",) ("floordiv",) ("mod",)
    ("min",) ("max",) ("broadcast",)`` replace two values by one, ``("power", n)`` one; ``("select",
    relation)`` replaces left, right, if_true, if_false, pushed in that order.  ``("define", name)``
    takes a value that symbols of this name mean until ``("forget", n)`` ends the last n names.

    Raises ValueError with the position of the first thing that can't be read.
    """
    return _Reader(text).run()
