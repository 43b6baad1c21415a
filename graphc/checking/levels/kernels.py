"""One kernel at two levels: its machine code against its interpretation, to the bit.

The interpreter checks every access, so machine code runs only where none is wild; it runs on copies
between red zones, aligned to their element and to nothing more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from graphc.base.errors import VerifyError
from graphc.checking.compare import same_bits
from graphc.checking.levels.substitutes import Substitutes
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import evaluate
from graphc.kernel.interp import CheckFailure, run_kernel, runs_one_by_one
from graphc.kernel.ir import Kernel, Size, Statement, Var, walk
from graphc.kernel.parser import parse_kernel
from graphc.kernel.printer import print_kernel

ELEMENTS = 2_000_000
"""Kernels with more elements in all arguments together are not interpreted."""

STATEMENTS = 200_000
"""Kernels whose serial loops run more statements are not interpreted."""

WORK = 50_000_000
"""Kernels that compute more elements are not interpreted."""

_LIKELY_TRIPS = 100
"""Iterations of a loop that may end before its last one."""

GUARD = 256
"""Bytes before and after each argument of native code, which must stay as they are."""


class LevelMismatch(VerifyError):
    """Two levels give different results."""


class Guarded:
    """A copy of an array between red zones, aligned to its element and to nothing more."""

    def __init__(self, array: Array) -> None:
        self._original = array
        room = np.full(array.nbytes + 2 * GUARD + 64, 0xA5, np.uint8)
        self._start = GUARD + (-room.ctypes.data - GUARD) % 64
        if array.dtype.itemsize > 1:
            self._start += array.dtype.itemsize
        self._room = room
        end = self._start + array.nbytes
        self.array: Array = room[self._start : end].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self.address = room.ctypes.data + self._start

    def intact(self) -> bool:
        """Whether nothing was written around the array."""
        end = self._start + self._original.nbytes
        return bool((self._room[: self._start] == 0xA5).all() and (self._room[end:] == 0xA5).all())


_ENTRY = ctypes.CFUNCTYPE(None, *3 * [ctypes.c_void_p], *3 * [ctypes.c_int64])


def run_native(
    kernel: Kernel, entry: int, addresses: Sequence[int], dims: Mapping[str, int]
) -> list[CheckFailure]:
    """Runs a kernel's machine code; gives the first check that failed, if any."""
    pointers = np.array([*addresses, 0], np.uint64)
    sizes = np.array([*(evaluate(part, dims) for part in kernel.sizes), 0], np.int64)
    status = np.zeros(4, np.int64)
    extent = 1 if kernel.split is None else evaluate(kernel.split.extent, dims)
    _ENTRY(entry)(
        pointers.ctypes.data, sizes.ctypes.data, status.ctypes.data, 0, extent, 0
    )
    code, site, value, bound = status.tolist()
    return [CheckFailure(site, value, bound, ())] if code else []


def shown(array: Array) -> str:
    """An array as text of few lines."""
    return np.array2string(array, threshold=48, edgeitems=6, floatmode="unique")


