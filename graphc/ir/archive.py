"""Arrays in ``.npz`` archives: reading, whatever the bytes are.

Invariant: ``read_arrays`` gives arrays of numbers or bools or raises ParseError; it unpickles
nothing and writes nothing.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np

from graphc.base.errors import ParseError
from graphc.ir.attributes import Array

# What zipfile, zlib and NumPy raise for damaged archives: bad offsets (OSError), unknown kinds of
# compression and encryption (RuntimeError), sizes that no memory holds.
_DAMAGE = (
    ValueError, EOFError, KeyError, OSError, RuntimeError, struct.error, zlib.error,
    zipfile.BadZipFile, MemoryError, OverflowError,
)  # fmt: skip


def read_arrays(content: bytes) -> dict[str, Array]:
    """The arrays of an archive by name.

    Raises:
        ParseError: if it is damaged or holds anything but arrays of numbers or bools.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except _DAMAGE as error:
        raise ParseError(f"the archive of arrays can't be read: {error}") from error
    except TypeError as error:
        # A lone array, which has no names.
        raise ParseError("this is no archive of arrays") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise ParseError(f"{name!r} in the archive is no array of numbers or bools")
    return arrays


__all__ = ["read_arrays"]
