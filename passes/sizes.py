"""Bytes of values where a planner needs a number: symbolic dims count as a fixed hint."""

from __future__ import annotations

from graphc.ir.dims import Dim, evaluate, symbol_name, symbols_of

HINT = 32
"""The size a symbolic dim is planned for; any other size is still right."""


def hint_bytes(size: Dim, hint: int = HINT) -> int:
    """The number of bytes where every symbolic dim is `hint`."""
    if isinstance(size, int):
        return size
    return evaluate(size, {symbol_name(symbol): hint for symbol in symbols_of(size)})