class KernelComparison:
    """One kernel on one set of arguments."""

    def __init__(self, kernel: Kernel, arrays: Sequence[Array], dims: Mapping[str, int]) -> None:
        self.kernel, self.arrays, self.dims = kernel, arrays, dims

    def fail(self, problem: str) -> None:
        buffers = zip(self.kernel.buffers, self.arrays, strict=True)
        given = "\n".join(f"{b.role} {b.name} {list(a.shape)} = {shown(a)}" for b, a in buffers)
        raise LevelMismatch(
            f"{problem}\n{print_kernel(self.kernel)}dims {dict(self.dims)}\nbefore:\n{given}"
        )

    def run(self, entry: int, substitutes: Substitutes) -> tuple[list[Array], list[CheckFailure]]:
        """The arguments after the native run, and the checks that failed in it."""
        kernel, dims = self.kernel, self.dims
        twin = parse_kernel(print_kernel(kernel))
        # an array that is passed twice must be one array again
        copies = {id(array): array.copy() for array in self.arrays}
        interpreted = [copies[id(array)] for array in self.arrays]
        # The interpreter checks every access, so native code runs only where none is wild.
        expected = run_kernel(
            twin, interpreted, dims,
            functions=substitutes.functions, product=substitutes.product,
            multiply_add=substitutes.multiply_add, routines=substitutes.routines,
        )  # fmt: skip
        guarded = {id(array): Guarded(array) for array in self.arrays}
        natives = [guarded[id(array)] for array in self.arrays]
        failures = run_native(kernel, entry, [native.address for native in natives], dims)
        self._compare_checks(failures, expected)
        for buffer, native, wanted, before in zip(
            kernel.buffers, natives, interpreted, self.arrays, strict=True
        ):
            if not native.intact():
                self.fail(f"native code writes outside {buffer.name!r}")
            written = any(
                other.role != "in" and array is before
                for other, array in zip(kernel.buffers, self.arrays, strict=True)
            )
            if not written and native.array.tobytes() != before.tobytes():
                self.fail(f"native code writes its input {buffer.name!r}")
            if buffer.is_result and not expected:
                self._compare(buffer.name, native.array, wanted)
        return [native.array for native in natives], failures

    def _compare_checks(
        self, got: Sequence[CheckFailure], expected: Sequence[CheckFailure]
    ) -> None:
        known = {(failure.site, failure.index, failure.bound) for failure in expected}
        found = {(failure.site, failure.index, failure.bound) for failure in got}
        if bool(found) != bool(known) or not found <= known:
            self.fail(f"checks that fail natively are {found}, interpreted {known}")

    def _compare(self, name: str, native: Array, wanted: Array) -> None:
        same = same_bits(native, wanted)
        if same.all():
            return
        places = np.argwhere(~same)
        shown = "\n".join(
            f"  {name}{place.tolist()}: native {native[tuple(place)]!r}, "
            f"interpreted {wanted[tuple(place)]!r}"
            for place in places[:5]
        )
        self.fail(f"{len(places)} of {same.size} elements differ\n{shown}")


def too_long(kernel: Kernel, dims: Mapping[str, int]) -> str | None:
    """Why interpreting a kernel would take too long; None if it would not.

    Loops side by side are one statement over many elements. A loop that may end before its last
    iteration is taken to run a few.
    """

    def count(body: Sequence[Statement], lanes: int) -> tuple[int, int]:
        statements = elements = 0
        for statement in body:
            block = statement.block
            if block is None:
                statements, elements = statements + 1, elements + lanes
                continue
            extent = _iterations(block.extent, dims)
            is_serial = runs_one_by_one(block)
            if block.lasts is not None:
                extent = min(extent, _LIKELY_TRIPS)
            inner, work = count(block.body, lanes * (1 if is_serial else max(1, extent)))
            trips = extent if is_serial else 1
            statements, elements = statements + inner * trips, elements + work * trips
        return statements, elements

    statements, elements = count(kernel.body, 1)
    if statements > STATEMENTS:
        return f"more than {STATEMENTS} statements one by one"
    return f"more than {WORK} elements computed" if elements > WORK else None


def may_not_end(kernel: Kernel) -> bool:
    """Whether a loop of a kernel ends by what it computes, which need not come for any inputs."""
    return any(s.block is not None and s.block.lasts is not None for s in walk(kernel.body))


def _iterations(extent: Size, dims: Mapping[str, int]) -> int:
    """How many a loop of this extent has; none where guards forbid such sizes."""
    if isinstance(extent, Var):
        return 1
    try:
        return evaluate(extent, dims)
    except ZeroDivisionError:
        return 0


__all__ = [
    "ELEMENTS",
    "STATEMENTS",
    "KernelComparison",
    "LevelMismatch",
    "may_not_end",
    "run_native",
    "shown",
    "too_long",
]
