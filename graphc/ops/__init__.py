"""The op families. Importing this package fills the registry."""

from graphc.ir.surface import families_loaded
from graphc.ops import control, creation, files, fused, source, state
from graphc.ops.indexing import core, getitem, picking, unread
from graphc.ops.linalg import einsum, matmul, panels
from graphc.ops.move import joining, parts, placing, shape, slicing
from graphc.ops.nn import attention, layers, losses
from graphc.ops.pointwise import arithmetic, fast, logic, math, rounding
from graphc.ops.reduce import axes, scaled_norms, scans, statistics

families_loaded()

__all__ = [
    "arithmetic",
    "attention",
    "axes",
    "control",
    "core",
    "creation",
    "einsum",
    "fast",
    "files",
    "fused",
    "getitem",
    "joining",
    "layers",
    "logic",
    "losses",
    "math",
    "matmul",
    "panels",
    "parts",
    "picking",
    "placing",
    "rounding",
    "scaled_norms",
    "scans",
    "shape",
    "slicing",
    "source",
    "state",
    "statistics",
    "unread",
]
