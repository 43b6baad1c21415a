"""Random loops that write parts of what they carry: for the compiler, and by NumPy.

A program is a tree of statements over a few arrays. One walk over it builds a graph or computes
at once, by the tools it is given, so that both mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import graphc as gx

VECTORS, ROWS, WIDTH = 3, 2, 3
"""How many vectors and matrices there are, and the columns of a matrix."""

Array = np.ndarray[Any, Any]
State = list[Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its kind, numbers that choose operands, and statements inside."""

    kind: str
    numbers: tuple[int, ...]
    inside: tuple[tuple[Statement, ...], ...] = ()


KINDS = (
    "scale", "add", "element", "elements", "row", "rows", "reverse", "shift", "swap", "both",
    "pick", "start", "total", "piece", "where", "chosen",
)  # fmt: skip


def statements(random: Random, most: int, depth: int) -> tuple[Statement, ...]:
    """Some statements, nested at most so deep."""
    found: list[Statement] = []
    for _ in range(random.randint(1, most)):
        numbers = tuple(random.randrange(60) for _ in range(5))
        nested = random.random()
        if depth and nested < 0.15:
            found.append(Statement("loop", numbers, (statements(random, most, depth - 1),)))
        elif depth and nested < 0.35:
            both = (statements(random, 2, depth - 1), statements(random, 2, depth - 1))
            found.append(
                Statement("cond", numbers, both if random.random() < 0.6 else (both[0], ()))
            )
        else:
            found.append(Statement(random.choice(KINDS), numbers))
    return tuple(found)


class Tools:
    """What statements are made of, by NumPy."""

    reverse: Callable[[Any], Any] = staticmethod(lambda x: x[::-1].copy())

    def scatter(self, base: Any, index: Any, update: Any) -> Any:
        result = base.copy()
        with np.errstate(all="ignore"):
            np.add.at(result, index, update)
        return result

    def take(self, x: Any, index: Any) -> Any:
        return x[index]

    def join(self, parts: Sequence[Any]) -> Any:
        return np.concatenate(parts)

    def where(self, test: Any, one: Any, two: Any) -> Any:
        return np.where(test, one, two)

    def total(self, x: Any) -> Any:
        return x.sum()

    def index(self, x: Any) -> Any:
        return np.arange(len(x))

    def cond(self, test: Any, one: Callable[[], State], two: Callable[[], State]) -> State:
        return one() if test else two()

    def loop(self, trips: Any, body: Callable[[Any, State], State], state: State) -> State:
        for t in range(int(trips)):
            state = body(np.int64(t), state)
        return state


class GraphTools(Tools):
    """What statements are made of, in a graph."""

    reverse = staticmethod(lambda x: x[::-1])

    def scatter(self, base: Any, index: Any, update: Any) -> Any:
        return gx.scatter_add(base, index, update)

    def take(self, x: Any, index: Any) -> Any:
        return gx.take(x, index, axis=0)

    def join(self, parts: Sequence[Any]) -> Any:
        return gx.concatenate(parts)

    def where(self, test: Any, one: Any, two: Any) -> Any:
        return gx.where(test, one, two)

    def total(self, x: Any) -> Any:
        return gx.sum(x)

    def index(self, x: Any) -> Any:
        return gx.arange(x.shape[0])

    def cond(self, test: Any, one: Callable[[], State], two: Callable[[], State]) -> State:
        return list(gx.cond(test, one, two))

    def loop(self, trips: Any, body: Callable[[Any, State], State], state: State) -> State:
        def step(t: Any, *now: Any) -> tuple[Any, ...]:
            return (t + 1, *body(t, list(now)))

        found = gx.while_loop(lambda t, *_: t < trips, step, (np.int64(0), *state))
        return list(found[1:])


