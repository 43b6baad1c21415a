"""Groups of fusion, and what may join one.

Invariant: every group has a rank above those of the groups it reads from, so no two groups ever
depend on each other and no search is needed. Whatever forbids something is said as a reason; None
means that it may be done.
"""

from __future__ import annotations

from typing import Literal

from graphc.ir.dims import product
from graphc.ir.graph import Node
from graphc.ir.op import Contraction, Reshape, Scan
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.linalg import contract_op
from graphc.ops.shape import broadcast_to_op

MAX_NODES = 96
"""Larger groups are cut: code size and compile time grow, speed does not."""

Kind = Literal["map", "rows", "product", "pair", "single"]


class Group:
    """A group under construction.

    Attributes:
        kind: ``map`` (pointwise work and views over one shape), ``rows`` (reductions of one axis
            of one shape, and the work around them), ``product`` (a matrix product, and pointwise
            work on its elements), ``pair`` (a product, work on its rows, a product of that) or
            ``single``; the last two are closed to others, but ``single`` may put its result into a
            slice.
        product: the matrix product that its elements or rows come from, if there is one.
        rank: above the ranks of all groups it reads from.
        shape: what its loops run over.
        axis: the reduced one, of ``rows``.
        nodes: its members.
        rows: values of which a row has one element, of ``rows``.
        reads: the values from outside that its members read.
        exits: how often members are read from outside, counted once a reader and value; being an
            output counts as one more.
        has_dependents: whether another group or node reads a member.
        checks: whether a member checks indices.
        chooses: whether a member is a concatenation.
    """

    __slots__ = (
        "axis",
        "checks",
        "chooses",
        "exits",
        "has_dependents",
        "kind",
        "nodes",
        "product",
        "rank",
        "reads",
        "rows",
        "shape",
    )

    def __init__(self, kind: Kind, rank: int, shape: Shape) -> None:
        self.kind = kind
        self.rank = rank
        self.shape = shape
        self.axis = -1
        self.nodes: list[Node] = []
        self.product: Node | None = None
        self.rows: set[Value] = set()
        self.reads: set[Value] = set()
        self.exits = 0
        self.has_dependents = False
        self.checks = False
        self.chooses = False

    @property
    def kept(self) -> Shape:
        """The shape with 1 in place of the reduced axis."""
        return (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])

    @property
    def dropped(self) -> Shape:
        """The shape without the reduced axis."""
        return (*self.shape[: self.axis], *self.shape[self.axis + 1 :])


CLOSED = "scans and scatters stand alone"
OPERANDS = "a matrix product reads its operands many times, so they are stored"
PRODUCT = "only work on its elements or rows joins a matrix product"
PAIR = "a kernel of two matrix products is complete"

SHALLOW, LONGEST, FEWEST = 256, 16384, 32
"""Work on whole rows joins a product of at most such depth and length and at least so many rows:
then blocks of whole rows, and the right operand that each of them reads, stay in the cache. What
is known only at run time is taken to fit: else the product would be written to memory."""
FULL = f"the kernel would have more than {MAX_NODES} operations"
CHOICE = "a concatenation in that kernel would choose among its pieces at each element"
SHAPE = "they run over different shapes"
CYCLE = "a kernel between them reads the one and is read by the other, as far as ranks tell"


def pointwise_obstacle(group: Group, node: Node, own: list[Value]) -> str | None:
    """Why one loop nest does not compute the group and a pointwise node.

    ``own`` are the operands that the group makes.
    """
    if group.kind == "single":
        return CLOSED
    if group.kind == "pair":
        return PAIR
    if len(group.nodes) >= MAX_NODES:
        return FULL
    shape = node.output.shape
    if group.kind == "map":
        return None if group.shape == shape else SHAPE
    if group.kind == "product":
        alike = shape == group.shape and all(value.shape == shape for value in own)
        return None if alike else SHAPE
    if group.shape[group.axis] == 1:
        return "the reduced axis has size 1, so rows can't be told from elements"
    if shape == group.shape:
        kept = group.kept
        if all(value not in group.rows or _aligned(value.shape, kept) for value in own):
            return None
        return "it reads rows other than the one being computed"
    if all(value in group.rows and value.shape == shape for value in own):
        return None
    return SHAPE


def view_obstacle(group: Group, node: Node, uses: int) -> str | None:
    """Why the group can't be computed at a view's index; ``uses`` counts what the view reads."""
    if group.kind == "single":
        return CLOSED
    if group.kind == "pair":
        return PAIR
    if len(group.nodes) >= MAX_NODES:
        return FULL
    if group.kind == "rows":
        return _row_view_obstacle(group, node)
    if group.kind == "product" and not _regroups_rows(group, node):
        return "a matrix product is stored row by row"
    if node.op is broadcast_to_op:
        return "a view that repeats elements would repeat the work"
    if group.exits > uses:
        return "the group has other readers than the view"
    if group.checks and product(node.output.shape) != product(group.shape):
        return "all its indices are checked, whatever part is looked at"
    return None


