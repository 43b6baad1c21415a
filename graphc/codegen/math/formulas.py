"""Functions that are formulas with loops: each is a library that a process compiles once.

A formula is written on lanes (``graphc.ops.lanes``). Here they are registers of float64, whatever
the operands are, and what it repeats is a loop.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from graphc.base.target import Target
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import Module, ModuleEmitter
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import F64, LType, ltype
from graphc.ir.dtypes import DType, float64
from graphc.kernel.scalar import PRIMITIVES
from graphc.ops.lanes import Lane
from graphc.ops.special.declared import CALLED


class Steps(NamedTuple):
    """How primitives and conversions become code."""

    primitive: Callable[[FunctionEmitter, str, Sequence[Reg], DType], Reg]
    cast: Callable[[FunctionEmitter, Reg, DType, DType], Reg]


class Emitted(NamedTuple):
    """A scalar of a formula: a register, and of what dtype its lanes are."""

    dtype: DType
    register: Reg


class Registers:
    """The builder of scalars that emits code for many lanes."""

    def __init__(self, e: FunctionEmitter, lanes: int, steps: Steps) -> None:
        self._e = e
        self._lanes = lanes
        self._steps = steps

    def constant(self, value: bool | int | float, dtype: DType) -> Emitted:
        return Emitted(dtype, self._e.const(value, ltype(element_of(dtype), self._lanes)))

    def apply(self, primitive: str, *operands: Emitted) -> Emitted:
        result = PRIMITIVES[primitive].result_dtype([operand.dtype for operand in operands])
        registers = [operand.register for operand in operands]
        dtype = operands[-1].dtype
        return Emitted(result, self._steps.primitive(self._e, primitive, registers, dtype))

    def cast(self, operand: Emitted, dtype: DType) -> Emitted:
        return Emitted(dtype, self._steps.cast(self._e, operand.register, operand.dtype, dtype))

    def repeated(
        self,
        rows: Sequence[Sequence[float]],
        state: Sequence[Emitted],
        step: Callable[..., Sequence[Emitted]],
    ) -> Sequence[Emitted]:
        e, width = self._e, len(rows[0])
        numbers = [number for row in rows for number in row]
        digest = hashlib.sha256(np.array(numbers).tobytes()).hexdigest()[:16]
        table = f"graphc_rows_{digest}"
        if width:
            e.module.constant_table(table, F64.element, numbers)
        with e.loop(0, len(rows), 1, tuple(each.register for each in state)) as loop:
            carried = [
                Emitted(each.dtype, register)
                for each, register in zip(state, loop.carries, strict=True)
            ]
            row = []
            for column in range(width):
                place = e.at(e.symbol(table), F64.element, loop.index * width, column)
                number = e.splat(e.load(place, F64, 8), self._lanes)
                row.append(Emitted(float64, number))
            loop.yields = tuple(each.register for each in step(carried, *row))
        last = zip(state, loop.results, strict=True)
        return [Emitted(each.dtype, register) for each, register in last]


def emit_formula(e: FunctionEmitter, name: str, operands: Sequence[Reg], steps: Steps) -> Reg:
    """Calls the library of a formula."""
    type_ = operands[0].type
    symbol, library = _library(name, type_, len(operands), e.module.target, steps)
    e.module.libraries[symbol] = library
    types = ", ".join(str(operand.type) for operand in operands)
    e.module.declare(symbol, str(type_), types, "nounwind memory(none)")
    return e.call(symbol, type_, *operands)


@cache
def _library(
    name: str, type_: LType, arity: int, target: Target, steps: Steps
) -> tuple[str, Module]:
    """A formula as a module of its own, and its symbol."""
    module = ModuleEmitter(target)
    symbol = f"graphc_{name}_of_{type_.suffix}"
    parameters = {f"x{index}": type_ for index in range(arity)}
    e = FunctionEmitter(module, symbol, parameters, type_)
    b = Registers(e, type_.lanes, steps)
    given = e.given(*parameters)
    if type_.element != F64.element:
        given = tuple(e.convert("fpext", x, F64.element) for x in given)
    found = CALLED[name](*(Lane(b, Emitted(float64, x)) for x in given)).scalar.register
    if type_.element != F64.element:
        found = e.convert("fptrunc", found, type_.element)
    e.finish(found)
    return symbol, module.module()


__all__ = ["emit_formula"]
