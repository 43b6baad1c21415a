"""How operations become code: the kinds of lowering, with the traits that passes go by.

A kind is declared here once. Its traits say how its operations read operands, what kernel they
make, what they cost; fusion, passes over graphs and checks ask these and name no kind. Lowering has
a function for each kind: ``graphc.lower.evaluate`` for those of which single elements can be
computed, ``graphc.lower.fused_node`` for those that are a kernel of their own.

Rules get the builder of kernels as an argument, ``ElementBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias

from graphc.base.errors import UnsupportedError
from graphc.ir.attributes import Attributes
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType
from graphc.ir.types import TensorType

if TYPE_CHECKING:
    from graphc.ir.value import Value

# --- rules ---------------------------------------------------------------------------------------


class Scalar(Protocol):
    """A scalar of the kernel under construction; opaque to ops."""

    @property
    def dtype(self) -> DType: ...


class ElementBuilder(Protocol):
    """What lowering rules see of the kernel builder: scalar arithmetic for one output element."""

    def constant(self, value: bool | int | float, dtype: DType) -> Scalar: ...

    def dim(self, dim: Dim) -> Scalar:
        """A dim as an int64 scalar."""

    def apply(self, primitive: str, *operands: Scalar) -> Scalar:
        """A scalar primitive of ``graphc.kernel.scalar``, by name."""

    def cast(self, operand: Scalar, dtype: DType) -> Scalar: ...

    def load(self, operand: int, index: Sequence[Scalar]) -> Scalar:
        """The element of the op's input number ``operand`` at an in-range index."""

    def load_if(
        self, condition: Scalar, operand: int, index: Sequence[Scalar], other: Scalar
    ) -> Scalar:
        """Like ``load`` where the condition holds, else ``other``; nothing is read there."""

    def checked_index(
        self, index: Scalar, bound: Dim, axis: int, wraps: bool = True
    ) -> Scalar:
        """A user's index of any integers, checked, as a place: int64 and not negative.

        Negative counts from the end if ``wraps``, and is out of range if not.
        Out of range raises IndexRangeError at run time, naming index, position and user line.
        """


PointwiseRule: TypeAlias = Callable[[ElementBuilder, Sequence[Scalar], Attributes], Scalar]
IndexRule: TypeAlias = Callable[
    [ElementBuilder, TensorType, TensorType, Attributes, Sequence[Scalar]], Sequence[Scalar]
]
ElementRule: TypeAlias = Callable[
    [ElementBuilder, Sequence[TensorType], TensorType, Attributes, Sequence[Scalar]], Scalar
]
PartsRule: TypeAlias = Callable[["Sequence[Value]", Attributes], "Value | Sequence[Value]"]

# --- traits --------------------------------------------------------------------------------------

Reads: TypeAlias = Literal["same", "moved", "picked", "row", "memory"]
"""Which elements of its operands an operation reads for one element of its result.

``same``: those at the same index (equal shapes, or dims that broadcast). ``moved``: that of its one
operand at an index made of the result's. ``picked``: those at indices of its own, of any number of
operands, which are stored. ``row``: all along one axis, in order. ``memory``: any, and each many
times, so operands are read from memory and never computed where they are read.
"""

KernelKind: TypeAlias = Literal["map", "rows", "product", "single"]
"""What loops an operation makes by itself, and so what group of fusion it starts
(``graphc.ops.fusion_contract``): over all elements of one shape; over rows that are reduced; a
matrix product and work on its elements; loops that nothing joins."""

Placed: TypeAlias = Literal["always", "unshared", "never"]
"""Whether the kernel of an operation can store its result as a slice of a larger array. It is
``unshared`` if it can only where nothing else reads the result."""


