"""Attributes of nodes: plain immutable data, with a key under which equal means equal.

Python's own equality is too coarse for a compiler: 0.0 == -0.0, 1 == True, NaN != NaN. ``key``
tells the first two apart and makes bit-equal NaNs agree.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from graphc.ir.dims.expressions import DimExpr, ReadDim, Sources, as_dim, together
from graphc.ir.dtypes import DType, dtype
from graphc.ir.types import TensorType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


_CHUNK = 1 << 20
"""Bytes that are copied at once to be hashed or compared."""


@lru_cache(maxsize=1024)
def _type_of(element: np.dtype[Any], shape: tuple[int, ...]) -> TensorType:
    """One object for all arrays of a type: many tables go by the identity of types."""
    return TensorType(dtype(element), shape)


class Payload:
    """The array of a constant: read-only, C-contiguous, native byte order, hashed once.

    Equal to another one of the same dtype, shape and bits.

    Attributes:
        type: its dtype and shape, for which the array need not be there.
    """

    __slots__ = ("_again", "_array", "_digest", "_hash", "_is_copy", "type")

    def __init__(self, array: Array) -> None:
        """Copies unless the array already is what a payload may hold.

        Raises:
            DTypeError: for a dtype that graphc has not.
        """
        self.type = type_ = _type_of(array.dtype, array.shape)
        element = type_.dtype.numpy
        flags = array.flags
        self._is_copy = (
            flags.writeable
            or not flags.c_contiguous
            or array.base is not None
            or element is not array.dtype
        )
        if self._is_copy:
            # copy and setflags take half the time of astype and an assignment to flags
            is_plain = element is array.dtype and type(array) is np.ndarray
            array = array.copy() if is_plain else array.astype(element, "C", "unsafe", False)
            array.setflags(write=False)
        self._array: Array | None = array
        self._again: Callable[[], Array] | None = None
        self._digest: bytes | None = None
        self._hash: int | None = None

    @property
    def array(self) -> Array:
        """The array; one that was given up is made again, and kept."""
        array = self._array
        if array is None:
            assert self._again is not None, "what is given up can be made again"
            array = self._again()
            array.flags.writeable = False
            self._array = array
        return array

    def give_up(self, again: Callable[[], Array]) -> None:
        """Frees the memory of the array if it is a copy that was made here.

        ``again`` gives a fresh array of the same dtype, shape and bits; what it needs for that is
        kept alive. It may be called by several threads.
        """
        if self._is_copy:
            self._again = again
            self._array = None

    def __hash__(self) -> int:
        if self._hash is None:
            array = self.array
            if array.nbytes <= _CHUNK:
                bits = hash(array.tobytes())
            else:
                flat = self._flat()
                starts = range(0, flat.size, _CHUNK)
                bits = hash(tuple(hash(flat[n : n + _CHUNK].tobytes()) for n in starts))
            self._hash = hash((array.dtype.char, array.shape, bits))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Payload):
            return NotImplemented
        if self is other:
            return True
        if hash(self) != hash(other) or self.type != other.type:
            return False
        a, b = self.array, other.array
        # most are a single element, for which NumPy's comparison takes ten times as long
        if a.nbytes <= _CHUNK:
            return a.tobytes() == b.tobytes()
        return np.array_equal(self._flat(), other._flat())

    def _flat(self) -> Array:
        return self.array.reshape(-1).view(np.uint8)

    @property
    def digest(self) -> bytes:
        """A hash of the dtype, shape and bits, the same in every process."""
        if self._digest is None:
            # SHA-256, since it takes half the time of BLAKE2 where the CPU has instructions for it
            hasher = hashlib.sha256(f"{self.array.dtype.str}{self.array.shape}".encode())
            hasher.update(self._flat().data)
            self._digest = hasher.digest()[:16]
        return self._digest

    def __repr__(self) -> str:
        return f"Payload({self.type})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Payload, (self.array,))


Attribute: TypeAlias = (
    "bool | int | float | str | DType | DimExpr | Payload | tuple[Attribute, ...] | None"
)
Attributes: TypeAlias = Mapping[str, Any]


class SharedAttributes(dict[str, Any]):
    """Attributes that are made once and given to many nodes.

    What follows from them is worked out once, since they are known by their identity.

    Attributes:
        key: what ``keys`` gives of them.
    """

    __slots__ = ("key",)

    def __init__(self, **attributes: Any) -> None:
        super().__init__(attributes)
        self.key = _keys(attributes)


_MAY_HOLD_READ = frozenset({ReadDim, tuple})


def bare(attributes: Attributes) -> tuple[Attributes, Sources]:
    """The attributes with bare dims, and the values that their dims were read off."""
    for value in attributes.values():
        kind = type(value)
        if kind is tuple:
            if not _MAY_HOLD_READ.isdisjoint(map(type, value)) and _holds_read(value):
                break
        elif kind is ReadDim:
            break
    else:
        return attributes, ()
    read: list[DimExpr] = []

    def plain(value: Any) -> Any:
        if type(value) is ReadDim:
            read.append(value)
            return as_dim(value)
        return tuple(map(plain, value)) if type(value) is tuple else value

    made = {name: plain(value) for name, value in attributes.items()}
    return made, together(read)


def _holds_read(items: tuple[Any, ...]) -> bool:
    """Whether a dim that was read off a value is among the items, or in tuples of these."""
    return any(
        type(item) is ReadDim or (type(item) is tuple and _holds_read(item)) for item in items
    )


def key(value: Attribute) -> Hashable:
    """A hashable key; equal exactly when the attributes mean the same."""
    kind = type(value)
    if kind is int or kind is Payload:
        return value
    if kind is bool or value is None or isinstance(value, (int, str)):
        return (kind, value)
    if isinstance(value, tuple):
        return tuple([key(item) for item in value])
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    return value


def keys(attributes: Attributes) -> Hashable:
    """The key of all attributes of a node, whatever their order."""
    return attributes.key if type(attributes) is SharedAttributes else _keys(attributes)


def _keys(attributes: Attributes) -> Hashable:
    if len(attributes) > 1:
        return tuple([(name, key(attributes[name])) for name in sorted(attributes)])
    for name, value in attributes.items():
        return name, key(value)
    return ()
