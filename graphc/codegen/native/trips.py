"""The native loop over several runs of one program, as LLVM text.

A run differs from the one before in where its operands lie alone, so the loop writes addresses to
the pointer table and calls the loop over steps. One function serves every program.
"""

from __future__ import annotations

from graphc.base.target import Target
from graphc.codegen.llvm.module import Module, ModuleEmitter
from graphc.codegen.llvm.routine import Routine, Table
from graphc.codegen.llvm.types import I64, PTR
from graphc.plan.abi import STEP_WORDS, TRIPS

_PARAMETERS = {
    "walker": PTR, "steps": PTR, "count": I64, "pointers": PTR, "dims": PTR, "status": PTR,
    "cancel": PTR, "before": I64, "never": PTR, "places": PTR, "width": I64, "addresses": PTR,
    "trips": I64, "done": PTR,
}  # fmt: skip


def emit_trips(target: Target) -> Module:
    """``i64 graphc_trips(walker, steps, count, pointers, dims, status, cancel, before, never,
    places, width, addresses, trips, done)``.

    Before run t the entries ``places`` of the pointer table, ``width`` of them, get row t of
    ``addresses``. Of each run the first ``before`` steps can be cancelled by ``cancel``; the others
    poll ``never``. Gives what the loop over steps gives for a run that does not come to its end,
    else ``count``; ``done`` gets how many runs did, after each of them.
    """
    module = ModuleEmitter(target)
    r = Routine(module, TRIPS, _PARAMETERS, I64, linkage="")
    (walker, steps, count, pointers, dims, status, cancel, before, never, places, width, addresses,
     trips, done) = r.parameters  # fmt: skip
    rest = Table(steps).at(before * STEP_WORDS)
    with r.each(trips) as trip:
        with r.each(width) as n:
            Table(pointers)[Table(places)[n]] = Table(addresses)[trip * width + n]
        tables = pointers, dims, status
        stopped = r.call_at(walker, I64, steps, before, *tables, cancel)
        with r.when(stopped.differs(before)):
            r.give(stopped)
        with r.when(before < count):
            last = r.call_at(walker, I64, rest, count - before, *tables, never)
            with r.when(last.differs(count - before)):
                r.give(before + last)
        Table(done)[0] = trip + 1
    r.finish(count)
    return module.module()


__all__ = ["emit_trips"]
