"""One case, the graph function registered for it, and the comparison of answers.

A graph function takes a `CaseRun`, builds the graph that the case describes in the current graph,
runs it, carries out the case's protocol and returns the outputs in the order of ``expected``.
Invariant: a case has at most one graph function.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gx

DATA = Path(__file__).with_name("cases.jsonl")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How near an answer must be, and whether the sign of zero and the dtype count."""

    rtol: float
    atol: float
    equal_nan: bool
    signed_zero: bool
    dtype_exact: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One line of ``cases.jsonl``, as far as the runner needs it."""

    id: str
    kind: str
    description: str
    program: str
    naive: str | None
    tolerance: Tolerance
    check: str
    as_constant: frozenset[str]

    def execute(self, *, naive: bool = False) -> dict[str, Any]:
        """The variables after ``program``, and after ``naive`` too if asked for."""
        variables: dict[str, Any] = {"np": np}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The program is this repository's own test data.
            exec(self.program, variables)
            if naive:
                assert self.naive is not None
                exec(self.naive, variables)
        return variables


@dataclass(slots=True)
class CaseRun:
    """What a graph function works with: inputs, an empty directory, feeds of the graph built."""

    case: Case
    inputs: Mapping[str, Any]
    expected: Sequence[Any]
    directory: Path
    constants: bool = False
    feeds: dict[Any, Any] = field(default_factory=dict)

    def input(self, name: str) -> Any:
        """The case's input ``name``: a constant where the case or the variant wants one."""
        constant = self.constants or name in self.case.as_constant
        return self.enter(self.inputs[name], name, constant=constant)

    def enter(self, array: Any, name: str | None = None, *, constant: bool | None = None) -> Any:
        """A placeholder of the array's shape and dtype, fed with it; or a constant."""
        array = np.asarray(array)
        if self.constants if constant is None else constant:
            return gx.constant(array)
        value = gx.placeholder(array.shape, array.dtype.name, name=name)
        self.feeds[value] = array
        return value

    def fetch(self, outputs: Sequence[Any]) -> list[Any]:
        """The outputs for the inputs entered so far, from a session of their own."""
        with gx.Session() as session:
            return list(session.run(list(outputs), self.feeds))

    def save_and_load(self, fetches: Sequence[Any]) -> list[Any]:
        """The same values in a graph of their own, having passed through a file."""
        path = self.directory / "saved.gir"
        gx.save(path, list(fetches))
        return list(gx.load(path))

    def agree(self, actual: Sequence[Any], expected: Sequence[Any]) -> None:
        """Assert that further outputs meet the case's tolerance."""
        assert_agree(actual, expected, self.case.tolerance)


GraphFunction = Callable[[CaseRun], "list[Any] | None"]


@dataclass(frozen=True, slots=True)
class Registered:
    """A graph function.

    Attributes:
        build: the function.
        feeds_only: constants would miss the point of the case.
        parts_waiting: positions of expected outputs that it leaves out, with what they wait for.
    """

    build: GraphFunction
    feeds_only: bool
    parts_waiting: Mapping[int, str]


REGISTRY: dict[str, Registered] = {}


def case(
    identifier: str,
    *,
    feeds_only: bool = False,
    parts_waiting: Mapping[int, str] | None = None,
) -> Callable[[GraphFunction], GraphFunction]:
    """Register the decorated function as the graph of a case."""

    def register(build: GraphFunction) -> GraphFunction:
        if identifier in REGISTRY:
            raise ValueError(f"case {identifier} has two graph functions")
        REGISTRY[identifier] = Registered(build, feeds_only, parts_waiting or {})
        return build

    return register


@cache
def load_cases() -> dict[str, Case]:
    """All cases by id, in the order of the file."""
    cases: dict[str, Case] = {}
    for line in DATA.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        assert entry["id"] not in cases, f"case {entry['id']} stands twice in {DATA.name}"
        cases[entry["id"]] = Case(
            id=entry["id"],
            kind=entry["kind"],
            description=entry["description"],
            program=entry["program"],
            naive=entry.get("naive"),
            tolerance=Tolerance(**entry["tolerance"]),
            check=entry["check"],
            as_constant=frozenset(entry.get("as_constant") or ()),
        )
    return cases


def difference(actual: Any, expected: Any, tolerance: Tolerance) -> str | None:
    """What sets two answers apart, or None if they agree."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return f"shape {actual.shape}, expected {expected.shape}"
    if tolerance.dtype_exact and actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}, expected {expected.dtype}"
    if "f" not in (actual.dtype.kind, expected.dtype.kind):
        wrong = actual != expected
    else:
        with np.errstate(all="ignore"):
            wrong = ~np.isclose(
                actual.astype(np.float64),
                expected.astype(np.float64),
                rtol=tolerance.rtol,
                atol=tolerance.atol,
                equal_nan=tolerance.equal_nan,
            )
        if tolerance.signed_zero:
            signs = np.signbit(actual) != np.signbit(expected)
            wrong = wrong | (signs & ~np.isnan(expected))
    if not np.any(wrong):
        return None
    where = tuple(int(k) for k in np.argwhere(wrong)[0])
    found, wanted = actual[where], expected[where]
    return f"{int(np.sum(wrong))} elements; at {where} {found!r}, expected {wanted!r}"


def assert_agree(actual: Sequence[Any], expected: Sequence[Any], tolerance: Tolerance) -> None:
    """Assert that two lists of answers agree pairwise."""
    assert len(actual) == len(expected), f"{len(actual)} outputs, expected {len(expected)}"
    faults = [
        f"output {k}: {fault}"
        for k, pair in enumerate(zip(actual, expected, strict=True))
        if (fault := difference(*pair, tolerance)) is not None
    ]
    assert not faults, "\n".join(faults)
