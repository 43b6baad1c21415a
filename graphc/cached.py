"""Programs from the cache: no pass runs and nothing is lowered where the same was compiled before.

What is the same: the graph, with its names and the content of its constants; which of its nodes
share a line of the user; the options; the CPU with its features; and the sources of graphc. Lines
themselves don't count: an entry holds numbers of lines, which are those of the graph at hand, so
errors name today's lines.

Invariant: a program from the cache is the one that compiling would give. Where that can't be told
(an operation of the user's own, whose code may have changed) or where the passes are to be seen at
work, nothing is taken from the cache; the reason is told with each compilation.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np

from graphc.base.errors import UnsupportedError
from graphc.base.options import Options
from graphc.base.source import LOADED_NANOSECONDS, PACKAGE_ROOTS, Location
from graphc.base.target import Target, host, require_here
from graphc.compiled import Compiled, Levels, collection_paused
from graphc.extract import Extraction
from graphc.ir import dtypes
from graphc.ir.attributes import Array, Payload
from graphc.ir.graph import Graph
from graphc.ir.op import OpDef, is_own
from graphc.ir.printer import payloads
from graphc.plan.ir import Plan
from graphc.plan.stored import plan_of, plan_text
from graphc.plan.table import WALKER, WORKER, kernel_symbols
from graphc.runtime.cache import Cache, cache_of, caching
from graphc.runtime.code import Code
from graphc.runtime.jit import Library, key_of, realm_of, shared_library
from graphc.runtime.program import Program, aligned_empty
from graphc.tiers import MOST_BASELINE_BYTES, Poll, Tiers

_SHOWING = ("verify", "check", "shuffle_seed", "dump", "fuel", "decisions", "time", "html")
"""Options under which the passes are to be seen at work."""

_IRRELEVANT = ("cache", "check_numerics", "optimize", *_SHOWING)
"""Options that don't change the program that is compiled."""

_DEFAULT = Options()
_ALIGNMENT = 64
_LENGTHS = struct.Struct("<QQ")


LARGE = 256
"""From so many operations on it pays to answer with kernels of single operations first.

They must be compiled too. Below, the fused program takes some tens of milliseconds more."""


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
        labels = _Labels(extraction.graph)
        refusal = _refusal(labels, options)
        if refusal is None:
            entries = _Entries(extraction, options, target, kept, labels)
        reason = refusal or ""
    if entries is not None:
        known, reason = entries.find(options.optimize)
        if known is not None:
            return Tiers(known, reason)
    job = _Job(extraction, options, target, reason, entries)
    return job.in_two_steps() if _begins_small(extraction, options) else job.at_once()


@dataclass(frozen=True, slots=True)
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
        from graphc.compiler import compile_graph

        with caching(self.options.cache):
            compiled = compile_graph(self.extraction, self.options, self.target)
            return Tiers(compiled, self._kept(compiled))

    def in_two_steps(self) -> Tiers:
        """A first program, and the way to the full one.

        The first one is kept too, for processes that end before there is more.
        """
        known = None if self.entries is None else self.entries.find(0, MOST_BASELINE_BYTES)[0]
        if known is not None:
            return Tiers(known, f"{self.reason}; the first program was there", self._from_graph)
        from graphc.compiler import baseline, finished_in_background, prepared

        with caching(self.options.cache), collection_paused():
            given = prepared(self.extraction, self.options, self.target)
            first = baseline(given)

        def later(poll: Poll) -> tuple[Compiled, str]:
            with caching(self.options.cache):
                if self.entries is not None:
                    self.entries.keep(first, 0)
                compiled = finished_in_background(given, poll)
                return compiled, self._kept(compiled)

        return Tiers(first, self.reason, later)

    def _from_graph(self, poll: Poll) -> tuple[Compiled, str]:
        """The full program where only the first one was in the cache."""
        from graphc.compiler import finished_in_background, prepared

        with caching(self.options.cache):
            given = prepared(self.extraction, self.options, self.target)
            compiled = finished_in_background(given, poll)
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
        labels: _Labels,
    ) -> None:
        self._extraction, self._options, self._target = extraction, options, target
        self._kept, self._labels = kept, labels
        self._realm = _realm(target)

    def _key(self, level: int) -> str:
        return _key(self._extraction, self._options, self._labels, min(level, 2))

    def find(self, level: int, most_bytes: int | None = None) -> tuple[Compiled | None, str]:
        """The program, if it is there, and "hit" or why it is not."""
        found = self._kept.get(self._realm, self._key(level))
        if found.content is None:
            return None, found.reason
        extraction, target, threads = self._extraction, self._target, self._options.thread_count
        loaded = _loaded(found.content, extraction.graph, self._labels, target, self._kept)
        if loaded is None:
            return None, "no entry of its machine code"
        made = _LevelsOnDemand(extraction, replace(self._options, optimize=level), target)
        program = Program(*loaded, threads, most_bytes)
        return Compiled(extraction.graph, program, target, made, from_cache=True), found.reason

    def keep(self, compiled: Compiled, level: int) -> str | None:
        """Puts a program there; says why it can't be, if so."""
        try:
            content = _content(compiled, self._labels)
        except UnsupportedError as error:
            return f"not kept: {error.message}"
        kept = self._kept.put(self._realm, self._key(level), content)
        return None if kept else self._kept.refused


