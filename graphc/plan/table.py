"""The native form of a plan's steps, shared by who writes the table and the code that walks it.

A step is ``STEP_WORDS`` int64s: kind, function address, first entry in the pointer table, first
entry in the dims table, target, unused.
"""

from __future__ import annotations

LAUNCH, BRANCH, JUMP, COPY, SKIP = range(5)
"""Kinds of steps."""

STEP_WORDS = 6
"""int64s a step takes."""

WALKER = "graphc_walk"
"""The symbol of the native loop over the table."""

INDEX_ERROR = 1
"""Status code of a kernel: an index is out of range."""


def kernel_symbols(count: int) -> tuple[str, ...]:
    """The functions of a program with so many kernels, in their order."""
    return tuple(f"kernel_{number}" for number in range(count))

TABLE_WORDS, INPUT_WORDS, OUTPUT_WORDS = 6, 6, 5
"""int64s of the table of a native entry: of its head, and of each input and each result."""

FRAME_WALKER, FRAME_RELEASES, FRAME_WORDS = 0, 6, 7
"""Of a frame's record: the loop over steps, followed by its arguments up to the status; whether the
interpreter lock is released while it runs; how many int64s there are."""
