"""The base of all statements of kernels: the traits that analyses go by.

Analyses, schedules, printer and parser read these traits and name no class. Each trait has the
value of most statements here; a class overrides the traits that differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType
from graphc.kernel.signature import Buffer

if TYPE_CHECKING:
    from graphc.ir.lowering import Combine

LoopKind = Literal["parallel", "across", "vector", "serial"]
Order = Literal["lanes", "chain"]


class Var:
    """A scalar: a loop index or the result of a statement. Compares by identity."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype


Size: TypeAlias = Dim | Var
"""A number of iterations or elements: a dim, or an int64 that is not negative."""


class Touch(NamedTuple):
    """Elements of a buffer that a statement reads or writes.

    Attributes:
        buffer: the buffer.
        place: the first element.
        axes: extents and strides of the elements from there on; none for one element.
        runs: with one of these sizes 0 nothing is touched.
        condition: where it fails, nothing is touched.
    """

    buffer: Buffer
    place: Var
    axes: tuple[tuple[Size, Size], ...] = ()
    runs: tuple[Size, ...] = ()
    condition: Var | None = None


class Cut(NamedTuple):
    """How the iterations of a statement may be handed out in ranges.

    Attributes:
        extent: how many there are.
        is_loop: they are those of a loop, so levels inside it may be handed out too.
        is_parallel: they may be cut anywhere; the cuts of others are aligned to vectors and tiles.
        least: how many a task has at least.
    """

    extent: Dim
    is_loop: bool = True
    is_parallel: bool = True
    least: int = 1


class Names(Protocol):
    """The texts of scalars and buffers while a kernel is printed; ``graphc.kernel.printer``."""

    def define(self, *results: Var) -> str:
        """New names for scalars."""

    def read(self, *operands: Var) -> str:
        """The names of scalars."""

    def size(self, size: Size) -> str:
        """A dim, or the name of a scalar."""

    def buffer(self, buffer: Buffer) -> str:
        """The name of a buffer."""


class Estimator(Protocol):
    """Costs of work, in picoseconds of one core; ``graphc.kernel.analysis.cost``."""

    def size(self, size: Size) -> Dim:
        """The likely value of a size."""

    def body(self, body: Sequence[Statement], is_vector: bool) -> Dim:
        """One iteration, of vectors or not."""

    def access(self, dtype: DType) -> int:
        """An element loaded or stored."""

    def primitive(self, name: str, dtype: DType) -> int:
        """A primitive of operands of a dtype."""

    def conversion(self, dtype: DType) -> int:
        """A conversion to a dtype."""

    def check(self) -> int:
        """A check of an index."""

    def combination(self, count: int) -> int:
        """One term of each of ``count`` reducers."""

    def product(self, dtype: DType, m: Size, n: Size, k: Size) -> Dim:
        """A matrix product."""


class Statement:
    """One statement; compares by identity.

    A dataclass with a field of a trait's name says ``= field()``: otherwise the value here would be
    the field's default.
    """

    __slots__ = ()

    is_scalar: ClassVar[bool] = False
    """It gives a scalar, and writes nothing."""
    is_plain: ClassVar[bool] = False
    """It is about one element and can't fail: a scalar, or a store."""
    is_arithmetic: ClassVar[bool] = False
    """It is index arithmetic: a literal, a size, or a primitive of such."""
    may_fail: ClassVar[bool] = False
    """It may report an error: an index that is out of range, what a routine refuses."""

    # --- scalars ---

    @property
    def results(self) -> tuple[Var, ...]:
        """The scalars that it defines for those behind it."""
        return ()

    @property
    def operands(self) -> tuple[Var, ...]:
        """The scalars that it reads, those of its body aside."""
        return ()

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that it mentions, its body aside."""
        return ()

    @property
    def known(self) -> Dim | None:
        """The int64 that its result is, if that is a literal or a dim."""
        return None

    @property
    def same(self) -> Var | None:
        """The scalar that its result is, if it is another's."""
        return None

    @property
    def below(self) -> Dim | None:
        """A dim that its result is an index below."""
        return None

    @property
    def primitive(self) -> str | None:
        """The primitive of its operands that its result is."""
        return None

    @property
    def routine(self) -> str | None:
        """The native routine that it calls."""
        return None

    @property
    def is_exact(self) -> bool:
        """Whether it is no elementary function, whose bits are those of an approximation."""
        return True

    @property
    def signature(self) -> str | None:
        """A primitive or a literal as a short text, by which kernels soon differ."""
        return self.primitive

    # --- memory ---

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """The buffers whose elements its effect depends on, its body aside."""
        return ()

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """The buffers that it writes, its body aside."""
        return ()

    @property
    def prefetched(self) -> tuple[Buffer, ...]:
        """The buffers of which it prefetches elements."""
        return ()

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """The buffers that it fills for its own use alone."""
        return ()

    @property
    def touches(self) -> tuple[Touch, ...]:
        """The elements that it reads and writes, where they are to be proved to exist."""
        return ()

    @property
    def written(self) -> tuple[Size, ...]:
        """Sizes whose product says how many elements it writes."""
        return ()

    def moved(self, to: Mapping[Buffer, Buffer]) -> Statement:
        """The statement with other buffers in place of those that are keys, in its body as well."""
        return self

    # --- what it is made of ---

    @property
    def body(self) -> tuple[Statement, ...]:
        """The statements that it repeats."""
        return ()

    @property
    def block(self) -> Block | None:
        """Itself, if it has a body."""
        return None

    @property
    def access(self) -> Access | None:
        """Itself, if it loads or stores an element."""
        return None

    def loop(self, *kinds: LoopKind) -> Block | None:
        """Itself, if it is a loop, of one of the kinds if some are given."""
        return None

    @property
    def cut(self) -> Cut | None:
        """How its iterations may be handed out, if they may."""
        return None

    def cost(self, estimator: Estimator) -> Dim:
        """Its estimated cost."""
        return 0

    # --- text ---

    def text(self, names: Names) -> str:
        """Its text, or the head of one with a body. Defines names of its results."""
        return f"{type(self).__name__}?"

    def end(self, names: Names) -> str | None:
        """The last line of its body, behind the statements."""
        return None


