"""Contexts of exported libraries: made, run, their variables read and written, in native code.

Invariant: running allocates nothing. A run that fails leaves every variable as it was, and the text
of the error in the context.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.aot.native.binding import BIND, SAY, SAY_GUARD, program_of, refuse
from graphc.aot.native.records import (
    ALIGNMENT,
    BAD_ARGUMENT,
    BAD_INDEX,
    BAD_MATRIX,
    CONTEXT,
    HEAD_BYTES,
    MESSAGE_BYTES,
    NO_WORKSPACE,
    OK,
    PROGRAM,
    STATUS_WORDS,
    VARIABLE_FIELDS,
    WORD,
    areas,
    words_of,
)
from graphc.aot.tables import (
    CONSTANT,
    INPUT,
    MARK,
    OUTPUT,
    RENEWED,
    SLOT_FIELDS,
    TEMPORARY,
    VARIABLE,
)
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Record, Routine, Table
from graphc.codegen.llvm.types import I32, I64, PTR
from graphc.plan.abi import FAIL, LAUNCH, STEP_FIELDS, STEP_WORDS, WALKER

INITIALISE, RUN, NEED, MOVE = (
    "graphc_initialise", "graphc_run", "graphc_need", "graphc_move",
)  # fmt: skip
"""``void (context, program, weights, threads)``; ``i64 (context, symbols, inputs, outputs,
workspace, bytes)``; ``i64 (context)``, the bytes of a workspace; ``i64 (context, variable, memory,
bytes, writes)``, which reads or writes a variable."""


def emit_running(module: ModuleEmitter) -> None:
    """Defines these."""
    _emit_initialise(module)
    _emit_need(module)
    _emit_addresses(module)
    _emit_missing(module)
    _emit_run(module)
    _emit_failure(module)
    _emit_move(module)


def _emit_initialise(module: ModuleEmitter) -> None:
    """Makes a context of memory that is there: its areas, and what no size changes."""
    r = Routine(
        module, INITIALISE, {"context": PTR, "program": PTR, "weights": PTR, "threads": I64}
    )
    at, plan, weights, threads = r.parameters
    context, program = Record(CONTEXT, at), Record(PROGRAM, plan)
    context["program"], context["weights"], context["threads"] = plan, weights, threads
    context["bound"] = 0
    place = r.at(at, "i8", HEAD_BYTES)
    context["status"] = place
    r.fill_bytes(place, 0, WORD * STATUS_WORDS)
    place = r.at(place, "i8", WORD * STATUS_WORDS)
    context["message"] = place
    Table(place)[0] = 0
    place = r.at(place, "i8", MESSAGE_BYTES)
    for area, count in areas().items():
        context[f"{area}_at"] = place
        place = r.at(place, "i8", program[count] * (WORD * words_of(area)))
    r.fill_bytes(context["symbols_at"], 0, program["symbols"] * WORD)
    steps, rows = context.table("steps_at"), program.table("steps_at", I32)
    kernels = program.table("kernels", PTR)
    with r.each(program["steps"]) as n:
        step, row = n * STEP_WORDS, n * STEP_FIELDS
        r.fill_bytes(steps.at(step), 0, WORD * STEP_WORDS)
        steps[step + 2], steps[step + 3] = rows[row + 2], rows[row + 3]
        steps[step + 4] = rows[row + 4]
        # a program need not have any kernel
        with r.when(rows[row].equals(LAUNCH)):
            steps[step + 1] = r.number_of(kernels[rows[row + 1]])
    current, spare = context.table("current_at", PTR), context.table("spare_at", PTR)
    variables = program.table("variables_at")
    with r.each(program["variables"]) as n:
        row = n * VARIABLE_FIELDS
        initial = r.at(weights, "i8", variables[row])
        current[n] = initial
        spare[n] = initial
        second = variables[row + 3]
        # what a run writes needs memory of its own from the start
        with r.when(second.differs(0)):
            block = r.at(at, "i8", variables[row + 2])
            r.copy_bytes(block, initial, variables[row + 1])
            current[n] = block
            spare[n] = r.at(at, "i8", second)
    r.finish()


def _emit_need(module: ModuleEmitter) -> None:
    r = Routine(module, NEED, {"context": PTR}, I64)
    peak = Record(CONTEXT, r.parameters[0])["peak"]
    # room to begin on a cache line
    r.finish(r.select(peak.equals(0), peak, peak + ALIGNMENT))


def _emit_addresses(module: ModuleEmitter) -> None:
    """``graphc_addresses(context, inputs, outputs, base)`` fills the table of pointers."""
    r = Routine(
        module, "graphc_addresses", {"context": PTR, "inputs": PTR, "outputs": PTR, "base": PTR}
    )
    at, inputs, outputs, base = r.parameters
    context = Record(CONTEXT, at)
    program = program_of(context)
    slots, addresses = program.table("slots_at", I32), context.table("addresses_at", PTR)
    places: dict[int, Callable[[Reg], Reg]] = {
        INPUT: lambda n: Table(inputs, PTR)[n],
        OUTPUT: lambda n: Table(outputs, PTR)[n],
        VARIABLE: lambda n: context.table("current_at", PTR)[n],
        RENEWED: lambda n: context.table("spare_at", PTR)[n],
        TEMPORARY: lambda n: r.at(base, "i8", context.table("offsets_at")[n]),
        CONSTANT: lambda n: r.at(context["weights"], "i8", program.table("constants_at")[n]),
    }
    with r.each(program["slots"]) as slot:
        kind, number = slots[slot * SLOT_FIELDS], slots[slot * SLOT_FIELDS + 1]
        with r.when(number >= 0):
            for wanted, place in places.items():
                with r.when(kind.equals(wanted)):
                    addresses[slot] = place(number)
    pointers, entries = context.table("pointers_at", PTR), program.table("entries_at", I32)
    with r.each(program["entries"]) as n:
        pointers[n] = addresses[entries[n]]
    r.finish()


def _emit_missing(module: ModuleEmitter) -> None:
    """``i64 graphc_missing(context, arrays, count, bytes, text)`` refuses null but for empty."""
    r = Routine(
        module,
        "graphc_missing",
        {"context": PTR, "arrays": PTR, "count": I64, "bytes": PTR, "text": PTR},
        I64,
    )
    at, arrays, count, numbers, text = r.parameters
    sizes = Record(CONTEXT, at).table("sizes_at")
    with r.each(count) as n:
        some = sizes[Table(numbers, I32)[n]].differs(0)
        missing = arrays.is_null
        with r.when(missing & some):
            refuse(r, at, text, (n,), BAD_ARGUMENT)
        with r.when(missing.equals(0)), r.when(Table(arrays, PTR)[n].is_null & some):
            refuse(r, at, text, (n,), BAD_ARGUMENT)
    r.finish(OK)


def _emit_run(module: ModuleEmitter) -> None:
    r = Routine(
        module,
        RUN,
        {"context": PTR, "symbols": PTR, "inputs": PTR, "outputs": PTR, "workspace": PTR,
         "bytes": I64},
        I64,
    )  # fmt: skip
    at, symbols, inputs, outputs, workspace, size = r.parameters
    context = Record(CONTEXT, at)
    program = program_of(context)
    code = r.call(BIND, I64, at, symbols)
    with r.when(code.differs(OK)):
        r.give(code)
    for count, arrays, what in (("inputs", inputs, "input"), ("outputs", outputs, "output")):
        code = r.call(
            "graphc_missing", I64, at, arrays, program[count], program[f"{what}_bytes_at"],
            r.text(f"{what} {MARK} is NULL"),
        )  # fmt: skip
        with r.when(code.differs(OK)):
            r.give(code)
    need = r.call(NEED, I64, at)
    with r.when(workspace.is_null & need.differs(0)):
        text = r.text(f"the workspace is NULL; at these sizes {MARK} bytes are needed")
        refuse(r, at, text, (need,), NO_WORKSPACE)
    with r.when(size < need):
        text = r.text(f"the workspace has {MARK} bytes, {MARK} are needed at these sizes")
        refuse(r, at, text, (size, need), NO_WORKSPACE)
    base = r.address_of(r.number_of(workspace).up_to(ALIGNMENT))
    r.call("graphc_addresses", None, at, inputs, outputs, base)
    steps = program["steps"]
    never = r.room(1)
    never[0] = 0
    ended = r.call(
        WALKER, I64, context["steps_at"], steps, context["pointers_at"], context["cells_at"],
        context["status"], never.at(0),
    )  # fmt: skip
    with r.when(ended.differs(steps)):
        r.give(r.call("graphc_failure", I64, at, ended))
    with r.when(program["commit"] < 0):
        _exchange(r, context, program)
    r.finish(OK)


def _exchange(r: Routine, context: Record, program: Record) -> None:
    """Gives the variables that were written their new blocks."""
    current, spare = context.table("current_at", PTR), context.table("spare_at", PTR)
    rows = program.table("variables_at")
    with r.each(program["variables"]) as n, r.when(rows[n * VARIABLE_FIELDS + 3].differs(0)):
        old = current[n]
        current[n] = spare[n]
        spare[n] = old


def _emit_failure(module: ModuleEmitter) -> None:
    """``i64 graphc_failure(context, step)`` says what a kernel filled in, or a guard demands."""
    r = Routine(module, "graphc_failure", {"context": PTR, "step": I64}, I64)
    at, step = r.parameters
    context = Record(CONTEXT, at)
    program = program_of(context)
    status = context.table("status")
    rows, row = program.table("steps_at", I32), step * STEP_FIELDS
    kernel = rows[row + 1]
    with r.when(rows[row].equals(FAIL)):
        r.give(r.call(SAY_GUARD, I64, at, kernel))
    message = program.table("sites_at", I32)[kernel] + status[1]
    numbers = (status[2], status[3])
    r.fill_bytes(status.at(0), 0, WORD * STATUS_WORDS)
    text = program.table("messages_at", PTR)[message]
    with r.when(program.table("of_matrices_at", I32)[message].differs(0)):
        refuse(r, at, text, numbers, BAD_MATRIX)
    refuse(r, at, text, numbers, BAD_INDEX)
    r.finish()


def _emit_move(module: ModuleEmitter) -> None:
    """Reads a variable to memory, or writes it from there."""
    r = Routine(
        module,
        MOVE,
        {"context": PTR, "variable": I64, "memory": PTR, "bytes": I64, "writes": I64},
        I64,
    )
    at, variable, memory, size, writes = r.parameters
    context = Record(CONTEXT, at)
    program = program_of(context)
    with r.when((variable < 0) | (variable >= program["variables"])):
        text = r.text(f"there is no variable {MARK}; the library has {MARK}")
        refuse(r, at, text, (variable, program["variables"]), BAD_ARGUMENT)
    rows, row = program.table("variables_at"), variable * VARIABLE_FIELDS
    with r.when(size.differs(rows[row + 1])):
        text = r.text(f"variable {MARK} has {MARK} bytes, not {MARK}")
        refuse(r, at, text, (variable, rows[row + 1], size), BAD_ARGUMENT)
    with r.when(memory.is_null & size.differs(0)):
        refuse(r, at, r.text(f"the memory for variable {MARK} is NULL"), (variable,), BAD_ARGUMENT)
    current = context.table("current_at", PTR)
    with r.when(writes.equals(0)):
        r.copy_bytes(memory, current[variable], size)
        r.give(OK)
    # what the library only reads is still where the weights are
    with r.when(rows[row + 3].equals(0)):
        current[variable] = r.at(at, "i8", rows[row + 2])
    r.copy_bytes(current[variable], memory, size)
    r.finish(OK)


__all__ = ["INITIALISE", "MOVE", "NEED", "RUN", "SAY", "Reg", "emit_running"]
