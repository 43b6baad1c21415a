"""Matrix products as native code, one function per dtype that serves every size and stride.

Every element of the result is one chain of multiply-adds in ascending order of k, starting from +0:
acc = fma(a[i, k], b[k, j], acc). Paths, blocks and remainders differ in speed only, never in bits.

``near`` is a table of at most ``MAX_NEAR`` pairs, an address and a stride in bytes: matrices in the
shape of the result, with elements as large, that will be read next. They are prefetched meanwhile.

All other strides count elements. The result has unit column stride and overlaps no operand.
Workspace may hold anything and need not be aligned, though 64 bytes is faster.
"""

from __future__ import annotations

from functools import cache

from graphc.base.target import Target
from graphc.codegen.gemm.blocking import (
    gemm_workspace_bytes,
    reads_in_place,
    reads_transpose_in_place,
)
from graphc.codegen.gemm.driver import emit_float_gemm, emit_float_gemm_packed
from graphc.codegen.gemm.gemv import columns_before
from graphc.codegen.gemm.integer import emit_integer_gemm
from graphc.codegen.llvm.module import Module, ModuleEmitter
from graphc.ir.dtypes import DType

__all__ = [
    "columns_before",
    "emit_gemm",
    "emit_gemm_packed",
    "gemm_library",
    "gemm_workspace_bytes",
    "reads_in_place",
    "reads_transpose_in_place",
]


def emit_gemm(module: ModuleEmitter, dtype: DType, target: Target) -> str:
    """Defines (once) the product c = a @ b and returns its name.

    Signature: void (ptr a, ptr b, ptr c, i64 m, i64 n, i64 k, i64 a_row, i64 a_col, i64 b_row,
    i64 b_col, i64 c_row, ptr workspace, ptr near, i64 near_count). Any dtype:
    integers wrap in their own width, bools are "or" of "and"s. k = 0 writes zeros. The
    target decides between fused and separate multiply and add, and the widths; unit strides of a
    and b are the fast ones.
    """
    if dtype.is_float:
        return emit_float_gemm(module, dtype, target)
    return emit_integer_gemm(module, dtype, target)


@cache
def gemm_library(dtype: DType, target: Target, packed: bool) -> tuple[str, Module]:
    """The product as a module of its own, and its symbol.

    One serves all programs of a target, so that its code is generated once.
    """
    module = ModuleEmitter(target)
    emit = emit_gemm_packed if packed else emit_gemm
    symbol = emit(module, dtype, target)
    return symbol, module.module()


def emit_gemm_packed(module: ModuleEmitter, dtype: DType, target: Target) -> str:
    """Defines (once) the product of floats with a packed right operand and returns its name.

    Signature: void (ptr a, ptr packed, ptr c, i64 m, i64 n, i64 k, i64 a_row, i64 a_col, i64 depth,
    i64 padded, i64 c_row, ptr workspace, ptr near, i64 near_count), with panels of
    ``panel_width`` columns and ``depth`` rows, of which ``padded`` columns lie side by
    side. The bits are those of ``emit_gemm``.
    """
    return emit_float_gemm_packed(module, dtype, target)
