"""What an operation is: one ``OpDef`` in one place, and the registry that holds them all.

An op says its type rule, its NumPy reference, its derivative, how it is lowered, its algebraic
facts and where tests may sample it. Everything else (contract tests, differentiation, fusion, code
generation, documentation) reads these fields; there is no second table.

Derivatives and decompositions are written in the user's own algebra (``x * y``, ``ops.exp(x)``)
over ``Value``: the builder that is current decides where the nodes go.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from graphc.base.errors import UnsupportedError
from graphc.ir.attributes import Attributes
from graphc.ir.dtypes import DType
from graphc.ir.lowering import Lowering
from graphc.ir.surface import load_families
from graphc.ir.types import TensorType
from graphc.ir.value import Value

# --- derivatives ---------------------------------------------------------------------------------
#
# In the callables below ``inputs`` and ``outputs`` are the node's Values, ``attrs`` its attributes.


@dataclass(frozen=True, slots=True)
class Partials:
    """Element-wise derivatives of a pointwise op with one output.

    ``rule(inputs, output, attrs)`` gives one partial derivative per input, of the output's shape
    or broadcastable to it, or None for a zero. Both modes multiply by it; the engine sums back
    what the inputs broadcast.

    How a cotangent (or tangent) meets a partial, so that what a select has masked stays masked
    even where the partial is infinite or NaN (``where(x > 0, sqrt(x), 0)`` at 0):

    * a partial of dtype bool is a mask: the engine selects, ``where(partial, cotangent, 0)``;
    * any other is multiplied by ``guarded_multiply(cotangent, partial)``, which is 0 wherever the
      cotangent is 0 and whose own derivative is the product's, so that second order stays right.
    """

    rule: Callable[[Sequence[Value], Value, Attributes], Sequence[Value | None]]


@dataclass(frozen=True, slots=True)
class Linear:
    """An op linear in its differentiable inputs taken together (views, sums, concat, gather).

    ``transpose(cotangent, inputs, output, attrs)`` gives the cotangent of each input, or None for
    an input that is not differentiable (indices). Forward mode applies the op itself to the
    tangents, passing inputs listed in ``fixed`` unchanged. A cotangent of a broadcast input may
    have the output's shape: the engine sums it back, as for ``Partials``.
    """

    transpose: Callable[[Value, Sequence[Value], Value, Attributes], Sequence[Value | None]]
    fixed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Multilinear:
    """An op linear in each input separately (matmul, convolution).

    ``transposes[i](cotangent, inputs, output, attrs)`` gives the cotangent of input i.
    """

    transposes: tuple[Callable[[Value, Sequence[Value], Value, Attributes], Value], ...]


@dataclass(frozen=True, slots=True)
class Custom:
    """Both modes written out.

    ``jvp(tangents, inputs, outputs, attrs)`` gives output tangents (None is zero);
    ``vjp(cotangents, inputs, outputs, attrs)`` gives input cotangents (None is zero).
    """

    jvp: Callable[
        [Sequence[Value | None], Sequence[Value], Sequence[Value], Attributes],
        Sequence[Value | None],
    ]
    vjp: Callable[
        [Sequence[Value | None], Sequence[Value], Sequence[Value], Attributes],
        Sequence[Value | None],
    ]


@dataclass(frozen=True, slots=True)
class ThroughDecomposition:
    """Differentiate the op's decomposition instead."""


@dataclass(frozen=True, slots=True)
class Regional:
    """An op that owns regions (control flow): its derivative is made of those of its regions.

    ``passes.autodiff`` knows how branches are taken and trips repeated.

    Attributes:
        through: the places of the operands that it passes through, by the node's attributes; None
            if through all.
    """

    through: Callable[[Attributes], Collection[int]] | None = None


@dataclass(frozen=True, slots=True)
class Flat:
    """Discrete or piecewise constant: the derivative is zero everywhere, by convention."""


@dataclass(frozen=True, slots=True)
class NotDifferentiable:
    """Asking for the derivative is an error, for the reason given."""

    reason: str


Derivative: TypeAlias = (
    Partials
    | Linear
    | Multilinear
    | Custom
    | ThroughDecomposition
    | Regional
    | Flat
    | NotDifferentiable
)

# --- facts ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Algebra:
    """Facts that hold exactly for the dtypes named in each rule's own condition."""

    commutative: bool = False
    involution: bool = False
    idempotent: bool = False
    monotone: bool = False


