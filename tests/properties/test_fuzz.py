"""Random programs: no pass changes a meaning, and compiled code computes what the reference does.

Six questions. Are the bits the same with and without all exact passes (class E and R keep them)?
And at each level of ``optimize``, with everything that may change them switched on? And those of
variables after each of several runs, written in place or not?
Does each operation, compiled alone, give what its reference gives on the very operands it had? And
does each option that opens inexact rewriting stay near the plain result on ordinary numbers?
Shrunk programs that once failed are kept below. ``make fuzz`` runs many more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fuzz_checks import (
    check_each_operation,
    check_exact_passes,
    check_flags,
    check_groups,
    check_joins,
    check_levels,
    check_stability,
    check_states,
    check_states_of_libraries,
    check_threads,
)
from hypothesis import HealthCheck, Phase, given, settings
from random_groups import GROUPED
from random_operations import CROSSING, STEPS
from random_programs import Recipe, recipes
from random_programs import build as build_of
from random_spellings import JOINING, MORE
from random_states import STATEFUL

FEW = settings(
    max_examples=7,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)

MANY = settings(FEW, max_examples=2000, derandomize=False)

KEPT: tuple[Recipe, ...] = (
    Recipe(((3, 0),), tuple((n, 0, 0, 0) for n in range(0, len(STEPS), 5)), False, True, 3, 0),
    Recipe(((3, 0),), tuple((n, 1, 1, 1) for n in range(1, len(STEPS), 5)), True, True, 3, 1),
)
"""Programs that once failed, shrunk, after two that hold many operations."""


@pytest.mark.parametrize("number", range(len(KEPT)))
@pytest.mark.parametrize(
    "check", [check_exact_passes, check_levels, check_threads, check_each_operation]
)
def test_kept_programs(check: Any, number: int) -> None:
    check(KEPT[number])


@FEW
@given(recipes(steps=MORE))
def test_random_programs_keep_their_bits(recipe: Recipe) -> None:
    check_exact_passes(recipe)


@FEW
@given(recipes(steps=MORE))
def test_random_programs_have_the_same_bits_at_each_level(recipe: Recipe) -> None:
    check_levels(recipe)


@FEW
@given(recipes(steps=JOINING))
def test_random_programs_have_the_same_bits_on_threads(recipe: Recipe) -> None:
    check_threads(recipe, build_of(recipe, JOINING))


@FEW
@given(recipes(steps=JOINING))
def test_random_joins_keep_their_bits(recipe: Recipe) -> None:
    check_joins(recipe)


@FEW
@given(recipes(steps=CROSSING))
def test_random_tables_keep_their_bits(recipe: Recipe) -> None:
    check_exact_passes(recipe, build_of(recipe, CROSSING))


@settings(FEW, max_examples=4)
@given(recipes(steps=STATEFUL, variables=4))
def test_random_states_keep_their_bits(recipe: Recipe) -> None:
    check_states(recipe)


@settings(FEW, max_examples=3)
@given(recipes(steps=STATEFUL, variables=4))
def test_random_states_of_libraries(tmp_path: Path, recipe: Recipe) -> None:
    check_states_of_libraries(recipe, tmp_path / "library")


@FEW
@given(recipes(steps=MORE))
def test_each_random_operation_is_its_reference(recipe: Recipe) -> None:
    check_each_operation(recipe)


@FEW
@given(recipes(steps=MORE, special=False))
def test_random_programs_under_each_flag(recipe: Recipe) -> None:
    check_flags(recipe)


@FEW
@given(recipes(steps=MORE))
def test_random_programs_stay_finite_and_near(recipe: Recipe) -> None:
    check_stability(recipe)


@settings(FEW, max_examples=9)
@given(recipes(steps=GROUPED, special=False, most=9))
def test_random_groups_are_what_lowering_takes(recipe: Recipe) -> None:
    """Fault 6."""
    check_groups(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, most=30))
def test_fuzz_bits(recipe: Recipe) -> None:
    check_exact_passes(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=JOINING, most=30))
def test_fuzz_threads(recipe: Recipe) -> None:
    check_threads(recipe, build_of(recipe, JOINING))


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, most=30))
def test_fuzz_levels(recipe: Recipe) -> None:
    check_levels(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=JOINING, most=30))
def test_fuzz_joins(recipe: Recipe) -> None:
    check_joins(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=CROSSING, most=30))
def test_fuzz_tables(recipe: Recipe) -> None:
    check_exact_passes(recipe, build_of(recipe, CROSSING))


@pytest.mark.slow
@MANY
@given(recipes(steps=STATEFUL, most=30, variables=5))
def test_fuzz_states(recipe: Recipe) -> None:
    check_states(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=STATEFUL, most=30, variables=5))
def test_fuzz_states_of_libraries(tmp_path: Path, recipe: Recipe) -> None:
    check_states_of_libraries(recipe, tmp_path / "library")


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, most=30))
def test_fuzz_operations(recipe: Recipe) -> None:
    check_each_operation(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, special=False, most=30))
def test_fuzz_flags(recipe: Recipe) -> None:
    check_flags(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, most=30))
def test_fuzz_stability(recipe: Recipe) -> None:
    check_stability(recipe)


@pytest.mark.slow
@settings(MANY, max_examples=3000)
@given(recipes(steps=GROUPED, special=False, most=16))
def test_fuzz_groups(recipe: Recipe) -> None:
    check_groups(recipe)
