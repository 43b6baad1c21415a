"""Dims as native code: straight-line code (``graphc.ir.dims.expressions.program``) over int64s."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphc.codegen.kernels.primitives import emit_primitive
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import symbol
from graphc.codegen.llvm.types import I1, I64
from graphc.ir.dims.expressions import Dim, DimExpr, bounds, program
from graphc.ir.dtypes import int64

_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle"}


class DimRegs:
    """The dims of one function as registers.

    Attributes:
        given: the values of the symbols and sets that dims are made of.
        zero_or_one: registers with one of these two numbers.
    """

    def __init__(self, e: FunctionEmitter) -> None:
        self._e = e
        self._known: dict[Dim, Reg] = {}
        self.given: dict[DimExpr, Reg] = {}
        self.zero_or_one: set[Reg] = set()

    def of(self, dim: Dim) -> Reg:
        """An i64 register or literal; what the first block computes is there everywhere."""
        found = self._known.get(dim)
        if found is None:
            (found,) = _emit(self._e, [dim], self.given, None)
            if self._e.block == "entry":
                self._known[dim] = found
            if bounds(dim) == (0, 1):
                self.zero_or_one.add(found)
        return found


def _emit(
    e: FunctionEmitter,
    dims: Iterable[Dim],
    given: Mapping[DimExpr, Reg],
    overflows: list[Reg] | None,
) -> list[Reg]:
    """The values of dims, what they share computed once.

    ``overflows``, if given, gets a truth value for each step that may exceed an int64.
    """
    known = [*given.values()]
    steps, results = program(dims, [*given])
    values: list[Reg] = []
    for kind, *operands in steps:
        if kind == "const":
            values.append(e.const(operands[0]))
            if overflows is not None and not -(2**63) <= operands[0] < 2**63:
                overflows.append(e.const(True, I1))
        elif kind == "given":
            values.append(known[operands[0]])
        elif kind == "select":
            left, right, yes, no = (values[operand] for operand in operands[1:])
            values.append(e.select(e.icmp(_PREDICATES[operands[0]], left, right), yes, no))
        else:
            left, right = (values[operand] for operand in operands)
            if kind in ("add", "mul"):
                values.append(_arithmetic(e, kind, left, right, overflows))
            elif kind in ("min", "max"):
                values.append(e.intrinsic(f"s{kind}", I64, left, right))
            else:
                name = "floor_divide" if kind == "floordiv" else "mod"
                values.append(emit_primitive(e, name, (left, right), int64))
    return [values[result] for result in results]


def _arithmetic(
    e: FunctionEmitter, kind: str, left: Reg, right: Reg, overflows: list[Reg] | None
) -> Reg:
    if overflows is None:
        return e.binary(kind, left, right)
    if kind == "mul" and not e.module.target.has_wide_products:
        return _checked_product(e, left, right, overflows)
    name = f"llvm.s{kind}.with.overflow.i64"
    e.module.declare(name, "{ i64, i1 }", "i64, i64")
    both = e.fresh("both")
    e.line(f"{both} = call {{ i64, i1 }} {symbol(name)}({left}, {right})")
    overflows.append(e.assign(I1, f"extractvalue {{ i64, i1 }} {both}, 1"))
    return e.assign(I64, f"extractvalue {{ i64, i1 }} {both}, 0")


def _checked_product(e: FunctionEmitter, left: Reg, right: Reg, overflows: list[Reg]) -> Reg:
    """A product that is checked by division: LLVM's own way is a call into the C library."""
    product = left * right
    is_minus = left.equals(-1)
    is_plain = e.icmp("ugt", left + 1, 1)
    divisor = e.select(is_plain, left, 1)
    differs = (product // divisor).differs(right)
    least = right.equals(-(2**63))
    wrong = e.select(is_plain, differs, is_minus & least)
    overflows.append(wrong)
    return product


def emit_dims(
    e: FunctionEmitter, dims: Iterable[Dim], symbols: Mapping[DimExpr, Reg], out: Reg
) -> Reg:
    """Stores dims one after the other; gives whether one of them exceeds an int64."""
    overflow = e.const(False, I1)
    flags: list[Reg] = []
    for number, value in enumerate(_emit(e, dims, symbols, flags)):
        e.store(value, e.at(out, "i64", number), 8)
    for flag in flags:
        overflow = overflow | flag
    return overflow


__all__ = ["DimRegs", "emit_dims"]