@dataclass(frozen=True, slots=True)
class Domain:
    """Where contract tests sample an op: per input an interval, and which dtypes it takes.

    ``differentiable`` narrows the interval for finite differences (away from kinks and poles).
    ``example``, for ops whose inputs need structure, makes (arrays, attrs) from a NumPy generator.
    """

    dtypes: tuple[DType, ...] = ()
    low: float = -4.0
    high: float = 4.0
    differentiable: tuple[float, float] | None = None
    example: Callable[[Any, DType], tuple[Sequence[Any], dict[str, Any]]] | None = None


InferTypes: TypeAlias = Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]]
"""The types of an op's results, from those of its operands and its attributes."""

ComplexRule: TypeAlias = Callable[["OpDef", Sequence[Value], Attributes], Any]
"""What an op means for complex operands, as operations on their parts: a value, or several."""

Numerics: TypeAlias = Literal["E", "R", "T"]
Effect: TypeAlias = Literal["pure", "state", "control", "host", "ordered"]


@dataclass(frozen=True, slots=True, eq=False)
class OpDef:
    """One operation.

    Attributes:
        name: NumPy's or ONNX's name; unique.
        doc: what it computes, shapes and dtypes, special values; shown in the reference.
        infer: output types from input types and normalised attributes. The input dtypes are
            already promoted; it raises ShapeError or DTypeError.
        reference: ``reference(*arrays, **attrs)`` in NumPy, one array or a tuple of them.
        derivative: see above; leaving it out is an error.
        lowering: how it becomes code (``graphc.ir.lowering``); its traits also drive fusion.
        numerics: E exact, R reproducible, T bounded (docs/numerics.md).
        algebra: facts for rules.
        domain: where tests sample it.
        effect: pure, or state (reads or writes variables), or control (owns regions), or host
            (calls a Python function, which is taken for pure but never tried out), or ordered (so
            too, but what the function does counts: the first operand and the first result are
            tokens).
        max_ulp: documented accuracy of a class R function.
        may_fail: whether it may raise an error when it runs, as for an index out of range or a
            singular matrix; nodes whose attrs have ``drop`` raise none (``Node.may_fail``).
        broadcasts: whether operands broadcast to the shape of the result, as NumPy's do; so it is
            of pointwise ops, and of those that decompose into them.
        any_precision: whether the reference computes in the precision of its operands, as in long
            doubles.
        of_complex: what is recorded instead where an operand is complex; "whole" if nodes of the
            op take complex values, as those with an effect do, None if it has no meaning for them.
    """

    name: str
    doc: str
    infer: InferTypes
    reference: Callable[..., Any]
    derivative: Derivative
    lowering: Lowering
    numerics: Numerics = "E"
    algebra: Algebra = field(default_factory=Algebra)
    domain: Domain = field(default_factory=Domain)
    effect: Effect = "pure"
    max_ulp: float = 0.0
    may_fail: bool = False
    broadcasts: bool = False
    any_precision: bool = False
    of_complex: ComplexRule | Literal["whole"] | None = None

    def __post_init__(self) -> None:
        if self.lowering.is_pointwise:
            object.__setattr__(self, "broadcasts", True)
        if self.effect != "pure":
            object.__setattr__(self, "of_complex", "whole")

    @property
    def calls_host(self) -> bool:
        """Whether it calls a Python function, which may do anything and raise errors."""
        return self.effect == "host" or self.effect == "ordered"

    @property
    def is_heavy(self) -> bool:
        """Whether it costs more than arithmetic and moves: products, reductions, functions."""
        return self.lowering.is_heavy or (self.lowering.is_pointwise and self.numerics != "E")

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (lookup, (self.name,))


_REGISTRY: dict[str, OpDef] = {}
_FOREIGN: set[OpDef] = set()
_DECLARING = ("graphc.ir.op", "graphc.ops.declare")


def register(op: OpDef) -> OpDef:
    """Enters an op; a second one of the same name is a bug."""
    if op.name in _REGISTRY:
        raise ValueError(f"op {op.name!r} is declared twice")
    _REGISTRY[op.name] = op
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__") in _DECLARING:
        frame = frame.f_back
    if not str(frame.f_globals.get("__name__")).startswith("graphc."):
        _FOREIGN.add(op)
    return op


def is_own(op: OpDef) -> bool:
    """Whether an op is declared in graphc itself; another may change without graphc changing."""
    return op not in _FOREIGN


def lookup(name: str) -> OpDef:
    """The op of that name.

    Raises:
        UnsupportedError: naming the op, if there is none.
    """
    load_families()
    found = _REGISTRY.get(name)
    if found is None:
        raise UnsupportedError(f"there is no operation called {name!r}")
    return found


def all_ops() -> tuple[OpDef, ...]:
    """Every registered op, by name."""
    load_families()
    return tuple(_REGISTRY[name] for name in sorted(_REGISTRY))
