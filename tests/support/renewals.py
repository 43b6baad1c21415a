"""Variables that are written where they lie: where that is, and whether a program does it."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gx
from graphc.runtime.address import address_of
from graphc.session.executable import Executable


def data(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """float32 numbers of a normal distribution."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def addresses(session: gx.Session, *variables: Any) -> list[int]:
    """Where the values of variables lie now."""
    return [address_of(array) for array in session._holdings.read(variables)]


def commit_of(executable: Executable) -> int | None:
    """The step from which on a run can no longer fail, if it writes in place."""
    return executable.compiled.plan.commit
