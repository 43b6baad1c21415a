"""Packages whose modules register what they hold."""

from __future__ import annotations

import importlib
import pkgutil


def load_all(package: str) -> None:
    """Imports each module of a package, in the order of their names."""
    found = importlib.import_module(package)
    for module in sorted(info.name for info in pkgutil.iter_modules(found.__path__)):
        importlib.import_module(f"{package}.{module}")


__all__ = ["load_all"]
