"""Terms: a sign, a factor and the exponential of counted logs, and their arithmetic.

Invariant: no exponent counts a log 0 times, and nothing here makes nodes; factors are made by who
wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from graphc.ir.value import Value

Exponent: TypeAlias = Mapping[Value, int]
Factor: TypeAlias = Callable[[], Value]
"""Makes the factor when it is wanted: most descriptions are never turned into nodes."""

MAXIMUM_TERMS = 4
MOST_LOGS = 6
MAXIMUM_DEPTH = 32
"""How many factors may be waiting to be made inside each other."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpTerm:
    """sign * factor * exp(sum of count * log).

    Attributes:
        logs: the exponent: how often each value counts, never 0 times.
        factor: None is one.
        depth: how many factors are inside the factor.
        guarded: the factor is 0 where a cotangent is, whatever it is multiplied with.
        summed: a sum of exponentials went into the exponent.
        sign: 1 or -1.
    """

    logs: Exponent
    factor: Factor | None = None
    depth: int = 0
    guarded: bool = False
    summed: bool = False
    sign: int = 1

    @property
    def bare(self) -> bool:
        """Whether it is an exponential and nothing else."""
        return self.factor is None and self.sign == 1


Terms: TypeAlias = tuple[ExpTerm, ...]


def size(logs: Exponent) -> int:
    """How many logs an exponent counts, either sign."""
    return sum(map(abs, logs.values()))


def added(a: Exponent, b: Exponent, sign: int = 1) -> dict[Value, int]:
    """a + sign * b."""
    result = dict(a)
    for value, count in b.items():
        total = result.get(value, 0) + sign * count
        if total:
            result[value] = total
        else:
            result.pop(value, None)
    return result


def merged(terms: Sequence[ExpTerm], one: Factor) -> Terms:
    """Terms of one exponent are one term."""
    result: list[ExpTerm] = []
    for term in terms:
        for place, other in enumerate(result):
            if term.logs == other.logs:
                result[place] = _joined(other, term, one)
                break
        else:
            result.append(term)
    return tuple(result)


def _joined(a: ExpTerm, b: ExpTerm, one: Factor) -> ExpTerm:
    left, right = a.factor or one, b.factor or one
    return ExpTerm(
        a.logs,
        (lambda: left() + right()) if a.sign == b.sign else (lambda: left() - right()),
        1 + max(a.depth, b.depth),
        a.guarded and b.guarded,
        a.summed or b.summed,
        a.sign,
    )


def alike(terms: Terms) -> bool:
    """Whether terms have one and the same factor."""
    first = terms[0]
    return all(t.factor is first.factor and t.guarded == first.guarded for t in terms)


def small(terms: Terms) -> bool:
    """Whether a description is worth keeping."""
    return (
        0 < len(terms) <= MAXIMUM_TERMS
        and all(len(t.logs) <= MOST_LOGS and t.depth <= MAXIMUM_DEPTH for t in terms)
    )
