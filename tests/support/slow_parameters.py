"""Parameters that only the slow tests run: what repeats the code path of those that stay.

A test of every dtype, width or seed says in one line which of them tell the most. The others wait
for ``make slow``; no list of parameters is split for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest


def slow_unless(kept: Callable[..., bool]) -> pytest.MarkDecorator:
    """Marks a test as slow but for the parameters that ``kept`` is true of, which it takes by name.

    ``@slow_unless(lambda dtype, axis: dtype == "float32" or axis is None)``
    """
    return pytest.mark.slow_unless.with_args(kept)


def mark_slow_parameters(items: list[pytest.Item]) -> None:
    """Marks what no ``slow_unless`` of its test keeps."""
    for item in items:
        for marker in item.iter_markers("slow_unless"):
            (kept,) = marker.args
            given = item.callspec.params  # type: ignore[attr-defined]
            if not kept(*(given[name] for name in inspect.signature(kept).parameters)):
                item.add_marker(pytest.mark.slow)


__all__ = ["mark_slow_parameters", "slow_unless"]
