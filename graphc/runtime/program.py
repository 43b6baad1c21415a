"""A compiled plan in memory: its code, its tables, and running it.

A ``Frame`` is everything one run needs: the arena and the tables, prepared for one binding of the
symbolic dims. The frames of a binding wait in a list, so that threads don't wait for each other and
nothing but results is allocated during a run.
"""

from __future__ import annotations

import ctypes
import time
from array import array as machine_array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphc.base.errors import FeedError, ShapeError
from graphc.base.forks import lock
from graphc.base.source import caller
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import evaluate
from graphc.plan.abi import FRAME_RELEASES, FRAME_WORDS, STEP_WORDS
from graphc.plan.cost import is_brief
from graphc.plan.ir import Branch, HostCall, Jump, Launch, Plan, Require
from graphc.runtime.address import address_of, aligned_empty
from graphc.runtime.binding import Binder
from graphc.runtime.blocks import maker_of_results
from graphc.runtime.code import Code
from graphc.runtime.host_calls import HostCalls, raise_failure
from graphc.runtime.interrupt import Handler, handler, interruptible
from graphc.runtime.tables import BoundTables, Template
from graphc.runtime.trips import Addresses, native_trips

LONG_PROGRAM = 64
"""Programs with loops, or of this many steps, can be interrupted; shorter ones end soon anyway."""

_NO_CANCEL = ctypes.c_int32(0)
_NEVER = ctypes.c_void_p(ctypes.addressof(_NO_CANCEL))
"""Points to the cancel flag of runs that are not interrupted."""

MAX_IDLE_BYTES = 256 << 20
"""Arenas that other bindings may keep when a new one comes; the oldest go first."""

MAX_BINDINGS = 64
"""How many bindings of the dims keep their frames; the oldest goes first."""

RECENT_BINDINGS = 4
"""Native code looks for the binding of its arguments among this many recent ones."""


Observer = Callable[[int, int], None]
"""Is told of each step that ran, and the nanoseconds it took."""

_POINTER = ctypes.c_void_p
_WALK_PARAMETERS = (_POINTER, ctypes.c_int64, _POINTER, _POINTER, _POINTER, _POINTER)
_WALK = ctypes.CFUNCTYPE(ctypes.c_int64, *_WALK_PARAMETERS)


class ArenaTooLarge(Exception):
    """A run would need more memory for temporaries than the program may take."""


class Frame(NamedTuple):
    """Tables and arena of one run at one binding of the dims.

    Attributes:
        record: the addresses that native code needs, in the order of ``graphc.plan.abi``.
        arena: where temporaries lie.
        pointers: the pointer table, as integers.
        status: what a kernel that fails fills in.
        arguments: of the native loop, as ctypes objects, which need no conversion at each call.
        tables: what else the record has the addresses of.
    """

    record: NDArray[np.int64]
    arena: Array
    pointers: ctypes.Array[ctypes.c_uint64]
    status: ctypes.Array[ctypes.c_int64]
    arguments: tuple[Any, ...]
    tables: BoundTables


class Bound(NamedTuple):
    """A program at one binding of the dims, and its frames that no run has taken.

    Native code reads the first three by their position.

    Attributes:
        dims: the dims of all inputs, then those of all results.
        idle: frames; taking from and adding to the list needs no lock.
        makers: for each result what makes its array, or None where native code may.
        shapes: of the results.
        binding: the size of each symbol.
        tables: of the plan at these sizes.
    """

    dims: NDArray[np.int64]
    idle: list[Frame]
    makers: tuple[Callable[[], Array] | None, ...]
    shapes: tuple[tuple[int, ...], ...]
    binding: Mapping[str, int]
    tables: BoundTables


def _new_bound(program: Program, binding: Mapping[str, int]) -> Bound:
    plan = program.plan
    types = [plan.slots[slot].type for slot in (*plan.feeds, *plan.outputs)]
    known = {
        key: tuple([dim if type(dim) is int else evaluate(dim, binding) for dim in type_.shape])
        for key, type_ in {id(type_): type_ for type_ in types}.items()
    }
    shapes = [known[id(type_)] for type_ in types]
    dims = np.array([size for shape in shapes for size in shape] or [0], np.int64)
    results = tuple(shapes[len(plan.feeds) :])
    makers = tuple(
        maker_of_results(shape, plan.slots[slot].type.dtype.numpy)
        for shape, slot in zip(results, plan.outputs, strict=True)
    )
    return Bound(dims, [], makers, results, binding, program.template.at(binding))


