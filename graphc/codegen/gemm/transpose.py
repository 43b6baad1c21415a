"""Operands of products that are read across their rows."""

from __future__ import annotations

from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.transpose import shuffled, transposed
from graphc.codegen.llvm.types import LType, ltype


def square_lanes(sizes: Blocking) -> int:
    """Steps of k that are transposed together: 256 bits at most, wider squares gain little."""
    return min(sizes.bits, 256) // sizes.dtype.bits


def load_transposed(
    f: Builder, source: Reg, stride: Reg, vector: LType, square: int, count: int = 1
) -> list[Reg]:
    """``count`` times ``square`` vectors from as many contiguous elements of each of several rows.

    There are as many rows, ``stride`` apart, as the vectors have lanes; the i-th vector holds
    element i of each. Each row is read once, all of its elements together.
    """
    part, size = ltype(vector.element, square), vector.bits // 8
    parts: list[list[Reg]] = [[] for _ in range(count)]
    for _ in range(vector.lanes):
        for number, loaded in enumerate(parts):
            place = f.at(source, vector.element, number * square) if number else source
            loaded.append(f.load(place, part, size))
        source = f.at(source, vector.element, stride)
    return [value for loaded in parts for value in transposed(f, _side_by_side(f, loaded, vector))]


def _side_by_side(f: Builder, parts: list[Reg], vector: LType) -> list[Reg]:
    """Vectors of two parts each, if they don't fill one: those of the first half come first."""
    square = parts[0].type.lanes
    if square == vector.lanes:
        return parts
    pairs = zip(parts[:square], parts[square:], strict=True)
    return [shuffled(f, a, b, range(2 * square)) for a, b in pairs]
