"""Words of messages: numbers with their nouns, names that are known, what was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_WIDTH = 60


def plural(count: int, noun: str) -> str:
    """A number and its noun: "1 kernel", "2 kernels"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def known_names(wanted: str, names: Iterable[str]) -> str | None:
    """The hint for a name that nothing has: close names first, ten of all; None without any."""
    import difflib

    known = sorted(set(names))
    close = difflib.get_close_matches(wanted, known, cutoff=0.7)
    order = close + [name for name in known if name not in close]
    if not order:
        return None
    more = f" and {len(order) - 10} more" if len(order) > 10 else ""
    return f"known names are {', '.join(map(repr, order[:10]))}{more}"


def shown(given: Any) -> str:
    """What a user gave, on one short line: as code where that is short, else by its type."""
    text = repr(given)
    if len(text) <= _WIDTH and "\n" not in text:
        return text
    return f"{text[:_WIDTH]}…" if isinstance(given, str) else f"a {type(given).__name__}"


def is_count(given: Any, least: int) -> bool:
    """Whether what a user gave is an int of at least this; a bool is none."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= least


__all__ = ["is_count", "known_names", "plural", "shown"]
