"""Fourier transforms by tables that hold anything, in arrays at the edges of pages.

    PYTHONPATH=. python tests/support/guard_tables.py 40  # 40 heads of each length

A table is an operand, so that a file or a feed decides what is in it. A routine that it led beyond
an array would end the process. What is found wrong is printed, one line each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from guard_arrays import GuardedArray, guarded

from graphc.base.target import host
from graphc.checking.levels.substitutes import routine_function
from graphc.ir.dtypes import COMPUTED_FLOATS, DType
from graphc.kernel.routines import routine
from graphc.kernel.routines.fourier import is_table_of, table_of
from graphc.kernel.routines.fourier_plan import (
    HEAD,
    ODD_AT,
    PARTS_AT,
    RADICES,
    STRAIGHT,
    lanes_of,
    room_size,
    table_bound,
    table_size,
)

LENGTHS = (
    1, 2, 3, 8, 13, 16, 24, 37, 64, 74, 100, 128, 200, 289, 331, 512, 1000, 1009, 1024, 2048,
)  # fmt: skip
NUMBERS = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 25, 64, 96, 97, 191, 193, 1000, -1,
    -8, 0.5, 16.5, 2.0**23, 2.0**24, 2.0**31, 2.0**63, 1e30, 3e38, np.nan, np.inf, -np.inf,
)  # fmt: skip


def heads(rng: np.random.Generator, table: Any, length: int, count: int) -> Iterator[Any]:
    """Tables like a right one, with other heads."""
    for number in range(count):
        other = table.copy()
        head, kind = other[:HEAD], number % 4
        if kind == 0:
            # one number of it
            head[int(rng.integers(HEAD))] = rng.choice(NUMBERS)
        elif kind == 1:
            head[2:] = rng.choice(NUMBERS, HEAD - 2)
        elif kind == 2:
            # a plan, perhaps of this length
            head[PARTS_AT] = rng.integers(1, 18)
            head[ODD_AT] = rng.choice([0, head[ODD_AT], 1, 3])
            left, place = max(length // int(head[PARTS_AT]), 1), RADICES + 1
            head[RADICES] = rng.choice([1, 8, 4, 2])
            while left > 1 and place < HEAD:
                head[place] = radix = int(rng.choice([*STRAIGHT, 11, 13]))
                left, place = left // radix, place + 1
        else:
            other[:] = rng.choice(NUMBERS, len(other))
        yield other


def tables(rng: np.random.Generator, element: DType, length: int, real: bool, count: int) -> Any:
    """Tables for rows of a length, right ones first; each with what scratch there is."""
    size, room = (int(f(length, element, real)) for f in (table_size, room_size))
    right = table_of(length, size, element, real)
    before, large = before_head(length, real), int(table_bound(length))
    for _ in range(4):
        yield right, room
        yield np.concatenate([right, np.zeros(large - size, right.dtype)]), room
    for short in {0, 1, HEAD - 1, size - 1, max(before - 1, 0)} - {size}:
        yield right[:short], room
    yield right, 0
    yield right, room - 1 - int(room_size(1, element, real))
    for other in rng.choice(LENGTHS, 4):
        given = table_of(int(other), int(table_size(int(other), element, real)), element, real)
        yield given, room
        yield np.resize(given, size), room
    for sized in (right, np.concatenate([right, np.zeros(large - size, right.dtype)])):
        for head in heads(rng, sized[before:], length, count):
            yield np.concatenate([sized[:before], head]), room


def check(name: str, element: DType, length: int, count: int) -> Iterator[str]:
    """What goes wrong with tables for rows of a length."""
    rng = np.random.default_rng(length)
    real, half = name != "fft", length // 2 + 1
    sizes = {"fft": (2 * length, 2 * length), "rfft": (length, 2 * half)}
    rows = sizes.get(name, (2 * half, length))
    function = routine_function(name, (element,) * 3, 7 + (name == "fft"), host())
    for number, (given, room) in enumerate(tables(rng, element, length, real, count)):
        batch = (1, 3, lanes_of(element), lanes_of(element) - 1)[number % 4]
        options = *((1, 1) if name == "fft" else (1,)), 0, batch, batch
        source = guarded(rng.normal(size=batch * rows[0]).astype(element.numpy), "end")
        table = guarded(given.astype(element.numpy), "end")
        target = GuardedArray((batch * rows[1],), element.numpy, "end")
        scratch = GuardedArray((max(room, 0),), element.numpy, "end")
        arrays = [each.array for each in (source, table, target, scratch)]
        *pointers, place = [each.ctypes.data for each in arrays]
        function(*pointers, length, len(given), room, *options, place)
        what = f"{name} of {length} {element}, table {number}"
        is_right = is_table_of(arrays[1], length, real)
        if any(each.touched for each in (source, table, target, scratch)):
            yield f"{what}: wrote beside an array"
        if number < 8:
            (wanted,) = routine(name).reference(*arrays[:2], length, len(given), room, *options)
            scale = float(np.abs(wanted).max()) * np.finfo(wanted.dtype).eps * 40
            if not is_right or not np.allclose(arrays[2], wanted, rtol=0, atol=scale):
                yield f"{what}: its own is not taken"
        named = arrays[1][before_head(length, real) :][:2]
        if (len(given) < HEAD or named.tolist() != [inner(length, real), 0.0]) and not np.isnan(
            arrays[2]
        ).all():
            yield f"{what}: another one is taken"


def inner(length: int, real: bool) -> int:
    """How many complex elements rows of a length are."""
    return length // 2 if real and length % 2 == 0 else length


def before_head(length: int, real: bool) -> int:
    """Elements before the head of a table."""
    return 2 * (length // 4 + 1) if real and length % 2 == 0 else 0


def main(count: int) -> int:
    found = 0
    for name, element, length in product(("fft", "rfft", "irfft"), COMPUTED_FLOATS, LENGTHS):
        for problem in check(name, element, length, count):
            print(problem)
            found += 1
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
