"""Operations that stand in files only: what a recorder knows beside its nodes (``saving.py``).

Invariant: they are in no graph that is compiled, run or differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.base.errors import GraphError
from graphc.ir.attributes import Attributes
from graphc.ir.dtypes import bool_
from graphc.ir.lowering import Structural
from graphc.ir.op import NotDifferentiable, OpDef, register
from graphc.ir.types import TensorType


def _not_run(*arrays: object, **attrs: object) -> None:
    raise GraphError("this operation stands in files only")


def _file_op(
    name: str, doc: str, infer: Callable[[Sequence[TensorType], Attributes], list[TensorType]]
) -> OpDef:
    return register(
        OpDef(
            name=name,
            doc=doc,
            infer=infer,
            reference=_not_run,
            derivative=NotDifferentiable("it stands in files only"),
            lowering=Structural(),
            effect="state",
        )
    )


def _first_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return [inputs[0]]


def _no_value(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return [TensorType(bool_, ())]


requires_op = _file_op(
    "requires",
    "In files: whenever the node of the first operand runs, those of the others run too.",
    _first_type,
)
relies_op = _file_op(
    "relies",
    "In files: whenever the node of the first operand runs, the guards of the others must hold.",
    _first_type,
)
effect_op = _file_op("effect", "In files: a group of values to be computed.", _no_value)
structure_op = _file_op("structure", "In files: how the fetches are nested.", _no_value)
