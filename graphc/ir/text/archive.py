"""Arrays in ``.npz`` archives: writing, and reading whatever the bytes are.

Invariant: ``read_arrays`` gives arrays of numbers or bools or raises ParseError; it unpickles
nothing and writes nothing. Dtypes that NumPy was taught have no name in such files, so their arrays
are there as words, and their names end in that of the dtype.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphc.base.errors import ParseError
from graphc.ir.attributes import Array
from graphc.ir.dtypes import element_of, kind_of
from graphc.ir.dtypes import named as dtype_named

_LONE = np.lib.format.MAGIC_PREFIX
"""How files of a single array begin."""


def write_arrays(file: Any, arrays: Mapping[str, Array]) -> None:
    """Writes arrays of numbers or bools by name."""
    stored: dict[str, Any] = {}
    for name, array in arrays.items():
        element = element_of(array.dtype)
        if element is not None and element.is_taught:
            name, array = f"{name}:{element}", array.view(f"u{element.bytes}")
        stored[name] = array
    np.savez(file, **stored)


def _as_named(name: str, array: Array) -> tuple[str, Array]:
    """An array under its name, as numbers of the dtype that the archive's name ends in."""
    first, _, last = name.rpartition(":")
    element = dtype_named(last)
    if not first or element is None or array.dtype != np.dtype(f"u{element.bytes}"):
        return name, array
    return first, array.view(element.numpy)


def read_arrays(content: bytes) -> dict[str, Array]:
    """The arrays of an archive by name.

    Raises:
        ParseError: if it is damaged or holds anything but arrays of numbers or bools.
    """
    if content.startswith(_LONE):
        raise ParseError("this is no archive of arrays, but a lone one, which has no name")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:
        # Zip, compression, headers and sizes are read by parts of NumPy's and Python's, which raise
        # other kinds of errors for the same damage from version to version.
        raise ParseError(f"the archive of arrays can't be read: {error}") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or kind_of(array.dtype) not in "biufc":
            raise ParseError(f"{name!r} in the archive is no array of numbers or bools")
    return dict(_as_named(name, array) for name, array in arrays.items())


__all__ = ["read_arrays", "write_arrays"]
