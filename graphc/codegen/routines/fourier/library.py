"""The routines of Fourier transforms of a dtype, which are one library: they share most of it."""

from __future__ import annotations

from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.routines.fourier.batches import Kit, emit_batches
from graphc.codegen.routines.fourier.checked import emit_checked
from graphc.codegen.routines.fourier.columns import Vectors
from graphc.codegen.routines.fourier.pairs import emit_fft
from graphc.codegen.routines.fourier.real import emit_irfft, emit_rfft
from graphc.codegen.routines.fourier.tables import emit_fft_table
from graphc.codegen.routines.fourier.transforms import emit_direct, emit_passes, emit_scaled
from graphc.codegen.routines.symbols import symbol_of
from graphc.ir.dtypes import DType


def emit_fourier(module: ModuleEmitter, dtype: DType) -> None:
    """Defines all of them."""
    v, name = Vectors(dtype), f"graphc_fourier_{dtype}"
    passes = emit_passes(module, name, v)
    direct = emit_direct(module, name, v, passes)
    kit = Kit(
        emit_scaled(module, f"{direct}_scaled", v, direct),
        emit_checked(module, f"{direct}_checked", v),
        emit_batches(module, f"{direct}_batches", v, passes),
    )
    for routine, emit in (("fft", emit_fft), ("rfft", emit_rfft), ("irfft", emit_irfft)):
        emit(module, symbol_of(routine, (dtype, dtype, dtype)), v, kit)
    emit_fft_table(module, symbol_of("fft_table", (dtype, dtype)), v, direct)


__all__ = ["emit_fourier"]