def _row_view_obstacle(group: Group, node: Node) -> str | None:
    """Reshapes between the row shapes, and broadcasts of a row to the full shape, may join."""
    (source,) = node.inputs
    if source not in group.rows:
        return "a view of elements would need all rows at once"
    if group.shape[group.axis] == 1:
        return "the reduced axis has size 1, so rows can't be told from elements"
    if isinstance(node.op.lowering, Reshape):
        shapes = (group.kept, group.dropped)
        return None if node.output.shape in shapes and source.shape in shapes else SHAPE
    if (
        node.op is broadcast_to_op
        and node.output.shape == group.shape
        and _aligned(source.shape, group.kept)
    ):
        return None
    return "it reads rows other than the one being computed"


def _regroups_rows(group: Group, node: Node) -> bool:
    """Whether a view is a reshape that leaves the last axis alone."""
    shape = node.output.shape
    return (
        isinstance(node.op.lowering, Reshape)
        and len(shape) > 1
        and shape[-1] == group.shape[-1]
        and product(shape[:-1]) == product(group.shape[:-1])
    )


def reduction_obstacle(group: Group, node: Node) -> str | None:
    """Why a reduction of what the group computes or reads needs a loop nest of its own."""
    (source,) = node.inputs
    if group.kind == "single":
        return CLOSED
    if group.kind == "pair":
        return PAIR
    if group.kind == "product":
        obstacle = _whole_rows_obstacle(group, node)
        if obstacle is not None:
            return obstacle
    if len(group.nodes) >= MAX_NODES:
        return FULL
    if group.shape != source.shape:
        return SHAPE
    if group.kind == "rows" and group.axis != node.attrs["axis"]:
        return "they reduce different axes"
    if group.kind == "rows" and source in group.rows:
        return "it reduces over rows"
    return CHOICE if group.chooses else None


def _whole_rows_obstacle(group: Group, node: Node) -> str | None:
    """Why a reduction does not join a group that so far is a product and work on its elements."""
    product_node = group.product
    assert product_node is not None
    shape = product_node.output.shape
    if shape != group.shape or node.attrs["axis"] != len(shape) - 1:
        return "only rows of a matrix product are reduced beside it"
    if product_node.op is not contract_op or not product_node.output.dtype.is_float:
        return PRODUCT
    m, n = shape[-2:]
    k = product_node.inputs[0].shape[-2 if product_node.attrs["transpose_a"] else -1]
    fits = isinstance(k, int) and 0 < k <= SHALLOW
    fits = fits and (not isinstance(n, int) or 1 < n <= LONGEST)
    if not fits or (isinstance(m, int) and m < FEWEST):
        return (
            f"only of products of depth up to {SHALLOW}, length up to {LONGEST} and at least "
            f"{FEWEST} rows do whole rows stay in the cache; here these are {k}, {n} and {m}"
        )
    return None


def product_obstacle(group: Group, node: Node) -> str | None:
    """Why a matrix product does not follow in the kernel that makes its left operand."""
    left, right = node.inputs
    if group.kind != "rows" or group.product is None or node.op is not contract_op:
        return OPERANDS
    if node.attrs["transpose_a"] or left in group.rows or left.shape != group.shape:
        return OPERANDS
    if left is right:
        return OPERANDS
    if len(group.nodes) >= MAX_NODES:
        return FULL
    return None


def merge_obstacle(a: Group, b: Group) -> str | None:
    """Why two groups can't be one; they may if they have the same loops, or one works on the
    rows of the other, and neither can depend on the other."""
    if "single" in (a.kind, b.kind):
        return CLOSED
    if "pair" in (a.kind, b.kind):
        return PAIR
    if "product" in (a.kind, b.kind) and "map" not in (a.kind, b.kind):
        return PRODUCT
    if a.product is not None and b.product is not None:
        return PRODUCT
    if (a.product or b.product) and (a.chooses or b.chooses):
        return "a concatenation has a loop nest for each piece"
    if len(a.nodes) + len(b.nodes) >= MAX_NODES:
        return FULL
    if a.kind == b.kind == "rows":
        if a.axis != b.axis:
            return "they reduce different axes"
        if not _share_operand(a, b):
            return "they read nothing in common, so both operands would be kept alive for nothing"
    if (a.kind != "map" or b.kind != "map") and (a.chooses or b.chooses):
        return CHOICE
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
    if not isinstance(group.nodes[0].op.lowering, (Contraction, Scan)):
        return "scatters write to memory of their own"
    return None if group.exits == 1 else "something else reads what it computes"


def gives_row(group: Group, node: Node, own: list[Value]) -> bool:
    """True if every operand that the group makes is a row value and so is the result."""
    return node.output.shape != group.shape and all(value in group.rows for value in own)


def _aligned(shape: Shape, kept: Shape) -> bool:
    """True if a row value broadcasts so that each row reads its own element."""
    missing = len(kept) - len(shape)
    return (
        missing >= 0
        and all(dim == 1 for dim in kept[:missing])
        and all(a == b for a, b in zip(shape, kept[missing:], strict=True))
    )


def _share_operand(a: Group, b: Group) -> bool:
    """True if the groups read one value of the full shape together."""
    small, large = (a.reads, b.reads) if len(a.reads) < len(b.reads) else (b.reads, a.reads)
    return any(value.shape == a.shape and value in large for value in small)


def _works_on_rows(group: Group, rows: Group) -> bool:
    """True if a map group has the shape of the other group's row values."""
    if group.kind != "map" or rows.kind != "rows" or rows.shape[rows.axis] == 1:
        return False
    return group.shape in (rows.kept, rows.dropped)
