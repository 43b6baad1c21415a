"""Random programs of all public functions and operations, in every dtype, against NumPy.

At each level of ``optimize``, on one and two threads, and as libraries. ``make fuzz`` runs 3,000.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from guard_calls import CALLS
from slow_parameters import slow_unless
from surface_checks import check, check_libraries, counted, difference
from surface_programs import all_cases, built, dealt_cases, draw

import graphc as gx
from graphc.ir.dtypes import EVERY

FEW = 8
MANY = 3000
_PART = 100
_TOGETHER = 2
"""Programs of a library."""


def _check(seeds: range, folder: Path) -> None:
    for seed in seeds:
        assert check(seed).steps
    for first in seeds[::_TOGETHER]:
        together = [seed for seed in range(first, first + _TOGETHER) if seed in seeds]
        check_libraries(together, folder / str(first))


@slow_unless(lambda part: part == 0)
@pytest.mark.parametrize("part", range(FEW // _TOGETHER))
def test_fuzz_surface(part: int, tmp_path: Path) -> None:
    _check(range(part * _TOGETHER, (part + 1) * _TOGETHER), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(MANY // _PART))
def test_fuzz_surface_long(part: int, tmp_path: Path) -> None:
    _check(range(1000 + part * _PART, 1000 + (part + 1) * _PART), tmp_path)


def test_every_operation_is_dealt_in_every_dtype() -> None:
    dealt = [case for seed in range(1000, 1000 + MANY) for case in dealt_cases(seed)]
    assert set(dealt) == set(all_cases()) and len(dealt) > 3 * len(all_cases())
    assert {element for _, element in all_cases()} == set(EVERY)
    program = draw(1000)
    assert [step.case for step in program.steps if step.case] == dealt_cases(1000)


@pytest.mark.slow
def test_fuzz_has_every_function_and_every_dtype() -> None:
    """What NumPy or graphc refuses is drawn again, so not all that is dealt is in a program."""
    programs = [draw(seed) for seed in range(1000, 1000 + MANY)]
    steps = [step for program in programs for step in program.steps]
    assert {step.call.name for step in steps} >= {call.name for call in CALLS}
    taken = [operand.element for step in steps for operand in step.operands]
    assert all(taken.count(element) > 50 for element in EVERY)
    assert {step.within for step in steps} == {"", "branch", "loop"}
    kinds = counted(programs)
    assert kinds.total() == len(steps) > 4 * MANY and len(kinds) > 0.5 * kinds.total()


def test_a_wrong_number_is_noticed() -> None:
    """Where a result is not empty, and its number known."""
    noticed = 0
    for seed in range(5):
        program = draw(seed)
        fed, results, given, graph = built(program)
        fetches = [*results, *given]
        feeds = dict(zip(fed, program.arrays, strict=True))
        session = gx.Session(graph, options=gx.Options(optimize=1))
        found = session.run(fetches, feeds)
        for step, values, operands in zip(
            program.steps, found[: len(results)], found[len(results) :], strict=True
        ):
            assert not difference(step, operands, values)
            for place, value in enumerate(values):
                if not value.size or not np.isfinite(value.flat[0].astype("complex64")):
                    continue
                wrong = value.copy()
                first = value.flat[0]
                with np.errstate(all="ignore"):
                    wrong.flat[0] = ~first if value.dtype == bool else first + first + 1
                if wrong.flat[0] == first:
                    continue
                assert difference(step, operands, [*values[:place], wrong, *values[place + 1 :]])
                noticed += 1
    assert noticed > 15
