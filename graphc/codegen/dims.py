"""Dims as native code: programs of a stack machine (``graphc.ir.dims.postfix``) over int64s."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphc.codegen.emitter import I1, I64, FunctionEmitter, Reg
from graphc.codegen.scalar import emit_primitive
from graphc.ir.dims import Dim, postfix
from graphc.ir.dtypes import int64

_PREDICATES = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle"}


def emit_dim(
    e: FunctionEmitter, dim: Dim, symbols: Mapping[str, Reg], overflows: list[Reg] | None = None
) -> Reg:
    """A dim as an i64 register or literal.

    Args:
        e: where to emit.
        dim: the dim.
        symbols: the value of each symbol.
        overflows: if given, gets a truth value for each step that may exceed an int64.
    """
    if isinstance(dim, int):
        return e.const(dim, I64)
    stack: list[Reg] = []
    for step in postfix(dim):
        kind = step[0]
        if kind == "const":
            stack.append(e.const(step[1], I64))
        elif kind == "symbol":
            stack.append(symbols[step[1]])
        elif kind == "select":
            left, right, yes, no = stack[-4:]
            del stack[-4:]
            stack.append(e.select(e.icmp(_PREDICATES[step[1]], left, right), yes, no))
        else:
            right, left = stack.pop(), stack.pop()
            if kind in ("add", "mul"):
                stack.append(_arithmetic(e, kind, left, right, overflows))
            elif kind in ("min", "max"):
                stack.append(e.intrinsic(f"s{kind}", I64, left, right))
            else:
                name = "floor_divide" if kind == "floordiv" else "mod"
                stack.append(emit_primitive(e, name, (left, right), int64))
    (result,) = stack
    return result


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
    e.line(f"{both} = call {{ i64, i1 }} @{name}({left}, {right})")
    overflows.append(e.assign(I1, f"extractvalue {{ i64, i1 }} {both}, 1"))
    return e.assign(I64, f"extractvalue {{ i64, i1 }} {both}, 0")


def _checked_product(
    e: FunctionEmitter, left: Reg, right: Reg, overflows: list[Reg]
) -> Reg:
    """A product that is checked by division: LLVM's own way is a call into the C library."""
    product = e.binary("mul", left, right)
    is_minus = e.icmp("eq", left, e.const(-1, I64))
    is_plain = e.icmp("ugt", e.binary("add", left, e.const(1, I64)), e.const(1, I64))
    divisor = e.select(is_plain, left, e.const(1, I64))
    differs = e.icmp("ne", e.binary("sdiv", product, divisor), right)
    least = e.icmp("eq", right, e.const(-(2**63), I64))
    wrong = e.select(is_plain, differs, e.binary("and", is_minus, least))
    overflows.append(wrong)
    return product


def emit_dims(
    e: FunctionEmitter, dims: Iterable[Dim], symbols: Mapping[str, Reg], out: Reg
) -> Reg:
    """Stores dims one after the other; gives whether one of them exceeds an int64."""
    overflow = e.const(False, I1)
    for number, dim in enumerate(dims):
        flags: list[Reg] = []
        value = emit_dim(e, dim, symbols, flags)
        e.store(value, e.element_pointer(out, e.const(number, I64), "i64"), 8)
        for flag in flags:
            overflow = e.binary("or", overflow, flag)
    return overflow


__all__ = ["emit_dim", "emit_dims"]
