"""The routine ``fft``: transforms of complex rows."""

from __future__ import annotations

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I64
from graphc.codegen.routines.fourier.batches import Kit
from graphc.codegen.routines.fourier.columns import Vectors
from graphc.codegen.routines.fourier.transforms import aligned, factor_of, refuse


def emit_fft(module: ModuleEmitter, name: str, v: Vectors, kit: Kit) -> None:
    """Defines the routine ``fft``."""
    words = "*source *table *target length size given inverse scale first count total *room"
    f = Builder(module, name, words, internal=False)
    source, table, target, length, size, given, inverse, scale, count, room = f.given(
        "source", "table", "target", "length", "size", "given", "inverse", "scale", "count", "room"
    )
    row = length * 2
    is_good = f.call(kit.checked, I64, table, length, size, given)
    refuse(f, v, is_good, target, row * count)
    factor, room = factor_of(f, v, length, scale), aligned(f, room)
    batch = kit.batches.begin(f, v, table, length, given, count, room)
    with f.when(batch.fits):
        batch.gather(source, row, count, 1, inverse)
        made = batch.transform(batch.here, table, length, factor)
        batch.scatter(made, target, row, count, 1, inverse)
    f.leave_if(batch.fits)
    with f.each(count) as number:
        begins = [v.at(f, base, number * row) for base in (source, target)]
        f.call(kit.scaled, None, *begins, table, length, inverse, factor, room)
    f.finish()


__all__ = ["emit_fft"]
