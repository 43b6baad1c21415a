"""How many partial results a reduction keeps, by the order that ``graphc.kernel.ir`` defines."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.kernel.ir import CASCADED, CHUNK, LEVELS, Block
from graphc.kernel.statements.base import Reducer

WORDS_OF_EXTREMES = 3
"""What extremes of floats are accumulated in: the greatest and the least word as signed integers,
and the greatest as unsigned."""


def cascades(reducer: Reducer) -> bool:
    """Whether partial results go from level to level."""
    return reducer.combine in CASCADED and reducer.term.dtype.is_rounded


def by_words(reducer: Reducer) -> bool:
    """Whether the extremes of the terms' words are accumulated instead of the terms."""
    return reducer.term.dtype.is_float and reducer.combine in ("minimum", "maximum")


def parts_of(reducer: Reducer) -> int:
    """How many registers its accumulator has."""
    if by_words(reducer):
        return WORDS_OF_EXTREMES
    return 2 if reducer.combine.startswith("arg") else 1


def level_count(reducers: Sequence[Reducer], known_steps: int | None) -> int:
    """Levels of the cascade; those that cannot fill are left out, to the same bits."""
    depth = LEVELS - 1
    if not any(cascades(reducer) for reducer in reducers):
        depth = 0
    while known_steps is not None and depth and known_steps <= CHUNK**depth:
        depth -= 1
    return depth + 1


def levels_of(reduction: Block) -> int:
    """Levels of a reduction down columns; one that few columns need has one."""
    if reduction.condition is not None:
        return 1
    extent = reduction.extent
    return level_count(reduction.reducers, extent if isinstance(extent, int) else None)


__all__ = ["by_words", "cascades", "level_count", "levels_of", "parts_of"]
