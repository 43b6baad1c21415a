"""The functions of an exported library that C sees, over the routines of ``running``.

Each gives a code (``records``), none ends the process. A library may have several programs, for
processors of several levels; a context gets the best that its processor can run. This code itself
runs on any processor of the target's family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.aot.inside import (
    DIGEST,
    ENTRY_AT,
    FLAG_AT,
    HANDLER_AT,
    IMPORTS_AT,
    KERNELS,
    PROGRAM,
    WALKER_AT,
    WEIGHTS,
    WORKER_AT,
)
from graphc.aot.native.binding import BIND, program_of, refuse
from graphc.aot.native.records import (
    ALIGNMENT,
    BAD_ARGUMENT,
    BAD_CPU,
    BAD_WEIGHTS,
    CONTEXT,
    NO_MEMORY,
    OK,
    STATUS_TEXTS,
)
from graphc.aot.native.records import PROGRAM as PROGRAM_LAYOUT
from graphc.aot.native.running import INITIALISE, MOVE, NEED, RUN
from graphc.aot.tables import MAX_THREADS
from graphc.base.object_layouts import ENTRY, ENTRY_IMPORTS
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Record, Routine, Table
from graphc.codegen.llvm.types import I32, I64, PTR, LType
from graphc.plan.abi import POOL_ENTRY, WALKER, WORKER
from graphc.runtime.interrupt import FLAG, HANDLER

VERSION = 1
"""Of the C interface."""

CHOSEN = "graphc_chosen"
"""``ptr ()``: the program that this processor runs, or null."""

CPU_LEVEL = "graphc_cpu_level"
"""``i64 ()``: what the processor can do; see ``graphc.codegen.native.cpuid``."""

FUNCTIONS = (
    "signature", "status_text", "error", "context_bytes", "initialise", "create", "destroy",
    "set_threads", "workspace", "shape", "run", "get", "set", "internal",
)  # fmt: skip
"""The exported functions, without the prefix of the library's name. The last one is for
``graphc.aot.load`` and may change with every version."""

HOSTED = ("create", "destroy")
"""Those that need the memory and files of a C library."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What the functions of a library depend on.

    Attributes:
        name: prefix of its symbols.
        context_bytes: of a context, variables included.
        programs: symbols of programs, the best first, with the level each needs.
        pool: the symbol of the thread pool's record; None for a library without threads.
        weights: the symbol of the embedded weights; None where they are in a file.
        weights_bytes: the size of that file.
        weights_head: its first bytes, which tell whether it is the library's.
        weights_start: where the arrays begin in it.
        digest: of what the library is written for.
        hosted: whether there is a C library to take memory from.
        is_linux: whether the system tells how many processors may be used, and ``graphc.aot.load``
            may run the library, which then finds there what it needs.
        linkage: of what C sees, as the object format wants it.
    """

    name: str
    context_bytes: int
    programs: Sequence[tuple[str, int]]
    pool: str | None
    weights: str | None
    weights_bytes: int = 0
    weights_head: bytes = b""
    weights_start: int = 0
    digest: bytes = b""
    hosted: bool = True
    is_linux: bool = True
    linkage: str = ""

    def exported(self) -> tuple[str, ...]:
        """The symbols of its functions."""
        names = (name for name in FUNCTIONS if self.hosted or name not in HOSTED)
        return tuple(f"{self.name}_{name}" for name in names)


def emit_interface(module: ModuleEmitter, interface: Interface) -> None:
    """Defines the functions; ``signature`` is the writer's, who defines ``@graphc_signature``."""
    _emit_chosen(module, interface)
    _emit_threads(module, interface)
    _emit_begin(module, interface)
    if interface.hosted:
        _emit_create(module, interface)
        _emit_destroy(module, interface)
    _emit_texts(module, interface)
    _emit_calls(module, interface)
    _emit_internal(module, interface)


def _function(
    module: ModuleEmitter, interface: Interface, name: str, parameters: dict[str, LType],
    result: LType | None = I32,
) -> Routine:  # fmt: skip
    return Routine(
        module, f"{interface.name}_{name}", parameters, result, linkage=interface.linkage
    )


# --- programs and threads ------------------------------------------------------------------------


