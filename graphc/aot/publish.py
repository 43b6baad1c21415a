"""Directories of files that appear at once and whole, and are readable for their owner only."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping

from graphc.base.errors import ArtifactError
from graphc.base.source import caller


def publish(path: str, files: Mapping[str, bytes], mark: bytes) -> None:
    """A directory of these files at ``path``, put there when it is complete.

    What is replaced is an empty directory, or one that holds a file ending in ``.json`` which
    begins with ``mark``.

    Raises:
        ArtifactError: if something else is there.
        OSError: if it can't be written; what was there before then stays.
    """
    path = os.path.abspath(path)
    parent = os.path.dirname(path)
    _check_free(path, mark)
    temporary = tempfile.mkdtemp(dir=parent, prefix=".", suffix=".part")
    try:
        for name, content in files.items():
            _write(os.path.join(temporary, name), content)
        _sync_directory(temporary)
        _put_in_place(temporary, path)
        _sync_directory(parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _check_free(path: str, mark: bytes) -> None:
    if not os.path.lexists(path):
        return
    if os.path.isdir(path) and not os.path.islink(path):
        names = os.listdir(path)
        if not names or any(_begins(os.path.join(path, name), mark) for name in names):
            return
    raise ArtifactError(
        f"{path!r} exists and is nothing that graphc wrote",
        where=caller(),
        hint="remove it or write to another path",
    )


def _begins(path: str, mark: bytes) -> bool:
    if not path.endswith(".json") or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(mark)) == mark


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_place(temporary: str, path: str) -> None:
    """Renames; an older library steps aside first and comes back if that fails."""
    if not os.path.lexists(path):
        os.rename(temporary, path)
        return
    aside = tempfile.mkdtemp(dir=os.path.dirname(path), prefix=".", suffix=".old")
    older = os.path.join(aside, "library")
    try:
        os.rename(path, older)
        os.rename(temporary, path)
    except BaseException:
        # an interrupt may come before, between or after the two
        if os.path.lexists(older) and not os.path.lexists(path):
            os.rename(older, path)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


__all__ = ["publish"]
