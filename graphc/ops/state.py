"""State: variables and assignments, as they stand in the user's graph.

Extraction turns them into plain inputs and outputs, so no pass meets a mutation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.base.errors import DTypeError
from graphc.ir.attributes import Attributes, Payload
from graphc.ir.lowering import Structural
from graphc.ir.op import Linear, NotDifferentiable, OpDef, register
from graphc.ir.types import TensorType


def _variable_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    payload: Payload = attrs["initial"]
    return [payload.type]


variable_op = register(
    OpDef(
        name="variable",
        doc="A variable's value at the start of the run.",
        infer=_variable_type,
        reference=lambda initial, **attrs: initial.array,
        derivative=NotDifferentiable("a variable has no inputs"),
        lowering=Structural(),
        effect="state",
    )
)


def _assign_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    before, after = inputs
    if before != after:
        raise DTypeError(
            f"a variable of type {before} cannot be assigned a value of type {after}",
            hint="reshape, broadcast or cast the value first",
        )
    return [before]


assign_op = register(
    OpDef(
        name="assign",
        doc="Gives a variable (first operand) a new value (second), and gives that value.",
        infer=_assign_type,
        reference=lambda before, after: np.array(after),
        derivative=Linear(lambda cotangent, inputs, output, attrs: (None, cotangent)),
        lowering=Structural(),
        effect="state",
    )
)
