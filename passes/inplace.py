"""In-place: which results of a kernel may take over the memory of an operand that dies there.

A decision about memory alone: values stay pure. It is taken where the operand's last use is the
launch that makes the result, both have the same dtype and size, and the kernel provably reads no
element of the operand after it wrote that place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphc.kernel.ir import (
    Apply,
    Buffer,
    Contract,
    Kernel,
    Load,
    Loop,
    Reduce,
    Size,
    Statement,
    Store,
    Var,
    walk,
)
from graphc.plan.ir import Launch, Plan
from passes.liveness import live_intervals

INPLACE = "inplace"
"""The name under which these decisions are recorded and can be switched off."""

May = Callable[[int, int], bool]
"""Whether the second slot may take over the memory of the first."""


def inplace_groups(plan: Plan, may: May) -> tuple[tuple[int, ...], ...]:
    """Groups of slots that share memory, for the memory planner.

    ``may(old, new)`` is asked before a result takes over an operand's slot.
    """
    intervals = live_intervals(plan)
    safe = [_safe_pairs(kernel) for kernel in plan.kernels]
    taken: set[int] = set()
    group_of: dict[int, list[int]] = {}
    for position, step in enumerate(plan.steps):
        if not isinstance(step, Launch):
            continue
        for source, target in safe[step.kernel]:
            old, new = step.arguments[source], step.arguments[target]
            if old in taken or old not in intervals or new not in intervals or new in group_of:
                continue
            dies_here = intervals[old][1] == position + 1
            born_here = intervals[new][0] == position
            alone = step.arguments.count(old) == 1
            same = plan.slots[old].bytes == plan.slots[new].bytes
            if dies_here and born_here and alone and same and may(old, new):
                taken.add(old)
                group = group_of.setdefault(old, [old])
                group.append(new)
                group_of[new] = group
    distinct = {id(group): tuple(group) for group in group_of.values()}
    return tuple(distinct.values())


@dataclass(frozen=True, slots=True)
class _Place:
    """An index: the same scalar, or the same row base and a position in the row."""

    base: Var | None
    extent: Size
    index: Var


def _safe_pairs(kernel: Kernel) -> list[tuple[int, int]]:
    """Pairs (input, output) of buffer positions whose memory may be the same."""
    number = {buffer: n for n, buffer in enumerate(kernel.buffers)}
    order = {id(statement): n for n, statement in enumerate(walk(kernel.body))}
    block_of = _blocks(kernel.body)
    definitions = {s.result: s for s in walk(kernel.body) if isinstance(s, Apply)}
    extents = {s.index: s.extent for s in walk(kernel.body) if isinstance(s, (Loop, Reduce))}
    loads: dict[Buffer, list[Load]] = {}
    used: set[Buffer] = set()
    stores: dict[Buffer, list[Store]] = {}
    for statement in walk(kernel.body):
        if isinstance(statement, Load):
            loads.setdefault(statement.buffer, []).append(statement)
        elif isinstance(statement, Contract):
            # blocks of a product read the whole of its operands
            used |= {statement.a.buffer, statement.b.buffer}
        elif isinstance(statement, Store):
            stores.setdefault(statement.buffer, []).append(statement)

    def place(index: Var) -> _Place:
        definition = definitions.get(index)
        if definition is not None and definition.primitive == "add":
            base, position = definition.operands
            if position in extents:
                return _Place(base, extents[position], index)
        return _Place(None, extents.get(index, 0), index)

    def harmless(load: Load, store: Store) -> bool:
        """The load reads its place before the store writes it, in every iteration."""
        if order[id(load)] > order[id(store)]:
            return False
        if load.index is store.index:
            return block_of[id(load)] is block_of[id(store)]
        a, b = place(load.index), place(store.index)
        return a.base is not None and a.base is b.base and a.extent == b.extent

    result: list[tuple[int, int]] = []
    for target, written in stores.items():
        if target.role != "out" or len(written) != 1:
            continue
        for source, read in loads.items():
            if source.role != "in" or source in used or source.type.dtype is not target.type.dtype:
                continue
            if source.type.bytes != target.type.bytes:
                continue
            if all(load.condition is None and harmless(load, written[0]) for load in read):
                result.append((number[source], number[target]))
                used.add(source)
                break
    return result


def _blocks(body: tuple[Statement, ...]) -> dict[int, object]:
    """Which body each statement stands in, by identity."""
    result: dict[int, object] = {}
    stack: list[tuple[Statement, ...]] = [body]
    while stack:
        block = stack.pop()
        for statement in block:
            result[id(statement)] = block
            if isinstance(statement, (Loop, Reduce)):
                stack.append(statement.body)
    return result
