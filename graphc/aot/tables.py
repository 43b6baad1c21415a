"""A plan as tables of integers: what the native run time of an exported library reads.

Invariant: nothing is left to be decided at run time but by sizes and by the number of threads.
Every dim that matters there has a number; the values of all are computed at once when the sizes of
the symbols are known (``Tables.dims``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from graphc.base.source import Location
from graphc.base.target import CACHE_LINE
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import (
    Dim,
    DimExpr,
    bounds,
    ceil_div,
    is_symbol,
    symbol_name,
    symbols_of,
)
from graphc.ir.guard import Guard
from graphc.ir.text.printer import symbol_order
from graphc.kernel.ir import Site
from graphc.plan.abi import BRANCH, COPY, FAIL, JUMP, LAUNCH, SKIP
from graphc.plan.ir import Branch, Copy, Jump, Launch, Plan, Require
from graphc.plan.printer import symbols_in
from graphc.runtime.tasks import cuts_of

INPUT, VARIABLE, CONSTANT, TEMPORARY, OUTPUT, RENEWED = range(6)
"""Kinds of slots, each with a number: which input, variable, constant, buffer of the arena, output,
or variable that gets this as its new value."""

MARK = "\x01"
"""Stands for a number in a message."""

MAX_THREADS = 256
"""Threads that may run a kernel."""

STEP_FIELDS, GUARD_FIELDS, CUT_FIELDS, IDLE_FIELDS, SLOT_FIELDS = 5, 6, 5, 3, 2
"""int32s of a row: kind, kernel (of FAIL the guard: it is SKIP where that holds), first entry,
first cell, target; left, right, whether the left one may be 1, message, first number, numbers;
step, extent, work, seats, least; step, first size, sizes; kind, number."""


@dataclass(slots=True, eq=False)
class Tables:
    """The tables of a plan.

    Attributes:
        symbols: the symbolic dims, in the order of the library's ``dims`` argument.
        dims: the distinct dims, by number.
        slots: kind and number of each slot.
        entries: the slot of each entry of the pointer table.
        cells: of each entry of the kernels' sizes the symbol, or ``~number`` of a dim.
        steps: rows of steps.
        idle: rows (step, first, count) of launches whose results may all be empty.
        idle_sizes: numbers of dims that the rows of ``idle`` point into.
        buffers: the number of the dim that is the size of each buffer in the arena.
        copies: how often each is there at most, once a thread.
        roots, alignments, order, starts, below: of the memory plan; the predecessors of buffer b
            are ``below[starts[b]:starts[b + 1]]``.
        guards: rows of guards: those of the plan, then those of steps.
        checked: how many of them are checked before a run.
        shown: numbers of dims that messages of guards name.
        cuts: rows of launches that are cut into tasks.
        sites: for each kernel the first of its messages.
        messages: templates of errors.
        constants: the content of constants, by number.
        shapes: for each input, output and variable the numbers of its dims.
        commit: the first step that writes variables in place, or -1.
    """

    symbols: tuple[DimExpr, ...]
    dims: dict[Dim, int] = field(default_factory=dict)
    slots: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    idle_sizes: list[int] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    alignments: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    guards: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    sites: list[int] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    constants: list[Array] = field(default_factory=list)
    checked: int = 0
    commit: int = -1

    def dim(self, dim: Dim) -> int:
        """The number of a dim."""
        return self.dims.setdefault(dim, len(self.dims))


def tables_of(
    plan: Plan,
    inputs: Sequence[int],
    variables: Sequence[tuple[int, int]],
    further: Iterable[Dim] = (),
) -> Tables:
    """The tables of a placed plan.

    Args:
        plan: planned for ``MAX_THREADS`` threads.
        inputs: for each of the plan's feeds, which input of the library it is.
        variables: for each variable which feed of the plan it is (after the inputs), and which
            output is its new value; -1 where it is neither.
        further: dims whose symbols count too, though no step needs them.
    """
    layout = plan.layout
    assert layout is not None, "a plan is placed before it is exported"
    symbols = {*symbols_in(plan), *symbols_of(*further)}
    tables = Tables(tuple(sorted(symbols, key=symbol_order)))
    tables.checked = len(plan.guards)
    tables.commit = -1 if plan.commit is None else plan.commit
    for guard in plan.guards:
        _add_guard(tables, guard)
    _number_slots(tables, plan, inputs, variables)
    _add_steps(tables, plan)
    for slot in layout.slots:
        copies = plan.slots[slot].copies
        size = plan.slots[slot].type.bytes
        alone = size if copies == 1 else ceil_div(size, CACHE_LINE) * CACHE_LINE
        tables.buffers.append(tables.dim(alone))
        tables.copies.append(copies)
    solution = layout.solution
    tables.roots += solution.roots
    tables.alignments += solution.alignments
    tables.order += solution.order
    tables.starts.append(0)
    for predecessors in solution.predecessors:
        tables.below += predecessors
        tables.starts.append(len(tables.below))
    for cut in cuts_of(plan, MAX_THREADS):
        tables.cuts += (
            cut.position, tables.dim(cut.extent), tables.dim(cut.work), cut.seats, cut.least,
        )  # fmt: skip
    for kernel in plan.kernels:
        tables.sites.append(len(tables.messages))
        tables.messages += map(_site_message, kernel.sites)
    return tables


def bounds_of(symbol: DimExpr) -> tuple[int, int]:
    """The least and the greatest size that a symbol may have in a library."""
    lower, upper = bounds(symbol)
    return lower or 0, MAX_SIZE if upper is None else upper


MAX_SIZE = 2**40
"""The greatest size of a dim that has no bound of its own."""


def symbol_names(tables: Tables) -> list[str]:
    """The names of the symbols, in order."""
    return [symbol_name(symbol) for symbol in tables.symbols]


def _number_slots(
    tables: Tables, plan: Plan, inputs: Sequence[int], variables: Sequence[tuple[int, int]]
) -> None:
    kinds: dict[int, tuple[int, int]] = {}
    for number, slot in enumerate(plan.constants):
        kinds[slot] = CONSTANT, number
        tables.constants.append(plan.constants[slot])
    assert plan.layout is not None
    for number, slot in enumerate(plan.layout.slots):
        kinds[slot] = TEMPORARY, number
    for number, slot in zip(inputs, plan.feeds, strict=False):
        kinds[slot] = INPUT, number
    for number, slot in enumerate(plan.outputs):
        kinds[slot] = OUTPUT, number
    for number, (read, written) in enumerate(variables):
        if read >= 0:
            kinds[plan.feeds[read]] = VARIABLE, number
        if written >= 0:
            kinds[plan.outputs[written]] = RENEWED, number
    # a slot that no step touches has no place
    for slot in range(len(plan.slots)):
        tables.slots += kinds.get(slot, (CONSTANT, -1))


def _add_steps(tables: Tables, plan: Plan) -> None:
    index = {symbol_name(symbol): number for number, symbol in enumerate(tables.symbols)}
    sizes = [kernel.sizes for kernel in plan.kernels]
    results = [
        tuple(n for n, buffer in enumerate(kernel.buffers) if buffer.is_result)
        for kernel in plan.kernels
    ]
    for position, step in enumerate(plan.steps):
        kind, function, target = SKIP, 0, 0
        row = len(tables.entries), len(tables.cells)
        if isinstance(step, Launch):
            kind, function, target = LAUNCH, step.kernel, 1
            tables.entries += step.arguments
            for part in sizes[step.kernel]:
                cell = index[symbol_name(part)] if is_symbol(part) else ~tables.dim(part)
                tables.cells.append(cell)
            if not plan.may_fail(step):
                written = (plan.slots[step.arguments[n]].type.bytes for n in results[step.kernel])
                _add_idle(tables, position, written)
        elif isinstance(step, Copy):
            kind = COPY
            tables.entries += (step.source, step.target)
            tables.cells.append(~tables.dim(plan.slots[step.target].type.bytes))
        elif isinstance(step, Branch):
            kind, target = BRANCH, step.target
            tables.entries.append(step.predicate)
        elif isinstance(step, Jump):
            kind, target = JUMP, step.target
        elif isinstance(step, Require):
            kind, function = FAIL, _add_guard(tables, step.guard)
        tables.steps += (kind, function, *row, target)


def _add_idle(tables: Tables, position: int, sizes: Iterable[Dim]) -> None:
    """A launch all of whose results are empty has nothing to do."""
    known = list(sizes)
    if any(isinstance(size, int) and size > 0 for size in known):
        return
    tables.idle += (position, len(tables.idle_sizes), len(known))
    tables.idle_sizes += map(tables.dim, known)


def _add_guard(tables: Tables, guard: Guard) -> int:
    """Appends a guard; gives its number."""
    number = len(tables.guards) // GUARD_FIELDS
    message, shown = guard.message, guard.shown
    if shown is None:
        message, shown = f"{message}, but are {{}} and {{}}", (guard.left, guard.right)
    first = len(tables.shown)
    tables.shown += map(tables.dim, shown)
    tables.guards += (
        tables.dim(guard.left), tables.dim(guard.right), int(guard.broadcasts),
        len(tables.messages), first, len(shown),
    )  # fmt: skip
    tables.messages.append(message.replace("{}", MARK) + _line(guard.where))
    return number


def _site_message(site: Site) -> str:
    """What an index error says: ``Site.failure``, with the index and the size left open."""
    text = f"{site.what}: index {MARK} is out of range for axis {site.axis} of size {MARK}"
    return text + _line(site.where)


def _line(where: Location | None) -> str:
    """The user's line, without the directory: nothing of the machine goes into a library."""
    if where is None:
        return ""
    name = where.filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f" (line {where.line} of {name})"


__all__ = [
    "CONSTANT",
    "CUT_FIELDS",
    "GUARD_FIELDS",
    "IDLE_FIELDS",
    "INPUT",
    "MARK",
    "MAX_SIZE",
    "MAX_THREADS",
    "OUTPUT",
    "RENEWED",
    "SLOT_FIELDS",
    "STEP_FIELDS",
    "TEMPORARY",
    "VARIABLE",
    "Tables",
    "bounds_of",
    "symbol_names",
    "tables_of",
]
