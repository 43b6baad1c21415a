"""Routines: native code about words, tables and records, written with Python's operators.

Kernels are about lanes; what stands around them (contexts of exported libraries, the thread pool)
is about counts and addresses. A ``Routine`` is a function under emission, a ``Word`` one of its
operands: an int64, an address or a truth value. ``a + b`` emits an addition, ``table[i]`` a load,
``table[i] = w`` a store. Variables are places on the stack: nothing here needs a phi.

Invariant: numbers are int64s in registers; int32s in memory are widened when they are read. Records
and tables are laid out by LLVM, so that the same routine serves targets whose addresses have 32
bits, unless a layout says where its fields stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphc.codegen.llvm.emitter import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    FunctionEmitter,
    LType,
    ModuleEmitter,
    Reg,
)


class Word:
    """An operand of a routine."""

    __slots__ = ("reg", "routine")

    def __init__(self, routine: Routine, reg: Reg) -> None:
        self.routine = routine
        self.reg = reg

    def _binary(self, operation: str, other: Word | int) -> Word:
        e = self.routine.e
        return Word(
            self.routine, e.binary(operation, self.reg, self.routine.word(other, self.reg.type).reg)
        )

    def _compare(self, predicate: str, other: Word | int) -> Word:
        e = self.routine.e
        return Word(
            self.routine, e.icmp(predicate, self.reg, self.routine.word(other, self.reg.type).reg)
        )

    def __add__(self, other: Word | int) -> Word:
        return self._binary("add", other)

    def __sub__(self, other: Word | int) -> Word:
        return self._binary("sub", other)

    def __mul__(self, other: Word | int) -> Word:
        return self._binary("mul", other)

    def __floordiv__(self, other: Word | int) -> Word:
        """Rounds towards zero; operands of routines are not negative."""
        return self._binary("sdiv", other)

    def __and__(self, other: Word | int) -> Word:
        return self._binary("and", other)

    def __or__(self, other: Word | int) -> Word:
        return self._binary("or", other)

    def __xor__(self, other: Word | int) -> Word:
        return self._binary("xor", other)

    def __invert__(self) -> Word:
        """The opposite of a truth value."""
        return self ^ 1

    def __lshift__(self, other: Word | int) -> Word:
        return self._binary("shl", other)

    def __rshift__(self, other: Word | int) -> Word:
        """Brings in zeros."""
        return self._binary("lshr", other)

    def __lt__(self, other: Word | int) -> Word:
        return self._compare("slt", other)

    def __gt__(self, other: Word | int) -> Word:
        return self._compare("sgt", other)

    def __ge__(self, other: Word | int) -> Word:
        return self._compare("sge", other)

    def equals(self, other: Word | int) -> Word:
        """Whether both are the same."""
        return self._compare("eq", other)

    def differs(self, other: Word | int) -> Word:
        """Whether they are not the same."""
        return self._compare("ne", other)

    @property
    def is_null(self) -> Word:
        """Whether an address is null."""
        return Word(self.routine, self.routine.e.icmp("eq", self.reg, Reg("null", PTR)))

    def up_to(self, alignment: int) -> Word:
        """The next multiple of a power of two."""
        return (self + (alignment - 1)) & -alignment


class Cell:
    """A variable of a routine: an int64 or an address."""

    __slots__ = ("_place", "_type", "routine")

    def __init__(self, routine: Routine, initial: Word) -> None:
        self.routine = routine
        self._type = initial.reg.type
        self._place = routine.e.alloca(self._type, 1, 8)
        self.value = initial

    @property
    def value(self) -> Word:
        return Word(self.routine, self.routine.e.load(self._place, self._type, 8))

    @value.setter
    def value(self, value: Word | int) -> None:
        self.routine.e.store(self.routine.word(value, self._type).reg, self._place, 8)


class Table:
    """Elements of one type from an address on."""

    __slots__ = ("_base", "_type", "routine")

    def __init__(self, base: Word, type_: LType = I64) -> None:
        self.routine = base.routine
        self._base = base
        self._type = type_

    def at(self, index: Word | int) -> Word:
        """The address of an element."""
        r = self.routine
        return Word(
            r, r.e.element_pointer(self._base.reg, r.word(index).reg, str(self._type))
        )

    def __getitem__(self, index: Word | int) -> Word:
        r = self.routine
        return r.widened(r.e.load(self.at(index).reg, self._type, self._align))

    def __setitem__(self, index: Word | int, value: Word | int) -> None:
        r = self.routine
        r.e.store(r.narrowed(value, self._type), self.at(index).reg, self._align)

    @property
    def _align(self) -> int:
        # addresses have 4 bytes on some targets; saying less than is true does no harm
        return 4 if self._type is PTR else self._type.bits // 8


@dataclass(frozen=True, slots=True)
class Layout:
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

    __slots__ = ("_address", "_layout", "_order", "routine")

    def __init__(self, layout: Layout, address: Word) -> None:
        self.routine = address.routine
        self._address = address
        self._layout = layout
        self._order = {name: number for number, name in enumerate(layout.fields)}

    def at(self, field: str) -> Word:
        """The address of a field."""
        r, layout = self.routine, self._layout
        if layout.places is not None:
            return r.moved(self._address, layout.places[field])
        place = f"%{layout.name}, {self._address.reg}, i32 0, i32 {self._order[field]}"
        return Word(r, r.e.assign(PTR, f"getelementptr inbounds {place}"))

    def __getitem__(self, field: str) -> Word:
        r = self.routine
        return r.widened(r.e.load(self.at(field).reg, self._layout.fields[field], 4))

    def __setitem__(self, field: str, value: Word | int) -> None:
        r = self.routine
        r.e.store(r.narrowed(value, self._layout.fields[field]), self.at(field).reg, 4)

    def shared(self, field: str) -> Shared:
        """A field that several threads read and write."""
        return Shared(self.at(field), self._layout.fields[field])

    def table(self, field: str, type_: LType = I64) -> Table:
        """The table whose address a field holds."""
        return Table(self[field], type_)


Leave: TypeAlias = Callable[[Word], None]
"""Leaves a block if a condition holds."""

Order: TypeAlias = Literal["monotonic", "acquire", "release", "acq_rel", "seq_cst"]


class Shared:
    """A place in memory that several threads read and write, atomically.

    Attributes:
        at: its address.
    """

    __slots__ = ("_type", "at", "routine")

    def __init__(self, at: Word, type_: LType) -> None:
        self.routine = at.routine
        self.at = at
        self._type = type_

    def load(self, order: Order) -> Word:
        """Its value."""
        text = f"load atomic {self._type}, {self.at.reg} {order}, align {self._bytes}"
        return self.routine.widened(self.routine.e.assign(self._type, text))

    def store(self, value: Word | int, order: Order) -> None:
        """Gives it a value."""
        stored = self.routine.narrowed(value, self._type)
        text = f"store atomic {stored}, {self.at.reg} {order}, align {self._bytes}"
        self.routine.e.line(text)

    def add(self, amount: Word | int, order: Order) -> Word:
        """Adds to it; the value before."""
        return self._modify("add", amount, order)

    def exchange(self, value: Word | int, order: Order) -> Word:
        """Gives it a value; the value before."""
        return self._modify("xchg", value, order)

    def compare_exchange(self, expected: Word, value: Word) -> tuple[Word, Word]:
        """Gives it a value if it has the expected one; what was found, and whether it was that."""
        r = self.routine
        pair = r.e.fresh("pair")
        words = f"{r.narrowed(expected, self._type)}, {r.narrowed(value, self._type)}"
        r.e.line(f"{pair} = cmpxchg {self.at.reg}, {words} acq_rel acquire")
        kind = f"{{ {self._type}, i1 }}"
        found = r.e.assign(self._type, f"extractvalue {kind} {pair}, 0")
        return r.widened(found), Word(r, r.e.assign(I1, f"extractvalue {kind} {pair}, 1"))

    def _modify(self, operation: str, operand: Word | int, order: Order) -> Word:
        r = self.routine
        text = f"{self.at.reg}, {r.narrowed(operand, self._type)} {order}"
        return r.widened(r.e.assign(self._type, f"atomicrmw {operation} {text}"))

    @property
    def _bytes(self) -> int:
        return self._type.bits // 8


class Routine:
    """A function under emission; ``finish`` defines it.

    Attributes:
        e: the emitter below.
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
        self._result = result
        self.e = FunctionEmitter(
            module,
            name,
            [(str(type_), f"%{parameter}") for parameter, type_ in parameters.items()],
            "void" if result is None else str(result),
            linkage=linkage,
        )
        self.parameters = tuple(
            self.widened(Reg(f"%{parameter}", type_)) for parameter, type_ in parameters.items()
        )

    # --- operands --------------------------------------------------------------------------------

    def word(self, value: Word | int, type_: LType = I64) -> Word:
        """A literal, or the operand itself; 0 as an address is null."""
        if isinstance(value, Word):
            return value
        if type_ is PTR:
            assert value == 0, "the only address that is known is null"
            return Word(self, Reg("null", PTR))
        return Word(self, self.e.const(value, type_))

    def symbol(self, name: str) -> Word:
        """The address of something the module defines or declares."""
        return Word(self, Reg(f"@{name}", PTR))

    def text(self, text: str) -> Word:
        """The address of a constant text that ends in a zero."""
        return Word(self, self.e.module.string(text))

    def cell(self, initial: Word | int) -> Cell:
        """A variable."""
        return Cell(self, self.word(initial))

    def widened(self, found: Reg) -> Word:
        """What stands in memory, or comes from a function, as an operand."""
        if found.type in (I32, I8):
            found = self.e.convert("sext" if found.type is I32 else "zext", found, "i64")
        return Word(self, found)

    def narrowed(self, value: Word | int, type_: LType) -> Reg:
        """An operand as what stands in memory, or functions take."""
        if isinstance(value, int):
            return self.word(value, type_).reg
        is_wide = value.reg.type is I64 and type_ in (I32, I8)
        return self.e.convert("trunc", value.reg, type_.element) if is_wide else value.reg

    def narrow(self, value: Word | int) -> Word:
        """An int32, for functions of the system."""
        return Word(self, self.narrowed(value, I32))

    def choose(self, condition: Word, yes: Word | int, no: Word | int) -> Word:
        """One of two operands."""
        type_ = yes.reg.type if isinstance(yes, Word) else I64
        one, other = self.word(yes, type_), self.word(no, type_)
        return Word(self, self.e.select(condition.reg, one.reg, other.reg))

    def least(self, a: Word, b: Word | int) -> Word:
        """The smaller one."""
        return Word(self, self.e.intrinsic("smin", I64, a.reg, self.word(b).reg))

    def most(self, a: Word, b: Word | int) -> Word:
        """The greater one."""
        return Word(self, self.e.intrinsic("smax", I64, a.reg, self.word(b).reg))

    def number_of(self, address: Word) -> Word:
        """An address as an int64."""
        return Word(self, self.e.assign(I64, f"ptrtoint {address.reg} to i64"))

    def address_of(self, number: Word) -> Word:
        """An int64 as an address."""
        return Word(self, self.e.assign(PTR, f"inttoptr {number.reg} to ptr"))

    def moved(self, address: Word, by: Word | int) -> Word:
        """An address so many bytes on."""
        return Table(address, I8).at(by)

    def room(self, words: int) -> Table:
        """Int64s on the stack."""
        return Table(Word(self, self.e.alloca(I64, words, 8)))

    def room_for(self, words: Word) -> Table:
        """The same for a number that is known at run time; not in loops, where it would add up."""
        return Table(Word(self, self.e.assign(PTR, f"alloca i64, {words.reg}, align 8")))

    # --- calls -----------------------------------------------------------------------------------

    def call(self, name: str, result: LType | None, *operands: Word) -> Word:
        """Calls a function of the module; an int32 comes back widened."""
        return self.widened(self.e.call(name, result, *(word.reg for word in operands)))

    def call_at(self, code: Word, result: LType | None, *operands: Word) -> Word:
        """Calls what is at an address; an int32 comes back widened."""
        words = ", ".join(str(word.reg) for word in operands)
        if result is None:
            self.e.line(f"call void {code.reg.text}({words})")
            return Word(self, Reg("", I64))
        return self.widened(self.e.assign(result, f"call {result} {code.reg.text}({words})"))

    def external(self, name: str, result: LType | None, *operands: Word) -> Word:
        """Declares a function of the system and calls it."""
        types = ", ".join(str(word.reg.type) for word in operands)
        self.e.module.declare(name, "void" if result is None else str(result), types)
        return self.call(name, result, *operands)

    def external_variadic(self, name: str, result: LType, fixed: int, *operands: Word) -> Word:
        """The same for a function that takes any number of operands beside the fixed ones."""
        types = ", ".join([*(str(word.reg.type) for word in operands[:fixed]), "..."])
        self.e.module.declare(name, str(result), types)
        words = ", ".join(str(word.reg) for word in operands)
        return self.widened(self.e.assign(result, f"call {result} ({types}) @{name}({words})"))

    def copy(self, target: Word, source: Word, size: Word | int) -> None:
        """Copies bytes between places that don't overlap."""
        self.e.copy_bytes(target.reg, source.reg, self.word(size).reg)

    def clear(self, target: Word, size: Word | int) -> None:
        """Sets bytes to zero."""
        self.e.fill_bytes(target.reg, 0, self.word(size).reg)

    # --- control ---------------------------------------------------------------------------------

    @contextmanager
    def loop(self, count: Word | int) -> Iterator[Word]:
        """The block for 0, 1, 2 … below the count."""
        with self.e.loop(self.e.const(0, I64), self.word(count).reg, 1) as loop:
            yield Word(self, loop.index)

    @contextmanager
    def when(self, condition: Word) -> Iterator[None]:
        """The block if the condition holds."""
        with self.e.when(condition.reg):
            yield

    @contextmanager
    def region(self) -> Iterator[Leave]:
        """The block, up to where a condition holds that what it is given is called with."""
        with self.e.region() as region:
            yield lambda condition: region.leave_if(condition.reg)

    @contextmanager
    def repeat(self) -> Iterator[Leave]:
        """The same again and again, until a condition holds."""
        with self.e.repeat() as region:
            yield lambda condition: region.leave_if(condition.reg)

    @contextmanager
    def forever(self) -> Iterator[None]:
        """The block again and again, until it gives a result."""
        head, done = self.e.label("head"), self.e.label("done")
        self.e.jump(head)
        self.e.start(head)
        yield
        self.e.jump(head)
        self.e.start(done)

    def give(self, value: Word | int = 0) -> None:
        """Returns; what is emitted behind it in the same block is never reached."""
        self._return(value)
        self.e.start(self.e.label("never"))

    def finish(self, value: Word | int = 0) -> None:
        """Returns, and defines the function."""
        if self._result is None:
            self.e.finish()
            return
        self.e.finish(f"ret {self._operand(value)}")

    def _return(self, value: Word | int) -> None:
        self.e.line("ret void" if self._result is None else f"ret {self._operand(value)}")

    def _operand(self, value: Word | int) -> Reg:
        assert self._result is not None
        return self.narrowed(value, self._result)


def words(values: Sequence[int], bits: int = 32) -> str:
    """The initial value of a table of integers."""
    items = ", ".join(f"i{bits} {value}" for value in values)
    return f"[{len(values)} x i{bits}] [{items}]"


__all__ = ["I1", "Cell", "Layout", "Record", "Routine", "Shared", "Table", "Word", "words"]
