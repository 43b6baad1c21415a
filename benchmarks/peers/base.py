"""What a peer provides.

Invariant: converting inputs to the peer's own arrays is never timed; everything after it, from the
first line of a definition on, is what ``build`` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from benchmarks.workloads.base import Array, Arrays


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program ready to be called.

    Attributes:
        call: runs it once, to completion.
        outputs: NumPy arrays to compare with the reference, from what the first call gave.
        reset: puts its state back to the beginning, for programs that have state: training for
            ever on one batch would drive numbers into the slow range of denormals.
        settle: waits until nothing goes on in the background that would disturb what is measured
            next; not timed.
    """

    call: Callable[[], Any]
    outputs: Callable[[Any], list[Array]]
    reset: Callable[[], None] | None = None
    settle: Callable[[], object] | None = None


class Peer(ABC):
    """A library to compare with.

    Attributes:
        threads: how many it may use.
        variant: which way of using the library, where there are several.
    """

    builders: ClassVar[Mapping[str, Callable[[Any, Any, Any], Prepared | None]]]

    def __init__(self, threads: int = 1, variant: str = "") -> None:
        self.threads = threads
        self.variant = variant

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Distribution names and versions."""

    @abstractmethod
    def warm_up(self) -> None:
        """Compiles something trivial, so that first calls measure the workload alone."""

    def native(self, arrays: Arrays) -> Any:
        """Inputs in the form the peer takes them."""
        return arrays

    def native_weights(self, arrays: Arrays) -> Any:
        """Weights in the form the peer's definitions take them."""
        return self.native(arrays)

    def build(self, kind: str, inputs: Any, weights: Any) -> Prepared | None:
        """Defines and compiles; None where the peer has no way to do it."""
        builder = self.builders.get(kind)
        return None if builder is None else builder(self, inputs, weights)


def arrays_of(result: Any) -> list[Array]:
    """The result of a call as NumPy arrays."""
    return [np.asarray(item) for item in (result if isinstance(result, list | tuple) else [result])]


def losses_of(call: Callable[[], Any], count: int) -> Callable[[Any], list[Array]]:
    """The first losses of a training step, the first one given."""
    return lambda first: [np.array([float(first), *(float(call()) for _ in range(count - 1))])]
