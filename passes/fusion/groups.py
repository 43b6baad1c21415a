"""Groups of fusion, and what may join one.

Invariant: every group has a rank above those of the groups it reads from, so no two groups ever
depend on each other and no search is needed. Whatever forbids something is said as a reason; None
means that it may be done.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphc.base.tuning.fusion import FUSION
from graphc.ir.dims.expressions import may_be, product
from graphc.ir.graph import Node
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.kernel.analysis.periods import LONGEST
from graphc.ops.fusion_contract import (
    ALL_ROWS,
    AXIS,
    DEPTH,
    ONE_PRODUCT,
    OPERANDS,
    ORDER,
    OTHER_ROWS,
    SHAPE,
    SINGLE_ELEMENT,
    Form,
    Kind,
    aligned,
    depth,
)
from graphc.ops.move.shape import broadcast_to_op


class Group(Form):
    """A group under construction.

    ``pair`` and ``single`` are closed to others, but ``single`` may put its result into a slice.
    The ``shape`` of a group to which a view has been added is that of the view.

    Attributes:
        rank: above the ranks of all groups it reads from.
        nodes: its members.
        reads: the values from outside that its members read.
        exits: how often members are read from outside, counted once a reader and value; being an
            output counts as one more.
        has_dependents: whether another group or node reads a member.
        may_fail: whether a member may fail when it runs.
        chooses: whether a member is a concatenation.
        stretched: whether members have other shapes, which broadcast to that of the loops.
        transposes: whether a member exchanges axes.
        order: of how many differentiations its members are, of the member of the fewest.
        late: the same of the member of the most that is computed late.
    """

    __slots__ = (
        "chooses",
        "exits",
        "has_dependents",
        "late",
        "may_fail",
        "nodes",
        "order",
        "rank",
        "reads",
        "stretched",
        "transposes",
    )

    def __init__(self, kind: Kind, rank: int, shape: Shape) -> None:
        super().__init__(kind, shape)
        self.rank = rank
        self.nodes: list[Node] = []
        self.reads: set[Value] = set()
        self.exits = 0
        self.has_dependents = False
        self.may_fail = False
        self.chooses = False
        self.stretched = False
        self.transposes = False
        self.order = sys.maxsize  # above that of any member
        self.late = 0


CLOSED = "scans and scatters stand alone"
PAIR = "a kernel of two matrix products is complete"

FULL = f"the kernel would have more than {FUSION.most_nodes} operations"
CHOICE = "a concatenation in that kernel would choose among its pieces at each element"
EARLY = "it is computed in the backward part, so that it need not be stored from here on"
CYCLE = "a kernel between them reads the one and is read by the other, as far as ranks tell"


def late_obstacle(group: Group, node: Node) -> str | None:
    """Why a node has to wait for the backward part, where the group does not."""
    made = node.provenance
    return EARLY if made.order > group.order and made.is_late else None


def pointwise_obstacle(group: Group, node: Node, own: list[Value]) -> str | None:
    """Why one loop nest does not compute the group and a pointwise node.

    ``own`` are the operands that the group makes.
    """
    if group.kind == "single":
        return CLOSED
    if group.kind == "pair":
        return PAIR
    if len(group.nodes) >= FUSION.most_nodes:
        return FULL
    shape = node.output.shape
    if group.kind != "rows":
        alike = shape == group.shape
        if group.kind == "product":
            alike = alike and all(value.shape == shape for value in own)
        elif not alike:
            alike = _stretches(group, shape, len({*own}))
        return None if alike else SHAPE
    if group.shape[group.axis] == 1:
        return SINGLE_ELEMENT
    obstacle = group.obstacle(node)
    if obstacle is not None:
        return obstacle
    # what is free could be computed at each element, but is computed once a row
    if shape == group.shape:
        once = all(value.shape == shape or aligned(value.shape, group.kept) for value in own)
        return None if once else OTHER_ROWS
    is_row = shape in (group.kept, group.dropped) and all(v.shape == shape for v in own)
    return None if is_row else SHAPE


def _stretches(group: Group, shape: Shape, uses: int) -> bool:
    """Whether the group can be computed at each element of a shape that it broadcasts to.

    Only where the sizes are unknown and may well be equal, as those of placeholders that are added
    up; what is known to repeat elements would repeat the work. A transpose is made by tiles only
    where its source is known to have neighbours along an axis, which one of these may not.
    """
    if group.exits > uses or group.may_fail or group.chooses or group.transposes:
        return False
    return len(group.shape) == len(shape) and all(map(may_be, group.shape, shape))


def view_obstacle(group: Group, node: Node, uses: int) -> str | None:
    """Why the group can't be computed at a view's index; ``uses`` counts what the view reads."""
    if group.kind == "single":
        return CLOSED
    if group.kind == "pair":
        return PAIR
    if len(group.nodes) >= FUSION.most_nodes:
        return FULL
    if group.kind == "rows":
        is_row = group.is_row(node.inputs[0]) or node.inputs[0].shape in (group.kept, group.dropped)
        return group.row_view_obstacle(node) if is_row else ALL_ROWS
    obstacle = group.obstacle(node)
    if obstacle is not None:
        return obstacle
    if group.kind == "product" and not _regroups_rows(group, node):
        return ORDER
    if node.op is broadcast_to_op:
        return "a view that repeats elements would repeat the work"
    if group.exits > uses:
        return "the group has other readers than the view"
    if group.may_fail and product(node.output.shape) != product(group.shape):
        return "all its indices are checked, whatever part is looked at"
    return None


def _regroups_rows(group: Group, node: Node) -> bool:
    """Whether a view is a reshape that leaves the last axis alone."""
    shape = node.output.shape
    return (
        node.op.lowering.keeps_memory
        and len(shape) > 1
        and shape[-1] == group.shape[-1]
        and product(shape[:-1]) == product(group.shape[:-1])
    )


def reduction_obstacle(group: Group, node: Node) -> str | None:
    """Why a reduction of what the group computes or reads needs a loop nest of its own."""
    if group.kind == "single":
        return CLOSED
    if group.kind == "pair":
        return PAIR
    if len(group.nodes) >= FUSION.most_nodes:
        return FULL
    obstacle = group.obstacle(node)
    if group.kind == "product" and obstacle in (None, DEPTH):
        obstacle = _shallow_obstacle(group)
    if group.stretched:
        obstacle = obstacle or SHAPE
    return obstacle or (CHOICE if group.chooses else None)


def _shallow_obstacle(group: Group) -> str | None:
    """Why blocks of whole rows of a product would not stay in the cache."""
    assert group.product is not None
    m, n = group.shape[-2:]
    k = depth(group.product)
    fits = isinstance(k, int) and 0 < k <= FUSION.row_product_depth
    fits = fits and (not isinstance(n, int) or 1 < n <= FUSION.row_product_length)
    if not fits or (isinstance(m, int) and m < FUSION.row_product_rows):
        return (
            f"only of products of depth up to {FUSION.row_product_depth}, length up to "
            f"{FUSION.row_product_length} and at least {FUSION.row_product_rows} rows do whole "
            f"rows stay in the cache; here these are {k}, {n} and {m}"
        )
    return None


def product_obstacle(group: Group, node: Node) -> str | None:
    """Why a matrix product does not follow in the kernel that makes its left operand."""
    if group.kind != "rows" or group.product is None:
        return OPERANDS
    return group.obstacle(node) or (FULL if len(group.nodes) >= FUSION.most_nodes else None)


def merge_obstacle(a: Group, b: Group) -> str | None:
    """Why two groups can't be one; they may if they have the same loops, or one works on the
    rows of the other, and neither can depend on the other."""
    if "single" in (a.kind, b.kind):
        return CLOSED
    if "pair" in (a.kind, b.kind):
        return PAIR
    if "product" in (a.kind, b.kind) and "map" not in (a.kind, b.kind):
        return ONE_PRODUCT
    if a.product is not None and b.product is not None:
        return ONE_PRODUCT
    if (a.product or b.product) and (a.chooses or b.chooses):
        return "a concatenation has a loop nest for each piece"
    if len(a.nodes) + len(b.nodes) >= FUSION.most_nodes:
        return FULL
    if a.late > b.order or b.late > a.order:
        return EARLY
    if a.kind == b.kind == "rows":
        if a.axis != b.axis:
            return AXIS
        if not _share_operand(a, b):
            return "they read nothing in common, so both operands would be kept alive for nothing"
    if (a.kind != "map" or b.kind != "map") and (a.chooses or b.chooses):
        return CHOICE
    if (a.stretched or b.stretched) and (a.kind != b.kind or a.chooses or b.chooses):
        return SHAPE
    if a.shape != b.shape and not (_works_on_rows(a, b) or _works_on_rows(b, a)):
        return SHAPE
    if a.rank != b.rank and (a if a.rank < b.rank else b).has_dependents:
        return CYCLE
    return None


def place_obstacle(group: Group, node: Node) -> str | None:
    """Why the group can't put what it computes into its slice of a whole."""
    if group.kind != "single" and group.product is None:
        return None
    if len(group.nodes) > 1:
        return "a matrix product with work on its result is stored block by block"
    if group.nodes[0].op.lowering.placed == "never":
        return "scatters write to memory of their own"
    return None if group.exits == 1 else "something else reads what it computes"


