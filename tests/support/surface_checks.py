"""What is held of a random program of ``surface_programs``.

Each step is compared with NumPy's over the operands that graphc itself had, so that differences
don't add up: with NumPy's function of that name, or where it has none with what the recorded
operations mean in NumPy. Where two libraries round differently, graphc may be as far from the
result in wider numbers as NumPy's own is, some times over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bits import same_bits
from fuzz_checks import everything_is_shared
from libraries import library_of
from steadiness import evaluated_wide, wide
from surface_programs import Array, Program, Step, built, by_numpy, draw, flat

import graphc as gx
from graphc.base.errors import CheckError, LinAlgError
from graphc.checking.interpreter import evaluate
from graphc.compiling.extraction import extract
from graphc.ir.dtypes import NARROW_FLOATS, dtype
from graphc.ir.graph import Graph
from graphc.ir.lowering import Native
from graphc.kernel.routines.lapack import LAPACK

_ULPS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 3e-6, "complex64": 3e-6}
_NUMPYS_OWN = 16.0
_TRANSFORMS = frozenset({"fft", "rfft", "irfft"})
_NOT_WIDER = _TRANSFORMS | {"random", "bitcast_convert_type", "philox"}
"""Operations whose result in wider numbers is another one, or whose tables are."""


# --- NumPy's results -----------------------------------------------------------------------------


def by_name(step: Step, operands: Sequence[Array]) -> tuple[list[Array], list[Array]] | None:
    """What NumPy's function gives, and what in wider numbers; None where it has no such one.

    float16 and bfloat16 are computed with in float32, as graphc does.
    """
    if step.call.name == "unwrap" and any(array.dtype.kind == "u" for array in operands):
        return None  # NumPy's differences of unsigned integers wrap around
    narrow = [wide(array, "float32") if _is_narrow(array) else array for array in operands]
    own = by_numpy(step, narrow)
    try:
        true = by_numpy(step, [_widest(array) for array in operands])
        if true and any(part.dtype == np.float16 for part in true):
            bools = [a.astype(np.float64) if a.dtype == bool else _widest(a) for a in operands]
            true = by_numpy(step, bools)
    except TypeError:  # int64 and uint64 have no common dtype of integers
        true = own
    if own is None or true is None:
        return None
    # NumPy's functions of bools and of the smallest integers are of float16, graphc's of float32
    pairs = zip(own, true, strict=True)
    return [other if one.dtype == np.float16 else one for one, other in pairs], true


def by_operations(graph: Graph, arrays: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """What the recorded operations mean in NumPy, and in wider numbers where they have a meaning
    there."""
    with np.errstate(all="ignore"):
        own = list(evaluate(graph, arrays))
        if any(node.op.name in _NOT_WIDER for node in graph.walk()):
            return own, own
        try:
            return own, evaluated_wide(graph, arrays)
        except (gx.GraphcError, AssertionError, TypeError):
            return own, own  # integers that are not of this width


def recorded(step: Step, operands: Sequence[Array]) -> tuple[Graph, list[Array]]:
    """The graph of a step alone, and what its inputs are."""
    with gx.Graph() as recorder:
        fed = [gx.placeholder(a.shape, a.dtype) for a in operands]
        made = flat(step.call.function(*fed))
    extraction = extract(recorder, made, [], {})
    given = dict(zip(fed, operands, strict=True))
    arrays = [given[value] for value in extraction.feeds]
    arrays += gx.Session(recorder).get(list(extraction.states))
    graph = extraction.graph
    return graph.with_parts(outputs=graph.outputs[: len(made)]), arrays


def _widest(array: Array) -> Array:
    """The same numbers; integers as wide ones too, so that functions of them are of float64."""
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64)
    return wide(array, "float64")


def _is_narrow(array: Array) -> bool:
    return dtype(array.dtype) in NARROW_FLOATS or dtype(array.dtype).is_storage


# --- comparing -----------------------------------------------------------------------------------


def difference(step: Step, operands: Sequence[Array], results: Sequence[Array]) -> str:
    """What is wrong with the results of a step; empty where nothing is."""
    named = by_name(step, operands)
    graph, arrays = recorded(step, operands)
    expected, exact = named or by_operations(graph, arrays)
    is_narrow = any(map(_is_narrow, (*operands, *results)))
    spread = by_operations(graph, arrays)[0] if named and is_narrow else None
    mixes = any(node.op.name in _TRANSFORMS for node in graph.walk())
    if len(expected) != len(results):
        return f"{len(results)} results in place of {len(expected)}"
    for place, (result, own, true) in enumerate(zip(results, expected, exact, strict=True)):
        if result.shape != own.shape:
            return f"result {place} has shape {result.shape} in place of {own.shape}"
        rounded = spread[place] if spread else own
        wrong = _wrong(result, own, true, rounded, _precision(graph) if mixes else 0)
        if np.any(wrong) and dtype(result.dtype).is_integer and _converts(graph):
            # a float that was rounded otherwise is another integer
            apart = np.abs(result.astype(np.float64) - own.astype(np.float64))
            wrong = wrong & (apart > 1e-14 * np.abs(own.astype(np.float64)))
        if mixes and np.any(wrong):
            # which sums of a row meet an infinity first is a matter of the algorithm
            wrong = wrong & (np.isfinite(result) | np.isfinite(own))
        if np.any(wrong):
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            return (
                f"result {place} at {at} is {result[at]!r} in place of {own[at]!r}, "
                f"in wider numbers {true[at]!r}"
            )
    return ""


def _precision(graph: Graph) -> float:
    """The largest tolerance of what a graph computes: a transform of narrow floats is of complex64,
    whatever is done with it."""
    values = [value for node in graph.walk() for value in node.outputs]
    return max((_ULPS.get(value.dtype.name, 0) for value in values), default=0)


def _converts(graph: Graph) -> bool:
    """Whether floats become integers."""
    return any(
        node.op.name == "astype"
        and node.output.dtype.is_integer
        and node.inputs[0].dtype.is_inexact
        for node in graph.walk()
    )


def _wrong(
    result: Array, own: Array, true: Array, rounded: Array, precision: float = 0
) -> Any:
    """Where a result is neither NumPy's nor near it, to its own precision or to this one."""
    element = dtype(result.dtype)
    if element.is_storage:
        return _unlike(result, own.astype(result.dtype))
    if not element.is_inexact:
        return result != own
    with np.errstate(all="ignore"):
        narrow = own.astype(result.dtype)
        given, own, true, rounded = (wide(a, "float64") for a in (result, narrow, true, rounded))
        true = np.asarray(true).astype(given.dtype)
        allowed = max(precision, _ULPS.get(element.name, 1e-13)) * (1 + np.abs(true))
        off = np.maximum(np.abs(own - true), np.abs(rounded - true))
        allowed = allowed + _NUMPYS_OWN * np.nan_to_num(off, posinf=0)
        near = np.abs(given - true) <= allowed
        return ~near & _unlike(given, own) & _unlike(given, true.astype(result.dtype))


