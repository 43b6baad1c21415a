"""Rows picked by number from large tables: asked for ahead, with the same values and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from schedules import schedules_of

import graphc as gx
from graphc.base.target import Target, host, named

pytestmark = pytest.mark.check_mode

TARGETS = {"host": host(), "v2": named("x86-64-v2"), "v3": named("x86-64-v3")}
TABLE = np.random.default_rng(5).standard_normal((20_000, 64)).astype(np.float32)


def program(function: Any, *arrays: Any, known: bool = True, target: Target | None = None) -> Any:
    with gx.Graph() as graph:
        shapes = [a.shape if known else (None,) * a.ndim for a in arrays]
        inputs = [gx.placeholder(s, a.dtype) for s, a in zip(shapes, arrays, strict=True)]
        result = function(*inputs)
    return gx.Session(graph, target=target).compile(result, inputs)


def is_asked_for(compiled: Any) -> bool:
    return "gathered" in schedules_of(compiled)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("known", [True, False], ids=["known", "symbolic"])
def test_rows(known: bool, target: Target) -> None:
    for count in (0, 1, 3, 4, 5, 100):
        numbers = np.random.default_rng(count).integers(-20_000, 20_000, count)
        options: Any = {"known": known, "target": target}
        compiled = program(lambda t, n: gx.take(t, n, 0), TABLE, numbers, **options)
        assert is_asked_for(compiled) or count < 2
        assert np.array_equal(compiled(TABLE, numbers), TABLE[numbers])


def test_rows_with_work_and_several_axes() -> None:
    numbers = np.random.default_rng(1).integers(0, 20_000, (7, 9))
    compiled = program(lambda t, n: gx.take(t, n, 0) * 2 + 1, TABLE, numbers)
    assert is_asked_for(compiled)
    assert np.array_equal(compiled(TABLE, numbers), TABLE[numbers] * 2 + 1)


def test_reduced_rows() -> None:
    numbers = np.random.default_rng(2).integers(0, 20_000, 50)
    compiled = program(lambda t, n: gx.max(gx.take(t, n, 0), axis=-1), TABLE, numbers)
    assert np.array_equal(compiled(TABLE, numbers), TABLE[numbers].max(-1))


def test_numbers_that_are_picked_themselves() -> None:
    """A number that may be out of range leads to no other number before it was checked."""
    first = np.random.default_rng(3).integers(0, 50_000, 40)
    second = np.random.default_rng(4).integers(0, 20_000, 50_000)
    compiled = program(lambda t, a, b: gx.take(t, gx.take(b, a, 0), 0), TABLE, first, second)
    assert np.array_equal(compiled(TABLE, first, second), TABLE[second[first]])


@pytest.mark.parametrize("wrong", [20_000, -20_001, 2**62, -(2**62)])
def test_a_number_out_of_range_is_an_error_at_its_turn(wrong: int) -> None:
    numbers = np.arange(50)
    compiled = program(lambda t, n: gx.take(t, n, 0), TABLE, numbers)
    numbers[10], numbers[12] = wrong, 77_777
    with pytest.raises(IndexError, match=str(wrong)):
        compiled(TABLE, numbers)
    numbers[10] = numbers[12] = 3
    assert np.array_equal(compiled(TABLE, numbers), TABLE[numbers])


def test_left_alone() -> None:
    numbers = np.arange(50)
    for table in (TABLE[:100], TABLE[:, :16].copy()):
        compiled = program(lambda t, n: gx.take(t, n, 0), table, numbers)
        assert not is_asked_for(compiled)
        assert np.array_equal(compiled(table, numbers), table[numbers])
