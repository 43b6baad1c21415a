"""Interleaved rows: some rows at a time in step, where each is a chain of operations.

Invariant: rows are independent, and each row's operations have the order and the code of the plain
loop, so the bits are those of the plain loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphc.codegen.kernels.lane_values import Binding
from graphc.codegen.kernels.loops import emit_plain_loop
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.kernels.table import emits
from graphc.codegen.llvm.instructions import Reg
from graphc.kernel.ir import Block, Var
from graphc.kernel.schedule.interleaved import Interleaved, chain_of


@emits(Interleaved)
def emit_interleaved(k: KernelScope, rows: Block, schedule: Interleaved) -> None:
    """Emits a loop over rows."""
    e, count, chain = k.e, schedule.rows, chain_of(rows)
    assert chain is not None, "so its kind says"
    place = rows.body.index(chain)
    before, after = rows.body[:place], rows.body[place + 1 :]
    defined = [rows.index, *(var for statement in before for var in statement.results)]
    arguments = [carry.argument for carry in chain.carries]
    lower, upper = k.bounds(rows)
    whole = lower + ((upper - lower) & -count)
    with e.loop(lower, whole, count) as some:
        known: list[list[Binding]] = []
        initial: list[Reg] = []
        for row in range(count):
            k.bind(rows.index, some.index + row)
            k.statements(before)
            known.append([k.binding(var) for var in defined])
            initial += [k.spread(carry.initial) for carry in chain.carries]
        with e.loop(e.const(0), k.size(chain.extent), 1, initial) as loop:
            k.bind(chain.index, loop.index)
            following: list[Reg] = []
            for row in range(count):
                _bind(k, (*defined, *arguments), (*known[row], *_part(loop.carries, row, count)))
                k.statements(chain.body)
                following += [k.spread(carry.following) for carry in chain.carries]
            loop.yields = following
        for row in range(count):
            _bind(k, (*defined, *chain.results), (*known[row], *_part(loop.results, row, count)))
            k.statements(after)
    emit_plain_loop(k, rows, (whole, upper))


def _part(registers: Sequence[Reg], row: int, count: int) -> Sequence[Reg]:
    """Those of one row."""
    width = len(registers) // count
    return registers[row * width : (row + 1) * width]


def _bind(k: KernelScope, variables: Iterable[Var], bindings: Iterable[Binding]) -> None:
    for var, binding in zip(variables, bindings, strict=True):
        k.bind(var, binding)


__all__ = ["emit_interleaved"]
