"""Native routines as LLVM text, each a library that all programs of a target share.

A routine's signature is ``void (ptr source …, ptr target …, i64 number …, ptr room)``, as
``graphc.kernel.routines`` declares it; one that may fail gives an i64 in place of nothing, which is
what it found wrong, or 0. Room may hold anything and need not be aligned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from graphc.base.target import Target
from graphc.codegen.llvm.module import Module, ModuleEmitter
from graphc.codegen.routines.counting import emit_bincount, emit_binsum
from graphc.codegen.routines.factoring import (
    emit_cholesky,
    emit_inverse,
    emit_lu,
    emit_solve,
    emit_solve_triangular,
)
from graphc.codegen.routines.fourier.tables import emit_fft_table
from graphc.codegen.routines.fourier.transforms import emit_fft
from graphc.codegen.routines.histograms import emit_histogram
from graphc.codegen.routines.largest import emit_top_k
from graphc.codegen.routines.searching import emit_searchsorted
from graphc.codegen.routines.sorting import emit_argsort, emit_sort
from graphc.ir.dtypes import DType

Emit: TypeAlias = Callable[[ModuleEmitter, str, tuple[DType, ...]], None]
"""Defines a routine of this symbol for sources and targets of these dtypes."""

EMITTERS: Mapping[str, Emit] = {
    "sort": emit_sort,
    "argsort": emit_argsort,
    "top_k": emit_top_k,
    "searchsorted": emit_searchsorted,
    "bincount": emit_bincount,
    "binsum": emit_binsum,
    "histogram": emit_histogram,
    "fft": emit_fft,
    "fft_table": emit_fft_table,
    "cholesky": emit_cholesky,
    "inv": emit_inverse,
    "lu": emit_lu,
    "solve": emit_solve,
    "solve_triangular": emit_solve_triangular,
}
"""What emits each routine."""


@cache
def routine_library(
    routine: str, dtypes: tuple[DType, ...], target: Target
) -> tuple[str, Module]:
    """The routine as a module of its own, and its symbol."""
    module = ModuleEmitter(target)
    name = f"graphc_{routine}_{'_'.join(dtype.name for dtype in dtypes)}"
    EMITTERS[routine](module, name, dtypes)
    return name, module.module()


__all__ = ["EMITTERS", "routine_library"]
