"""The native loop over a plan's steps, and the module that holds a program's kernels.

The step table is that of ``graphc.plan.abi``; only sizes and pointers are filled in for a call. The
loop's module also has the thread pool, which runs launches that are cut into tasks. A concurrent
group is such a launch, of a kernel that runs steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.base.target import Target
from graphc.codegen.kernels.kernel import emit_kernel
from graphc.codegen.llvm.emitter import (
    I32,
    I64,
    POINTER_ALIGN,
    PTR,
    FunctionEmitter,
    ModuleEmitter,
    Reg,
    ltype,
)
from graphc.codegen.llvm.routine import Layout, Record, Routine, Shared, Table
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
    """LLVM text of some kernels.

    Attributes:
        text: the module.
        symbols: the kernels it defines.
        glue: whether all of them are glue, which is translated as it stands.
    """

    text: str
    symbols: tuple[str, ...]
    glue: bool = False


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
    libraries: Mapping[str, str]

    def is_glue(self, number: int) -> bool:
        """Whether a kernel calls elementary functions and does little else."""
        symbol = self.symbols[number]
        return any(module.glue and symbol in module.symbols for module in self.modules)

    @property
    def kernels(self) -> str:
        """All kernels as one module."""
        return joined_modules([module.text for module in self.modules])

    def joined(self, *further: str) -> str:
        """Everything as one module, with further modules."""
        kernels = (module.text for module in self.modules)
        return joined_modules([*self.libraries.values(), *kernels, *further])


def joined_modules(texts: Sequence[str]) -> str:
    """Several modules as one.

    Several modules may define or declare one symbol, all alike; it stands once.
    """
    if len(texts) == 1:
        return texts[0]
    defined = {name for text in texts for name in _DEFINED.findall(text)}
    seen: set[str] = set()
    lines: list[str] = []
    for text in texts:
        skipping = False
        for line in text.splitlines():
            if skipping:
                skipping = line != "}"
                continue
            found = _NAMED.match(line)
            if found is not None:
                kind, name = found.groups()
                if name in seen or (kind == "declare" and name in defined):
                    skipping = kind == "define"
                    continue
                seen.add(name)
            lines.append(line)
    return "\n".join((*lines, ""))


_NAMED = re.compile(r"^(?:(declare|define) [^@\n]*)?(@[A-Za-z0-9_.]+|!\d+)(?:\(| = )")
_DEFINED = re.compile(r"^define [^@\n]*(@[A-Za-z0-9_.]+)\(", re.MULTILINE)


def emit_program(plan: Plan, target: Target, calls: Calls | None = None) -> ProgramText:
    """The text of all kernels of a plan, which call functions where they are said to."""
    calls = calls_of(plan.kernels) if calls is None else calls
    symbols = kernel_symbols(len(plan.kernels))
    modules: list[KernelModule] = []
    libraries: dict[str, str] = {}
    named = list(zip(symbols, plan.kernels, calls.glue, strict=True))
    for glue in (False, True):
        chosen = [(name, kernel) for name, kernel, sort in named if sort is glue]
        if not chosen:
            continue
        module = ModuleEmitter(target, calls.all)
        for name, kernel in chosen:
            emit_kernel(module, kernel, name, target)
        modules.append(KernelModule(module.text(), tuple(name for name, _ in chosen), glue))
        libraries |= module.libraries
    return ProgramText(tuple(modules), symbols, libraries)


def emit_walker(target: Target, threads: bool = True) -> str:
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
        (
            ("ptr", "%steps"), ("i64", "%count"), ("ptr", "%pointers"), ("ptr", "%dims"),
            ("ptr", "%status"), ("ptr", "%cancel"),
        ),
        "i64",
    )  # fmt: skip
    steps, count, pointers, dims = (
        Reg("%steps", PTR), Reg("%count", I64), Reg("%pointers", PTR), Reg("%dims", PTR),
    )  # fmt: skip
    at = e.alloca(I64, 1, 8)
    e.store(e.const(0, I64), at, 8)
    room = e.alloca(I64, 4, 8) if threads else at
    head, body, done = e.label("head"), e.label("body"), e.label("done")
    e.jump(head)
    e.start(head)
    position = e.load(at, I64, 8)
    poll = e.label("poll")
    e.branch(e.icmp("slt", position, count), poll, done)
    e.start(poll)
    flag = e.assign(I32, "load volatile i32, ptr %cancel, align 4")
    stopped = e.label("stopped")
    e.branch(e.icmp("eq", flag, e.const(0, I32)), body, stopped)
    e.start(stopped)
    e.line("ret i64 -1")
    e.start(body)
    first = e.binary("mul", position, e.const(STEP_WORDS, I64))
    step = e.element_pointer(steps, first, "i64")

    def word(number: int) -> Reg:
        return e.load(e.element_pointer(step, e.const(number, I64), "i64"), I64, 8)

    kind, function, bufs, dim, goal = (word(number) for number in range(5))
    buffers = e.element_pointer(pointers, bufs, "ptr")
    sizes = e.element_pointer(dims, dim, "i64")
    e.store(e.binary("add", position, e.const(1, I64)), at, 8)
    operands = (function, buffers, sizes, Reg("%status", PTR), goal)
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
    _emit_call(e, function, buffers, sizes, e.const(0, I64), goal)
    _emit_end_of_launch(e, head, position)
    if threads:
        e.start(parallel)
        _emit_tasks(e, word(7), operands, word(5), word(6))
        _emit_end_of_launch(e, head, position)
        e.start(group)
        bounds = e.assign(PTR, f"inttoptr {word(5)} to ptr")
        tasks = e.load(bounds, I64, 8)
        begins = e.element_pointer(bounds, e.const(1, I64), "i64")
        past = e.binary("add", position, e.load(e.element_pointer(begins, tasks, "i64"), I64, 8))
        whole = e.label("whole")
        e.branch(e.icmp("sle", past, count), whole, launch)
        e.start(whole)
        e.store(past, at, 8)
        given = step, pointers, dims, Reg("%cancel", PTR)
        for value, place in zip(given, _GROUP_PLACES.values(), strict=True):
            e.store(value, e.element_pointer(room, e.const(place, I64), "i8"), POINTER_ALIGN)
        code = e.assign(I64, f"ptrtoint ptr @{_RUN_STEPS} to i64")
        operands = (code, room, begins, Reg("%status", PTR), tasks)
        _emit_tasks(e, word(7), operands, e.const(1, I64), word(6))
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
    e.finish("ret i64 %count")
    if threads:
        _emit_run_steps(module)
        emit_pool(module)
    return module.text()


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
            given = pointers.at(buffers), dims.at(sizes), status_at, r.word(0), goal, r.word(0)
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
    clear = e.icmp("eq", e.load(Reg("%status", PTR), I64, 8), e.const(0, I64))
    e.branch(clear, head, failed)
    e.start(failed)
    e.line(f"ret {position}")


def _emit_end_of_group(e: FunctionEmitter, head: str, position: Reg) -> None:
    """Ends the block; a step that failed ends the run, and so does being told to stop."""
    failed, over, stopped = e.label("failed"), e.label("over"), e.label("stopped")
    number = e.load(Reg("%status", PTR), I64, 8)
    e.branch(e.icmp("eq", number, e.const(0, I64)), over, failed)
    e.start(failed)
    before = e.binary("sub", position, e.const(1, I64))
    e.line(f"ret {e.binary('add', before, number)}")
    e.start(over)
    # tasks leave steps out then, so it counts even behind the last step
    flag = e.assign(I32, "load volatile i32, ptr %cancel, align 4")
    e.branch(e.icmp("eq", flag, e.const(0, I32)), head, stopped)
    e.start(stopped)
    e.line("ret i64 -1")


def _emit_branch(e: FunctionEmitter, head: str, at: Reg, goal: Reg, buffers: Reg) -> None:
    """Goes to the goal if the bool in the first buffer is false."""
    predicate = e.load(e.load(buffers, PTR, POINTER_ALIGN), ltype("i8"), 1)
    taken = e.label("taken")
    e.branch(e.icmp("eq", predicate, e.const(0, predicate.type)), taken, head)
    e.start(taken)
    e.store(goal, at, 8)
    e.jump(head)


def _emit_copy(e: FunctionEmitter, head: str, buffers: Reg, sizes: Reg) -> None:
    """Copies the first buffer to the second, if they are two."""
    source = e.load(buffers, PTR, POINTER_ALIGN)
    target = e.load(e.element_pointer(buffers, e.const(1, I64), "ptr"), PTR, POINTER_ALIGN)
    apart = e.label("apart")
    e.branch(e.icmp("eq", source, target), head, apart)
    e.start(apart)
    size = e.load(sizes, I64, 8)
    e.copy_bytes(target, source, size)
    e.jump(head)