def _unlike(one: Array, other: Array) -> Any:
    alike = (one == other) | ((one != one) & (other != other))
    if np.iscomplexobj(one):
        # any number with an infinite part is the one infinity, whatever the other part is
        alike = alike | (np.isinf(one) & np.isinf(other))
    return ~alike


# --- checking ------------------------------------------------------------------------------------


def check(seed: int) -> Program:
    """Checks the program of a seed, and gives it.

    Everything is fetched once, and each step compared with NumPy's. Some of it is fetched at each
    level of ``optimize``, on one thread or two by turns: the bits must be the same. On two threads
    whatever can be shared is.
    """
    program = draw(seed)
    fed, results, given, graph = built(program)
    feeds = dict(zip(fed, program.arrays, strict=True))
    made = [value for values in results for value in values]
    everything = [*made, *(value for values in given for value in values)]
    # the cheapest level that fuses: this is most of what is compiled
    try:
        first = _run(graph, everything, feeds, 1)
    except (CheckError, LinAlgError) as error:
        # numbers that a step refuses, as NumPy does NaN in matrices: all levels say so
        for level in range(4):
            with pytest.raises(type(error)):
                _run(graph, everything, feeds, level, 1 + (seed + level) % 2)
        return program
    place, operand_place = 0, len(made)
    for step, values, operands in zip(program.steps, results, given, strict=True):
        own = first[operand_place : operand_place + len(operands)]
        wrong = difference(step, own, first[place : place + len(values)])
        assert not wrong, f"seed {seed}, {step}: {wrong}\n{program}\noperands {own}"
        place, operand_place = place + len(values), operand_place + len(operands)
    rng = np.random.default_rng((seed, 1))
    some = [value for value in made if rng.random() < 0.4] or made[-1:]
    runs = [_run(graph, some, feeds, level, 1 + (seed + level) % 2) for level in range(4)]
    for level, again in enumerate(runs):
        what = f"seed {seed}, level {level}, {1 + (seed + level) % 2} threads"
        _agree(runs[0], again, f"{what}\n{program}")
    return program


