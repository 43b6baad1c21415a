"""The last step of the four-step scheme: twiddle factors, and transforms along the rows.

Squares of as many columns as a vector has lanes are transposed in registers, so that each lane has
a row of the matrix, and results come in order.
"""

from __future__ import annotations

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.transpose import transposed
from graphc.codegen.routines.fourier.columns import Vectors
from graphc.codegen.routines.fourier.straight import Complex, times, transform


def emit_squares(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (source, target): transposes a square of complex elements, in vectors."""
    f = Builder(module, name, "*source *target")
    source, target = f.given("source", "target")
    for n, element in enumerate(_transposed(f, v, source)):
        v.write(f, element, v.complexes(f, target, n))
    f.finish()
    return name


def _transposed(f: Builder, v: Vectors, source: Reg) -> list[Complex]:
    lines = [v.read(f, v.complexes(f, source, n)) for n in range(v.lanes)]
    real, imaginary = (transposed(f, [line[side] for line in lines]) for side in (0, 1))
    return list(zip(real, imaginary, strict=True))


def emit_rows(module: ModuleEmitter, name: str, v: Vectors, parts: int, squares: str | None) -> str:
    """Defines (source, target, roots, columns, apart, swap, *factor): results in packed pairs,
    those of a part ``apart`` from the next one's. There are at least ``lanes`` columns; ``roots``
    are the twiddle factors behind those of the columns. A function ``squares`` transposes, or the
    code itself does."""
    f = Builder(module, name, "*source *target *roots columns apart swap *factor")
    source, target, roots, columns, apart, swap, factor = f.given(
        "source", "target", "roots", "columns", "apart", "swap", "factor"
    )
    lanes, size = v.lanes, v.dtype.bytes
    swaps = v.swaps(f, swap)
    scale = f.load(factor, v.element, size)
    scales = f.splat(scale, lanes)
    starts = v.at(f, roots, 2 * lanes * parts)
    blocks = (columns + (lanes - 1)).udiv(lanes)
    square = f.alloca(v.vector, 2 * lanes) if squares is not None else None
    with f.each(blocks) as block:
        first = f.least(block * lanes, columns - lanes)
        begin = v.complexes(f, source, first)
        if squares is None or square is None:
            lines = _transposed(f, v, begin)[:parts]
        else:
            f.call(squares, None, begin, square)
            lines = [v.read(f, v.complexes(f, square, part)) for part in range(parts)]
        inputs = []
        for part, element in enumerate(lines):
            if not part:
                inputs.append((element[0] * scales, element[1] * scales))
                continue
            place = v.at(f, starts, (block * parts + part) * 2)
            real = f.load(place, v.element, size) * scale
            imaginary = f.load(v.at(f, place, 1), v.element, size) * scale
            start = f.splat(real, lanes), f.splat(imaginary, lanes)
            twiddle = times(f, v.read(f, v.complexes(f, roots, part)), start)
            inputs.append(times(f, element, twiddle))
        for part, element in enumerate(transform(f, inputs)):
            pairs = v.interleaved(f, element, swaps)
            place = v.at(f, target, (first + apart * part) * 2)
            f.store(pairs[0], place, size)
            f.store(pairs[1], v.at(f, place, lanes), size)
    f.finish()
    return name


def emit_short(module: ModuleEmitter, name: str, v: Vectors) -> str:
    """Defines (source, target, parts, columns): results ``lanes`` apart become packed ones."""
    f = Builder(module, name, "*source *target parts columns")
    source, target, parts, columns = f.given("source", "target", "parts", "columns")
    size = v.dtype.bytes
    with f.each(parts) as part, f.each(columns * 2) as n:
        element = f.load(v.at(f, source, part * (2 * v.lanes), n), v.element, size)
        f.store(element, v.at(f, target, part * columns * 2, n), size)
    f.finish()
    return name


__all__ = ["emit_rows", "emit_short", "emit_squares"]
