"""The program of an extraction: from the cache, or compiled and put there.

Invariant: what can be had from the cache is not compiled, and neither passes nor code generation
are loaded for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphc.base.errors import UnsupportedError
from graphc.base.options import Options
from graphc.base.target import Target, require_here
from graphc.base.tuning.running import RUNNING
from graphc.compiling.cached.entries import content_of, loaded_from
from graphc.compiling.cached.keys import Labels, program_key, program_realm, refused, shows_passes
from graphc.compiling.compiled import Compiled, Levels, uncollected
from graphc.compiling.extraction import Extraction
from graphc.compiling.tiers import MOST_BASELINE_BYTES, Poll, Tiers
from graphc.ops.control import while_op
from graphc.runtime.cache import Cache, cache_of, caching
from graphc.runtime.program import Program


def compiled_program(extraction: Extraction, options: Options, target: Target) -> Tiers:
    """The program of an extraction.

    Raises:
        UnsupportedError: for a target that this machine cannot run.
    """
    require_here(target)
    entries: _Entries | None = None
    kept = cache_of(options.cache)
    if kept is None:
        reason = "off"
    else:
        labels = Labels(extraction.graph)
        refusal = refused(labels, options)
        if refusal is None:
            entries = _Entries(extraction, options, target, kept, labels)
        reason = refusal or ""
    if entries is not None:
        known, reason = entries.find(options.optimize)
        if known is not None:
            return Tiers(known, reason)
    job = _Job(extraction, options, target, reason, entries)
    return job.in_two_steps() if _begins_small(extraction, options) else job.at_once()


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """What is to be compiled. Passes and code generation are loaded here: a hit needs neither.

    Attributes:
        reason: why there was no program in the cache.
        entries: where programs are kept, if they are.
    """

    extraction: Extraction
    options: Options
    target: Target
    reason: str
    entries: _Entries | None

    def at_once(self) -> Tiers:
        """The full program."""
        from graphc.compiling.compiler import compile_graph

        with caching(self.options.cache):
            compiled = compile_graph(self.extraction, self.options, self.target)
            return Tiers(compiled, self._kept(compiled))

    def in_two_steps(self) -> Tiers:
        """A first program, and the way to the full one.

        The first one is kept too, for processes that end before there is more.
        """
        known = None
        if self.entries is not None:
            known = self.entries.find(0, MOST_BASELINE_BYTES)[0]
        if known is not None:
            return Tiers(known, f"{self.reason}; the first program was there", self._from_graph)
        from graphc.compiling.compiler import Prepared, finished, prepared

        @uncollected
        def begun() -> tuple[Prepared, Compiled]:
            with caching(self.options.cache):
                given = prepared(self.extraction, self.options, self.target)
                return given, finished(given.at_baseline())

        given, first = begun()

        def later(poll: Poll) -> tuple[Compiled, str]:
            with caching(self.options.cache):
                if self.entries is not None:
                    self.entries.keep(first, 0)
                compiled = finished(given.in_background(poll))
                return compiled, self._kept(compiled)

        return Tiers(first, self.reason, later)

    def _from_graph(self, poll: Poll) -> tuple[Compiled, str]:
        """The full program where only the first one was in the cache."""
        from graphc.compiling.compiler import finished, prepared

        with caching(self.options.cache):
            given = prepared(self.extraction, self.options, self.target)
            compiled = finished(given.in_background(poll))
            return compiled, self._kept(compiled)

    def _kept(self, compiled: Compiled) -> str:
        """Keeps the full program; says what there is to say of it."""
        if self.entries is None:
            return self.reason
        refused = self.entries.keep(compiled, self.options.optimize)
        return f"{self.reason}; {refused}" if refused else self.reason


class _Entries:
    """The programs of one extraction in the cache, one for each level of ``optimize``."""

    def __init__(
        self,
        extraction: Extraction,
        options: Options,
        target: Target,
        kept: Cache,
        labels: Labels,
    ) -> None:
        self._extraction, self._options, self._target = extraction, options, target
        self._kept, self._labels = kept, labels
        self._realm = program_realm(target)

    def _key(self, level: int) -> str:
        return program_key(self._extraction, self._options, self._labels, min(level, 2))

    def find(self, level: int, most_bytes: int | None = None) -> tuple[Compiled | None, str]:
        """The program, if it is there, and "hit" or why it is not."""
        found = self._kept.get(self._realm, self._key(level))
        if found.content is None:
            return None, found.reason
        extraction, target, threads = self._extraction, self._target, self._options.thread_count
        loaded = loaded_from(found.content, extraction.graph, self._labels, target, self._kept)
        if loaded is None:
            return None, "no entry of its machine code"
        made = _LevelsOnDemand(extraction, replace(self._options, optimize=level), target)
        program = Program(*loaded, threads, most_bytes)
        return Compiled(extraction.graph, program, target, made, from_cache=True), found.reason

    def keep(self, compiled: Compiled, level: int) -> str | None:
        """Puts a program there; says why it can't be, if so."""
        try:
            content = content_of(compiled, self._labels)
        except UnsupportedError as error:
            return f"not kept: {error.message}"
        kept = self._kept.put(self._realm, self._key(level), content)
        return None if kept else self._kept.refused


def _begins_small(extraction: Extraction, options: Options) -> bool:
    """Whether small kernels should answer until the program is compiled.

    Not where there are loops: a run ends with the kernels that it began with, and there may be many
    trips. Nor under a memory limit: only the full program is planned for it, and the error that
    nothing fits comes when it is compiled.
    """
    if options.optimize != 2 or shows_passes(options) is not None or options.memory_limit:
        return False
    many = RUNNING.two_programs_nodes
    nodes = list(extraction.graph.walk())
    return len(nodes) >= many and not any(node.op is while_op for node in nodes)


@dataclass(frozen=True, slots=True, eq=False)
class _LevelsOnDemand:
    """Runs the passes of a program from the cache, for those who want to see them."""

    extraction: Extraction
    options: Options
    target: Target

    def __call__(self) -> Levels:
        from graphc.compiling.compiler import levels_of

        return levels_of(self.extraction, self.options, self.target)
