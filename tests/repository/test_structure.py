"""What ``structure_counts`` counts stays as low as it is."""

from __future__ import annotations

import pytest
from structure_counts import DEFINED_IN, KINDS, asking, naming

MOST = 3
"""Its definition, the table of lowering that has it, the file of its kernel."""


@pytest.mark.parametrize("kind", KINDS)
def test_few_files_know_a_lowering_kind(kind: str) -> None:
    known = naming(kind, DEFINED_IN["kind"])
    others = [path for path in known if not path.startswith("graphc/ops/")]
    assert len(others) <= MOST, others


def test_passes_and_operations_ask_traits_of_kinds_and_not_their_classes() -> None:
    asked = asking(KINDS, DEFINED_IN["kind"])
    assert all(path.startswith("graphc/lower/") for path in asked), asked
