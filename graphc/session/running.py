"""Runs of programs with the variables of a session, which its executables share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.base.errors import GraphcError, NumericsError
from graphc.base.options import Options
from graphc.base.source import caller
from graphc.compiling.compiled import Compiled
from graphc.compiling.extraction import Extraction
from graphc.compiling.tiers import Compilation
from graphc.ir.attributes import Array
from graphc.runtime.trips import Stacked
from graphc.session.variable_store import Holdings


class Running:
    """What executables know of their session.

    Attributes:
        options: what it compiles with.
        holdings: the values that its variables have.
        compilations: what it has compiled, in order.
    """

    __slots__ = ("compilations", "holdings", "options")

    def __init__(self, options: Options, holdings: Holdings) -> None:
        self.options = options
        self.holdings = holdings
        self.compilations: list[Compilation] = []

    def execute(
        self,
        extraction: Extraction,
        compiled: Compiled,
        arrays: Sequence[Array],
        into: Mapping[int, Array] | None = None,
    ) -> list[Array]:
        """Runs a program with the variables and commits what it writes.

        Results whose position ``into`` gives an array are written to it.

        Raises:
            NumericsError: if ``check_numerics`` is on and a result is not finite; nothing is
                committed then.
        """
        if not extraction.written:
            return self._results(extraction, compiled, arrays, into)
        return self.holdings.run_and_commit(
            self._results,
            (extraction, compiled, arrays, into),
            extraction,
            compiled.plan,
            not self.options.check_numerics,
        )

    def execute_many(
        self,
        extraction: Extraction,
        compiled: Compiled,
        operands: tuple[Sequence[Stacked], Sequence[Stacked]],
        first: int,
        count: int,
    ) -> tuple[int, BaseException | None]:
        """Runs in a row, as ``Holdings.run_trips`` does; one at a time where each is checked."""
        if not self.options.check_numerics:
            return self.holdings.run_trips(compiled.program, extraction, operands, first, count)
        feeds, results = operands
        for step in range(first, first + count):
            into = {position: result.at(step) for position, result in enumerate(results)}
            try:
                self.execute(extraction, compiled, [feed.at(step) for feed in feeds], into)
            except GraphcError as error:
                return step - first, error
        return count, None

    def _results(
        self,
        extraction: Extraction,
        compiled: Compiled,
        arrays: Sequence[Array],
        into: Mapping[int, Array] | None = None,
    ) -> list[Array]:
        """The fetches and the new values of what is written, which is not committed."""
        inputs = self.holdings.inputs(extraction, arrays)
        results = self.holdings.results(compiled.program, extraction, inputs, into)
        if self.options.check_numerics:
            _check_numerics(extraction, compiled, inputs, results)
        return results


def _check_numerics(
    extraction: Extraction,
    compiled: Compiled,
    arrays: Sequence[Array],
    results: Sequence[Array],
) -> None:
    from graphc.debug.nonfinite import first_wrong, origin

    wrong = first_wrong(results)
    if wrong is None:
        return
    found = origin(compiled.graph, arrays, results)
    if found is not None:
        what = "a result"
        number = wrong - len(results) + len(extraction.written)
        if number >= 0:
            what = f"the new value of {extraction.written[number].name or 'a variable'}"
        raise NumericsError(f"{what} is not finite: {found.text}", where=found.where or caller())


__all__ = ["Running"]
