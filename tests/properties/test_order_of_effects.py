"""Random programs of ordered calls in nested branches and loops, against Python itself.

Each program is run twice over one description: as a graph, and as statements of Python that note
the same calls. What is fetched decides which calls of the outermost level are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx

Statement = tuple[Any, ...]
"""("call", label), ("cond", bit, then, else), ("loop", trips, body) or ("write", amount)."""

pytestmark = pytest.mark.check_mode

PROGRAMS = 24
DEEPEST = 3


def _drawn(random: np.random.Generator, depth: int, labels: list[int]) -> list[Statement]:
    """Some statements; branches and loops have at least one call in them."""
    result: list[Statement] = []
    for _ in range(int(random.integers(1, 4))):
        kind = random.choice(["call", "call", "write", "cond", "loop"])
        if kind == "write":
            result.append(("write", int(random.integers(1, 9))))
        elif kind == "cond" and depth < DEEPEST:
            sides = [_drawn(random, depth + 1, labels) for _ in range(2)]
            result.append(("cond", int(random.integers(0, 3)), *sides))
        elif kind == "loop" and depth < DEEPEST:
            trips = int(random.integers(0, 4))
            result.append(("loop", trips, _drawn(random, depth + 1, labels)))
        else:
            labels.append(len(labels))
            result.append(("call", labels[-1]))
    return result


class _Graph:
    """A description as a graph: one value goes through all statements."""

    def __init__(self, calls: list[tuple[int, int]]) -> None:
        self.calls = calls

    def _note(self, label: int) -> Callable[[Any], Any]:
        def note(value: Any) -> Any:
            self.calls.append((label, int(value)))
            return value + label

        return note

    def built(self, statements: list[Statement], value: Any, variable: gx.Variable) -> Any:
        for statement in statements:
            value = self._statement(statement, value, variable)
        return value

    def _statement(self, statement: Statement, value: Any, variable: gx.Variable) -> Any:
        kind, number, *inner = statement
        if kind == "call":
            # some without a result, which nothing but their being there asks for
            note = self._note(number)
            if number % 2:
                gx.host_call(lambda a: note(a) and None, value, ordered=True)
                return value
            return gx.host_call(note, value, result_types=value, ordered=True)
        if kind == "write":
            return value + 0 * variable.assign_add(number)
        if kind == "cond":
            return gx.cond(
                (value >> number) % 2 == 1,
                lambda: self.built(inner[0], value, variable),
                lambda: self.built(inner[1], value, variable),
            )

        def body(trip: Any, carried: Any) -> Any:
            return trip + 1, self.built(inner[0], carried + 1, variable)

        return gx.while_loop(lambda trip, carried: trip < number, body, (0, value))[1]


def _performed(
    statements: list[Statement], value: int, calls: list[tuple[int, int]], written: list[int]
) -> int:
    for kind, number, *inner in statements:
        if kind == "call":
            calls.append((number, value))
            value += 0 if number % 2 else number
        elif kind == "write":
            written[0] += number
        elif kind == "cond":
            chosen = inner[0] if (value >> number) % 2 == 1 else inner[1]
            value = _performed(chosen, value, calls, written)
        else:
            for _ in range(number):
                value = _performed(inner[0], value + 1, calls, written)
    return value


@slow_unless(lambda seed: seed < 8)
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_calls_come_in_the_order_of_the_program(seed: int) -> None:
    random = np.random.default_rng(seed)
    statements = [("loop", 1, _drawn(random, 0, [])), ("loop", 2, _drawn(random, 0, [100]))]
    calls: list[tuple[int, int]] = []
    with gx.Graph() as graph:
        x = gx.placeholder((), "int64", name="x")
        variable = gx.variable(0, name="v")
        result = _Graph(calls).built(statements, x, variable)
        state = gx.group(variable.read())
    for level in (0, 2, 3):
        options = gx.Options(optimize=level, verify=True, shuffle_seed=seed)
        session = gx.Session(graph, options=options)
        total = [0]
        for start in (0, 5):
            calls.clear()
            found = session.run([result, state], {x: start})[0]
            expected: list[tuple[int, int]] = []
            assert found == _performed(statements, start, expected, total)
            assert calls == expected
            assert session.get(variable) == total[0]
