"""The cases that cannot be built yet, each with the feature it waits for.

`docs/cases.md` lists exactly these; a case leaves the table when its graph is written.
"""

from __future__ import annotations

from typing import Final

WAITING: Final[dict[str, str]] = {
    "nn-bn-fold": "convolution",
    "nn-conv": "convolution",
    "nn-pool-max": "pooling",
    "nn-resize": "resize",
}
