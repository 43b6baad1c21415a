"""``graphc bench``: how long a call of a library takes."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphc.base.errors import GraphError
from graphc.cli.command import LIBRARY, THREADS, Command, argument

if TYPE_CHECKING:
    from graphc.aot.loader import LoadedProgram

_BATCH_SECONDS = 0.001
"""Calls are timed in batches of about this long, so that the clock itself doesn't count."""


def _bench(options: argparse.Namespace) -> int:
    from graphc.aot.loader import load_library

    if not 0 < options.seconds < 86_400:
        raise GraphError(f"--seconds {options.seconds} is no time to measure for")
    program = load_library(options.library, options.threads)
    planned = program.signature.programs[0].sizes
    sizes = {
        name: min(max(planned.get(name, least), least), greatest)
        for name, least, greatest in program.signature.dims
    } | _sizes(options.dim, program)
    arrays = _random_arguments(program, sizes)
    times, calls = _times(program, arrays, options.seconds)
    shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
    print(f"{program.signature.name}{f' at {shown}' if shown else ''}")
    print(f"median {_duration(statistics.median(times))}, least {_duration(min(times))} a call")
    print(f"{len(times)} measurements of {calls} calls")
    return 0


def _sizes(given: Sequence[str], program: LoadedProgram) -> dict[str, int]:
    bounds = {name: (least, most) for name, least, most in program.signature.dims}
    sizes: dict[str, int] = {}
    for text in given:
        name, _, size = text.partition("=")
        if name not in bounds:
            raise GraphError(
                f"--dim {text!r} names no symbolic dim",
                hint=f"NAME=SIZE; the dims are {', '.join(bounds) or 'none'}",
            )
        least, most = bounds[name]
        if not (size.isascii() and size.isdigit() and least <= int(size[:20]) <= most):
            raise GraphError(f"--dim {text!r} is no size from {least} to {most}")
        sizes[name] = int(size)
    return sizes


def _random_arguments(program: LoadedProgram, sizes: Mapping[str, int]) -> list[Any]:
    """Arrays for the arguments that are needed; None for the others."""
    import numpy as np

    from graphc.ir.dims.expressions import evaluate

    random = np.random.default_rng(0)
    plan = program.program.plan
    arrays: list[Any] = []
    for info in program.signature.arguments:
        if info.read is None:
            arrays.append(None)
            continue
        type_ = plan.slots[plan.feeds[info.read]].type
        shape = tuple(evaluate(dim, sizes) for dim in type_.shape)
        if type_.dtype.is_float:
            array = random.standard_normal(shape).astype(type_.dtype.numpy)
        else:
            array = random.integers(0, 2, shape).astype(type_.dtype.numpy)
        arrays.append(array)
    return arrays


def _times(
    program: LoadedProgram, arrays: Sequence[Any], seconds: float
) -> tuple[list[float], int]:
    """Seconds a call in each measurement, and how many calls one is of."""
    clock, count = time.perf_counter, 1
    times: list[float] = []
    for _ in range(3):
        program(*arrays)
    call = program.__call__
    while True:
        started = clock()
        for _ in range(count):
            call(*arrays)
        spent = clock() - started
        if spent >= _BATCH_SECONDS or count >= 1 << 20:
            break
        count *= 2
    end = clock() + seconds
    while clock() < end or not times:
        started = clock()
        for _ in range(count):
            call(*arrays)
        times.append((clock() - started) / count)
    return times, count


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


COMMAND = Command(
    "bench",
    "time the calls of a library",
    "Calls a library with random arrays for some seconds and says what a call takes. Integers are "
    "0 or 1, so that they serve as indices.",
    (
        LIBRARY,
        argument(
            "--dim",
            metavar="NAME=SIZE",
            action="append",
            default=[],
            help="the size of a symbolic dim; by default that which memory was planned for, within "
            "its bounds",
        ),
        THREADS,
        argument("--seconds", type=float, default=1.0, metavar="S", help="1 if left out"),
    ),
    _bench,
)
