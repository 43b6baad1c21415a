"""The network of comparators that columns are sorted by."""

from __future__ import annotations

import numpy as np

from graphc.codegen.routines.network import NETWORK, ROWS


def test_the_network_sorts_whatever_there_is() -> None:
    # what sorts all rows of zeros and ones sorts all rows (Knuth, 5.3.4)
    rows = (np.arange(1 << ROWS)[:, None] >> np.arange(ROWS)) & 1
    for low, high in NETWORK:
        pair = rows[:, [low, high]]
        rows[:, low], rows[:, high] = pair.min(axis=1), pair.max(axis=1)
    assert (np.diff(rows, axis=1) >= 0).all()
