"""Other pages of memory for an array, at the same addresses.

In which pages a large array lies decides how many of its lines find room in the caches beside each
other: that makes up to a third of the time of what reads it, and stays as it is while the array
lives. The address is a matter of the process alone, so nobody who holds the array needs to know.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Any

HUGE = 2 << 20
# of <linux/mman.h>: to another place, to just this one, leaving empty pages where they were
_MAYMOVE, _FIXED, _DONTUNMAP = 1, 2, 4


def moved(array: Any) -> mmap.mmap | None:
    """Gives an array's whole pages of memory for other ones, of the same kind and content.

    Args:
        array: of NumPy, in private memory.

    Returns:
        What holds the old pages, which cannot come back while it lives; none if there is no whole
        page.

    Raises:
        OSError: the kernel refuses.
    """
    first = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (array.ctypes.data + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if size <= 0:
        return None
    is_huge = "hg" in _flags(first)
    fresh, old = _room(size, is_huge), _room(size, is_huge)
    ctypes.memmove(_place(fresh, first), first, size)
    _move_pages(first, _place(old, first), size)
    _move_pages(_place(fresh, first), first, size)
    return old


def _room(size: int, is_huge: bool) -> mmap.mmap:
    """Memory for so many pages, of huge ones where that is wanted."""
    room = mmap.mmap(-1, size + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if is_huge:
        room.madvise(mmap.MADV_HUGEPAGE)
    return room


def _place(room: mmap.mmap, first: int) -> int:
    """Where in a room huge pages begin just where they do from an address on."""
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    return start + (first - start) % HUGE


def _move_pages(source: int, target: int, size: int) -> None:
    """Puts pages in the place of others; what reads the source then finds zeros."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mremap.restype = ctypes.c_void_p
    sizes = ctypes.c_size_t(size), ctypes.c_size_t(size)
    flags = _MAYMOVE | _FIXED | _DONTUNMAP
    found = libc.mremap(ctypes.c_void_p(source), *sizes, flags, ctypes.c_void_p(target))
    if found != target:
        number = ctypes.get_errno()
        raise OSError(number, f"pages of inputs cannot be moved: {os.strerror(number)}")


def _flags(address: int) -> list[str]:
    """The kernel's flags of the mapping that an address lies in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        key, _, rest = line.partition(" ")
        if not key.endswith(":"):
            start, _, end = key.partition("-")
            inside = int(start, 16) <= address < int(end, 16)
        elif inside and key == "VmFlags:":
            return rest.split()
    return []