def _emit_chosen(module: ModuleEmitter, interface: Interface) -> None:
    r = Routine(module, CHOSEN, {}, PTR)
    needs_level = any(level for _, level in interface.programs)
    level = r.call(CPU_LEVEL, I64) if needs_level else r.const(0)
    for symbol, needed in interface.programs:
        with r.when(level >= needed):
            r.give(r.symbol(symbol))
    r.finish(r.const(0, PTR))


def _emit_threads(module: ModuleEmitter, interface: Interface) -> None:
    """``i64 graphc_threads(wanted)``: how many may run a kernel; 0 asks for all there are."""
    r = Routine(module, "graphc_threads", {"wanted": I64}, I64)
    (wanted,) = r.parameters
    if interface.pool is None:
        r.finish(1)
        return
    with r.when(wanted > 0):
        r.give(r.least(wanted, MAX_THREADS))
    if interface.is_linux:
        mask = r.room(_MASK_WORDS)
        r.fill_bytes(mask.at(0), 0, 8 * _MASK_WORDS)
        size = r.const(8 * _MASK_WORDS)
        r.external("sched_getaffinity", I32, r.narrow(0), size, mask.at(0))
        total = r.cell(0)
        with r.each(_MASK_WORDS) as n:
            ones = r.intrinsic("ctpop", I64, mask[n])
            total.value = total.value + ones
        r.give(r.most(r.least(total.value, MAX_THREADS), 1))
    r.finish(1)


_MASK_WORDS = 16
"""The system's set of processors, 1,024 bits."""


# --- contexts ------------------------------------------------------------------------------------


def _emit_begin(module: ModuleEmitter, interface: Interface) -> None:
    """``initialise`` and ``context_bytes``, for who has memory of their own."""
    r = _function(module, interface, "context_bytes", {}, I64)
    r.finish(interface.context_bytes)
    r = Routine(
        module, "graphc_begin", {"memory": PTR, "weights": PTR, "threads": I64}, I64
    )
    memory, weights, threads = r.parameters
    program = r.call(CHOSEN, PTR)
    with r.when(program.is_null):
        r.give(BAD_CPU)
    if interface.pool is not None:
        Table(r.at(r.symbol(interface.pool), "i8", POOL_ENTRY), PTR)[0] = r.symbol(WORKER)
    count = r.call("graphc_threads", I64, threads)
    r.call(INITIALISE, None, memory, program, weights, count)
    context = Record(CONTEXT, memory)
    context["memory"] = r.const(0, PTR)
    context["mapped"] = 0
    r.finish(OK)
    r = _function(
        module, interface, "initialise",
        {"memory": PTR, "bytes": I64, "weights": PTR, "threads": I32},
    )  # fmt: skip
    memory, size, weights, threads = r.parameters
    aligned = (r.number_of(memory) & (ALIGNMENT - 1)).equals(0)
    fits = (size >= interface.context_bytes) & aligned
    with r.when(memory.is_null | fits.equals(0)):
        r.give(BAD_ARGUMENT)
    if interface.weights is None:
        with r.when(weights.is_null):
            r.give(BAD_WEIGHTS)
    else:
        weights = r.symbol(interface.weights)
    r.finish(r.call("graphc_begin", I64, memory, weights, threads))


def _emit_create(module: ModuleEmitter, interface: Interface) -> None:
    r = _function(module, interface, "create", {"out": PTR, "weights": PTR, "threads": I32})
    out, path, threads = r.parameters
    with r.when(out.is_null):
        r.give(BAD_ARGUMENT)
    Table(out, PTR)[0] = 0
    room = r.external("malloc", PTR, r.const(interface.context_bytes + ALIGNMENT))
    with r.when(room.is_null):
        r.give(NO_MEMORY)
    memory = r.address_of((r.number_of(room) + 1).up_to(ALIGNMENT))
    if interface.weights is None:
        _emit_mapped(module, interface)
        found = r.call("graphc_mapped", PTR, path)
        with r.when(found.is_null):
            r.external("free", None, room)
            r.give(BAD_WEIGHTS)
        weights = r.at(found, "i8", interface.weights_start)
    else:
        found, weights = r.const(0, PTR), r.symbol(interface.weights)
    code = r.call("graphc_begin", I64, memory, weights, threads)
    with r.when(code.differs(OK)):
        if interface.weights is None:
            r.external("munmap", I32, found, r.const(interface.weights_bytes))
        r.external("free", None, room)
        r.give(code)
    context = Record(CONTEXT, memory)
    context["memory"] = room
    if interface.weights is None:
        context["mapped"] = interface.weights_bytes
    Table(out, PTR)[0] = memory
    r.finish(OK)


