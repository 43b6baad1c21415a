"""Random programs of all public functions against NumPy, at each level, on threads, as libraries.

``make fuzz`` runs 3,000 of them, each seventh as a library too.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from slow_parameters import slow_unless
from surface_programs import check

FEW = 24
MANY = 3000
_PART = 100


@slow_unless(lambda part: part < 2)
@pytest.mark.parametrize("part", range(4))
def test_fuzz_surface(part: int) -> None:
    assert sum(check(seed) for seed in range(part * FEW // 4, (part + 1) * FEW // 4))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(MANY // _PART))
def test_fuzz_surface_long(part: int, tmp_path: Path) -> None:
    first = 1000 + part * _PART
    for seed in range(first, first + _PART):
        check(seed, tmp_path / str(seed) if seed % 7 == 0 else None)
