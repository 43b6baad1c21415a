"""The routine ``searchsorted``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.storage import storage
from graphc.codegen.llvm.types import ltype
from graphc.ir.dtypes import DType

_TOGETHER = 8
"""Elements whose places are searched side by side, since each step waits for a load."""


def emit_searchsorted(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (vector, row, target, length, count, right, room): places by halving.

    The number of steps depends on the length alone, so nothing is guessed.
    """
    search = _Search(dtypes[0])
    one = {right: _emit_search(module, f"{name}_{right}", search, right) for right in (0, 1)}
    f = Builder(
        module, name, "*vector *row *target length count right *room", internal=False
    )
    *operands, right = f.given("vector", "row", "target", "length", "count", "right")
    is_right = right.differs(0)
    with f.when(is_right):
        f.call(one[1], None, *operands)
    f.leave_if(is_right)
    f.call(one[0], None, *operands)
    f.finish()


class _Search:
    """How elements of a dtype are compared."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.type = ltype(storage(dtype))

    def load(self, f: Builder, base: Reg, place: Reg) -> Reg:
        """An element."""
        return f.load(f.at(base, self.type.text, place), self.type, self.type.bits // 8)

    def is_before(self, f: Builder, element: Reg, wanted: Reg, right: int) -> Reg:
        """Whether an element goes before what is wanted, which is no NaN; NaN never does."""
        if self.dtype.is_float:
            return element <= wanted if right else element < wanted
        unsigned = self.dtype.kind in ("bool", "uint")
        sign, end = "u" if unsigned else "s", "le" if right else "lt"
        return f.icmp(f"{sign}{end}", element, wanted)


def _emit_search(module: ModuleEmitter, name: str, search: _Search, right: int) -> str:
    """Defines (vector, row, target, length, count), for one side."""
    f = Builder(module, name, "*vector *row *target length count")
    vector, row, target, length, count = f.given("vector", "row", "target", "length", "count")
    is_empty = length.equals(0)
    with f.when(is_empty), f.each(count) as i:
        f.store(f.const(0), f.at(target, "i64", i), 8)
    f.leave_if(is_empty)
    # halvings until one element is left
    steps = f.bit_length(length - 1)
    numbers = length
    if search.dtype.is_float:

        def is_number(elements: Sequence[Reg]) -> list[Reg]:
            return [f.fcmp("ord", element, element) for element in elements]

        (numbers,) = _halved(f, search, vector, length, steps, 1, is_number)

    def place(first: Reg, together: int) -> None:
        wanted = [search.load(f, row, first + n) for n in range(together)]

        def before(elements: Sequence[Reg]) -> list[Reg]:
            pairs = zip(elements, wanted, strict=True)
            return [search.is_before(f, element, value, right) for element, value in pairs]

        places = _halved(f, search, vector, length, steps, together, before)
        for n, (found, value) in enumerate(zip(places, wanted, strict=True)):
            if search.dtype.is_float:
                # behind all numbers, and behind NaN too
                is_nan = f.fcmp("uno", value, value)
                found = f.select(is_nan, length if right else numbers, found)
            f.store(found, f.at(target, "i64", first + n), 8)

    whole = count.down_to(_TOGETHER)
    with f.loop(0, whole, _TOGETHER) as loop:
        place(loop.index, _TOGETHER)
    with f.loop(whole, count) as loop:
        place(loop.index, 1)
    f.finish()
    return name


def _halved(
    f: Builder,
    search: _Search,
    vector: Reg,
    length: Reg,
    steps: Reg,
    together: int,
    before: Callable[[Sequence[Reg]], list[Reg]],
) -> list[Reg]:
    """How many elements go before, of a vector in which those that do come first."""
    start = [f.const(0)] * together
    with f.loop(0, steps, 1, [length, *start]) as loop:
        left, *places = loop.carries
        half = left >> 1
        middle = [place + (half - 1) for place in places]
        goes = before([search.load(f, vector, place) for place in middle])
        # no select, of which LLVM may make a branch that is guessed wrong half of the time
        moved = [
            place + (f.convert("sext", is_before, "i64") & half)
            for is_before, place in zip(goes, places, strict=True)
        ]
        loop.yields = [left - half, *moved]
    places = list(loop.results[1:])
    goes = before([search.load(f, vector, place) for place in places])
    return [
        place + f.convert("zext", is_before, "i64")
        for is_before, place in zip(goes, places, strict=True)
    ]


__all__ = ["emit_searchsorted"]
