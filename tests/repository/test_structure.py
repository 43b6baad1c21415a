"""What ``structure_counts`` counts stays as low as it is."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from structure_counts import DEFINED_IN, KINDS, asking, counts, naming, trees
from tools import ROOT

MOST = 3
"""Its definition, the table of lowering that has it, the file of its kernel."""


def test_no_count_is_above_its_aim() -> None:
    above = {str(count): count.where for count in counts() if count.found > count.most}
    assert not above


@pytest.mark.parametrize("kind", KINDS)
def test_few_files_know_a_lowering_kind(kind: str) -> None:
    known = naming(kind, DEFINED_IN["kind"])
    others = [path for path in known if not path.startswith("graphc/ops/")]
    assert len(others) <= MOST, others


def test_passes_and_operations_ask_traits_of_kinds_and_not_their_classes() -> None:
    asked = asking(KINDS, DEFINED_IN["kind"])
    assert all(path.startswith("graphc/lower/") for path in asked), asked


def test_no_function_of_users_is_declared_twice_or_hidden_by_a_module() -> None:
    """``gx.interp`` would be the module ``graphc/interp.py`` as soon as that is loaded."""
    declared = Counter(
        node.name.rstrip("_")
        for path, tree in trees().items()
        if path.startswith("graphc/ops/")
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(d, ast.Name) and d.id == "surface" for d in node.decorator_list)
    )
    assert not [name for name, count in declared.items() if count > 1]
    modules = {path.stem for path in (ROOT / "graphc").iterdir()}
    assert not modules & declared.keys()