def _emit_mapped(module: ModuleEmitter, interface: Interface) -> None:
    """``ptr graphc_mapped(path)``: the file of weights, or null if it isn't the library's.

    Of the file its size and its head are compared, which has a hash of the rest.
    """
    r = Routine(module, "graphc_mapped", {"path": PTR}, PTR)
    (path,) = r.parameters
    with r.when(path.is_null):
        r.give(r.const(0, PTR))
    flags = _CLOSED_IN_CHILDREN if interface.is_linux else 0
    opened = r.external_variadic("open", I32, 2, path, r.narrow(flags))
    with r.when(opened < 0):
        r.give(r.const(0, PTR))
    file = r.narrow(opened)
    size = r.external("lseek", I64, file, r.const(0), r.narrow(2))
    right = size.equals(interface.weights_bytes)
    with r.when(right.equals(0)):
        r.external("close", I32, file)
        r.give(r.const(0, PTR))
    # for reading, and private: 1 and 2 on all systems that have it
    rights = r.narrow(1), r.narrow(2)
    found = r.external("mmap", PTR, r.const(0, PTR), size, *rights, file, r.const(0))
    r.external("close", I32, file)
    with r.when(r.number_of(found).equals(-1)):
        r.give(r.const(0, PTR))
    head = module.octets(interface.weights_head)
    same = r.external("memcmp", I32, found, r.symbol(head), r.const(len(interface.weights_head)))
    with r.when(same.differs(0)):
        r.external("munmap", I32, found, size)
        r.give(r.const(0, PTR))
    r.finish(found)


_CLOSED_IN_CHILDREN = 0x80000
"""Linux's O_CLOEXEC; files are opened for reading, which is 0 everywhere."""


def _emit_destroy(module: ModuleEmitter, interface: Interface) -> None:
    r = _function(module, interface, "destroy", {"context": PTR}, None)
    (at,) = r.parameters
    with r.when(at.is_null):
        r.give()
    context = Record(CONTEXT, at)
    room = context["memory"]
    with r.when(room.is_null):
        r.give()
    if interface.weights is None:
        start = r.at(context["weights"], "i8", -interface.weights_start)
        r.external("munmap", I32, start, context["mapped"])
    r.external("free", None, room)
    r.finish()


# --- texts ---------------------------------------------------------------------------------------


def _emit_texts(module: ModuleEmitter, interface: Interface) -> None:
    r = _function(module, interface, "signature", {}, PTR)
    r.finish(r.symbol("graphc_signature"))
    r = _function(module, interface, "status_text", {"code": I32}, PTR)
    (code,) = r.parameters
    for number, text in enumerate(STATUS_TEXTS):
        with r.when(code.equals(number)):
            r.give(r.text(text))
    r.finish(r.text("an unknown code"))
    r = _function(module, interface, "error", {"context": PTR}, PTR)
    (at,) = r.parameters
    with r.when(at.is_null):
        r.give(r.text("there is no context"))
    r.finish(Record(CONTEXT, at)["message"])


# --- calls ---------------------------------------------------------------------------------------


