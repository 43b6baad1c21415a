"""The machine code of a plan, loaded: its kernels, and the loop over steps with the thread pool.

Invariant: nothing here loads LLVM; the code of an exported library was made by it long before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from graphc.plan.abi import WALKER, WORKER

if TYPE_CHECKING:
    from graphc.runtime.jit import Library


class Glue(NamedTuple):
    """Addresses of code that knows of no plan; sessions compile theirs when they first need it.

    Attributes:
        handler: of the handler of Ctrl-C, ``void (i32)``.
        flag: of the int32 that it sets.
        entry: of the native entry, see ``graphc.codegen.native.python_entry``.
        imports: of the table that the entry reads addresses from.
    """

    handler: int
    flag: int
    entry: int
    imports: int


class Code(NamedTuple):
    """Machine code of a plan.

    Attributes:
        kept: what must stay loaded.
        entries: address of each of ``plan.kernels``.
        walker: address of the native loop over the steps.
        worker: address of what threads of the pool run, which stands beside it.
        loop: what keeps these two loaded.
        glue: what came along with it; None where it is compiled on demand.
    """

    kept: tuple[object, ...]
    entries: tuple[int, ...]
    walker: int
    worker: int
    loop: object
    glue: Glue | None = None

    @classmethod
    def of(cls, libraries: Sequence[Library], symbols: Sequence[str]) -> Code:
        """The code of kernels, given by their symbols, and of what they call.

        The first library has the loop over steps.
        """
        loop = libraries[0]
        addresses = {name: at for library in libraries for name, at in library.addresses.items()}
        entries = tuple(addresses[symbol] for symbol in symbols)
        return cls(tuple(libraries), entries, loop.addresses[WALKER], loop.addresses[WORKER], loop)


__all__ = ["Code", "Glue"]