def _frame(program: Program, bound: Bound) -> Frame:
    """A frame with everything in it that no run changes."""
    plan, tables, layout = program.plan, bound.tables, program.plan.layout
    assert layout is not None, "a plan is placed before it runs"
    if program.most_bytes is not None and tables.peak > program.most_bytes:
        raise ArenaTooLarge
    arena = aligned_empty(tables.peak)
    base = address_of(arena)
    address = {slot: address_of(array) for slot, array in program.constants.items()}
    for slot, offset in zip(layout.slots, tables.offsets, strict=True):
        address[slot] = base + offset
    given = [address.get(slot, 0) for slot in program.template.tables.entries] or [0]
    # ctypes takes several times as long to convert them
    pointers = (ctypes.c_uint64 * len(given)).from_buffer(machine_array("Q", given))
    status = (ctypes.c_int64 * 4)()
    words = (
        address_of(tables.steps),
        len(plan.steps),
        ctypes.addressof(pointers),
        address_of(tables.cells),
        ctypes.addressof(status),
    )
    arguments = tuple(kind(word) for kind, word in zip(_WALK_PARAMETERS, words, strict=False))
    record = np.zeros(FRAME_WORDS, np.int64)
    record[:FRAME_RELEASES] = program.walker, *words
    record[FRAME_RELEASES] = program.releases(bound.binding)
    return Frame(record, arena, pointers, status, arguments, tables)


