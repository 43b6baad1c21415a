"""From the sizes of the symbolic dims to places and steps, in native code.

The same as ``graphc.runtime.tables``, ``graphc.plan.memory.offsets_for_sizes`` and
``graphc.runtime.tasks`` do in Python, over the same tables. Invariant: a context is bound
only while its tables are right for its symbols; a failure leaves it unbound, and the text of the
error in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.aot.native.records import (
    BAD_DIMS,
    CONTEXT,
    MESSAGE_BYTES,
    OK,
    PROGRAM,
)
from graphc.aot.tables import MARK
from graphc.base.tuning.tasks import TASKS
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Record, Routine, Table
from graphc.codegen.llvm.types import I1, I8, I32, I64, PTR
from graphc.plan.abi import (
    CUT_FIELDS,
    FAIL,
    GROUP,
    GROUP_FIELDS,
    GUARD_FIELDS,
    IDLE_FIELDS,
    LAUNCH,
    PARALLEL,
    SKIP,
    STEP_FIELDS,
    STEP_WORDS,
)

BIND, SAY, SAY_GUARD = "graphc_bind", "graphc_say", "graphc_say_guard"
"""``i64 (context, symbols)``; ``i64 (context, template, numbers, code)`` and
``i64 (context, guard)``, which give the code."""

_HOLDS = "graphc_holds"
"""``i64 (context, guard)``; sizes must be evaluated."""

SHOWN = 16
"""Numbers that the message of a guard names at most."""

_DIGITS = 24


def emit_binding(module: ModuleEmitter, pool: str | None) -> None:
    """Defines ``BIND`` and ``SAY``; ``pool`` is the symbol of the thread pool's record, if any."""
    _emit_digits(module)
    _emit_say(module)
    _emit_offsets(module)
    if pool is not None:
        _emit_span(module)
        _emit_groups(module, pool)
    _emit_steps(module, pool)
    _emit_guards(module)
    _emit_bind(module)


def program_of(context: Record) -> Record:
    """The program that a context is of."""
    return Record(PROGRAM, context["program"])


def refuse(r: Routine, context: Reg, text: Reg, numbers: Sequence[Reg], code: int) -> None:
    """Ends the routine with an error whose message names these numbers."""
    room = r.room(max(1, len(numbers)))
    for position, number in enumerate(numbers):
        room[position] = number
    r.give(r.call(SAY, I64, context, text, room.at(0), r.const(code)))


# --- text ----------------------------------------------------------------------------------------


def _emit_digits(module: ModuleEmitter) -> None:
    """``i64 graphc_digits(text, at, number)`` writes a number and gives the place behind it."""
    r = Routine(module, "graphc_digits", {"text": PTR, "at": I64, "number": I64}, I64)
    text, at, number = r.parameters
    room, out = Table(text, I8), r.cell(at)
    left = r.cell(number)
    with r.when(number < 0):
        room[out.value] = ord("-")
        out.value = out.value + 1
        left.value = r.const(0) - number
    digits, count = r.room(_DIGITS), r.cell(0)
    with r.forever():
        # unsigned, since the least int64 has no counterpart
        value = left.value
        rest = value.udiv(10)
        digits[count.value] = value - rest * 10
        count.value = count.value + 1
        left.value = rest
        with r.when(rest.equals(0)):
            with r.each(count.value) as k:
                room[out.value + k] = digits[count.value - 1 - k] + ord("0")
            r.give(out.value + count.value)
    r.finish()


def _emit_say(module: ModuleEmitter) -> None:
    """Writes the text of an error."""
    r = Routine(
        module, SAY, {"context": PTR, "template": PTR, "numbers": PTR, "code": I64}, I64
    )
    at, template, given, code = r.parameters
    out = Record(CONTEXT, at)["message"]
    text, source, numbers = Table(out, I8), Table(template, I8), Table(given)
    read, written, used = r.cell(0), r.cell(0), r.cell(0)
    with r.forever():
        letter = source[read.value]
        with r.when(letter.equals(0) | (written.value > MESSAGE_BYTES - _DIGITS - 1)):
            text[written.value] = 0
            r.give(code)
        with r.when(letter.differs(ord(MARK))):
            text[written.value] = letter
            written.value = written.value + 1
        with r.when(letter.equals(ord(MARK))):
            number = numbers[used.value]
            written.value = r.call("graphc_digits", I64, out, written.value, number)
            used.value = used.value + 1
        read.value = read.value + 1
    r.finish()


