"""Words of memory by name, for code that is about records rather than lanes.

A ``Record`` is an address and a layout: which word stands how many bytes in, and its type. A
``Word`` is read and written plainly, or atomically in the order that is named. Locals are words on
the stack: nothing here needs a phi.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphc.codegen.emitter import I1, I64, FunctionEmitter, LType, Reg

Order = Literal["monotonic", "acquire", "release", "acq_rel", "seq_cst"]

Layout: TypeAlias = Mapping[str, tuple[int, LType]]
"""Of each word the bytes before it, and its type."""


@dataclass(frozen=True, slots=True)
class Word:
    """A place in memory."""

    e: FunctionEmitter
    at: Reg
    type: LType

    @property
    def _bytes(self) -> int:
        return self.type.bits // 8

    def load(self, order: Order | None = None) -> Reg:
        """Its value; atomically, if an order is given."""
        if order is None:
            return self.e.load(self.at, self.type, self._bytes)
        text = f"load atomic {self.type}, {self.at} {order}, align {self._bytes}"
        return self.e.assign(self.type, text)

    def store(self, value: Reg | int, order: Order | None = None) -> None:
        """Gives it a value; atomically, if an order is given."""
        stored = self.e.like(value, self.type)
        if order is None:
            self.e.store(stored, self.at, self._bytes)
        else:
            self.e.line(f"store atomic {stored}, {self.at} {order}, align {self._bytes}")

    def add(self, amount: Reg | int) -> Reg:
        """Adds plainly; the new value."""
        total = self.e.binary("add", self.load(), amount)
        self.store(total)
        return total

    def fetch_add(self, amount: Reg | int, order: Order) -> Reg:
        """Adds atomically; the value before."""
        return self._modify("add", amount, order)

    def exchange(self, value: Reg | int, order: Order) -> Reg:
        """Gives it a value atomically; the value before."""
        return self._modify("xchg", value, order)

    def _modify(self, operation: str, operand: Reg | int, order: Order) -> Reg:
        by = self.e.like(operand, self.type)
        return self.e.assign(self.type, f"atomicrmw {operation} {self.at}, {by} {order}")

    def compare_exchange(self, expected: Reg, value: Reg) -> tuple[Reg, Reg]:
        """Gives it a value if it has the expected one; what was found, and whether it was that."""
        pair = self.e.fresh("pair")
        self.e.line(f"{pair} = cmpxchg {self.at}, {expected}, {value} acq_rel acquire")
        kind = f"{{ {self.type}, i1 }}"
        found = self.e.assign(self.type, f"extractvalue {kind} {pair}, 0")
        return found, self.e.assign(I1, f"extractvalue {kind} {pair}, 1")


class Record:
    """Words by name: ``record["tasks"].load()``."""

    __slots__ = ("_base", "_e", "_layout")

    def __init__(self, e: FunctionEmitter, base: Reg, layout: Layout) -> None:
        self._e = e
        self._base = base
        self._layout = layout

    def __getitem__(self, name: str) -> Word:
        offset, kind = self._layout[name]
        at = self._e.element_pointer(self._base, self._e.const(offset, I64), "i8")
        return Word(self._e, at, kind)


def local(e: FunctionEmitter, initial: Reg) -> Word:
    """A word on the stack that starts with a value."""
    word = Word(e, e.alloca(initial.type, 1, initial.type.bits // 8), initial.type)
    word.store(initial)
    return word


def spin_until(
    e: FunctionEmitter, reached: Callable[[], Reg], pause: Callable[[], None], rounds: int
) -> None:
    """Waits for a condition, which is emitted once, so many rounds at most."""
    count = local(e, e.const(0, I64))
    with e.repeat() as spinning:
        spinning.leave_if(reached())
        pause()
        spinning.leave_if(e.icmp("uge", count.add(1), rounds))


__all__ = ["Layout", "Order", "Record", "Word", "local", "spin_until"]
