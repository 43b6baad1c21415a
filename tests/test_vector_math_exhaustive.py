"""Every float32 there is, through every function of one argument, against float64.

Takes many minutes; ``make ulp`` runs it. The greatest errors are printed.
"""

from __future__ import annotations

import numpy as np
import pytest
from vector_math_harness import (
    Array,
    function_errors,
    functions,
    targets,
    ulp_errors,
    wide_reference,
)

from graphc.codegen.math_common import MAX_ULP
from graphc.debug.loops import FUNCTIONS
from graphc.ir.dtypes import float32

CHUNK = 1 << 20
LANES = 16
# what is swept: with FMA and without; the oldest level gives the bits of the latter
SWEPT = ("host", "host-without-fma")
POWER_PAIRS = 1 << 27


def sweep(name: str, stride: int = 1) -> dict[str, tuple[float, float]]:
    """For each target the greatest error over every ``stride``-th pattern, and where."""
    loops = {target: functions(targets()[target], float32, [LANES]) for target in SWEPT}
    worst = {target: (0.0, 0.0) for target in SWEPT}
    for start in range(0, 1 << 32, CHUNK * stride):
        words = np.arange(start, min(start + CHUNK * stride, 1 << 32), stride, dtype=np.uint64)
        x: Array = words[: words.size // LANES * LANES].astype(np.uint32).view(np.float32)
        wide = wide_reference(name, x)
        for target in SWEPT:
            errors = function_errors(
                name, loops[target](f"loop_{name}_float32_{LANES}", x), wide
            )
            at = int(np.argmax(errors))
            if errors[at] > worst[target][0]:
                worst[target] = (float(errors[at]), float(x[at]))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "power"])
def test_every_float32(name: str) -> None:
    worst = sweep(name)
    print(f"\n{name}: {worst}")
    for target, (error, at) in worst.items():
        assert error <= MAX_ULP[name]["float32"], (target, at)


@pytest.mark.slow
def test_many_float32_powers() -> None:
    generator = np.random.default_rng(25)
    loops = {target: functions(targets()[target], float32, [LANES]) for target in SWEPT}
    worst = dict.fromkeys(SWEPT, 0.0)
    for _ in range(POWER_PAIRS // CHUNK):
        words = generator.integers(0, 1 << 31, CHUNK, dtype=np.uint32)
        x: Array = words.view(np.float32)
        with np.errstate(all="ignore"):
            limit = generator.uniform(-105, 89, CHUNK) / np.log(x.astype(np.float64))
        y = limit.astype(np.float32)
        wide = wide_reference("power", x, y)
        for target in SWEPT:
            errors = ulp_errors(loops[target](f"loop_power_float32_{LANES}", x, y), wide)
            worst[target] = max(worst[target], float(errors.max()))
    print(f"\npower: {worst}")
    assert max(worst.values()) <= MAX_ULP["power"]["float32"]
