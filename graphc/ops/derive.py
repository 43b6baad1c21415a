"""Short forms of derivative rules.

Invariant: a rule sees tangents and cotangents that are there; where there is none there is no
result, which the forms here see to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.ir.attributes import Attributes
from graphc.ir.op import Custom
from graphc.ir.value import Value

Mode = Callable[[Value, Value, Value, Attributes], Value]
"""From the tangent or cotangent, the input, the output and the attributes to the result."""


def of_one_input(jvp: Mode, vjp: Mode) -> Custom:
    """The derivative of an op of one input and one output, from a rule for each mode."""

    def forward(
        tangents: Sequence[Value | None],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        attrs: Attributes,
    ) -> Sequence[Value | None]:
        (tangent,) = tangents
        return (None if tangent is None else jvp(tangent, inputs[0], outputs[0], attrs),)

    def backward(
        cotangents: Sequence[Value | None],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        attrs: Attributes,
    ) -> Sequence[Value | None]:
        (cotangent,) = cotangents
        return (None if cotangent is None else vjp(cotangent, inputs[0], outputs[0], attrs),)

    return Custom(forward, backward)


__all__ = ["Mode", "of_one_input"]
