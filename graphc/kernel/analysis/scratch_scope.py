"""Where scratch buffers live: the innermost block that none of their content outlives.

Scratch is private to a thread, so each iteration of a parallel loop that fills and reads it has its
own. An evaluator that runs iterations at the same time needs a copy for each. This analysis says at
which block the copies begin.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.kernel.ir import Block, Buffer, Kernel, Statement, walk
from graphc.kernel.statements.bodies import blocks_in

Owner = Block | None
"""A block, by the statement whose body it is; None is the kernel's own."""


def scratch_homes(kernel: Kernel) -> dict[Owner, list[Buffer]]:
    """The scratch buffers that begin at each block; those never read or written are left out.

    Blocks that each fill the buffer before they read it don't share it; otherwise, and from one
    serial iteration to the next, content lasts.
    """
    homes: dict[Owner, list[Buffer]] = {}
    for buffer in kernel.buffers:
        if not buffer.is_room:
            continue
        work: list[tuple[Owner, Sequence[Statement]]] = [(None, kernel.body)]
        while work:
            owner, body = work.pop()
            users = [(s, accesses) for s in body if (accesses := _accesses(s, buffer))]
            if not users:
                continue
            if _independent(users):
                work += [(s, s.body) for s in blocks_in(user for user, _ in users)]
            else:
                homes.setdefault(owner, []).append(buffer)
    return homes


def _independent(users: Sequence[tuple[Statement, list[str]]]) -> bool:
    for statement, accesses in users:
        if statement.block is None:
            return False
        fills = accesses[0] == "store"
        if len(users) == 1:
            return fills or statement.loop("serial") is None
        if not fills or "load" not in accesses:
            return False
    return True


def _accesses(statement: Statement, buffer: Buffer) -> list[str]:
    """What a statement does with a buffer, in order."""
    result: list[str] = []
    for inner in walk((statement,)):
        result += ["load"] * (buffer in inner.reads)
        result += ["store"] * (buffer in inner.writes)
    return result


__all__ = ["Owner", "scratch_homes"]
