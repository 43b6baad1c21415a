"""Calls of Python functions while a graph runs, and the order of those whose effects count.

Invariant: order is data. An ordered call reads the token of the effect before it and makes its own,
as control flow does that has such calls inside, so no pass need know of order. In a recorder a
token says which effect comes first, not that it must run: extraction puts those that run in a row
(``graphc.compiling.extraction.in_order``), and takes ``order`` and ``after`` out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, GradientError, UnsupportedError
from graphc.base.source import caller
from graphc.base.words import plural, shown
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.graph import Node
from graphc.ir.host import TOKEN, HostFunction
from graphc.ir.lowering import Structural
from graphc.ir.op import Custom, NotDifferentiable, OpDef, register
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.convert import as_value, converted


def _types(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return [TensorType(d, s) for d, s in zip(attrs["dtypes"], attrs["shapes"], strict=True)]


def _ordered_types(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    if inputs[0] != TOKEN:
        raise DTypeError(f"an ordered call reads a token, which {inputs[0]} is not")
    return [TOKEN, *_types(inputs, attrs)]


def _called(
    *arrays: Any, function: HostFunction, dtypes: Any, shapes: Any
) -> tuple[np.ndarray[Any, Any], ...]:
    return tuple(function([np.array(array) for array in arrays], dtypes, shapes))


def _called_in_order(
    token: Any, *arrays: Any, function: HostFunction, dtypes: Any, shapes: Any
) -> tuple[Any, ...]:
    return (np.True_, *_called(*arrays, function=function, dtypes=dtypes, shapes=shapes))


# --- derivatives ---------------------------------------------------------------------------------


def _cotangents(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> list[Value | None]:
    function: HostFunction = attrs["function"]
    if function.derivative is None:
        raise GradientError(
            f"host_call of {function.name} has no derivative",
            hint="give derivative=lambda inputs, outputs, cotangents: ..., or put gx.stop_gradient "
            "before it if it shall count as a constant",
        )
    zeros_like = surface_function("zeros_like")
    known = [
        (zeros_like(value) if cotangent is None else cotangent)
        if value.dtype.is_differentiable
        else None
        for value, cotangent in zip(outputs, cotangents, strict=True)
    ]
    given = function.derivative(tuple(inputs), tuple(outputs), tuple(known))
    what = f"the derivative of host_call of {function.name}"
    if not isinstance(given, (tuple, list)):
        given = (given,)
    if len(given) != len(inputs):
        raise GradientError(
            f"{what} gives {plural(len(given), 'cotangent')} for {plural(len(inputs), 'operand')}",
            where=caller(),
            hint="give a tuple of one for each operand; None is for zero",
        )
    return [
        None if item is None else _cotangent(item, value, f"{what}, operand {place}")
        for place, (item, value) in enumerate(zip(given, inputs, strict=True))
    ]


def _cotangent(item: Any, value: Value, what: str) -> Value | None:
    if not value.dtype.is_differentiable:
        return None
    made = as_value(item, value)
    if not made.dtype.is_differentiable:
        raise GradientError(f"{what}, is {shown(item)}, no float")
    return converted(made, value.dtype)


def _ordered_cotangents(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> list[Value | None]:
    return [None, *_cotangents(cotangents[1:], inputs[1:], outputs[1:], attrs)]


def _tangents(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> list[Value | None]:
    function: HostFunction = attrs["function"]
    raise GradientError(
        f"host_call of {function.name} has no derivative in forward mode",
        hint="derivative= says cotangents only: use gx.gradients, or put gx.stop_gradient before "
        "it if it shall count as a constant",
    )


host_call_op = register(
    OpDef(
        name="host_call",
        doc=(
            "What a Python function gives for the operands, taken for a pure function of them: it "
            "may run once for several equal calls, or not at all where nothing reads its results."
        ),
        infer=_types,
        reference=_called,
        derivative=Custom(_tangents, _cotangents),
        lowering=Structural(),
        effect="host",
    )
)

ordered_host_call_op = register(
    OpDef(
        name="ordered_host_call",
        doc=(
            "What a Python function gives for the operands behind the first, behind a token. It "
            "runs once, after what made the token that is the first operand."
        ),
        infer=_ordered_types,
        reference=_called_in_order,
        derivative=Custom(_tangents, _ordered_cotangents),
        lowering=Structural(),
        effect="ordered",
    )
)

order_op = register(
    OpDef(
        name="order",
        doc="In a user's graph: the token of the start of a run, before all ordered effects.",
        infer=lambda inputs, attrs: [TOKEN],
        reference=lambda: np.False_,
        derivative=NotDifferentiable("a token is no number"),
        lowering=Structural(),
        effect="state",
    )
)


def _first_after(
    given: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> list[Value | None]:
    """A cotangent or tangent, which asks for the effect too."""
    (value,) = given[:1]
    return [None if value is None else apply(after_op, value, inputs[1])]


after_op = register(
    OpDef(
        name="after",
        doc="In a user's graph: the first operand; wherever it is needed, so is the second.",
        infer=lambda inputs, attrs: [inputs[0]],
        reference=lambda value, token: np.array(value),
        derivative=Custom(
            _first_after, lambda *given: [*_first_after(*given), None]
        ),
        lowering=Structural(),
        effect="state",
    )
)


def refuse_host_calls(nodes: Iterable[Node], what: str) -> None:
    """Refuses nodes that call Python, in their regions too.

    Raises:
        UnsupportedError: naming the function and the user's line.
    """
    for node in nodes:
        if node.op.calls_host:
            function: HostFunction = node.attrs["function"]
            raise UnsupportedError(
                f"{what} can't hold {function.name}, a Python function of this process",
                where=node.provenance.where,
                hint="fetch what goes into it, and feed what comes out of it",
            )
        for region in node.regions:
            refuse_host_calls(region.nodes, what)


__all__ = ["after_op", "host_call_op", "order_op", "ordered_host_call_op", "refuse_host_calls"]
