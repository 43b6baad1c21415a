"""Minima and maxima with a zero that is known: which zero, and NaN, come out on every target."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from vector_math_harness import targets

from graphc.checking.compare import same_bits
from graphc.checking.levels.loops import Loops
from graphc.codegen.kernels.primitives import emit_primitive
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.ir.dtypes import DType, float32, float64
from graphc.kernel.scalar import PRIMITIVES

NUMBERS = [0.0, -0.0, 1.5, -1.5, 1e-45, -1e-45, np.inf, -np.inf, np.nan, -np.nan] + [0.0] * 6


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("element", [float32, float64], ids=str)
@pytest.mark.parametrize("target", targets())
def test_extremes_of_a_known_zero(target: str, element: DType, lanes: int) -> None:
    x = np.array(NUMBERS, element.numpy)
    loops = Loops(targets()[target])
    cases = list(product(("minimum", "maximum"), (0.0, -0.0), (False, True)))
    for number, (name, zero, is_first) in enumerate(cases):

        def body(
            e: FunctionEmitter, inputs: list[Reg],
            name: str = name, zero: float = zero, is_first: bool = is_first,
        ) -> Reg:  # fmt: skip
            operands = [e.const(zero, inputs[0].type), inputs[0]]
            return emit_primitive(e, name, operands if is_first else operands[::-1], element)

        loops.add(f"case{number}", [element], element, lanes, body)
    for number, (name, zero, _) in enumerate(cases):
        wanted = PRIMITIVES[name].reference(np.full_like(x, zero), x)
        got = loops(f"case{number}", x)
        assert same_bits(wanted, got).all(), (name, zero, got)
