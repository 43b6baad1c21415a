"""Files that users name: what is wrong with one is told with its name and the user's line.

Invariant: no error of the operating system leaves a block that uses a file; it becomes a FileError,
which is an OSError too.
"""

from __future__ import annotations

import errno
import os
from types import TracebackType
from typing import Any, Literal

from graphc.base.errors import FileError, GraphError
from graphc.base.source import caller
from graphc.base.words import shown


def path_text(path: Any, what: str) -> str:
    """A path as text.

    Raises:
        GraphError: for what is no path, or can't be one.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise GraphError(
            f"{what} is kept in a file, not in {shown(path)}",
            where=caller(),
            hint="give the name of a file, as str or pathlib.Path",
        )
    text = os.fsdecode(path)
    if not text or "\0" in text:
        raise GraphError(
            f"{text!r} is no name of a file for {what}",
            where=caller(),
            hint="names are not empty and hold no null character",
        )
    return text


class FileUse:
    """A block that reads or writes what a user named; gives the path as text."""

    def __init__(self, path: Any, what: str, use: Literal["read", "written"]) -> None:
        """Raises GraphError for what is no path."""
        self._path = path_text(path, what)
        self._what = what
        self._use = use

    def __enter__(self) -> str:
        return self._path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise _failure(self._path, self._what, self._use, error) from error


def check_writable(path: Any, what: str, *, folder: bool = False) -> None:
    """Refuses what certainly can't be written, before there is anything to write.

    Args:
        path: what the user gave.
        what: what is to be kept there.
        folder: whether that is a folder rather than a file.

    Raises:
        GraphError: for what is no path.
        FileError: if the folder around it is missing, or a folder has the name of a file.
    """
    with FileUse(path, what, "written") as name:
        if os.path.isdir(name) and not folder:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.path.isdir(os.path.dirname(os.path.abspath(name))):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))


def _failure(path: str, what: str, use: str, error: OSError) -> FileError:
    preposition = "from" if use == "read" else "to"
    made = FileError(
        f"{what} can't be {use} {preposition} {path!r}: {error.strerror or error}",
        where=caller(),
        hint=_hint(path, use, error.errno),
    )
    made.errno = error.errno
    return made


def _hint(path: str, use: str, number: int | None) -> str | None:
    folder = os.path.dirname(os.path.abspath(path))
    match number:
        case errno.ENOENT | errno.ENOTDIR if not os.path.isdir(folder):
            return f"there is no folder {folder!r}: make it first, or name another"
        case errno.ENOENT:
            return f"names of files are looked up in {os.getcwd()!r} unless they begin with /"
        case errno.EISDIR:
            return "it is a folder: name a file in it"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"this user may not do that there: {folder!r} must allow it"
        case errno.ENOSPC | errno.EDQUOT:
            return "make room on that disk, or name a file on another"
    return None


__all__ = ["FileUse", "check_writable", "path_text"]
