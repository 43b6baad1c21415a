"""Every float32 there is, through every function of one argument, against float64.

    python tests/support/ulp_sweep.py                      # all functions: most of an hour
    python tests/support/ulp_sweep.py exp tanh_approx      # some
    python tests/support/ulp_sweep.py --step 4097 --processes 1

Prints for each function the greatest error with and without fused multiply-add, where it is, and
the documented bound. The exit status is 1 if a bound is exceeded. On a terminal it says how far it
is.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from vector_math_harness import (
    APPROXIMATE,
    Array,
    function_errors,
    functions,
    targets,
    wide_reference,
)

from graphc.checking.levels.loops import FUNCTIONS, Loops
from graphc.codegen.math.common import MAX_ULP
from graphc.ir.dtypes import float32

LANES = 16
TARGETS = ("host", "host-without-fma")
"""With FMA and without; the oldest level of x86-64 gives the bits of the latter."""

PATTERNS = 1 << 32
BLOCK = 1 << 24
"""Patterns that a process takes at a time."""
CHUNK = 1 << 15
"""Arguments that are looked at together: what is computed of them stays in the second cache."""

UNARY = tuple(name for name in FUNCTIONS if name != "power")


class Worst(NamedTuple):
    """The greatest error of a function on a target, and its argument as a pattern."""

    error: float
    pattern: int


def errors_of(name: str, got: Array, wide: Array) -> Array:
    """``function_errors``, quickly where nothing is special."""
    words = wide.view(np.int64)
    exponents = np.maximum((words >> 52) & 0x7FF, 1023 - 126)
    # of 2^(e - 23), the distance of float32 numbers there, the reciprocal
    scale = ((2 * 1023 + 23 - exponents) << 52).view(np.float64)
    with np.errstate(all="ignore"):
        value = got.astype(np.float64)
        errors = np.abs(value - wide) * scale
    if not np.isfinite(errors).all():
        errors[(value == wide) | (np.isnan(value) & np.isnan(wide))] = 0.0
    if name.endswith(APPROXIMATE):
        # they may give 0 for denormal numbers
        errors[(got == 0) & (np.abs(wide) < np.finfo(np.float32).smallest_normal)] = 0.0
    signs = ((got.view(np.int32) < 0) != (words < 0)) & (value == value)
    special = ~(errors <= MAX_ULP[name]["float32"]) | signs
    if special.any():
        at = np.flatnonzero(special)
        errors[at] = function_errors(name, got[at], wide[at])
    return errors


@cache
def _loops(target: str) -> Loops:
    return functions(targets()[target], float32, [LANES])


def worst_of(names: Sequence[str], start: int, stop: int, step: int) -> dict[str, Worst]:
    """For functions of one exact meaning the worst of every ``step``-th pattern, by function and
    target."""
    found: dict[str, Worst] = {}
    for first in range(start, stop, CHUNK * step):
        words = np.arange(first, min(first + CHUNK * step, stop), step, dtype=np.uint64)
        missing = -len(words) % LANES
        words = np.concatenate([words, np.repeat(words[-1:], missing)]).astype(np.uint32)
        x: Array = words.view(np.float32)
        wide = wide_reference(names[0], x)
        for name in names:
            for target in TARGETS:
                got = _loops(target)(f"loop_{name}_float32_{LANES}", x)
                errors = errors_of(name, got, wide)
                at = int(np.argmax(errors))
                key = f"{name} {target}"
                if key not in found or errors[at] > found[key].error:
                    found[key] = Worst(float(errors[at]), int(words[at]))
    return found


def _task(task: tuple[Sequence[str], int, int, int]) -> dict[str, Worst]:
    return worst_of(*task)


def families(names: Sequence[str]) -> list[list[str]]:
    """Functions together with their approximations: what they should give is worked out once."""
    ordered = sorted(names, key=lambda name: (UNARY.index(name.removesuffix(APPROXIMATE)), name))
    return [list(group) for _, group in groupby(ordered, lambda n: n.removesuffix(APPROXIMATE))]


def _blocks(names: Sequence[str], step: int) -> Iterator[tuple[Sequence[str], int, int, int]]:
    size = BLOCK * max(1, min(step, 16))
    for start in range(0, PATTERNS, size):
        first = -(-start // step) * step
        stop = min(start + size, PATTERNS)
        if first < stop:
            yield names, first, stop, step


def sweep(names: Sequence[str], step: int, processes: int) -> bool:
    """Prints a line for each function and target; whether all bounds hold."""
    holds = True
    print(f"{'function':14} {'target':16} {'ulp':>8} {'bound':>6}  at")
    with get_context("spawn").Pool(processes) as pool:
        for family in families(names):
            blocks = list(_blocks(family, step))
            begun = time.monotonic()
            worst: dict[str, Worst] = {}
            for number, found in enumerate(pool.imap_unordered(_task, blocks), 1):
                for key, value in found.items():
                    worst[key] = max(worst.get(key, value), value)
                if sys.stderr.isatty():
                    spent = time.monotonic() - begun
                    left = spent / number * (len(blocks) - number)
                    text = f"{family[0]}: {number / len(blocks):4.0%}, {left:.0f} s left"
                    print(f"\r{text:40}", end="", file=sys.stderr, flush=True)
            if sys.stderr.isatty():
                print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)
            for key in sorted(worst):
                name, target = key.split()
                error, pattern = worst[key]
                bound = MAX_ULP[name]["float32"]
                place = np.uint32(pattern).view(np.float32)
                line = f"{name:14} {target:16} {error:8.4f} {bound:6.2f}  {place!r}"
                print(line if error <= bound else f"{line} EXCEEDED", flush=True)
                holds = holds and error <= bound
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="functions; all if left out")
    parser.add_argument("--step", type=int, default=1, help="look at every so many-th float only")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in UNARY]
    if unknown:
        parser.error(f"no function of one argument is called {unknown[0]!r}; there are {UNARY}")
    return 0 if sweep(chosen.names or UNARY, chosen.step, chosen.processes) else 1


if __name__ == "__main__":
    sys.exit(main())
