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


def close_names(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that differ by a slip of the hand, the closest first, three at most.

    A slip is a letter too many, missing or wrong, or two in the wrong order: one where the
    shorter name has three to five letters, two in longer ones, none in shorter ones. Case and
    underscores do not count.
    """
    found: list[tuple[int, str]] = []
    key = plain(wanted)
    for name in names:
        other = plain(name)
        shorter = min(len(key), len(other))
        allowed = 0 if shorter < 3 else 1 if shorter < 6 else 2
        if abs(len(other) - len(key)) <= allowed:
            distance = _edits(key, other)
            if distance <= allowed:
                found.append((distance, name))
    return [name for _, name in sorted(found)[:3]]


def plain(name: str) -> str:
    """A name without regard to case and underscores, which libraries set differently."""
    return name.lower().replace("_", "")


def _edits(left: str, right: str) -> int:
    """How many letters to insert, drop, replace or swap with the next make one of the other."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, one in enumerate(left):
        last, before, row = before, row, [i + 1]
        for j, other in enumerate(right):
            cost = min(before[j] + (one != other), before[j + 1] + 1, row[j] + 1)
            if i and j and one == right[j - 1] and left[i - 1] == other:
                cost = min(cost, last[j - 1] + 1)
            row.append(cost)
    return row[-1]


def shown(given: Any) -> str:
    """What a user gave, on one short line: as code where that is short, else by its type."""
    text = repr(given)
    if len(text) <= _WIDTH and "\n" not in text:
        return text
    return f"{text[:_WIDTH]}…" if isinstance(given, str) else f"a {type(given).__name__}"


def is_count(given: Any, least: int) -> bool:
    """Whether what a user gave is an int of at least this; a bool is none."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= least


__all__ = ["close_names", "is_count", "known_names", "plain", "plural", "shown"]
