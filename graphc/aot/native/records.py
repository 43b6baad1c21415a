"""What the native run time has in memory: a program, which is constant, and its contexts.

A program is the tables of ``graphc.plan.tables`` and ``graphc.aot.tables`` with their counts. A
context is one block: this record, then all that the record points to, then the blocks of variables.
Whatever is an address here points into one of these, to the weights, or to memory of the caller.
"""

from __future__ import annotations

from graphc.aot.tables import SLOT_FIELDS, LibraryTables
from graphc.base.target import CACHE_LINE
from graphc.codegen.llvm.routine import RecordLayout
from graphc.codegen.llvm.types import I64, PTR
from graphc.plan.abi import CUT_FIELDS, GROUP_FIELDS, IDLE_FIELDS, STEP_FIELDS, STEP_WORDS

(
    OK, BAD_ARGUMENT, BAD_DIMS, BAD_INDEX, NO_MEMORY, BAD_CPU, BAD_WEIGHTS, NO_WORKSPACE,
    BAD_MATRIX,
) = range(9)  # fmt: skip
"""What functions of a library give."""

STATUS_TEXTS = (
    "success",
    "an argument is missing or out of range",
    "a dim has a size that the program does not allow",
    "an index is out of range",
    "there is not enough memory",
    "this processor lacks instructions that the library needs",
    "the file of weights is missing or not the library's",
    "the workspace is too small",
    "a matrix is singular, or not positive definite",
)

ALIGNMENT = CACHE_LINE
"""Of contexts, workspaces and weights, in bytes."""

MESSAGE_BYTES = 1024
"""Room for the text of an error."""

STATUS_WORDS = 4
"""What a kernel that fails fills in: code, site, index, size."""

_COUNTS = (
    "symbols", "sizes", "slots", "steps", "entries", "cells", "buffers", "roots", "variables",
    "guards", "cuts", "groups", "idle", "inputs", "outputs", "commit",
)  # fmt: skip

_TABLES = (
    "evaluate", "kernels", "bounds_at", "symbol_messages_at", "slots_at", "entries_at", "cells_at",
    "steps_at", "idle_at", "idle_sizes_at", "buffers_at", "copies_at", "roots_at", "alignments_at",
    "order_at", "starts_at", "below_at", "guards_at", "shown_at", "cuts_at", "groups_at",
    "works_at", "group_bounds_at", "sites_at", "messages_at", "of_matrices_at", "constants_at",
    "input_bytes_at", "output_bytes_at", "variables_at", "shapes_at",
)  # fmt: skip

PROGRAM = RecordLayout(
    "program", dict.fromkeys(_COUNTS, I64) | dict.fromkeys(_TABLES, PTR)
)
"""A program: how much there is of everything; then what computes the sizes, the table of kernels'
addresses, and the tables."""

VARIABLE_FIELDS = 4
"""int64s of a row of ``variables_at``: where its initial value lies in the weights, its bytes,
where its block lies in the context, and where the block for its new value does: 0 where no run
writes it, the same block where runs write it in place."""

_AREAS = {
    "symbols": "symbols", "sizes": "sizes", "extents": "buffers", "offsets": "buffers",
    "steps": "steps", "addresses": "slots", "pointers": "entries", "cells": "cells",
    "current": "variables", "spare": "variables",
}  # fmt: skip

CONTEXT = RecordLayout(
    "context",
    {"program": PTR, "memory": PTR, "weights": PTR, "mapped": I64, "threads": I64, "bound": I64,
     "peak": I64, "message": PTR, "status": PTR}
    | {f"{area}_at": PTR for area in _AREAS},
)  # fmt: skip
"""A context: its program, what is to be freed, the weights and how many bytes of them it has
mapped, the threads that may run a kernel, whether its sizes are known, the arena's bytes, the text
of the last error, what a failing kernel fills in; then its areas."""

WORD = 8
"""Bytes that an entry of an area takes; where addresses are shorter, some stay unused."""

HEAD_BYTES = WORD * len(CONTEXT.fields)


def areas() -> dict[str, str]:
    """The areas of a context, in order, each with the count of the program that gives its size."""
    return dict(_AREAS)


def counts_of(tables: LibraryTables, inputs: int, outputs: int, variables: int) -> dict[str, int]:
    """The counts of a program."""
    plan = tables.plan
    return {
        "symbols": len(plan.symbols),
        "sizes": len(plan.dims),
        "slots": len(tables.slots) // SLOT_FIELDS,
        "steps": len(plan.steps) // STEP_FIELDS,
        "entries": len(plan.entries),
        "cells": len(plan.cells),
        "buffers": len(plan.buffers),
        "roots": len(tables.order),
        "variables": variables,
        "guards": plan.checked,
        "cuts": len(plan.cuts) // CUT_FIELDS,
        "groups": len(plan.groups) // GROUP_FIELDS,
        "idle": len(plan.idle) // IDLE_FIELDS,
        "inputs": inputs,
        "outputs": outputs,
        "commit": tables.commit,
    }


def words_of(area: str) -> int:
    """The words that an entry of an area takes."""
    return STEP_WORDS if area == "steps" else 1


def areas_bytes(counts: dict[str, int]) -> int:
    """The bytes of a context up to the blocks of its variables."""
    words = sum(words_of(area) * counts[count] for area, count in _AREAS.items())
    size = HEAD_BYTES + MESSAGE_BYTES + WORD * (STATUS_WORDS + words)
    return aligned(size)


def aligned(size: int) -> int:
    """The next multiple of ``ALIGNMENT``."""
    return -(-size // ALIGNMENT) * ALIGNMENT
