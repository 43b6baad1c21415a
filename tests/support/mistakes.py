"""Mistakes of users: the error that a call raises, and what it says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphc as gx


def raised(kind: type[gx.GraphcError], call: Any) -> gx.GraphcError:
    """The error that a call raises, which names a line of the caller's file and fits a screen."""
    here = sys._getframe(1).f_code.co_filename
    with pytest.raises(kind) as caught:
        call()
    where = caught.value.where
    assert where is not None and Path(where.filename).name == Path(here).name
    text = str(caught.value)
    assert len(text.splitlines()) <= 8 and max(map(len, text.splitlines())) < 250, text
    return caught.value


def hint_of(error: gx.GraphcError) -> str:
    """What an error advises, where it advises anything."""
    assert error.hint is not None
    return error.hint


def refuses(call: Callable[[], Any], text: str, kind: type[gx.GraphcError] = gx.ShapeError) -> None:
    """The call raises, and says where in the caller's file."""
    here = sys._getframe(1).f_code.co_filename
    with pytest.raises(kind, match=text) as caught:
        call()
    where = caught.value.where
    assert where is not None and Path(where.filename).name == Path(here).name
