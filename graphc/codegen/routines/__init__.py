"""Native routines as LLVM text, in libraries that all programs of a target share.

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
from graphc.codegen.routines.choosing import emit_true_places
from graphc.codegen.routines.complex_factoring import emit_complex_lu
from graphc.codegen.routines.complex_lapack import (
    emit_complex_eigh,
    emit_complex_qr,
    emit_complex_svd,
)
from graphc.codegen.routines.counting import emit_bincount, emit_binsum
from graphc.codegen.routines.factoring import (
    emit_cholesky,
    emit_inverse,
    emit_lu,
    emit_solve,
    emit_solve_triangular,
)
from graphc.codegen.routines.fourier.library import emit_fourier
from graphc.codegen.routines.histograms import emit_histogram
from graphc.codegen.routines.lapack import (
    emit_eig,
    emit_eigh,
    emit_eigvals,
    emit_eigvalsh,
    emit_qr,
    emit_svd,
    emit_svdvals,
)
from graphc.codegen.routines.largest import emit_top_k
from graphc.codegen.routines.searching import emit_searchsorted
from graphc.codegen.routines.sorting import emit_argsort, emit_sort
from graphc.codegen.routines.symbols import symbol_of
from graphc.ir.dtypes import DType

Emit: TypeAlias = Callable[[ModuleEmitter, str, tuple[DType, ...]], None]
"""Defines a routine of this symbol for sources and targets of these dtypes."""

EMITTERS: Mapping[str, Emit] = {
    "sort": emit_sort,
    "argsort": emit_argsort,
    "top_k": emit_top_k,
    "searchsorted": emit_searchsorted,
    "true_places": emit_true_places,
    "bincount": emit_bincount,
    "binsum": emit_binsum,
    "histogram": emit_histogram,
    "cholesky": emit_cholesky,
    "complex_eigh": emit_complex_eigh,
    "complex_lu": emit_complex_lu,
    "complex_qr": emit_complex_qr,
    "complex_svd": emit_complex_svd,
    "eig": emit_eig,
    "eigh": emit_eigh,
    "eigvals": emit_eigvals,
    "eigvalsh": emit_eigvalsh,
    "qr": emit_qr,
    "svd": emit_svd,
    "svdvals": emit_svdvals,
    "inv": emit_inverse,
    "lu": emit_lu,
    "solve": emit_solve,
    "solve_triangular": emit_solve_triangular,
}
"""What emits each routine that stands alone."""

TOGETHER: Mapping[str, Callable[[ModuleEmitter, DType], None]] = dict.fromkeys(
    ("fft", "rfft", "irfft", "fft_table"), emit_fourier
)
"""What emits those that share most of their code, all of a dtype at once."""


@cache
def routine_library(routine: str, dtypes: tuple[DType, ...], target: Target) -> tuple[str, Module]:
    """The symbol of a routine, and the module that defines it."""
    name = symbol_of(routine, dtypes)
    if routine in TOGETHER:
        return name, _together(TOGETHER[routine], dtypes[-1], target)
    module = ModuleEmitter(target)
    EMITTERS[routine](module, name, dtypes)
    return name, module.module()


@cache
def _together(emit: Callable[[ModuleEmitter, DType], None], dtype: DType, target: Target) -> Module:
    module = ModuleEmitter(target)
    emit(module, dtype)
    return module.module()


__all__ = ["EMITTERS", "TOGETHER", "routine_library"]
