"""A compiled fetch list: what ``session.compile`` gives and ``session.run`` keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from graphc.base.errors import GraphcError, UnsupportedError
from graphc.base.lazily import once
from graphc.base.options import Options
from graphc.base.source import caller
from graphc.base.words import plural
from graphc.compiling.compiled import Compiled
from graphc.compiling.extraction import Extraction
from graphc.compiling.tiers import Compilation, Tier, Tiers, seconds_of
from graphc.ir.attributes import Array
from graphc.ir.value import Value
from graphc.runtime.program import ArenaTooLarge
from graphc.runtime.trips import Stacked
from graphc.session.fast_call import CALL_SIGNATURE, Called, Calling
from graphc.session.feeds import arguments_by_place, converted_feed
from graphc.session.inspection import Inspected
from graphc.session.many_runs import name_step, portions
from graphc.session.output_arrays import arranged, targets_of
from graphc.session.running import Running


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """What a library is written of.

    Attributes:
        extraction: the graph.
        fetches: the structure of the results, with a value for each.
        feeds: what the positional arguments stand for.
        variables: the variables that a call reads or writes, with values of one moment.
        options: what it was compiled with.
    """

    extraction: Extraction
    fetches: Any
    feeds: tuple[Value, ...]
    variables: Mapping[Value, Array]
    options: Options


class Executable(Called, Inspected):
    """A compiled fetch list of a session; call it with the feeds in order, or by name.

    ``executable(*arrays, out=None, **named)`` runs once; results come in the structure of the
    fetches. In ``out`` may be arrays to write them to, in the same structure, with None for what is
    to be a fresh array. They must have the results' dtypes and shapes, be contiguous and share no
    memory with each other or the arguments. They are what is returned. After an error their content
    is undefined. A call raises FeedError for a missing, unknown or repeated argument, one that does
    not fit, or an array of ``out`` that can't take its result. A feed called "out" is given by
    position.

    Attributes:
        feeds: the values that the positional arguments stand for.

    How it was compiled can be looked at with what ``Inspected`` has.
    """

    def __init__(
        self,
        running: Running,
        fetches: Any,
        extraction: Extraction,
        tiers: Tiers,
        feeds: Sequence[Value],
        results: int,
    ) -> None:
        self._running = running
        self._fetches = fetches
        self.extraction = extraction
        self.options = running.options
        self._results = results
        self._tiers = tiers
        self.feeds = tuple(feeds)
        self.__call__ = self._first
        self.__signature__ = CALL_SIGNATURE

    def _first(self, /, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """The first call, and those until the full program is there.

        Native code for calls is made by the next one: many programs run once.
        """
        if self.tier == "full":
            self.__call__ = self._second
        return self._careful(*arguments, out=out, **named)

    def _second(self, /, *arguments: Any, out: Any = None, **named: Any) -> Any:
        self.__call__ = self.direct
        return self.direct(*arguments, out=out, **named)

    def _careful(self, /, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """A call that converts what can be, and says what is wrong with the rest."""
        arrays = self._converted(arguments, named)
        into = None if out is None else targets_of(self._fetches, out, arrays)
        return self.arranged(self.run(arrays, into))

    @once
    def direct(self) -> Callable[..., Any]:
        """What calls come to, with as little Python as can be; waits for the full program."""
        from graphc.runtime.cache import caching

        if self.options.check_numerics:
            return self._careful
        calling = Calling(
            self.compiled.program,
            self._fetches,
            len(self.feeds),
            [position for _, position in self._needed],
            self.extraction,
            self._running.holdings,
            self._careful,
        )
        with caching(self.options.cache):
            return calling.direct()

    def _converted(
        self, arguments: Sequence[Any], named: Mapping[str, Any] = MappingProxyType({})
    ) -> list[Array]:
        """The arrays to run with, in the order of the extraction."""
        feeds = [(value.name, str(value.type)) for value in self.feeds]
        needed = [place for _, place in self._needed]
        given = arguments_by_place(arguments, named, feeds, needed)
        return [converted_feed(value, given[place]) for value, place in self._needed]

    def inputs(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Array]:
        """The arrays of a call as its program takes them: feeds, and variables' present values.

        Raises:
            FeedError: as a call does.
        """
        feeds = self._converted(arguments, named)
        return [*feeds, *self._running.holdings.copies([*self.extraction.states])]

    def exported(self) -> Export:
        """What a library is written of."""
        variables = self.variables
        values = self._running.holdings.copies(list(variables))
        known = dict(zip(variables, values, strict=True))
        return Export(self.extraction, self._fetches, self.feeds, known, self.options)

    @once
    def _needed(self) -> list[tuple[Value, int]]:
        """Each value to feed and its position among the arguments."""
        order = {id(value): position for position, value in enumerate(self.feeds)}
        return [(value, order[id(value)]) for value in self.extraction.feeds]

    def run(self, arrays: Sequence[Array], into: Mapping[int, Array] | None = None) -> list[Array]:
        """Runs with converted feeds, in the order of the extraction; commits variables.

        Results whose position ``into`` gives an array are written to it.
        """
        execute, extraction = self._running.execute, self.extraction
        try:
            results = execute(extraction, self._tiers.current, arrays, into)
        except ArenaTooLarge:
            results = execute(extraction, self.compiled, arrays, into)
        self._tiers.answered()
        return results[: self._results]

    def run_many(self, feeds: Sequence[Stacked], steps: int) -> list[Array]:
        """Runs so many times with converted feeds; gives the results of all, stacked.

        Variables are committed after each run. The first one goes the usual way: it tells the
        shapes of the results, and waits for the full program where it must.

        Raises:
            GraphcError: as ``run`` does; says in which step. What ran before is committed.
        """
        execute, extraction = self._running.execute_many, self.extraction
        done = 0
        try:
            firsts = self.run([feed.at(0) for feed in feeds])
            results = [Stacked(np.empty((steps, *one.shape), one.dtype)) for one in firsts]
            for result, one in zip(results, firsts, strict=True):
                result.array[0] = one
            done = 1
            for count in portions(steps - 1):
                operands = feeds, results
                ran, error = execute(extraction, self._tiers.current, operands, done, count)
                done += ran
                if error is not None:
                    raise error
        except GraphcError as error:
            name_step(error, done)
            raise
        return [result.array for result in results]

    def arranged(self, results: Sequence[Array]) -> Any:
        """Results in the structure of the fetches; effects give None."""
        return arranged(self._fetches, results)

    def arranged_as(self, fetches: Any) -> Executable:
        """The same program giving its results in another structure of the same values."""
        if fetches is self._fetches:
            return self
        return Executable(
            self._running, fetches, self.extraction, self._tiers, self.feeds, self._results
        )

    def with_feeds(self, feeds: Sequence[Value]) -> Executable:
        """The same program taking its arguments in another order."""
        return Executable(
            self._running, self._fetches, self.extraction, self._tiers, feeds, self._results
        )

    # --- waiting ---------------------------------------------------------------------------------

    @property
    def tier(self) -> Tier:
        """Which program answers calls: "baseline", small kernels made at once, or "full"."""
        return self._tiers.tier

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the full program answers, which large programs compile in the background.

        Args:
            timeout: seconds to wait at most.

        Returns:
            Whether it does.

        Raises:
            GraphcError: what compiling it raised, if that failed; or if ``timeout`` is no number.
        """
        return self._tiers.wait(seconds_of(timeout))

    @property
    def compiled(self) -> Compiled:
        """The graphs, the plan and the machine code of the full program, which this waits for."""
        return self._tiers.full

    @property
    def needed(self) -> tuple[Value, ...]:
        """The values that must be fed, in the order ``run`` takes them."""
        return self.extraction.feeds

    @property
    def variables(self) -> tuple[Value, ...]:
        """The variables that a call reads or gives new values."""
        return tuple(dict.fromkeys((*self.extraction.states, *self.extraction.written)))

    @property
    def recompilations(self) -> tuple[Compilation, ...]:
        """What its session has compiled since this program, and why."""
        known = self._running.compilations
        own = next(n for n, made in enumerate(known) if made.tiers is self._tiers)
        return tuple(known[own + 1 :])

    def __copy__(self) -> Executable:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Machine code belongs to its process.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "an executable can be neither pickled nor copied deeply",
            where=caller(),
            hint="pickle its session together with the fetches and compile them again, "
            "or write a library with gx.aot.compile",
        )

    def __repr__(self) -> str:
        plan = self._tiers.current.plan
        counts = (len(self.feeds), "feed"), (len(plan.steps), "step"), (len(plan.kernels), "kernel")
        tier = ", baseline" if self.tier == "baseline" else ""
        return f"<Executable: {', '.join(plural(*count) for count in counts)}{tier}>"
