"""Matrix products: calls of the library for them, or their code where they are tiny."""

from __future__ import annotations

from graphc.base.errors import UnsupportedError
from graphc.codegen.gemm import columns_before, gemm_library
from graphc.codegen.gemm.tiny import Layout, Tiny, emit_tiny
from graphc.codegen.kernels.scope import EmitterTable, KernelScope
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.storage import storage
from graphc.codegen.llvm.types import I64, PTR
from graphc.kernel.ir import Size
from graphc.kernel.panels import panel_width
from graphc.kernel.statements.products import Contract, MatrixOperand


def emit_contract(k: KernelScope, statement: Contract) -> None:
    """A matrix product."""
    k.held.pop(statement.c.buffer, None)
    tiny = _tiny(k, statement)
    if tiny is None:
        _call(k, statement)
    else:
        a, b, c = (_matrix(k, m) for m in (statement.a, statement.b, statement.c))
        emit_tiny(k.e, tiny, a, b, c)


def _tiny(k: KernelScope, statement: Contract) -> Tiny | None:
    """A product as one of few elements; None if it is called."""
    m, n, depth = statement.m, statement.n, statement.k
    a, b, c = map(_layout, (statement.a, statement.b, statement.c))
    if statement.template == "packed" or k.ranges.cuts(statement):
        return None
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(depth, int)):
        return None
    if a is None or b is None or c is None:
        return None
    tiny = Tiny(m, n, depth, a, b, c, statement.c.buffer.type.dtype, k.target)
    return tiny if tiny.is_worth_it else None


def _layout(matrix: MatrixOperand) -> Layout | None:
    """The strides of a matrix, if they are numbers."""
    row, column = matrix.row_stride, matrix.column_stride
    return Layout(row, column) if isinstance(row, int) and isinstance(column, int) else None


def _call(k: KernelScope, statement: Contract) -> None:
    """Calls a matrix product."""
    e, dtype = k.e, statement.c.buffer.type.dtype
    packed = statement.template == "packed"
    symbol, library = gemm_library(dtype, k.target, packed)
    k.module.libraries[symbol] = library
    a, b, c = (_matrix(k, m) for m in (statement.a, statement.b, statement.c))
    m, n, depth = (k.size(size) for size in (statement.m, statement.n, statement.k))
    strides = [k.size(statement.a.row_stride), k.size(statement.a.column_stride)]
    if packed:
        _, panels, rows, width = statement.b.buffer.type.shape
        if width != panel_width(dtype, k.target):
            raise UnsupportedError(
                f"contract_panels: panels of {width} columns are not for this target, whose "
                f"panels have {panel_width(dtype, k.target)}"
            )
        strides += [k.dim(rows), k.dim(panels * width)]
    else:
        strides += [k.size(statement.b.row_stride), k.size(statement.b.column_stride)]
    strides.append(k.size(statement.c.row_stride))
    room = k.pointer(statement.workspace) if statement.workspace is not None else k.e.const(0, PTR)
    near = [_matrix(k, matrix) for matrix in statement.near]
    if k.ranges.cuts(statement):
        a, b, c, near, m, n = _part_of_product(k, statement, a, b, c, near, m, n)
    table = _near(k, statement, near)
    operands = (a, b, c, m, n, depth, *strides, room, table, e.const(len(near)))
    k.module.declare(symbol, "void", ", ".join(str(operand.type) for operand in operands))
    e.call(symbol, None, *operands)


def _part_of_product(
    k: KernelScope, statement: Contract, a: Reg, b: Reg, c: Reg, near: list[Reg], m: Reg, n: Reg
) -> tuple[Reg, Reg, Reg, list[Reg], Reg, Reg]:
    """The operands and sizes of the rows or columns of a product in the present range."""
    e = k.e
    name, size, block = statement.divided
    element = storage(statement.c.buffer.type.dtype)
    bounds = k.ranges.bounds(statement)
    first, past = (bound * block for bound in bounds)
    if name == "n" and statement.is_streamed:
        zero, end = e.const(0), k.size(size)
        before = columns_before(e, b, statement.b.buffer.type.dtype.bytes)
        is_end = past >= end
        first = e.most(first - before, zero)
        past = e.select(is_end, end, past - before)
    count = e.least(past, k.size(size)) - first

    def at(base: Reg, stride: Size) -> Reg:
        offset = first * k.size(stride)
        return e.at(base, element, offset)

    if name == "m":
        rows = (statement.a.row_stride, statement.c.row_stride)
        strides = [matrix.row_stride for matrix in statement.near]
        near = list(map(at, near, strides))
        return at(a, rows[0]), b, at(c, rows[1]), near, count, n
    packed = statement.template == "packed"
    # a column of panels is as long as they are deep
    stride = statement.b.buffer.type.shape[-2] if packed else statement.b.column_stride
    return a, at(b, stride), at(c, 1), [at(place, 1) for place in near], m, count


def _near(k: KernelScope, statement: Contract, near: list[Reg]) -> Reg:
    """A table of what to bring near: addresses and the bytes from one row to the next."""
    if not near:
        return k.e.const(0, PTR)
    e = k.e
    table = e.alloca(I64, 2 * len(near))
    for number, (place, matrix) in enumerate(zip(near, statement.near, strict=True)):
        size = e.const(matrix.buffer.type.dtype.bytes)
        stride = k.size(matrix.row_stride) * size
        for offset, value in enumerate((place, stride)):
            entry = e.at(table, "i64", 2 * number + offset)
            e.store(value, entry, 8)
    return table


def _matrix(k: KernelScope, operand: MatrixOperand) -> Reg:
    offset = k.uniform(operand.offset)
    assert offset is not None, "matrix products stand in scalar loops"
    return k.e.at(k.pointer(operand.buffer), storage(operand.buffer.type.dtype), offset)


EMITTERS: EmitterTable = {Contract: emit_contract}
"""What emits matrix products."""

__all__ = ["EMITTERS"]
