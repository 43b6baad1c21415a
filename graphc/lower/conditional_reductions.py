"""Conditional reductions: a row needs one only if a ``where`` picks a value computed from it.

    plain = reduce_sum(x * x);  scaled = reduce_sum((x * small) * (x * small))
    root = sqrt(where(plain == inf, scaled, plain) {seldom = True})

Hardly any row needs the scaled sum, so a kernel of rows tests each row once its plain sum is known.
A ``where`` without ``seldom`` postpones nothing: reading a row once for both operands takes less
time than reading it for one and then perhaps for the other. Invariant: a row that needs a reduction
computes it as ever, and other rows pick none of its results, so bits are the same.
"""

from __future__ import annotations

from typing import TypeAlias

from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.fusion_contract import Form
from graphc.ops.pointwise.logic import where_op

Need: TypeAlias = tuple[Value, ...]
"""Conditions of which one holds where a value is needed. Empty: every row needs it."""


def needs(region: Graph, form: Form) -> dict[Node, Need]:
    """The reductions of a region that few rows need, with the conditions that say which.

    Every row needs the operands of the conditions, so no condition waits for such a reduction.
    """
    found: dict[Value, Need] = dict.fromkeys(region.outputs, ())
    result: dict[Node, Need] = {}
    for node in reversed(region.nodes):
        reads = [found[value] for value in node.outputs if value in found]
        need = either(*reads) if reads else ()
        if need and node.op.lowering.is_reduction:
            result[node] = need
        picks = _picks_seldom(node, form)
        for place, value in enumerate(node.inputs):
            how = need
            if picks and place < 2:
                how = node.inputs[:1] if place else ()
            found[value] = either(found[value], how) if value in found else how
    return result


def _picks_seldom(node: Node, form: Form) -> bool:
    """Whether a node picks its second operand for few rows: by a condition of which each row has an
    element."""
    if node.op is not where_op or not node.attrs.get("seldom"):
        return False
    return form.is_row(node.output) and node.inputs[0].shape == node.output.shape


def either(*needs: Need) -> Need:
    """When one of several values is needed."""
    # in an order that is the same in every process
    return tuple(dict.fromkeys(value for need in needs for value in need)) if all(needs) else ()


__all__ = ["Need", "either", "needs"]
