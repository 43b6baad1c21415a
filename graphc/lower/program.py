"""From a fused graph to a plan: nodes become steps, values slots, control flow jumps.

Regions are laid flat into the one table. A value made by a kernel is written straight to where it
is wanted (an output, a branch's result); only values that come from elsewhere are copied there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphc.base.errors import UnsupportedError
from graphc.base.source import Location
from graphc.base.target import Target
from graphc.ir.attributes import Array, Payload
from graphc.ir.equal import Structure, structure
from graphc.ir.graph import Graph, Node
from graphc.ir.guard import Guard
from graphc.ir.op import OpDef
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.analysis.bounds import overruns
from graphc.kernel.ir import Kernel
from graphc.lower.estimate import Groups, thread_copies
from graphc.lower.kernel_code import KernelCode
from graphc.lower.launch_fission import Series
from graphc.lower.single import Singles, lower_single
from graphc.ops.control import cond_op, demand_op, while_op
from graphc.ops.fused import checks_ahead, fused_op
from graphc.ops.host import host_call_op, ordered_host_call_op
from graphc.ops.move.bitcast import bitcast_op
from graphc.ops.move.placing import join_slices_op, wholes
from graphc.ops.source import constant_op
from graphc.plan.ir import Branch, Copy, HostCall, Jump, Launch, Plan, Require, Slot, SlotKind, Step


@dataclass(frozen=True, slots=True)
class _Launches:
    """The launches of nodes that need the same kernels.

    Attributes:
        kernels: the number of each one's kernel, with its buffers in the series; None stands for
            all of them in order, which most kernels get.
        rooms: the slots of a node past its inputs and outputs.
        copied: the numbers of inputs and outputs: each output begins as a copy of its input.
        has_sites: whether checks of the kernels have lines.
    """

    kernels: tuple[tuple[int, tuple[int, ...] | None], ...]
    rooms: tuple[Slot, ...]
    copied: tuple[tuple[int, int], ...]
    has_sites: bool


class Planned(NamedTuple):
    """A plan, the slot of each value, the steps that launch each node's kernels, for results of
    loops the copy that hands them to the next trip, and of each loop of the plan the number of its
    trips, if it is known."""

    plan: Plan
    slots: dict[Value, int]
    launches: dict[Node, range]
    carries: dict[Value, int]
    trips: tuple[int | None, ...]


class _Planner:
    def __init__(self, target: Target, threads: int, groups: Groups) -> None:
        self.target = target
        self._groups = groups
        self.threads = threads
        self.slots: list[Slot] = []
        self.steps: list[Step] = []
        self.kernels: list[Kernel] = []
        self.constants: dict[int, Array] = {}
        self._constant_slots: dict[Payload, int] = {}
        self.slot_of: dict[Value, int] = {}
        self.launches: dict[Node, range] = {}
        self.loops: list[tuple[int, int]] = []
        self.trips: list[int | None] = []
        self.carries: dict[Value, int] = {}
        self._kernel_of: dict[KernelCode, int] = {}
        self._launches_of_region: dict[Structure, _Launches] = {}
        self._launches_of_single: dict[Hashable, _Launches] = {}
        self._singles = Singles()
        self._destination: dict[Value, int] = {}
        self._whole: dict[Value, Node] = {}
        self._begun: dict[Value, int] = {}
        self._renewed: frozenset[int] = frozenset()
        self._waiting: dict[Node, _Launches] = {}
        self._checked: dict[Node, tuple[int, ...]] = {}
        self._guards: list[Guard] = []
        self._entered: list[Guard] = []
        self._nested = 0
        self._bounded: set[Hashable] = set()
        self._sized: set[int] = set()
        # each holds the type and the line that it is known by
        self._unnamed: dict[tuple[int, int], Slot] = {}

    # --- slots -----------------------------------------------------------------------------------

    def slot(
        self, kind: SlotKind, type_: TensorType, name: str = "", where: Location | None = None
    ) -> int:
        self.slots.append(Slot(kind, type_, name, where))
        return len(self.slots) - 1

    def made(self, value: Value, where: Location | None) -> int:
        """The slot a node writes a value to: where it is wanted, or a new temporary."""
        if self._whole and value in self._whole:
            join = self._whole[value]
            whole = join.output
            if whole not in self._begun:
                self._begun[whole] = self.made(whole, join.provenance.where)
            self.slot_of[value] = self._begun[whole]
            return self._begun[whole]
        known = self._destination.pop(value, None)
        if known is None:
            known = len(self.slots)
            self.slots.append(self._temporary(value, where))
        self.slot_of[value] = known
        return known

    def _temporary(self, value: Value, where: Location | None) -> Slot:
        """One object for all values without a name that are alike, as those of a line in a loop."""
        if value._name is not None:
            return Slot("temporary", value._type, value._name, where)
        alike = id(value._type), id(where)
        found = self._unnamed.get(alike)
        if found is None:
            found = self._unnamed[alike] = Slot("temporary", value._type, "", where)
        return found

    # --- graphs ----------------------------------------------------------------------------------

    def program(
        self,
        graph: Graph,
        states: int,
        renewed: Sequence[tuple[int | None, int]],
    ) -> Plan:
        self._guards += graph.guards
        feeds = len(graph.inputs) - states
        for position, value in enumerate(graph.inputs):
            kind: SlotKind = "feed" if position < feeds else "state"
            self.slot_of[value] = self.slot(kind, value.type, value.name or "")
        outputs = [self.slot("output", v.type, v.name or "") for v in graph.outputs]
        self._renewed = frozenset(outputs[new] for _, new in renewed)
        self._waiting = {
            node: self._fused(node)
            for node in graph.nodes
            if node.op is fused_op and checks_ahead(node)
        }
        self.into(graph, outputs)
        feed_slots = tuple(self.slot_of[value] for value in graph.inputs)
        return Plan(
            graph.name,
            tuple(self.slots),
            tuple(self.steps),
            tuple(self.kernels),
            feed_slots,
            tuple(outputs),
            self.constants,
            tuple(self._guards),
            loops=tuple(self.loops),
            renewed=tuple(
                (None if old is None else feed_slots[old], outputs[new]) for old, new in renewed
            ),
        )

    def into(self, graph: Graph, wanted: list[int]) -> None:
        """All nodes of a graph, its outputs ending up in the wanted slots."""
        self._aim(graph, wanted)
        self.nodes(graph)
        for value, target in zip(graph.outputs, wanted, strict=True):
            self.copy(self.slot_of[value], target)

    def _aim(self, graph: Graph, wanted: list[int]) -> None:
        """Notes where outputs are wanted; the first of several places is written directly."""
        for value, target in zip(graph.outputs, wanted, strict=True):
            node = graph.producers.get(value)
            while node is not None and node.op.lowering.keeps_memory:
                (value,) = node.inputs
                node = graph.producers.get(value)
            if node is not None and node.op is not constant_op:
                self._destination.setdefault(value, target)

    def copy(self, source: int, target: int) -> None:
        if source != target:
            self.steps.append(Copy(source, target))

    # --- nodes -----------------------------------------------------------------------------------

    def nodes(self, graph: Graph) -> None:
        """All nodes of a graph; whatever is joined is written to one slot."""
        self._whole |= wholes(graph)
        for node in graph.nodes:
            self.node(node)

    def node(self, node: Node) -> None:
        special = _SPECIAL.get(node.op)
        if special is not None:
            special(self, node)
        elif node.op.lowering.keeps_memory:
            self.slot_of[node.output] = self.slot_of[node.inputs[0]]
        else:
            self.launch(node, self._single(node))

    def fused(self, node: Node) -> None:
        if self._waiting and any(self._destination.get(v) in self._renewed for v in node.outputs):
            self._check_ahead()
        known = self._waiting.pop(node) if node in self._waiting else self._fused(node)
        self.launch(node, known)

    def _check_ahead(self) -> None:
        """Checks the indices of scatters to come, as far as they are known: a variable is written
        next, and nothing fails from there on."""
        for node, launches in self._waiting.items():
            number, places = launches.kernels[0]
            assert places is not None, "the checks read the indices alone"
            slots = [self.slot_of.get(value, -1) for value in node.inputs] + [-1]
            if node in self._checked or any(slots[place] < 0 for place in places[:-1]):
                continue
            self._checked[node] = rooms = self._rooms(launches, node.provenance.where)
            given = tuple([(*slots, *rooms)[place] for place in places])
            if number in self._sized:
                self._bound(number, node.provenance.where)
            self.steps.append(Launch(number, given, node.provenance.where))

    def _rooms(self, launches: _Launches, where: Location | None) -> tuple[int, ...]:
        """New slots for what a node's launches need past its inputs and outputs."""
        first = len(self.slots)
        for room in launches.rooms:
            self.slots.append(Slot(room.kind, room.type, room.name, where, room.copies))
        return tuple(range(first, len(self.slots)))

    def join(self, node: Node) -> None:
        self.slot_of[node.output] = self._begun.pop(node.output)

    def constant(self, node: Node) -> None:
        """One slot serves all constants of one content, whichever regions they stand in."""
        payload: Payload = node.attrs["value"]
        slot = self._constant_slots.get(payload)
        if slot is None:
            slot = self.slot("constant", node.output.type, node.output.name or "")
            self._constant_slots[payload] = slot
            self.constants[slot] = payload.array
        self.slot_of[node.output] = slot

    def launch(self, node: Node, launches: _Launches) -> None:
        where = node.provenance.where
        slot_of = self.slot_of
        slots = [*map(slot_of.__getitem__, node.inputs)]
        for value in node.outputs:
            slots.append(self.made(value, where))
        kernels = launches.kernels
        if self._checked and node in self._checked:
            slots += self._checked.pop(node)
            kernels = kernels[1:]
        elif launches.rooms:
            slots += self._rooms(launches, where)
        for old, new in launches.copied:
            self.copy(slots[old], slots[new])
        if self._sized:
            for number, _ in kernels:
                if number in self._sized:
                    self._bound(number, where)
        steps = self.steps
        first = len(steps)
        for number, places in kernels:
            given = slots if places is None else [slots[place] for place in places]
            steps.append(Launch(number, tuple(given), where))
        self.launches[node] = range(first, len(steps))

    def _bound(self, number: int, where: Location | None) -> None:
        """Sees to it that a kernel of unknown sizes stays within its buffers.

        That is proved under the guards that hold here. Where the proof fails, a guard is required.
        """
        if (number, *self._entered) in self._bounded:
            return
        self._bounded.add((number, *self._entered))
        kernel, known = self.kernels[number], (*self._guards, *self._entered)
        for overrun in overruns(kernel, known):
            guard = overrun.guard(kernel.name, where)
            if guard is None:
                continue  # under a condition, or with indices that leave no bound: nothing to ask
            if self._nested:
                self._entered.append(guard)
                self.steps.append(Require(guard))
            else:
                self._guards.append(guard)

    def _launches(self, series: Series, numbers: Iterable[int]) -> _Launches:
        """The launches of a series whose kernels have these numbers."""
        given = sum(not buffer.is_room for buffer in series.whole.buffers)
        everything = tuple(range(given + len(series.rooms)))
        places = [m.places if m.places != everything else None for m in series.members]
        copies = {
            place: thread_copies(member.kernel, self.threads)
            for member in series.members
            for place in member.places
            if place >= given
        }
        rooms: list[Slot] = []
        for place, buffer in enumerate(series.rooms, given):
            name = f"{series.whole.name} {buffer.name}"
            if buffer in series.handed:
                # what launches hand on is a value like others
                rooms.append(Slot("temporary", buffer.type, name))
            else:
                rooms.append(Slot("scratch", buffer.type, name, None, copies.get(place, 1)))
        kernels = tuple(zip(numbers, places, strict=True))
        return _Launches(kernels, tuple(rooms), series.copied, bool(series.whole.sites))

    def _fused(self, node: Node) -> _Launches:
        """The launches of a fused node; nodes that need the same code share their kernels.

        Errors of checks name a user's line, which is of the kernel: where there are checks, kernels
        are shared only if their lines are the same, so equal regions don't settle it.
        """
        region = structure(node.regions[0])
        known = self._launches_of_region.get(region)
        if known is not None:
            return known
        launches = self._numbered(self._groups.series(node))
        if not launches.has_sites:
            self._launches_of_region[region] = launches
        return launches

    def _numbered(self, series: Series) -> _Launches:
        """A series with the numbers of its kernels, of which equal ones are one."""
        numbers = []
        for member in series.members:
            number = self._kernel_of.setdefault(KernelCode(member.kernel), len(self.kernels))
            if number == len(self.kernels):
                self._append(member.kernel)
            numbers.append(number)
        return self._launches(series, numbers)

    def _append(self, kernel: Kernel) -> int:
        """A new kernel's number."""
        number = len(self.kernels)
        self.kernels.append(kernel)
        if kernel.is_sized:
            self._sized.add(number)
        return number

    def _single(self, node: Node) -> _Launches:
        """The launches of an operation that was not fused."""
        key = self._singles.key(node)
        launches = self._launches_of_single.get(key)
        if launches is None:
            if node.op.lowering.kernel is None:
                raise UnsupportedError(
                    f"operation {node.op.name} cannot be compiled", where=node.provenance.where
                )
            series = lower_single(node, self.target)
            numbers = [self._append(member.kernel) for member in series.members]
            launches = self._launches(series, numbers)
            self._launches_of_single[key] = launches
        return launches

    def bitcast(self, node: Node) -> None:
        """The bytes as another dtype: what kernels read and write has the dtype of its slot."""
        self.copy(self.slot_of[node.inputs[0]], self.made(node.output, node.provenance.where))

    def host_call(self, node: Node) -> None:
        where, ordered = node.provenance.where, node.op.effect == "ordered"
        arguments = tuple([self._alike(value, self.slot_of[value]) for value in node.inputs])
        for value, slot in zip(node.inputs, arguments, strict=True):
            self.copy(self.slot_of[value], slot)
        wanted = [self.made(value, where) for value in node.outputs]
        results = tuple(map(self._alike, node.outputs, wanted))
        self.steps.append(HostCall(node.attrs["function"], arguments, results, ordered, where))
        for slot, target in zip(results, wanted, strict=True):
            self.copy(slot, target)

    def _alike(self, value: Value, slot: int) -> int:
        """The slot if it has the value's type, and is no memory of another one; else a new one.

        Kernels see an array and its reshaped form alike, and complex numbers and their parts;
        Python functions don't.
        """
        if self.slots[slot].type == value.type:
            return slot
        return self.slot("temporary", value.type, value.name or "")

    def cond(self, node: Node) -> None:
        where = node.provenance.where
        self._nested += 1
        then, otherwise = node.regions
        results = [self.made(value, where) for value in node.outputs]
        captures = node.inputs[1:]
        branch = self._hole()
        around = len(self._entered)
        self._enter(then, captures)
        self.into(then, results)
        del self._entered[around:]
        jump = self._hole()
        self.steps[branch] = Branch(self.slot_of[node.inputs[0]], len(self.steps))
        self._enter(otherwise, captures)
        self.into(otherwise, results)
        del self._entered[around:]
        self._nested -= 1
        self.steps[jump] = Jump(len(self.steps))

    def loop(self, node: Node) -> None:
        where = node.provenance.where
        self._nested += 1
        condition, body = node.regions
        count: int = node.attrs["carried"]
        carried = [self.made(value, where) for value in node.outputs]
        for value, slot in zip(node.inputs[:count], carried, strict=True):
            self.copy(self.slot_of[value], slot)
        start = len(self.steps)
        captures = node.inputs[count:]
        self._enter(condition, captures, carried)
        self.nodes(condition)
        branch = self._hole()
        around = len(self._entered)
        self._enter(body, captures, carried)
        self.nodes(body)
        del self._entered[around:]
        self._nested -= 1
        # all successors exist before the first carried slot is overwritten
        moves = [(self.slot_of[v], slot) for v, slot in zip(body.outputs, carried, strict=True)]
        moves = [(source, slot) for source, slot in moves if source != slot]
        overwritten = {slot for _, slot in moves}
        for position, (source, slot) in enumerate(moves):
            if source in overwritten:
                held = self.slot("temporary", self.slots[source].type, "", where)
                self.copy(source, held)
                moves[position] = (held, slot)
        value_of = dict(zip(carried, node.outputs, strict=True))
        for source, slot in moves:
            self.carries[value_of[slot]] = len(self.steps)
            self.copy(source, slot)
        self.steps.append(Jump(start))
        self.steps[branch] = Branch(self.slot_of[condition.outputs[0]], len(self.steps))
        self.loops.append((start, len(self.steps)))
        self.trips.append(node.attrs.get("trips"))

    def _enter(
        self, region: Graph, captures: Sequence[Value], carried: list[int] | None = None
    ) -> None:
        slots = [*(carried or ()), *(self.slot_of[value] for value in captures)]
        for value, slot in zip(region.inputs, slots, strict=True):
            self.slot_of[value] = slot
        held = {guard.condition for guard in (*self._guards, *self._entered)}
        for guard in region.guards:
            if guard.condition not in held:
                self._entered.append(guard)
                self.steps.append(Require(guard))

    def _hole(self) -> int:
        """A jump whose target is filled in later."""
        self.steps.append(Jump(-1))
        return len(self.steps) - 1


