"""Files of variables, byte by byte, and the bits of values."""

from __future__ import annotations

import json
import struct
from typing import Any


def same(left: Any, right: Any) -> None:
    """Asserts that two lists of arrays have the same dtypes, shapes and bits."""
    for one, other in zip(left, right, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert one.tobytes() == other.tobytes()


def header(entries: Any, data: bytes = b"") -> bytes:
    """A file of these entries, which are bytes if they are no JSON, with its data."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data
