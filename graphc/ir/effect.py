"""Effects: what is run for what it does, such as a group of assignments.

Invariant: an effect is no value; it stands beside the graph and names values of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.ir.value import Value, checked_name


class Effect:
    """Something to run for what it does; fetching it gives None.

    Attributes:
        values: the values whose computation is the effect.
        name: by which it can be fetched; None for none.
    """

    __slots__ = ("name", "values")

    def __init__(self, values: Sequence[Value], name: str | None = None) -> None:
        self.values = tuple(values)
        self.name = checked_name(name)

    @property
    def graph(self) -> Any:
        """The ``gx.Graph`` of its values, as a session wants it; None if it has none."""
        return self.values[0].graph if self.values else None

    def __repr__(self) -> str:
        return f"<Effect {self.name or ''} of {len(self.values)} values>"


__all__ = ["Effect"]
