"""The scanner of the texts of kernels and plans: words, numbers, strings, dims, types, places."""

from __future__ import annotations

import json
import re
from typing import NoReturn

from graphc.base.source import Location
from graphc.ir import dtypes
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType
from graphc.ir.text.excerpt import WIDTH, parse_error, unescape
from graphc.ir.types import TensorType

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
NUMBER = re.compile(
    r"-?(?:0x[0-9a-f]++(?:\.[0-9a-f]*+)?p[+-]?[0-9]++|nan:0x[0-9a-f]++|inf\b|nan\b"
    r"|[0-9]++(?:\.[0-9]++)?(?:e[+-]?[0-9]++)?)",
    re.ASCII,
)
_SCALAR = re.compile(r"%[0-9]+", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*+"')
_DIM_PIECE = re.compile(
    r'"(?:[^"\\\n]|\\[^\n])*+"|[A-Za-z_][A-Za-z0-9_]*+|[^"\n]', re.ASCII
)
_CARRY = re.compile(r"carry[ \t]*\(")
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BLANKS = re.compile(r"[ \t]*")
_LINES = re.compile(r"[ \t\r\n]*")


class Scanner:
    """Reads a text from left to right; ``position`` is the first character after blanks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._symbols: dict[str, Dim] = {}
        self._skip()

    def fail(self, problem: str, start: int | None = None) -> NoReturn:
        """Raises the ParseError, at the position unless told where."""
        raise parse_error(problem, self.text, self.position if start is None else start)

    # --- blanks ----------------------------------------------------------------------------------

    def _skip(self) -> None:
        found = _BLANKS.match(self.text, self.position)
        self.position = found.end() if found is not None else self.position

    def skip_lines(self) -> None:
        """Goes to the next character that is no blank."""
        found = _LINES.match(self.text, self.position)
        self.position = found.end() if found is not None else self.position

    def end_of_line(self) -> None:
        """Nothing may follow on this line."""
        if self.text[self.position : self.position + 1] not in ("", "\n", "\r"):
            self.fail(f"expected the end of the line, found {self._found()}")

    # --- tokens ----------------------------------------------------------------------------------

    def _found(self) -> str:
        rest = self.text[self.position : self.position + 1]
        if rest in ("", "\n", "\r"):
            return "the end of the line" if rest else "the end of the text"
        for pattern in (NAME, NUMBER, _SCALAR):
            found = pattern.match(self.text, self.position)
            if found is not None:
                return repr(found.group()[:WIDTH])
        return repr(rest)

    def looking_at(self, pattern: re.Pattern[str]) -> bool:
        """Whether the pattern is next."""
        return pattern.match(self.text, self.position) is not None

    def looking_at_sign(self, sign: str) -> bool:
        """Whether these characters are next."""
        return self.text.startswith(sign, self.position)

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        """Takes what the pattern matches."""
        found = pattern.match(self.text, self.position)
        if found is None:
            self.fail(f"expected {what}, found {self._found()}")
        self.position = found.end()
        self._skip()
        return found.group()

    def accept(self, sign: str) -> bool:
        """Takes these characters, if they are next."""
        if not self.looking_at_sign(sign):
            return False
        self.position += len(sign)
        self._skip()
        return True

    def expect(self, sign: str) -> None:
        """Takes these characters."""
        if not self.accept(sign):
            self.fail(f"expected {sign!r}, found {self._found()}")

    def accept_word(self, word: str) -> bool:
        """Takes a whole word, if it is next."""
        found = NAME.match(self.text, self.position)
        return found is not None and found.group() == word and self.accept(word)

    def word(self, word: str) -> None:
        """Takes a whole word."""
        if not self.accept_word(word):
            self.fail(f"expected {word!r}, found {self._found()}")

    def scalar(self) -> str:
        """The name of a scalar."""
        return self.match(_SCALAR, "a scalar like %0")

    def integer(self) -> int:
        """An integer."""
        start, token = self.position, self.match(_INTEGER, "an integer")
        try:
            return int(token)
        except ValueError as error:
            self.fail(str(error), start)

    def string(self, what: str) -> str:
        """A string in double quotes with JSON's escapes."""
        start, token = self.position, self.match(_STRING, what)[1:-1]
        return unescape(token, lambda problem, place: self.fail(problem, start + 1 + place))

    def not_negative(self, what: str) -> int:
        """An integer of at least 0."""
        start, number = self.position, self.integer()
        if number < 0:
            self.fail(f"{what} is not negative", start)
        return number

    # --- types and places ------------------------------------------------------------------------

    def dtype(self) -> DType:
        """A dtype by its name."""
        start, name = self.position, self.match(NAME, "a dtype")
        found = dtypes.named(name)
        if found is None:
            self.fail(f"unknown dtype {name!r}", start)
        return found

    def tensor_type(self) -> TensorType:
        """A dtype and a shape."""
        return TensorType(self.dtype(), tuple(self.dim_list()))

    def where(self) -> Location | None:
        """What ``printer.where_text`` prints, if it is next."""
        if not self.accept_word("at"):
            return None
        filename = self.string("a file's name")
        self.expect(":")
        line = self.not_negative("a line")
        column = end_column = None
        if self.accept(":"):
            column = self.not_negative("a column")
            if self.accept(".."):
                end_column = self.not_negative("a column")
        return Location(filename, line, column, end_column)

    # --- dims ------------------------------------------------------------------------------------

    def bounds(self) -> None:
        """What ``printer.bounds_clause`` prints, if it is next: the symbols and their bounds."""
        if not self.accept_word("dims"):
            return
        self.expect("(")
        while True:
            start = self.position
            name = self._symbol_name()
            self.expect(":")
            lower = self.integer()
            self.expect("..")
            upper = self.integer() if self.looking_at(NUMBER) else None
            if name in self._symbols:
                self.fail(f"symbol {name!r} has bounds already", start)
            try:
                self._symbols[name] = expressions.symbol(name, lower, upper)
            except ValueError as error:
                self.fail(str(error), start)
            if not self.accept(","):
                break
        self.expect(")")

    def _symbol_name(self) -> str:
        """The name of a symbol, quoted as in dims if it is no plain word."""
        if not self.looking_at_sign('"'):
            return self.match(_SYMBOL, "a symbol")
        start, token = self.position, self.match(_STRING, "a symbol")
        try:
            return str(json.loads(token))
        except ValueError as error:
            self.fail(str(error), start)

    def dim(self) -> Dim:
        """A dim, up to a comma, bracket, brace, at sign or ``carry (`` outside parentheses."""
        start, depth = self.position, 0
        position = start
        while (piece := _DIM_PIECE.match(self.text, position)) is not None:
            sign = piece.group()
            if depth == 0 and (
                sign in (",", "]", "{", "@", "\r") or _CARRY.match(self.text, position) is not None
            ):
                break
            depth += (sign == "(") - (sign == ")")
            position = piece.end()
        text = self.text[start:position]
        try:
            result = expressions.parse_dim(text, self._symbols)
            str(result)
        except (ValueError, ArithmeticError) as error:
            self.fail(str(error), start)
        self.position = position
        self._skip()
        return result

    def dim_list(self) -> list[Dim]:
        """Dims in brackets."""
        self.expect("[")
        if self.accept("]"):
            return []
        result = [self.dim()]
        while self.accept(","):
            result.append(self.dim())
        self.expect("]")
        return result


__all__ = ["NAME", "NUMBER", "Scanner"]