# --- sizes ---------------------------------------------------------------------------------------


def _emit_bind(module: ModuleEmitter) -> None:
    """Makes a context ready for sizes of the symbols, if it isn't already."""
    r = Routine(module, BIND, {"context": PTR, "given": PTR}, I64)
    at, given = r.parameters
    context = Record(CONTEXT, at)
    program = program_of(context)
    count, sizes = program["symbols"], Table(given)
    known = context.table("symbols_at")
    changed = r.cell(r.const(1) - context["bound"])
    with r.each(count) as i, r.when(sizes[i].differs(known[i])):
        changed.value = 1
    with r.when(changed.value.equals(0)):
        r.give(OK)
    context["bound"] = 0
    bounds, messages = program.table("bounds_at"), program.table("symbol_messages_at", PTR)
    with r.each(count) as i:
        size, lower, upper = sizes[i], bounds[i * 2], bounds[i * 2 + 1]
        with r.when((size < lower) | (size > upper)):
            refuse(r, at, messages[i], (size, lower, upper), BAD_DIMS)
        known[i] = size
    evaluate = program["evaluate"]
    overflow = r.call_at(evaluate, I1, known.at(0), context["sizes_at"])
    with r.when(overflow):
        text = r.text("these sizes are too large: what is computed of them exceeds 64 bits")
        refuse(r, at, text, (), BAD_DIMS)
    code = r.call("graphc_guards", I64, at)
    with r.when(code.differs(OK)):
        r.give(code)
    r.call("graphc_offsets", None, at)
    r.call("graphc_steps", None, at)
    context["bound"] = 1
    r.finish(OK)


def _emit_guards(module: ModuleEmitter) -> None:
    """``i64 graphc_guards(context)`` checks what is known only now; sizes must be evaluated."""
    _emit_holds(module)
    _emit_say_guard(module)
    r = Routine(module, "graphc_guards", {"context": PTR}, I64)
    (at,) = r.parameters
    guards = program_of(Record(CONTEXT, at))["guards"]
    with r.each(guards) as n, r.when(r.call(_HOLDS, I64, at, n).equals(0)):
        r.give(r.call(SAY_GUARD, I64, at, n))
    r.finish(OK)


def _emit_holds(module: ModuleEmitter) -> None:
    r = Routine(module, _HOLDS, {"context": PTR, "guard": I64}, I64)
    at, guard = r.parameters
    context = Record(CONTEXT, at)
    sizes, rows = context.table("sizes_at"), program_of(context).table("guards_at", I32)
    row = guard * GUARD_FIELDS
    left, right = sizes[rows[row]], sizes[rows[row + 1]]
    may = rows[row + 2].differs(0) & left.equals(1)
    r.finish(r.select(left.equals(right) | may, r.const(1), 0))


def _emit_say_guard(module: ModuleEmitter) -> None:
    r = Routine(module, SAY_GUARD, {"context": PTR, "guard": I64}, I64)
    at, guard = r.parameters
    context = Record(CONTEXT, at)
    program = program_of(context)
    sizes, rows = context.table("sizes_at"), program.table("guards_at", I32)
    shown, numbers = program.table("shown_at", I32), r.room(SHOWN)
    row = guard * GUARD_FIELDS
    with r.each(rows[row + 5]) as k:
        numbers[k] = sizes[shown[rows[row + 4] + k]]
    text = program.table("messages_at", PTR)[rows[row + 3]]
    r.finish(r.call(SAY, I64, at, text, numbers.at(0), r.const(BAD_DIMS)))


