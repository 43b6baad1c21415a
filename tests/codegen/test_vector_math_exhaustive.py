"""Functions of float32 at many arguments of every sign and exponent, against float64.

``make ulp`` looks at every float32 there is (``ulp_sweep.py``); this takes a minute. The greatest
errors are printed.
"""

from __future__ import annotations

import numpy as np
import pytest
from ulp_sweep import LANES, PATTERNS, TARGETS, UNARY, errors_of, families, worst_of
from vector_math_harness import Array, functions, targets, ulp_errors, wide_reference

from graphc.codegen.math.common import MAX_ULP
from graphc.ir.dtypes import float32

CHUNK = 1 << 20
STEP = 1021
"""Of 4 million arguments each; no power of two, so that all bits of the significand change."""
POWER_PAIRS = 1 << 27


@pytest.mark.slow
@pytest.mark.parametrize("family", families(UNARY), ids=lambda family: family[0])
def test_float32_of_every_exponent(family: list[str]) -> None:
    worst = worst_of(family, 0, PATTERNS, STEP)
    print(f"\n{worst}")
    for key, (error, pattern) in worst.items():
        assert error <= MAX_ULP[key.split()[0]]["float32"], (key, hex(pattern))


def test_a_wrong_result_anywhere_is_seen() -> None:
    x = np.linspace(0.1, 3.0, 64, dtype=np.float32)
    wide = np.exp(x.astype(np.float64))
    got = wide.astype(np.float32)
    assert errors_of("exp", got, wide).max() <= 0.5
    steps = {"inf": np.inf, "nan": np.nan, "sign": -got[7], "zero": 0.0}
    for value in steps.values():
        wrong = got.copy()
        wrong[7] = value
        assert errors_of("exp", wrong, wide).argmax() == 7
        assert errors_of("exp", wrong, wide)[7] > 1e6
    off = got.copy()
    off[9] = np.nextafter(np.nextafter(off[9], np.float32(9)), np.float32(9))
    assert 1.5 < errors_of("exp", off, wide)[9] < 2.5
    specials = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
    assert not errors_of("exp", specials.astype(np.float32), specials).any()


@pytest.mark.slow
def test_many_float32_powers() -> None:
    generator = np.random.default_rng(25)
    loops = {target: functions(targets()[target], float32, [LANES]) for target in TARGETS}
    worst = dict.fromkeys(TARGETS, 0.0)
    for _ in range(POWER_PAIRS // CHUNK):
        words = generator.integers(0, 1 << 31, CHUNK, dtype=np.uint32)
        x: Array = words.view(np.float32)
        with np.errstate(all="ignore"):
            limit = generator.uniform(-105, 89, CHUNK) / np.log(x.astype(np.float64))
        y = limit.astype(np.float32)
        wide = wide_reference("power", x, y)
        for target in TARGETS:
            errors = ulp_errors(loops[target](f"loop_power_float32_{LANES}", x, y), wide)
            worst[target] = max(worst[target], float(errors.max()))
    print(f"\npower: {worst}")
    assert max(worst.values()) <= MAX_ULP["power"]["float32"]
