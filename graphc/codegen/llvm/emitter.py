"""Textual LLVM IR, written through a thin typed layer.

Everything above scalars goes through one type-generic interface: the same calls emit ``float`` or
``<16 x float>``, so that vector body and scalar tail agree to the bit. Text is parsed by LLVM; that
is an order of magnitude faster than building IR object by object.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

from graphc.base.target import Target
from graphc.ir.dtypes import FloatFormat, float32, float64

_FLOATS = {"float": float32.format, "double": float64.format}


class LType:
    """An LLVM first-class type: an element type and a number of lanes (1 is a scalar).

    ``ltype`` gives the one object there is of each, so they compare by identity.

    Attributes:
        text: its spelling.
    """

    __slots__ = ("element", "lanes", "text")

    def __init__(self, element: str, lanes: int) -> None:
        self.element = element
        self.lanes = lanes
        self.text = element if lanes == 1 else f"<{lanes} x {element}>"

    @property
    def is_float(self) -> bool:
        """True for float and double elements."""
        return self.element in _FLOATS

    @property
    def bits(self) -> int:
        """Width of one element."""
        if self.element == "ptr":
            return 64
        found = _FLOATS.get(self.element)
        return int(self.element[1:]) if found is None else found.bits

    @property
    def format(self) -> FloatFormat:
        """How float elements are stored."""
        return _FLOATS[self.element]

    @property
    def suffix(self) -> str:
        """How intrinsics spell the type: f32, v16f32, i64."""
        base = f"f{self.bits}" if self.is_float else f"i{self.bits}"
        return base if self.lanes == 1 else f"v{self.lanes}{base}"

    def of(self, element: str) -> LType:
        """The same lanes of another element type."""
        return ltype(element, self.lanes)

    def __str__(self) -> str:
        return self.text


def ltype(element: str, lanes: int = 1) -> LType:
    """The (shared) type object."""
    return _shared_type(element, lanes)


@cache
def _shared_type(element: str, lanes: int) -> LType:
    # a cache tells a default from the same value given
    return LType(element, lanes)


I1, I8, I32, I64, PTR = (ltype(name) for name in ("i1", "i8", "i32", "i64", "ptr"))
F32, F64 = ltype("float"), ltype("double")

POINTER_ALIGN = 4
"""Alignment of pointers in memory on every target; those of wasm32 take four bytes."""


@dataclass(slots=True, unsafe_hash=True)
class Reg:
    """A typed operand: a register or a literal."""

    text: Final[str]
    type: Final[LType]

    def __str__(self) -> str:
        return f"{self.type.text} {self.text}"


def float_literal(value: float, bits: int) -> str:
    """LLVM's hexadecimal spelling; a float32 is written as the double of the same value.

    NaN keeps its sign and payload where ``value`` is a Python float of the right bits.
    """
    if bits == 32:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class ModuleEmitter:
    """A module: functions, the declarations they need, and global constants.

    Attributes:
        target: what code is made for.
        calls_functions: whether elementary functions are called, not inlined.
        libraries: modules that this one calls into, by the symbol they define.
        streams: whether a function stores past the caches, and so needs the mark ``!0``.
    """

    def __init__(self, target: Target, calls_functions: bool = False) -> None:
        self.target = target
        self.calls_functions = calls_functions
        self._functions: dict[str, str] = {}
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self.libraries: dict[str, str] = {}
        self.streams = False

    def declare(self, name: str, result: str, parameters: str, attributes: str = "") -> None:
        """Declares an external function once."""
        self._declarations.setdefault(name, f"declare {result} @{name}({parameters}) {attributes}")

    def constant_table(self, name: str, element: str, values: Sequence[int | float]) -> Reg:
        """A private constant array, 64-byte aligned; equal names must mean equal content."""
        if name not in self._globals:
            found = _FLOATS.get(element)
            items = ", ".join(
                f"{element} {float_literal(float(v), found.bits) if found else int(v)}"
                for v in values
            )
            self._globals[name] = (
                f"@{name} = private unnamed_addr constant "
                f"[{len(values)} x {element}] [{items}], align 64"
            )
        return Reg(f"@{name}", PTR)

    def string(self, text: str) -> Reg:
        """A private constant of UTF-8 bytes that ends in a zero."""
        return self.octets(text.encode() + b"\0")

    def octets(self, content: bytes) -> Reg:
        """A private constant of these bytes."""
        name = f"bytes.{hashlib.sha256(content).hexdigest()[:16]}"
        spelled = "".join(f"\\{byte:02X}" for byte in content)
        self._globals.setdefault(
            name, f'@{name} = private unnamed_addr constant [{len(content)} x i8] c"{spelled}"'
        )
        return Reg(f"@{name}", PTR)

    def define(self, name: str, text: str) -> None:
        """Adds a function's text once."""
        self._functions.setdefault(name, text)

    def has(self, name: str) -> bool:
        """True if a function of that name was defined."""
        return name in self._functions

    def text(self) -> str:
        """The whole module."""
        return "\n".join(
            (
                *self._globals.values(),
                *(d for n, d in self._declarations.items() if n not in self._functions),
                *self._functions.values(),
                "!0 = !{i32 1}" if self.streams else "",
                "",
            )
        )


