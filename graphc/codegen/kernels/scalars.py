"""Scalars: what statements compute that neither read nor write memory, and checks of indices."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.kernels.lane_groups import emit_by_groups
from graphc.codegen.kernels.lane_values import Binding, KnownLanes, LinearLanes, Repeated
from graphc.codegen.kernels.narrow_floats import (
    KEEPS_NAN_SHORT,
    emit_cut,
    emit_rounded,
    emit_whole,
    has_range_of_float32,
)
from graphc.codegen.kernels.primitives import emit_cast, emit_primitive
from graphc.codegen.kernels.scope import EmitterTable, KernelScope
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg, is_literal
from graphc.codegen.llvm.lanes import any_lane, first_lane
from graphc.codegen.llvm.storage import element_of, literal
from graphc.codegen.llvm.types import I64, ltype
from graphc.ir.dtypes import float16, float32
from graphc.kernel.statements.scalars import Apply, Cast, Check, Const, DimValue
from graphc.plan.abi import INDEX_ERROR


def emit_const(k: KernelScope, statement: Const) -> None:
    """Binds a literal."""
    dtype = statement.result.dtype
    k.bind(statement.result, k.e.const(literal(statement.value, dtype), ltype(element_of(dtype))))
    if statement.value == statement.value:
        k.short.add(statement.result)


def emit_dim_value(k: KernelScope, statement: DimValue) -> None:
    """Binds a dim."""
    k.bind(statement.result, k.dim(statement.dim))


def emit_apply(k: KernelScope, statement: Apply) -> None:
    """Binds what a primitive gives."""
    if statement.primitive in KEEPS_NAN_SHORT and k.short.issuperset(statement.operands):
        k.short.add(statement.result)
    operands = [k.binding(var) for var in statement.operands]
    dtype = statement.operands[-1].dtype
    if all(isinstance(o, Reg) and o.type.lanes == 1 for o in operands):
        regs = [o for o in operands if isinstance(o, Reg)]
        k.bind(statement.result, emit_primitive(k.e, statement.primitive, regs, dtype))
        return
    linear = _linear(k, statement.primitive, operands)
    if linear is not None:
        k.bind(statement.result, linear)
        return
    if k.lanes > 1 and emit_by_groups(k, statement, emit_apply):
        return
    regs = [k.spread(var) for var in statement.operands]
    k.bind(statement.result, emit_primitive(k.e, statement.primitive, regs, dtype))


def _linear(k: KernelScope, primitive: str, operands: Sequence[Binding]) -> LinearLanes | None:
    """Sums and multiples of linear and uniform indices stay linear."""
    if len(operands) != 2 or not any(isinstance(o, LinearLanes) for o in operands):
        return None
    e, (a, b) = k.e, operands
    if isinstance(a, (Repeated, KnownLanes)) or isinstance(b, (Repeated, KnownLanes)):
        return None
    if any(isinstance(operand, Reg) and operand.type.lanes != 1 for operand in operands):
        return None
    if primitive in ("add", "subtract"):
        name = "add" if primitive == "add" else "sub"
        left = a if isinstance(a, LinearLanes) else LinearLanes(a, e.const(0))
        right = b if isinstance(b, LinearLanes) else LinearLanes(b, e.const(0))
        return LinearLanes(
            e.binary(name, left.base, right.base), _fold(e, name, left.stride, right.stride)
        )
    if primitive == "multiply":
        if isinstance(a, LinearLanes) and isinstance(b, Reg):
            return LinearLanes(a.base * b, _fold(e, "mul", a.stride, b))
        if isinstance(b, LinearLanes) and isinstance(a, Reg):
            return LinearLanes(b.base * a, _fold(e, "mul", b.stride, a))
    return None


def _fold(e: FunctionEmitter, name: str, a: Reg, b: Reg) -> Reg:
    """Integer arithmetic on strides, done now if both are literals or one changes nothing."""
    unit = int(name == "mul")
    if is_literal(b, unit) or (name != "sub" and is_literal(a, unit)):
        return a if is_literal(b, unit) else b
    if a.value is None or b.value is None:
        return e.binary(name, a, b)
    x, y = int(a.value), int(b.value)
    value = x + y if name == "add" else x - y if name == "sub" else x * y
    return e.const(value)


def emit_conversion(k: KernelScope, statement: Cast) -> None:
    """Binds a value of another dtype."""
    source, target = statement.operand.dtype, statement.result.dtype
    if target is float32 and (has_range_of_float32(source) or not source.is_float):
        k.short.add(statement.result)
    operand = k.uniform(statement.operand)
    if operand is None:
        if k.lanes > 1 and emit_by_groups(k, statement, emit_conversion):
            return
        operand = k.spread(statement.operand)
    known = k.rounded.get(operand.text)
    if known is not None and target is float32:
        k.bind(statement.result, known)
    elif source is float32 and has_range_of_float32(target):
        # where chains round after each operation, what is rounded goes on as a float32
        is_short = statement.operand in k.short and k.target.architecture != "wasm32"
        word = emit_rounded(k.e, operand, target, is_short)
        narrow = emit_cut(k.e, word, target)
        k.rounded[narrow.text] = emit_whole(k.e, word, target)
        k.bind(statement.result, narrow)
    else:
        result = emit_cast(k.e, operand, source, target)
        if target is float16 and k.target.stores_halves:
            k.halves.add(result.text)
        k.bind(statement.result, result)


def emit_check(k: KernelScope, statement: Check) -> None:
    """Binds an index that is inside, or reports it and binds 0."""
    if not k.reports:
        k.bind(statement.result, _place(k, statement))
        return
    e = k.e
    index = k.uniform(statement.index)
    if index is None:
        index = k.spread(statement.index)
    lanes = index.type.lanes
    bound_scalar = k.dim(statement.bound)
    bound = e.splat(bound_scalar, lanes)
    zero = e.const(0, index.type)
    wrapped = index
    if statement.wraps:
        wrapped = e.select(index < zero, index + bound, index)
    bad = e.icmp("uge", wrapped, bound)
    if k.mask is not None and lanes > 1:
        bad = bad & k.mask
    some, first = bad, index
    if lanes > 1:
        some = any_lane(e, bad)
    with e.when(some):
        if lanes > 1:
            first = e.assign(I64, f"extractelement {index}, {first_lane(e, bad)}")
        report(k, INDEX_ERROR, statement.site, first, bound_scalar)
    k.bind(statement.result, e.select(bad, zero, wrapped))


def _place(k: KernelScope, check: Check) -> Reg:
    """The place that a number says, wherever that is."""
    e = k.e
    number = k.uniform(check.index)
    assert number is not None, "one number for all lanes"
    if not check.wraps:
        return number
    from_end = number + k.dim(check.bound)
    return e.select(number < 0, from_end, number)


def report(k: KernelScope, code: int, site: int, value: Reg, bound: Reg) -> None:
    """Fills the status record unless something failed before."""
    e = k.e
    status = e.parameter("status")
    clear = e.load(status, I64, 8).equals(0)
    with e.when(clear):
        for position, item in enumerate((e.const(code), e.const(site), value, bound)):
            e.store(item, e.at(status, "i64", position), 8)


EMITTERS: EmitterTable = {
    Apply: emit_apply,
    Const: emit_const,
    Cast: emit_conversion,
    DimValue: emit_dim_value,
    Check: emit_check,
}
"""What emits scalars."""

__all__ = ["EMITTERS", "report"]
