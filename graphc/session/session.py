"""Sessions: running parts of a graph, with variables kept between runs.

A run executes exactly what the fetches need. It is atomic: new values of variables are committed
together after the last step, so an error or an interrupt leaves every variable as it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from graphc.base.errors import FeedError, GraphError
from graphc.base.forks import lock
from graphc.base.options import Options
from graphc.base.paths import check_writable
from graphc.base.source import caller
from graphc.base.target import Target, host
from graphc.base.words import shown
from graphc.compiling.cached.programs import compiled_program
from graphc.compiling.compiled import uncollected
from graphc.compiling.extraction import Extraction, extract, missing_feed, program_key
from graphc.compiling.tiers import Compilation, Tiers, seconds_of
from graphc.frontend.random_state import own_state, state_of
from graphc.frontend.state import Variable
from graphc.frontend.structure import leaves, rebuild
from graphc.ir.attributes import Array, Payload
from graphc.ir.belonging import how_to_run, origin
from graphc.ir.dims.expressions import Size
from graphc.ir.effect import Effect
from graphc.ir.recorder import Recorder, current_recorder
from graphc.ir.value import Value
from graphc.ops.arguments import switch
from graphc.ops.source import placeholder_op
from graphc.ops.state import variable_op
from graphc.runtime.blocks import copies_of
from graphc.session.call_cache import KnownCalls
from graphc.session.executable import Executable
from graphc.session.feeds import converted_feed, mapping_of
from graphc.session.many_runs import over_batches, stacked_feeds
from graphc.session.running import Running
from graphc.session.variable_store import Holdings

if TYPE_CHECKING:
    from graphc.session.variable_files import Restored

_Key: TypeAlias = tuple[tuple[int, ...], frozenset[int]]
"""The fetches and the fed values of an executable, by identity."""


def _options(given: Options | None, threads: int | None) -> Options:
    """What applies: arguments beat the environment, which beats the defaults."""
    try:
        if given is not None and not isinstance(given, Options):
            raise GraphError(
                f"options={given!r}", hint="give gx.Options, for example gx.Options(verify=True)"
            )
        resolved = Options.resolved(given)
        return resolved if threads is None else replace(resolved, threads=threads)
    except GraphError as error:
        error.where = caller()
        raise


class Session:
    """Runs a graph; holds the values of its variables.

    Safe to use from many threads: runs that write variables exclude each other, readers share and
    see all that a run wrote or nothing of it. Handlers of signals may read variables at any time;
    they can't write them (``GraphError``) in the midst of a run that does.

    Args:
        graph: what to run; the current graph by default.
        threads: how many threads may run a kernel; beats ``options.threads``. All usable CPUs by
            default, as affinity and control groups allow; 1 is the calling thread alone. Results
            do not depend on it to the bit.
        options: an ``Options``; what it leaves at its default may be set by the environment
            variable ``GRAPHC``.
        target: the processor to compile for; this machine's by default.
        seed: an int that the keys of ``gx.random.next_key`` begin with; 0 by default.

    Raises:
        DTypeError: for a seed that is no int.
        GraphError: for what is no graph, options, target or a number of threads that cannot be,
            and for names in ``options`` that no pass or rule has.
        FileError: if a folder that ``options`` names is missing.
    """

    def __init__(
        self,
        graph: Recorder | None = None,
        *,
        threads: int | None = None,
        options: Options | None = None,
        target: Target | None = None,
        seed: int | None = None,
    ) -> None:
        self._state = None if seed is None else state_of(seed)
        self.graph = graph if graph is not None else current_recorder()
        if not isinstance(self.graph, Recorder):
            raise GraphError(
                f"a session runs a gx.Graph, not {type(graph).__name__}",
                where=caller(),
                hint="the graph of a value is value.graph",
            )
        self.options = _options(options, threads)
        for path, what in ((self.options.html, "html"), (self.options.decisions, "decisions")):
            if path is not None:
                check_writable(path, what)
        if self.options.off or self.options.dump:
            from passes.pipeline import NAMES

            NAMES.check(self.options)
        self.threads = self.options.thread_count
        if not isinstance(target, Target | None):
            raise GraphError(
                f"target is {shown(target)}",
                where=caller(),
                hint="give graphc.base.target.host() or named(...), or leave it out",
            )
        self.target = target if target is not None else host()
        self._holdings = Holdings(self._initial)
        self._running = Running(self.options, self._holdings)
        self._compiled: dict[_Key, Executable] = {}
        self._extractions: dict[_Key, Extraction] = {}
        self._calls = KnownCalls()
        self._programs: dict[Hashable, Tiers] = {}
        self._unfiled: list[tuple[Extraction, Tiers]] = []
        self._lock = lock()

    @property
    def compilations(self) -> list[Compilation]:
        """What was compiled, in order, and why."""
        return self._running.compilations

    @property
    def compile_count(self) -> int:
        """How many programs were compiled; ``compilations`` says why."""
        return len(self.compilations)

    # --- context ---------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        self.graph.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.graph.__exit__(kind, error, trace)

    # --- running ---------------------------------------------------------------------------------

    def run(self, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
        """Computes the fetches.

        Args:
            fetches: values, names, effects or nested lists, tuples and dicts of them.
            feeds: arrays by value or name; any value may be fed, and feeds that are not needed
                are accepted. Of those the sizes are checked if what is fetched was derived from
                values that ask for them.

        Returns:
            Fresh arrays in the structure of the fetches; None for effects.

        Raises:
            FeedError: a feed is missing or does not fit.
            NameLookupError: an unknown or ambiguous name.
        """
        revision = self.graph.revision
        for call in self._calls.find(fetches):
            arguments = call.arguments(feeds, revision)
            if arguments is not None:
                return call.function(*arguments)
        executable, values, given = self._asked(fetches, {} if feeds is None else feeds)
        arrays = [converted_feed(*fed) for fed in zip(executable.needed, given, strict=True)]
        results = executable.arranged(executable.run(arrays))
        if executable.tier == "full":
            self._calls.note(fetches, feeds, revision, lambda: executable.with_feeds(values).direct)
        return results

    def run_many(self, fetches: Any, feeds: Any = None, *, steps: int | None = None) -> Any:
        """Computes the fetches in several steps, one after the other, as so many ``run``s do.

        Steps whose feeds are arrays follow each other without Python in between. Each sees what the
        one before it has written, and is atomic: an error or Ctrl-C leaves variables as a whole
        number of steps has made them.

        Args:
            fetches: as for ``run``.
            feeds: arrays by value or name. One that has an axis more than its value has the steps
                in front; others are fed in all steps. Or an iterable that gives the feeds of each
                step as ``run`` takes them.
            steps: how many; with an iterable at most. By default what the feeds have.

        Returns:
            What ``run`` gives, each array with an axis of the steps in front.

        Raises:
            FeedError: as ``run`` does, and where numbers of steps are none or differ.
            ShapeError: where an iterable gives feeds whose results have different shapes.
            GraphcError: what a run raises, whose message begins with the step, counted from 0.
        """
        if feeds is not None and not isinstance(feeds, Mapping) and isinstance(feeds, Iterable):
            return over_batches(lambda batch: self.run(fetches, batch), feeds, steps)
        executable, _, given = self._asked(fetches, {} if feeds is None else feeds)
        return executable.arranged(
            executable.run_many(*stacked_feeds(executable.needed, given, steps))
        )

    def _asked(
        self, fetches: Any, feeds: Mapping[Any, Any]
    ) -> tuple[Executable, list[Value], list[Any]]:
        """The executable, the values that are fed, and what is given for those that it needs."""
        given = self._resolve_feeds(feeds)
        values = [value for value, _ in given.values()]
        executable = self._executable(fetches, values)
        for value in executable.needed:
            if id(value) not in given:
                raise missing_feed(value, self.graph)
        return executable, values, [given[id(value)][1] for value in executable.needed]

    def compile(self, fetches: Any, feeds: Sequence[Any] | None = None) -> Executable:
        """Compiles the fetches into a callable.

        Args:
            fetches: as for ``run``.
            feeds: the positional order of the callable's arguments; by default the placeholders
                that are needed, in the order they were built.

        Raises:
            FeedError: a placeholder that is needed is not in ``feeds``, or one stands there twice.
        """
        if feeds is None:
            return self._executable(fetches, ())
        if isinstance(feeds, str) or not isinstance(feeds, Sequence):
            raise FeedError(
                f"feeds are {shown(feeds)}, not a list",
                where=caller(),
                hint="give a list of values or names, in the order of the arguments",
            )
        positional = [self._value(item) for item in feeds]
        inner = self._executable(fetches, positional)
        known: set[int] = set()
        for value in positional:
            if id(value) in known:
                raise FeedError(
                    f"{value!r} is fed twice", where=caller(), hint="list each value once"
                )
            known.add(id(value))
        for value in inner.needed:
            if id(value) not in known:
                raise missing_feed(value, self.graph)
        return inner.with_feeds(positional)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the full programs of all that was compiled are there; see
        ``Executable.wait``."""
        seconds = seconds_of(timeout)
        end = None if seconds is None else time.monotonic() + seconds
        return all(
            made.tiers.wait(None if end is None else max(0.0, end - time.monotonic()))
            for made in list(self.compilations)
        )

    @uncollected
    def _executable(self, fetches: Any, fed: Sequence[Value]) -> Executable:
        resolved = rebuild(fetches, self._fetch)
        flat = list(leaves(resolved))
        values = [leaf for leaf in flat if isinstance(leaf, Value)]
        effects = [v for leaf in flat if isinstance(leaf, Effect) for v in leaf.values]
        overrides = [value for value in fed if not self._is_placeholder(value)]
        with self._lock:
            key, extraction = self._extracted(values, effects, overrides)
            told = [value for value in fed if value in extraction.telling]
            if told:
                key, extraction = self._extracted(values, effects, [*overrides, *told])
            known = self._compiled.get(key)
            if known is None:
                tiers = self._compile(extraction, self._reason(key, resolved, overrides + told))
                known = Executable(
                    self._running, resolved, extraction, tiers, extraction.feeds, len(values)
                )
                self._compiled[key] = known
        return known.arranged_as(resolved)

    def _extracted(self, *given: Sequence[Value]) -> tuple[_Key, Extraction]:
        """What values, effects and fed ones need, which is worked out once."""
        values, effects, fed = given
        key = (*map(id, values), -1, *map(id, effects)), frozenset(map(id, fed))
        found = self._extractions.get(key)
        if found is None:
            found = extract(self.graph, values, effects, dict.fromkeys(fed))
            self._extractions[key] = found
        return key, found

    def _reason(self, key: _Key, fetches: Any, overrides: Sequence[Value]) -> str:
        """Why nothing compiled before serves a fetch list."""
        shown = ", ".join(_label(leaf) for leaf in leaves(fetches))
        if not any(known[0] == key[0] for known in self._compiled):
            return f"new fetches {shown}"
        fed = ", ".join(map(_label, overrides)) or "placeholders only"
        return f"the fetches {shown} with other values fed: {fed}"

    def _compile(self, extraction: Extraction, reason: str) -> Tiers:
        """The program of an extraction; equal graphs whose errors name the same lines share one."""
        known = self._known(extraction) if self.compilations else None
        if known is None:
            known = compiled_program(extraction, self.options, self.target)
            self.compilations.append(Compilation(reason, caller(), known))
            self._unfiled.append((extraction, known))
            if self.options.html is not None:
                from graphc.debug.report import numbered, write_report

                write_report(known.full, numbered(self.options.html, self.compile_count))
        return known

    def _known(self, extraction: Extraction) -> Tiers | None:
        """A program that serves an extraction too; many sessions have one, which needs no key."""
        for made, tiers in self._unfiled:
            self._programs[program_key(made)] = tiers
        self._unfiled.clear()
        return self._programs.get(program_key(extraction))

    @property
    def holdings(self) -> Holdings:
        """The values that its variables have."""
        return self._holdings

    # --- variables -------------------------------------------------------------------------------

    def _initial(self, variable: Value) -> Array:
        node = self.graph.producer(variable)
        if node is None or node.op is not variable_op:
            raise GraphError(
                f"{variable!r} is not a variable of this session's graph",
                where=caller(),
                hint="fetch values that are computed with session.run",
            )
        if self._state is not None and variable is own_state(self.graph):
            return self._state
        payload: Payload = node.attrs["initial"]
        return payload.array

    def get(self, variable: Any) -> Array:
        """A copy of a variable's present value; nested structures give the same structure."""
        values = rebuild(variable, self._value)
        copies = iter(self._holdings.copies([*leaves(values)]))
        return rebuild(values, lambda leaf: next(copies))  # type: ignore[no-any-return]

    def set(self, values: Mapping[Any, Any]) -> None:
        """Gives variables new values, all or none; the arrays are copied.

        Raises:
            FeedError: a value does not fit its variable.
        """
        new: dict[Value, Array] = {}
        for key, given in mapping_of(values, "new values").items():
            variable = self._value(key)
            if not isinstance(variable, Variable):
                raise GraphError(
                    f"{variable!r} is not a variable",
                    where=caller(),
                    hint="only what gx.variable makes keeps a value between runs",
                )
            new[variable] = converted_feed(variable, given)
        self._holdings.set(dict(zip(new, copies_of([*new.values()]), strict=True)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the present values of all variables of the graph to a file of safetensors.

        These are those that optimisers keep, too, so that a restored session trains on as if it
        had never stopped. The file, which only its owner may read, appears at once and whole.
        The values are those of one moment, whatever runs meanwhile. Of several variables of one
        name, the second and further ones get a number behind it in the file.

        Args:
            path: the file, by habit ``*.safetensors``.

        Raises:
            GraphError: for what is no path, and for what the format can't hold: complex128 and
                some names.
            FileError: if it can't be written; what was there before then stays.
        """
        from graphc.session.variable_files import save_values

        save_values(path, self.graph, self._holdings.read)

    def restore(self, path: str | os.PathLike[str], *, partial: bool = False) -> Restored:
        """Gives the variables the values of a file, all at once, or none if anything is wrong.

        Args:
            path: what ``save`` or another writer of safetensors wrote.
            partial: take what fits and leave other variables as they are; otherwise the file must
                hold the graph's variables, of their dtypes and shapes, and nothing else.

        Returns:
            What was loaded and what was not; print it.

        Raises:
            ArtifactError: if the file is damaged or does not fit, with all that does not.
            GraphError: for what is no path.
            FileError: if it can't be read.
        """
        from graphc.session.variable_files import read_values

        new, report = read_values(path, self.graph, switch(partial, "partial"))
        self._holdings.set(dict(zip(new, copies_of([*new.values()]), strict=True)))
        return report

    # --- looking up ------------------------------------------------------------------------------

    def _is_placeholder(self, value: Value) -> bool:
        node = self.graph.producer(value)
        return node is not None and node.op is placeholder_op

    def _value(self, item: Any) -> Value:
        if isinstance(item, Value):
            if item.graph is not self.graph:
                raise GraphError(
                    f"{item!r} belongs to another graph than the session's: it is of "
                    f"{origin(item)}, the session of graph {self.graph.name!r}",
                    where=caller(),
                    hint=how_to_run(item),
                )
            return item
        if isinstance(item, str):
            return self.graph.find(item)
        raise GraphError(
            f"{shown(item)} cannot be fetched or fed",
            where=caller(),
            hint=f"fetch gx.dim({item}), built within 'with graph:'"
            if isinstance(item, Size)
            else "give a value, its name, an effect, or a nested structure of them",
        )

    def _fetch(self, leaf: Any) -> Any:
        if isinstance(leaf, Effect):
            return leaf
        if leaf is None:
            raise GraphError(
                "None cannot be fetched", where=caller(), hint="fetch an effect to get None for it"
            )
        return self.graph.find_fetch(leaf) if isinstance(leaf, str) else self._value(leaf)

    def _resolve_feeds(self, feeds: Mapping[Any, Any]) -> dict[int, tuple[Value, Any]]:
        result: dict[int, tuple[Value, Any]] = {}
        for key, array in mapping_of(feeds, "feeds").items():
            if not isinstance(key, (Value, str)):
                raise FeedError(
                    f"feeds are given by value or name, not by {type(key).__name__}",
                    where=caller(),
                    hint="give a dict of arrays by value or name, {x: array}",
                )
            value = self._value(key)
            if id(value) in result:
                raise FeedError(
                    f"{value!r} is fed twice",
                    where=caller(),
                    hint="once by value and once by name: leave one out",
                )
            result[id(value)] = (value, array)
        return result

    # --- copying ---------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {
            "graph": self.graph,
            "threads": self.options.threads,
            "options": self.options,
            "target": self.target if self.target != host() else None,
            "state": self._holdings.everything(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(  # type: ignore[misc]
            state["graph"],
            threads=state["threads"],
            options=state["options"],
            target=state["target"],
        )
        self._holdings.adopt(state["state"])

    def __repr__(self) -> str:
        return f"<Session of {self.graph!r}>"


def _label(leaf: Any) -> str:
    if isinstance(leaf, Value):
        return repr(leaf.name) if leaf.name is not None else str(leaf.type)
    return str(leaf)
