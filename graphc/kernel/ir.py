"""Kernels: scalar code in SSA form inside structured loops, over packed buffers.

A kernel is what one ``fused`` node becomes, or a part of it that is launched by itself
(``graphc.lower.launch_fission``). Every scalar is a ``Var`` defined once; statements are in order,
so no walk recurses deeper than the loop nest. Buffers are C-contiguous and addressed by a flat
int64 index. Inputs are never written; kernels read and write nothing else.

Loop kinds: ``parallel``, ``across`` and ``vector`` iterations are independent of each other;
``serial`` ones run in order and may carry values. An ``across`` loop stands around a vector loop
some of whose loads are neighbours along the outer one, as in a transpose: it is for tiles. How
often independent iterations and reductions run, and the sizes of matrix products, may be scalars:
so a loop over blocks says how much its last block holds. A ``reduce`` combines one term per
iteration; its order class fixes the bits of float results (``CHUNK``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from graphc.base.errors import VerifyError
from graphc.ir.dims.expressions import Dim, DimExpr, parts_of, symbol_name, symbols_of
from graphc.ir.dtypes import DType, int64
from graphc.kernel.schedule.kinds import Schedule
from graphc.kernel.signature import Buffer as Buffer
from graphc.kernel.signature import Role as Role
from graphc.kernel.signature import Site as Site
from graphc.kernel.signature import Split as Split

if TYPE_CHECKING:
    from graphc.ir.lowering import Combine

LoopKind = Literal["parallel", "across", "vector", "serial"]
Order = Literal["lanes", "chain"]


def lanes(dtype: DType) -> int:
    """Logical lanes of a ``lanes`` reduction: part of the numerics contract, whatever the hardware.

    Term i goes to lane i mod this; lanes are combined by halves at the end.
    """
    return 16 if dtype.bits == 64 else 32


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


class Var:
    """A scalar: a loop index or the result of a statement. Compares by identity."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype


Size: TypeAlias = Dim | Var
"""A number of iterations or elements: a dim, or an int64 that is not negative."""


@dataclass(slots=True, eq=False)
class Const:
    """A literal."""

    result: Final[Var]
    value: Final[bool | int | float]


@dataclass(slots=True, eq=False)
class DimValue:
    """A dim as an int64."""

    result: Final[Var]
    dim: Final[Dim]


@dataclass(slots=True, eq=False)
class Apply:
    """A primitive of ``graphc.kernel.scalar``."""

    result: Final[Var]
    primitive: Final[str]
    operands: Final[tuple[Var, ...]]


@dataclass(slots=True, eq=False)
class Cast:
    """A conversion to the result's dtype."""

    result: Final[Var]
    operand: Final[Var]


@dataclass(slots=True, eq=False)
class Load:
    """An element. With a condition, ``other`` where it fails, and nothing is read."""

    result: Final[Var]
    buffer: Final[Buffer]
    index: Final[Var]
    condition: Final[Var | None] = None
    other: Final[Var | None] = None


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """A user's index; out of range is reported and replaced by 0.

    A negative one counts from the end if ``wraps``, and is out of range if not.
    ``site`` numbers the kernel's checks; the kernel's ``sites`` say what each one guards.
    """

    result: Var
    index: Var
    bound: Dim
    site: int
    wraps: bool = True


@dataclass(slots=True, eq=False)
class Store:
    """Writes an element of an output or scratch buffer."""

    buffer: Final[Buffer]
    index: Final[Var]
    value: Final[Var]


@dataclass(frozen=True, slots=True, eq=False)
class Carry:
    """A value that a serial loop hands from one iteration to the next."""

    result: Var
    argument: Var
    initial: Var
    following: Var


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """``for index < extent``; the extent of a serial loop is a dim."""

    index: Var
    extent: Size
    kind: LoopKind
    body: tuple[Statement, ...]
    carries: tuple[Carry, ...] = ()


def reduced_dtype(combine: str, term: DType) -> DType:
    """The dtype of a reduction of terms: int64 positions for argmin and argmax."""
    return int64 if combine.startswith("arg") else term


@dataclass(frozen=True, slots=True, eq=False)
class Reducer:
    """One result of a reduction, of the dtype that ``reduced_dtype`` says."""

    combine: Combine
    result: Var
    term: Var