def _emit_offsets(module: ModuleEmitter) -> None:
    """``graphc_offsets(context)``: where each buffer lies in the arena, and how large that is."""
    r = Routine(module, "graphc_offsets", {"context": PTR})
    (at,) = r.parameters
    context = Record(CONTEXT, at)
    program = program_of(context)
    sizes, count = context.table("sizes_at"), program["buffers"]
    extents, offsets = context.table("extents_at"), context.table("offsets_at")
    roots, copies = program.table("roots_at", I32), program.table("copies_at", I32)
    r.fill_bytes(extents.at(0), 0, count * 8)
    with r.each(count) as b:
        size = r.most(sizes[program.table("buffers_at", I32)[b]], 0)
        # a buffer of each thread, as far as there are threads
        size = size * r.least(copies[b], context["threads"])
        root = roots[b]
        extents[root] = r.most(extents[root], size)
    starts, below = program.table("starts_at", I32), program.table("below_at", I32)
    peak = r.cell(0)
    with r.each(program["roots"]) as n:
        root = program.table("order_at", I32)[n]
        end = r.cell(0)
        first = starts[root]
        with r.each(starts[root + 1] - first) as k:
            under = below[first + k]
            end.value = r.most(end.value, offsets[under] + extents[under])
        alignment = program.table("alignments_at", I32)[root]
        offset = (end.value + alignment - 1) & (r.const(0) - alignment)
        offsets[root] = offset
        peak.value = r.most(peak.value, offset + extents[root])
    with r.each(count) as b:
        offsets[b] = offsets[roots[b]]
    context["peak"] = peak.value
    r.finish()


def _emit_steps(module: ModuleEmitter, pool: str | None) -> None:
    """``graphc_steps(context)``: the dims that kernels get, and how launches are cut."""
    r = Routine(module, "graphc_steps", {"context": PTR})
    (at,) = r.parameters
    context = Record(CONTEXT, at)
    program = program_of(context)
    sizes, symbols = context.table("sizes_at"), context.table("symbols_at")
    cells, sources = context.table("cells_at"), program.table("cells_at", I32)
    with r.each(program["cells"]) as n:
        source = sources[n]
        with r.when(source < 0):
            cells[n] = sizes[r.const(-1) - source]
        with r.when(source >= 0):
            cells[n] = symbols[source]
    steps, rows = context.table("steps_at"), program.table("steps_at", I32)
    with r.each(program["steps"]) as n:
        kind = rows[n * STEP_FIELDS]
        steps[n * STEP_WORDS] = kind
        with r.when(kind.equals(FAIL)):
            holds = r.call(_HOLDS, I64, at, rows[n * STEP_FIELDS + 1])
            steps[n * STEP_WORDS] = r.select(holds.differs(0), r.const(SKIP), FAIL)
    cuts = program.table("cuts_at", I32)
    with r.each(program["cuts"]) as n:
        row = n * CUT_FIELDS
        step = cuts[row] * STEP_WORDS
        extent, work = sizes[cuts[row + 1]], sizes[cuts[row + 2]]
        steps[step + 4] = extent
        if pool is not None:
            seats = r.least(cuts[row + 3], context["threads"])
            grain = grain_of(r, work, extent, seats, cuts[row + 4])
            steps[step] = r.select(grain > 0, r.const(PARALLEL), LAUNCH)
            steps[step + 5] = grain
            steps[step + 6] = r.select(work < TASKS.wake_work, r.const(0) - seats, seats)
            steps[step + 7] = r.number_of(r.symbol(pool))
    if pool is not None:
        r.call("graphc_groups", None, at)
    idle, idle_sizes = program.table("idle_at", I32), program.table("idle_sizes_at", I32)
    with r.each(program["idle"]) as n:
        total, row = r.cell(0), n * IDLE_FIELDS
        with r.each(idle[row + 2]) as k:
            total.value = total.value + sizes[idle_sizes[idle[row + 1] + k]]
        with r.when(total.value.equals(0)):
            steps[idle[row] * STEP_WORDS] = SKIP
    r.finish()


