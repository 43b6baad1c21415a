"""Bisecting: the one decision of the compiler that makes a result wrong.

Every optional decision has a number, and fuel limits how many are made. A binary search over fuel
keeps this invariant: with ``good`` decisions the result is right, with ``bad`` it is wrong. So the
decision found is one that was seen to make the difference, also where several are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphc.base.errors import GraphcError, GraphError
from graphc.base.options import Options
from graphc.base.source import caller
from graphc.debug.case import Case, case_of, differs
from graphc.debug.reducing import reduce
from graphc.ir.text.printer import print_graph
from passes.infra.base import Decision


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """The decision that makes a result wrong.

    Attributes:
        decision: the rule or pass, the value, the user's line and the number.
        total: how many decisions are made altogether.
        problem: how the result differs.
        case: a small graph that shows it, with its inputs.
    """

    decision: Decision
    total: int
    problem: str
    case: Case

    def __str__(self) -> str:
        where = self.decision.where
        lines = [f"{self.decision} of {self.total} decisions makes the difference"]
        if where is not None and where.excerpt():
            lines.append(where.excerpt())
        lines += [self.problem, "the smallest graph found that shows it:"]
        return "\n".join([*lines, print_graph(self.case.graph, provenance=True).rstrip()])


def first_bad(is_bad: Callable[[int], bool], good: int, bad: int) -> int:
    """A number that is bad while the one before is good, by binary search.

    ``good`` is known to be good, ``bad`` to be bad; about log2(bad − good) numbers are tried.
    """
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_bad(middle):
            bad = middle
        else:
            good = middle
    return bad


def bisect(
    fetches: Any,
    feeds: Mapping[Any, Any] | None = None,
    *,
    reference: str = "interpreter",
    options: Options | None = None,
    tolerance: float | None = None,
) -> Finding:
    """Finds the decision that makes compiled code give another result than the reference.

    Args:
        fetches: as for ``Session.run``.
        feeds: as for ``Session.run``; variables have their initial values.
        reference: "interpreter", or "unoptimised": code compiled without any optional decision.
        options: how to compile; what it leaves at its default the environment may set.
        tolerance: how far results may differ, relatively; see ``case.differs``.

    Raises:
        GraphError: if nothing differs, or if it differs without any decision.
    """
    return bisect_case(case_of(fetches, feeds, options), reference, tolerance)


def bisect_case(
    case: Case, reference: str = "interpreter", tolerance: float | None = None
) -> Finding:
    """``bisect`` of a case; raises GraphError as it does."""
    if reference not in ("interpreter", "unoptimised"):
        raise GraphError(
            f"reference={reference!r}", where=caller(), hint='"interpreter" or "unoptimised"'
        )
    decision, total, problem = _search(case, reference, tolerance)

    def shows(candidate: Case) -> bool:
        given, made = candidate.native()
        if all(other.rule != decision.rule for other in made):
            return False
        if differs(candidate, candidate.interpreted(), given, tolerance) is None:
            return False
        try:
            found, _, _ = _search(candidate, reference, tolerance)
        except GraphcError:
            return False
        return found.rule == decision.rule

    return Finding(decision, total, problem, reduce(case, shows))


def _search(
    case: Case, reference: str, tolerance: float | None
) -> tuple[Decision, int, str]:
    """The decision, how many there are, and how the result differs."""
    expected = case.interpreted() if reference == "interpreter" else case.native(0)[0]
    given, decisions = case.native()
    problem = differs(case, expected, given, tolerance)
    if problem is None:
        raise GraphError("compiled code gives what the reference gives", where=caller())
    without, _ = case.native(0)
    if differs(case, expected, without, tolerance) is not None:
        raise GraphError(
            f"{problem}; and so it is without any optional decision",
            where=caller(),
            hint="a required pass, lowering or code generation is at fault; Options(check=True) "
            "compares these levels",
        )
    found = first_bad(
        lambda fuel: differs(case, expected, case.native(fuel)[0], tolerance) is not None,
        0,
        len(decisions),
    )
    return decisions[found - 1], len(decisions), problem


__all__ = ["Finding", "bisect", "bisect_case", "first_bad"]
