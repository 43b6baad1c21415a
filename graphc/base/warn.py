"""Warnings: what is allowed and seldom meant, told once for each line of the user."""

from __future__ import annotations

import warnings

from graphc.base.errors import GraphcWarning
from graphc.base.source import caller


def warn(message: str, hint: str) -> None:
    """Warns at the user's line.

    Args:
        message: what is strange, in one sentence.
        hint: how to mend it, or to say that it is meant.
    """
    where = caller()
    text = f"{message}\n  hint: {hint}"
    if where is None:
        warnings.warn(text, GraphcWarning, stacklevel=2)
        return
    # the registry is that of the line's module, which the frame would tell; by file it is the same
    known = _TOLD.setdefault(where.filename, {})
    warnings.warn_explicit(text, GraphcWarning, where.filename, where.line, registry=known)


_TOLD: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}
"""What was told, for each file, as the module ``warnings`` keeps it."""

__all__ = ["warn"]
