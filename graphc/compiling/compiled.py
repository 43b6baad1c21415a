"""What compiling gives: the program, and on request the levels it went through.

Invariant: this module loads no pass and no code generation, so that a program from the cache on
disk needs neither.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from graphc.base.forks import tell
from graphc.base.lazily import once
from graphc.base.target import Target
from graphc.base.words import plural
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.plan.ir import Plan
from graphc.runtime.program import Program

if TYPE_CHECKING:
    from graphc.codegen.native.plan_walker import ProgramText
    from passes.infra.base import Recomputed
    from passes.infra.manager import PassRecord

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """What lies between the extracted graph and the machine code.

    Attributes:
        graph: after all graph passes: fused nodes, each a kernel or several.
        records: one record a pass.
        plan: the plan, placed.
        slots: the slot of the plan that holds a value of ``graph`` or of its control flow.
        launches: the steps of the plan that compute a node of ``graph`` or of its control flow.
        text: the LLVM text of the kernels.
        carried: of results of loops how a trip hands them to the next one.
        recomputed: what recomputation comes to; None where nothing asks for it.
    """

    graph: Graph
    records: tuple[PassRecord, ...]
    plan: Plan
    slots: Mapping[Value, int]
    launches: Mapping[Node, range]
    text: ProgramText
    carried: Mapping[Value, str]
    recomputed: Recomputed | None = None


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled graph and how it came to be.

    Attributes:
        source: the extracted graph.
        program: the plan with its machine code.
        target: the machine it was compiled for.
        made: gives the levels; for a program from the cache the passes run then.
        from_cache: whether the program came from the cache.
    """

    source: Graph
    program: Program
    target: Target
    made: Callable[[], Levels]
    from_cache: bool = False

    def __repr__(self) -> str:
        return f"<Compiled {self.source!r}, {plural(len(self.plan.kernels), 'kernel')}>"

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self.program.plan

    @once
    def levels(self) -> Levels:
        """What lies between the source and the machine code."""
        return self.made()

    @property
    def graph(self) -> Graph:
        """The graph after all passes: fused nodes, each a kernel or several."""
        return self.levels.graph

    @property
    def records(self) -> tuple[PassRecord, ...]:
        """One record a pass."""
        return self.levels.records

    @property
    def slots(self) -> Mapping[Value, int]:
        """The slot of the plan that holds a value of ``graph`` or of its control flow."""
        return self.levels.slots

    @property
    def launches(self) -> Mapping[Node, range]:
        """The steps of the plan that compute a node of ``graph`` or of its control flow."""
        return self.levels.launches

    @property
    def carried(self) -> Mapping[Value, str]:
        """Of results of loops how a trip hands them to the next one."""
        return self.levels.carried

    def schedule_lines(self, number: int) -> list[str]:
        """What kernel passes did to a kernel's loops, and why they did no more."""
        from passes.kernels.explained import schedule_lines

        kernel, is_glue = self.levels.plan.kernels[number], self.levels.text.is_glue(number)
        return schedule_lines(kernel, self.target, is_glue)

    @property
    def llvm_ir(self) -> str:
        """The text the kernels are compiled from."""
        return self.levels.text.kernels


class _Pause:
    """Which thread has paused the collector, if one has.

    A child that this thread is not in goes on with the collector as the parent would.
    """

    def __init__(self) -> None:
        self.thread: int | None = None
        tell(self)

    def forked(self) -> None:
        if self.thread not in (None, threading.get_ident()):
            self.thread = None
            gc.enable()


_PAUSE = _Pause()


def uncollected(job: Callable[P, R]) -> Callable[P, R]:
    """Decorator: leaves Python's cycle collector out, a third of the time of large graphs for no
    garbage.

    Passes make many small objects that live on and no cycles. A thread that finds the collector
    paused leaves it so; the one that paused it switches it on again.
    """

    @wraps(job)
    def done(*arguments: P.args, **named: P.kwargs) -> R:
        if not gc.isenabled():
            return job(*arguments, **named)
        # no interrupt comes between a call and the beginning or the end of the block
        try:
            _PAUSE.thread = threading.get_ident()
            gc.disable()
            return job(*arguments, **named)
        finally:
            gc.enable()
            _PAUSE.thread = None

    return done
