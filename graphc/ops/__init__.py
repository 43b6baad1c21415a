"""The op families. Importing this package fills the registry."""

from graphc.ir.op import families_loaded
from graphc.ops import (
    control,
    creation,
    einsum,
    files,
    fused,
    getitem,
    indexing,
    joining,
    linalg,
    losses,
    nn,
    panels,
    parts,
    picking,
    placing,
    pointwise,
    reduce,
    shape,
    slicing,
    source,
    state,
    statistics,
)

families_loaded()

__all__ = [
    "control",
    "creation",
    "einsum",
    "files",
    "fused",
    "getitem",
    "indexing",
    "joining",
    "linalg",
    "losses",
    "nn",
    "panels",
    "parts",
    "picking",
    "placing",
    "pointwise",
    "reduce",
    "shape",
    "slicing",
    "source",
    "state",
    "statistics",
]
