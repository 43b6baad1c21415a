"""Statements that compute a scalar from others, and checks of indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType, int64
from graphc.ir.text.numbers import float_of
from graphc.ir.text.printer import float_text
from graphc.kernel.scalar import PRIMITIVES, cast
from graphc.kernel.scanner import NAME, NUMBER
from graphc.kernel.statements.base import Estimator, Names, Scalar, Size, Var
from graphc.kernel.statements.words import Reader, statement


def const_text(value: bool | int | float, dtype: DType) -> str:
    """A literal, exact."""
    return float_text(float(value)) if dtype.is_float else str(value)


def _literal(reader: Reader, dtype: DType) -> bool | int | float:
    if dtype.kind == "bool":
        start, word = reader.position, reader.match(NAME, "True or False")
        if word not in ("True", "False"):
            reader.fail(f"expected True or False, found {word!r}", start)
        return word == "True"
    if not dtype.is_float:
        return reader.integer()
    start, token = reader.position, reader.match(NUMBER, "a number")
    try:
        return float_of(token)
    except ValueError as error:
        reader.fail(str(error), start)


@statement(("const",), "one")
@dataclass(slots=True, eq=False)
class Const(Scalar):
    """A literal."""

    result: Final[Var]
    value: Final[bool | int | float]

    is_arithmetic = True

    @property
    def known(self) -> Dim | None:
        return int(self.value) if self.result.dtype is int64 else None

    @property
    def signature(self) -> str:
        return repr(self.value)

    def expression(self, names: Names) -> str:
        dtype = self.result.dtype
        return f"const {dtype} {const_text(self.value, dtype)}"

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Const:
        dtype = reader.dtype()
        return cls(Var(dtype), _literal(reader, dtype))


@statement(("dim",), "one")
@dataclass(slots=True, eq=False)
class DimValue(Scalar):
    """A dim as an int64."""

    result: Final[Var]
    dim: Final[Dim]

    is_arithmetic = True

    @property
    def sizes(self) -> tuple[Size, ...]:
        return (self.dim,)

    @property
    def known(self) -> Dim:
        return self.dim

    def expression(self, names: Names) -> str:
        return f"dim {self.dim}"

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> DimValue:
        return cls(Var(int64), reader.dim())


@statement(PRIMITIVES, "one")
@dataclass(slots=True, eq=False)
class Apply(Scalar):
    """A primitive of ``graphc.kernel.scalar``."""

    result: Final[Var]
    primitive: Final[str] = field()
    operands: Final[tuple[Var, ...]] = field()

    is_arithmetic = True

    @property
    def is_exact(self) -> bool:
        return PRIMITIVES[self.primitive].exact

    def reference(self, *operands: Any) -> Any:
        return PRIMITIVES[self.primitive].reference(*operands)

    def cost(self, estimator: Estimator) -> Dim:
        return estimator.primitive(self.primitive, self.operands[-1].dtype)

    def expression(self, names: Names) -> str:
        return f"{self.primitive} {names.read(*self.operands)}"

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Apply:
        operands = [reader.read()]
        while reader.accept(","):
            operands.append(reader.read())
        definition = PRIMITIVES[word]
        if len(operands) != definition.arity:
            reader.fail(f"{word} takes {definition.arity} operands, not {len(operands)}", start)
        result = Var(definition.result_dtype([operand.dtype for operand in operands]))
        return cls(result, word, tuple(operands))


@statement(("cast",), "one")
@dataclass(slots=True, eq=False)
class Cast(Scalar):
    """A conversion to the result's dtype."""

    result: Final[Var]
    operand: Final[Var]

    @property
    def operands(self) -> tuple[Var, ...]:
        return (self.operand,)

    @property
    def same(self) -> Var | None:
        return self.operand if self.operand.dtype is self.result.dtype else None

    def reference(self, *operands: Any) -> Any:
        (operand,) = operands
        return cast(operand, self.result.dtype)

    def cost(self, estimator: Estimator) -> Dim:
        return estimator.conversion(self.result.dtype)

    def expression(self, names: Names) -> str:
        return f"cast {self.result.dtype} {names.read(self.operand)}"

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Cast:
        return cls(Var(reader.dtype()), reader.read())


@statement(("check",), "one")
@dataclass(frozen=True, slots=True, eq=False)
class Check(Scalar):
    """A user's index; out of range is reported and replaced by 0.

    A negative one counts from the end if ``wraps``, and is out of range if not.
    ``site`` numbers the kernel's checks; the kernel's ``sites`` say what each one guards.
    """

    result: Var
    index: Var
    bound: Dim
    site: int
    wraps: bool = True

    is_plain = False
    may_fail = True

    @property
    def operands(self) -> tuple[Var, ...]:
        return (self.index,)

    @property
    def sizes(self) -> tuple[Size, ...]:
        return (self.bound,)

    @property
    def below(self) -> Dim:
        return self.bound

    def cost(self, estimator: Estimator) -> Dim:
        return estimator.check()

    def expression(self, names: Names) -> str:
        least = "" if self.wraps else "0 <= "
        return f"check {self.site} {least}{names.read(self.index)} < {self.bound}"

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Check:
        site, start = reader.integer(), reader.position
        wraps = not reader.looking_at(NUMBER)
        if not wraps:
            if reader.integer() != 0:
                reader.fail("a check has no lower bound but 0", start)
            reader.expect("<=")
        index = reader.read()
        reader.expect("<")
        return cls(Var(int64), index, reader.dim(), site, wraps)