def run(
    body: Sequence[Statement],
    state: State,
    start: State,
    t: Any,
    trips: Any,
    size: int,
    tools: Tools,
) -> State:
    """The state after some statements, of which ``start`` is what was there first.

    ``size`` is that of all vectors, known when the program is made or not.
    """
    state = list(state)
    old = list(state)
    for s in body:
        a, b, c, d, e = s.numbers
        x, y = a % VECTORS, b % VECTORS
        m, k = VECTORS + a % ROWS, VECTORS + b % ROWS
        given = (old, state)[c % 2]
        place = (t * (d % 5) + d) % size
        if s.kind == "scale":
            state[x] = state[x] * (d % 4 - 1) + e
        elif s.kind == "add":
            state[x] = given[x] + state[y]
        elif s.kind == "element":
            state[x] = tools.scatter(given[x], place, tools.take(state[y], (place + e) % size))
        elif s.kind == "elements":
            places = (tools.index(state[x]) * (d % 3) + t) % size
            state[x] = tools.scatter(given[x], places, state[y])
        elif s.kind == "row":
            state[m] = tools.scatter(given[m], place, tools.take(state[k], (place + e) % size))
        elif s.kind == "rows":
            places = (tools.index(state[x]) * (d % 3) + t) % size
            state[m] = tools.scatter(given[m], places, state[k] + e)
        elif s.kind == "reverse":
            state[x if c % 3 else m] = tools.reverse(given[x if c % 3 else m])
        elif s.kind == "shift":
            state[x] = tools.join([given[x][1:], given[x][:1]])
        elif s.kind == "swap":
            state[x], state[y] = state[y], state[x]
        elif s.kind == "both":
            state[x], state[y] = state[y], state[x] + tools.reverse(given[y])
        elif s.kind == "pick":
            state[x] = tools.take(given[y], (tools.index(state[x]) * 3 + e) % size)
        elif s.kind == "start":
            state[x] = start[y]
        elif s.kind == "total":
            state[x] = given[x] + tools.total(state[y]) % 7
        elif s.kind == "piece":
            state[x] = tools.join([given[x][:1] + e, state[y][1:]])
        elif s.kind == "where":
            state[x] = tools.where(tools.index(state[x]) % size == place, given[y] + e, state[x])
        elif s.kind == "chosen":
            state[m] = tools.where(state[m] % 2 == 0, given[k], state[m])
        elif s.kind == "cond":
            now = list(state)
            test = (tools.total(state[x]) + t) % 3 == d % 3

            def branch(number: int, now: State = now, s: Statement = s, t: Any = t) -> State:
                return run(s.inside[number], now, start, t, trips, size, tools)

            state = tools.cond(test, lambda f=branch: f(0), lambda f=branch: f(1))
        else:
            inner = s.inside[0]
            count = d % 4 if e % 2 else (trips + d) % 4

            def again(u: Any, now: State, inner: Any = inner) -> State:
                return run(inner, now, start, u, trips, size, tools)

            state = tools.loop(count, again, state)
    return state


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """A random program.

    Attributes:
        graph: with the whole of it.
        feeds: for its placeholders.
        fetches: what it computes.
        expected: their values, by NumPy.
    """

    graph: gx.Graph
    feeds: dict[Any, Any]
    fetches: list[Any]
    expected: list[Array]
    variables: list[Any]


def program(seed: int) -> LoopProgram:
    """The program of a seed."""
    random = Random(seed)
    rng = np.random.default_rng(seed)
    size = random.choice([1, 2, 5, 8, 40])
    trips = random.choice([0, 1, 2, 3, 4, 7, 12])
    symbolic, fed_trips = random.random() < 0.3, random.random() < 0.7
    dtype = np.int64
    body = (Statement("loop", (0, 0, 0, 0, 0), (statements(random, 5, 2),)),)
    arrays = [rng.integers(-9, 9, size).astype(dtype) for _ in range(VECTORS)]
    arrays += [rng.integers(-9, 9, (size, WIDTH)).astype(dtype) for _ in range(ROWS)]
    as_variable = [random.random() < 0.25 for _ in arrays]
    prepared = [random.random() < 0.5 for _ in arrays]
    assigned = [random.random() < 0.7 for _ in arrays]
    again = [random.random() < 0.3 for _ in arrays]

    def whole(given: State, count: Any, tools: Tools, length: Any) -> list[Any]:
        start = [x + 1 if made else x for x, made in zip(given, prepared, strict=True)]

        def step(t: Any, now: State) -> State:
            return run(body[0].inside[0], now, start, t, count, length, tools)

        end = tools.loop(count, step, start)
        return [*end, *(x * 2 + y for x, y, both in zip(start, end, again, strict=True) if both)]

    feeds: dict[Any, Any] = {}
    with gx.Graph() as graph:
        given: State = []
        variables: list[Any] = []
        for number, (array, kept) in enumerate(zip(arrays, as_variable, strict=True)):
            if kept:
                given.append(gx.variable(array, name=f"v{number}"))
                variables.append(given[-1])
                continue
            shape: tuple[Any, ...] = array.shape
            if symbolic and not any(as_variable):
                shape = ("n", *shape[1:])
            given.append(gx.placeholder(shape, array.dtype.name, name=f"x{number}"))
            feeds[given[-1]] = array
        count: Any = np.int64(trips)
        if fed_trips:
            count = gx.placeholder((), "int64", name="trips")
            feeds[count] = np.int64(trips)
        length = given[0].shape[0]
        length = size if isinstance(length, int) else gx.dim(length)
        found = whole(given, count, GraphTools(), length)
        fetches = list(found)
        for number, (value, kept) in enumerate(zip(given, as_variable, strict=True)):
            if kept and assigned[number]:
                value.assign(found[number])
                fetches.append(value)
    with np.errstate(all="ignore"):
        expected = whole(list(arrays), np.int64(trips), Tools(), size)
    return LoopProgram(graph, feeds, list(found), expected, variables)


__all__ = ["LoopProgram", "program"]
