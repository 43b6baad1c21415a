"""Numeric constants of modules that make machine code or plans, to be looked at.

Figures that were tuned are fields of the records in ``graphc.base.tuning``, or of ``Blocking``.
What is listed here follows from an algorithm, a format, the processor or the system, or limits what
a compilation may cost; everything else is printed.

    python tests/support/tuning_constants.py
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools import ROOT

ROOMS = (
    "graphc/codegen",
    "graphc/compiling",
    "graphc/kernel",
    "graphc/lower",
    "graphc/plan",
    "graphc/runtime",
    "graphc/session",
    "passes/fusion",
    "passes/graph",
    "passes/kernels",
    "passes/memory",
    "passes/plan",
)
"""Where modules look for what pays."""

FACTS: dict[str, dict[str, str]] = {
    "graphc/codegen/gemm/blocking.py": {
        "_ALIGNMENT": "a cache line",
        "_TILE_ROWS": "part of Blocking: the registers there are",
    },
    "graphc/codegen/gemm/prefetch_plan.py": {"_WORDS": "layout of an entry"},
    "graphc/codegen/kernels/task_range.py": {"ALIGNED": "a multiple of every vector's lanes"},
    "graphc/codegen/llvm/transpose.py": {"_PART_BITS": "what one instruction permutes"},
    "graphc/codegen/llvm/types.py": {"POINTER_ALIGN": "alignment on every target"},
    "graphc/codegen/routines/choosing.py": {"_BLOCK": "form of the routine"},
    "graphc/codegen/routines/counting.py": {
        "_LANES": "form of the routine",
        "_TOGETHER": "form of the routine",
    },
    "graphc/codegen/routines/fourier/checked.py": {"_NONE": "layout of tables"},
    "graphc/codegen/routines/fourier/roots.py": {"_LANES": "form of the routine"},
    "graphc/codegen/routines/histograms.py": {
        "_LANES": "form of the routine",
        "_LONGEST": "range of a count",
        "_TOGETHER": "form of the routine",
    },
    "graphc/codegen/routines/keys.py": {"DIGIT_BITS": "form of the routine"},
    "graphc/codegen/routines/largest.py": {
        "FEW": "lanes of a vector",
        "_TOGETHER": "form of the routine",
    },
    "graphc/codegen/routines/matrices.py": {"_COLUMNS": "form of the routine"},
    "graphc/codegen/routines/network.py": {"ROWS": "form of the network"},
    "graphc/codegen/routines/quick.py": {"_SAMPLE": "form of the routine"},
    "graphc/codegen/routines/radix.py": {"_VALUES": "values of a digit"},
    "graphc/codegen/routines/ranks.py": {"_LANES": "form of the routine"},
    "graphc/codegen/routines/searching.py": {"_TOGETHER": "form of the routine"},
    "graphc/compiling/cached/entries.py": {"_ALIGNMENT": "a cache line"},
    "graphc/compiling/memory_limit.py": {
        "_ATTEMPTS": "limit of a search",
        "_MARGIN": "limit of a search",
        "_ROOM": "limit of a search",
        "_SHOWN": "length of a message",
    },
    "graphc/compiling/tiers.py": {
        "MOST_BASELINE_BYTES": "limit of memory",
        "_LOOK_AGAIN": "limit of a wait",
    },
    "graphc/kernel/analysis/periods.py": {"LONGEST": "vectors that a shuffle takes"},
    "graphc/kernel/builder.py": {"_DEPTH": "limits what bounding an index costs"},
    "graphc/kernel/cascade.py": {"WORDS_OF_EXTREMES": "layout of a state"},
    "graphc/kernel/fused_multiply_add.py": {
        "_LARGEST": "where splitting is exact",
        "_LEAST": "where splitting is exact",
        "_SPLITTER": "Dekker's constant",
    },
    "graphc/kernel/interp.py": {"_VOLUME": "memory of the interpreter"},
    "graphc/kernel/ir.py": {
        "CHUNK": "order of sums, so bits depend on it",
        "LEVELS": "order of sums, so bits depend on it",
    },
    "graphc/kernel/panels.py": {"TILE_VECTORS": "layout of packed matrices"},
    "graphc/kernel/printer.py": {"MAXIMUM_NESTING": "limit of texts"},
    "graphc/kernel/analysis/lane_groups.py": {"MOST": "a multiple at which loops are cut"},
    "graphc/kernel/routines/fourier.py": {"ERROR": "bound of the error"},
    "graphc/kernel/routines/fourier_plan.py": {
        "LOADING": "radices there is code for",
        "ODD_PARTS": "radices there is code for",
        "PARTS": "radices there is code for",
        "STRAIGHT": "radices there is code for",
        "HEAD": "layout of tables",
        "ODD_AT": "layout of tables",
        "PARTS_AT": "layout of tables",
        "PIECE_BITS": "layout of tables",
        "POWER_AT": "layout of tables",
        "RADICES": "layout of tables",
        "VECTOR_BITS": "layout of tables, so bits depend on it",
        "WIDEST": "what tables hold, so bits depend on it",
    },
    "graphc/kernel/routines/complex_matrices.py": {"TOGETHER": "form of the routine"},
    "graphc/kernel/routines/lapack.py": {
        "BLOCK": "workspace that LAPACK is given",
        "TOGETHER": "form of the routine",
    },
    "graphc/kernel/routines/matrices.py": {"LANE_BYTES": "a vector of any target"},
    "graphc/kernel/routines/searching.py": {
        "TABLES": "layout of scratch",
        "TABLE_MARGIN": "layout of scratch",
    },
    "graphc/kernel/routines/sorting.py": {"RADIX": "values of a digit"},
    "graphc/kernel/schedule/row_stages.py": {
        "ASIDE": "what a stage is, so texts of kernels depend on it",
        "MAX_STACK_BYTES": "legality: limit of the stack",
    },
    "graphc/kernel/statements/products.py": {"MAX_NEAR": "limit of the form of a statement"},
    "graphc/lower/contraction.py": {"_UNBOUNDED": "no limit"},
    "graphc/lower/shifted_variance.py": {
        "FEW": "order of sums, so bits depend on it",
        "SHARE": "bound of the error, so bits depend on it",
        "_ROWS": "order of sums, so bits depend on it",
    },
    "graphc/codegen/native/cpuid.py": {"_EXTENDED": "the processor's interface"},
    "graphc/codegen/native/cpython.py": {
        "KIND": "layout of a row",
        "RANK": "layout of a row",
        "SIZE": "layout of a row",
    },
    "graphc/codegen/native/linux.py": {
        "ALL": "the system's interface",
        "CPU_UNKNOWN": "no CPU",
        "_CPUS": "the system's interface",
        "_SET_MASK": "the system's interface",
        "_SIGNAL_BYTES": "the system's interface",
        "_WAIT": "the system's interface",
        "_WAKE": "the system's interface",
    },
    "graphc/codegen/native/plan_walker.py": {"_GROUP_PLACES": "layout of a record"},
    "graphc/codegen/native/python_entry.py": {
        "_DTYPE": "layout of a row",
        "_NUMBER": "layout of a row",
        "_STATUS_BYTES": "layout of a record",
    },
    "graphc/codegen/native/thread_pool.py": {
        "_GROUPS": "bits of a futex",
        "_NO_TASK": "no task",
        "_STATUS_WORDS": "layout of a record",
        "_WORKER_BYTES": "layout of a record",
    },
    "graphc/plan/serialize.py": {"_SHORT": "form of the file"},
    "graphc/runtime/blocks.py": {"MAX_IDLE_BLOCKS": "limit of memory"},
    "graphc/runtime/cache.py": {
        "MAX_BYTES": "limit of the directory",
        "MAX_ENTRY_BYTES": "limit of an entry",
        "_DIGEST_BYTES": "form of an entry",
        "_KEPT_AFTER_TRIM": "limit of the directory",
        "_MOST_LINKS": "limit of what is followed",
        "_SCAN_EVERY_BYTES": "limit of the directory",
        "_SCAN_EVERY_SECONDS": "limit of the directory",
        "_STALE_SECONDS": "limit of the directory",
        "_TOUCH_AFTER_SECONDS": "limit of the directory",
    },
    "graphc/runtime/entry.py": {
        "_EMPTY": "the interface of NumPy",
        "_FASTCALL_WITH_KEYWORDS": "the interface of CPython",
    },
    "graphc/runtime/interrupt.py": {
        "_IGNORED": "the system's interface",
        "_STRUCT_BYTES": "the system's interface",
    },
    "graphc/runtime/jit.py": {
        "_LIBRARIES": "limit of memory",
        "_OPTIMIZE": "a level of LLVM",
        "_TRANSLATE": "a level of LLVM",
    },
    "graphc/runtime/program.py": {
        "LONG_PROGRAM": "what can be interrupted",
        "MAX_BINDINGS": "limit of memory",
        "MAX_IDLE_BYTES": "limit of memory",
        "RECENT_BINDINGS": "limit of a search",
    },
    "graphc/session/call_cache.py": {
        "MAX_FEEDINGS": "limit of memory",
        "MAX_ITEMS": "limit of memory",
        "MAX_QUESTIONS": "limit of memory",
    },
    "graphc/session/loader.py": {"_LOOK_AGAIN": "limit of a wait"},
    "graphc/session/many_runs.py": {"_MOST": "limit of memory", "_SECONDS": "limit of a wait"},
    "graphc/session/training_log.py": {"_SECONDS": "what people can read"},
    "graphc/session/variable_files.py": {"_LISTED": "length of a message"},
    "graphc/session/variable_store.py": {"_PATIENCE": "limit of a wait"},
    "passes/graph/fold.py": {"SMALL_BYTES": "limit of a program's constants"},
    "passes/graph/matmul_chains.py": {"LONGEST": "cost of a search: cubic"},
    "passes/graph/order_variable_updates.py": {"_GATE": "mark of a node"},
    "passes/memory/arena.py": {
        "EFFORT_PER_BYTE": "cost of a search",
        "LARGEST": "range of addresses",
        "SCALES": "sizes for which a plan is judged",
    },
    "passes/memory/fit.py": {"_UNBOUNDED": "no limit"},
    "passes/memory/orders.py": {"MAX_BLOCKS": "cost of a search"},
    "passes/memory/planner.py": {
        "ORDER_EFFORT": "cost of a search",
        "QUICK_EFFORT": "cost of a search",
        "_PAIR_LIMIT": "cost of a search",
        "_SEARCH_LIMIT": "cost of a search",
    },
    "passes/memory/search.py": {
        "_CANDIDATES_PER_STATE": "cost of a search",
        "_FINALISTS_PER_STATE": "cost of a search",
        "_ROUNDS": "form of a search",
        "_SEED": "form of a search",
    },
    "passes/plan/slot_flow.py": {
        "PART": "mark of an access",
        "READ": "mark of an access",
        "WRITE": "mark of an access",
    },
}
"""Why a constant is none that was tuned."""

ELSEWHERE = ("graphc/codegen/math/", "graphc/plan/abi.py")
"""Coefficients of functions, and the native layout of plans: nothing else."""


def numeric_constants(path: Path) -> Iterator[str]:
    """The names that a module gives numbers, or tuples and dicts of numbers."""
    for statement in ast.parse(path.read_text("utf-8")).body:
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        elif isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        else:
            continue
        if not _is_numeric(value):
            continue
        for target in targets:
            for name in target.elts if isinstance(target, ast.Tuple) else (target,):
                if isinstance(name, ast.Name):
                    yield name.id


def _is_numeric(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float)
    if isinstance(value, ast.UnaryOp):
        return _is_numeric(value.operand)
    if isinstance(value, ast.BinOp):
        sides = value.left, value.right
        is_arithmetic = not isinstance(value.op, ast.BitOr) or all(map(_is_numeric, sides))
        is_known = all(_is_numeric(side) or isinstance(side, ast.Name) for side in sides)
        return is_arithmetic and is_known
    if isinstance(value, (ast.Tuple, ast.List)):
        return bool(value.elts) and all(map(_is_numeric, value.elts))
    if isinstance(value, ast.Dict):
        return bool(value.values) and all(map(_is_numeric, value.values))
    return False


def found() -> dict[str, set[str]]:
    """The numeric constants of each module of the rooms."""
    result: dict[str, set[str]] = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            names = set(numeric_constants(path))
            if names and not name.startswith(ELSEWHERE):
                result[name] = names
    return result


def unexplained() -> list[str]:
    """Constants that may have been tuned, as module and name."""
    return [
        f"{module} {name}"
        for module, names in found().items()
        for name in sorted(names - FACTS.get(module, {}).keys())
    ]


if __name__ == "__main__":
    print("\n".join(unexplained()) or "none")
