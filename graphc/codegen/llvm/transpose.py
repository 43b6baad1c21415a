"""Squares of elements transposed in registers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.types import ltype

_PART_BITS = 128
"""Processors move elements within parts of this size by one instruction, and whole parts by
another; moving elements from one part to another takes more."""


def transposed(e: FunctionEmitter, lines: Sequence[Reg]) -> list[Reg]:
    """Squares of as many lines as vectors have lanes, or several squares side by side.

    First within the parts of the vectors, then of the parts. Both times each step moves one bit of
    an element's place from the number of its line to that of its lane: after as many steps as there
    are bits, lines and lanes have changed places.
    """
    inner = min(_PART_BITS // lines[0].type.bits, len(lines))
    groups = [_within_parts(e, lines[n : n + inner]) for n in range(0, len(lines), inner)]
    distance = 1
    while distance < len(groups):
        for first in range(len(groups)):
            if first & distance:
                continue
            second = first + distance
            pairs = list(zip(groups[first], groups[second], strict=True))
            groups[first], groups[second] = (
                [_exchanged(e, a, b, distance, side) for a, b in pairs] for side in (0, 1)
            )
        distance *= 2
    return [line for group in groups for line in group]


def shuffled(e: FunctionEmitter, a: Reg, b: Reg, lanes: Iterable[int]) -> Reg:
    """Lanes of two vectors, those of the second numbered on from those of the first."""
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    count = order.count("i32")
    text = f"shufflevector {a}, {b}, <{count} x i32> <{order}>"
    return e.assign(ltype(a.type.element, count), text)


def _within_parts(e: FunctionEmitter, lines: Sequence[Reg]) -> list[Reg]:
    """In each part, the transpose of the square that the lines have there.

    Each step interleaves line i with line i + half.
    """
    inner, lanes = len(lines), lines[0].type.lanes
    half = inner // 2
    orders = (
        [
            [
                n
                for lane in range(lanes)
                if lane % inner // half == side
                for n in (lane, lane + lanes)
            ]
            for side in (0, 1)
        ]
        if half
        else []
    )
    current = list(lines)
    for _ in range(inner.bit_length() - 1):
        pairs = zip(current[:half], current[half:], strict=True)
        current = [shuffled(e, a, b, order) for a, b in pairs for order in orders]
    return current


def _exchanged(e: FunctionEmitter, a: Reg, b: Reg, distance: int, side: int) -> Reg:
    """The parts of a and b whose position has the bit ``distance`` equal to ``side``."""
    lanes, inner = a.type.lanes, _PART_BITS // a.type.bits
    sources = [
        (lanes if part & distance else 0) + ((part & ~distance) | (distance * side)) * inner
        for part in range(lanes // inner)
    ]
    return shuffled(e, a, b, (source + lane for source in sources for lane in range(inner)))


__all__ = ["shuffled", "transposed"]
