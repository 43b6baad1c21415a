"""Checks that the package ``passes`` beside ``graphc`` is the one that came with it.

Both names are looked up where Python looks first, which is the folder of the user's script. A file
``passes.py`` there would be taken for the passes, and the first run would fail with an error that
names neither.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check_siblings() -> None:
    """Refuses to go on where another module hides ``passes``.

    Raises:
        ImportError: naming the file, and what to rename.
    """
    found = _place_of("passes")
    own = os.path.join(_ROOT, "passes")
    if found is None or _is_same(found, own):
        return
    name = os.path.basename(found)
    kind = "folder" if os.path.isdir(found) else "file"
    raise ImportError(
        f"the {kind} {found!r} hides graphc's own package 'passes', which Python looks for by that "
        f"name: rename {name!r}, as to 'my_{name}', and import it by its new name",
        name="passes",
        path=found,
    )


def _place_of(name: str) -> str | None:
    """The file or folder that an import of a package would take, or has taken; None for none."""
    loaded = sys.modules.get(name)
    spec = loaded.__spec__ if loaded is not None else PathFinder.find_spec(name)
    folders: list[str] = [*getattr(loaded, "__path__", ())]
    if spec is not None:
        folders += spec.submodule_search_locations or []
    if folders:
        return folders[0]
    origin: str | None = spec.origin if spec is not None else getattr(loaded, "__file__", None)
    return origin


def _is_same(left: str, right: str) -> bool:
    try:
        return os.path.samefile(left, right)
    except OSError:
        return False


__all__ = ["check_siblings"]
