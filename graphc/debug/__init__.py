"""What the compiler did, and what made a wrong result: explanations, profiles, reports, bisection.

Names load when first used, so that ``gx.debug`` loads no more than is asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "bisect": "bisecting",
    "Finding": "bisecting",
    "reduce": "reducing",
    "capture": "capsule",
    "load_capsule": "capsule",
    "Case": "case",
    "watch_gradients": "gradients",
}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(_NAMES)