class Scalar(Statement):
    """A statement that gives one scalar."""

    __slots__ = ()

    is_scalar = True
    is_plain = True

    if TYPE_CHECKING:

        @property
        def result(self) -> Var:
            """The scalar that it defines."""

    @property
    def results(self) -> tuple[Var, ...]:
        return (self.result,)

    def text(self, names: Names) -> str:
        # operands first: a statement that reads its own result must print as broken
        text = self.expression(names)
        return f"{names.define(self.result)} = {text}"

    def expression(self, names: Names) -> str:
        """The text of its right side."""
        raise NotImplementedError

    def reference(self, *operands: Any) -> Any:
        """What it gives for arrays of its operands, by NumPy, where it computes with them alone."""
        raise NotImplementedError


class Access(Statement):
    """A load or a store of an element.

    Attributes:
        buffer: where the element lies.
        index: its place.
        value: the scalar that is read or written.
        condition: where it fails, nothing is read.
        other: the value where the condition fails.
    """

    __slots__ = ()

    is_plain = True

    if TYPE_CHECKING:

        @property
        def buffer(self) -> Buffer: ...
        @property
        def index(self) -> Var: ...
        @property
        def value(self) -> Var: ...

    @property
    def condition(self) -> Var | None:
        return None

    @property
    def access(self) -> Access:
        return self

    @property
    def touches(self) -> tuple[Touch, ...]:
        return (Touch(self.buffer, self.index, condition=self.condition),)

    def cost(self, estimator: Estimator) -> Dim:
        return estimator.access(self.buffer.type.dtype)

    def element(self, names: Names) -> str:
        """The text of the element."""
        return f"{names.buffer(self.buffer)}[{names.read(self.index)}]"


@dataclass(frozen=True, slots=True, eq=False)
class Carry:
    """A value that a serial loop hands from one iteration to the next."""

    result: Var
    argument: Var
    initial: Var
    following: Var


@dataclass(frozen=True, slots=True, eq=False)
class Reducer:
    """One result of a reduction, of the dtype that ``reduced_dtype`` says."""

    combine: Combine
    result: Var
    term: Var


class Block(Statement):
    """A statement that repeats a body: a loop or a reduction.

    Attributes:
        index: the number of the iteration.
        extent: how many iterations there are.
        kind: of a loop.
        carries: the values that a loop hands from one iteration to the next.
        lasts: a bool that a loop carries: it ends before the first iteration at which it is false.
        reducers: the results of a reduction, at least one; none for a loop.
        order: the order in which a reduction combines terms.
        condition: where it fails, a reduction has the results of no terms.
        lanes_inside: whether iterations run in the lanes of vectors.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def index(self) -> Var: ...
        @property
        def extent(self) -> Size: ...
        @property
        def lanes_inside(self) -> bool: ...

    @property
    def kind(self) -> LoopKind | None:
        return None

    @property
    def carries(self) -> tuple[Carry, ...]:
        return ()

    @property
    def lasts(self) -> Var | None:
        return None

    @property
    def reducers(self) -> tuple[Reducer, ...]:
        return ()

    @property
    def order(self) -> Order | None:
        return None

    @property
    def condition(self) -> Var | None:
        return None

    @property
    def sizes(self) -> tuple[Size, ...]:
        return (self.extent,)

    @property
    def block(self) -> Block:
        return self

    def over(self, extent: Size) -> Block:
        """The same with another extent."""
        raise NotImplementedError
