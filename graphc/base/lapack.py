"""LAPACK, where a library in this process has it: addresses of its functions for native code.

NumPy's wheels carry OpenBLAS with all of LAPACK, and so do SciPy's; nothing more has to be
installed. Native code calls ``lapack_dgesdd`` and such, and these names are resolved when it is
loaded. Integers are passed by address, as Fortran has it, and stand in 64 bits: a library of 32-bit
integers finds its own in the lower half, on machines that store the lower half first.

OpenBLAS shares large work among threads, and bits would depend on their number. So while native
code is in a function of it, it has one thread: code counts its calls in a record, and the last one
that leaves gives back the number of threads that was there before.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from graphc.base.errors import UnsupportedError

PREFIX = "lapack_"
"""How names begin that native code calls functions of LAPACK by."""

STATE = f"{PREFIX}state"
"""The record of threads: who may change it (0 or 1), how many calls there are, the number of
threads before the first of them."""

GET_THREADS, SET_THREADS = f"{PREFIX}get_threads", f"{PREFIX}set_threads"
"""The functions of OpenBLAS that tell and say how many threads there are, an int32."""

_SPELLINGS = ("scipy_{}_64_", "{}_64_", "scipy_{}_", "{}_")
_THREADS = ("scipy_openblas_{}64_", "openblas_{}64_", "scipy_openblas_{}", "openblas_{}")

_state = (ctypes.c_int64 * 3)()


def names_in(image: bytes) -> set[str]:
    """What an object calls of LAPACK."""
    found = re.findall(rb"\b(%s[a-z_]+)\0" % PREFIX.encode(), image)
    return {name.decode() for name in found}


def addresses(names: Iterable[str]) -> dict[str, int]:
    """The addresses of functions by the names that native code has for them.

    Raises:
        UnsupportedError: if no library in this process has them; says what to install.
    """
    return {name: _address(name) for name in sorted(names)}


@cache
def _address(name: str) -> int:
    if name == STATE:
        return ctypes.addressof(_state)
    library = _library()
    found: int | None
    if name in (GET_THREADS, SET_THREADS):
        what = name.removeprefix(PREFIX).replace("_threads", "_num_threads")
        found = _symbol(library, [spelling.format(what) for spelling in _THREADS])
    else:
        routine = name.removeprefix(PREFIX)
        found = _symbol(library, [spelling.format(routine) for spelling in _SPELLINGS])
    if found is None:
        raise _missing(name)
    return found


def _missing(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"no OpenBLAS with {what.removeprefix(PREFIX)} was found in NumPy or SciPy",
        hint="install NumPy or SciPy from a wheel of PyPI, which carries it",
    )


@cache
def _library() -> ctypes.CDLL:
    """The first library that has LAPACK and says how many threads it uses."""
    if sys.byteorder != "little":
        raise _missing("integers of the right width")
    for path in _candidates():
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        known = [spelling.format("dgesdd") for spelling in _SPELLINGS]
        threads = [spelling.format("set_num_threads") for spelling in _THREADS]
        if _symbol(library, known) is not None and _symbol(library, threads) is not None:
            return library
    raise _missing("LAPACK")


def _candidates() -> Iterator[Path]:
    """Libraries that came with NumPy, then those of SciPy."""
    for name in ("numpy", "scipy"):
        try:
            package = importlib.import_module(name)
        except ImportError:
            continue
        place = Path(package.__file__ or "").parent
        for folder in (place.parent / f"{name}.libs", place / ".dylibs", place / ".libs"):
            yield from sorted(folder.glob("*openblas*"))


def _symbol(library: ctypes.CDLL, spellings: Iterable[str]) -> int | None:
    for spelling in spellings:
        try:
            function = getattr(library, spelling)
        except AttributeError:
            continue
        return ctypes.cast(function, ctypes.c_void_p).value
    return None


__all__ = ["GET_THREADS", "PREFIX", "SET_THREADS", "STATE", "addresses", "names_in"]
