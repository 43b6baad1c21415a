"""The kernel of one fused node, by the kind of its region, and the launches it takes.

* maps: no reduction; one loop nest over the common shape of the outputs (``nest.py``);
* rows: reductions of one axis of one common shape, in stages over a row (``rows.py``);
* matrix products and work on their elements (``contraction.py``) or rows (``product_rows.py``);
* single scans and scatters (``special.py``).

Buffers are the node's operands, then its outputs, then scratch. Where threads can share more than
one of a kernel's loop nests, it becomes several launches (``series.py``).
"""

from __future__ import annotations

from collections.abc import Collection

from graphc.base.target import Target
from graphc.ir.graph import Graph, Node
from graphc.ir.op import Contraction, Reduction, Scan, ScatterAdd
from graphc.kernel.ir import Kernel
from graphc.lower.contraction import lower_contraction
from graphc.lower.nest import lower_map
from graphc.lower.product_rows import lower_product_rows
from graphc.lower.region import Slices, computed
from graphc.lower.rows import lower_rows
from graphc.lower.series import Series, series_of
from graphc.lower.special import lower_scan, lower_scatter


def lower_group(node: Node, target: Target) -> Series:
    """The launches of a fused node; the first buffers are the node's inputs and outputs in order.

    Raises:
        UnsupportedError: naming the op that no kernel can be made of.
    """
    region, slices = computed(node.regions[0])
    kinds = {type(inner.op.lowering) for inner in region.nodes}
    if ScatterAdd in kinds:
        return lower_scatter(region, slices)
    return series_of(_lowered(region, slices, kinds, target))


def _lowered(region: Graph, slices: Slices, kinds: Collection[type], target: Target) -> Kernel:
    if Contraction in kinds:
        if Reduction in kinds:
            return lower_product_rows(region, target)
        return lower_contraction(region, slices, target)
    if Scan in kinds:
        return lower_scan(region, slices)
    if Reduction in kinds:
        return lower_rows(region, slices)
    return lower_map(region, slices)
