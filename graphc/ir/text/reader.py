"""The text form of graphs: reading tokens, types and attributes.

The layer below ``parser``: it knows characters and plain data, not graphs. Invariant: whatever the
text is, it either reads or raises ParseError with line, column and an excerpt, and nothing in it is
evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from graphc.ir import dtypes
from graphc.ir.attributes import Array, Payload
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType
from graphc.ir.host import HostFunction, numbered
from graphc.ir.text.excerpt import parse_error, unescape
from graphc.ir.text.numbers import array_of, float_of
from graphc.ir.text.printer import MAXIMUM_NESTING
from graphc.ir.types import TensorType

_TOKEN = re.compile(
    r"""(?:[ \t\r\n]++|//[^\n]*+)*+
    (?:(?P<value>%[A-Za-z0-9_]++)
      |(?P<string>"(?:[^"\\\n]|\\[^\n])*+")
      |(?P<number>-?(?:0x[0-9a-f]++(?:\.[0-9a-f]*+)?p[+-]?[0-9]++|nan:0x[0-9a-f]++
                  |[0-9]++(?:\.[0-9]++)?(?:e[+-]?[0-9]++)?|(?:inf|nan)\b(?![:.])))
      |(?P<name>[A-Za-z_][A-Za-z0-9_.]*+)
      |(?P<digest>\#[0-9a-f]++)
      |(?P<sign>\.\.|[(){}\[\]=,:@])
      |(?P<end>\Z))""",
    re.ASCII | re.VERBOSE,
)
_BRACKETS = r'\[((?:[^\]"\n]|"(?:[^"\\\n]|\\[^\n])*+")*+)\]'
_TYPE = re.compile(r"([a-z0-9_]++)" + _BRACKETS, re.ASCII)
_DIMS = re.compile(_BRACKETS)
_DIM_PIECE = re.compile(r'[^()",\n]++|"(?:[^"\\\n]|\\[^\n])*+"|[(),]')
_INTEGER = re.compile(r"-?[0-9]+")
_LARGEST_EXTENT = 2**63 - 1


class Reader:
    """Reads one text from left to right; ``kind``, ``token`` and ``start`` are the next token."""

    def __init__(self, text: str, constants: Mapping[str, Array], filename: str | None) -> None:
        self.text = text
        self.constants = constants
        self.filename = filename
        self.symbols: dict[str, Dim] = {}
        self.types: dict[str, TensorType] = {}
        self.kind = "end"
        self.token = ""
        self.start = 0
        self.end = 0
        self.seek(0)

    # --- tokens ----------------------------------------------------------------------------------

    def fail(self, problem: str, start: int | None = None) -> NoReturn:
        """Raises the ParseError, at the next token unless told where."""
        start = self.start if start is None else start
        raise parse_error(problem, self.text, start, self.filename)

    def seek(self, position: int) -> None:
        """Makes the token at or after the position the next one."""
        found = _TOKEN.match(self.text, position)
        if found is None:
            skipped = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+)*+").match(self.text, position)
            start = skipped.end() if skipped is not None else position
            self.fail(f"unexpected character {self.text[start : start + 1]!r}", start)
        self.kind = str(found.lastgroup)
        self.start, self.end = found.span(self.kind)
        self.token = found.group(self.kind)

    def take(self) -> str:
        token = self.token
        self.seek(self.end)
        return token

    def found(self) -> str:
        return "the end of the text" if self.kind == "end" else repr(self.token)

    def accept(self, sign: str) -> bool:
        if self.token != sign or self.kind == "string":
            return False
        self.seek(self.end)
        return True

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            self.fail(f"expected {sign!r}, found {self.found()}")

    def expect_kind(self, kind: str, what: str) -> str:
        if self.kind != kind:
            self.fail(f"expected {what}, found {self.found()}")
        return self.take()

    def string(self, what: str) -> str:
        start, token = self.start, self.expect_kind("string", what)[1:-1]
        return unescape(token, lambda problem, place: self.fail(problem, start + 1 + place))

    def word(self, what: str) -> str:
        return self.string(what) if self.kind == "string" else self.expect_kind("name", what)

    def integer(self) -> int:
        start, token = self.start, self.expect_kind("number", "an integer")
        if not _INTEGER.fullmatch(token):
            self.fail(f"expected an integer, found {token!r}", start)
        try:
            return int(token)
        except ValueError as error:
            self.fail(str(error), start)

    # --- types -----------------------------------------------------------------------------------

    def read_dtype(self) -> DType:
        start, name = self.start, self.expect_kind("name", "a dtype")
        found = dtypes.named(name)
        if found is None:
            self.fail(f"unknown dtype {name!r}", start)
        return found

    def dim(self, text: str, start: int) -> Dim:
        try:
            result = expressions.parse_dim(text, self.symbols)
            str(result)
        except (ValueError, ArithmeticError) as error:
            self.fail(str(error), start)
        return result

    def read_type(self) -> TensorType:
        found = _TYPE.match(self.text, self.start)
        if found is None:
            self.fail(f"expected a type like float32[n, 4], found {self.found()}")
        result = self.types.get(found.group())
        if result is None:
            start = self.start
            dtype = dtypes.named(found.group(1))
            if dtype is None:
                self.fail(f"unknown dtype {found.group(1)!r}")
            shape = self.shape(found.start(2), found.end(2))
            for dim in shape:
                low, high = expressions.bounds(dim)
                if (high is not None and high < 0) or (low is not None and low > _LARGEST_EXTENT):
                    self.fail(f"no axis has the extent {dim}", start)
            result = self.types[found.group()] = TensorType(dtype, shape)
        self.seek(found.end())
        return result

    def shape(self, start: int, end: int) -> tuple[Dim, ...]:
        """The dims between the positions, split at commas outside parentheses."""
        if not self.text[start:end].strip():
            return ()
        result: list[Dim] = []
        depth, first = 0, start
        for piece in _DIM_PIECE.finditer(self.text, start, end):
            sign = piece.group()
            depth += (sign == "(") - (sign == ")")
            if sign == "," and depth == 0:
                result.append(self.dim(self.text[first : piece.start()], first))
                first = piece.end()
        result.append(self.dim(self.text[first:end], first))
        return tuple(result)

    def dim_list(self) -> tuple[Dim, ...]:
        """Dims in brackets."""
        found = _DIMS.match(self.text, self.start)
        if found is None:
            self.fail(f"expected dims in brackets, found {self.found()}")
        result = self.shape(*found.span(1))
        self.seek(found.end())
        return result

    # --- attributes ------------------------------------------------------------------------------

    def attribute(self, depth: int) -> Any:
        if self.kind == "string":
            return self.string("a string")
        if self.kind == "number":
            if _INTEGER.fullmatch(self.token):
                return self.integer()
            return self.read_float()
        if self.accept("@"):
            return self.read_dtype()
        if self.accept("("):
            return self.read_tuple(depth)
        if self.kind == "name":
            if self.token == "dim":
                return self.dim_attribute()
            if self.token == "payload":
                return self.payload()
            if self.token == "host":
                return self.host()
            for word, constant in (("None", None), ("True", True), ("False", False)):
                if self.accept(word):
                    return constant
            if self.text[self.end : self.end + 1] == "[":
                return self.array()
        self.fail(f"expected an attribute, found {self.found()}")

    def read_float(self) -> float:
        try:
            result = float_of(self.token)
        except ValueError as error:
            self.fail(str(error))
        self.take()
        return result

    def read_tuple(self, depth: int) -> tuple[Any, ...]:
        if depth >= MAXIMUM_NESTING:
            self.fail(f"tuples are nested more than {MAXIMUM_NESTING} deep")
        items: list[Any] = []
        while not self.accept(")"):
            items.append(self.attribute(depth + 1))
            if not self.accept(","):
                if len(items) == 1:
                    self.fail(f"expected ',' in a tuple of one, found {self.found()}")
                self.expect(")")
                break
        return tuple(items)

    def dim_attribute(self) -> Dim:
        opening = self.end
        if self.text[opening : opening + 1] != "(":
            self.fail("expected '(' right after dim")
        depth, position = 0, opening
        while (piece := _DIM_PIECE.match(self.text, position)) is not None:
            depth += (piece.group() == "(") - (piece.group() == ")")
            position = piece.end()
            if depth == 0:
                result = self.dim(self.text[opening + 1 : position - 1], opening + 1)
                self.seek(position)
                return result
        self.fail("unclosed parenthesis", opening)

    def payload(self) -> Payload:
        self.take()
        start = self.start
        digest = self.expect_kind("digest", "a digest like #3f…")[1:]
        stated = self.read_type()
        if digest not in self.constants:
            self.fail(f"the array of constant #{digest} is not among those given", start)
        payload = Payload(self.constants[digest])
        dtype = next((d for d in dtypes.EVERY if d.numpy == payload.array.dtype), None)
        if dtype is None or TensorType(dtype, payload.array.shape) != stated:
            given = f"{payload.array.dtype}{list(payload.array.shape)}"
            self.fail(f"constant #{digest} is {stated} in the text but the array is {given}", start)
        if payload.digest.hex() != digest:
            self.fail(f"the array given for constant #{digest} is another one", start)
        return payload

    def host(self) -> HostFunction:
        """A Python function, which is known in the process that it was made in."""
        self.take()
        start, name = self.start, self.string("the name of a function")
        found = numbered(self.integer(), name)
        if found is None:
            self.fail(f"there is no Python function {name!r} of this number in this process", start)
        return found

    def array(self) -> Payload:
        start = self.start
        stated = self.read_type()
        shape = tuple(dim for dim in stated.shape if isinstance(dim, int))
        if len(shape) != stated.rank:
            self.fail("a constant has no symbolic dims", start)
        elements: list[str] = []
        if shape == () and not stated.dtype.is_complex:
            elements.append(self.element())
        else:
            self.expect("(")
            while not self.accept(")"):
                elements.append(self.element())
                if not self.accept(","):
                    self.expect(")")
                    break
        count = expressions.product(stated.stored.shape)
        if count != len(elements):
            self.fail(f"{stated} has {count} elements, here are {len(elements)}", start)
        try:
            return Payload(array_of(elements, stated.dtype, shape))
        except ValueError as error:
            self.fail(str(error), start)

    def element(self) -> str:
        if self.kind != "number" and self.token not in ("True", "False"):
            self.fail(f"expected a number, True or False, found {self.found()}")
        return self.take()
