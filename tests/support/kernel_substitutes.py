"""Substitutes whose functions are held against a wider precision at every call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from vector_math_harness import function_errors, wide_reference

from graphc.base.target import Target
from graphc.checking.levels.kernels import LevelMismatch
from graphc.checking.levels.substitutes import Substitutes
from graphc.codegen.math.common import MAX_ULP
from graphc.ir.attributes import Array
from graphc.ir.dtypes import DType
from graphc.ops.special.declared import CALLED

SAMPLE = 4096
"""Of so many elements a call, functions are held against a wider precision."""


def checked_substitutes(target: Target) -> Substitutes:
    """Functions that raise LevelMismatch where they exceed their documented error."""
    return Substitutes(target, _check)


def _check(name: str, element: DType, arrays: Sequence[Array], result: Array) -> None:
    if name in CALLED:
        # what errors a formula has, its own tests say
        return
    step = max(1, result.size // SAMPLE)
    operands = [array.reshape(-1)[::step] for array in arrays]
    got = result.reshape(-1)[::step]
    errors = function_errors(name, got, wide_reference(name, *operands))
    limit = MAX_ULP[name][element.name]
    if not (errors <= limit).all():
        worst = int(np.argmax(np.nan_to_num(errors, nan=np.inf)))
        given = ", ".join(repr(operand[worst]) for operand in operands)
        raise LevelMismatch(
            f"{name}({given}) is {got[worst]!r}: {errors[worst]} ulp, not up to {limit}"
        )


__all__ = ["checked_substitutes"]
