"""The native entry of executables: a function of CPython's C interface, as LLVM text.

One function serves every program of a process. It reads a table of what the program takes and
gives (``graphc.runtime.entry`` writes it), checks the arguments, takes an idle frame, makes the
results and runs the steps without the interpreter lock. Invariant: a call off the fast path
(another type, dtype, layout, rank, size or number of arguments, an unseen binding of the dims, no
idle frame, a failed step) goes to the careful callable before anything has changed. So this
function raises nothing of its own but a failed allocation.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.base.object_layouts import ENTRY, ENTRY_IMPORTS, FUNCTIONS, OBJECTS
from graphc.base.target import Target
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import Module, ModuleEmitter
from graphc.codegen.llvm.routine import Cell, Record, Routine, Table
from graphc.codegen.llvm.types import I1, I32, I64, PTR
from graphc.codegen.native.cpython import (
    EQUAL,
    FITS,
    OBJECT,
    POINT,
    RANK,
    TAKES,
    Interpreter,
    data_of,
    emit_array_functions,
)
from graphc.plan.abi import (
    FRAME_RELEASES,
    FRAME_WALKER,
    INPUT_WORDS,
    OUTPUT_WORDS,
    TABLE_WORDS,
)

_TABLE, _RECENT, _CAREFUL, _VALUES, _READ, _SPARES, _WRITTEN, _LENDS = range(8)
"""Items of the tuple that the built-in function is bound to: the table, the recent bindings, the
careful callable; the values of variables and the keys of those that are read; blocks to write new
values to and the keys of those that are written; whether values are lent."""

_DIMS, _IDLE, _MAKERS = range(3)
"""Items of a recent binding: its dims, idle frames, and for each result what makes an array."""

_SINGLE, _LIST, _TUPLE = range(3)
"""The container of the results."""

_DTYPE, _NUMBER = 0, 4
"""Words of an output's row: its dtype, and its number among what is written or -1."""

_STATUS_BYTES = 32

_BINDING, _RESULT, _RAN, _SIZE, _ITEM = (
    f"graphc_{name}" for name in ("binding_of", "result_of", "ran", "size_of", "item_of")
)


def emit_entry(target: Target, linkage: str = "") -> Module:
    """The module; ``linkage`` is that of the table of imports."""
    count = len(FUNCTIONS + OBJECTS)
    module = ModuleEmitter(target)
    module.constant(ENTRY_IMPORTS, f"{linkage} global [{count} x ptr] zeroinitializer, align 8")
    emit_array_functions(module)
    _emit_binding(module)
    _emit_result(module)
    _emit_ran(module)
    _emit_size(module)
    _emit_item(module)
    _emit_call(module)
    return module.module()


def _emit_binding(module: ModuleEmitter) -> None:
    """``ptr (recent, dims, count)``: the recent binding with these dims, borrowed, or null."""
    r = Routine(module, _BINDING, {"recent": PTR, "dims": PTR, "count": I64}, PTR)
    recent, dims, count = r.parameters
    python = Interpreter(r)
    with r.each(python.call("PyList_Size", I64, recent)) as n:
        bound = python.call("PyList_GetItem", PTR, recent, n)
        known = data_of(python.item(bound, _DIMS))
        with r.when(r.call(EQUAL, I1, known, dims, count)):
            r.give(bound)
    r.finish(0)


def _emit_result(module: ModuleEmitter) -> None:
    """``ptr (self, maker, row, dims)``: an array for a result, or null where there is no memory."""
    r = Routine(module, _RESULT, dict.fromkeys(("self", "maker", "row", "dims"), PTR), PTR)
    own, maker, row, dims = r.parameters
    python = Interpreter(r)
    number = Table(row)[_NUMBER]
    with r.when(number >= 0):
        spares, key = python.item(own, _SPARES), python.item(python.item(own, _WRITTEN), number)
        with r.when(_lends(python, own)):
            # to this program, and the caller sees to it that there are values
            lent = python.call("PyDict_GetItem", PTR, python.item(own, _VALUES), key)
            python.hold(lent)
            r.give(lent)
        spare = python.call("PyDict_GetItem", PTR, spares, key)
        with r.when(~spare.is_null):
            python.hold(spare)
            python.call("PyDict_DelItem", I32, spares, key)
            r.give(spare)
    with r.when(maker.differs(python.object("_Py_NoneStruct"))):
        r.give(python.call("PyObject_CallNoArgs", PTR, maker))
    dtype = Table(row, PTR)[_DTYPE]
    # the array keeps the reference
    python.hold(dtype)
    rank = r.narrow(Table(row)[RANK])
    r.finish(python.call("PyArray_Empty", PTR, rank, dims, dtype, r.narrow(0)))


def _lends(python: Interpreter, own: Reg) -> Reg:
    """Whether a program writes variables in place."""
    return Table(data_of(python.item(own, _LENDS)))[0].differs(0)