def _begins_small(extraction: Extraction, options: Options) -> bool:
    """Whether small kernels should answer until the program is compiled."""
    shows = any(getattr(options, name) != getattr(_DEFAULT, name) for name in _SHOWING)
    if options.optimize != 2 or shows:
        return False
    return sum(1 for _ in islice(extraction.graph.walk(), LARGE)) == LARGE


@dataclass(frozen=True, slots=True)
class _LevelsOnDemand:
    """Runs the passes of a program from the cache, for those who want to see them."""

    extraction: Extraction
    options: Options
    target: Target

    def __call__(self) -> Levels:
        from graphc.compiler import levels_of

        return levels_of(self.extraction, self.options, self.target)


# --- keys ----------------------------------------------------------------------------------------


class _Labels:
    """What the structural hash of a graph leaves out, in the order of ``walk``.

    Attributes:
        numbers: the line of each node; lines are numbered as they first occur, -1 is none.
        places: the lines by number.
        names: of all values, and of regions.
        foreign: operations that are declared outside of graphc.
    """

    def __init__(self, graph: Graph) -> None:
        known: dict[tuple[str, int, int | None], int] = {}
        seen: dict[int, int] = {}
        ops: set[OpDef] = set()
        numbers: list[int] = []
        places: list[Location] = []
        names = [value.name for value in graph.inputs]
        self._known, self.numbers, self.places, self.names = known, numbers, places, names
        for node in graph.walk() if graph.has_regions else graph.nodes:
            ops.add(node.op)
            for value in node.outputs:
                names.append(value.name)
            for region in node.regions:
                names.append(region.name)
                names += [value.name for value in region.inputs]
            number = seen.get(id(node.provenance))
            if number is None:
                number = seen[id(node.provenance)] = self._number(node.provenance.where)
            numbers.append(number)
        self.foreign = {op.name for op in ops if not is_own(op)}

    def _number(self, where: Location | None) -> int:
        if where is None:
            return -1
        number = self._known.setdefault(where.place, len(self.places))
        if number == len(self.places):
            self.places.append(where)
        return number

    def number_of(self, where: Location) -> int:
        """The number of a line.

        Raises:
            UnsupportedError: if no node of the graph is of this line.
        """
        number = self._known.get(where.place)
        if number is None:
            raise UnsupportedError(f"it names {where}, where no operation stands")
        return number


def _refusal(labels: _Labels, options: Options) -> str | None:
    for name in _SHOWING:
        if getattr(options, name) != getattr(_DEFAULT, name):
            return f"off: under {name} the passes are to be seen at work"
    if labels.foreign:
        names = ", ".join(sorted(labels.foreign))
        return f"off: {names} may have changed, which is declared outside of graphc"
    return None if _sources() else "off: the sources of graphc are not those that were loaded"


