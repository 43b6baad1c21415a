"""The pointwise families: importing this module declares them all."""

from graphc.ops import (
    pointwise_arithmetic,
    pointwise_fast,
    pointwise_logic,
    pointwise_math,
    pointwise_rounding,
)

__all__ = [
    "pointwise_arithmetic",
    "pointwise_fast",
    "pointwise_logic",
    "pointwise_math",
    "pointwise_rounding",
]
