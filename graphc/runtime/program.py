"""A compiled plan in memory: its code, its tables, and running it.

A ``Frame`` is everything one run needs: the arena and the tables, prepared for one binding of the
symbolic dims. Frames are pooled, so that threads don't wait for each other and nothing but results
is allocated during a run.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.base.errors import IndexRangeError, ShapeError
from graphc.ir.attributes import Array
from graphc.ir.dims import Dim, evaluate, symbol_name, symbols_of
from graphc.plan.ir import Branch, Copy, Jump, Launch, Plan
from graphc.plan.memory import offsets_for_sizes
from graphc.plan.table import BRANCH, COPY, JUMP, LAUNCH, SKIP, STEP_WORDS
from graphc.runtime.interrupt import interruptible
from graphc.runtime.jit import Library

LONG_PROGRAM = 64
"""Programs with loops, or of this many steps, can be interrupted; shorter ones end soon anyway."""

_NEVER = ctypes.c_int32(0)
_NEVER_ADDRESS = ctypes.addressof(_NEVER)
"""The cancel flag of runs that are not interrupted."""

MAX_BINDINGS = 64
"""How many bindings of the dims keep their frames; the oldest goes first."""


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code of a plan.

    Attributes:
        libraries: what must stay loaded.
        entries: address of each of ``plan.kernels``.
        walker: address of the native loop over the steps.
    """

    libraries: tuple[Library, ...]
    entries: tuple[int, ...]
    walker: int


_POINTER = ctypes.c_void_p
_WALK = ctypes.CFUNCTYPE(
    ctypes.c_int64, _POINTER, ctypes.c_int64, _POINTER, _POINTER, _POINTER, _POINTER
)


def aligned_empty(size: int) -> Array:
    """Uninitialised bytes that start on a cache line."""
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def address_of(array: Array) -> int:
    """Where an array's elements start."""
    address: int = array.__array_interface__["data"][0]
    return address


class Frame:
    """Tables and arena of one run at one binding of the dims."""

    __slots__ = ("_dims", "_steps", "arena", "arguments", "places", "pointers", "shapes", "status")

    def __init__(self, program: Program, binding: Mapping[str, int]) -> None:
        plan = program.plan

        def known(dim: Dim) -> int:
            return dim if isinstance(dim, int) else evaluate(dim, binding)

        shapes = [tuple(known(dim) for dim in slot.type.shape) for slot in plan.slots]
        sizes = [
            int(np.prod(shape, dtype=object)) * slot.type.dtype.bytes
            for shape, slot in zip(shapes, plan.slots, strict=True)
        ]
        layout = plan.layout
        assert layout is not None, "a plan is placed before it runs"
        offsets, peak = offsets_for_sizes(layout.solution, [sizes[slot] for slot in layout.slots])
        self.arena = aligned_empty(peak)
        base = address_of(self.arena)
        address = {s: base + offset for s, offset in zip(layout.slots, offsets, strict=True)}
        for slot, array in program.constants.items():
            address[slot] = address_of(array)
        self.shapes = shapes
        self.places: dict[int, list[int]] = {}
        pointers: list[int] = []
        dims: list[int] = []
        table: list[list[int]] = []

        def point(slot: int) -> None:
            known_address = address.get(slot)
            if known_address is None:
                self.places.setdefault(slot, []).append(len(pointers))
            pointers.append(known_address or 0)

        for step in plan.steps:
            row = [SKIP, 0, len(pointers), len(dims), 0, 0]
            if isinstance(step, Launch):
                kernel = plan.kernels[step.kernel]
                written = [
                    slot
                    for buffer, slot in zip(kernel.buffers, step.arguments, strict=True)
                    if buffer.role == "out"
                ]
                if any(sizes[slot] for slot in written):
                    row[0], row[1] = LAUNCH, program.entries[step.kernel]
                for slot in step.arguments:
                    point(slot)
                dims += [binding[name] for name in kernel.dims]
            elif isinstance(step, Copy):
                row[0] = COPY
                point(step.source)
                point(step.target)
                dims.append(sizes[step.target])
            elif isinstance(step, Branch):
                row[0], row[4] = BRANCH, step.target
                point(step.predicate)
            elif isinstance(step, Jump):
                row[0], row[4] = JUMP, step.target
            table.append(row)
        self.pointers = (ctypes.c_uint64 * max(1, len(pointers)))(*pointers)
        self.status = (ctypes.c_int64 * 4)()
        self._dims = np.array(dims or [0], np.int64)
        self._steps = np.array(table or [[0] * STEP_WORDS], np.int64)
        self.arguments = (
            address_of(self._steps),
            len(plan.steps),
            ctypes.addressof(self.pointers),
            address_of(self._dims),
            ctypes.addressof(self.status),
        )


