"""Random programs of all public functions: chains of the calls of ``guard_calls``.

A step takes values of earlier steps, in the dtype and the shape that a call wants of its operands,
and gives its results to the pool. NumPy evaluates the same steps.

Each step is compared with NumPy's over the operands that graphc itself had, so that differences
don't add up. Where two libraries round differently, graphc may be as far from NumPy's result in
wider numbers as NumPy's own is, some times over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bits import same_bits
from guard_calls import CALLS, Call
from libraries import library_of

import graphc as gx

Array = np.ndarray[Any, Any]

DTYPES = ("float32", "float64", "int64", "int32", "uint8", "int8", "bool")
_SIZES = (0, 1, 1, 2, 3, 4, 5, 7)
_MOST_ELEMENTS = 3000
_TRIES = 40
"""Calls that are drawn at most for a step."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A value of the pool, as a call wants it.

    Attributes:
        source: its place in the pool.
        kind: "f", "i" or "b".
        shape: the elements are repeated to fill it.
        below: what integers index; None for those that are numbers.
        dtype: what floats are converted to if they are none.
    """

    source: int
    kind: str
    shape: tuple[int, ...]
    below: int | None
    dtype: str


@dataclass(frozen=True, slots=True)
class Step:
    """A call over values of the pool."""

    call: Call
    operands: tuple[Operand, ...]


@dataclass(slots=True)
class Program:
    """Arrays to feed, and steps; the pool holds the feeds and then what each step gives."""

    feeds: list[Array]
    steps: list[Step]

    def __str__(self) -> str:
        feeds = ", ".join(f"{a.dtype}{list(a.shape)}" for a in self.feeds)
        lines = [
            f"{step.call} of "
            + ", ".join(f"{o.source}:{o.kind}{list(o.shape)}" for o in step.operands)
            for step in self.steps
        ]
        return "\n".join([f"feeds {feeds}", *lines])


# --- operands ------------------------------------------------------------------------------------


def adapted(xp: Any, value: Any, operand: Operand) -> Any:
    """A value of the pool as the call wants it, by graphc or by NumPy."""
    value = xp.resize(value, operand.shape)
    if np.dtype(str(value.dtype)).kind == "c":
        value = xp.real(value)
    kind = np.dtype(str(value.dtype)).kind
    if operand.kind == "b":
        return value if kind == "b" else value != 0
    if operand.kind == "f":
        return value if kind == "f" else value.astype(operand.dtype)
    if kind == "f":
        value = xp.clip(xp.floor(xp.nan_to_num(value)), -9, 9)
    value = value.astype("int64")
    if operand.below is None:
        return xp.abs(value) % 9
    return value % max(operand.below, 1)


def flat(made: Any) -> list[Any]:
    """What a call gave, as a list."""
    return [v for part in made for v in flat(part)] if isinstance(made, (list, tuple)) else [made]


def reference(step: Step, operands: Sequence[Array]) -> list[Array] | None:
    """What NumPy gives; None where it has no such function.

    Raises:
        Exception: whatever NumPy raises for such operands.
    """
    if step.call.numpy is None:
        return None
    with np.errstate(all="ignore"):
        return [np.asarray(part) for part in flat(step.call.numpy(*operands))]


# --- drawing -------------------------------------------------------------------------------------


def draw(seed: int, calls: Sequence[Call] = tuple(CALLS)) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    sizes = {letter: int(rng.choice(_SIZES)) for letter in "abcde"}
    feeds = [_feed(rng, sizes) for _ in range(rng.integers(1, 4))]
    program = Program(feeds, [])
    count = len(feeds)
    for _ in range(rng.integers(1, 7)):
        step = _step(rng, calls, program, sizes, count)
        if step is None:
            break
        try:
            made = built(Program(feeds, [*program.steps, step]))[1][-1]
        except gx.DTypeError:
            if step.call.numpy is not None:
                raise
            continue  # a call of graphc's own wants its operands in one dtype
        program.steps.append(step)
        count += len(made)
    return program


def _feed(rng: np.random.Generator, sizes: dict[str, int]) -> Array:
    letters = "abcde"[: rng.integers(0, 4)]
    shape = tuple(sizes[letter] for letter in letters)
    dtype = np.dtype(str(rng.choice(DTYPES)))
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind != "f":
        return np.asarray(rng.integers(0, 9, shape)).astype(dtype)
    array = rng.uniform(-3, 3, shape)
    if rng.random() < 0.3:
        special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e30, -1e30], shape)
        array = np.where(rng.random(shape) < 0.2, special, array)
    return np.asarray(array).astype(dtype)


def _step(
    rng: np.random.Generator,
    calls: Sequence[Call],
    program: Program,
    sizes: dict[str, int],
    count: int,
) -> Step | None:
    """A call that both take, so far as types tell; None if none was found."""
    for _ in range(_TRIES):
        call = calls[rng.integers(len(calls))]
        operands = tuple(_operand(rng, word, sizes, count) for word in call.operands)
        if any(np.prod(o.shape) > _MOST_ELEMENTS for o in operands):
            continue
        step = Step(call, operands)
        arrays = [_sample(o) for o in operands]
        try:
            made = reference(step, arrays)
        except Exception:  # NumPy does not take such operands
            continue
        if made is not None and sum(part.size for part in made) > _MOST_ELEMENTS:
            continue
        try:
            trial = [Operand(place, *_rest(o)) for place, o in enumerate(operands)]
            results = built(Program(arrays, [Step(call, tuple(trial))]))[1][0]
        except gx.GraphcError as error:
            if made is not None and "of an empty axis" not in error.message:
                raise
            continue
        if results and sum(_count(value) for value in results) <= _MOST_ELEMENTS:
            return step
    return None


def _rest(o: Operand) -> tuple[str, tuple[int, ...], int | None, str]:
    return o.kind, o.shape, o.below, o.dtype


def _count(value: Any) -> int:
    return int(np.prod([int(size) for size in value.shape]))


def _operand(rng: np.random.Generator, word: str, sizes: dict[str, int], count: int) -> Operand:
    kind, _, axes = word.rpartition(":")
    shape = tuple(int(c) if c.isdigit() else sizes[c] for c in axes.replace(".", ""))
    indexed = kind[2:]
    below = None
    if indexed:
        below = int(np.prod([int(c) if c.isdigit() else sizes[c] for c in indexed]))
        if not below:
            shape = tuple(0 for _ in shape) or shape
    # late values are likelier, so that chains grow
    source = count - 1 - min(count - 1, int(rng.exponential(1.5)))
    return Operand(source, kind[:1] or "f", shape, below, str(rng.choice(("float32", "float64"))))


def _sample(o: Operand) -> Array:
    if o.kind == "f":
        return np.full(o.shape, 0.75, o.dtype)
    return np.ones(o.shape, bool) if o.kind == "b" else np.zeros(o.shape, np.int64)


# --- building ------------------------------------------------------------------------------------


def built(program: Program) -> tuple[list[Any], list[list[Any]], list[list[Any]], gx.Graph]:
    """The placeholders, the results of each step, the operands of each step, and the graph."""
    with gx.Graph() as graph:
        fed = [gx.placeholder(a.shape, a.dtype) for a in program.feeds]
        pool: list[Any] = [*fed]
        results: list[list[Any]] = []
        given: list[list[Any]] = []
        for step in program.steps:
            operands = [adapted(gx, pool[o.source], o) for o in step.operands]
            made = flat(step.call.function(*operands))
            given.append(operands)
            results.append(made)
            pool += made
    return fed, results, given, graph


# --- comparing -----------------------------------------------------------------------------------


_ULPS = {"float16": 1e-3, "float32": 3e-6, "float64": 1e-13}
_NUMPYS_OWN = 16.0


def difference(step: Step, operands: Sequence[Array], results: Sequence[Array]) -> str:
    """What is wrong with the results of a step; empty where nothing is."""
    expected = reference(step, operands)
    if expected is None:
        return ""
    if len(expected) != len(results):
        return f"{len(results)} results in place of {len(expected)}"
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in operands]
    exact = reference(step, wide) or []
    for place, (result, own, true) in enumerate(zip(results, expected, exact, strict=True)):
        if result.shape != own.shape:
            return f"result {place} has shape {result.shape} in place of {own.shape}"
        if result.dtype.kind not in "fc" or own.dtype.kind not in "fc":
            wrong = result != own
        else:
            with np.errstate(all="ignore"):
                allowed = _ULPS.get(result.dtype.name, 1e-13) * (1 + np.abs(true))
                allowed = allowed + _NUMPYS_OWN * np.nan_to_num(np.abs(own - true), posinf=0)
                near = np.abs(result - true) <= allowed
                same = (result == own) | (np.isnan(result) & np.isnan(own))
                same |= (result == true) | (np.isnan(result) & np.isnan(true))
            wrong = ~(near | same)
        if np.any(wrong):
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            return f"result {place} at {at} is {result[at]!r} in place of {own[at]!r}"
    return ""


def check(seed: int, folder: Path | None = None) -> int:
    """Checks the program of a seed; gives the number of its steps.

    Everything is fetched at each level of ``optimize``, and each step compared with NumPy's. Some
    of it is fetched at each level and on one and two threads, and from a library where there is a
    folder for one: the bits must be the same.
    """
    program = draw(seed)
    fed, results, given, graph = built(program)
    feeds = dict(zip(fed, program.feeds, strict=True))
    made = [value for values in results for value in values]
    if not made:
        return 0
    everything = [*made, *(value for values in given for value in values)]
    first = _run(graph, everything, feeds, 2)
    for level in (0, 1):
        _agree(first, _run(graph, everything, feeds, level), f"level {level}", program, seed)
    place, operand_place = 0, len(made)
    for step, values, operands in zip(program.steps, results, given, strict=True):
        own = first[operand_place : operand_place + len(operands)]
        wrong = difference(step, own, first[place : place + len(values)])
        assert not wrong, f"seed {seed}, {step.call}: {wrong}\n{program}\noperands {own}"
        place, operand_place = place + len(values), operand_place + len(operands)
    rng = np.random.default_rng((seed, 1))
    some = [value for value in made if rng.random() < 0.4] or made[-1:]
    first = _run(graph, some, feeds, 2)
    for level, threads in ((0, 1), (1, 2), (2, 2)):
        again = _run(graph, some, feeds, level, threads)
        _agree(first, again, f"level {level}, {threads} threads", program, seed)
    if folder is not None:
        exe = gx.Session(graph).compile(some, fed)
        again = library_of(exe, folder)(*program.feeds)
        _agree(first, again, "the library", program, seed)
    return len(program.steps)


def _run(
    graph: gx.Graph, fetches: list[Any], feeds: dict[Any, Array], level: int, threads: int = 1
) -> list[Array]:
    session = gx.Session(graph, threads=threads, options=gx.Options(optimize=level))
    return list(session.run(fetches, feeds))


def _agree(
    first: Sequence[Array], other: Sequence[Array], what: str, program: Program, seed: int
) -> None:
    for place, (one, again) in enumerate(zip(first, other, strict=True)):
        assert same_bits(one, again), (
            f"seed {seed}: value {place} differs at {what}\n{program}\n{one}\n{again}"
        )


__all__ = ["Operand", "Program", "Step", "adapted", "built", "check", "difference", "draw"]
