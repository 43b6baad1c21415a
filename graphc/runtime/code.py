"""The machine code of a plan, loaded: its kernels, and the loop over steps with the thread pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.plan.table import WALKER, WORKER
from graphc.runtime.jit import Library


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code of a plan.

    Attributes:
        libraries: what must stay loaded.
        entries: address of each of ``plan.kernels``.
        walker: address of the native loop over the steps.
        worker: address of what threads of the pool run, which stands beside it.
        loop: the library of these two.
    """

    libraries: tuple[Library, ...]
    entries: tuple[int, ...]
    walker: int
    worker: int
    loop: Library

    @classmethod
    def of(cls, libraries: Sequence[Library], symbols: Sequence[str]) -> Code:
        """The code of kernels, given by their symbols, and of what they call.

        The first library has the loop over steps.
        """
        loop = libraries[0]
        addresses = {name: at for library in libraries for name, at in library.addresses.items()}
        entries = tuple(addresses[symbol] for symbol in symbols)
        return cls(tuple(libraries), entries, loop.addresses[WALKER], loop.addresses[WORKER], loop)


__all__ = ["Code"]
