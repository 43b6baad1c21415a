"""The op families. Importing this package fills the registry."""

from graphc.ir.surface import families_loaded
from graphc.ops import control, creation, files, fused, ranges, source, state
from graphc.ops.indexing import core, getitem, picking, unread
from graphc.ops.linalg import einsum, matmul, panels, polynomials, products
from graphc.ops.move import (
    joining,
    parts,
    placing,
    repeating,
    rolling,
    shape,
    slicing,
    stacking,
    triangles,
)
from graphc.ops.nn import attention, layers, losses
from graphc.ops.pointwise import (
    angles,
    arithmetic,
    divisors,
    fast,
    inverses,
    logarithms,
    logic,
    math,
    nearness,
    rounding,
    signs,
    variants,
)
from graphc.ops.reduce import (
    axes,
    differences,
    moments,
    nan,
    scaled_norms,
    scans,
    statistics,
)

families_loaded()

__all__ = [
    "angles",
    "arithmetic",
    "attention",
    "axes",
    "control",
    "core",
    "creation",
    "differences",
    "divisors",
    "einsum",
    "fast",
    "files",
    "fused",
    "getitem",
    "inverses",
    "joining",
    "layers",
    "logarithms",
    "logic",
    "losses",
    "math",
    "matmul",
    "moments",
    "nan",
    "nearness",
    "panels",
    "parts",
    "picking",
    "placing",
    "polynomials",
    "products",
    "ranges",
    "repeating",
    "rolling",
    "rounding",
    "scaled_norms",
    "scans",
    "shape",
    "signs",
    "slicing",
    "source",
    "stacking",
    "state",
    "statistics",
    "triangles",
    "unread",
    "variants",
]
