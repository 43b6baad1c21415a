"""Small shorthands over the emitter that every part of the matrix products uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from graphc.codegen.llvm.emitter import (
    I1,
    I64,
    PTR,
    FunctionEmitter,
    LType,
    ModuleEmitter,
    Reg,
    ltype,
)
from graphc.codegen.llvm.masked import load_lanes, store_lanes


class Builder(FunctionEmitter):
    """A function of pointers and 64-bit integers, with shorthands for integer arithmetic."""

    def __init__(
        self,
        module: ModuleEmitter,
        name: str,
        parameters: str,
        *,
        internal: bool = True,
        cold: bool = False,
    ) -> None:
        """``parameters`` is a space-separated list of names; a leading ``*`` marks a pointer."""
        names = parameters.split()
        super().__init__(
            module,
            name,
            [("ptr" if n.startswith("*") else "i64", "%" + n.lstrip("*")) for n in names],
            linkage="internal" if internal else "",
            attributes="noinline optnone nounwind" if cold else "noinline nounwind",
        )
        self._parameters = {
            n.lstrip("*"): Reg("%" + n.lstrip("*"), PTR if n.startswith("*") else I64)
            for n in names
        }

    def parameter(self, *names: str) -> tuple[Reg, ...]:
        """The registers of parameters."""
        return tuple(self._parameters[name] for name in names)

    def i64(self, value: int) -> Reg:
        """An integer literal."""
        return self.const(value, I64)

    def add(self, a: Reg, b: Reg | int) -> Reg:
        return self.binary("add", a, self.i64(b) if isinstance(b, int) else b)

    def sub(self, a: Reg, b: Reg | int) -> Reg:
        return self.binary("sub", a, self.i64(b) if isinstance(b, int) else b)

    def mul(self, a: Reg, b: Reg | int) -> Reg:
        return self.binary("mul", a, self.i64(b) if isinstance(b, int) else b)

    def quotient(self, a: Reg, b: Reg | int) -> Reg:
        """a // b of values that are not negative."""
        return self.binary("udiv", a, self.i64(b) if isinstance(b, int) else b)

    def remainder(self, a: Reg, multiple: int) -> Reg:
        """What is left of a value by a power of two."""
        return self.binary("and", a, self.i64(multiple - 1))

    def rounded_down(self, a: Reg, multiple: int) -> Reg:
        """The multiple of a power of two at or below a value."""
        return self.binary("and", a, self.i64(-multiple))

    def rounded_up(self, a: Reg, multiple: int) -> Reg:
        """The multiple of a power of two at or above a value."""
        return self.rounded_down(self.add(a, multiple - 1), multiple)

    def minimum(self, a: Reg, b: Reg) -> Reg:
        return self.intrinsic("smin", I64, a, b)

    def compare(self, predicate: str, a: Reg, b: Reg | int) -> Reg:
        return self.icmp(predicate, a, self.i64(b) if isinstance(b, int) else b)

    def both(self, a: Reg, b: Reg) -> Reg:
        return self.binary("and", a, b)

    def either(self, a: Reg, b: Reg) -> Reg:
        return self.binary("or", a, b)

    def negate(self, condition: Reg) -> Reg:
        return self.binary("xor", condition, self.const(True, I1))

    def at(self, base: Reg, element: str, *offsets: Reg) -> Reg:
        """The address ``base + sum(offsets)``, in elements."""
        for offset in offsets:
            base = self.element_pointer(base, offset, element)
        return base

    def run(self, name: str, *operands: Reg) -> None:
        """Calls a function without a result."""
        self.call(name, None, *operands)

    @contextmanager
    def blocks(self, count: Reg, size: int | Reg) -> Iterator[tuple[Reg, Reg]]:
        """``for start in range(0, count, size)``: yields start and min(size, count − start)."""
        step = self.i64(size) if isinstance(size, int) else size
        trips = self.quotient(self.add(count, self.sub(step, 1)), step)
        with self.loop(self.i64(0), trips, 1) as loop:
            start = self.mul(loop.index, step)
            yield start, self.minimum(step, self.sub(count, start))

    @contextmanager
    def wide_blocks(self, count: Reg, size: Reg) -> Iterator[tuple[Reg, Reg]]:
        """Blocks of one size, of which the last takes what is left if that is less than half."""
        half = self.quotient(size, 2)
        found = self.quotient(self.add(count, half), size)
        last = self.sub(self.intrinsic("smax", I64, found, self.i64(1)), 1)
        with self.loop(self.i64(0), self.add(last, 1), 1) as loop:
            start = self.mul(loop.index, size)
            is_last = self.compare("eq", loop.index, last)
            yield start, self.select(is_last, self.sub(count, start), size)

    def leave_if(self, condition: Reg) -> None:
        """Returns from the function if a condition holds."""
        leave, stay = self.label("leave"), self.label("stay")
        self.branch(condition, leave, stay)
        self.start(leave)
        self.line("ret void")
        self.start(stay)


def each_span(
    f: Builder, count: Reg, vector: LType, masked: bool
) -> Iterator[tuple[Reg, LType, Reg | None]]:
    """Emits a loop over whole vectors and then what remains: one masked vector or scalars.

    The caller's body is run twice, with the index register, the type to work in and the mask.
    """
    whole = f.rounded_down(count, vector.lanes)
    with f.loop(f.i64(0), whole, vector.lanes) as loop:
        yield loop.index, vector, None
    if masked:
        with f.when(f.compare("slt", whole, count)):
            yield whole, vector, edge_mask(f, f.sub(count, whole), vector.lanes)
    else:
        with f.loop(whole, count, 1) as loop:
            yield loop.index, ltype(vector.element), None


def edge_mask(f: Builder, count: Reg, lanes: int) -> Reg:
    """True in the first ``count`` lanes."""
    return f.icmp("slt", f.iota(ltype("i64", lanes)), f.splat(count, lanes))


def masked_load(f: Builder, place: Reg, type_: LType, mask: Reg | None) -> Reg:
    """A load aligned to elements; lanes outside the mask are not read and give zero."""
    if mask is None:
        return f.load(place, type_, type_.bits // 8)
    return load_lanes(f, place, type_, mask, Reg("zeroinitializer", type_))


def masked_store(f: Builder, value: Reg, place: Reg, mask: Reg | None) -> None:
    """A store aligned to elements; lanes outside the mask are not written."""
    if mask is None:
        f.store(value, place, value.type.bits // 8)
    else:
        store_lanes(f, value, place, mask)


def phi(f: FunctionEmitter, type_: LType, sources: Sequence[tuple[Reg, str]]) -> Reg:
    """Joins values that come from several blocks; only at a block's beginning."""
    text = ", ".join(f"[ {value.text}, %{block} ]" for value, block in sources)
    return f.assign(type_, f"phi {type_} {text}")


@contextmanager
def otherwise(f: Builder, condition: Reg, name: str, operands: tuple[Reg, ...]) -> Iterator[None]:
    """Calls a kernel if the condition holds, else runs the block."""
    then, alternative, done = f.label("then"), f.label("else"), f.label("done")
    f.branch(condition, then, alternative)
    f.start(then)
    f.run(name, *operands)
    f.jump(done)
    f.start(alternative)
    yield
    f.jump(done)
    f.start(done)