class FunctionEmitter:
    """One function body, emitted front to back.

    ``finish()`` defines it in the module. Names of registers and labels are fresh.
    """

    def __init__(
        self,
        module: ModuleEmitter,
        name: str,
        parameters: Sequence[tuple[str, str]],
        result: str = "void",
        *,
        linkage: str = "",
        attributes: str = "nounwind",
    ) -> None:
        """``parameters`` are pairs of type with attributes ("ptr noalias") and name ("%a")."""
        self.module = module
        self.name = name
        head = ", ".join(f"{kind} {parameter}" for kind, parameter in parameters)
        self._head = f"define {linkage} {result} @{name}({head}) {attributes} {{"
        self._stack: list[str] = ["entry:"]
        self._opaque: dict[str, Reg] = {}
        self._lines: list[str] = []
        self._count = 0
        self.block = "entry"

    # --- text ------------------------------------------------------------------------------------

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
        return Reg(register, type_)

    def label(self, hint: str) -> str:
        """A new label, without %."""
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Begins a basic block."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: Reg, then: str, otherwise: str) -> None:
        self.line(f"br i1 {condition.text}, label %{then}, label %{otherwise}")

    def finish(self, terminator: str = "ret void") -> None:
        """Ends the function and defines it in its module."""
        self.line(terminator)
        self.module.define(self.name, "\n".join((self._head, *self._stack, *self._lines, "}")))

    # --- constants -------------------------------------------------------------------------------

    def const(self, value: bool | int | float, type_: LType) -> Reg:
        """A literal, splatted over the lanes."""
        if type_.is_float:
            text = float_literal(float(value), type_.bits)
        elif type_.element == "i1":
            text = "true" if value else "false"
        else:
            text = str(int(value))
        if type_.lanes > 1:
            text = f"splat ({type_.element} {text})"
        return Reg(text, type_)

    def splat(self, scalar: Reg, lanes: int) -> Reg:
        """A scalar in every lane."""
        if lanes == 1 or scalar.type.lanes == lanes:
            return scalar
        vector = ltype(scalar.type.element, lanes)
        if not scalar.text.startswith(("%", "@")):
            return Reg(f"splat ({scalar})", vector)
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
        return Reg(f"<{items}>", type_)

    # --- arithmetic ------------------------------------------------------------------------------

    def binary(self, operation: str, a: Reg, b: Reg | int) -> Reg:
        """``fadd``, ``add``, ``and`` … on operands of one type; an int is a literal of it."""
        other = self.like(b, a.type)
        return self.assign(a.type, f"{operation} {a.type.text} {a.text}, {other.text}")

    def like(self, value: Reg | int, type_: LType) -> Reg:
        """An int as a literal of that type, a register as it is."""
        return self.const(value, type_) if isinstance(value, int) else value

    def fadd(self, a: Reg, b: Reg) -> Reg:
        return self.binary("fadd", a, b)

    def fsub(self, a: Reg, b: Reg) -> Reg:
        return self.binary("fsub", a, b)

    def fmul(self, a: Reg, b: Reg) -> Reg:
        return self.binary("fmul", a, b)

    def fdiv(self, a: Reg, b: Reg) -> Reg:
        return self.binary("fdiv", a, b)

    def fneg(self, a: Reg) -> Reg:
        return self.assign(a.type, f"fneg {a}")

    def fma(self, a: Reg, b: Reg, c: Reg) -> Reg:
        """a·b + c with one rounding where the target has FMA, else with two."""
        if self.module.target.has_fma:
            return self.intrinsic("fma", a.type, a, b, c)
        return self.fadd(self.fmul(a, b), c)

    def intrinsic(self, name: str, result: LType, *operands: Reg) -> Reg:
        """An overloaded LLVM intrinsic of the operands' type, such as ``sqrt`` or ``fabs``."""
        full = f"llvm.{name}.{operands[0].type.suffix}"
        self.module.declare(full, str(result), ", ".join(str(o.type) for o in operands))
        return self.call(full, result, *operands)

    def call(self, name: str, result: LType | None, *operands: Reg) -> Reg:
        """Calls a declared or defined function; without a result the operand text is empty."""
        arguments = ", ".join(map(str, operands))
        if result is None:
            self.line(f"call void @{name}({arguments})")
            return Reg("", I64)
        return self.assign(result, f"call {result} @{name}({arguments})")

    def fcmp(self, predicate: str, a: Reg, b: Reg) -> Reg:
        return self.assign(
            ltype("i1", a.type.lanes), f"fcmp {predicate} {a.type} {a.text}, {b.text}"
        )

    def icmp(self, predicate: str, a: Reg, b: Reg | int) -> Reg:
        return self.assign(
            ltype("i1", a.type.lanes),
            f"icmp {predicate} {a.type} {a.text}, {self.like(b, a.type).text}",
        )

    def select(self, condition: Reg, a: Reg, b: Reg) -> Reg:
        return self.assign(a.type, f"select {condition}, {a}, {b}")

    def convert(self, operation: str, a: Reg, element: str) -> Reg:
        """``zext``, ``sitofp``, ``bitcast`` … to the same lanes of another element type."""
        target = a.type.of(element)
        return self.assign(target, f"{operation} {a} to {target}")

    # --- memory ----------------------------------------------------------------------------------

    def copy_bytes(self, target: Reg, source: Reg, size: Reg) -> None:
        """Copies so many bytes between places that don't overlap."""
        name = "llvm.memcpy.p0.p0.i64"
        self.module.declare(name, "void", "ptr, ptr, i64, i1")
        self.line(f"call void @{name}({target}, {source}, {size}, i1 false)")

    def fill_bytes(self, target: Reg, value: int, size: Reg) -> None:
        """Sets so many bytes to a value."""
        name = "llvm.memset.p0.i64"
        self.module.declare(name, "void", "ptr, i8, i64, i1")
        self.line(f"call void @{name}({target}, i8 {value}, {size}, i1 false)")

    def element_pointer(self, base: Reg, index: Reg, element: str) -> Reg:
        """Address of an element of a packed array."""
        where = f"ptr {base.text}, {index.type.text} {index.text}"
        return self.assign(PTR, f"getelementptr inbounds {element}, {where}", "p")

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
        return Reg(slot, PTR)

    def opaque(self, value: Reg) -> Reg:
        """A literal scalar that LLVM takes for any number, read once on entry."""
        known = self._opaque.get(str(value))
        if known is None:
            slot, kind, align = self.alloca(value.type), value.type, value.type.bits // 8
            known = self._opaque[str(value)] = Reg(self.fresh("opaque"), kind)
            self._stack.append(f"  store {value}, {slot}, align {align}")
            self._stack.append(f"  {known.text} = load volatile {kind}, {slot}, align {align}")
        return known

    # --- control ---------------------------------------------------------------------------------

    @contextmanager
    def loop(
        self, lower: Reg, upper: Reg, step: int, carries: Sequence[Reg] = (), hint: str = "i"
    ) -> Iterator[Loop]:
        """``for i in range(lower, upper, step)``, top-tested.

        Inside, ``loop.index`` and ``loop.carries`` are the phis; set ``loop.yields`` to the next
        values. After the block ``loop.results`` are the final ones.
        """
        header, body, done = self.label("head"), self.label("body"), self.label("done")
        before = self.block
        self.jump(header)
        self.start(header)
        mark = len(self._lines)
        index = Reg(self.fresh(hint), lower.type)
        phis = [Reg(self.fresh("c"), carry.type) for carry in carries]
        inside = self.icmp("slt", index, upper)
        self.branch(inside, body, done)
        self.start(body)
        loop = Loop(index, tuple(phis))
        yield loop
        following = self.assign(index.type, f"add nuw nsw {index}, {step}")
        end = self.block
        self.jump(header)
        self._lines[mark:mark] = [
            f"  {phi.text} = phi {phi.type} [ {first.text}, %{before} ], [ {last.text}, %{end} ]"
            for phi, first, last in zip(
                (index, *phis), (lower, *carries), (following, *loop.yields), strict=True
            )
        ]
        self.start(done)
        loop.results = tuple(phis)

    @contextmanager
    def when(self, condition: Reg, hint: str = "then") -> Iterator[None]:
        """Runs the block if the scalar condition holds."""
        then, done = self.label(hint), self.label("done")
        self.branch(condition, then, done)
        self.start(then)
        yield
        self.jump(done)
        self.start(done)

    def merged(
        self,
        condition: Reg,
        otherwise: Sequence[Reg],
        block: Callable[[], Sequence[Reg]],
        hint: str,
    ) -> list[Reg]:
        """What the block gives, which runs if the scalar condition holds; else ``otherwise``."""
        before = self.block
        with self.when(condition, hint):
            results, end = block(), self.block
        return [
            self.assign(a.type, f"phi {a.type} [ {b.text}, %{before} ], [ {a.text}, %{end} ]")
            for a, b in zip(results, otherwise, strict=True)
        ]

    @contextmanager
    def region(self) -> Iterator[Region]:
        """Runs the block once, up to the first ``leave_if`` that holds."""
        done = self.label("done")
        yield Region(self, done)
        self.jump(done)
        self.start(done)

    @contextmanager
    def repeat(self) -> Iterator[Region]:
        """Runs the block again and again, until a ``leave_if`` holds."""
        again, done = self.label("again"), self.label("done")
        self.jump(again)
        self.start(again)
        yield Region(self, done)
        self.jump(again)
        self.start(done)


class Region:
    """A block under emission that can be left from its middle."""

    __slots__ = ("_done", "_e")

    def __init__(self, e: FunctionEmitter, done: str) -> None:
        self._e = e
        self._done = done

    def leave_if(self, condition: Reg) -> None:
        """Goes on behind the block if the condition holds."""
        stay = self._e.label("stay")
        self._e.branch(condition, self._done, stay)
        self._e.start(stay)


class Loop:
    """The registers of a loop under emission."""

    __slots__ = ("carries", "index", "results", "yields")

    def __init__(self, index: Reg, carries: tuple[Reg, ...]) -> None:
        self.index = index
        self.carries = carries
        self.yields: Sequence[Reg] = ()
        self.results: tuple[Reg, ...] = ()
