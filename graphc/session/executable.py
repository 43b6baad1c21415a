"""A compiled fetch list: what ``session.compile`` gives and ``session.run`` keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from graphc.base.errors import GraphcError, GraphError, UnsupportedError
from graphc.base.lazily import once
from graphc.base.paths import check_writable
from graphc.base.source import caller
from graphc.base.words import is_count, plural, shown
from graphc.compiling.compiled import Compiled
from graphc.compiling.tiers import Compilation, Tier, Tiers, seconds_of
from graphc.extract import Extraction
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import symbol_name
from graphc.ir.graph import Graph
from graphc.ir.value import Value
from graphc.kernel.ir import Kernel
from graphc.kernel.printer import print_kernel
from graphc.plan.printer import symbols_in
from graphc.runtime.program import ArenaTooLarge
from graphc.session.fast_call import CALL_SIGNATURE, Called, Calling
from graphc.session.feeds import arguments_by_place, converted_feed
from graphc.session.output_arrays import arranged, targets_of

if TYPE_CHECKING:
    import networkx

    from graphc.base.options import Options
    from graphc.base.source import Location
    from graphc.checking.audit import Audit
    from graphc.inspect.explain import Explainer, Explanation, Fusion
    from graphc.inspect.profile import Profile
    from graphc.session.session import Session
    from passes.infra.manager import PassRecord


@dataclass(frozen=True, slots=True)
class Memory:
    """What a program's temporaries take; sizes in bytes at the dims given.

    Attributes:
        peak_bytes: the arena.
        unplanned_bytes: the sum of all temporaries, as if each had memory of its own.
        lower_bound_bytes: the largest sum of temporaries alive at once.
    """

    peak_bytes: int
    unplanned_bytes: int
    lower_bound_bytes: int


class Executable(Called):
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
        last_profile: what ``profile`` measured last; None before.
    """

    def __init__(
        self,
        session: Session,
        fetches: Any,
        extraction: Extraction,
        tiers: Tiers,
        feeds: Sequence[Value],
        results: int,
    ) -> None:
        self._session = session
        self._fetches = fetches
        self._extraction = extraction
        self._results = results
        self._tiers = tiers
        self.feeds = tuple(feeds)
        self.last_profile: Profile | None = None
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

        session = self._session
        if session.options.check_numerics:
            return self._careful
        calling = Calling(
            self.compiled.program,
            self._fetches,
            len(self.feeds),
            [position for _, position in self._needed],
            self._extraction,
            session.holdings,
            self._careful,
        )
        with caching(session.options.cache):
            return calling.direct()

    def _converted(
        self, arguments: Sequence[Any], named: Mapping[str, Any] = MappingProxyType({})
    ) -> list[Array]:
        """The arrays to run with, in the order of the extraction."""
        feeds = [(value.name, str(value.type)) for value in self.feeds]
        needed = [place for _, place in self._needed]
        given = arguments_by_place(arguments, named, feeds, needed)
        return [converted_feed(value, given[place]) for value, place in self._needed]

    @once
    def _needed(self) -> list[tuple[Value, int]]:
        """Each value to feed and its position among the arguments."""
        order = {id(value): position for position, value in enumerate(self.feeds)}
        return [(value, order[id(value)]) for value in self._extraction.feeds]

    def run(self, arrays: Sequence[Array], into: Mapping[int, Array] | None = None) -> list[Array]:
        """Runs with converted feeds, in the order of the extraction; commits variables.

        Results whose position ``into`` gives an array are written to it.
        """
        execute, extraction = self._session.execute, self._extraction
        try:
            results = execute(extraction, self._tiers.current, arrays, into)
        except ArenaTooLarge:
            results = execute(extraction, self.compiled, arrays, into)
        self._tiers.answered()
        return results[: self._results]

    def arranged(self, results: Sequence[Array]) -> Any:
        """Results in the structure of the fetches; effects give None."""
        return arranged(self._fetches, results)

    def arranged_as(self, fetches: Any) -> Executable:
        """The same program giving its results in another structure of the same values."""
        if fetches is self._fetches:
            return self
        return Executable(
            self._session, fetches, self._extraction, self._tiers, self.feeds, self._results
        )

    def with_feeds(self, feeds: Sequence[Value]) -> Executable:
        """The same program taking its arguments in another order."""
        return Executable(
            self._session, self._fetches, self._extraction, self._tiers, feeds, self._results
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

    # --- looking ---------------------------------------------------------------------------------

    @property
    def needed(self) -> tuple[Value, ...]:
        """The values that must be fed, in the order ``run`` takes them."""
        return self._extraction.feeds

    @property
    def variables(self) -> tuple[Value, ...]:
        """The variables that a call reads or gives new values."""
        return tuple(dict.fromkeys((*self._extraction.states, *self._extraction.written)))

    @property
    def source(self) -> Graph:
        """The graph as extracted: what the fetches need, functional."""
        return self._extraction.graph

    @property
    def graph(self) -> Graph:
        """The graph after all passes: fused nodes, each a kernel or several."""
        return self.compiled.graph

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        """One record a pass: name, seconds, nodes before and after, decisions.

        For a program from the cache the passes run when this, or ``graph``, is first asked for.
        """
        return self.compiled.records

    @property
    def options(self) -> Options:
        """What it was compiled with."""
        return self._session.options

    @property
    def recompilations(self) -> tuple[Compilation, ...]:
        """What its session has compiled since this program, and why."""
        known = self._session.compilations
        own = next(n for n, made in enumerate(known) if made.tiers is self._tiers)
        return tuple(known[own + 1 :])

    def pass_table(self) -> str:
        """The passes as a table for people: nodes before and after, decisions made, ms."""
        from passes.infra.manager import pass_table

        table = pass_table(self.passes)
        if self.compiled.from_cache:
            return f"{table}\nThe program came from the cache: the passes ran to be shown here."
        return table

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The distinct kernels, as data; ``kernel_ir`` is their text."""
        return self.compiled.plan.kernels

    def kernel_ir(self) -> str:
        """The text of all kernels: loops over scalars."""
        return "\n".join(map(print_kernel, self.kernels))

    @property
    def memory(self) -> Memory:
        """Memory of temporaries; for symbolic dims at the sizes planned for."""
        return self.memory_at()

    def memory_at(self, **dims: int) -> Memory:
        """Memory of temporaries at given sizes of the symbolic dims.

        Raises:
            GraphError: if the dims are not those of the program, or a size is none.
        """
        plan = self.compiled.plan
        layout = plan.layout
        assert layout is not None
        if not dims:
            solution = layout.solution
            return Memory(solution.peak, sum(layout.sizes), solution.lower_bound)
        known = [symbol_name(symbol) for symbol in symbols_in(plan)]
        if sorted(dims) != sorted(known):
            given, names = ", ".join(dims), ", ".join(known) or "none"
            raise GraphError(
                f"sizes of {given} are given; the symbolic dims of this program are {names}",
                where=caller(),
                hint="give a size for each of them, or no size at all",
            )
        for name, size in dims.items():
            if not is_count(size, 0):
                raise GraphError(
                    f"the size of {name} is {shown(size)}",
                    where=caller(),
                    hint="a size is an int of at least 0",
                )
        from passes.memory.arena import bytes_at

        return Memory(*bytes_at(plan, dims))

    def audit(self, /, *arguments: Any, precision: str = "float64", **named: Any) -> Audit:
        """How far results are from what the program means, line by line; see ``checking.audit``.

        Runs once on the arguments and the variables' present values; writes no variable.

        Args:
            arguments: the feeds, in order, as for a call.
            precision: of the numbers to compare with, ``float64`` or ``double-double``.
            named: further feeds by name.

        Raises:
            FeedError: as a call does.
            GraphError: for another precision.
            UnsupportedError: for an op that those numbers don't have.
        """
        from graphc.checking.audit import audit

        states = self._session.get(list(self._extraction.states))
        arrays = [*self._converted(arguments, named), *states]
        return audit(self._extraction, self.compiled, self._session.options, arrays, precision)

    def explain(self, value: Value | str) -> Explanation:
        """What the compiler did to a value: rules, fusion, kernel, memory; print it.

        Raises:
            NameLookupError: for a name that not exactly one value of the program bears.
            GraphError: for a value that the program does not compute.
        """
        return self._explainer(caller()).explain(value)

    def why_not_fused(self, a: Value | str, b: Value | str) -> Fusion:
        """Whether one kernel computes both values, and if not, why; print it, or test its truth.

        Raises:
            NameLookupError: for a name that not exactly one value of the program bears.
            GraphError: for a value that the program does not compute.
        """
        return self._explainer(caller()).why_not_fused(a, b)

    def _explainer(self, place: Location | None) -> Explainer:
        from graphc.inspect.explain import Explainer

        return Explainer(self._extraction.graph, self.compiled, self._session.options, place)

    def llvm_ir(self) -> str:
        """The LLVM text of all kernels."""
        return self.compiled.llvm_ir

    def assembly(self) -> str:
        """The machine code of all kernels, as assembly text."""
        from graphc.runtime.jit import assembly

        return assembly(self.llvm_ir(), self.compiled.target)

    def profile(self, /, *arguments: Any, runs: int = 20, **named: Any) -> Profile:
        """Times each kernel; ``report`` shows the last measurement.

        The program is run once to warm up and then ``runs`` times, step by step from Python, which
        adds about a microsecond to each launch. Variables keep their values: runs have copies of
        them, which they renew in place if the program does.

        Args:
            arguments: the feeds, as for a call.
            runs: how many runs to time; for each kernel the median over them counts.
            named: further feeds by name.

        Raises:
            FeedError: as a call does.
            GraphError: for what is no number of runs above 0.
        """
        if not is_count(runs, 1):
            raise GraphError(
                f"runs={shown(runs)}", where=caller(), hint="give an int: time at least 1 run"
            )
        from graphc.inspect.profile import profiled

        arrays = self._converted(arguments, named)
        states = self._session.get(list(self._extraction.states))
        program = self.compiled.program
        into: dict[int, Array] = {}
        if program.plan.commit is not None:
            places = self._extraction.renewed
            into = {new: states[old - len(arrays)] for old, new in places if old is not None}
        self.last_profile = profiled(program, [*arrays, *states], runs, into)
        return self.last_profile

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page that shows the whole compilation; it needs no network.

        The page has every pass with the graph before and after it, the kernels down to their
        assembly, the memory plan, and times of kernels if ``profile`` was called before.

        Raises:
            GraphError: for what is no path.
            FileError: if the file can't be written, as where its folder is missing.
        """
        check_writable(path, "a report")
        from graphc.inspect.report import write_report

        write_report(self.compiled, path, self.last_profile)

    def to_networkx(self) -> networkx.MultiDiGraph[int]:
        """The graph after all passes for networkx, as ``Graph.to_networkx`` describes."""
        return self.graph.to_networkx()

    def to_dot(self) -> str:
        """The graph after all passes in Graphviz's language."""
        return self.graph.to_dot()

    def to_svg(self) -> str:
        """The graph after all passes drawn, as the text of an SVG file."""
        return self.graph.to_svg()

    def _repr_html_(self) -> str:
        from graphc.ir.draw.html import html_of, table
        from graphc.ir.draw.svg import text

        rows = [
            (
                record.name,
                str(record.nodes_before),
                str(record.nodes_after),
                str(record.made),
                f"{record.seconds * 1e3:.2f}",
            )
            for record in self.passes
        ]
        head = ("pass", "nodes before", "nodes after", "decisions", "ms")
        passes = f"<details><summary>Passes</summary>{table(head, rows)}</details>"
        title = f"<div><code>{text(repr(self))}</code></div>"
        return f"{title}\n{html_of(self.graph)}\n{passes}"

    def capture(self, path: str | os.PathLike[str], /, *arguments: Any, **named: Any) -> None:
        """Runs once and writes all that this depends on, and what came of it, to a replay capsule.

        Variables keep their values, whatever the run assigns. A run that ends with an error is
        captured too. See ``graphc replay``.

        Args:
            path: the file, by habit ``*.gxr``; readable for its owner only.
            arguments: the feeds, as for a call.
            named: further feeds by name.

        Raises:
            FeedError: as a call does.
            GraphError: for what is no path.
            FileError: if the file can't be written, as where its folder is missing.
        """
        check_writable(path, "a capsule")
        from graphc.debug.capsule import capture
        from graphc.debug.case import Case, Outcome

        arrays = self._converted(arguments, named)
        arrays += self._session.get(list(self._extraction.states))
        options, target = self._session.options, self.compiled.target
        states = len(self._extraction.states)
        outcome: Outcome
        try:
            outcome = self.compiled.program.run(arrays)
        except GraphcError as error:
            outcome = error
        capture(path, Case(self.source, tuple(arrays), states, options, target), outcome)

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
