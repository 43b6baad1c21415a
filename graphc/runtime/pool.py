"""The thread pool's record, one for the process, and the code its threads run.

Invariant: neither the record nor that code is ever freed: threads may be asleep in both when the
interpreter ends. No thread exists before the first launch that is cut into tasks.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from graphc.base import forks
from graphc.plan.abi import POOL_BYTES, POOL_ENTRY
from graphc.runtime.address import address_of


class _Pool:
    """The process's record, made at first use."""

    lock = forks.lock()
    record: NDArray[np.uint8] | None = None


def pool_address(worker: int, library: object) -> int:
    """The address of the record; its threads will run the first ``worker`` that comes, of a library
    that stays loaded for that."""
    with _Pool.lock:
        if _Pool.record is None:
            _Pool.record = _immortal(library)
            words = _Pool.record.view(np.uint64)
            words[POOL_ENTRY // 8] = worker
        return address_of(_Pool.record)


def _immortal(library: object) -> NDArray[np.uint8]:
    """A record on cache lines of its own that, like the library, outlives the interpreter."""
    room = np.zeros(POOL_BYTES + 64, np.uint8)
    start = -address_of(room) % 64
    for kept in (room, library):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return room[start : start + POOL_BYTES]


__all__ = ["pool_address"]
