"""What a numerics audit found: data, and a table for people."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from graphc.base.source import Location
from graphc.checking.audit.measure import EventKind


@dataclass(frozen=True, slots=True)
class LineError:
    """The errors of the values that one line of the user's makes.

    Attributes:
        where: the line, None for values made for no line.
        operations: the ops it builds that give floats.
        elements: how many numbers were compared; a line in a loop counts at every turn.
        max_ulp: the largest error of a value, in units of the last place of its dtype.
        mean_ulp: the mean over the elements whose error is finite.
        own_ulp: the largest error that one of the ops makes itself, given exactly the operands
            that it got; what lies above it was inherited.
        index: the element of the largest error.
        computed: what was computed there.
        exact: what its shadow is.
    """

    where: Location | None
    operations: tuple[str, ...]
    elements: int
    max_ulp: float
    mean_ulp: float
    own_ulp: float
    index: tuple[int, ...]
    computed: float
    exact: float


@dataclass(frozen=True, slots=True)
class Event:
    """Something that went wrong in a node, and had not before.

    Attributes:
        kind: ``cancellation`` (digits lost in a sum of terms that nearly cancel, where the error
            shows it), ``overflow``, ``underflow``, ``pole`` (a division by zero or the like) or
            ``invalid`` (NaN of numbers).
        operation: the op.
        where: the user's line.
        count: in how many elements.
        index: the first of them, the worst one for cancellation.
        bits: for cancellation, how many bits are lost there.
        detail: the numbers.
        in_gradient: whether the node is of the derivative of what the line builds.
        trips: of each loop around it, the outermost first, the trip in which it happened first,
            counted from 0.
    """

    kind: EventKind
    operation: str
    where: Location | None
    count: int
    index: tuple[int, ...]
    bits: float
    detail: str
    in_gradient: bool = False
    trips: tuple[int, ...] = ()

    def __str__(self) -> str:
        lost = f" of {self.bits:.0f} bits" if self.kind == "cancellation" else ""
        several = f" and in {self.count - 1} more" if self.count > 1 else ""
        place = f" at {list(self.index)}" if self.index else ""
        trips = " of ".join(f"trip {trip}" for trip in reversed(self.trips))
        first = f", first in {trips}" if trips else ""
        part = "the gradient of " if self.in_gradient else ""
        return (
            f"{self.kind}{lost} in {self.operation}: {self.detail}{place}{several}{first}, "
            f"{part}{self.where or 'no line'}"
        )


@dataclass(frozen=True, slots=True)
class ResultError:
    """The error of a result of the program as it is compiled.

    Attributes:
        name: its name, or which result it is.
        max_ulp, mean_ulp: as of a line.
        strict_ulp: the largest error of the same result under ``numerics="strict"``.
    """

    name: str
    max_ulp: float
    mean_ulp: float
    strict_ulp: float


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a rewrite that may change bits did to the results.

    Attributes:
        rewrite: its name, as ``Options(off=...)`` takes it.
        where: the lines it was applied at.
        max_ulp: the largest error, with it, of a result that it changes; of any result if it
            changes none.
        without_ulp: the same with this rewrite switched off.
        changed: in how many elements of the results it changes bits.
    """

    rewrite: str
    where: tuple[Location, ...]
    max_ulp: float
    without_ulp: float
    changed: int

    def __str__(self) -> str:
        lines = ", ".join(map(str, self.where)) or "no line"
        effect = f"{_ulp(self.max_ulp)} ulp with it, {_ulp(self.without_ulp)} without"
        several = "elements change" if self.changed > 1 else "element changes"
        bits = f"{self.changed} {several}" if self.changed else "no bits change"
        return f"{self.rewrite}: {effect}, {bits}, {lines}"


@dataclass(frozen=True, slots=True)
class Audit:
    """The report of a numerics audit; its text is a table.

    Attributes:
        precision: the arithmetic of the shadow.
        lines: the errors line by line, in the order of the program.
        events: what went wrong, in the order of the program.
        results: the errors of the results.
        rewrites: what each rewrite that may change bits contributed.
        unmeasured: how many values are of a dtype no narrower than the shadow.
    """

    precision: str
    lines: tuple[LineError, ...]
    events: tuple[Event, ...]
    results: tuple[ResultError, ...]
    rewrites: tuple[Contribution, ...]
    unmeasured: int

    @property
    def max_ulp(self) -> float:
        """The largest error of a result, NaN if none was measured."""
        return max((result.max_ulp for result in self.results), default=math.nan)

    def __str__(self) -> str:
        lines = [f"numerics audit: errors in ulp against {self.precision}"]
        lines.append(f"{'max':>10} {'mean':>10} {'own':>10} {'elements':>10}  line")
        for line in self.lines:
            numbers = " ".join(
                f"{_ulp(number):>10}" for number in (line.max_ulp, line.mean_ulp, line.own_ulp)
            )
            names = ", ".join(line.operations)
            lines.append(f"{numbers} {line.elements:>10}  {line.where or 'no line'}: {names}")
        if not self.lines:
            lines.append("    nothing to compare")
        for title, rows in (
            ("events", self.events),
            ("results", [_result_text(result) for result in self.results]),
            ("rewrites that may change bits", self.rewrites),
        ):
            if rows:
                lines += [f"{title}:", *(f"  {row}" for row in rows)]
        if self.unmeasured:
            lines.append(
                f"{self.unmeasured} values are no narrower than {self.precision} and not measured; "
                'precision="double-double" does it'
            )
        return "\n".join(lines)


def _result_text(result: ResultError) -> str:
    strict = "" if result.strict_ulp == result.max_ulp else (
        f' ({_ulp(result.strict_ulp)} under numerics="strict")'
    )  # fmt: skip
    return f"{result.name}: max {_ulp(result.max_ulp)}, mean {_ulp(result.mean_ulp)}{strict}"


def _ulp(number: float) -> str:
    """Two places after the point; long numbers in powers of ten."""
    if math.isnan(number):
        return "unknown"
    form: Callable[[float], str] = "{:.2f}".format if number < 1000 else "{:.2e}".format
    return form(number)
