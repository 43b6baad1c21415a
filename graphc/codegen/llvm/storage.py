"""Elements in memory and in registers: the type of each, and how one becomes the other.

The two differ for bool, which takes a byte in memory and is a truth value in a register. Floats of
16 bits are words in both: registers have them as numbers only once they are converted. Code that
loads and stores elements goes through here.
"""

from __future__ import annotations

import numpy as np

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.types import F32, F64
from graphc.ir.dtypes import DType

_FLOATS = {type_.format: type_.element for type_ in (F32, F64)}


def element_of(dtype: DType) -> str:
    """LLVM's name for an element in a register."""
    if dtype.kind == "bool":
        return "i1"
    if dtype.is_float and dtype.computed is dtype:
        return _FLOATS[dtype.format]
    return f"i{dtype.bits}"


def literal(value: bool | int | float, dtype: DType) -> bool | int | float:
    """A number of a dtype as the element in a register is written."""
    if dtype.computed is dtype:
        return value
    with np.errstate(all="ignore"):
        return int(np.array(value, dtype.numpy).view(f"u{dtype.bytes}"))


def storage(dtype: DType) -> str:
    """LLVM's name for an element in memory."""
    return "i8" if dtype.kind == "bool" else element_of(dtype)


def from_storage(e: FunctionEmitter, raw: Reg, dtype: DType) -> Reg:
    """Elements that were loaded, as registers hold them."""
    return raw.differs(0) if dtype.kind == "bool" else raw


def to_storage(e: FunctionEmitter, value: Reg, dtype: DType) -> Reg:
    """Elements as they are stored."""
    return e.convert("zext", value, "i8") if dtype.kind == "bool" else value


__all__ = ["element_of", "from_storage", "literal", "storage", "to_storage"]
