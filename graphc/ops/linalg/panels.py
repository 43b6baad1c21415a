"""The matrix product whose right operand lies in panels; the pass ``layout`` makes it.

Invariant: the bits are those of ``contract`` on the matrix that was packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.target import host
from graphc.ir.attributes import Attributes
from graphc.ir.dtypes import COMPUTED_FLOATS, DType
from graphc.ir.lowering import Contraction
from graphc.ir.op import Domain, NotDifferentiable, OpDef, register
from graphc.ir.types import TensorType
from graphc.kernel.panels import fits, pack, panel_width, unpack
from graphc.ops.guards import show
from graphc.ops.move.shape import sample


def _type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    a, packed = inputs
    k, n, transposed = attrs["k"], attrs["n"], attrs["transpose_a"]
    if a.rank != 2 or a.shape[0 if transposed else 1] != k or not fits(packed.shape, k, n):
        raise ShapeError(
            f"{show(a.shape)} and panels {show(packed.shape)} do not multiply as matrices with "
            f"k = {k} and n = {n}"
        )
    return [a.with_shape((a.shape[1 if transposed else 0], n))]


def _reference(a: Any, packed: Any, *, k: int, n: int, transpose_a: bool) -> Any:
    return np.matmul(a.T if transpose_a else a, unpack(packed, k, n))


def _example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    width = panel_width(dtype, host())
    packed = pack(sample(random, dtype, 5, width + 3), width, 3)
    return [sample(random, dtype, 4, 5), packed], {"k": 5, "n": width + 3, "transpose_a": False}


contract_panels_op = register(
    OpDef(
        name="contract_panels",
        doc=(
            "Matrix product of a [m, k] and a matrix [k, n] in panels [blocks, panels, depth, "
            "width]; the flag says that a is stored transposed. The compiler makes it of products "
            "by constants; the width must be that of the target."
        ),
        infer=_type,
        reference=_reference,
        derivative=NotDifferentiable("the compiler makes it after differentiation"),
        lowering=Contraction(),
        numerics="R",
        domain=Domain(dtypes=COMPUTED_FLOATS, example=_example),
    )
)
