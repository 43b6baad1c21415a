"""Memory of large results, used again when they are dead.

Fresh pages cost several times what a kernel needs to fill them, so the memory of a large result
goes back to a store when its array and all views of it are gone, and the next result of that size
gets it. Invariant: a block is either in the store or belongs to one living array.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any
from weakref import ref

import numpy as np

from graphc.base.tuning.running import RUNNING
from graphc.base.weak import popped
from graphc.ir.attributes import Array

MAX_IDLE_BLOCKS = 256 << 20
"""Bytes that may wait in the store of the process."""

_HUGE = RUNNING.block_bytes
"""Bytes from which on the system is asked for huge pages. A block may well be smaller than such a
page: those made one after the other lie side by side, and pages don't end where they do. A training
step of 784-512-512-10 with 7.6 MB of variables, of which 6 then lie so, takes 0.97 to 0.98 of the
time: the update of the first layer alone went from 1.10 to 1.07 ms."""


class BlockStore:
    """Blocks that wait, by size, and those that come back when their arrays die.

    Arrays die anywhere, perhaps in the midst of another call here, so there is no lock: every
    change is a single operation on a list or a dict. Nor does code of Python run where one dies, in
    which an interrupt would be lost: a method of a list notes it, and ``take`` sees to it. So that
    dead memory stays bounded until then, no more blocks are waited for than may wait: those of
    other arrays go to the system with them.
    """

    def __init__(self, limit: int = MAX_IDLE_BLOCKS) -> None:
        self.limit = limit
        self._idle: dict[int, list[mmap.mmap]] = {}
        self._lent: dict[int, tuple[ref[_Lease], mmap.mmap]] = {}
        self._dead: list[ref[_Lease]] = []

    @property
    def idle_bytes(self) -> int:
        """What waits."""
        self._collect()
        return sum(size * len(blocks) for size, blocks in list(self._idle.items()))

    @property
    def known_bytes(self) -> int:
        """What waits, or will when its array dies."""
        return self.idle_bytes + sum(len(block) for _, block in list(self._lent.values()))

    def lease(self, size: int) -> _Lease:
        """So many bytes; their content is left over from somewhere.

        Raises:
            MemoryError: if the system has none.
        """
        grain = RUNNING.block_grain_bytes
        block = self._take(-(-size // grain) * grain)
        made = _Lease(size, np.uint8, block)
        entry = ref(made, self._dead.append)
        self._lent[id(entry)] = entry, block
        self._bound(len(block))
        return made

    def clear(self) -> None:
        """Gives all that waits to the system."""
        self._collect()
        self._idle.clear()

    def _collect(self) -> None:
        """Takes the blocks of dead arrays back."""
        while (dead := popped(self._dead)) is not None:
            known = self._lent.pop(id(dead), None)
            if known is not None:
                block = known[1]
                self._idle.setdefault(len(block), []).append(block)

    def _take(self, size: int) -> mmap.mmap:
        self._collect()
        block = popped(self._idle.get(size, []))
        if block is not None:
            return block
        try:
            return _fresh(size)
        except (OSError, OverflowError):
            self.clear()  # what waits here may be what is missing
        try:
            return _fresh(size)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"no memory for a result of {size:,} bytes") from error

    def _bound(self, latest: int) -> None:
        """Forgets what is too much: what waits, other sizes than the latest first; then the
        blocks that were lent first."""
        excess = self.known_bytes - self.limit
        if excess <= 0:
            return
        for size in sorted(list(self._idle), key=lambda size: size == latest):
            blocks = self._idle.get(size, [])
            while excess > 0 and popped(blocks) is not None:
                excess -= size
            if not blocks:
                self._idle.pop(size, None)
        for key, (_, block) in list(self._lent.items()):
            if excess <= 0:
                return
            if self._lent.pop(key, None) is not None:
                excess -= len(block)


def _fresh(size: int) -> mmap.mmap:
    block = mmap.mmap(-1, size, **_PRIVATE)
    if size >= _HUGE and _ADVICE is not None:
        try:
            block.madvise(_ADVICE)
        except OSError:
            return block  # a system without huge pages: ordinary ones serve
    return block


_PRIVATE: dict[str, Any] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
)
"""After a fork each process has its own content, as with any other memory."""

_ADVICE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


class _Lease(np.ndarray[Any, np.dtype[np.uint8]]):
    """A block as NumPy sees it: what the array of a result is based on, and all of its views.

    NumPy looks through chains of views of one type only, so these keep this object alive.
    """

    __slots__ = ()


@cache
def store() -> BlockStore:
    """The store of the process."""
    return BlockStore()


def result_of(shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Array:
    """An uninitialised array for a result of ``size`` bytes, in a block."""
    return np.ndarray(shape, dtype, store().lease(size))


def copies_of(arrays: Sequence[Array]) -> list[Array]:
    """Copies that lie where results would; there is room for all before any is written, so that
    blocks can share huge pages."""
    makers = [maker_of_results(array.shape, array.dtype) for array in arrays]
    copies = [
        np.empty(array.shape, array.dtype) if make is None else make()
        for array, make in zip(arrays, makers, strict=True)
    ]
    for copy, array in zip(copies, arrays, strict=True):
        copy[...] = array
    return copies


def maker_of_results(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], Array] | None:
    """What makes the arrays of a large result; None for a small one."""
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    return partial(result_of, shape, dtype, size) if size >= RUNNING.block_bytes else None
