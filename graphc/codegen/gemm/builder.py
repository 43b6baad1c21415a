"""Small shorthands over the emitter that every part of the matrix products uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.lanes import packed
from graphc.codegen.llvm.masked import load_lanes, store_lanes
from graphc.codegen.llvm.module import ModuleEmitter, symbol
from graphc.codegen.llvm.types import I64, PTR, LType, ltype


class Builder(FunctionEmitter):
    """A function of pointers and 64-bit integers, without a result unless one is named."""

    def __init__(
        self,
        module: ModuleEmitter,
        name: str,
        parameters: str,
        *,
        internal: bool = True,
        cold: bool = False,
        result: LType | None = None,
    ) -> None:
        """``parameters`` is a space-separated list of names; a leading ``*`` marks a pointer."""
        super().__init__(
            module,
            name,
            {n.lstrip("*"): PTR if n.startswith("*") else I64 for n in parameters.split()},
            result,
            linkage="internal" if internal else "",
            attributes="noinline optnone nounwind" if cold else "noinline nounwind",
        )

    @contextmanager
    def blocks(self, count: Reg, size: int | Reg) -> Iterator[tuple[Reg, Reg]]:
        """``for start in range(0, count, size)``: yields start and min(size, count − start)."""
        step = self.like(size)
        trips = (count + (step - 1)).udiv(step)
        with self.loop(0, trips) as loop:
            start = loop.index * step
            yield start, self.least(step, count - start)

    @contextmanager
    def wide_blocks(self, count: Reg, size: Reg) -> Iterator[tuple[Reg, Reg]]:
        """Blocks of one size, of which the last takes what is left if that is less than half."""
        half = size.udiv(2)
        found = (count + half).udiv(size)
        last = self.most(found, 1) - 1
        with self.loop(0, last + 1) as loop:
            start = loop.index * size
            is_last = loop.index.equals(last)
            yield start, self.select(is_last, count - start, size)

    def bit_length(self, number: Reg) -> Reg:
        """How many bits a number takes, as Python's: 0 of 0."""
        return 64 - self._zeros("ctlz", number)

    def zeros_behind(self, number: Reg) -> Reg:
        """How many bits stand behind the last one that is set: 64 of 0."""
        return self._zeros("cttz", number)

    def _zeros(self, function: str, number: Reg) -> Reg:
        name = f"llvm.{function}.i64"
        self.module.declare(name, "i64", "i64, i1")
        return self.assign(I64, f"call i64 {symbol(name)}({number}, i1 false)")

    def leave_if(self, condition: Reg) -> None:
        """Returns from the function if a condition holds."""
        leave, stay = self.label("leave"), self.label("stay")
        self.branch(condition, leave, stay)
        self.start(leave)
        self.line("ret void")
        self.start(stay)


def each_lane(f: Builder, condition: Reg, block: Callable[[Reg], None]) -> None:
    """Emits a loop over the lanes in which a condition holds, of up to 64; for targets that pack
    conditions."""
    mask = packed(f, condition)
    with f.loop(0, f.intrinsic("ctpop", I64, mask), 1, [mask]) as loop:
        (left,) = loop.carries
        block(f.zeros_behind(left))
        loop.yields = [left & (left - 1)]


def each_span(
    f: Builder, count: Reg, vector: LType, masked: bool
) -> Iterator[tuple[Reg, LType, Reg | None]]:
    """Emits a loop over whole vectors and then what remains: one masked vector or scalars.

    The caller's body is run twice, with the index register, the type to work in and the mask.
    """
    whole = count.down_to(vector.lanes)
    with f.loop(0, whole, vector.lanes) as loop:
        yield loop.index, vector, None
    if masked:
        with f.when(whole < count):
            yield whole, vector, edge_mask(f, count - whole, vector.lanes)
    else:
        with f.loop(whole, count) as loop:
            yield loop.index, ltype(vector.element), None


def edge_mask(f: Builder, count: Reg, lanes: int) -> Reg:
    """True in the first ``count`` lanes."""
    return f.iota(ltype("i64", lanes)) < f.splat(count, lanes)


def masked_load(f: Builder, place: Reg, type_: LType, mask: Reg | None) -> Reg:
    """A load aligned to elements; lanes outside the mask are not read and give zero."""
    if mask is None:
        return f.load(place, type_, type_.bits // 8)
    return load_lanes(f, place, type_, mask, f.zeros(type_))


def masked_store(f: Builder, value: Reg, place: Reg, mask: Reg | None) -> None:
    """A store aligned to elements; lanes outside the mask are not written."""
    if mask is None:
        f.store(value, place, value.type.bits // 8)
    else:
        store_lanes(f, value, place, mask)


@contextmanager
def otherwise(f: Builder, condition: Reg, name: str, operands: tuple[Reg, ...]) -> Iterator[None]:
    """Calls a kernel if the condition holds, else runs the block."""
    then, alternative, done = f.label("then"), f.label("else"), f.label("done")
    f.branch(condition, then, alternative)
    f.start(then)
    f.call(name, None, *operands)
    f.jump(done)
    f.start(alternative)
    yield
    f.jump(done)
    f.start(done)
