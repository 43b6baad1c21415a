"""The user-level functions by name, which operators and methods reach through here.

Invariant: whoever asks gets an answer from all families of operations, which load when first asked
for. This module knows no operation, so that there are values where no operation is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from graphc.base.errors import UnsupportedError
from graphc.base.source import caller
from graphc.base.waiting import Flag

SurfaceFunction = TypeVar("SurfaceFunction", bound=Callable[..., Any])

_SURFACE: dict[str, Callable[..., Any]] = {}
_OTHER_NAMES: dict[str, str] = {}
_IS_COMPLETE = Flag()


class _Known(dict[str, Callable[..., Any]]):
    """The functions that were asked for; asking for the first one loads all families."""

    def __missing__(self, name: str) -> Callable[..., Any]:
        load_families()
        function = self[name] = _SURFACE[_OTHER_NAMES.get(name, name)]
        return function


functions = _Known()
"""The user-level functions by name, for whoever asks at each operation; a KeyError for others."""


def surface(function: SurfaceFunction) -> SurfaceFunction:
    """Decorator: enters a user-level function, so that operators and methods reach it by name."""
    name = function.__name__.rstrip("_")
    _SURFACE[name] = function
    functions.pop(name, None)
    return function


def also_called(name: str, known: str) -> None:
    """Gives the function that is known by one name a second one."""
    _OTHER_NAMES[name] = known


def other_names() -> dict[str, str]:
    """The second names of functions, and the first ones."""
    load_families()
    return dict(sorted(_OTHER_NAMES.items()))


def surface_function(name: str) -> Callable[..., Any]:
    """The user-level function of that name (``add`` converts and promotes, then builds)."""
    return functions[name]


def surface_names() -> tuple[str, ...]:
    """Names of all user-level functions."""
    load_families()
    return tuple(sorted({*_SURFACE, *_OTHER_NAMES}))


def load_families() -> None:
    """Imports the op families, which register themselves; the registry is complete after it."""
    if not _IS_COMPLETE.is_set:
        importlib.import_module("graphc.ops")


_NAMESAKES = {"numpy": "graphc", "numpy.linalg": "graphc.linalg", "numpy.fft": "graphc.fft"}
"""Modules of NumPy, and where functions by their names are."""


def namesake(module: str, name: str) -> tuple[Callable[..., Any], str]:
    """The function that one of NumPy's leads to, and how it is called.

    Raises:
        KeyError: if there is none.
    """
    ours = _NAMESAKES[module]
    there = functions if ours == "graphc" else _public(ours)
    function = there[name]
    return function, f"{ours.replace('graphc', 'gx', 1)}.{function.__name__.rstrip('_')}"


def _public(module: str) -> dict[str, Callable[..., Any]]:
    loaded = importlib.import_module(module)
    return {name: getattr(loaded, name) for name in loaded.__all__}


def array_namespace(version: str | None) -> Any:
    """The namespace of the array API standard.

    Raises:
        UnsupportedError: for a version that came after the one there is.
    """
    namespace = importlib.import_module("graphc.frontend.array_api")
    there: str = namespace.__array_api_version__
    if version is not None and not (isinstance(version, str) and "2021.12" <= version <= there):
        raise UnsupportedError(
            f"version {version!r} of the array API standard",
            where=caller(),
            hint=f"there is {there}, which has what came before",
        )
    return namespace


def families_loaded() -> None:
    """Says that all families are registered."""
    _IS_COMPLETE.set()
