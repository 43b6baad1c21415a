"""The data caches of the machine this runs on, as Linux tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")
"""Where Linux has a directory for each cache that the first core uses."""

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Caches(NamedTuple):
    """Bytes of the data caches of one core."""

    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10

    @property
    def is_plausible(self) -> bool:
        """Whether there are processors like this: containers and emulators may tell anything."""
        first, second = self
        return 8 << 10 <= first <= 1 << 20 and 2 * first <= second <= 64 << 20


USUAL = Caches()
"""What is taken for caches that are not known."""


def caches_of(system: Path = SYSTEM) -> Caches:
    """The caches that a directory tells of; ``USUAL`` where it tells nothing, or what can't be."""
    sizes: dict[int, int] = {}
    try:
        for cache in system.glob("index*"):
            if _word(cache / "type") in ("Data", "Unified"):
                sizes[int(_word(cache / "level"))] = _bytes(_word(cache / "size"))
        found = Caches(sizes[1], sizes[2])
    except (OSError, ValueError, KeyError):
        return USUAL
    return found if found.is_plausible else USUAL


def _word(file: Path) -> str:
    return file.read_text("ascii").strip()


def _bytes(text: str) -> int:
    """The bytes that a size like ``512K`` says.

    Raises:
        ValueError: for other text.
    """
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)


__all__ = ["SYSTEM", "USUAL", "Caches", "caches_of"]
