"""Prefetches.

Invariant: a prefetch changes nothing but caches, so its address need not be valid.
"""

from __future__ import annotations

from graphc.base.target import CACHE_LINE
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import symbol
from graphc.codegen.llvm.types import PTR

LINE = CACHE_LINE


def prefetch(
    e: FunctionEmitter, place: Reg, size: int = 1, *, near: bool = True, write: bool = False
) -> None:
    """Asks for the lines of so many bytes from an address on, which may lie outside of any array.

    They come to the nearest cache, or to the second where they had to make room for each other.
    """
    locality = 3 if near else 2
    name = "llvm.prefetch.p0"
    e.module.declare(name, "void", "ptr, i32, i32, i32")
    for offset in range(0, size, LINE):
        at = e.assign(PTR, f"getelementptr i8, {place}, i64 {offset}")
        e.line(f"call void {symbol(name)}({at}, i32 {int(write)}, i32 {locality}, i32 1)")
