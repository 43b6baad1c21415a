"""The kernel of one fused node, by the kind of its region, and the launches it takes.

* maps: no reduction; one loop nest over the common shape of the outputs (``maps.py``);
* rows: reductions of one axis of one common shape, in stages over a row (``rows.py``);
* matrix products and work on their elements (``contraction.py``) or rows (``product_rows.py``);
* single scans and scatters (``scan_scatter.py``);
* rows for a native routine (``native_rows.py``);
* loops that run lane by lane (``lane_loops.py``).

``graphc.ops.fusion_contract`` says what a region may hold, and each of these takes all that it
allows. Buffers are the node's operands, then its outputs, then scratch. Where threads can share
more than one of a kernel's loop nests, it becomes several launches (``launch_fission.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphc.base.target import Target
from graphc.ir.graph import Graph, Node
from graphc.ir.lowering import Lowering, Native, Scan, Scatter
from graphc.kernel.ir import Kernel
from graphc.lower.contraction import lower_contraction
from graphc.lower.lane_loops import lower_lane_loops
from graphc.lower.launch_fission import Series, series_of
from graphc.lower.maps import lower_map
from graphc.lower.native_rows import lower_native_rows
from graphc.lower.product_rows import lower_product_rows
from graphc.lower.region import Slices, computed
from graphc.lower.rows import lower_rows
from graphc.lower.scan_scatter import lower_scan, lower_scatter
from graphc.ops.fused import checks_ahead
from graphc.ops.fusion_contract import Form, form_of


def lower_group(node: Node, target: Target) -> Series:
    """The launches of a fused node; the first buffers are the node's inputs and outputs in order.

    Raises:
        VerifyError: naming the group and the member that breaks the contract of groups.
    """
    form = form_of(node.regions[0], node.provenance.where)
    if form.kind == "loop":
        return lower_lane_loops(node.regions[0])
    region, slices = computed(node.regions[0])
    if form.kind == "single":
        (inner,) = region.nodes
        return _SINGLES[type(inner.op.lowering)](region, slices, checks_ahead(node))
    return series_of(_loops(region, form, slices, target))


_SINGLES: Mapping[type[Lowering], Callable[[Graph, Slices, bool], Series]] = {
    Scan: lower_scan,
    Scatter: lower_scatter,
    Native: lower_native_rows,
}
"""The kinds whose kernel is their own, with what makes it."""


def _loops(region: Graph, form: Form, slices: Slices, target: Target) -> Kernel:
    """The kernel of a region that is not one operation alone."""
    if form.product is not None:
        if form.kind == "product":
            return lower_contraction(region, slices, target)
        return lower_product_rows(region, form, target)
    if form.kind == "rows":
        return lower_rows(region, form, slices)
    return lower_map(region, slices)
