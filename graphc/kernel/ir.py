"""Kernels: scalar code in SSA form inside structured loops, over packed buffers.

A kernel is what one ``fused`` node becomes, or a part of it that is launched by itself
(``graphc.lower.launch_fission``). Every scalar is a ``Var`` defined once; statements are in order,
so no walk recurses deeper than the loop nest. Buffers are C-contiguous and addressed by a flat
int64 index. Inputs are never written; kernels read and write nothing else.

Loop kinds: ``parallel``, ``across`` and ``vector`` iterations are independent of each other;
``serial`` ones run in order and may carry values, one of which may end them. An ``across`` loop
stands around a vector loop some of whose loads are neighbours along the outer one, as in a
transpose: it is for tiles. How often independent iterations and reductions run, and the sizes of
matrix products, may be scalars: so a loop over blocks says how much its last block holds. A
``reduce`` combines one term per iteration; its order class fixes the bits of float results
(``CHUNK``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from graphc.base.errors import VerifyError
from graphc.ir.dims.expressions import Dim, DimExpr, parts_of, product, symbol_name, symbols_of
from graphc.ir.dims.magnitude import may_exceed
from graphc.ir.dtypes import DType
from graphc.kernel.schedule.base import Schedule
from graphc.kernel.signature import Buffer as Buffer
from graphc.kernel.signature import Role as Role
from graphc.kernel.signature import Site as Site
from graphc.kernel.signature import Split as Split
from graphc.kernel.statements.base import Block as Block
from graphc.kernel.statements.base import LoopKind as LoopKind
from graphc.kernel.statements.base import Order as Order
from graphc.kernel.statements.base import Size as Size
from graphc.kernel.statements.base import Statement as Statement
from graphc.kernel.statements.base import Var as Var
from graphc.kernel.statements.bodies import dims_of

if TYPE_CHECKING:
    from graphc.ir.lowering import Combine

def lanes(dtype: DType) -> int:
    """Logical lanes of a ``lanes`` reduction: part of the numerics contract, whatever the hardware.

    Term i goes to lane i mod this; lanes are combined by halves at the end.
    """
    return 1024 // max(dtype.bits, 32)


CHUNK = 16
"""Float sums and products are cascaded, which bounds their error at any length.

THE definition, on which the bits of class R sums rest. For order "lanes" with L lanes let the full
steps be n div L; step s gives lane l the term s·L + l. For order "chain" L is 1. Each lane keeps
LEVELS partial results l1, l2, …, each starting from the neutral element (-0.0 for sums, so that a
sum of -0.0 keeps its sign; 1 for products). Terms go to l1; after CHUNK of them l1 is combined
into l2 (l2 = l2 + l1) and starts anew; after CHUNK of those l2 goes into l3 likewise, and so on;
the last level takes all the rest. At the end the lane is …(l3 + (l2 + l1)), and lanes are folded by
halves: lane i += lane i + L/2, then L/4, down to one. The n mod L terms of the incomplete step are
chained among themselves, in order from the neutral element, and the chain is added last. So a row
shorter than L is a plain chain. An empty sum is +0.0, an empty product 1.

Sums of squares are cascaded likewise, from +0.0. A term t goes to l1 as l1 + t * t, rounded once on
targets with fused multiply-add and twice elsewhere.
"""

LEVELS = 5
"""Levels of the cascade: chains stay short up to millions of terms a lane."""


CASCADED: Final[tuple[Combine, ...]] = ("add", "squares", "multiply")
"""Combinations that are cascaded where they are of floats."""


def joining(combine: Combine) -> Combine:
    """What combines the results of a reduction's parts: the sums of squares are added."""
    return "add" if combine == "squares" else combine


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """One launch.

    Attributes:
        name: a label; code is shared between kernels that differ in it alone.
        buffers: in the order they are passed.
        body: the statements.
        sites: what each ``Check`` guards.
        split: how its iterations may be handed out in ranges; None where one thread runs it.
        schedule: how statements are carried out; what is not in it, in the plainest way.
    """

    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]
    sites: tuple[Site, ...] = field(default=())
    split: Split | None = None
    schedule: Mapping[Statement, Schedule] = field(default_factory=dict)

    def __repr__(self) -> str:
        buffers = ", ".join(f"{b.role} {b.name}: {b.type}" for b in self.buffers)
        return f"<Kernel {self.name!r} ({buffers})>"

    @property
    def symbols(self) -> frozenset[DimExpr]:
        """The symbols that shapes and statements mention."""
        return symbols_of(*self._mentioned())

    @property
    def is_sized(self) -> bool:
        """Whether shapes or statements mention a symbol."""
        return any(not isinstance(dim, int) for dim in self._mentioned())

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the symbols it needs, sorted."""
        return tuple(sorted(map(symbol_name, self.symbols)))

    @property
    def reckoned(self) -> tuple[Dim, ...]:
        """The dims that it computes which might not fit in an int64."""
        return may_exceed(self._mentioned(), [buffer.type.size for buffer in self.buffers])

    @property
    def sizes(self) -> tuple[DimExpr, ...]:
        """The symbols and sets of sizes whose values are passed, in order."""
        return tuple(parts_of(self._mentioned()))

    def _mentioned(self) -> dict[Dim, None]:
        found = {dim: None for buffer in self.buffers for dim in buffer.type.shape}
        for statement in walk(self.body):
            if statement.sizes:
                found.update(dict.fromkeys(dims_of(statement)))
        return found


def walk(body: Iterable[Statement]) -> Iterator[Statement]:
    """All statements, outer ones first."""
    for statement in body:
        yield statement
        inner = statement.body
        if inner:
            # as deep as loops are nested
            yield from walk(inner)


def stored_parts(kernel: Kernel) -> dict[int, Dim]:
    """For each ``part`` among the buffers how many elements of it the kernel writes.

    Every place is taken to be written once, as it is where an index of all the loops around leads
    to it.

    Raises:
        VerifyError: if a size is a scalar, so that the elements can't be counted.
    """
    number = {b: n for n, b in enumerate(kernel.buffers) if b.role == "part"}
    result: dict[int, Dim] = dict.fromkeys(number.values(), 0)

    def known(size: Size) -> Dim:
        if isinstance(size, Var):
            raise VerifyError(f"kernel {kernel.name!r} writes a part in blocks of scalar sizes")
        return size

    pending: list[tuple[Iterable[Statement], Dim]] = [(kernel.body, 1)] if number else []
    while pending:
        body, times = pending.pop()
        for statement in body:
            block = statement.block
            if block is not None:
                pending.append((block.body, times * known(block.extent)))
            for buffer in statement.writes:
                if buffer in number:
                    elements = product(known(size) for size in statement.written)
                    result[number[buffer]] += times * elements
    return result