def _emit_ran(module: ModuleEmitter) -> None:
    """``i1 (record)`` runs a frame; whether it ran to the end. The words of its record are the
    arguments of the loop over steps."""
    r = Routine(module, _RAN, {"record": PTR}, I1)
    record = Table(r.parameters[0])
    python = Interpreter(r)
    steps, count, pointers, dims, status = (record[FRAME_WALKER + n] for n in range(1, 6))
    releases, state = record[FRAME_RELEASES].differs(0), r.cell(r.const(0, PTR))
    with r.when(releases):
        state.value = python.call("PyEval_SaveThread", PTR)
    walker = Table(record.at(FRAME_WALKER), PTR)[0]
    never = r.symbol(module.constant_table("never", "i32", [0]))
    stopped = r.call_at(walker, I64, steps, count, pointers, dims, status, never)
    with r.when(releases):
        python.call("PyEval_RestoreThread", None, state.value)
    with r.when(stopped.differs(count)):
        r.fill_bytes(r.address_of(status), 0, _STATUS_BYTES)
        r.give(False)
    r.finish(True)


def _emit_size(module: ModuleEmitter) -> None:
    """``i64 (target, container)``: how many items a list or tuple has."""
    r = Routine(module, _SIZE, {"target": PTR, "container": I64}, I64)
    target, container = r.parameters
    with r.when(container.equals(_LIST)):
        r.give(Interpreter(r).call("PyList_Size", I64, target))
    r.finish(Interpreter(r).call("PyTuple_Size", I64, target))


def _emit_item(module: ModuleEmitter) -> None:
    """``ptr (target, container, number)``: an item of a list or tuple, or the single array."""
    r = Routine(module, _ITEM, {"target": PTR, "container": I64, "number": I64}, PTR)
    target, container, number = r.parameters
    with r.when(container.equals(_SINGLE)):
        r.give(target)
    with r.when(container.equals(_LIST)):
        r.give(Interpreter(r).call("PyList_GetItem", PTR, target, number))
    r.finish(Interpreter(r).item(target, number))


class _Table:
    """The table of a program: its inputs and outputs."""

    def __init__(self, at: Reg) -> None:
        words = Table(at)
        self.at = at
        self.arguments, self.inputs, self.outputs, self.container, self.rank = (
            words[n] for n in range(5)
        )
        self._input_rows = words.at(TABLE_WORDS)
        self._output_rows = words.at(words[5])
        self.in_place = words[6]

    def input(self, number: Reg) -> Table:
        """The row of an input."""
        return Table(Table(self._input_rows).at(number * INPUT_WORDS))

    def output(self, number: Reg) -> Table:
        """The row of a result."""
        return Table(Table(self._output_rows).at(number * OUTPUT_WORDS))


def _emit_call(module: ModuleEmitter) -> None:
    """The entry itself."""
    r = Routine(
        module, ENTRY, {"self": PTR, "args": PTR, "given": I64, "names": PTR}, PTR, linkage=""
    )
    own, args, given, names = r.parameters
    python, null = Interpreter(r), r.const(0, PTR)
    with r.region() as careful_if:
        table = _Table(data_of(python.item(own, _TABLE)))
        dims = r.room_for(table.rank)
        objects = Table(r.room_for(table.inputs + table.outputs).at(0), PTR)
        careful_if(given.differs(table.arguments))
        careful_if(_lends(python, own) & table.in_place.equals(0))
        target, container = r.cell(null), r.cell(_SINGLE)
        with r.when(~names.is_null):
            _find_target(r, table, (args, given, names), target, container, careful_if)
        _check_inputs(r, table, (own, args), dims, objects, careful_if)
        recent = python.item(own, _RECENT)
        bound = r.call(_BINDING, PTR, recent, dims.at(0), table.rank)
        careful_if(bound.is_null)
        idle = python.item(bound, _IDLE)
        count = python.call("PyList_Size", I64, idle)
        careful_if(count.equals(0))
        sizes = Table(data_of(python.item(bound, _DIMS))).at(table.rank)
        with r.when(~target.value.is_null):
            _check_targets(r, table, (target, container), sizes, objects, careful_if)
        frame = python.call("PyList_GetItem", PTR, idle, count - 1)
        python.hold(frame)
        python.hold(bound)
        python.call("PyList_SetSlice", I32, idle, count - 1, count, null)
        record = Table(data_of(python.item(frame, 0)))
        pointers = r.address_of(record[FRAME_WALKER + 3])
        # from here on every object is held: others may drop theirs while the lock is released
        with r.each(table.inputs) as n:
            python.hold(objects[n])
            r.call(POINT, None, objects[n], pointers, table.at, table.input(n).at(INPUT_WORDS - 2))
        result, again = r.cell(null), r.cell(0)
        with r.region() as release_if:
            makers = python.item(bound, _MAKERS)
            places = (own, makers, target.value, pointers, sizes)
            _make_results(r, table, places, objects, result, release_if)
            with r.when(~r.call(_RAN, I1, record.at(0))):
                # the careful callable runs it again and says what was wrong
                python.drop(result.value)
                again.value = 1
        with r.when(python.call("PyList_Append", I32, idle, frame) < 0):
            python.call("PyErr_Clear", None)
        python.drop(frame)
        python.drop(bound)
        with r.each(table.inputs) as n:
            python.drop(objects[n])
        with r.when(again.value.equals(0)):
            r.give(result.value)
    careful = python.item(own, _CAREFUL)
    r.finish(python.call("PyObject_Vectorcall", PTR, careful, args, given, names))


