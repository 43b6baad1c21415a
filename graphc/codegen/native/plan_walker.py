"""The native loop over a plan's steps, and the module that holds a program's kernels.

The step table is that of ``graphc.plan.abi``; only sizes and pointers are filled in for a call. The
loop's module also has the thread pool, which runs launches that are cut into tasks. A concurrent
group is such a launch, of a kernel that runs steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphc.base.target import Target
from graphc.codegen.kernels.kernel import emit_kernel
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import Module, ModuleEmitter, joined
from graphc.codegen.llvm.routine import Record, RecordLayout, Routine, Shared, Table
from graphc.codegen.llvm.types import I8, I32, I64, PTR
from graphc.codegen.math.calls import Calls, calls_of
from graphc.codegen.native.thread_pool import RUN_TASKS, emit_pool
from graphc.plan.abi import (
    BRANCH,
    COPY,
    FAIL,
    GROUP,
    HOST,
    JUMP,
    LAUNCH,
    PARALLEL,
    SKIP,
    STEP_WORDS,
    WALKER,
    kernel_symbols,
)
from graphc.plan.ir import Plan


@dataclass(frozen=True, slots=True)
class KernelModule:
    """Some kernels.

    Attributes:
        module: what they are defined in.
        symbols: the kernels it defines.
        glue: whether all of them are glue, which is translated as it stands.
    """

    module: Module
    symbols: tuple[str, ...]
    glue: bool = False

    @property
    def text(self) -> str:
        """The LLVM text of the module."""
        return self.module.text


@dataclass(frozen=True, slots=True)
class ProgramText:
    """The LLVM text of a plan's kernels.

    Attributes:
        modules: each kernel stands in one of them.
        symbols: the kernels' symbols, in the order of ``plan.kernels``.
        libraries: modules that the kernels call into (matrix products, elementary functions), by
            the symbol they define; equal for every program of a target, so they are compiled once.
    """

    modules: tuple[KernelModule, ...]
    symbols: tuple[str, ...]
    libraries: Mapping[str, Module]

    def is_glue(self, number: int) -> bool:
        """Whether a kernel calls elementary functions and does little else."""
        symbol = self.symbols[number]
        return any(module.glue and symbol in module.symbols for module in self.modules)

    @property
    def kernels(self) -> str:
        """The text of all kernels as one module."""
        return joined([each.module for each in self.modules]).text

    def joined(self, *further: Module) -> Module:
        """Everything as one module, with further modules."""
        kernels = (each.module for each in self.modules)
        return joined([*self.libraries.values(), *kernels, *further])


def emit_program(plan: Plan, target: Target, calls: Calls | None = None) -> ProgramText:
    """The text of all kernels of a plan, which call functions where they are said to."""
    calls = calls_of(plan.kernels) if calls is None else calls
    symbols = kernel_symbols(len(plan.kernels))
    modules: list[KernelModule] = []
    libraries: dict[str, Module] = {}
    named = list(zip(symbols, plan.kernels, calls.glue, strict=True))
    for glue in (False, True):
        chosen = [(name, kernel) for name, kernel, sort in named if sort is glue]
        if not chosen:
            continue
        module = ModuleEmitter(target, calls.all)
        for name, kernel in chosen:
            emit_kernel(module, kernel, name, target)
        modules.append(KernelModule(module.module(), tuple(name for name, _ in chosen), glue))
        libraries |= module.libraries
    return ProgramText(tuple(modules), symbols, libraries)


def emit_walker(target: Target, threads: bool = True) -> Module:
    """``i64 graphc_walk(steps, count, pointers, dims, status, cancel)``.

    Gives the number of steps where it ran to the end; the step that failed where a kernel filled
    in ``status``, or where that is a guard which does not hold; -1 where ``cancel`` became
    non-zero. Without ``threads``, and on targets that have none, a launch in tasks is one like any
    other, and so is the first of a group. The latter also where ``count`` ends inside of the group.
    """
    module = ModuleEmitter(target)
    walk = _Walk(module, threads and target.has_threads)
    walk.emit()
    if walk.threads:
        _emit_run_steps(module)
        emit_pool(module)
    return module.module()


class _Walk:
    """The function of the loop."""

    def __init__(self, module: ModuleEmitter, threads: bool) -> None:
        self.threads = threads
        names = ("steps", "count", "pointers", "dims", "status", "cancel")
        parameters = dict.fromkeys(names, PTR) | {"count": I64}
        self._r = r = Routine(module, WALKER, parameters, I64, linkage="")
        steps, self._count, pointers, dims, self._status, self._cancel = r.parameters
        self._steps, self._pointers, self._dims = Table(steps), Table(pointers, PTR), Table(dims)
        self._at = r.cell(0)
        self._room = r.room(len(_GROUP_PLACES)).at(0) if threads else None

    def emit(self) -> None:
        """All of it."""
        r, at = self._r, self._at
        with r.repeat() as stop_if:
            position = at.value
            stop_if(position >= self._count)
            self._poll()
            step = Table(self._steps.at(position * STEP_WORDS))
            at.value = position + 1
            with r.switch(step[0]) as case:
                with case(LAUNCH, *(() if self.threads else (PARALLEL, GROUP))):
                    self._launch(position, step)
                if self.threads:
                    with case(PARALLEL):
                        function = r.address_of(step[1])
                        operands = *self._operands(step), self._status, step[4]
                        self._run_tasks(step, function, *operands, step[5])
                        self._end_of_launch(position)
                    with case(GROUP):
                        self._group(position, step)
                with case(BRANCH):
                    predicate = Table(self._buffers(step)[0], I8)[0]
                    with r.when(predicate.equals(0)):
                        at.value = step[4]
                with case(JUMP):
                    at.value = step[4]
                with case(COPY):
                    self._copy(step)
                with case(HOST):
                    called = *self._operands(step), self._status, step[4], step[5]
                    r.call_at(r.address_of(step[1]), None, *called)
                    self._end_of_launch(position)
                with case(FAIL):
                    r.give(position)
        r.finish(self._count)

    def _poll(self) -> None:
        """Ends the run where it is told to stop."""
        r = self._r
        flag = r.assign(I32, f"load volatile i32, {self._cancel}, align 4")
        with r.when(flag.differs(0)):
            r.give(-1)

    def _buffers(self, step: Table) -> Table:
        return Table(self._pointers.at(step[2]), PTR)

    def _operands(self, step: Table) -> tuple[Reg, Reg]:
        """The buffers and sizes of a kernel."""
        return self._buffers(step).at(0), self._dims.at(step[3])

    def _launch(self, position: Reg, step: Table) -> None:
        """Runs all iterations of a kernel."""
        function, operands = self._r.address_of(step[1]), self._operands(step)
        self._r.call_at(function, None, *operands, self._status, 0, step[4], 0)
        self._end_of_launch(position)

    def _run_tasks(self, step: Table, *operands: Reg | int) -> None:
        """Has the thread pool run a kernel."""
        self._r.call(RUN_TASKS, None, self._r.address_of(step[7]), *operands, step[6])

    def _end_of_launch(self, position: Reg) -> None:
        """A status that was filled in ends the run at this step."""
        with self._r.when(Table(self._status)[0].differs(0)):
            self._r.give(position)

    def _group(self, position: Reg, step: Table) -> None:
        """Has the thread pool run the steps of a group, all of which are to be run."""
        r, room = self._r, self._room
        assert room is not None, "only threads run groups"
        bounds = Table(r.address_of(step[5]))
        tasks, begins = bounds[0], bounds.at(1)
        past = position + Table(begins)[tasks]
        whole = past <= self._count
        with r.when(whole):
            self._at.value = past
            common = Record(_GROUP, room)
            given = step.at(0), *r.given("pointers", "dims", "cancel")
            for name, value in zip(_GROUP_PLACES, given, strict=True):
                common[name] = value
            self._run_tasks(step, r.symbol(_RUN_STEPS), room, begins, self._status, tasks, 1)
            number = Table(self._status)[0]
            with r.when(number.differs(0)):
                r.give(position - 1 + number)
            # tasks leave steps out then, so it counts even behind the last step
            self._poll()
        with r.when(~whole):
            self._launch(position, step)

    def _copy(self, step: Table) -> None:
        """Copies the first buffer to the second, if they are two."""
        r, buffers = self._r, self._buffers(step)
        source, target = buffers[0], buffers[1]
        with r.when(source.differs(target)):
            r.copy_bytes(target, source, Table(self._dims.at(step[3]))[0])


_RUN_STEPS = "graphc_run_steps"
"""void (ptr group, ptr begins, ptr status, i64 begin, i64 end, i64 seat): runs tasks of a group, as
if it were a kernel. Task t is the steps [begins[t], begins[t + 1]), counted from the first of the
group. The status of a failure has the number of its step, from 1 on, in place of a code."""

_GROUP_PLACES = {"steps": 0, "pointers": 8, "dims": 16, "cancel": 24}

_GROUP = RecordLayout("graphc_group", dict.fromkeys(_GROUP_PLACES, PTR), _GROUP_PLACES)
"""The arguments that all tasks of a group share."""


def _emit_run_steps(module: ModuleEmitter) -> None:
    parameters = {
        "group": PTR, "begins": PTR, "status": PTR, "begin": I64, "end": I64, "seat": I64,
    }  # fmt: skip
    r = Routine(module, _RUN_STEPS, parameters)
    group, begins_at, status_at, begin, end, _ = r.parameters
    common, begins, status = Record(_GROUP, group), Table(begins_at), Table(status_at)
    steps, dims = common.table("steps"), common.table("dims")
    pointers = common.table("pointers", PTR)
    cancel = Shared(common["cancel"], I32)
    at, last = r.cell(begins[begin]), begins[end]
    with r.repeat() as stop_if:
        number = at.value
        stop_if(number >= last)
        stop_if(cancel.load("monotonic").differs(0))
        row = number * STEP_WORDS
        kind, function, buffers, sizes, goal = (steps[row + n] for n in range(5))
        at.value = number + 1
        with r.when(kind.differs(SKIP)):
            given = pointers.at(buffers), dims.at(sizes), status_at, 0, goal, 0
            r.call_at(r.address_of(function), None, *given)
        with r.when(status[0].differs(0)):
            status[0] = at.value
        stop_if(status[0].differs(0))
    r.finish()