class Program:
    """A plan with machine code, ready to run.

    Attributes:
        plan: what it runs.
        entries: address of each kernel.
    """

    def __init__(self, plan: Plan, code: Code) -> None:
        self.plan = plan
        self.entries = code.entries
        self._libraries = code.libraries
        self._walk = _WALK(code.walker)
        self.constants = {
            slot: np.ascontiguousarray(array) for slot, array in plan.constants.items()
        }
        self._lock = threading.Lock()
        self._frames: dict[tuple[int, ...], list[Frame]] = {}
        self._binders = _binders(plan)
        self._names = tuple(name for name, _, _ in self._binders[0])

    def bind(self, arrays: Sequence[Array]) -> dict[str, int]:
        """Sizes of the symbolic dims, from the arrays given for ``plan.feeds``.

        Raises:
            ShapeError: where equal dims got different sizes, naming both.
        """
        first, checks = self._binders
        binding = {name: arrays[n].shape[axis] for name, n, axis in first}
        for dim, n, axis in checks:
            expected = evaluate(dim, binding)
            if arrays[n].shape[axis] != expected:
                raise ShapeError(self._mismatch(dim, n, axis, arrays))
        for guard in self.plan.guards:
            left, right = evaluate(guard.left, binding), evaluate(guard.right, binding)
            if left != right and not (guard.broadcasts and left == 1):
                raise ShapeError(f"{guard.message}, but are {left} and {right}", where=guard.where)
        return binding

    def _mismatch(self, dim: Dim, n: int, axis: int, arrays: Sequence[Array]) -> str:
        slots = self.plan.slots
        for name, other, place in self._binders[0]:
            if name == str(dim):
                first, second = slots[self.plan.feeds[other]].name, slots[self.plan.feeds[n]].name
                return (
                    f"dim {name} is {arrays[other].shape[place]} in axis {place} of {first!r} "
                    f"but {arrays[n].shape[axis]} in axis {axis} of {second!r}"
                )
        return f"axis {axis} of {slots[self.plan.feeds[n]].name!r} must be {dim}"

    def run(self, arrays: Sequence[Array], into: Mapping[int, Array] | None = None) -> list[Array]:
        """Runs once.

        ``arrays`` are given for ``plan.feeds``: C-contiguous, of the right dtype and rank. Results
        are fresh arrays, but for those whose position ``into`` gives an array to write to.

        Raises:
            ShapeError: where sizes don't fit each other.
            IndexRangeError: where an index is out of range.
        """
        binding = self.bind(arrays) if self._needs_binding else {}
        key = tuple(binding[name] for name in self._names)
        frame = self._take(key, binding)
        try:
            pointers, places, shapes = frame.pointers, frame.places, frame.shapes
            plan = self.plan
            for slot, array in zip(plan.feeds, arrays, strict=True):
                if slot in places:
                    address = address_of(array)
                    for place in places[slot]:
                        pointers[place] = address
            results = []
            for position, slot in enumerate(plan.outputs):
                kept = None if into is None else into.get(position)
                result = (
                    np.empty(shapes[slot], plan.slots[slot].type.dtype.numpy)
                    if kept is None
                    else kept
                )
                if slot in places:
                    address = address_of(result)
                    for place in places[slot]:
                        pointers[place] = address
                results.append(result)
            stopped = self._walked(frame)
            if stopped != len(plan.steps):
                self._fail(frame, stopped)
            return results
        finally:
            self._give(key, frame)

    def _walked(self, frame: Frame) -> int:
        """Runs the steps; long programs can be interrupted."""
        if not self.plan.loops and len(self.plan.steps) < LONG_PROGRAM:
            return int(self._walk(*frame.arguments, _NEVER_ADDRESS))
        with interruptible() as flag:
            return int(self._walk(*frame.arguments, flag or _NEVER_ADDRESS))

    @property
    def _needs_binding(self) -> bool:
        return bool(self._binders[0] or self._binders[1] or self.plan.guards)

    def _fail(self, frame: Frame, position: int) -> None:
        _, number, value, bound = (int(item) for item in frame.status)
        frame.status[:] = [0] * 4
        if position < 0:
            raise KeyboardInterrupt
        step = self.plan.steps[position]
        assert isinstance(step, Launch)
        site = self.plan.kernels[step.kernel].sites[number]
        raise IndexRangeError(
            f"{site.what}: index {value} is out of range for axis {site.axis} of size {bound}",
            where=step.where if site.where is None else site.where,
        )

    # --- frames ----------------------------------------------------------------------------------

    def _take(self, key: tuple[int, ...], binding: Mapping[str, int]) -> Frame:
        with self._lock:
            idle = self._frames.get(key)
            if idle:
                return idle.pop()
        return Frame(self, binding)

    def _give(self, key: tuple[int, ...], frame: Frame) -> None:
        with self._lock:
            idle = self._frames.setdefault(key, [])
            idle.append(frame)
            if len(self._frames) > MAX_BINDINGS:
                del self._frames[next(iter(self._frames))]


Binder = tuple[list[tuple[str, int, int]], list[tuple[Dim, int, int]]]


def _binders(plan: Plan) -> Binder:
    """Where each symbol is read off the arrays, and which other axes must agree."""
    first: dict[str, tuple[int, int]] = {}
    checks: list[tuple[Dim, int, int]] = []
    for n, slot in enumerate(plan.feeds):
        for axis, dim in enumerate(plan.slots[slot].type.shape):
            if isinstance(dim, int):
                continue
            if symbols_of(dim) == {dim} and symbol_name(dim) not in first:
                first[symbol_name(dim)] = (n, axis)
            else:
                checks.append((dim, n, axis))
    return [(name, *place) for name, place in first.items()], checks
