"""What a library gives ``graphc.aot.load``: the numbers that its function ``NAME_internal`` takes.

Invariant: whoever changes one of these, or what stands at an address they give (the records of
``graphc.plan.abi`` among it), raises ``FORMAT_VERSION`` in ``graphc.aot.artifact``.
"""

from __future__ import annotations

(
    DIGEST, PROGRAM, KERNELS, WALKER_AT, WORKER_AT, WEIGHTS, HANDLER_AT, FLAG_AT, ENTRY_AT,
    IMPORTS_AT,
) = range(10)  # fmt: skip
"""Of each an address: the SHA-256 of what the library was written for; one more than the place of
the program that this processor runs (an integer, null for none); the table of its kernels'
addresses; the loop over steps and what threads of the pool run; the embedded weights; the handler
of Ctrl-C and the flag it sets; the native entry and its table of imports. What a library lacks is
null."""

DIGEST_BYTES = 32
"""Of a SHA-256."""
