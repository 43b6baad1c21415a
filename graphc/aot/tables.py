"""What an exported library has beside the tables of its plan: where slots lie, and messages.

A session keeps arrays and raises errors in Python instead; both run by ``graphc.plan.tables``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from graphc.base.source import Location
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import Dim, DimExpr, bounds, symbol_name, symbols_of
from graphc.ir.guard import Guard
from graphc.ir.text.printer import symbol_order
from graphc.kernel.ir import Site
from graphc.plan.abi import POOL_THREADS
from graphc.plan.ir import Plan
from graphc.plan.printer import symbols_in
from graphc.plan.tables import PlanTables
from graphc.plan.tables import tables_of as plan_tables_of

INPUT, VARIABLE, CONSTANT, TEMPORARY, OUTPUT, RENEWED = range(6)
"""Kinds of slots, each with a number: which input, variable, constant, buffer of the arena, output,
or variable that gets this as its new value."""

MARK = "\x01"
"""Stands for a number in a message."""

MAX_THREADS = POOL_THREADS
"""Threads that may run a kernel."""

SLOT_FIELDS = 2
"""Integers of a row of ``LibraryTables.slots``: kind and number."""


class LibraryTables(NamedTuple):
    """The tables of a program of a library.

    Attributes:
        plan: those of its plan.
        slots: kind and number of each slot.
        roots, alignments, order, starts, below: of the memory plan; the predecessors of buffer b
            are ``below[starts[b]:starts[b + 1]]``.
        sites: for each kernel the first of its messages.
        messages: templates of errors; those of guards come first.
        of_matrices: for each message whether it is a matrix that is wrong, and no index.
        constants: the content of constants, by number.
        commit: the first step that writes variables in place, or -1.
    """

    plan: PlanTables
    slots: list[int]
    roots: Sequence[int]
    alignments: Sequence[int]
    order: Sequence[int]
    starts: list[int]
    below: list[int]
    sites: list[int]
    messages: list[str]
    of_matrices: list[bool]
    constants: list[Array]
    commit: int


def tables_of(
    plan: Plan,
    inputs: Sequence[int],
    variables: Sequence[tuple[int, int]],
    further: Iterable[Dim] = (),
) -> LibraryTables:
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
    tables = plan_tables_of(plan, sorted(symbols, key=symbol_order))
    messages = [_guard_message(guard) for guard in tables.required]
    sites, of_matrices = list[int](), [False] * len(messages)
    for kernel in plan.kernels:
        sites.append(len(messages))
        messages += map(_site_message, kernel.sites)
        of_matrices += [bool(site.problem) for site in kernel.sites]
    solution = layout.solution
    starts, below = [0], list[int]()
    for predecessors in solution.predecessors:
        below += predecessors
        starts.append(len(below))
    return LibraryTables(
        plan=tables,
        slots=_slots(plan, inputs, variables),
        roots=solution.roots,
        alignments=solution.alignments,
        order=solution.order,
        starts=starts,
        below=below,
        sites=sites,
        messages=messages,
        of_matrices=of_matrices,
        constants=[*plan.constants.values()],
        commit=-1 if plan.commit is None else plan.commit,
    )


def bounds_of(symbol: DimExpr) -> tuple[int, int]:
    """The least and the greatest size that a symbol may have in a library."""
    lower, upper = bounds(symbol)
    return lower or 0, MAX_SIZE if upper is None else upper


MAX_SIZE = 2**40
"""The greatest size of a dim that has no bound of its own."""


def symbol_names(tables: PlanTables) -> list[str]:
    """The names of the symbols, in order."""
    return [symbol_name(symbol) for symbol in tables.symbols]


def _slots(
    plan: Plan, inputs: Sequence[int], variables: Sequence[tuple[int, int]]
) -> list[int]:
    kinds: dict[int, tuple[int, int]] = {}
    for number, slot in enumerate(plan.constants):
        kinds[slot] = CONSTANT, number
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
    return [word for slot in range(len(plan.slots)) for word in kinds.get(slot, (CONSTANT, -1))]


def _guard_message(guard: Guard) -> str:
    text = guard.message
    if guard.shown is None:
        text = f"{text}, but are {{}} and {{}}"
    return text.replace("{}", MARK) + _line(guard.where)


def _site_message(site: Site) -> str:
    """What the error says: ``Site.failure``, with the index and the size left open."""
    return site.message(MARK, MARK) + _line(site.where)


def _line(where: Location | None) -> str:
    """The user's line, without the directory: nothing of the machine goes into a library."""
    if where is None:
        return ""
    name = where.filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f" (line {where.line} of {name})"


__all__ = [
    "CONSTANT",
    "INPUT",
    "MARK",
    "MAX_SIZE",
    "MAX_THREADS",
    "OUTPUT",
    "RENEWED",
    "SLOT_FIELDS",
    "TEMPORARY",
    "VARIABLE",
    "LibraryTables",
    "bounds_of",
    "symbol_names",
    "tables_of",
]
