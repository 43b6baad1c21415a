"""Routines: native code about words, tables and records.

Kernels are about lanes; what stands around them (contexts of exported libraries, the thread pool)
is about counts and addresses. A ``Routine`` is a function whose operands are int64s, addresses and
truth values; ``table[i]`` emits a load, ``table[i] = w`` a store. Variables are places on the
stack: nothing here needs a phi.

Invariant: numbers are int64s in registers; int32s in memory are widened when they are read. Records
and tables are laid out by LLVM, so that the same routine serves targets whose addresses have 32
bits, unless a layout says where its fields stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter, symbol
from graphc.codegen.llvm.types import I1, I8, I32, I64, PTR, LType


def widened(found: Reg) -> Reg:
    """What stands in memory, or comes from a function, as an operand of routines."""
    if found.type is I32:
        return found.e.convert("sext", found, "i64")
    return found.e.convert("zext", found, "i64") if found.type is I8 else found


class Cell:
    """A variable of a routine: an int64 or an address."""

    __slots__ = ("_e", "_place", "_type")

    def __init__(self, initial: Reg) -> None:
        self._e = initial.e
        self._type = initial.type
        self._place = self._e.alloca(self._type, 1, 8)
        self.value = initial

    @property
    def value(self) -> Reg:
        return self._e.load(self._place, self._type, 8)

    @value.setter
    def value(self, value: Reg | int) -> None:
        self._e.store(self._e.like(value, self._type), self._place, 8)


class Table:
    """Elements of one type from an address on."""

    __slots__ = ("_base", "_e", "_type")

    def __init__(self, base: Reg, type_: LType = I64) -> None:
        self._e = base.e
        self._base = base
        self._type = type_

    def at(self, index: Reg | int) -> Reg:
        """The address of an element."""
        return self._e.at(self._base, self._type.text, index)

    def __getitem__(self, index: Reg | int) -> Reg:
        return widened(self._e.load(self.at(index), self._type, self._align))

    def __setitem__(self, index: Reg | int, value: Reg | int) -> None:
        e = self._e
        e.store(e.narrowed(value, self._type), self.at(index), self._align)

    @property
    def _align(self) -> int:
        # addresses have 4 bytes on some targets; saying less than is true does no harm
        return 4 if self._type is PTR else self._type.bits // 8


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The fields of a record, in order; each an int64, an int32 or an address.

    Attributes:
        name: of the type.
        fields: their types.
        places: how many bytes stand before each; LLVM decides where there are none.
    """

    name: str
    fields: Mapping[str, LType]
    places: Mapping[str, int] | None = None

    @property
    def definition(self) -> str:
        """Of the type, as a line of a module."""
        return f"%{self.name} = type {{ {', '.join(map(str, self.fields.values()))} }}"


class Record:
    """A record at an address: ``record["count"]`` is the value of a field, and can be set."""

    __slots__ = ("_address", "_e", "_layout", "_order")

    def __init__(self, layout: RecordLayout, address: Reg) -> None:
        self._e = address.e
        self._address = address
        self._layout = layout
        self._order = {name: number for number, name in enumerate(layout.fields)}

    def at(self, field: str) -> Reg:
        """The address of a field."""
        layout = self._layout
        if layout.places is not None:
            return self._e.at(self._address, "i8", layout.places[field])
        place = f"%{layout.name}, {self._address}, i32 0, i32 {self._order[field]}"
        return self._e.assign(PTR, f"getelementptr inbounds {place}")

    def __getitem__(self, field: str) -> Reg:
        return widened(self._e.load(self.at(field), self._layout.fields[field], 4))

    def __setitem__(self, field: str, value: Reg | int) -> None:
        e = self._e
        e.store(e.narrowed(value, self._layout.fields[field]), self.at(field), 4)

    def shared(self, field: str) -> Shared:
        """A field that several threads read and write."""
        return Shared(self.at(field), self._layout.fields[field])

    def table(self, field: str, type_: LType = I64) -> Table:
        """The table whose address a field holds."""
        return Table(self[field], type_)


Order: TypeAlias = Literal["monotonic", "acquire", "release", "acq_rel", "seq_cst"]


