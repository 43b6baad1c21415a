"""A plan as tables of integers, which the run times of sessions and of libraries read.

``graphc.plan.abi`` says what stands in a row. Invariant: nothing is left to be decided at run time
but by sizes and by the number of threads. Every dim that matters there has a number
(``PlanTables.dims``); a binding of the symbols gives all of them values at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphc.base.target import CACHE_LINE
from graphc.ir.dims.expressions import Dim, DimExpr, ceil_div, is_symbol
from graphc.ir.guard import Guard
from graphc.ir.types import TensorType
from graphc.kernel.signature import RESULTS, Buffer
from graphc.plan.abi import (
    BRANCH,
    COPY,
    CUT_FIELDS,
    FAIL,
    GUARD_FIELDS,
    HOST,
    JUMP,
    LAUNCH,
    POOL_THREADS,
    SKIP,
)
from graphc.plan.ir import Branch, Copy, HostCall, Jump, Launch, Plan, Require, Slot


class PlanTables(NamedTuple):
    """The tables of a plan.

    Attributes:
        symbols: the symbolic dims, in the order in which a binding gives their sizes.
        dims: the distinct dims, each with its number, in order.
        entries: the slot of each entry of the pointer table.
        cells: of each entry of the kernels' sizes the symbol, or ``~number`` of a dim.
        steps, guards, cuts, groups, idle: rows.
        idle_sizes: the numbers of sizes that rows of ``idle`` point into.
        buffers: for each slot in the arena the number of the bytes that one thread needs.
        copies: how often each is there at most, once a thread.
        required: the guards: those of the plan, then those of steps.
        checked: how many of them are checked before a run.
        shown: the numbers of dims that messages of guards name.
        works: the numbers of what the tasks of groups take, in picoseconds.
        bounds: for each group how many tasks it has, and where each begins and the last one ends,
            in steps counted from its first one.
        reckoned: the numbers of what kernels compute that might not fit in 64 bits.
    """

    symbols: tuple[DimExpr, ...]
    dims: dict[Dim, int]
    entries: list[int]
    cells: list[int]
    steps: list[int]
    guards: list[int]
    cuts: list[int]
    groups: list[int]
    idle: list[int]
    idle_sizes: list[int]
    buffers: list[int]
    copies: list[int]
    required: list[Guard]
    checked: int
    shown: list[int]
    works: list[int]
    bounds: list[int]
    reckoned: list[int]

    def number(self, dim: Dim) -> int:
        """The number of a dim, a new one if it has none."""
        return self.dims.setdefault(dim, len(self.dims))

    def rows(self, table: Sequence[int], fields: int) -> Iterator[tuple[int, ...]]:
        """The rows of a table of so many fields."""
        return zip(*(table[place::fields] for place in range(fields)), strict=True)


def tables_of(plan: Plan, symbols: Sequence[DimExpr]) -> PlanTables:
    """The tables of a placed plan; ``symbols`` are all that it mentions."""
    layout = plan.layout
    assert layout is not None, "a plan is placed before it runs"
    tables = PlanTables(
        tuple(symbols), {}, [], [], [], [], [], [], [], [], [], [], [], len(plan.guards),
        [], [], [], [],
    )  # fmt: skip
    for guard in plan.guards:
        _add_guard(tables, guard)
    _add_steps(tables, plan)
    _add_buffers(tables, [plan.slots[number] for number in layout.slots])
    _add_cuts(tables, plan)
    _add_groups(tables, plan)
    return tables


def _add_buffers(tables: PlanTables, slots: Sequence[Slot]) -> None:
    """The slots in the arena; copies begin on cache lines of their own."""
    tables.copies.extend([slot.copies for slot in slots])
    # of those alike in type, and in whether there are several copies, one is looked at
    alike = [id(slot.type) if slot.copies == 1 else ~id(slot.type) for slot in slots]
    known = {}
    for key, slot in dict(zip(alike, slots, strict=True)).items():
        size = slot.type.bytes
        lines = size if slot.copies == 1 else ceil_div(size, CACHE_LINE) * CACHE_LINE
        known[key] = tables.number(lines)
    tables.buffers.extend(map(known.__getitem__, alike))


def _add_steps(tables: PlanTables, plan: Plan) -> None:
    number, slots = tables.number, plan.slots
    entries, cells, words = tables.entries, tables.cells, tables.steps
    index = {symbol: place for place, symbol in enumerate(tables.symbols)}
    places = [() if k.sites else _emptied(k.buffers) for k in plan.kernels]
    # worked out once: the cells of a kernel, the bytes of a type
    passed: dict[int, list[int]] = {}
    known: dict[int, Dim] = {}
    types = {id(slot.type): slot.type for slot in slots}
    filled = {key for key, type_ in types.items() if _is_filled(type_)}
    hosts = 0
    for position, step in enumerate(plan.steps):
        if isinstance(step, Launch):
            function, arguments = step.kernel, step.arguments
            words += (LAUNCH, function, len(entries), len(cells), 1)
            entries += arguments
            own = passed.get(function)
            if own is None:
                own = passed[function] = [
                    index[part] if is_symbol(part) else ~number(part)
                    for part in plan.kernels[function].sizes
                ]
                if own:
                    tables.reckoned.extend(map(number, plan.kernels[function].reckoned))
            cells += own
            results = places[function]
            # most have a result that is known not to be empty
            for place in results:
                if id(slots[arguments[place]].type) in filled:
                    break
            else:
                if results:
                    written = [slots[arguments[place]].type for place in results]
                    _add_idle(tables, position, [_bytes(type_, known) for type_ in written])
            continue
        kind, function, target = SKIP, 0, 0
        row = len(entries), len(cells)
        if isinstance(step, Copy):
            kind = COPY
            entries += (step.source, step.target)
            cells.append(~number(_bytes(slots[step.target].type, known)))
        elif isinstance(step, Branch):
            kind, target = BRANCH, step.target
            entries.append(step.predicate)
        elif isinstance(step, HostCall):
            kind, function = HOST, hosts
            hosts += 1
            entries += (*step.arguments, *step.results)
            for slot in (*step.given, *step.made):
                cells += [~number(dim) for dim in slots[slot].type.shape]
        elif isinstance(step, Jump):
            kind, target = JUMP, step.target
        elif isinstance(step, Require):
            kind, function = FAIL, _add_guard(tables, step.guard)
        words += (kind, function, *row, target)


def _emptied(buffers: Sequence[Buffer]) -> Sequence[int]:
    """Where the results of a kernel stand among its buffers; nowhere if one is never empty, since
    there always is something to do then."""
    places = [place for place, buffer in enumerate(buffers) if buffer.role in RESULTS]
    return () if any(_is_filled(buffers[place].type) for place in places) else places


def _bytes(type_: TensorType, known: dict[int, Dim]) -> Dim:
    size = known.get(id(type_))
    if size is None:
        size = known[id(type_)] = type_.bytes
    return size


def _is_filled(type_: TensorType) -> bool:
    """Whether arrays of the type are known not to be empty."""
    return all([isinstance(dim, int) and dim > 0 for dim in type_.shape])


def _add_idle(tables: PlanTables, position: int, sizes: Sequence[Dim]) -> None:
    """A launch all of whose results are empty has nothing to do."""
    tables.idle.extend((position, len(tables.idle_sizes), len(sizes)))
    tables.idle_sizes.extend(map(tables.number, sizes))


def _add_guard(tables: PlanTables, guard: Guard) -> int:
    """Appends a guard; gives its number, which is that of its message too."""
    place = len(tables.guards) // GUARD_FIELDS
    shown = (guard.left, guard.right) if guard.shown is None else guard.shown
    first = len(tables.shown)
    tables.shown.extend(map(tables.number, shown))
    left, right = tables.number(guard.left), tables.number(guard.right)
    tables.guards.extend((left, right, int(guard.broadcasts), place, first, len(shown)))
    tables.required.append(guard)
    return place


def _add_cuts(tables: PlanTables, plan: Plan) -> None:
    """The launches of kernels that are split."""
    splits = [kernel.split for kernel in plan.kernels]
    if not any(splits):
        return
    rooms = [
        [n for n, buffer in enumerate(kernel.buffers) if buffer.is_room] if kernel.split else []
        for kernel in plan.kernels
    ]
    # worked out once: the numbers of what a kernel's rows have in common
    known: dict[int, tuple[int, int]] = {}
    cuts = tables.cuts
    for position, step in enumerate(plan.steps):
        if not isinstance(step, Launch):
            continue
        kernel = step.kernel
        split = splits[kernel]
        if split is None:
            continue
        numbers = known.get(kernel)
        if numbers is None:
            numbers = tables.number(split.extent), tables.number(split.work)
            known[kernel] = numbers
        most = POOL_THREADS
        for place in rooms[kernel]:
            most = min(most, plan.slots[step.arguments[place]].copies)
        cuts += (position, *numbers, most, split.least)


def _add_groups(tables: PlanTables, plan: Plan) -> None:
    """The groups, with the cuts of their launches, which may be cut into tasks instead."""
    starts = tables.cuts[::CUT_FIELDS]
    cut = 0
    for group in plan.groups:
        begin, end = group.bounds[0], group.bounds[-1]
        while cut < len(starts) and starts[cut] < begin:
            cut += 1
        first = cut
        while cut < len(starts) and starts[cut] < end:
            cut += 1
        tasks = len(group.works)
        tables.groups.extend(
            (begin, len(tables.bounds), tasks, len(tables.works), first, cut - first)
        )
        tables.bounds.extend((tasks, *(bound - begin for bound in group.bounds)))
        tables.works.extend(map(tables.number, group.works))


__all__ = ["PlanTables", "tables_of"]
