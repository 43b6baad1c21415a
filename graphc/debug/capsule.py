"""Replay capsules: a run in one file, to be repeated elsewhere bit for bit.

A capsule is an uncompressed ``.npz`` archive: the graph's text and what is known about the run as
bytes, everything else as arrays. It holds data only. Invariant: whatever the bytes in a file are,
``load_capsule`` gives a verified graph with inputs that fit it, or raises ArtifactError or
ParseError; nothing that is read is executed or unpickled, and nothing is written.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from graphc.base.errors import ArtifactError, GraphcError, GraphError
from graphc.base.options import Options
from graphc.base.paths import FileUse
from graphc.base.source import Location, caller
from graphc.base.target import Target, host
from graphc.checking.interpreter import bind_dims
from graphc.debug.case import KEPT, Case, Outcome, options_data
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.text.archive import read_arrays, write_arrays
from graphc.ir.text.files import replace_file
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import payloads, print_graph
from graphc.ops.host import refuse_host_calls

FORMAT = "graphc capsule"
FORMAT_VERSION = 1

LARGEST_TEXT = 256 << 20
"""Bytes that the graph's text, or what is known about it, may have."""

_MEMBER = re.compile(r"(graph|about|(input|result)_[0-9]{1,6}|constant_[0-9a-f]{32})\.npy")
_LABELS = ("graphc", "numpy")


@dataclass(frozen=True, slots=True, eq=False)
class Capsule:
    """A run that was captured.

    Attributes:
        case: the graph, its inputs and how it was compiled.
        outcome: the results then, or the error as (type, message).
        versions: of graphc and NumPy then.
        cpu: LLVM's name of the CPU it was compiled for.
        same_bits: whether this machine must give the same bits.
    """

    case: Case
    outcome: tuple[Array, ...] | tuple[str, str]
    versions: dict[str, str]
    cpu: str
    same_bits: bool

    @property
    def failed(self) -> bool:
        """Whether the run ended with an error."""
        return bool(self.outcome) and isinstance(self.outcome[0], str)


# --- writing -------------------------------------------------------------------------------------


def capture(path: str | os.PathLike[str], case: Case, outcome: Outcome) -> None:
    """Writes a capsule, for its owner only; what was there before is replaced at once.

    Args:
        path: the file, by habit ``*.gxr``.
        case: what was run.
        outcome: what came of it.

    Raises:
        GraphError: for what is no path.
        UnsupportedError: for a graph that calls Python functions.
        FileError: if the file can't be written.
    """
    from graphc import __version__

    refuse_host_calls(case.graph.nodes, "a capsule")
    about: dict[str, Any] = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "graphc": __version__,
        "numpy": np.__version__,
        "states": case.states,
        "options": options_data(case.options),
        "target": {
            "triple": case.target.triple,
            "cpu": case.target.cpu,
            "features": case.target.features,
            "has_fma": case.target.has_fma,
        },
        "lines": [_line(node) for node in case.graph.walk()],
        "error": None,
    }
    arrays: dict[str, Any] = {"graph": _bytes(print_graph(case.graph))}
    arrays |= {f"input_{n}": array for n, array in enumerate(case.arrays)}
    arrays |= {f"constant_{key}": array for key, array in payloads(case.graph).items()}
    if isinstance(outcome, Exception):
        message = outcome.message if isinstance(outcome, GraphcError) else str(outcome)
        about["error"] = [type(outcome).__name__, message]
    else:
        arrays |= {f"result_{n}": array for n, array in enumerate(outcome)}
    arrays["about"] = _bytes(json.dumps(about))
    with FileUse(path, "a capsule", "written") as name:
        replace_file(name, lambda file: write_arrays(file, arrays))


def _line(node: Node) -> list[Any] | None:
    where = node.provenance.where
    return None if where is None else [where.filename, where.line]


def _bytes(text: str) -> Array:
    return np.frombuffer(text.encode(), np.uint8)


# --- reading -------------------------------------------------------------------------------------


def load_capsule(path: str | os.PathLike[str]) -> Capsule:
    """Reads what ``capture`` wrote.

    Nodes are located at the user's lines of then. Code is compiled for this machine.

    Raises:
        ArtifactError: if the file is no capsule, or damaged.
        ParseError: if its graph is.
        GraphError: for what is no path.
        FileError: if it can't be read.
    """
    with FileUse(path, "a capsule", "read") as name:
        arrays = _arrays(name)
    path = name
    about = _about(path, arrays)
    constants = {
        name.removeprefix("constant_"): array
        for name, array in arrays.items()
        if name.startswith("constant_")
    }
    text = _text(path, arrays, "graph")
    graph = _located(parse_graph(text, constants, filename=path), about["lines"], path)
    inputs = _numbered(path, arrays, "input", len(graph.inputs))
    try:
        bind_dims([value.type for value in graph.inputs], inputs)
    except GraphcError as error:
        _refuse(path, f"its inputs don't fit its graph: {error.message}")
    for value, array in zip(graph.inputs, inputs, strict=True):
        if array.dtype != value.dtype.numpy:
            _refuse(path, f"an input is {array.dtype}, not {value.dtype}")
    states = about["states"]
    if not _is_count(states) or states > len(inputs):
        _refuse(path, "its number of variables is wrong")
    outcome: tuple[Array, ...] | tuple[str, str]
    failure = about["error"]
    if failure is None:
        outcome = _numbered(path, arrays, "result", len(graph.outputs))
        for value, array in zip(graph.outputs, outcome, strict=True):
            if array.dtype != value.dtype.numpy or array.ndim != value.ndim:
                _refuse(path, f"a result is {array.dtype} of rank {array.ndim}, not {value.type}")
    elif _is_texts(failure, 2):
        outcome = (failure[0], failure[1])
        _numbered(path, arrays, "result", 0)
    else:
        _refuse(path, "its outcome is damaged")
    target, same_bits = _target(path, about)
    case = Case(graph, inputs, states, _options(path, about), target)
    versions = {name: about[name] for name in _LABELS}
    return Capsule(case, outcome, versions, about["target"]["cpu"], same_bits)


