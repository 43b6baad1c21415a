"""Words of messages that depend on numbers."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """A number and its noun: "1 kernel", "2 kernels"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


__all__ = ["plural"]
