"""The native loop over a plan's steps, and the module that holds a program's kernels.

The step table is that of ``graphc.plan.abi``; only sizes and pointers are filled in for a call. The
loop's module also has the thread pool, which runs launches that are cut into tasks. A concurrent
group is such a launch, of a kernel that runs steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.base.target import Target
from graphc.codegen.kernels.kernel import emit_kernel
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import Module, ModuleEmitter, joined, symbol
from graphc.codegen.llvm.routine import Layout, Record, Routine, Shared, Table
from graphc.codegen.llvm.types import I32, I64, POINTER_ALIGN, PTR, ltype
from graphc.codegen.math.calls import Calls, calls_of
from graphc.native.thread_pool import RUN_TASKS, emit_pool
from graphc.plan.abi import (
    BRANCH,
    COPY,
    FAIL,
    GROUP,
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
    threads = threads and target.has_threads
    module = ModuleEmitter(target)
    e = FunctionEmitter(
        module,
        WALKER,
        {
            "steps": PTR, "count": I64, "pointers": PTR, "dims": PTR, "status": PTR, "cancel": PTR,
        },
        I64,
    )  # fmt: skip
    steps, count, pointers, dims = e.given("steps", "count", "pointers", "dims")
    at = e.alloca(I64, 1, 8)
    e.store(e.const(0), at, 8)
    room = e.alloca(I64, 4, 8) if threads else at
    head, body, done = e.label("head"), e.label("body"), e.label("done")
    e.jump(head)
    e.start(head)
    position = e.load(at, I64, 8)
    poll = e.label("poll")
    e.branch(position < count, poll, done)
    e.start(poll)
    flag = e.assign(I32, "load volatile i32, ptr %cancel, align 4")
    stopped = e.label("stopped")
    e.branch(flag.equals(0), body, stopped)
    e.start(stopped)
    e.line("ret i64 -1")
    e.start(body)
    first = position * STEP_WORDS
    step = e.at(steps, "i64", first)

    def word(number: int) -> Reg:
        return e.load(e.at(step, "i64", number), I64, 8)

    kind, function, bufs, dim, goal = (word(number) for number in range(5))
    buffers = e.at(pointers, "ptr", bufs)
    sizes = e.at(dims, "i64", dim)
    e.store(position + 1, at, 8)
    operands = (function, buffers, sizes, e.parameter("status"), goal)
    launch = e.label("launch")
    parallel = e.label("parallel") if threads else launch
    group = e.label("group") if threads else launch
    branch, jump, copy, fail = (e.label(name) for name in ("branch", "jump", "copy", "fail"))
    labels = {
        LAUNCH: launch, PARALLEL: parallel, GROUP: group, BRANCH: branch, JUMP: jump, COPY: copy,
        FAIL: fail,
    }  # fmt: skip
    cases = " ".join(f"i64 {number}, label %{label}" for number, label in labels.items())
    e.line(f"switch {kind}, label %{head} [ {cases} ]")
    e.start(launch)
    _emit_call(e, function, buffers, sizes, e.const(0), goal)
    _emit_end_of_launch(e, head, position)
    if threads:
        e.start(parallel)
        _emit_tasks(e, word(7), operands, word(5), word(6))
        _emit_end_of_launch(e, head, position)
        e.start(group)
        bounds = e.assign(PTR, f"inttoptr {word(5)} to ptr")
        tasks = e.load(bounds, I64, 8)
        begins = e.at(bounds, "i64", 1)
        past = position + e.load(e.at(begins, "i64", tasks), I64, 8)
        whole = e.label("whole")
        e.branch(past <= count, whole, launch)
        e.start(whole)
        e.store(past, at, 8)
        given = step, pointers, dims, e.parameter("cancel")
        for value, place in zip(given, _GROUP_PLACES.values(), strict=True):
            e.store(value, e.at(room, "i8", place), POINTER_ALIGN)
        code = e.assign(I64, f"ptrtoint ptr {symbol(_RUN_STEPS)} to i64")
        operands = (code, room, begins, e.parameter("status"), tasks)
        _emit_tasks(e, word(7), operands, e.const(1), word(6))
        _emit_end_of_group(e, head, position)
    e.start(branch)
    _emit_branch(e, head, at, goal, buffers)
    e.start(jump)
    e.store(goal, at, 8)
    e.jump(head)
    e.start(copy)
    _emit_copy(e, head, buffers, sizes)
    e.start(fail)
    e.line(f"ret {position}")
    e.start(done)
    e.finish(count)
    if threads:
        _emit_run_steps(module)
        emit_pool(module)
    return module.module()


_RUN_STEPS = "graphc_run_steps"
"""void (ptr group, ptr begins, ptr status, i64 begin, i64 end, i64 seat): runs tasks of a group, as
if it were a kernel. Task t is the steps [begins[t], begins[t + 1]), counted from the first of the
group. The status of a failure has the number of its step, from 1 on, in place of a code."""

_GROUP_PLACES = {"steps": 0, "pointers": 8, "dims": 16, "cancel": 24}

_GROUP = Layout("graphc_group", dict.fromkeys(_GROUP_PLACES, PTR), _GROUP_PLACES)
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


def _emit_call(
    e: FunctionEmitter, function: Reg, buffers: Reg, sizes: Reg, begin: Reg, end: Reg
) -> None:
    """Calls a kernel for iterations [begin, end)."""
    code = e.assign(PTR, f"inttoptr {function} to ptr")
    e.line(f"call void {code.text}({buffers}, {sizes}, ptr %status, {begin}, {end}, i64 0)")


def _emit_tasks(
    e: FunctionEmitter, pool: Reg, operands: Sequence[Reg], grain: Reg, seats: Reg
) -> None:
    """Has the thread pool run a kernel."""
    function, *others = operands
    room, code = (e.assign(PTR, f"inttoptr {word} to ptr") for word in (pool, function))
    e.call(RUN_TASKS, None, room, code, *others, grain, seats)


def _emit_end_of_launch(e: FunctionEmitter, head: str, position: Reg) -> None:
    """Ends the block; a status that was filled in ends the run at this step."""
    failed = e.label("failed")
    clear = e.load(e.parameter("status"), I64, 8).equals(0)
    e.branch(clear, head, failed)
    e.start(failed)
    e.line(f"ret {position}")


def _emit_end_of_group(e: FunctionEmitter, head: str, position: Reg) -> None:
    """Ends the block; a step that failed ends the run, and so does being told to stop."""
    failed, over, stopped = e.label("failed"), e.label("over"), e.label("stopped")
    number = e.load(e.parameter("status"), I64, 8)
    e.branch(number.equals(0), over, failed)
    e.start(failed)
    before = position - 1
    e.line(f"ret {before + number}")
    e.start(over)
    # tasks leave steps out then, so it counts even behind the last step
    flag = e.assign(I32, "load volatile i32, ptr %cancel, align 4")
    e.branch(flag.equals(0), head, stopped)
    e.start(stopped)
    e.line("ret i64 -1")


def _emit_branch(e: FunctionEmitter, head: str, at: Reg, goal: Reg, buffers: Reg) -> None:
    """Goes to the goal if the bool in the first buffer is false."""
    predicate = e.load(e.load(buffers, PTR, POINTER_ALIGN), ltype("i8"), 1)
    taken = e.label("taken")
    e.branch(predicate.equals(0), taken, head)
    e.start(taken)
    e.store(goal, at, 8)
    e.jump(head)


def _emit_copy(e: FunctionEmitter, head: str, buffers: Reg, sizes: Reg) -> None:
    """Copies the first buffer to the second, if they are two."""
    source = e.load(buffers, PTR, POINTER_ALIGN)
    target = e.load(e.at(buffers, "ptr", 1), PTR, POINTER_ALIGN)
    apart = e.label("apart")
    e.branch(source.equals(target), head, apart)
    e.start(apart)
    size = e.load(sizes, I64, 8)
    e.copy_bytes(target, source, size)
    e.jump(head)
