"""Launch fission: a kernel of several loop nests becomes a series of launches.

Threads share one nest at a time. A nest may read results of an earlier one, so threads must meet in
between, as they do between launches. Scratch and scalars that a later nest reads become memory of
the plan. Invariant: the launches in order write what the kernel writes, to the bit. The cut depends
on the kernel alone, not on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphc.base.errors import VerifyError
from graphc.ir.dims.expressions import Dim
from graphc.ir.types import TensorType
from graphc.kernel.analysis.split import is_worth_sharing, with_best_split
from graphc.kernel.builder import handing
from graphc.kernel.ir import Buffer, Kernel, Role, Statement, Var, stored_parts, walk
from graphc.kernel.statements.bodies import moved


@dataclass(frozen=True, slots=True)
class Member:
    """One launch of a series: its kernel, and for each of its buffers the number in the series."""

    kernel: Kernel
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """The launches that compute a fused node.

    Attributes:
        whole: the node as one kernel; the launches do what this says.
        members: the launches, in order.
        rooms: the buffers past the node's inputs and outputs, which have the first numbers.
        handed: those rooms that one launch fills for a later one.
        copied: the numbers of inputs and outputs: each output begins as a copy of its input, made
            before the first launch, which updates it.
    """

    whole: Kernel
    members: tuple[Member, ...]
    rooms: tuple[Buffer, ...]
    handed: frozenset[Buffer] = frozenset()
    copied: tuple[tuple[int, int], ...] = ()


def series_of(kernel: Kernel) -> Series:
    """A launch for each nest of a kernel that threads can share, and for what lies between."""
    groups = _groups(kernel)
    if len(groups) < 2:
        alone = with_best_split(kernel)
        rooms = tuple(buffer for buffer in kernel.buffers if buffer.is_room)
        return Series(alone, (Member(alone, tuple(range(len(kernel.buffers)))),), rooms)
    given = [buffer for buffer in kernel.buffers if not buffer.is_room]
    bodies, scalars = _bodies(kernel, groups)
    touched = [_Touched.of(body) for body in bodies]
    rooms = tuple([*(buffer for buffer in kernel.buffers if buffer.is_room), *scalars])
    handed = frozenset(room for room in rooms if sum(room in each.all for each in touched) > 1)
    number = {buffer: n for n, buffer in enumerate((*given, *rooms))}
    members = []
    for position, (body, own) in enumerate(zip(bodies, touched, strict=True)):
        old = sorted(own.all, key=number.__getitem__)
        new = {buffer: _in_role(buffer, own, touched, handed) for buffer in old}
        made = Kernel(
            f"{kernel.name} {position + 1}",
            tuple(new.values()),
            moved(body, new),
            kernel.sites if any(s.may_fail for s in walk(body)) else (),
        )
        member = Member(with_best_split(made), tuple(number[b] for b in old))
        members.append(member)
    return Series(kernel, tuple(members), rooms, handed)


def launched(kernel: Kernel) -> Member:
    """A launch of a whole kernel, with the buffers that its statements touch."""
    touched = _Touched.of(kernel.body).all
    places = tuple(n for n, buffer in enumerate(kernel.buffers) if buffer in touched)
    buffers = tuple(kernel.buffers[n] for n in places)
    return Member(with_best_split(replace(kernel, buffers=buffers)), places)


@dataclass(frozen=True, slots=True)
class _Touched:
    """The buffers that statements read and write; a workspace counts as written."""

    read: frozenset[Buffer]
    written: frozenset[Buffer]

    @property
    def all(self) -> frozenset[Buffer]:
        return self.read | self.written

    @staticmethod
    def of(body: Sequence[Statement]) -> _Touched:
        read: set[Buffer] = set()
        written: set[Buffer] = set()
        for statement in walk(body):
            read.update(statement.reads, statement.prefetched)
            written.update(statement.writes, statement.scratch)
        return _Touched(frozenset(read), frozenset(written))


# --- where to cut --------------------------------------------------------------------------------

_Group = list[int]
"""Positions of statements in a kernel's body that one launch runs, scalars aside."""


def _groups(kernel: Kernel) -> list[_Group]:
    """One group for each launch."""
    body = kernel.body
    effects = [n for n, statement in enumerate(body) if not statement.is_scalar]
    if len(effects) < 2:
        return [effects]
    scalars = tuple(statement for statement in body if statement.is_scalar)
    shared = {n for n in effects if is_worth_sharing(replace(kernel, body=(*scalars, body[n])))}
    if not shared:
        return [effects]
    groups: list[_Group] = []
    for group in _joined(kernel, [[n] for n in effects]):
        is_alone = len(group) == 1 and group[0] in shared
        if groups and not is_alone and not (len(groups[-1]) == 1 and groups[-1][0] in shared):
            groups[-1] += group
        else:
            groups.append(group)
    return groups if any(len(g) == 1 and g[0] in shared for g in groups) else [effects]