def _emit_calls(module: ModuleEmitter, interface: Interface) -> None:
    r = _function(module, interface, "set_threads", {"context": PTR, "threads": I32})
    at, threads = r.parameters
    _require(r, at)
    context = Record(CONTEXT, at)
    context["threads"] = r.call("graphc_threads", I64, threads)
    # the room for each thread is part of the workspace
    context["bound"] = 0
    r.finish(OK)

    r = _function(module, interface, "workspace", {"context": PTR, "dims": PTR, "bytes": PTR})
    at, dims, out = r.parameters
    _require(r, at, out)
    _bind(r, at, dims)
    Table(out)[0] = r.call(NEED, I64, at)
    r.finish(OK)

    r = _function(
        module, interface, "run",
        {"context": PTR, "dims": PTR, "inputs": PTR, "outputs": PTR, "workspace": PTR,
         "bytes": I64},
    )  # fmt: skip
    _require(r, r.parameters[0])
    _require_dims(r, *r.parameters[:2])
    r.finish(r.call(RUN, I64, *r.parameters))

    for name, writes in (("get", 0), ("set", 1)):
        r = _function(
            module, interface, name,
            {"context": PTR, "variable": I32, "memory": PTR, "bytes": I64},
        )  # fmt: skip
        at, variable, memory, size = r.parameters
        _require(r, at)
        r.finish(r.call(MOVE, I64, at, variable, memory, size, r.const(writes)))

    _emit_shape(module, interface)


def _emit_shape(module: ModuleEmitter, interface: Interface) -> None:
    """The sizes of an input (0), output (1) or variable (2) at these sizes of the dims."""
    r = _function(
        module, interface, "shape",
        {"context": PTR, "dims": PTR, "kind": I32, "index": I32, "shape": PTR},
    )  # fmt: skip
    at, dims, group, number, out = r.parameters
    _require(r, at, out)
    _bind(r, at, dims)
    context = Record(CONTEXT, at)
    program = program_of(context)
    first = r.cell(-1)
    start = r.const(0)
    for position, count in enumerate(("inputs", "outputs", "variables")):
        fits = group.equals(position) & (number >= 0) & (number < program[count])
        with r.when(fits):
            first.value = start + number
        start = start + program[count]
    with r.when(first.value < 0):
        r.give(BAD_ARGUMENT)
    rows, sizes = program.table("shapes_at", I32), context.table("sizes_at")
    begin = rows[first.value]
    shape = Table(out)
    with r.each(rows[first.value + 1] - begin) as axis:
        shape[axis] = sizes[rows[begin + axis]]
    r.finish(OK)


def _require(r: Routine, *addresses: Reg) -> None:
    """Ends the routine if an address is null."""
    for address in addresses:
        with r.when(address.is_null):
            r.give(BAD_ARGUMENT)


def _require_dims(r: Routine, at: Reg, dims: Reg) -> None:
    symbolic = program_of(Record(CONTEXT, at))["symbols"].differs(0)
    with r.when(dims.is_null & symbolic):
        refuse(r, at, r.text("dims is NULL"), (), BAD_ARGUMENT)


def _bind(r: Routine, at: Reg, dims: Reg) -> None:
    _require_dims(r, at, dims)
    code = r.call(BIND, I64, at, dims)
    with r.when(code.differs(OK)):
        r.give(code)


def _emit_internal(module: ModuleEmitter, interface: Interface) -> None:
    """Addresses for ``graphc.aot.load``, by the numbers of ``graphc.aot.inside``."""
    r = _function(module, interface, "internal", {"what": I32}, PTR)
    (what,) = r.parameters
    symbols = {WALKER_AT: WALKER}
    if interface.pool is not None:
        symbols[WORKER_AT] = WORKER
    if interface.weights is not None:
        symbols[WEIGHTS] = interface.weights
    if interface.is_linux:
        symbols |= {HANDLER_AT: HANDLER, FLAG_AT: FLAG, ENTRY_AT: ENTRY, IMPORTS_AT: ENTRY_IMPORTS}
    for number, symbol in symbols.items():
        with r.when(what.equals(number)):
            r.give(r.symbol(symbol))
    with r.when(what.equals(DIGEST)):
        r.give(r.symbol(module.octets(interface.digest)))
    chosen = r.call(CHOSEN, PTR)
    with r.when(chosen.is_null):
        r.give(chosen)
    with r.when(what.equals(PROGRAM)):
        for place, (symbol, _) in enumerate(interface.programs):
            with r.when(chosen.equals(r.symbol(symbol))):
                r.give(r.address_of(r.const(place + 1)))
    with r.when(what.equals(KERNELS)):
        r.give(Record(PROGRAM_LAYOUT, chosen)["kernels"])
    r.finish(r.const(0, PTR))


__all__ = ["CHOSEN", "CPU_LEVEL", "VERSION", "Interface", "emit_interface"]
