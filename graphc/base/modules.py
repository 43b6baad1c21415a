"""Packages whose modules register what they hold."""

from __future__ import annotations

import importlib
import pkgutil


def load_all(package: str) -> None:
    """Imports each module of a package, in the order of their names; packages in it with theirs."""
    found = importlib.import_module(package)
    for module in sorted(pkgutil.iter_modules(found.__path__), key=lambda info: info.name):
        name = f"{package}.{module.name}"
        if module.ispkg:
            load_all(name)
        else:
            importlib.import_module(name)


__all__ = ["load_all"]
