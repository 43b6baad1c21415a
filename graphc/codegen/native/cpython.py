"""CPython's and NumPy's objects in routines: their layouts, and functions about arrays.

Invariant: an array is read only after its type was compared. The layouts are those of CPython with
its lock and NumPy 2; ``graphc.runtime.entry`` checks them before any of this is used.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.base.object_layouts import (
    ARRAY_DATA,
    ARRAY_DIMS,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_RANK,
    DTYPE_KIND,
    DTYPE_SIZE,
    ENTRY_IMPORTS,
    FUNCTIONS,
    OBJECT_TYPE,
    OBJECTS,
    PLAIN,
    WRITEABLE,
)
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Record, RecordLayout, Routine, Table
from graphc.codegen.llvm.types import I1, I32, I64, PTR, LType

OBJECT = RecordLayout("object", {"type": PTR}, {"type": OBJECT_TYPE})

_ARRAY = RecordLayout(
    "array",
    {"type": PTR, "data": PTR, "rank": I32, "dims": PTR, "dtype": PTR, "flags": I32},
    {"type": OBJECT_TYPE, "data": ARRAY_DATA, "rank": ARRAY_RANK, "dims": ARRAY_DIMS,
     "dtype": ARRAY_DTYPE, "flags": ARRAY_FLAGS},
)  # fmt: skip

_DTYPE = RecordLayout("dtype", {"kind": I64, "size": I64}, {"kind": DTYPE_KIND, "size": DTYPE_SIZE})

KIND, SIZE, RANK = 1, 2, 3
"""Words of the row that describes an array: the kind word of its dtype, bytes an element, rank."""

POINT, FITS, EQUAL, TAKES = "graphc_point", "graphc_fits", "graphc_equal", "graphc_takes"
"""``void (array, pointers, table, list)`` writes an array's address to its entries of the pointer
table; the list has where in the table its entries start, and how many there are. ``i1 (object, row,
dims)``: whether an object is the plain array that a row describes; if so, its dims are copied.
``i1 (a, b, count)`` of int64s. ``i1 (object, row, dims, others, count)``: whether a result that a
row describes, of these dims, can be written to an object: it is a plain array that can be written
and has no byte in common with the others."""


class Interpreter:
    """Calls from a routine into CPython and NumPy.

    Addresses come from the table of imports, so the same text serves in a library, which neither
    names nor needs CPython when it is linked.
    """

    def __init__(self, r: Routine) -> None:
        self._r = r

    def object(self, name: str) -> Reg:
        """The address of a function or an object."""
        return Table(self._r.symbol(ENTRY_IMPORTS), PTR)[(*FUNCTIONS, *OBJECTS).index(name)]

    def call(self, name: str, result: LType | None, *operands: Reg | int) -> Reg:
        """Calls a function."""
        return self._r.call_at(self.object(name), result, *operands)

    def item(self, of: Reg, number: Reg | int) -> Reg:
        """An item of a tuple, borrowed."""
        return self.call("PyTuple_GetItem", PTR, of, number)

    def hold(self, item: Reg) -> None:
        """Takes a reference."""
        self.call("Py_IncRef", None, item)

    def drop(self, item: Reg) -> None:
        """Gives one back."""
        self.call("Py_DecRef", None, item)


def data_of(array: Reg) -> Reg:
    """Where an array's elements start."""
    return Record(_ARRAY, array)["data"]


def emit_array_functions(module: ModuleEmitter) -> None:
    """Defines ``POINT``, ``FITS``, ``EQUAL`` and ``TAKES``."""
    _emit_point(module)
    _emit_fits(module)
    _emit_equal(module)
    _emit_takes(module)


def _emit_point(module: ModuleEmitter) -> None:
    r = Routine(module, POINT, dict.fromkeys(("array", "pointers", "table", "list"), PTR))
    array, pointers, table, entries = r.parameters
    data, into = data_of(array), Table(pointers, PTR)
    places = Table(Table(table).at(Table(entries)[0]))
    with r.each(Table(entries)[1]) as n:
        into[places[n]] = data
    r.finish()


def _emit_fits(module: ModuleEmitter) -> None:
    r = Routine(module, FITS, dict.fromkeys(("object", "row", "dims"), PTR), I1)
    found, row, dims = r.parameters
    with r.region() as leave_if:
        array = _described(r, found, Table(row), PLAIN, leave_if)
        own, into = Table(array["dims"]), Table(dims)
        with r.each(array["rank"]) as axis:
            into[axis] = own[axis]
        r.give(True)
    r.finish(False)


def _described(
    r: Routine, found: Reg, row: Table, flags: int, leave_if: Callable[[Reg], None]
) -> Record:
    """An object as an array with these flags and what a row says beside dims; leaves if it is not.
    """
    array = Record(_ARRAY, found)
    leave_if(array["type"].differs(Interpreter(r).object("PyArray_Type")))
    dtype = Record(_DTYPE, array["dtype"])
    has_layout = array["rank"].equals(row[RANK]) & (array["flags"] & flags).equals(flags)
    has_dtype = dtype["kind"].equals(row[KIND]) & dtype["size"].equals(row[SIZE])
    leave_if(~(has_layout & has_dtype))
    return array


def _emit_equal(module: ModuleEmitter) -> None:
    r = Routine(module, EQUAL, {"a": PTR, "b": PTR, "count": I64}, I1)
    a, b, count = r.parameters
    with r.each(count) as n, r.when(Table(a)[n].differs(Table(b)[n])):
        r.give(False)
    r.finish(True)


def _range(r: Routine, array: Record) -> tuple[Reg, Reg]:
    """The addresses of an array's first byte and of the one behind its last, as numbers."""
    size = r.cell(Record(_DTYPE, array["dtype"])["size"])
    dims = Table(array["dims"])
    with r.each(array["rank"]) as axis:
        size.value = size.value * dims[axis]
    first = r.number_of(array["data"])
    return first, first + size.value


def _emit_takes(module: ModuleEmitter) -> None:
    r = Routine(
        module, TAKES,
        {"object": PTR, "row": PTR, "dims": PTR, "others": PTR, "count": I64}, I1,
    )  # fmt: skip
    found, row, dims, others, count = r.parameters
    with r.region() as leave_if:
        array = _described(r, found, Table(row), PLAIN | WRITEABLE, leave_if)
        leave_if(~r.call(EQUAL, I1, array["dims"], dims, array["rank"]))
        first, end = _range(r, array)
        with r.each(count) as n:
            other_first, other_end = _range(r, Record(_ARRAY, Table(others, PTR)[n]))
            # end <= other_first or other_end <= first, of places that are not negative
            leave_if((end > other_first) & (other_end > first))
        r.give(True)
    r.finish(False)


__all__ = [
    "EQUAL",
    "FITS",
    "OBJECT",
    "POINT",
    "RANK",
    "TAKES",
    "Interpreter",
    "data_of",
    "emit_array_functions",
]
