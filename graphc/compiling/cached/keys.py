"""Which program is wanted: the key of its entry, and whether it may be one from the cache at all.

Invariant: equal keys are of extractions for which compiling gives one program, but for the lines
of the user that its errors name.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields
from functools import cache
from itertools import chain

from graphc.base.errors import UnsupportedError
from graphc.base.options import Options
from graphc.base.source import LOADED_NANOSECONDS, PACKAGE_ROOTS, Location
from graphc.base.target import Target
from graphc.compiling.extraction import Extraction
from graphc.ir.equal import structural_hash
from graphc.ir.graph import Graph, Provenance
from graphc.ir.op import is_own
from graphc.ir.value import names_of
from graphc.runtime.jit import realm_of

_SHOWING = ("verify", "check", "shuffle_seed", "dump", "fuel", "decisions", "time", "html")
"""Options under which the passes are to be seen at work."""

_IRRELEVANT = ("cache", "check_numerics", "optimize", *_SHOWING)
"""Options that don't change the program that is compiled."""

_DEFAULT = Options()


class Labels:
    """What the structural hash of a graph leaves out, in the order of ``walk``.

    Attributes:
        numbers: the line of each node; lines are numbered as they first occur, -1 is none.
        places: the lines by number.
        names: those that values and regions have, each with which of all it belongs to.
        foreign: operations that are declared outside of graphc.
        hosts: Python functions that are called.
        parts: which nodes derivatives have made, and ``gx.checkpoint`` has computed again; empty
            where there is none.
    """

    def __init__(self, graph: Graph) -> None:
        nodes = [*graph.walk()] if graph.has_regions else graph.nodes
        names = names_of(graph.inputs)
        names += names_of(chain.from_iterable([node.outputs for node in nodes]))
        for node in nodes if graph.has_regions else ():
            for region in node.regions:
                names.append(region.name)
                names += names_of(region.inputs)
        self.names = [(place, name) for place, name in enumerate(names) if name is not None]
        self._known: dict[tuple[str, int, int | None], int] = {}
        self.places: list[Location] = []
        distinct = {id(node.provenance): node.provenance for node in nodes}
        number = {key: self._number(found.where) for key, found in distinct.items()}
        self.numbers = [number[id(node.provenance)] for node in nodes]
        self.parts: list[object] = []
        if any(found.order for found in distinct.values()):
            calls: dict[int, int] = {}
            part = {key: _part(found, calls) for key, found in distinct.items()}
            self.parts = [part[id(node.provenance)] for node in nodes]
        self.hosts = {n.attrs["function"].name for n in nodes if n.op.calls_host}
        self.foreign = {op.name for op in {node.op for node in nodes} if not is_own(op)}

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


def _part(made: Provenance, calls: dict[int, int]) -> object:
    """What passes go by to compute again; calls are numbered as they first occur."""
    marks = [(calls.setdefault(call, len(calls)), times) for call, times in made.checkpoints]
    return made.order, marks


def shows_passes(options: Options) -> str | None:
    """The option under which the passes are to be seen at work, if one is set."""
    changed = (name for name in _SHOWING if getattr(options, name) != getattr(_DEFAULT, name))
    return next(changed, None)


def refused(labels: Labels, options: Options) -> str | None:
    """Why a program may not come from the cache, or be kept there; None if it may."""
    showing = shows_passes(options)
    if showing is not None:
        return f"off: under {showing} the passes are to be seen at work"
    if labels.foreign:
        names = ", ".join(sorted(labels.foreign))
        return f"off: {names} may have changed, which is declared outside of graphc"
    if labels.hosts:
        names = ", ".join(sorted(labels.hosts))
        return f"off: it calls Python functions, which this process alone knows: {names}"
    return None if sources() else "off: the sources of graphc are not those that were loaded"


def program_key(extraction: Extraction, options: Options, labels: Labels, level: int) -> str:
    """The name of the entry of an extraction compiled at a level of ``optimize``."""
    graph = extraction.graph
    chosen = [
        [name, sorted(value) if isinstance(value, frozenset) else value]
        for name, value in ((f.name, getattr(options, f.name)) for f in fields(options))
        if name not in _IRRELEVANT
    ]
    chosen.append(["level", level])
    content = [
        structural_hash(graph), graph.name, len(extraction.states), extraction.renewed,
        chosen, labels.names, labels.numbers, labels.parts,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@cache
def program_realm(target: Target) -> str:
    """The name of all that programs depend on beside their keys."""
    return f"programs for {target.cpu}\n{realm_of(target)}\n{target!r}\n{sources()}"


@cache
def sources() -> str:
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
