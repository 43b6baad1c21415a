"""Looking at a program: its levels, its memory, why it is as it is, and what it measures."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphc.base.errors import GraphcError, GraphError
from graphc.base.options import Options
from graphc.base.paths import check_writable
from graphc.base.source import caller
from graphc.base.words import is_count, shown
from graphc.compiling.compiled import Compiled
from graphc.compiling.extraction import Extraction
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import symbol_name
from graphc.ir.graph import Graph
from graphc.ir.value import Value
from graphc.kernel.ir import Kernel
from graphc.kernel.printer import print_kernel
from graphc.plan.printer import symbols_in
from graphc.plan.serialize import StoredKernel

if TYPE_CHECKING:
    import networkx

    from graphc.base.source import Location
    from graphc.checking.audit import Audit
    from graphc.debug.explain import Explainer, Explanation, Fusion
    from graphc.debug.profile import Profile
    from graphc.debug.recomputation import Recomputation
    from passes.infra.manager import PassRecord


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a program's temporaries take; sizes in bytes at the dims given.

    Attributes:
        peak_bytes: the arena.
        unplanned_bytes: the sum of all temporaries, as if each had memory of its own.
        lower_bound_bytes: the largest sum of temporaries alive at once.
    """

    peak_bytes: int
    unplanned_bytes: int
    lower_bound_bytes: int


class Inspected(ABC):
    """What can be looked at: how it was compiled, and what a run of it measures.

    Nothing here writes a variable.

    Attributes:
        extraction: what was compiled.
        options: what it was compiled with.
        last_profile: what ``profile`` measured last; None before.
    """

    extraction: Extraction
    options: Options
    last_profile: Profile | None = None

    @property
    @abstractmethod
    def compiled(self) -> Compiled:
        """The graphs, the plan and the machine code."""

    @abstractmethod
    def inputs(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Array]:
        """The arrays of a call as its program takes them: feeds, and variables' present values.

        Raises:
            FeedError: as a call does.
        """

    @property
    def source(self) -> Graph:
        """The graph as extracted: what the fetches need, functional."""
        return self.extraction.graph

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
        kernels: tuple[Any, ...] = self.compiled.plan.kernels
        return tuple([each.whole if isinstance(each, StoredKernel) else each for each in kernels])

    def kernel_ir(self) -> str:
        """The text of all kernels: loops over scalars."""
        return "\n".join(map(print_kernel, self.kernels))

    @property
    def memory(self) -> MemoryUse:
        """Memory of temporaries; for symbolic dims at the sizes planned for."""
        return self.memory_at()

    def memory_at(self, **dims: int) -> MemoryUse:
        """Memory of temporaries at given sizes of the symbolic dims.

        Raises:
            GraphError: if the dims are not those of the program, or a size is none.
        """
        plan = self.compiled.plan
        layout = plan.layout
        assert layout is not None
        if not dims:
            solution = layout.solution
            return MemoryUse(solution.peak, sum(layout.sizes), solution.lower_bound)
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

        return MemoryUse(*bytes_at(plan, dims))

    @property
    def recomputation(self) -> Recomputation:
        """What is computed again for a memory limit or ``gx.checkpoint``; print it."""
        from graphc.debug.recomputation import recomputation_of

        return recomputation_of(self.compiled, self.options)

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

        arrays = self.inputs(arguments, named)
        return audit(self.extraction, self.compiled, self.options, arrays, precision)

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
        from graphc.debug.explain import Explainer

        return Explainer(self.extraction.graph, self.compiled, self.options, place)

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
        from graphc.debug.profile import profiled

        arrays = self.inputs(arguments, named)
        program = self.compiled.program
        into: dict[int, Array] = {}
        if program.plan.commit is not None:
            places = self.extraction.renewed
            into = {new: arrays[old] for old, new in places if old is not None}
        self.last_profile = profiled(program, arrays, runs, into)
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
        from graphc.debug.report import write_report

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

        arrays = self.inputs(arguments, named)
        options, target = self.options, self.compiled.target
        states = len(self.extraction.states)
        outcome: Outcome
        try:
            outcome = self.compiled.program.run(arrays)
        except GraphcError as error:
            outcome = error
        capture(path, Case(self.source, tuple(arrays), states, options, target), outcome)


__all__ = ["Inspected", "MemoryUse"]