_SPECIAL: Mapping[OpDef, Callable[[_Planner, Node], None]] = {
    constant_op: _Planner.constant,
    bitcast_op: _Planner.bitcast,
    cond_op: _Planner.cond,
    fused_op: _Planner.fused,
    demand_op: lambda planner, node: None,
    while_op: _Planner.loop,
    join_slices_op: _Planner.join,
    host_call_op: _Planner.host_call,
    ordered_host_call_op: _Planner.host_call,
}
"""How operations that are no kernels by themselves become steps."""


def plan_program(
    graph: Graph,
    states: int,
    target: Target,
    threads: int = 1,
    renewed: Sequence[tuple[int | None, int]] = (),
    groups: Groups | None = None,
) -> Planned:
    """The plan of a graph, without a layout: fused nodes and single operations become kernels.

    Args:
        graph: its last ``states`` inputs are state.
        target: what the kernels are for.
        threads: at most this many run at once; scratch has a copy for each.
        renewed: for each variable written its input, None if it is not read, and its output.
        groups: launches of fused nodes that are known.
    """
    planner = _Planner(target, threads, groups or Groups(target, threads))
    plan = planner.program(graph, states, renewed)
    trips = tuple(planner.trips)
    return Planned(plan, planner.slot_of, planner.launches, planner.carries, trips)