def check_libraries(seeds: Sequence[int], folder: Path) -> None:
    """One library of the programs of several seeds gives the bits that a session does.

    What calls LAPACK or Python is left out, which libraries don't hold.
    """
    graph, feeds, fetches = gx.Graph(), {}, []
    for seed in seeds:
        program = draw(seed)
        fed, results, _, _ = built(program, graph)
        feeds.update(zip(fed, program.arrays, strict=True))
        fetches += [v for values in results for v in values if _is_held_by_libraries(graph, v)]
    first, threads = seeds[0], 1 + seeds[0] // len(seeds) % 2
    options = gx.Options(optimize=first // (2 * len(seeds)) % 4, cache="off")
    exe = gx.Session(graph, options=options).compile(fetches, [*feeds])
    library = library_of(exe, folder, threads)
    results, again = exe(*feeds.values()), library(*feeds.values())
    _agree(results, again, f"libraries of {seeds} at level {options.optimize}, {threads} threads")


def _run(
    graph: gx.Graph, fetches: list[Any], feeds: dict[Any, Array], level: int, threads: int = 1
) -> list[Array]:
    with pytest.MonkeyPatch.context() as patch:
        if threads > 1:
            everything_is_shared(patch)
        session = gx.Session(
            graph, threads=threads, options=gx.Options(optimize=level, cache="off")
        )
        return [np.asarray(result) for result in session.run(fetches, feeds)]


def _is_held_by_libraries(graph: gx.Graph, value: Any) -> bool:
    """Whether nothing that it is computed from calls LAPACK or Python."""
    for node in extract(graph, [value], [], {}).graph.walk():
        if isinstance(node.op.lowering, Native) and node.op.lowering.routine in LAPACK:
            return False
        if node.op.name in ("pinv", "host_call", "ordered_host_call"):
            return False
    return True


def _agree(first: Sequence[Any], other: Sequence[Any], what: str) -> None:
    for place, (one, again) in enumerate(zip(first, other, strict=True)):
        assert same_bits(one, again), f"{what}: value {place} differs\n{one}\n{again}"


def counted(programs: Sequence[Program]) -> Counter[str]:
    """How many steps of programs are of which function or operation and dtype."""
    return Counter(
        f"{step.case[0].name} {step.case[1]}" if step.case
        else f"{step.call.name}({', '.join(str(o.element) for o in step.operands)})"
        for program in programs for step in program.steps
    )  # fmt: skip


__all__ = ["check", "check_libraries", "counted", "difference"]