def _refuse(path: str, problem: str) -> NoReturn:
    raise ArtifactError(
        f"{path} is no capsule, or damaged: {problem}",
        where=caller(),
        hint="capture it again with executable.capture",
    )


def _arrays(path: str) -> dict[str, Array]:
    """The arrays of the archive, which must be as ``capture`` makes it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            _refuse(path, "it is no regular file")
        content = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, RuntimeError, NotImplementedError) as error:
        _refuse(path, f"it can't be read as an archive: {error}")
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        _refuse(path, "it holds several files of one name")
    for member in members:
        if _MEMBER.fullmatch(member.filename) is None:
            _refuse(path, f"it holds a file called {member.filename!r:.60}")
        # What is compressed may be of any size once it is not.
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            _refuse(path, f"{member.filename} is compressed or encrypted")
        if member.file_size != member.compress_size or member.file_size > len(content):
            _refuse(path, f"the size of {member.filename} is wrong")
    try:
        return read_arrays(content)
    except GraphcError as error:
        _refuse(path, error.message)


def _text(path: str, arrays: Mapping[str, Array], name: str) -> str:
    array = arrays.get(name)
    if array is None or array.dtype != np.uint8 or array.ndim != 1 or array.size > LARGEST_TEXT:
        _refuse(path, f"{name} is missing or no text")
    try:
        return array.tobytes().decode()
    except UnicodeDecodeError as error:
        _refuse(path, f"{name} is no UTF-8 text: {error}")


def _about(path: str, arrays: Mapping[str, Array]) -> dict[str, Any]:
    text = _text(path, arrays, "about")
    try:
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"what is said about it is no JSON: {error}")
    wanted = {"format", "version", *_LABELS, "states", "options", "target", "lines", "error"}
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        _refuse(path, "it does not say that it is one")
    if about.get("version") != FORMAT_VERSION:
        raise ArtifactError(
            f"{path} is a capsule of version {about.get('version')!r:.20}",
            where=caller(),
            hint=f"this version of graphc reads version {FORMAT_VERSION}",
        )
    if about.keys() != wanted or not _is_texts([about[name] for name in _LABELS], len(_LABELS)):
        _refuse(path, "what is said about it is incomplete")
    return about


def _is_count(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and item >= 0


def _is_texts(item: Any, count: int) -> bool:
    return isinstance(item, list) and len(item) == count and all(isinstance(t, str) for t in item)


def _numbered(path: str, arrays: Mapping[str, Array], kind: str, count: int) -> tuple[Array, ...]:
    names = [f"{kind}_{number}" for number in range(count)]
    if {name for name in arrays if name.startswith(f"{kind}_")} != set(names):
        _refuse(path, f"it does not hold {count} {kind}s")
    # as runs take them: packed and in native byte order
    found = [arrays[name] for name in names]
    return tuple(np.array(array, array.dtype.newbyteorder("="), order="C") for array in found)


def _located(graph: Graph, lines: Any, path: str) -> Graph:
    """The graph with its nodes at the lines they had."""
    nodes = list(graph.walk())
    if not isinstance(lines, list) or len(lines) != len(nodes):
        _refuse(path, "its lines don't fit its graph")
    places: list[Location | None] = []
    for item in lines:
        if item is None:
            places.append(None)
        elif isinstance(item, list) and len(item) == 2 and isinstance(item[0], str):
            if not _is_count(item[1]):
                _refuse(path, "a line is no number")
            if os.path.exists(item[0]) and not os.path.isfile(item[0]):
                _refuse(path, "a line is of no regular file")
            places.append(Location(item[0], item[1]))
        else:
            _refuse(path, "a line is damaged")
    of_node = {id(node): place for node, place in zip(nodes, places, strict=True)}
    return _moved(graph, of_node)


def _moved(graph: Graph, places: Mapping[int, Location | None]) -> Graph:
    # Regions are nested at most MAXIMUM_NESTING deep, so this recursion is bounded.
    nodes = [
        replace(
            node,
            provenance=Provenance(places[id(node)], "built"),
            regions=tuple(_moved(region, places) for region in node.regions),
        )
        for node in graph.nodes
    ]
    return graph.with_parts(nodes=nodes)


def _options(path: str, about: Mapping[str, Any]) -> Options:
    given = about["options"]
    if not isinstance(given, dict) or not given.keys() <= set(KEPT):
        _refuse(path, "its options are damaged")
    try:
        return Options(**given)
    except (GraphError, TypeError) as error:
        _refuse(path, f"its options are damaged: {error}")


def _target(path: str, about: Mapping[str, Any]) -> tuple[Target, bool]:
    """This machine, without fused multiply-add if there was none; and whether bits are the same.

    Bits depend on nothing else of a target, so that none has to be taken from a file.
    """
    given = about["target"]
    if not isinstance(given, dict) or given.keys() != {"triple", "cpu", "features", "has_fma"}:
        _refuse(path, "its target is damaged")
    if not isinstance(given["has_fma"], bool) or not isinstance(given["cpu"], str):
        _refuse(path, "its target is damaged")
    here = host()
    if not given["has_fma"]:
        return here.without_fma(), True
    return here, here.has_fma


__all__ = ["Capsule", "capture", "load_capsule"]
