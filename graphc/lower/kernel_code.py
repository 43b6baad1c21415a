"""Kernels as keys: those of one code and the same lines are one kernel of a plan."""

from __future__ import annotations

from graphc.kernel.ir import Kernel, walk
from graphc.kernel.printer import kernel_key


class KernelCode:
    """A kernel as the key of its code and lines; its text is made only if another is much like it.

    Most kernels of a program differ in their buffers or in what they compute.
    """

    __slots__ = ("_hash", "_kernel", "_text")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._text: str | None = None
        buffers = tuple([(buffer.role, buffer.type.shape) for buffer in kernel.buffers])
        work = tuple([statement.signature for statement in walk(kernel.body)])
        self._hash = hash((buffers, work))

    @property
    def text(self) -> str:
        """What the code depends on."""
        if self._text is None:
            self._text = kernel_key(self._kernel)
        return self._text

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, KernelCode)
            and self._hash == other._hash
            and self._kernel.sites == other._kernel.sites
            and self.text == other.text
        )


__all__ = ["KernelCode"]
