"""Whether two arrays are equal: dtypes, shapes and bits, where any NaN equals any other."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.checking.compare import difference


def same_bits(one: Any, other: Any) -> bool:
    """Whether what ``np.asarray`` makes of both is equal."""
    return difference(np.asarray(other), np.asarray(one)) is None


def assert_same_bits(got: Any, wanted: Any, what: str = "") -> None:
    """Fails with the first element that differs, after what is compared."""
    found = difference(np.asarray(wanted), np.asarray(got))
    assert found is None, f"{what}: {found}" if what else str(found)


__all__ = ["assert_same_bits", "same_bits"]