class Program:
    """A plan with machine code, ready to run.

    Attributes:
        plan: what it runs.
        entries: address of each kernel.
        walker: address of the native loop over the steps.
        glue: what came along with its code; None where that is compiled on demand.
        constants: the content of constant slots, packed.
        template: what its bindings share.
        input_places, output_places: of each input and result its entries of the pointer table.
        most_bytes: what an arena may take at most; None where that is not limited.
        is_long: it must be possible to interrupt a run.
        runs_once: a run that fails is not begun anew to say why, since it calls Python.
        recent: the bindings used last, the latest first.
    """

    def __init__(
        self, plan: Plan, code: Code, threads: int = 1, most_bytes: int | None = None
    ) -> None:
        """``threads`` is how many may run a kernel at once; a run whose arena would be of more than
        ``most_bytes`` raises ``ArenaTooLarge``."""
        self.plan = plan
        self.entries = code.entries
        self.walker = code.walker
        self.most_bytes = most_bytes
        self.glue = code.glue
        self._kept = code.kept
        self._walk = _WALK(code.walker)
        self.constants = {
            slot: np.ascontiguousarray(array) for slot, array in plan.constants.items()
        }
        self._binder = Binder(plan)
        self._hosts = HostCalls(plan)
        hosts = self._hosts.rows
        self.template = Template(plan, self._binder.symbols, code, threads, hosts)
        places: dict[int, list[int]] = {slot: [] for slot in (*plan.feeds, *plan.outputs)}
        entries = self.template.tables.entries
        for place, slot in compress(enumerate(entries), map(places.__contains__, entries)):
            places[slot].append(place)
        self.input_places = [tuple(places[slot]) for slot in plan.feeds]
        self.output_places = [tuple(places[slot]) for slot in plan.outputs]
        self._dtypes = [plan.slots[slot].type.dtype.numpy for slot in plan.outputs]
        self._count = len(plan.steps)
        self.is_long = bool(plan.loops) or self._count >= LONG_PROGRAM
        self.runs_once = bool(hosts)
        self._handler: Handler | None = handler(code.glue) if self.is_long else None
        self._lock = lock()  # handlers of signals may come within
        self._bounds: dict[tuple[int, ...], Bound] = {}
        self.recent: list[Bound] = []
        self._is_native = False

    def call_natively(self) -> list[Bound]:
        """Lets native code take the frames; gives the list of the bindings used last."""
        self._is_native = True
        for bound in list(self._bounds.values()):
            for frame in list(bound.idle):
                frame.record[FRAME_RELEASES] = self.releases(bound.binding)
        return self.recent

    def releases(self, binding: Mapping[str, int]) -> bool:
        """Whether native code releases the interpreter's lock; brief programs are not worth it.

        Nothing is looked at before there is native code: what runs once needs no answer.
        """
        return not (self._is_native and is_brief(self.plan, binding))

    def bind(self, arrays: Sequence[Array]) -> dict[str, int]:
        """Sizes of the symbolic dims, from the arrays given for ``plan.feeds``.

        Raises:
            GraphcError: where sizes don't fit each other, as ``Binder.bind`` says.
        """
        return self._binder.bind(arrays, self._bounds)

    def run(
        self,
        arrays: Sequence[Array],
        into: Mapping[int, Array] | None = None,
        observer: Observer | None = None,
    ) -> list[Array]:
        """Runs once.

        ``arrays`` are given for ``plan.feeds``: C-contiguous, of the right dtype and rank. Results
        are fresh arrays, but for those whose position ``into`` gives an array to write to. With an
        ``observer`` the steps are run one at a time, from Python.

        Raises:
            ArenaTooLarge: where ``most_bytes`` does not suffice; nothing has run then.
            ShapeError: where sizes don't fit each other, or in 64 bits.
            IndexRangeError: where an index is out of range.
            FeedError: where an array of ``into`` has another shape than its result.
        """
        bound = self._bound(arrays)
        idle = bound.idle
        frame = self._taken(bound)
        try:
            pointers = frame.pointers
            for places, array in zip(self.input_places, arrays, strict=True):
                address = address_of(array)
                for place in places:
                    pointers[place] = address
            results: list[Array] = []
            for position, places in enumerate(self.output_places):
                result = self._result(bound, position, into)
                address = address_of(result)
                for place in places:
                    pointers[place] = address
                results.append(result)
            stopped = self._walked(frame) if observer is None else self._stepped(frame, observer)
            if stopped != self._count:
                self._fail(frame, stopped, bound.binding)
            return results
        finally:
            idle.append(frame)

    def run_trips(
        self,
        arrays: Sequence[Array],
        read: Sequence[Addresses],
        written: Sequence[Addresses],
        trips: int,
    ) -> tuple[int, BaseException | None]:
        """Runs several times in a row, with no Python between two runs.

        Args:
            arrays: for ``plan.feeds``, as for ``run``; the first run's, whose sizes all have.
            read: where each run finds what ``arrays`` stands for.
            written: where it writes each result, in the order of ``plan.outputs``.
            trips: how many runs.

        Returns:
            How many were whole, and what the next one raised; ``None`` if there is no next one.
        """
        bound = self._bound(arrays)
        frame = self._taken(bound)
        try:
            places: list[int] = []
            columns: list[Addresses] = []
            for into, at in zip(
                (*self.input_places, *self.output_places), (*read, *written), strict=True
            ):
                places += into
                columns += [at] * len(into)
            table = np.empty((trips, len(columns)), np.int64)
            for number, column in enumerate(columns):
                table[:, number] = column
            done = np.zeros(1, np.int64)
            commit = self.plan.commit
            before = self._count if commit is None else commit
            row = np.array(places, np.int64)
            further = address_of(row), len(places), address_of(table), trips, address_of(done)

            def walked(flag: int | None) -> int:
                begun = self.walker, *frame.arguments, flag or _NEVER, before, _NEVER, *further
                stopped: int = native_trips()(*begun)
                return stopped

            native = self._handler
            try:
                stopped = walked(None) if native is None else interruptible(native, walked)
                if stopped != self._count:
                    self._fail(frame, stopped, bound.binding)
            except BaseException as error:
                return int(done[0]), error
            return trips, None
        finally:
            bound.idle.append(frame)

    def _taken(self, bound: Bound) -> Frame:
        """A frame that no other run has; who takes it gives it back."""
        try:
            return bound.idle.pop()
        except IndexError:
            return _frame(self, bound)

    def _result(self, bound: Bound, position: int, into: Mapping[int, Array] | None) -> Array:
        """The array to write a result to."""
        shape, maker = bound.shapes[position], bound.makers[position]
        given = into.get(position) if into else None
        if given is not None:
            if given.shape != shape:
                raise FeedError(
                    f"out has an array of shape {given.shape}; the result has shape {shape}",
                    where=caller(),
                )
            return given
        return np.empty(shape, self._dtypes[position]) if maker is None else maker()

    def _walked(self, frame: Frame) -> int:
        """Runs the steps; long programs can be interrupted."""
        stopped: int
        native = self._handler
        if native is None:
            stopped = self._walk(*frame.arguments, _NEVER)
            return stopped
        steps, _, *tables = frame.arguments
        commit = self.plan.commit
        before = self._count if commit is None else commit

        begun = partial(self._walk, steps, ctypes.c_int64(before), *tables)
        stopped = interruptible(native, lambda flag: begun(flag or _NEVER))
        if commit is None or stopped != commit:
            return stopped
        # variables are written now, which is finished once it is begun
        rest = _POINTER(steps.value + commit * STEP_WORDS * 8)
        stopped = self._walk(rest, ctypes.c_int64(self._count - commit), *tables, _NEVER)
        return commit + stopped

    def _stepped(self, frame: Frame, observer: Observer) -> int:
        """Runs the steps as ``_walked`` does, the native loop called for each launch and copy."""
        steps = frame.arguments[0].value
        assert steps is not None
        one = ctypes.c_int64(1)
        position = 0
        while position < self._count:
            step = self.plan.steps[position]
            if isinstance(step, Jump):
                position = step.target
                continue
            if isinstance(step, Branch):
                place = int(frame.tables.steps[position, 2])
                predicate = ctypes.c_bool.from_address(frame.pointers[place])
                position = position + 1 if predicate.value else step.target
                continue
            row = _POINTER(steps + position * STEP_WORDS * 8)
            started = time.perf_counter_ns()
            ran = self._walk(row, one, *frame.arguments[2:], _NEVER)
            spent = time.perf_counter_ns() - started
            if ran != 1:
                return position
            observer(position, spent)
            position += 1
        return self._count

    def _fail(self, frame: Frame, position: int, binding: Mapping[str, int]) -> None:
        _, number, value, bound = (int(item) for item in frame.status)
        frame.status[:] = [0] * 4
        if position < 0:
            raise KeyboardInterrupt
        step = self.plan.steps[position]
        if isinstance(step, HostCall):
            raise_failure(step, (number, value, bound))
        failure = step.guard.failure(binding) if isinstance(step, Require) else None
        if failure is not None:
            raise failure
        assert isinstance(step, Launch)
        site = self.plan.kernels[step.kernel].sites[number]
        raise site.failure(value, bound, step.where)

    def _bound(self, arrays: Sequence[Array]) -> Bound:
        """The program for these arrays; the bindings used last are kept where native code looks."""
        binding = self.bind(arrays)
        key = tuple(binding.values())
        bound = self._bounds.get(key)
        recent = self.recent
        if bound is None or not any(bound is other for other in recent[:RECENT_BINDINGS]):
            with self._lock:
                bound = self._bounds.get(key)
                if bound is None:
                    try:
                        bound = self._bounds[key] = _new_bound(self, binding)
                    except OverflowError as error:
                        raise ShapeError(
                            "these sizes are too large: what is computed of them exceeds 64 bits",
                            where=caller(),
                            hint=", ".join(f"{name} is {size}" for name, size in binding.items()),
                        ) from error
                kept = [bound, *(other for other in recent if other is not bound)]
                while len(self._bounds) > 1 and (
                    len(self._bounds) > MAX_BINDINGS or self._idle_bytes() > MAX_IDLE_BYTES
                ):
                    oldest = self._bounds.pop(next(iter(self._bounds)), None)
                    kept = [other for other in kept if other is not oldest]
                recent[:] = kept[:RECENT_BINDINGS]
        return bound

    @property
    def idle_frames(self) -> list[Frame]:
        """The frames of all bindings that no run has taken."""
        return [frame for bound in list(self._bounds.values()) for frame in list(bound.idle)]

    def _idle_bytes(self) -> int:
        """What the arenas of frames that wait for a run take."""
        return sum(frame.arena.nbytes for frame in self.idle_frames)
