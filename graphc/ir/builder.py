"""Where new nodes go: the builder that is current.

Users' ops join the recorder of their operands (or, inside a branch or loop body being traced, the
region's recorder). While a pass works, its editor is current, so that decompositions, derivatives
and rules can be written in the user's own algebra.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, Protocol

from graphc.base.errors import DTypeError, GraphcError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes, SharedAttributes, bare
from graphc.ir.dims.expressions import ReadDim
from graphc.ir.dtypes import storage_alone
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.op import OpDef
from graphc.ir.types import TensorType
from graphc.ir.value import Value


class Builder(Protocol):
    """Something that nodes can be added to."""

    def add(
        self,
        op: OpDef,
        inputs: Sequence[Value],
        attrs: Attributes,
        regions: Sequence[Graph] = (),
        name: str | None = None,
    ) -> Node:
        """Adds a node and gives it back; its output types are inferred."""

    def home(self, inputs: Sequence[Value]) -> Builder:
        """The builder that gets a node over these operands while this one is current."""


_TYPE = attrgetter("_type")

_CURRENT: ContextVar[Builder | None] = ContextVar("graphc_current_builder", default=None)


_NO_ATTRIBUTES: Attributes = SharedAttributes()


_DEFAULT: list[Builder] = []
"""The default graph, put here by the recorder module: it stands where nothing is entered."""


def install_default(builder: Builder) -> None:
    """Says which graph stands where none is entered."""
    _DEFAULT[:] = [builder]


def default() -> Builder:
    """The graph that stands where none is entered."""
    return _DEFAULT[0]


def builder_for(inputs: Sequence[Value]) -> Builder:
    """Who gets a node over these operands.

    A pass's editor, if one is current; the region being traced, if there is one; otherwise the
    operands' own graph.
    """
    builder = _CURRENT.get()
    return (_DEFAULT[0] if builder is None else builder).home(inputs)


def current() -> Builder | None:
    """The builder that is current in this thread or task, if any."""
    return _CURRENT.get()


@contextmanager
def building(builder: Builder) -> Iterator[None]:
    """Makes a builder current for the block."""
    token = _CURRENT.set(builder)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class ComplexOperands(DTypeError):
    """Operands are complex, and the operation is recorded as others on their parts, or refused."""


def apply(
    op: OpDef,
    *inputs: Value,
    name: str | None = None,
    **attrs: Any,
) -> Value:
    """Adds a node with one output to the current builder; operands are already converted.

    Operations on complex operands are added as operations on their parts.

    Raises:
        DTypeError: for complex operands of an operation without a meaning for them.
    """
    try:
        (value,) = builder_for(inputs).add(op, inputs, attrs, (), name).outputs
    except ComplexOperands:
        return of_complex(op, inputs, attrs)  # type: ignore[no-any-return]
    return value


def apply_all(op: OpDef, *inputs: Value, **attrs: Any) -> tuple[Value, ...]:
    """``apply`` for an operation of several outputs."""
    try:
        return builder_for(inputs).add(op, inputs, attrs).outputs
    except ComplexOperands:
        return tuple(of_complex(op, inputs, attrs))


def apply_to(
    op: OpDef, operands: Sequence[Value], attrs: Attributes = _NO_ATTRIBUTES
) -> Value:
    """``apply`` for operands and attributes that are at hand, which takes half the time."""
    try:
        value: Value = builder_for(operands).add(op, operands, attrs).outputs[0]
    except ComplexOperands:
        return of_complex(op, operands, attrs)  # type: ignore[no-any-return]
    return value


def of_complex(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Any:
    """An operation on complex operands, recorded as operations on their parts; the result, or
    several.

    Raises:
        DTypeError: if it has no meaning for complex numbers.
    """
    if op.of_complex is None or op.of_complex == "whole":
        raise _refused(op, operands, attrs)
    return op.of_complex(op, operands, attrs)


def _refused(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> DTypeError:
    given = next(v.dtype for v in operands if v.dtype.is_complex)
    return DTypeError(
        f"{op.name} does not take {given}",
        where=caller(),
        hint="it is for real numbers: use gx.real(x), gx.imag(x) or gx.abs(x)",
        node=operation_text(op.name, operands, attrs),
    )


def apply_node(
    op: OpDef,
    inputs: Sequence[Value],
    attrs: Attributes,
    regions: Sequence[Graph] = (),
    name: str | None = None,
) -> Node:
    """Adds a node to the builder that is current, or to the graph of its operands.

    Raises:
        DTypeError: for complex operands, unless the operation takes them as they are.
    """
    try:
        return builder_for(inputs).add(op, inputs, attrs, regions, name)
    except ComplexOperands:
        raise _refused(op, inputs, attrs) from None


def infer(op: OpDef, inputs: Sequence[Value], attrs: Attributes) -> tuple[TensorType, ...]:
    """The output types; an error of the rule gets the operation's text added.

    Raises:
        ComplexOperands: where operands are complex, unless the operation takes them as they are.
        DTypeError: for operands of dtypes for storage alone, if the operation computes with them.
    """
    types = list(map(_TYPE, inputs))
    for type_ in types:
        if type_.dtype.is_complex and op.of_complex != "whole":
            raise ComplexOperands(f"{op.name} is recorded by the parts of {type_.dtype}")
        if type_.dtype.is_storage and not op.lowering.keeps_words:
            error = storage_alone(f"{op.name} does not take {type_.dtype}", type_.dtype)
            error.node = operation_text(op.name, inputs, attrs)
            raise error
    return _inferred(op, inputs, types, attrs)


def infer_with_regions(
    op: OpDef, inputs: Sequence[Value], attrs: Attributes, regions: Sequence[Graph]
) -> tuple[TensorType, ...]:
    """Ops that own regions infer from them, passed as the attribute ``regions``."""
    given = {**attrs, "regions": tuple(regions)}
    return _inferred(op, inputs, list(map(_TYPE, inputs)), given)


def _inferred(
    op: OpDef, inputs: Sequence[Value], types: Sequence[TensorType], attrs: Attributes
) -> tuple[TensorType, ...]:
    try:
        return tuple(op.infer(types, attrs))
    except GraphcError as error:
        if error.node is None:
            error.node = operation_text(op.name, inputs, attrs)
        raise


def operation_text(name: str, inputs: Sequence[Value], attrs: Attributes) -> str:
    """An operation as errors show it: operands with their names and types, then attributes.

    Regions are graphs of their own and left out.
    """
    operands = ", ".join(f"{v.name + ': ' if v.name else ''}{v.type.brief()}" for v in inputs)
    shown = ", ".join(f"{key}={value!r}" for key, value in attrs.items() if key != "regions")
    return f"{name}({operands}{'; ' + shown if shown else ''})"


def make_node(
    op: OpDef,
    inputs: Sequence[Value],
    attrs: Attributes,
    regions: Sequence[Graph],
    provenance: Provenance,
    outputs: Sequence[Value] | None = None,
    name: str | None = None,
) -> Node:
    """A node of inferred type, with new outputs unless given."""
    if ReadDim.exist:
        attrs, _ = bare(attrs)
    if outputs is None:
        if regions or op.effect == "control":
            types = infer_with_regions(op, inputs, attrs, regions)
        else:
            types = infer(op, inputs, attrs)
        outputs = (
            (Value(types[0], name),)
            if len(types) == 1
            else tuple([Value(type_, name) for type_ in types])
        )
    return Node(op, tuple(inputs), attrs, tuple(outputs), tuple(regions), provenance)