def _find_target(
    r: Routine,
    table: _Table,
    call: tuple[Reg, Reg, Reg],
    target: Cell,
    container: Cell,
    careful_if: Callable[[Reg], None],
) -> None:
    """The only name there may be is ``out``; its value stands behind the arguments. For several
    results that is a list or tuple of as many."""
    python, (args, given, names) = Interpreter(r), call
    careful_if(python.call("PyTuple_Size", I64, names).differs(1))
    careful_if(python.item(names, 0).differs(python.object("graphc_out")))
    out = Table(args, PTR)[given]
    with r.when(out.differs(python.object("_Py_NoneStruct"))):
        target.value = out
        with r.when(table.container.differs(_SINGLE)):
            type_ = Record(OBJECT, out)["type"]
            is_list = type_.equals(python.object("PyList_Type"))
            careful_if(~(is_list | type_.equals(python.object("PyTuple_Type"))))
            container.value = r.select(is_list, _LIST, _TUPLE)
            careful_if(r.call(_SIZE, I64, out, container.value).differs(table.outputs))


def _check_inputs(
    r: Routine,
    table: _Table,
    sources: tuple[Reg, Reg],
    dims: Table,
    objects: Table,
    careful_if: Callable[[Reg], None],
) -> None:
    """Finds the arrays that are read, and their dims."""
    python, (own, args) = Interpreter(r), sources
    at = r.cell(dims.at(0))
    with r.each(table.inputs) as n:
        row = table.input(n)
        source, found = row[0], r.cell(r.const(0, PTR))
        with r.when(source >= 0):
            found.value = Table(args, PTR)[source]
        with r.when(source < 0):
            key = python.item(python.item(own, _READ), source ^ -1)
            found.value = python.call("PyDict_GetItem", PTR, python.item(own, _VALUES), key)
            careful_if(found.value.is_null)
        careful_if(~r.call(FITS, I1, found.value, row.at(0), at.value))
        objects[n] = found.value
        at.value = Table(at.value).at(row[RANK])


def _check_targets(
    r: Routine,
    table: _Table,
    given: tuple[Cell, Cell],
    sizes: Reg,
    objects: Table,
    careful_if: Callable[[Reg], None],
) -> None:
    """Puts arrays for results behind the inputs: later ones must not overlap them either."""
    target, container = given
    at = r.cell(sizes)
    with r.each(table.outputs) as n:
        row, others = table.output(n), table.inputs + n
        into = r.call(_ITEM, PTR, target.value, container.value, n)
        fits = r.call(TAKES, I1, into, row.at(0), at.value, objects.at(0), others)
        careful_if(~fits)
        objects[others] = into
        at.value = Table(at.value).at(row[RANK])


def _make_results(
    r: Routine,
    table: _Table,
    places: tuple[Reg, Reg, Reg, Reg, Reg],
    objects: Table,
    result: Cell,
    release_if: Callable[[Reg], None],
) -> None:
    """Makes arrays for the results, in their container; leaves without a result if there is no
    memory, for which NumPy has raised an error by then."""
    python, (own, makers, target, pointers, sizes) = Interpreter(r), places
    for container, make in ((_LIST, "PyList_New"), (_TUPLE, "PyTuple_New")):
        with r.when(table.container.equals(container)):
            result.value = python.call(make, PTR, table.outputs)
            release_if(result.value.is_null)
    at = r.cell(sizes)
    with r.each(table.outputs) as n:
        row, made = table.output(n), r.cell(r.const(0, PTR))
        with r.when(target.is_null):
            maker = python.item(makers, n)
            made.value = r.call(_RESULT, PTR, own, maker, row.at(0), at.value)
            with r.when(made.value.is_null):
                with r.when(~result.value.is_null):
                    python.drop(result.value)
                result.value = 0
            release_if(made.value.is_null)
        with r.when(~target.is_null):
            made.value = objects[table.inputs + n]
            python.hold(made.value)
        r.call(POINT, None, made.value, pointers, table.at, row.at(OUTPUT_WORDS - 2))
        with r.when(table.container.equals(_SINGLE)):
            result.value = made.value
        for container, put in ((_LIST, "PyList_SetItem"), (_TUPLE, "PyTuple_SetItem")):
            with r.when(table.container.equals(container)):
                python.call(put, I32, result.value, n, made.value)
        at.value = Table(at.value).at(row[RANK])


__all__ = ["emit_entry"]
