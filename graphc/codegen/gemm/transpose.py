"""Squares of a matrix transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.emitter import LType, Reg, ltype
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.build import Builder


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
            place = f.at(source, vector.element, f.i64(number * square)) if number else source
            loaded.append(f.load(place, part, size))
        source = f.at(source, vector.element, stride)
    return [value for loaded in parts for value in _transpose(f, _side_by_side(f, loaded, vector))]


def _side_by_side(f: Builder, parts: list[Reg], vector: LType) -> list[Reg]:
    """Vectors of two parts each, if they don't fill one: those of the first half come first."""
    square = parts[0].type.lanes
    if square == vector.lanes:
        return parts
    pairs = zip(parts[:square], parts[square:], strict=True)
    return [_shuffle(f, a, b, range(2 * square)) for a, b in pairs]


def _transpose(f: Builder, rows: list[Reg]) -> list[Reg]:
    """The transpose of squares side by side: first within 128-bit parts, then of the parts."""
    vector = rows[0].type
    inner = 128 // vector.bits
    # squares of inner × inner within each 128-bit part
    groups: list[list[Reg]] = []
    for start in range(0, len(rows), inner):
        group = rows[start : start + inner]
        if inner == 2:
            groups.append([_interleave(f, group[0], group[1], part, 1) for part in (0, 1)])
            continue
        low, high = (
            [_interleave(f, group[i], group[i + 1], part, 1) for i in (0, 2)] for part in (0, 1)
        )
        groups.append([_interleave(f, a, b, part, 2) for a, b in (low, high) for part in (0, 1)])
    # then the parts: exchange those whose positions differ in one bit
    distance = 1
    while distance < len(groups):
        for first in range(len(groups)):
            if first & distance:
                continue
            second = first + distance
            pairs = list(zip(groups[first], groups[second], strict=True))
            groups[first] = [_exchange(f, a, b, distance, 0) for a, b in pairs]
            groups[second] = [_exchange(f, a, b, distance, 1) for a, b in pairs]
        distance *= 2
    return [value for group in groups for value in group]


def _interleave(f: Builder, a: Reg, b: Reg, part: int, unit: int) -> Reg:
    """In each 128-bit part, units of the low (0) or high (1) half of a and b, alternating."""
    lanes, inner = a.type.lanes, 128 // a.type.bits
    indices = []
    for base in range(0, lanes, inner):
        for start in range(base + part * inner // 2, base + (part + 1) * inner // 2, unit):
            for operand in (0, lanes):
                indices += [operand + start + i for i in range(unit)]
    return _shuffle(f, a, b, indices)


def _exchange(f: Builder, a: Reg, b: Reg, distance: int, part: int) -> Reg:
    """The 128-bit parts of a and b whose position has the bit ``distance`` equal to ``part``."""
    lanes, inner = a.type.lanes, 128 // a.type.bits
    indices = []
    for position in range(lanes // inner):
        operand = lanes if position & distance else 0
        source = (position & ~distance) | (distance * part)
        indices += [operand + source * inner + i for i in range(inner)]
    return _shuffle(f, a, b, indices)


def _shuffle(f: Builder, a: Reg, b: Reg, indices: Sequence[int]) -> Reg:
    mask: LType = ltype("i32", len(indices))
    text = ", ".join(f"i32 {index}" for index in indices)
    result = ltype(a.type.element, len(indices))
    return f.assign(result, f"shufflevector {a}, {b}, {mask} <{text}>")
