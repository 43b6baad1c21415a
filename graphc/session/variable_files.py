"""Values of variables in files: what ``Session.save`` writes and ``Session.restore`` reads.

The format is safetensors, which other frameworks read and write too: names, dtypes and shapes as
JSON, then the bytes. Nothing read is executed or unpickled. A file is looked at whole before
anything is taken from it, and a session takes all of it at once, so that no error leaves a session
with a part.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.base.errors import ArtifactError, GraphError
from graphc.base.paths import FileUse, check_writable
from graphc.base.source import caller
from graphc.base.words import plural, shown
from graphc.ir.attributes import Array
from graphc.ir.dtypes import EVERY
from graphc.ir.recorder import Recorder
from graphc.ir.value import Value

_DTYPES = {dtype.safetensors: dtype for dtype in EVERY if dtype.safetensors}
"""What the format calls the dtypes that variables have."""

_RESERVED = "__metadata__"
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A tensor of a file whose variable is of another type.

    Attributes:
        name: what both are called.
        found: dtype and shape in the file.
        expected: dtype and shape of the variable.
    """

    name: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{shown(self.name)} (file {self.found}, graph {self.expected})"


@dataclass(frozen=True, slots=True)
class Restored:
    """What a session took from a file; printed, it says so in a few lines.

    Attributes:
        path: the file.
        loaded: names of the variables that have the file's values now.
        missing: names of variables that the file does not have; they keep what they had.
        unexpected: names in the file that no variable has.
        mismatched: what has the name of a variable, but not its dtype and shape.
    """

    path: str
    loaded: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[Mismatch, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the file holds exactly the graph's variables."""
        return not (self.missing or self.unexpected or self.mismatched)

    def problems(self) -> list[str]:
        """What does not fit, in lines."""
        kinds: tuple[tuple[str, Sequence[Any]], ...] = (
            ("missing in the file", self.missing),
            ("unknown to the graph", self.unexpected),
            ("of another dtype or shape", self.mismatched),
        )
        return [f"{len(items)} {what}: {_listed(items)}" for what, items in kinds if items]

    def __str__(self) -> str:
        first = f"{plural(len(self.loaded), 'variable')} restored from {self.path!r}"
        return "\n  ".join([first, *self.problems()])

    __repr__ = __str__


def file_names(graph: Recorder) -> dict[str, Value]:
    """The variables of a graph by the names that files know them by, in the order of creation.

    Of several variables of one name, all but the first get a number that makes theirs unique.
    """
    variables = graph.variables
    given = {value.name for value in variables}
    numbers: dict[str, int] = {}
    result: dict[str, Value] = {}
    for value in variables:
        name = key = value.name if value.name is not None else "variable"
        while key in result or (key in given and key != value.name):
            numbers[name] = number = numbers.get(name, 0) + 1
            key = f"{name}_{number}"
        result[key] = value
    return result


# --- writing -------------------------------------------------------------------------------------


def save_values(
    path: Any, graph: Recorder, read: Callable[[Sequence[Value]], Sequence[Array]]
) -> None:
    """Writes the values of all variables of a graph, in place of what has that name.

    Args:
        path: the file, by habit ``*.safetensors``.
        graph: whose variables.
        read: gives values of variables as of one moment.

    Raises:
        GraphError: for what is no path, and for names and complex128 that the format can't hold.
        FileError: if the file can't be written; what was there before then stays.
    """
    from safetensors.numpy import save_file

    named = file_names(graph)
    for name, value in named.items():
        if name == _RESERVED or not _is_text(name):
            raise GraphError(
                f"a file can't hold a variable of the name {shown(name)}: {value!r}",
                where=caller(),
                hint="give it another one: variable.name = 'w'",
            )
        if value.dtype.safetensors is None:
            hint = "keep gx.view_as_real(x) in a variable, or use complex64"
            if value.dtype.is_storage:
                hint = f"keep x.astype({value.dtype.computed.name!r}) in a variable, or use gx.save"
            raise GraphError(
                f"a file of safetensors can't hold {value.dtype}, as the variable {shown(name)} is",
                where=caller(),
                hint=hint,
            )
    check_writable(path, "variables")
    arrays = [np.asarray(array, order="C") for array in read([*named.values()])]
    tensors = dict(zip(named, arrays, strict=True))
    with FileUse(path, "variables", "written") as text:
        _replace(text, lambda new: save_file(tensors, new, {"format": "np", "made_by": "graphc"}))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _replace(path: str, write: Callable[[str], object]) -> None:
    """Puts a file that only its owner may read in the place of what has a name, once it is whole.

    It is written in a folder that nobody else may enter, where no link can have been planted. A
    link that has the name is itself replaced.
    """
    directory = os.path.dirname(path) or "."
    temporary = tempfile.mkdtemp(dir=directory, prefix=".", suffix=".part")
    try:
        new = os.path.join(temporary, "new")
        write(new)
        os.chmod(new, 0o600)
        _sync(new)
        os.replace(new, path)
        _sync(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- reading -------------------------------------------------------------------------------------


def read_values(path: Any, graph: Recorder, partial: bool) -> tuple[dict[Value, Array], Restored]:
    """Values for the variables of a graph, and what came of each name.

    Args:
        path: the file.
        graph: whose variables.
        partial: whether to take what fits; otherwise all must.

    Raises:
        ArtifactError: if the file is damaged, or does not fit and ``partial`` is off.
        GraphError: for what is no path.
        FileError: if it can't be read.
    """
    named = file_names(graph)
    wanted = {name: _type(value.dtype.name, value.shape) for name, value in named.items()}
    with FileUse(path, "variables", "read") as text:
        file = _File(text)
        found = file.types
        both = [name for name in named if name in found]
        report = Restored(
            path=text,
            loaded=tuple(name for name in both if found[name] == wanted[name]),
            missing=tuple(name for name in named if name not in found),
            unexpected=tuple(name for name in found if name not in named),
            mismatched=tuple(
                Mismatch(name, found[name], wanted[name])
                for name in both
                if found[name] != wanted[name]
            ),
        )
        if not partial and not report.is_complete:
            problem = f"the file {text!r} does not fit the variables of graph {graph.name!r}"
            raise ArtifactError(
                "\n    ".join([problem, *report.problems()]),
                where=caller(),
                hint="build the graph as it was when the file was written, or take what fits: "
                "session.restore(path, partial=True)",
            )
        return {named[name]: file.array(name) for name in report.loaded}, report


class _File:
    """A file whose header has been looked at.

    Attributes:
        types: dtype and shape of each tensor, as text.
    """

    def __init__(self, path: str) -> None:
        """Raises ArtifactError if the file is damaged."""
        from safetensors import SafetensorError, safe_open

        self._path = path
        self._damage = (SafetensorError, OSError, ValueError, TypeError, KeyError, MemoryError)
        if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
            raise OSError(errno.EINVAL, "it is no file on a disk")
        # what opens is read through system calls: memory that is mapped would end the process if
        # somebody made the file shorter meanwhile
        with open(path, "rb") as file:
            start = file.read(8)
            try:
                opened: Callable[..., Any] = safe_open
                self._tensors = opened(path, framework="np", backend="pread")
                header = file.read(int.from_bytes(start, "little"))
                self._entries = json.loads(header, object_pairs_hook=self._distinct)
                self._begin = file.tell()
                self.types = {name: self._type_of(name) for name in sorted(self._tensors.keys())}
            except self._damage as error:
                raise self._damaged(str(error)) from error

    def _type_of(self, name: str) -> str:
        part = self._tensors.get_slice(name)
        dtype = part.get_dtype()
        return _type(str(_DTYPES.get(dtype, dtype)), part.get_shape())

    def array(self, name: str) -> Array:
        """A tensor of a dtype that variables have."""
        dtype = _DTYPES[self._tensors.get_slice(name).get_dtype()]
        try:
            found: Array
            # the package makes no arrays of dtypes that NumPy itself lacks
            if dtype.is_storage:
                found = self._words(name).view(dtype.numpy)
            else:
                found = self._tensors.get_tensor(name)
        except self._damage as error:
            raise self._damaged(str(error)) from error
        if found.dtype == np.bool_ and (found.view(np.uint8) > 1).any():
            raise self._damaged(f"a bool of {shown(name)} is neither 0 nor 1")
        return found

    def _words(self, name: str) -> Array:
        """The bytes of a tensor, in its shape."""
        start, end = self._entries[name]["data_offsets"]
        with open(self._path, "rb") as file:
            file.seek(self._begin + start)
            words = np.frombuffer(bytearray(file.read(end - start)), np.uint8)
        return words.reshape(self._tensors.get_slice(name).get_shape())

    def _distinct(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object of JSON, in which no name may come twice: readers disagree which one counts."""
        result = dict(pairs)
        if len(result) < len(pairs):
            raise ValueError("a name comes twice")
        return result

    def _damaged(self, problem: str) -> ArtifactError:
        return ArtifactError(
            f"{self._path!r} is damaged or no file of safetensors: {problem}",
            where=caller(),
            hint="give a file that session.save, or another writer of safetensors, has written",
        )


def _type(dtype: str, shape: Sequence[Any]) -> str:
    return f"{dtype}{[*shape]}"


def _listed(items: Sequence[Any]) -> str:
    shortened = [str(item) if isinstance(item, Mismatch) else shown(item) for item in items]
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(shortened[:_LISTED]) + more


__all__ = ["Mismatch", "Restored", "file_names", "read_values", "save_values"]