def _key(extraction: Extraction, options: Options, labels: _Labels, level: int) -> str:
    graph = extraction.graph
    chosen = [
        [name, sorted(value) if isinstance(value, frozenset) else value]
        for name, value in ((f.name, getattr(options, f.name)) for f in fields(options))
        if name not in _IRRELEVANT
    ]
    chosen.append(["level", level])
    content = [
        graph.structural_hash, graph.name, len(extraction.states), extraction.renewed,
        chosen, labels.names, labels.numbers,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@cache
def _realm(target: Target) -> str:
    return f"programs for {target.cpu}\n{realm_of(target)}\n{target!r}\n{_sources()}"


@cache
def _sources() -> str:
    """A hash that changes with every edit of graphc's own sources.

    Empty if they aren't found, or are no longer what was loaded.
    """
    found: list[tuple[str, int, int]] = []
    stack = [(str(number), root) for number, root in enumerate(PACKAGE_ROOTS)]
    while stack:
        name, directory = stack.pop()
        try:
            with os.scandir(directory) as items:
                for item in items:
                    if item.name.endswith(".py"):
                        status = item.stat()
                        place = f"{name}/{item.name}"
                        found.append((place, status.st_size, status.st_mtime_ns))
                    elif item.is_dir() and not item.name.startswith(("_", ".")):
                        stack.append((f"{name}/{item.name}", item.path))
        except OSError:
            return ""
    if any(edited > LOADED_NANOSECONDS for _, _, edited in found):
        return ""
    return hashlib.sha256(json.dumps(sorted(found)).encode()).hexdigest()


# --- entries -------------------------------------------------------------------------------------
#
# An entry is the lengths of two texts, JSON and the plan, the texts, and the bytes of arrays one
# after the other, each from a multiple of _ALIGNMENT on.


def _content(compiled: Compiled, labels: _Labels) -> bytes:
    """The entry of a program; its machine code has entries of its own."""
    from graphc.compiler import walker_text

    plan, text = compiled.plan, compiled.levels.text
    known = payloads(compiled.source)
    arrays: list[list[Any]] = []
    blocks: list[bytes] = []
    size = 0
    for slot, array in plan.constants.items():
        digest = Payload(array).digest.hex()
        if digest in known:
            arrays.append([slot, digest])
            continue
        arrays.append([slot, array.dtype.name, list(array.shape), size])
        blocks.append(array.tobytes() + bytes(-array.nbytes % _ALIGNMENT))
        size += len(blocks[-1])
    head = {
        "constants": arrays,
        "bytes": size,
        "walker": key_of(walker_text()),
        "libraries": [[symbol, key_of(module)] for symbol, module in text.libraries.items()],
        "modules": [[key_of(each.text), each.symbols, each.glue] for each in text.modules],
        "kernels": len(text.symbols),
    }
    texts = json.dumps(head, separators=(",", ":")), plan_text(plan, labels.number_of)
    encoded = [text.encode() for text in texts]
    return b"".join((_LENGTHS.pack(*map(len, encoded)), *encoded, *blocks))


def _loaded(
    content: bytes, graph: Graph, labels: _Labels, target: Target, kept: Cache
) -> tuple[Plan, Code] | None:
    """The program of an entry; None if its machine code is not in the cache."""
    length, plan_length = _LENGTHS.unpack_from(content)
    start = _LENGTHS.size + length
    end = start + plan_length
    head = json.loads(content[_LENGTHS.size : start])
    code = stored_code(head, target, kept)
    if code is None:
        return None
    constants = _constants(head, content[end:], graph)
    return plan_of(content[start:end].decode(), constants, labels.places), code


def _constants(head: Mapping[str, Any], block: bytes, graph: Graph) -> dict[int, Array]:
    entries = head["constants"]
    known = payloads(graph) if any(len(entry) == 2 for entry in entries) else {}
    memory = aligned_empty(len(block))
    memory[:] = np.frombuffer(block, np.uint8)
    memory.flags.writeable = False
    result: dict[int, Array] = {}
    for slot, *rest in entries:
        if len(rest) == 1:
            result[slot] = known[rest[0]]
            continue
        name, shape, offset = rest
        dtype = dtypes.dtype(name).numpy
        count = int(np.prod(shape, dtype=np.int64))
        piece = memory[offset : offset + count * dtype.itemsize]
        result[slot] = piece.view(dtype).reshape(shape)
    return result


def stored_code(head: Mapping[str, Any], target: Target, kept: Cache) -> Code | None:
    """The machine code that an entry names; None if some of it is not in the cache."""

    def image(key: str, target: Target = target, glue: bool = False) -> bytes | None:
        return kept.get(realm_of(target, glue), key).content

    key, here = head["walker"], host()
    walker = shared_library((WALKER, WORKER), key, here, partial(image, key, here))
    if walker is None:
        return None
    libraries = [walker]
    imports: dict[str, int] = {}
    for symbol, key in head["libraries"]:
        found = shared_library((symbol,), key, target, partial(image, key))
        if found is None:
            return None
        libraries.append(found)
        imports |= found.addresses
    for key, symbols, glue in head["modules"]:
        content = image(key, target, glue)
        if content is None:
            return None
        libraries.append(Library(content, symbols, imports))
    return Code.of(libraries, kernel_symbols(head["kernels"]))
