"""Every case in `tests/users/cases`: its graph is built, run and held against the reference answer.

A value case runs with its inputs fed and again with all of them as graph constants. The cases that
wait for a feature are those of `WAITING`, which `docs/cases.md` lists; the other tests here see to
it that each case has either a graph or a reason.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cases import (
    graphs_ahead,
    graphs_algebra,
    graphs_control,
    graphs_debug,
    graphs_gradient,
    graphs_large,
    graphs_numerics,
    graphs_random,
    graphs_session,
    graphs_shape,
    graphs_threads,
)
from cases.registry import REGISTRY, CaseRun, assert_agree, difference, load_cases
from cases.waiting import WAITING
from slow_parameters import slow_unless
from tools import ROOT

import graphc as gx

GRAPHS = (
    graphs_ahead,
    graphs_algebra,
    graphs_control,
    graphs_debug,
    graphs_gradient,
    graphs_large,
    graphs_numerics,
    graphs_random,
    graphs_session,
    graphs_shape,
    graphs_threads,
)
CASES = load_cases()
BUILT = [name for name in CASES if name in REGISTRY]
FOLDED = [name for name in BUILT if CASES[name].check == "value" and not REGISTRY[name].feeds_only]
LONG = {"big-deep-chain"}
"""Cases that take long; ``properties/test_scale.py`` takes chains of that length apart."""
LONG_WITH_CONSTANTS = LONG | {"big-concat", "cf-long-loop", "gr-fanout"}
DOCUMENT = ROOT / "docs" / "cases.md"


def run_case(identifier: str, directory: Path, *, constants: bool) -> None:
    case = CASES[identifier]
    variables = case.execute()
    inputs, expected = variables["inputs"], variables["expected"]
    with gx.Graph():
        run = CaseRun(case, inputs, expected, directory, constants=constants)
        outputs = REGISTRY[identifier].build(run)
    waiting = REGISTRY[identifier].parts_waiting
    expected = [array for place, array in enumerate(expected) if place not in waiting]
    assert_agree(outputs, expected, case.tolerance)


@slow_unless(lambda identifier: identifier not in LONG)
@pytest.mark.parametrize("identifier", BUILT)
def test_case(identifier: str, tmp_path: Path) -> None:
    run_case(identifier, tmp_path, constants=False)


@slow_unless(lambda identifier: identifier not in LONG_WITH_CONSTANTS)
@pytest.mark.parametrize("identifier", FOLDED)
def test_case_with_constants(identifier: str, tmp_path: Path) -> None:
    run_case(identifier, tmp_path, constants=True)


def test_naive_answers_are_told_apart() -> None:
    for case in CASES.values():
        if case.naive is None:
            continue
        variables = case.execute(naive=True)
        naive, expected = variables["naive"], variables["expected"]
        assert_agree(expected, expected, case.tolerance)
        assert len(naive) == len(expected)
        assert any(
            difference(wrong, right, case.tolerance)
            for wrong, right in zip(naive, expected, strict=True)
        ), case.id


def test_every_case_has_a_graph_or_a_reason() -> None:
    functions = [module.__name__ for module in GRAPHS]
    assert {entry.build.__module__ for entry in REGISTRY.values()} == set(functions)
    assert REGISTRY.keys() | WAITING.keys() == CASES.keys()
    assert not REGISTRY.keys() & WAITING.keys()


def test_document_lists_the_waiting_cases() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == len(dict(rows))
    parts = {
        name: f"{feature} (outputs {', '.join(map(str, places))} only)"
        for name, entry in REGISTRY.items()
        for feature in dict.fromkeys(entry.parts_waiting.values())
        for places in [[k for k, v in entry.parts_waiting.items() if v == feature]]
    }
    assert dict(rows) == WAITING | parts