def _joined(kernel: Kernel, groups: list[_Group]) -> list[_Group]:
    """Joins groups that must be one launch.

    Groups that write one buffer stay apart only if each writes a part of it, and none reads it
    before it is complete.
    """
    touched = [_Touched.of([kernel.body[n] for n in group]) for group in groups]
    for buffer in kernel.buffers:
        if buffer.role == "in":
            continue
        writers = [n for n, each in enumerate(touched) if buffer in each.written]
        readers = [n for n, each in enumerate(touched) if buffer in each.read]
        if not writers or (len(writers) == 1 and writers[0] <= min(readers, default=writers[0])):
            continue
        if writers[-1] < min(readers, default=len(groups)):
            effects = [kernel.body[n] for number in writers for n in groups[number]]
            if _make_all(buffer, effects):
                continue
        first, last = min(writers + readers), writers[-1]
        joined = [n for group in groups[first : last + 1] for n in group]
        groups = [*groups[:first], joined, *groups[last + 1 :]]
        touched[first : last + 1] = [_Touched.of([kernel.body[n] for n in joined])]
    return groups


def _make_all(buffer: Buffer, effects: Sequence[Statement]) -> bool:
    """Whether the parts of a buffer that statements write can be counted and make all of it."""
    part = Buffer(buffer.name, "part", buffer.type)
    try:
        stored: Dim = stored_parts(Kernel("", (part,), moved(effects, {buffer: part})))[0]
    except VerifyError:
        return False
    return buffer.role == "part" or stored == buffer.type.size


# --- statements ----------------------------------------------------------------------------------


def _bodies(
    kernel: Kernel, groups: Sequence[_Group]
) -> tuple[list[tuple[Statement, ...]], list[Buffer]]:
    """The statements of each launch, with the scalars that they need; and rooms for the scalars
    that a later launch gets from an earlier one."""
    body = kernel.body
    made_by = {var: n for n, statement in enumerate(body) for var in statement.results}
    owner = {n: number for number, group in enumerate(groups) for n in group}
    for n, statement in enumerate(body):
        if statement.is_scalar and any(buffer.role != "in" for buffer in statement.reads):
            # it reads what stands there between the effects before and behind it
            following = (number for number, group in enumerate(groups) if group[-1] > n)
            owner[n] = next(following, len(groups) - 1)
    rooms: dict[Var, Buffer] = {}
    positions: list[set[int]] = []
    taken: list[dict[Var, None]] = []
    for number in range(len(groups)):
        own = {n for n, owned in owner.items() if owned == number}
        asked: dict[Var, None] = {}
        pending = [var for n in own for var in _uses(body[n])]
        while pending:
            var = pending.pop()
            position = made_by.get(var)
            if position is None or position in own:
                continue
            if position in owner:
                asked[var] = None
            else:
                own.add(position)
                pending += _uses(body[position])
        for var in asked:
            room = Buffer(f"handed{len(rooms)}", "scratch", TensorType(var.dtype, (1,)))
            rooms.setdefault(var, room)
        positions.append(own)
        taken.append(asked)
    result = []
    for number, (own, asked) in enumerate(zip(positions, taken, strict=True)):
        gives = [var for var in rooms if owner[made_by[var]] == number]
        ahead, behind = handing(
            {var: rooms[var] for var in asked}, {var: rooms[var] for var in gives}
        )
        result.append((*ahead, *(body[n] for n in sorted(own)), *behind))
    return result, list(rooms.values())


def _uses(statement: Statement) -> list[Var]:
    """The scalars that a statement reads, with those that its body defines."""
    result: list[Var] = []
    for inner in walk((statement,)):
        result += inner.operands
        result += [size for size in inner.sizes if isinstance(size, Var)]
    return result


def _in_role(
    buffer: Buffer, own: _Touched, everybody: Sequence[_Touched], handed: frozenset[Buffer]
) -> Buffer:
    """A buffer as one of several launches has it."""
    role: Role = buffer.role
    if buffer in handed or buffer.is_result:
        several = sum(buffer in each.written for each in everybody) > 1
        if buffer not in own.written:
            role = "in"
        elif several or role == "part":
            role = "part"
        else:
            role = "out"
    return buffer if role == buffer.role else Buffer(buffer.name, role, buffer.type)


__all__ = ["Member", "Series", "launched", "series_of"]