class Lowering:
    """The base of all kinds; its traits are those of an operation that makes no kernel.

    Attributes:
        reads: how it reads its operands; None if it is not computed.
        kernel: the kernel it makes by itself; None if it makes none.
        placed: whether its kernel can store the result as a slice of a larger array.
        keeps_memory: whether the result is the operand's memory in another shape or dtype.
        updates: the number of the operand that its result begins as a copy of.
        is_heavy: whether it costs more than arithmetic and moves for each element.
        is_coarse: whether ``parts`` say what it stands for.
        rearranges: whether each element of the result is one of an operand, moves aside.
        tabulates: whether it tabulates what sizes alone decide: made once, however large it is.
        keeps_words: whether it takes elements as they are, to move, choose or convert them. What
            does not computes with them, and so with narrow floats only once they are converted.
    """

    __slots__ = ()
    reads: ClassVar[Reads | None] = None
    kernel: ClassVar[KernelKind | None] = None
    placed: ClassVar[Placed] = "never"
    keeps_memory: ClassVar[bool] = False
    updates: ClassVar[int | None] = None
    is_heavy: ClassVar[bool] = False
    is_coarse: ClassVar[bool] = False
    rearranges: bool = False
    tabulates: bool = False
    keeps_words: bool = False

    @property
    def is_pointwise(self) -> bool:
        """Whether each element is computed from the operands' elements at the same index."""
        return self.reads == "same"

    @property
    def is_move(self) -> bool:
        """Whether elements are only moved: each is one of an operand, or made of its index."""
        return self.reads in ("moved", "picked")

    @property
    def is_view(self) -> bool:
        """Whether it only says at which index of its one operand each element is."""
        return self.reads == "moved"

    @property
    def is_reduction(self) -> bool:
        """Whether it combines the elements along one axis, which is dropped."""
        return self.kernel == "rows"

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product."""
        return self.kernel == "product"

    @property
    def running(self) -> Running | None:
        """How a running reduction joins the next element to what it has; None for other kinds."""
        return None

    def parts(self, inputs: Sequence[Value], attrs: Attributes) -> tuple[Value, ...]:
        """What a coarse op stands for, in the user's algebra: a value for each output.

        Raises:
            UnsupportedError: for an op that is not coarse.
        """
        raise UnsupportedError("only a coarse op has parts")


# --- kinds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pointwise(Lowering):
    """Same index in all operands (equal shapes, or dims that broadcast).

    ``rule`` is the name of a scalar primitive or a function of the operands' scalars.
    """

    rule: str | PointwiseRule
    keeps_words: bool = field(default=False)
    reads = "same"
    kernel = "map"
    placed = "always"


@dataclass(frozen=True, slots=True)
class View(Lowering):
    """Moves elements only: ``index(b, input_type, output_type, attrs, output_index)``."""

    index: IndexRule
    keeps_words = True
    reads = "moved"
    kernel = "map"
    placed = "always"


@dataclass(frozen=True, slots=True)
class Reshape(Lowering):
    """The view that keeps row-major order: the flat index is unchanged."""

    keeps_words = True
    reads = "moved"
    kernel = "map"
    keeps_memory = True


@dataclass(frozen=True, slots=True)
class Reinterpret(Lowering):
    """The same memory as complex numbers or as their parts; it is never part of a kernel."""

    keeps_words = True
    keeps_memory = True


@dataclass(frozen=True, slots=True)
class Bitcast(Lowering):
    """The bytes of the operand as elements of another dtype, in memory of their own."""

    keeps_words = True


@dataclass(frozen=True, slots=True)
class Element(Lowering):
    """Each output element by its index: gather, pad, concat, iota.

    ``rule(b, input_types, output_type, attrs, output_index)``.
    """

    rule: ElementRule
    keeps_words = True
    reads = "picked"
    kernel = "map"
    placed = "always"


Combine: TypeAlias = Literal[
    "add", "squares", "multiply", "minimum", "maximum", "and", "or", "xor", "argmin", "argmax"
]
"""How terms become one; "squares" adds up their squares, which floats alone have."""


@dataclass(frozen=True, slots=True)
class Reduction(Lowering):
    """Reduces the axis in attrs["axis"] of its one input by ``combine``; the axis is dropped.

    "deviations" are the squares of what terms differ from their mean, added up; kernels make two
    combinations of it (``graphc.lower.shifted_variance``).
    """

    combine: Combine | Literal["deviations"]
    reads = "row"
    kernel = "rows"
    placed = "always"
    is_heavy = True


Running: TypeAlias = Combine | Literal["logaddexp"]
"""How a running reduction joins the next term to what it has; "logaddexp" is log(e^x + e^y)."""


@dataclass(frozen=True, slots=True)
class Scan(Lowering):
    """Running ``combine`` along attrs["axis"] of its one input."""

    combine: Running
    reads = "memory"
    kernel = "single"
    placed = "unshared"
    is_heavy = True

    @property
    def running(self) -> Running:
        """The combination."""
        return self.combine


@dataclass(frozen=True, slots=True)
class Scatter(Lowering):
    """``out = base`` with ``updates`` combined into ``out[..., index, ...]`` along attrs["axis"].

    They meet one by one, in index order, and "set" keeps the last. ``along``: each update has an
    index of its own, as for ``take_along_axis``. An index out of range is an error, or names no
    place where attrs has ``drop``. Negative ones count from the end unless ``wraps`` is False.
    """

    combine: Combine | Literal["set"]
    along: bool = False
    reads = "memory"
    kernel = "single"
    updates = 0
    is_heavy = True

    @property
    def keeps_words(self) -> bool:  # type: ignore[override]
        """Whether updates take places, and are not combined with what is there."""
        return self.combine == "set"


@dataclass(frozen=True, slots=True)
class Contraction(Lowering):
    """A batched matrix product: a [*B, m, k] by b [*B, k, n]."""

    reads = "memory"
    kernel = "product"
    placed = "unshared"
    is_heavy = True


NumbersRule: TypeAlias = Callable[[Sequence[TensorType], Attributes], Sequence[Dim]]


@dataclass(frozen=True, slots=True)
class Native(Lowering):
    """Rows that are handed to a native routine (``graphc.kernel.routines``), by name.

    The last axes of each operand and of each result are a row, as many as ``ranks`` says, results
    last; what stands before them is the same in all, or missing in operands that all rows share.
    ``numbers(input_types, attrs)`` are the
    routine's.
    """

    routine: str
    ranks: tuple[int, ...]
    numbers: NumbersRule
    rearranges: bool = field(default=False)
    tabulates: bool = field(default=False)
    reads = "memory"
    kernel = "single"
    is_heavy = True


@dataclass(frozen=True, slots=True)
class Decompose(Lowering):
    """Rewritten by the required pass ``decompose``: ``rule(inputs, attrs)`` in user algebra."""

    rule: PartsRule
    keeps_words: bool = field(default=False)
    is_heavy = True
    is_coarse = True

    def parts(self, inputs: Sequence[Value], attrs: Attributes) -> tuple[Value, ...]:
        """What the rule gives, one value or several."""
        results = self.rule(inputs, attrs)
        return tuple(results) if isinstance(results, Sequence) else (results,)


@dataclass(frozen=True, slots=True)
class Structural(Lowering):
    """Handled by the compiler itself: constants, state, control flow, kernels, wholes."""

    keeps_words = True
