"""The symbols of native routines."""

from __future__ import annotations

from graphc.ir.dtypes import DType


def symbol_of(routine: str, dtypes: tuple[DType, ...]) -> str:
    """That of a routine for sources and targets of these dtypes."""
    return f"graphc_{routine}_{'_'.join(dtype.name for dtype in dtypes)}"


__all__ = ["symbol_of"]
