"""Bytes of values where a planner needs a number: symbolic dims count as a fixed hint."""

from __future__ import annotations

from graphc.ir.dims import HINT, Dim, at_hint

__all__ = ["HINT", "hint_bytes"]


def hint_bytes(size: Dim, hint: int = HINT) -> int:
    """The number of bytes where every symbolic dim is `hint`."""
    return at_hint(size, hint)
