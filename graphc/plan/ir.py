"""Plans: what a program does at run time, as data.

A plan is a table of steps over slots. Steps launch kernels, copy a slot, branch on a predicate,
jump, require that a guard holds, or call a Python function; there is nothing else, so a session
can run it and, without such calls, an exported artifact can hold it. Control flow is flat:
branches and loops are jumps inside the one table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from graphc.base.source import Location
from graphc.base.target import CACHE_LINE
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import Dim, ceil_div
from graphc.ir.guard import Guard
from graphc.ir.host import HostFunction
from graphc.ir.types import TensorType
from graphc.plan.memory import MemorySolution, offsets_for_sizes

if TYPE_CHECKING:
    from graphc.kernel.ir import Kernel

SlotKind = Literal["feed", "state", "constant", "temporary", "output", "scratch"]


# Slots and steps are made by the thousand: with ``Final`` fields instead of frozen, in a third of
# the time.


@dataclass(slots=True, unsafe_hash=True)
class Slot:
    """A packed array that steps read and write.

    ``feed``, ``state`` and ``constant`` are given from outside and only read; ``output`` is memory
    of the caller; ``temporary`` and ``scratch`` live in the arena. A scratch slot has a copy for
    each thread that may run its kernel at once, each on cache lines of its own.
    """

    kind: Final[SlotKind]
    type: Final[TensorType]
    name: Final[str] = ""
    where: Final[Location | None] = None
    copies: Final[int] = 1

    @property
    def bytes(self) -> Dim:
        """The room it takes."""
        if self.copies == 1:
            return self.type.bytes
        return self.copies * (ceil_div(self.type.bytes, CACHE_LINE) * CACHE_LINE)


@dataclass(slots=True, unsafe_hash=True)
class Launch:
    """Runs a kernel on slots, given in the order of its buffers."""

    kernel: Final[int]
    arguments: Final[tuple[int, ...]]
    where: Final[Location | None] = None


@dataclass(slots=True, unsafe_hash=True)
class Copy:
    """Copies one slot to another of the same size; nothing is to do where both are one memory, as
    those of a variable may be."""

    source: Final[int]
    target: Final[int]


@dataclass(slots=True, unsafe_hash=True)
class Branch:
    """Goes on at ``target`` if the bool in a slot is false."""

    predicate: Final[int]
    target: Final[int]


@dataclass(slots=True, unsafe_hash=True)
class Jump:
    """Goes on at ``target``."""

    target: Final[int]


@dataclass(slots=True, unsafe_hash=True)
class Require:
    """Fails if a guard does not hold: one of a branch or loop body, which counts where that runs.

    Whether it holds is known as soon as sizes are, so a run only asks for the outcome.
    """

    guard: Final[Guard]


@dataclass(slots=True, unsafe_hash=True)
class HostCall:
    """Calls a Python function with slots, all of which are read before the results are written.

    Of an ordered call the first argument and the first result are tokens, which the function does
    not see.
    """

    function: Final[HostFunction]
    arguments: Final[tuple[int, ...]]
    results: Final[tuple[int, ...]]
    ordered: Final[bool]
    where: Final[Location | None] = None

    def renamed(self, slot_of: Callable[[int], int]) -> HostCall:
        """The same call over other slots."""
        arguments, results = (tuple(map(slot_of, part)) for part in (self.arguments, self.results))
        return HostCall(self.function, arguments, results, self.ordered, self.where)

    @property
    def given(self) -> tuple[int, ...]:
        """The slots that the function gets."""
        return self.arguments[self.ordered :]

    @property
    def made(self) -> tuple[int, ...]:
        """The slots that it gives the content of."""
        return self.results[self.ordered :]


Step: TypeAlias = Launch | Copy | Branch | Jump | Require | HostCall


@dataclass(frozen=True, slots=True)
class ConcurrentGroup:
    """Launches that may run side by side: threads then take tasks of some steps each.

    What different tasks touch is apart but for what all of them only read, so any order of them
    computes the same; that in which they stand is one. Whether it pays is decided at run time.

    Attributes:
        bounds: the first step of each task, at least two, and the step past the last one.
        works: what each task takes on one thread, in picoseconds.
    """

    bounds: tuple[int, ...]
    works: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where temporaries lie: the memory plan of all temporary and scratch slots.

    Attributes:
        slots: the slots that have a place in the arena, in the order of the solution's buffers.
        solution: their offsets at hint sizes, and the order that gives offsets for other sizes.
        sizes: bytes of each at hint sizes.
    """

    slots: tuple[int, ...]
    solution: MemorySolution
    sizes: tuple[int, ...]

    def at(self, sizes: Sequence[int]) -> tuple[Sequence[int], int]:
        """The offset of each slot, and the peak, where the slots have these sizes."""
        if tuple(sizes) == self.sizes:
            return self.solution.offsets, self.solution.peak
        return offsets_for_sizes(self.solution, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A whole program.

    Attributes:
        slots: all arrays.
        steps: the table; execution starts at 0 and ends past the last step.
        kernels: what ``Launch`` steps run.
        feeds: the slot of each program input, in order (feeds, then state).
        outputs: the slot of each result, in order; all different.
        constants: the content of constant slots.
        guards: checked before the first step; those of branches and bodies are steps.
        layout: where temporaries lie; None before memory planning.
        loops: (first step, step past the last) of every loop, inner ones first.
        commit: new values of variables may lie where the old ones do; this is the first step that
            writes one. From there on no step fails or jumps, and no old value is read that was
            written over. None where new values need memory of their own.
        groups: steps that may run side by side, in order, without jumps in or to them.
        renewed: for each variable written the slot of its old value, None where nothing reads it,
            and that of its new one. The two are one memory where there is a commit step.
    """

    name: str
    slots: tuple[Slot, ...]
    steps: tuple[Step, ...]
    kernels: tuple[Kernel, ...]
    feeds: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: dict[int, Array]
    guards: tuple[Guard, ...] = ()
    layout: Layout | None = None
    loops: tuple[tuple[int, int], ...] = ()
    commit: int | None = None
    groups: tuple[ConcurrentGroup, ...] = ()
    renewed: tuple[tuple[int | None, int], ...] = ()

    def may_fail(self, step: Step) -> bool:
        """Whether a step can end the run with an error."""
        if isinstance(step, Launch):
            return bool(self.kernels[step.kernel].sites)
        return isinstance(step, (Require, HostCall))

    @property
    def host_calls(self) -> list[HostCall]:
        """The steps that call Python functions."""
        return [step for step in self.steps if isinstance(step, HostCall)]

    @property
    def required(self) -> list[tuple[int, Guard]]:
        """The guards that are steps, with their positions."""
        return [(n, step.guard) for n, step in enumerate(self.steps) if isinstance(step, Require)]

    def bytes_of(self, slots: Iterable[int]) -> list[Dim]:
        """The room each slot takes, worked out once for all that are alike."""
        chosen = [*map(self.slots.__getitem__, slots)]
        alike: list[Hashable] = [
            id(slot.type) if slot.copies == 1 else (id(slot.type), slot.copies) for slot in chosen
        ]
        sizes = {key: slot.bytes for key, slot in dict(zip(alike, chosen, strict=True)).items()}
        return [*map(sizes.__getitem__, alike)]

    def accesses(self, step: Step) -> Iterator[tuple[int, bool]]:
        """The slots a step touches, each with whether it is written; an update is read first."""
        if isinstance(step, Launch):
            for buffer, slot in zip(self.kernels[step.kernel].buffers, step.arguments, strict=True):
                if buffer.role == "update":
                    yield slot, False
                yield slot, buffer.role != "in"
        elif isinstance(step, Copy):
            yield step.source, False
            yield step.target, True
        elif isinstance(step, Branch):
            yield step.predicate, False
        elif isinstance(step, HostCall):
            for slot in step.arguments:
                yield slot, False
            for slot in step.results:
                yield slot, True
