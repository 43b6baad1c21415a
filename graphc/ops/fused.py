"""The fused group: a node that owns the small graph it stands for."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.attributes import Attributes
from graphc.ir.graph import Node
from graphc.ir.lowering import Structural
from graphc.ir.op import NotDifferentiable, OpDef, register
from graphc.ir.types import TensorType
from graphc.ops.control import through_regions


def _fused_types(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (region,) = attrs["regions"]
    return [value.type for value in region.outputs]


AHEAD = {"ahead": True}
"""The attributes of a group whose indices are checked by a launch before it, so that it can't fail
itself: a scatter that writes a variable where it lies."""


def checks_ahead(node: Node) -> bool:
    """Whether the indices of a fused node are checked before it."""
    return "ahead" in node.attrs


fused_op = register(
    OpDef(
        name="fused",
        doc="A group of operations that becomes one kernel; its region computes its outputs.",
        infer=_fused_types,
        reference=through_regions,
        derivative=NotDifferentiable("fusion runs after differentiation"),
        lowering=Structural(),
        effect="control",
    )
)