def _emit_groups(module: ModuleEmitter, pool: str) -> None:
    """``graphc_groups(context)``: which groups of steps are handed out, as ``write_tasks`` says."""
    r = Routine(module, "graphc_groups", {"context": PTR})
    (at,) = r.parameters
    context = Record(CONTEXT, at)
    program, threads = program_of(context), context["threads"]
    sizes, steps = context.table("sizes_at"), context.table("steps_at")
    rows, cuts = program.table("groups_at", I32), program.table("cuts_at", I32)
    works = program.table("works_at", I32)
    with r.each(program["groups"]) as n:
        step, place, tasks, first, cut, within = (rows[n * GROUP_FIELDS + k] for k in range(6))
        seats = r.least(tasks, threads)
        total, shared = r.cell(0), r.cell(0)
        with r.each(tasks) as k:
            total.value = total.value + sizes[works[first + k]]
        with r.each(within) as k:
            row = (cut + k) * CUT_FIELDS
            with r.when(steps[cuts[row] * STEP_WORDS].equals(PARALLEL)):
                sharing = r.least(cuts[row + 3], threads)
                saved = sizes[cuts[row + 2]] * (sharing - 1) // sharing - TASKS.group_work // 2
                shared.value = shared.value + saved
        span = r.call("graphc_span", I64, sizes.at(0), works.at(first), tasks, seats)
        pays = total.value - span - TASKS.group_work > shared.value
        with r.when((seats > 1) & pays):
            row = step * STEP_WORDS
            steps[row] = GROUP
            steps[row + 5] = r.number_of(program.table("group_bounds_at").at(place))
            asleep = total.value < TASKS.wake_work
            steps[row + 6] = r.select(asleep, r.const(0) - seats, seats)
            steps[row + 7] = r.number_of(r.symbol(pool))
    r.finish()


def _emit_span(module: ModuleEmitter) -> None:
    """``i64 graphc_span(sizes, numbers, tasks, seats)``: ``task_size.span_beside`` in native code.

    ``numbers`` are those of what the tasks take. The longest one that is left goes to the seat that
    has least to do.
    """
    r = Routine(
        module, "graphc_span", {"sizes": PTR, "numbers": PTR, "tasks": I64, "seats": I64}, I64
    )
    sizes, numbers = Table(r.parameters[0]), Table(r.parameters[1], I32)
    tasks, seats = r.parameters[2:]
    works, loads = r.room_for(tasks), r.room_for(seats)
    with r.each(tasks) as k:
        works[k] = sizes[numbers[k]]
    r.fill_bytes(loads.at(0), 0, seats * 8)
    span = r.cell(0)
    with r.each(tasks):
        longest, lightest = r.cell(0), r.cell(0)
        with r.each(tasks) as k, r.when(works[k] > works[longest.value]):
            longest.value = k
        with r.each(seats) as k, r.when(loads[k] < loads[lightest.value]):
            lightest.value = k
        load = loads[lightest.value] + works[longest.value]
        loads[lightest.value] = load
        works[longest.value] = -1
        span.value = r.most(span.value, load)
    r.finish(span.value)


def grain_of(r: Routine, work: Reg, extent: Reg, seats: Reg, least: Reg) -> Reg:
    """``graphc.kernel.analysis.task_size.grain_of`` in native code."""
    most = r.least(work // TASKS.task_work, seats * TASKS.tasks_per_thread)
    wanted = r.least(most, extent // least)
    tasks = r.most(wanted, 1)

    def longest(grain: Reg) -> Reg:
        rounds = (extent + grain - 1) // grain
        return (rounds + seats - 1) // seats * grain

    coarse = r.most((extent + tasks - 1) // tasks, 1)
    fine = r.most(extent // tasks, least)
    best = r.select(longest(fine) < longest(coarse), fine, coarse)
    serial = (work < TASKS.serial_work) | (seats < 2) | (tasks < 2)
    return r.select(serial, r.const(0), best)


__all__ = ["BIND", "SAY", "SAY_GUARD", "SHOWN", "emit_binding", "grain_of", "program_of", "refuse"]
