"""Instructions, emitted front to back through a thin typed layer.

Operands know the code that they belong to, so arithmetic on them is Python's: ``a + b`` emits an
addition. Everything above scalars goes through one type-generic interface: the same calls emit
``float`` or ``<16 x float>``, so that vector body and scalar tail agree to the bit. Text is parsed
by LLVM; that is an order of magnitude faster than building IR object by object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from graphc.codegen.llvm.module import ModuleEmitter, symbol
from graphc.codegen.llvm.types import I8, I32, I64, PTR, LType, constant_text, ltype


class Reg:
    """A typed operand of code under emission: a register or a constant.

    Arithmetic on it emits instructions, in the order in which Python evaluates. Numbers beside it
    are literals of its type. Division, shifts to the right and comparisons of integers are those of
    LLVM that operators are given here; the others are methods.

    Attributes:
        e: the code.
        text: how it is spelled, without its type.
        type: its type.
        value: of a literal, the number that it is in all lanes; else None.
    """

    __slots__ = ("e", "text", "type", "value")

    # literals are no subclass: Python would compare ``register < literal`` the other way round
    def __init__(
        self, e: Instructions, text: str, type_: LType, value: float | None = None
    ) -> None:
        self.e = e
        self.text = text
        self.type = type_
        self.value = value

    def __str__(self) -> str:
        return f"{self.type.text} {self.text}"

    def __bool__(self) -> NoReturn:
        raise TypeError("what an operand is only a run tells; compare with None, or emit a branch")

    def __add__(self, other: Reg | float) -> Reg:
        return self.e.binary("fadd" if self.type.is_float else "add", self, other)

    def __sub__(self, other: Reg | float) -> Reg:
        return self.e.binary("fsub" if self.type.is_float else "sub", self, other)

    def __mul__(self, other: Reg | float) -> Reg:
        return self.e.binary("fmul" if self.type.is_float else "mul", self, other)

    def __radd__(self, other: float) -> Reg:
        return self.e.const(other, self.type) + self

    def __rsub__(self, other: float) -> Reg:
        return self.e.const(other, self.type) - self

    def __rmul__(self, other: float) -> Reg:
        return self.e.const(other, self.type) * self

    def __truediv__(self, other: Reg | float) -> Reg:
        """Of floats."""
        return self.e.binary("fdiv", self, other)

    def __rtruediv__(self, other: float) -> Reg:
        return self.e.const(other, self.type) / self

    def __floordiv__(self, other: Reg | int) -> Reg:
        """Of signed integers; rounds towards zero."""
        return self.e.binary("sdiv", self, other)

    def udiv(self, other: Reg | int) -> Reg:
        """The quotient of unsigned integers."""
        return self.e.binary("udiv", self, other)

    def __neg__(self) -> Reg:
        if self.type.is_float:
            return self.e.assign(self.type, f"fneg {self}")
        return 0 - self

    def __and__(self, other: Reg | int) -> Reg:
        return self.e.binary("and", self, other)

    def __or__(self, other: Reg | int) -> Reg:
        return self.e.binary("or", self, other)

    def __xor__(self, other: Reg | int) -> Reg:
        return self.e.binary("xor", self, other)

    def __invert__(self) -> Reg:
        """All bits inverted: the opposite of a truth value."""
        return self ^ -1

    def __lshift__(self, other: Reg | int) -> Reg:
        return self.e.binary("shl", self, other)

    def __rshift__(self, other: Reg | int) -> Reg:
        """Brings in zeros."""
        return self.e.binary("lshr", self, other)

    def ashr(self, other: Reg | int) -> Reg:
        """A shift to the right that brings in copies of the sign."""
        return self.e.binary("ashr", self, other)

    def __lt__(self, other: Reg | float) -> Reg:
        return self._compare("slt", "olt", other)

    def __le__(self, other: Reg | float) -> Reg:
        return self._compare("sle", "ole", other)

    def __gt__(self, other: Reg | float) -> Reg:
        return self._compare("sgt", "ogt", other)

    def __ge__(self, other: Reg | float) -> Reg:
        return self._compare("sge", "oge", other)

    def equals(self, other: Reg | float) -> Reg:
        """Whether both are the same; NaN is not."""
        return self._compare("eq", "oeq", other)

    def differs(self, other: Reg | float) -> Reg:
        """Whether they are not the same; NaN is not even itself."""
        return self._compare("ne", "une", other)

    @property
    def is_null(self) -> Reg:
        """Whether an address is null."""
        return self.equals(0)

    def down_to(self, alignment: int) -> Reg:
        """The multiple of a power of two at or below it."""
        return self & -alignment

    def up_to(self, alignment: int) -> Reg:
        """The multiple of a power of two at or above it."""
        return (self + (alignment - 1)) & -alignment

    def _compare(self, integers: str, floats: str, other: Reg | float) -> Reg:
        e = self.e
        if self.type.is_float:
            return e.fcmp(floats, self, other)
        return e.icmp(integers, self, other)


def is_literal(operand: Reg, value: float) -> bool:
    """True if the operand is this number, whatever a run does."""
    return operand.value is not None and operand.value == value


class Instructions:
    """Straight-line code under emission. Names of registers are fresh.

    Attributes:
        module: what declares what it calls.
    """

    def __init__(self, module: ModuleEmitter) -> None:
        self.module = module
        self._stack: list[str] = ["entry:"]
        self._opaque: dict[str, Reg] = {}
        self._literals: dict[tuple[float, LType], Reg] = {}
        self._lines: list[str] = []
        self._count = 0

    def line(self, text: str) -> None:
        """A line as it is."""
        self._lines.append("  " + text)

    def fresh(self, hint: str = "t") -> str:
        """A new register name."""
        self._count += 1
        return f"%{hint}{self._count}"

    def assign(self, type_: LType, text: str, hint: str = "t") -> Reg:
        """``%new = text``, of that type."""
        self._count += 1
        register = f"%{hint}{self._count}"
        self._lines.append(f"  {register} = {text}")
        return Reg(self, register, type_)

    # --- constants -------------------------------------------------------------------------------

    def const(self, value: float, type_: LType = I64) -> Reg:
        """A literal, in all lanes; 0 as an address is null."""
        if not value and type_.is_float:
            # zeros of both signs are one key
            return Reg(self, constant_text(value, type_), type_, value)
        known = self._literals.get((value, type_))
        if known is None:
            known = Reg(self, constant_text(value, type_), type_, value)
            self._literals[value, type_] = known
        return known

    def poison(self, type_: LType) -> Reg:
        """Lanes that nothing may depend on."""
        return Reg(self, "poison", type_)

    def zeros(self, type_: LType) -> Reg:
        """All bits zero."""
        return Reg(self, "zeroinitializer", type_)

    def symbol(self, name: str) -> Reg:
        """The address of something that the module defines or declares."""
        return Reg(self, symbol(name), PTR)

    def splat(self, scalar: Reg, lanes: int) -> Reg:
        """A scalar in every lane."""
        if lanes == 1 or scalar.type.lanes == lanes:
            return scalar
        vector = ltype(scalar.type.element, lanes)
        if scalar.value is not None:
            return self.const(scalar.value, vector)
        first = self.assign(vector, f"insertelement {vector} poison, {scalar}, i64 0")
        return self.assign(
            vector,
            f"shufflevector {first}, {vector} poison, <{lanes} x i32> zeroinitializer",
        )

    def iota(self, type_: LType) -> Reg:
        """0, 1, 2 … over the lanes of an integer type."""
        if type_.lanes == 1:
            return self.const(0, type_)
        items = ", ".join(f"{type_.element} {lane}" for lane in range(type_.lanes))
        return Reg(self, f"<{items}>", type_)

    def lanes(self, numbers: Sequence[float], type_: LType) -> Reg:
        """Literals, one in each lane."""
        if type_.lanes == 1:
            return self.const(numbers[0], type_)
        element = ltype(type_.element)
        items = ", ".join(f"{element} {constant_text(number, element)}" for number in numbers)
        return Reg(self, f"<{items}>", type_)

    def shuffled(self, a: Reg, b: Reg, order: Sequence[int | None]) -> Reg:
        """Lanes of two operands by number; those of the second follow those of the first.

        Nothing may depend on lanes without a number.
        """
        type_ = a.type
        if type_.lanes == 1:
            # vectors of one lane are no scalars
            return self._built([(a, b)[number or 0] for number in order])
        places = ", ".join(f"i32 {'poison' if number is None else number}" for number in order)
        reads_second = any(number is not None and number >= type_.lanes for number in order)
        other = b.text if reads_second else "poison"
        return self.assign(
            ltype(type_.element, len(order)),
            f"shufflevector {a}, {type_} {other}, <{len(order)} x i32> <{places}>",
        )

    def _built(self, scalars: Sequence[Reg]) -> Reg:
        """A vector of scalars."""
        vector = ltype(scalars[0].type.element, len(scalars))
        result = self.poison(vector)
        for lane, scalar in enumerate(scalars):
            result = self.assign(vector, f"insertelement {result}, {scalar}, i64 {lane}")
        return result

    # --- arithmetic ------------------------------------------------------------------------------

    def binary(self, operation: str, a: Reg, b: Reg | float) -> Reg:
        """``fadd``, ``add``, ``and`` … on operands of one type; a number is a literal of it."""
        type_ = a.type
        other = b if isinstance(b, Reg) else self.const(b, type_)
        return self.assign(type_, f"{operation} {type_.text} {a.text}, {other.text}")

    def like(self, value: Reg | float, type_: LType = I64) -> Reg:
        """A number as a literal of that type, an operand as it is."""
        return value if isinstance(value, Reg) else self.const(value, type_)

    def fma(self, a: Reg, b: Reg, c: Reg) -> Reg:
        """a·b + c with one rounding where the target has FMA, else with two."""
        if self.module.target.has_fma:
            return self.intrinsic("fma", a.type, a, b, c)
        return a * b + c

    def least(self, a: Reg, b: Reg | int) -> Reg:
        """The smaller of signed integers."""
        return self.intrinsic("smin", a.type, a, self.like(b, a.type))

    def most(self, a: Reg, b: Reg | int) -> Reg:
        """The greater of signed integers."""
        return self.intrinsic("smax", a.type, a, self.like(b, a.type))

    def intrinsic(self, name: str, result: LType, *operands: Reg) -> Reg:
        """An overloaded LLVM intrinsic of the operands' type, such as ``sqrt`` or ``fabs``."""
        full = f"llvm.{name}.{operands[0].type.suffix}"
        if not self.module.declares(full):
            self.module.declare(full, result.text, ", ".join([o.type.text for o in operands]))
        return self._call(symbol(full), result, operands)

    def call(self, name: str, result: LType | None, *operands: Reg | int) -> Reg:
        """Calls a declared or defined function; a number is an int64.

        What there is without a result means nothing.
        """
        return self._call(symbol(name), result, operands)

    def call_at(self, code: Reg, result: LType | None, *operands: Reg | int) -> Reg:
        """Calls what is at an address."""
        return self._call(code.text, result, operands)

    def _call(self, callee: str, result: LType | None, operands: Sequence[Reg | int]) -> Reg:
        given = [self.like(operand) for operand in operands]
        arguments = ", ".join([f"{operand.type.text} {operand.text}" for operand in given])
        if result is None:
            self.line(f"call void {callee}({arguments})")
            return Reg(self, "", I64)
        return self.assign(result, f"call {result.text} {callee}({arguments})")

    def fcmp(self, predicate: str, a: Reg, b: Reg | float) -> Reg:
        """Compares floats; those predicates that have no operator."""
        type_ = a.type
        other = b if isinstance(b, Reg) else self.const(b, type_)
        return self.assign(type_.truth, f"fcmp {predicate} {type_.text} {a.text}, {other.text}")

    def icmp(self, predicate: str, a: Reg, b: Reg | float) -> Reg:
        """Compares integers or addresses; those predicates that have no operator."""
        type_ = a.type
        other = b if isinstance(b, Reg) else self.const(b, type_)
        return self.assign(type_.truth, f"icmp {predicate} {type_.text} {a.text}, {other.text}")

    def select(self, condition: Reg, a: Reg | float, b: Reg | float) -> Reg:
        """One of two operands; a number is of the other's type, two numbers are int64s."""
        type_ = a.type if isinstance(a, Reg) else b.type if isinstance(b, Reg) else I64
        one, other = self.like(a, type_), self.like(b, type_)
        return self.assign(type_, f"select {condition}, {one}, {other}")

    def convert(self, operation: str, a: Reg, element: str) -> Reg:
        """``zext``, ``sitofp``, ``bitcast`` … to the same lanes of another element type."""
        target = a.type.of(element)
        return self.assign(target, f"{operation} {a} to {target}")

    def narrowed(self, value: Reg | float, type_: LType) -> Reg:
        """An operand as what stands in memory, or functions take: int64s may lose bits."""
        if not isinstance(value, Reg):
            return self.const(value, type_)
        is_wide = value.type is I64 and (type_ is I32 or type_ is I8)
        return self.convert("trunc", value, type_.element) if is_wide else value

    # --- memory ----------------------------------------------------------------------------------

    def copy_bytes(self, target: Reg, source: Reg, size: Reg | int) -> None:
        """Copies so many bytes between places that don't overlap."""
        name = "llvm.memcpy.p0.p0.i64"
        self.module.declare(name, "void", "ptr, ptr, i64, i1")
        self.line(f"call void {symbol(name)}({target}, {source}, {self.like(size)}, i1 false)")

    def fill_bytes(self, target: Reg, value: int, size: Reg | int) -> None:
        """Sets so many bytes to a value."""
        name = "llvm.memset.p0.i64"
        self.module.declare(name, "void", "ptr, i8, i64, i1")
        self.line(f"call void {symbol(name)}({target}, i8 {value}, {self.like(size)}, i1 false)")

    def at(self, base: Reg, element: str, *offsets: Reg | int) -> Reg:
        """The address of an element of a packed array, ``base + sum(offsets)``."""
        for offset in offsets:
            where = f"ptr {base.text}, {self.like(offset)}"
            base = self.assign(PTR, f"getelementptr inbounds {element}, {where}", "p")
        return base

    def load(self, pointer: Reg, type_: LType, align: int) -> Reg:
        return self.assign(type_, f"load {type_.text}, ptr {pointer.text}, align {align}")

    def store(self, value: Reg, pointer: Reg, align: int) -> None:
        self.line(f"store {value}, {pointer}, align {align}")

    def store_streamed(self, value: Reg, pointer: Reg, align: int) -> None:
        """A store past the caches; ``llvm.x86.sse.sfence`` must follow before others read it."""
        self.module.streams = True
        self.line(f"store {value}, {pointer}, align {align}, !nontemporal !0")

    def alloca(self, type_: LType, count: int = 1, align: int = 64) -> Reg:
        """Stack space, taken once on entry wherever it is asked for."""
        slot = self.fresh("stack")
        self._stack.append(f"  {slot} = alloca {type_}, i64 {count}, align {align}")
        return Reg(self, slot, PTR)

    def opaque(self, value: Reg) -> Reg:
        """A literal scalar that LLVM takes for any number, read once on entry."""
        known = self._opaque.get(str(value))
        if known is None:
            slot, kind, align = self.alloca(value.type), value.type, value.type.bits // 8
            known = self._opaque[str(value)] = Reg(self, self.fresh("opaque"), kind)
            self._stack.append(f"  store {value}, {slot}, align {align}")
            self._stack.append(f"  {known.text} = load volatile {kind}, {slot}, align {align}")
        return known
