"""What one fused group may hold: the contract of fusion, which makes groups, and of lowering.

A kind of group says what its kernel's loops run over, and so which values are at hand at an index:

* ``free`` values depend on nothing but what the group reads from memory, by pointwise work and
  views. They can be computed at any index.
* ``element`` values depend on a product or on a row, and are there at the element that the loops
  stand at, in row-major order: reshapes of the elements of a product keep it.
* ``row`` values have one element for each row, and are there for the row that the loops stand at.

Fusion asks ``Form.obstacle`` before a node joins. ``form_of`` replays a finished body by the same
rules, for lowering, which takes whatever keeps them, and for the verifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NoReturn, TypeAlias

from graphc.base.errors import VerifyError
from graphc.base.source import Location
from graphc.ir.dims.expressions import Dim, product
from graphc.ir.graph import Graph, Node
from graphc.ir.lowering import KernelKind
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.lane_loops import lane_body, runs_loops
from graphc.ops.linalg.matmul import contract_op
from graphc.ops.move.placing import PLACING, join_slices_op, place_slice_op
from graphc.ops.move.shape import broadcast_to_op
from graphc.ops.source import constant_op

Kind: TypeAlias = KernelKind | Literal["pair", "loop"]
"""Pointwise work and views over one shape (map); reductions of one axis of one shape, and the work
around them (rows); a matrix product, and work on its elements (product); a product, work on its
rows, and a product of that (pair); a scan or a scatter alone (single); a loop that runs lane by
lane (loop, ``graphc.ops.lane_loops``)."""

Role = Literal["free", "element", "row"]

JOINING: Final = ("map", "rows")
"""The kinds of groups that may make all pieces of a whole."""

SHAPE = "they run over different shapes"
AXIS = "they reduce different axes"
OTHER_ROWS = "it reads rows other than the one being computed"
OVER_ROWS = "it reduces over rows"
ALL_ROWS = "a view of elements would need all rows at once"
SINGLE_ELEMENT = "the reduced axis has size 1, so rows can't be told from elements"
OPERANDS = "a matrix product reads its operands many times, so they are stored"
STORED = "it reads elements at indices of its own, so its operand is stored"
ONLY_ROWS = "only rows of a matrix product are reduced beside it"
ONE_PRODUCT = "only work on its elements or rows joins a matrix product"
DEPTH = "whole rows are computed beside a product only if its depth is known"
ORDER = "a matrix product is stored row by row"


class Form:
    """What the loops of a group run over, and what is there at an index.

    Attributes:
        kind: of the group.
        shape: what its loops run over; of ``rows`` what is reduced.
        axis: the reduced one, of ``rows`` and ``pair``.
        product: the matrix product that elements or rows come from, if there is one.
        roles: of each value that is not free.
    """

    __slots__ = ("axis", "kind", "product", "roles", "shape")

    def __init__(self, kind: Kind, shape: Shape, axis: int = -1) -> None:
        self.kind = kind
        self.shape = shape
        self.axis = axis
        self.product: Node | None = None
        self.roles: dict[Value, Role] = {}

    @property
    def kept(self) -> Shape:
        """The shape with 1 in place of the reduced axis."""
        return (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])

    @property
    def dropped(self) -> Shape:
        """The shape without the reduced axis."""
        return (*self.shape[: self.axis], *self.shape[self.axis + 1 :])

    def is_row(self, value: Value) -> bool:
        """Whether a row has one element of it."""
        return self.roles.get(value) == "row"

    def bound(self, node: Node) -> list[Value]:
        """The operands that are not free."""
        roles = self.roles
        return [value for value in node.inputs if value in roles] if roles else []

    # --- the rules -------------------------------------------------------------------------------

    def obstacle(self, node: Node) -> str | None:
        """Why the loops can't compute a node beside what the group has; None if they can."""
        lowering = node.op.lowering
        if lowering.is_reduction:
            return self._reduction_obstacle(node)
        if lowering.is_product:
            return self._product_obstacle(node)
        bound = self.bound(node)
        if not bound:
            return None
        if lowering.is_pointwise:
            return self._pointwise_obstacle(node, bound)
        return self._view_obstacle(node, bound[0]) if lowering.is_view else STORED

    def take(self, node: Node) -> None:
        """Notes what the results of a node are that has no obstacle."""
        lowering = node.op.lowering
        role: Role | None = None
        if lowering.is_reduction:
            role = "row"
        elif lowering.is_product:
            role = "element"
            self.product = self.product or node
        elif self.bound(node):
            is_element = self.kind == "product" or node.output.shape == self.shape
            role = "element" if is_element else "row"
        if role is not None:
            self.roles.update(dict.fromkeys(node.outputs, role))

    def _pointwise_obstacle(self, node: Node, bound: Sequence[Value]) -> str | None:
        shape = node.output.shape
        if self.kind == "product":
            return None if all(value.shape == shape for value in bound) else SHAPE
        if self.shape[self.axis] == 1:
            return SINGLE_ELEMENT
        if shape == self.shape:
            kept = self.kept
            fits = all(not self.is_row(v) or aligned(v.shape, kept) for v in bound)
            return None if fits else OTHER_ROWS
        fits = all(self.is_row(value) and value.shape == shape for value in bound)
        return None if fits else SHAPE

    def _view_obstacle(self, node: Node, source: Value) -> str | None:
        """Reshapes of a product's elements, or between the shapes of rows; and broadcasts of rows
        to the full shape."""
        is_reshape = node.op.lowering.keeps_memory
        if self.kind == "product":
            return None if is_reshape else ORDER
        if not self.is_row(source):
            return ALL_ROWS
        return self.row_view_obstacle(node)

    def row_view_obstacle(self, node: Node) -> str | None:
        """Why a view of a value that rows have one element of does not lead to the same row."""
        (source,) = node.inputs
        if self.shape[self.axis] == 1:
            return SINGLE_ELEMENT
        if node.op.lowering.keeps_memory:
            shapes = (self.kept, self.dropped)
            return None if node.output.shape in shapes and source.shape in shapes else SHAPE
        fits = node.op is broadcast_to_op and node.output.shape == self.shape
        return None if fits and aligned(source.shape, self.kept) else OTHER_ROWS

    def _reduction_obstacle(self, node: Node) -> str | None:
        (source,) = node.inputs
        if self.product is not None:
            obstacle = self._whole_rows_obstacle(self.product, node.attrs["axis"])
            if obstacle is not None:
                return obstacle
        if self.shape != source.shape:
            return SHAPE
        if self.kind == "rows" and self.axis != node.attrs["axis"]:
            return AXIS
        return OVER_ROWS if self.is_row(source) else None

    def _whole_rows_obstacle(self, product: Node, axis: int) -> str | None:
        """Why the rows of a product are not what is reduced along an axis."""
        shape = product.output.shape
        if self.shape != shape or axis != len(shape) - 1:
            return ONLY_ROWS
        if any(value.shape != shape for value, role in self.roles.items() if role == "element"):
            return ONLY_ROWS
        if product.op is not contract_op or not product.output.dtype.is_float:
            return ONE_PRODUCT
        return None if isinstance(depth(product), int) else DEPTH

    def _product_obstacle(self, node: Node) -> str | None:
        """The first reads from memory; a second one elements of whole rows, and so ends a group."""
        if self.product is None:
            if self.bound(node):
                return OPERANDS
            return None if self.kind == "product" else self._whole_rows_obstacle(node, self.axis)
        left, right = node.inputs
        if self.kind not in ("rows", "pair") or node.op is not contract_op:
            return OPERANDS
        if node.attrs["transpose_a"] or left.shape != self.shape or right in self.roles:
            return OPERANDS
        return None if self.roles.get(left) == "element" else OPERANDS


