"""Attributes of nodes: plain immutable data, with a key under which equal means equal.

Python's own equality is too coarse for a compiler: 0.0 == -0.0, 1 == True, NaN != NaN. ``key``
tells the first two apart and makes bit-equal NaNs agree.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Hashable, Mapping
from typing import Any, TypeAlias

import numpy as np

from graphc.ir.dims import DimExpr
from graphc.ir.dtypes import DType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Payload:
    """The array of a constant: read-only, C-contiguous, native byte order, hashed once."""

    __slots__ = ("_digest", "array")

    def __init__(self, array: Array) -> None:
        """Copies unless the array already is what a payload may hold."""
        native = array
        owned = array.base is None and not array.flags.writeable
        if not (owned and array.flags.c_contiguous and array.dtype.isnative):
            native = array.astype(array.dtype.newbyteorder("="), order="C", subok=False)
        native.flags.writeable = False
        self.array: Array = native
        self._digest: bytes | None = None

    @property
    def digest(self) -> bytes:
        """A hash of the dtype, shape and bits."""
        if self._digest is None:
            hasher = hashlib.blake2b(
                f"{self.array.dtype}{self.array.shape}".encode(), digest_size=16
            )
            hasher.update(self.array.reshape(-1).view(np.uint8).data)
            self._digest = hasher.digest()
        return self._digest

    def __repr__(self) -> str:
        return f"Payload({self.array.dtype}{list(self.array.shape)})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Payload, (self.array,))


Attribute: TypeAlias = (
    "bool | int | float | str | DType | DimExpr | Payload | tuple[Attribute, ...] | None"
)
Attributes: TypeAlias = Mapping[str, Any]


def key(value: Attribute) -> Hashable:
    """A hashable key; equal exactly when the attributes mean the same."""
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    if isinstance(value, (bool, int, str)) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, tuple):
        return tuple(key(item) for item in value)
    if isinstance(value, Payload):
        return ("payload", value.digest)
    return value


def keys(attributes: Attributes) -> Hashable:
    """The key of all attributes of a node, whatever their order."""
    return tuple((name, key(attributes[name])) for name in sorted(attributes))
