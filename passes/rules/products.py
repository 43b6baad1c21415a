"""Matrix products: transposes around them become flags, which cost nothing.

Each element of a product is one chain of multiplications and additions along the summed axis,
however the operands are stored, so all of this keeps the bits.
"""

from __future__ import annotations

from typing import Any

from graphc.ir.dims.expressions import symbol
from graphc.ir.value import Value
from graphc.ops.linalg.matmul import contracted
from graphc.ops.move.shape import permuted
from passes.rewriting.pattern import Rule, rule

Axes = tuple[int, ...]


def swaps_last(axes: Axes) -> bool:
    """Whether a permutation exchanges the last two axes and nothing else."""
    rank = len(axes)
    return rank >= 2 and axes == (*range(rank - 2), rank - 1, rank - 2)


def _swapped(value: Value) -> Value:
    rank = value.ndim
    return permuted(value, (*range(rank - 2), rank - 1, rank - 2))


def _when(p: Axes, **others: Any) -> bool:
    """Whether the last two axes are exchanged and no others."""
    return swaps_last(p)


def _square(*names: str) -> tuple[dict[str, Any], ...]:
    """Products of matrices of one size, stacked or not, empty ones and single elements included."""
    shapes = ((4, 4), (0, 0), (1, 1), (2, 3, 3), (0, 2, 2), (2, 0, 0), ("n", "n"))
    samples = []
    for shape in shapes:
        rank = len(shape)
        order = (*range(rank - 2), rank - 1, rank - 2)
        dims = tuple(symbol(dim) if isinstance(dim, str) else dim for dim in shape)
        for f, g in ((False, False), (True, False), (False, True), (True, True)):
            samples.append({**dict.fromkeys(names, dims), "p": order, "f": f, "g": g})
    return tuple(samples)


_DETAILS: dict[str, Any] = {
    "free": {"p": (1, 0), "f": True, "g": False},
    "shapes": {"a": (2, 2), "b": (2, 2)},
    "when": _when,
    "samples": _square("a", "b"),
}

RULES: tuple[Rule, ...] = (
    rule(
        "contract-transposed-left",
        lambda a, b, p, f, g: (
            contracted(permuted(a, p), b, transpose_a=f, transpose_b=g),
            contracted(a, b, transpose_a=not f, transpose_b=g),
        ),
        **_DETAILS,
    ),
    rule(
        "contract-transposed-right",
        lambda a, b, p, f, g: (
            contracted(a, permuted(b, p), transpose_a=f, transpose_b=g),
            contracted(a, b, transpose_a=f, transpose_b=not g),
        ),
        **_DETAILS,
    ),
    rule(
        "transposed-contract",
        lambda a, b, p, f, g: (
            permuted(contracted(a, b, transpose_a=f, transpose_b=g), p),
            contracted(b, a, transpose_a=not g, transpose_b=not f),
        ),
        exclusive=True,
        **_DETAILS,
    ),
)