def _share_operand(a: Group, b: Group) -> bool:
    """True if the groups read one value of the full shape together."""
    small, large = (a.reads, b.reads) if len(a.reads) < len(b.reads) else (b.reads, a.reads)
    return any(covers(value.shape, a.shape) and value in large for value in small)


def interleaves(join: Node) -> bool:
    """Whether a whole is joined of a few pieces whose elements take turns along its last axis."""
    starts = join.attrs["starts"]
    is_last = join.attrs["axis"] == join.output.type.rank - 1
    return is_last and len(starts) <= LONGEST and join.output.shape[-1] == len(starts)


def are_pieces(groups: Sequence[Group], count: int) -> bool:
    """Whether groups are maps of one shape of which ``count`` results are read, so many pieces of a
    whole: nothing depends on one of them before the whole is there."""
    shapes = {group.shape for group in groups}
    plain = all(
        group.kind == "map" and not (group.chooses or group.stretched or group.transposes)
        for group in groups
    )
    small = sum(len(group.nodes) for group in groups) < FUSION.most_nodes
    return plain and small and len(shapes) == 1 and sum(group.exits for group in groups) == count


def covers(read: Shape, shape: Shape) -> bool:
    """Whether loops over a shape go through all of what they read once: it has that shape, or a few
    parts for each element along a last axis, as complex numbers have."""
    if read == shape:
        return True
    parts = read[-1] if read else 1
    if not isinstance(parts, int) or not 1 < parts <= LONGEST:
        return False
    return read[:-1] in (shape, shape[:-1] if shape[-1:] == (1,) else shape)


def _works_on_rows(group: Group, rows: Group) -> bool:
    """True if a map group has the shape of the other group's row values."""
    if group.kind != "map" or rows.kind != "rows" or rows.shape[rows.axis] == 1:
        return False
    return group.shape in (rows.kept, rows.dropped)