@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """Combines one term per reducer and iteration. An empty sum is 0, an empty product 1.

    With a condition, which holds seldom, the results where it fails are those of no terms. The body
    has no effects then, so it may run nevertheless: for all lanes of a vector if one needs it.
    """

    index: Var
    extent: Size
    order: Order
    body: tuple[Statement, ...]
    reducers: tuple[Reducer, ...]
    condition: Var | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MatrixOperand:
    """A matrix inside a buffer: where it starts and its strides, in elements."""

    buffer: Buffer
    offset: Var
    row_stride: Size
    column_stride: Size


MAX_NEAR = 4
"""Matrices that a product brings near while it is computed."""


@dataclass(frozen=True, slots=True, eq=False)
class Contract:
    """c[m, n] = a[m, k] · b[k, n], one ascending-k chain per element (class R).

    ``template`` names the code: "panel" packs b on the way, if that pays; "packed" reads a b that
    lies in panels (``graphc.kernel.panels``): its buffer is [blocks, panels, depth, width], with
    the strides (width, 1) inside a panel. It may start at any panel of the first block.

    ``near`` are at most ``MAX_NEAR`` matrices of m × n that what follows reads, with elements as
    large as those of c. They are brought near meanwhile, which means nothing for the result.
    """

    template: Literal["panel", "packed"]
    m: Size
    n: Size
    k: Size
    a: MatrixOperand
    b: MatrixOperand
    c: MatrixOperand
    workspace: Buffer | None = None
    near: tuple[MatrixOperand, ...] = ()


Scalar: TypeAlias = Const | DimValue | Apply | Cast | Load | Check
Statement: TypeAlias = Scalar | Store | Loop | Reduce | Contract


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
    def sizes(self) -> tuple[DimExpr, ...]:
        """The symbols and sets of sizes whose values are passed, in order."""
        return tuple(parts_of(self._mentioned()))

    def _mentioned(self) -> dict[Dim, None]:
        found = {dim: None for buffer in self.buffers for dim in buffer.type.shape}
        for statement in walk(self.body):
            if not isinstance(statement, (Apply, Load, Store, Const)):
                found.update(dict.fromkeys(dims_in(statement)))
        return found


def walk(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements, outer ones first."""
    for statement in body:
        yield statement
        if isinstance(statement, (Loop, Reduce)):
            # as deep as loops are nested
            yield from walk(statement.body)


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

    pending: list[tuple[Sequence[Statement], Dim]] = [(kernel.body, 1)] if number else []
    while pending:
        body, times = pending.pop()
        for statement in body:
            if isinstance(statement, (Loop, Reduce)):
                pending.append((statement.body, times * known(statement.extent)))
            elif isinstance(statement, Store) and statement.buffer in number:
                result[number[statement.buffer]] += times
            elif isinstance(statement, Contract) and statement.c.buffer in number:
                elements = known(statement.m) * known(statement.n)
                result[number[statement.c.buffer]] += times * elements
    return result


def sizes_in(statement: Statement) -> tuple[Size, ...]:
    """The sizes that a statement itself mentions."""
    if isinstance(statement, DimValue):
        return (statement.dim,)
    if isinstance(statement, Check):
        return (statement.bound,)
    if isinstance(statement, (Loop, Reduce)):
        return (statement.extent,)
    if isinstance(statement, Contract):
        matrices = (statement.a, statement.b, statement.c, *statement.near)
        strides = tuple(d for m in matrices for d in (m.row_stride, m.column_stride))
        return (statement.m, statement.n, statement.k, *strides)
    return ()


def dims_in(statement: Statement) -> tuple[Dim, ...]:
    """The dims that a statement itself mentions."""
    return tuple(size for size in sizes_in(statement) if not isinstance(size, Var))


def operands_of(statement: Statement) -> tuple[Var, ...]:
    """The scalars a statement reads, those of its body aside."""
    if isinstance(statement, Apply):
        return statement.operands
    if isinstance(statement, Cast):
        return (statement.operand,)
    if isinstance(statement, Load):
        extra = (statement.condition, statement.other)
        return (statement.index, *(var for var in extra if var is not None))
    if isinstance(statement, Check):
        return (statement.index,)
    if isinstance(statement, Store):
        return (statement.index, statement.value)
    if isinstance(statement, Loop):
        return tuple(var for c in statement.carries for var in (c.initial, c.following))
    if isinstance(statement, Reduce):
        terms = tuple(reducer.term for reducer in statement.reducers)
        return terms if statement.condition is None else (*terms, statement.condition)
    if isinstance(statement, Contract):
        sizes = (size for size in sizes_in(statement) if isinstance(size, Var))
        matrices = (statement.a, statement.b, statement.c, *statement.near)
        return (*(matrix.offset for matrix in matrices), *sizes)
    return ()
