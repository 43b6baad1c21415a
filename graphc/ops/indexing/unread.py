"""Indices that nothing reads: those of a take or a scatter whose dims beside them have a 0.

Such a node has no elements, and the code that makes elements is what looks at indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.builder import make_node
from graphc.ir.dims.expressions import product, select
from graphc.ir.dtypes import ALL, DType, int64
from graphc.ir.graph import Node
from graphc.ir.lowering import Element, ElementBuilder, Scalar
from graphc.ir.op import Domain, Flat, OpDef, register
from graphc.ir.types import TensorType
from graphc.ops.indexing.core import take_op
from graphc.ops.indexing.places import checked
from graphc.ops.indexing.scatter import SCATTERS
from graphc.ops.move.shape import reshape_op


def _type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (indices,) = inputs
    return [TensorType(int64, (attrs["rows"], *indices.shape[1:]))]


def _rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    return b.checked_index(b.load(0, index), attrs["size"], attrs["axis"])


def _example(rng: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    low = 0 if dtype.kind == "uint" else -4
    attrs = {"rows": 2, "size": 4, "axis": 1, "of": "take"}
    return [rng.integers(low, 4, (3, 5)).astype(dtype.numpy)], attrs


check_rows_op = register(
    OpDef(
        name="check_rows",
        doc=(
            "The places along an axis of ``size`` elements that the first ``rows`` rows of indices "
            "name; each is checked, and reported as an index of ``axis`` by the operation ``of``."
        ),
        infer=_type,
        reference=lambda i, *, rows, size, axis, of: checked(i[:rows], size, axis),
        derivative=Flat(),
        lowering=Element(_rule),
        may_fail=True,
        domain=Domain(dtypes=tuple(d for d in ALL if d.is_integer), example=_example),
    )
)


_LOOKING = {take_op, *(op for (_, along), op in SCATTERS.items() if not along)}
"""What looks up each index for a slice of elements, so for none where there are none."""


def checks_of_unread(node: Node) -> list[Node]:
    """The nodes that look at the indices of a node if nothing else may, the last one a check.

    It has no elements, and so costs next to nothing, where the node has some.
    """
    if node.op not in _LOOKING or not node.may_fail:
        return []
    (data, indices), axis = node.inputs[:2], node.attrs["axis"]
    beside = product((*data.shape[:axis], *data.shape[axis + 1 :]))
    rows = select("eq", beside, 0, indices.shape[0] if indices.shape else 1, 0)
    if product((rows, *indices.shape)) == 0:
        return []
    made: list[Node] = []
    if not indices.shape:
        made.append(make_node(reshape_op, (indices,), {"shape": (1,)}, (), node.provenance))
        indices = made[0].output
    attrs = {"rows": rows, "size": data.shape[axis], "axis": axis, "of": node.op.name}
    return [*made, make_node(check_rows_op, (indices,), attrs, (), node.provenance)]
