"""What a workload is, and what graphc wants to reach on it.

Invariant: inputs depend on the workload's name and sizes alone, so that every process makes the
same ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Array]

BEST = "the best peer"
NEAR_LIMIT = 0.9
"""This share of the physical limit reaches any goal."""

FUNCTION_FLOPS = 20
"""What exp, log, tanh or sqrt count: about a polynomial of ten multiply-adds."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What graphc wants to reach: its time is at most ``share`` of the time of ``peer``.

    ``peer`` is a peer's name, or ``BEST``: whichever is fastest in the run.
    """

    share: float
    peer: str = BEST

    def __str__(self) -> str:
        return f"≤ {self.share:g} of {self.peer}"


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing to compute.

    Attributes:
        name: what ``--only`` matches.
        kind: which of a peer's builders makes it; several workloads may share one.
        what: a phrase for the table.
        make: inputs from a random generator.
        reference: the results in float64, from inputs widened to float64.
        weights: the inputs that stay the same for the life of a program.
        flops: arithmetic of one call; a multiply-add counts 2, a function ``FUNCTION_FLOPS``.
        bytes: the least that one call must move: each input read once, each result written once.
        reads: almost nothing is written.
        double: the arithmetic is in float64.
        relative, absolute: what a result may differ by: absolute + relative·|reference|.
        timed: "call": calls of the ready program; "first": from the first line of the definition
            to the first result, made anew each time.
        goals: what graphc wants to reach, all of it.
    """

    name: str
    kind: str
    what: str
    make: Callable[[np.random.Generator], Arrays]
    reference: Callable[[Arrays], tuple[Array, ...]]
    weights: frozenset[str] = frozenset()
    flops: float = 0.0
    bytes: float = 0.0
    reads: bool = False
    double: bool = False
    relative: float = 1e-4
    absolute: float = 1e-5
    timed: Literal["call", "first"] = "call"
    goals: tuple[Goal, ...] = ()

    def inputs(self) -> Arrays:
        """The inputs, the same in every process."""
        return self.make(np.random.default_rng(zlib.crc32(self.name.encode())))

    def expected(self) -> tuple[Array, ...]:
        """The results in float64."""
        widened = {
            name: array.astype(np.float64) if array.dtype.kind == "f" else array
            for name, array in self.inputs().items()
        }
        return self.reference(widened)

    def without_goals(self) -> Workload:
        """The same with nothing to reach: for tiny sizes."""
        return replace(self, goals=())


def normal(random: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """Normally distributed float32 numbers."""
    numbers: Array = random.standard_normal(shape, dtype=np.float32) * np.float32(scale)
    return numbers


def softmax(x: Array) -> Array:
    """Of the last axis."""
    powers: Array = np.exp(x - x.max(-1, keepdims=True))
    powers /= powers.sum(-1, keepdims=True)
    return powers


EPSILON = 1e-5


def layer_norm(x: Array, gain: Array, bias: Array) -> Array:
    """Of the last axis."""
    deviation = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    result: Array = (x - x.mean(-1, keepdims=True)) / deviation * gain + bias
    return result


GELU_FACTOR, GELU_CUBE = 0.7978845608028654, 0.044715


def gelu(x: Array) -> Array:
    """The form with tanh."""
    result: Array = 0.5 * x * (1 + np.tanh(GELU_FACTOR * (x + GELU_CUBE * x**3)))
    return result
