"""Words of messages: numbers with their nouns, names that are known."""

from __future__ import annotations

from collections.abc import Iterable


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


__all__ = ["known_names", "plural"]
