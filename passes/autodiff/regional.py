"""THE table: how derivatives go through each op that owns regions, in reverse and forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from graphc.ir.graph import Node
from graphc.ir.op import OpDef
from graphc.ir.value import Value
from graphc.ops.control import cond_op, custom_derivative_op, while_op
from graphc.ops.loops import Producer
from passes.autodiff import branches, loops, own_rules
from passes.autodiff.branches import Jvp, Vjp

Found: TypeAlias = "list[Value | None]"
Given: TypeAlias = "Sequence[Value | None]"


class Rule(NamedTuple):
    """The derivative of an op in both modes.

    Attributes:
        pull: a cotangent for each operand, of the node, those of its results, through which of its
            operands derivatives flow, what makes values around it, and how regions are
            differentiated.
        push: a tangent for each result, of the node, those of its operands, and the same.
    """

    pull: Callable[[Node, Given, Sequence[bool], Producer, Vjp], Found]
    push: Callable[[Node, Given, Producer, Jvp], Found]


RULES: dict[OpDef, Rule] = {
    cond_op: Rule(
        lambda node, cotangents, flows, _, vjp: branches.pulled(node, cotangents, flows, vjp),
        lambda node, tangents, _, jvp: branches.pushed(node, tangents, jvp),
    ),
    while_op: Rule(loops.pulled, loops.pushed),
    custom_derivative_op: Rule(
        lambda node, cotangents, flows, _, vjp: own_rules.pulled(node, cotangents, flows, vjp),
        lambda node, tangents, *_: own_rules.pushed(node, tangents),
    ),
}
