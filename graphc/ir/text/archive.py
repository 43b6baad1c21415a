"""Arrays in ``.npz`` archives: reading, whatever the bytes are.

Invariant: ``read_arrays`` gives arrays of numbers or bools or raises ParseError; it unpickles
nothing and writes nothing.
"""

from __future__ import annotations

import io

import numpy as np

from graphc.base.errors import ParseError
from graphc.ir.attributes import Array

_LONE = np.lib.format.MAGIC_PREFIX
"""How files of a single array begin."""


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
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufc":
            raise ParseError(f"{name!r} in the archive is no array of numbers or bools")
    return arrays


__all__ = ["read_arrays"]