class Shared:
    """A place in memory that several threads read and write, atomically.

    Attributes:
        at: its address.
    """

    __slots__ = ("_e", "_type", "at")

    def __init__(self, at: Reg, type_: LType) -> None:
        self._e = at.e
        self.at = at
        self._type = type_

    def load(self, order: Order) -> Reg:
        """Its value."""
        text = f"load atomic {self._type}, {self.at} {order}, align {self._bytes}"
        return widened(self._e.assign(self._type, text))

    def store(self, value: Reg | int, order: Order) -> None:
        """Gives it a value."""
        stored = self._e.narrowed(value, self._type)
        self._e.line(f"store atomic {stored}, {self.at} {order}, align {self._bytes}")

    def add(self, amount: Reg | int, order: Order) -> Reg:
        """Adds to it; the value before."""
        return self._modify("add", amount, order)

    def exchange(self, value: Reg | int, order: Order) -> Reg:
        """Gives it a value; the value before."""
        return self._modify("xchg", value, order)

    def compare_exchange(self, expected: Reg, value: Reg) -> tuple[Reg, Reg]:
        """Gives it a value if it has the expected one; what was found, and whether it was that."""
        e = self._e
        pair = e.fresh("pair")
        words = f"{e.narrowed(expected, self._type)}, {e.narrowed(value, self._type)}"
        e.line(f"{pair} = cmpxchg {self.at}, {words} acq_rel acquire")
        kind = f"{{ {self._type}, i1 }}"
        found = widened(e.assign(self._type, f"extractvalue {kind} {pair}, 0"))
        return found, e.assign(I1, f"extractvalue {kind} {pair}, 1")

    def _modify(self, operation: str, operand: Reg | int, order: Order) -> Reg:
        text = f"{self.at}, {self._e.narrowed(operand, self._type)} {order}"
        return widened(self._e.assign(self._type, f"atomicrmw {operation} {text}"))

    @property
    def _bytes(self) -> int:
        return self._type.bits // 8


class Routine(FunctionEmitter):
    """A function under emission; ``finish`` defines it.

    Attributes:
        parameters: the operands it is called with, in order; int32s are widened.
    """

    def __init__(
        self,
        module: ModuleEmitter,
        name: str,
        parameters: Mapping[str, LType],
        result: LType | None = None,
        *,
        linkage: str = "internal",
    ) -> None:
        super().__init__(module, name, parameters, result, linkage=linkage)
        self.parameters = tuple(widened(self.parameter(parameter)) for parameter in parameters)

    # --- operands --------------------------------------------------------------------------------

    def text(self, text: str) -> Reg:
        """The address of a constant text that ends in a zero."""
        return self.symbol(self.module.string(text))

    def cell(self, initial: Reg | int) -> Cell:
        """A variable."""
        return Cell(self.like(initial))

    def narrow(self, value: Reg | int) -> Reg:
        """An int32, for functions of the system."""
        return self.narrowed(value, I32)

    def number_of(self, address: Reg) -> Reg:
        """An address as an int64."""
        return self.assign(I64, f"ptrtoint {address} to i64")

    def address_of(self, number: Reg) -> Reg:
        """An int64 as an address."""
        return self.assign(PTR, f"inttoptr {number} to ptr")

    def room(self, words: int) -> Table:
        """Int64s on the stack."""
        return Table(self.alloca(I64, words, 8))

    def room_for(self, words: Reg) -> Table:
        """The same for a number that is known at run time; not in loops, where it would add up."""
        return Table(self.assign(PTR, f"alloca i64, {words}, align 8"))

    # --- calls -----------------------------------------------------------------------------------

    def call(self, name: str, result: LType | None, *operands: Reg | int) -> Reg:
        """Calls a function of the module; an int32 comes back widened."""
        return widened(super().call(name, result, *operands))

    def call_at(self, code: Reg, result: LType | None, *operands: Reg | int) -> Reg:
        """Calls what is at an address; an int32 comes back widened."""
        return widened(super().call_at(code, result, *operands))

    def external(self, name: str, result: LType | None, *operands: Reg | int) -> Reg:
        """Declares a function of the system and calls it."""
        types = ", ".join([self.like(operand).type.text for operand in operands])
        self.module.declare(name, "void" if result is None else str(result), types)
        return self.call(name, result, *operands)

    def external_variadic(self, name: str, result: LType, fixed: int, *operands: Reg | int) -> Reg:
        """The same for a function that takes any number of operands beside the fixed ones."""
        given = [self.like(operand) for operand in operands]
        types = ", ".join([*(operand.type.text for operand in given[:fixed]), "..."])
        self.module.declare(name, str(result), types)
        words = ", ".join(map(str, given))
        return widened(self.assign(result, f"call {result} ({types}) {symbol(name)}({words})"))


def words(values: Sequence[int], bits: int = 32) -> str:
    """The initial value of a table of integers."""
    items = ", ".join(f"i{bits} {value}" for value in values)
    return f"[{len(values)} x i{bits}] [{items}]"


__all__ = ["Cell", "Record", "RecordLayout", "Routine", "Shared", "Table", "widened", "words"]