def aligned(shape: Shape, kept: Shape) -> bool:
    """True if a row value broadcasts so that each row reads its own element."""
    missing = len(kept) - len(shape)
    return (
        missing >= 0
        and all(dim == 1 for dim in kept[:missing])
        and all(a == b for a, b in zip(shape, kept[missing:], strict=True))
    )


def depth(node: Node) -> Dim:
    """How many terms each element of a product of plain matrices adds up."""
    return node.inputs[0].shape[-2 if node.attrs["transpose_a"] else -1]


# --- finished bodies -----------------------------------------------------------------------------


def form_of(region: Graph, where: Location | None = None) -> Form:
    """The form of a fused body; ``where`` stands for lines that its nodes do not have.

    Raises:
        VerifyError: if it breaks the contract, naming the kind of group, the node and its line.
    """
    return _Replay(region, where).run()


class _Replay:
    def __init__(self, region: Graph, where: Location | None) -> None:
        self.region = region
        self.where = where
        self.products = [n for n in region.nodes if n.op.lowering.is_product]
        self.reductions = [n for n in region.nodes if n.op.lowering.is_reduction]
        self.form = self._begun()
        self.inputs = set(region.inputs)
        # what is computed of what lies in memory or of an element: not to be had at any index
        self.computed: set[Value] = set()

    def _begun(self) -> Form:
        if self.reductions:
            first = self.reductions[0]
            kind: Kind = "pair" if len(self.products) > 1 else "rows"
            return Form(kind, first.inputs[0].shape, first.attrs["axis"])
        if self.products:
            return Form("product", self.products[0].output.shape)
        if runs_loops(self.region):
            return Form("loop", lane_body(self.region).shape)
        singles = [n for n in self.region.nodes if n.op.lowering.kernel == "single"]
        if singles:
            return Form("single", singles[0].outputs[0].shape)
        return Form("map", self._piece(self._parts(self.region.outputs[0])[0]).shape)

    def run(self) -> Form:
        if self.form.kind == "single":
            self._single()
        if self.form.kind in ("single", "loop"):
            return self.form
        for node in self.region.nodes:
            if node.op not in PLACING:
                self._node(node)
        for value in self.region.outputs:
            parts = self._parts(value)
            if len(parts) > 1 and self.form.kind not in JOINING:
                self._fail("its loops make one piece of a whole", self.region.producers[value])
            for part in parts:
                self._output(part)
        return self.form

    def _node(self, node: Node) -> None:
        lowering = node.op.lowering
        if lowering.kernel in ("single", None) and node.op is not constant_op:
            self._fail("no loop computes it", node)
        if lowering.reads == "picked" and not self.computed.isdisjoint(node.inputs):
            self._fail(STORED, node)
        if lowering.is_product:
            self._product(node)
        obstacle = self.form.obstacle(node)
        if obstacle is not None:
            self._fail(obstacle, node)
        self.form.take(node)
        if any(value in self.inputs or value in self.computed for value in node.inputs):
            self.computed.update(node.outputs)

    def _product(self, node: Node) -> None:
        first, *rest = self.products
        if len(rest) > 1 or (rest and not self.reductions):
            self._fail("a kernel holds one product, or two with rows between", node)
        stored = node.inputs if node is first else node.inputs[1:]
        if not self.inputs.issuperset(stored):
            self._fail(OPERANDS, node)
        if node is not first:
            readers = self.region.users().get(node.output, ())
            if readers or all(value is not node.output for value in self.region.outputs):
                self._fail("the second product of a kernel ends it", node)

    def _single(self) -> None:
        computing = [node for node in self.region.nodes if node.op not in PLACING]
        if len(computing) > 1:
            self._fail("scans and scatters stand alone", computing[-1])
        if computing[0].op.lowering.placed == "never" and len(self.region.nodes) > 1:
            self._fail("scatters write to memory of their own", computing[0])

    def _parts(self, value: Value) -> Sequence[Value]:
        """What an output is joined of; else itself."""
        node = self.region.producers.get(value)
        return (value,) if node is None or node.op is not join_slices_op else node.inputs

    def _piece(self, value: Value) -> Value:
        """What is stored: the piece, where it is put into a slice."""
        node = self.region.producers.get(value)
        return node.inputs[0] if node is not None and node.op is place_slice_op else value

    def _output(self, value: Value) -> None:
        form, piece = self.form, self._piece(value)
        node = self.region.producers.get(piece)
        if piece is not value and form.product is not None and len(self.region.nodes) > 2:
            self._fail("a matrix product with work on its result is stored block by block", node)
        if form.kind == "map" and piece.shape != form.shape:
            self._fail(SHAPE, node)
        if form.kind == "product" and product(piece.shape) != product(form.shape):
            self._fail(SHAPE, node)
        if form.kind in ("rows", "pair") and piece not in form.roles:
            # it could be computed anywhere, and is stored once an element or a row
            fits = piece.shape in (form.shape, form.kept, form.dropped)
            if not fits:
                self._fail(SHAPE, node)

    def _fail(self, reason: str, node: Node | None) -> NoReturn:
        where = (node.provenance.where if node is not None else None) or self.where
        what = node.op.name if node is not None else "a value that it only reads"
        names = ", ".join(n.op.name for n in self.region.nodes if n.op is not constant_op)
        raise VerifyError(
            f"no kernel can be made of the {self.form.kind} group of {names}: {what}: {reason}",
            where=where,
            node=repr(node) if node is not None else None,
        )


__all__ = [
    "ALL_ROWS",
    "AXIS",
    "DEPTH",
    "JOINING",
    "ONE_PRODUCT",
    "OPERANDS",
    "ORDER",
    "OTHER_ROWS",
    "SHAPE",
    "SINGLE_ELEMENT",
    "Form",
    "Kind",
    "Role",
    "aligned",
    "depth",
    "form_of",
]
