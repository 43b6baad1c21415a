"""A directory of compiled things, shared by all processes of one user.

Invariant: a lookup gives exactly the bytes that were put under that realm and key, or a miss with
the reason; no state of the disk is an error. An entry begins with a hash of its realm, key and
content, so one that is truncated, edited or moved is a miss. Entries hold machine code, and a hash
proves no origin: that nobody else wrote them rests on the directory, which must belong to this
user and be writable for nobody else, as must each entry.

A *realm* says in words what all its entries depend on beside their key: the CPU, versions; its
first line is its name for people. It has a subdirectory, in which the file ``about`` holds it. The
least recently used entries go when the whole exceeds its bound; looking for them is rare, so the
bound may be exceeded for a while.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

MAX_BYTES = 1 << 30
"""What all entries together may take."""

MAX_ENTRY_BYTES = 64 << 20
"""Larger entries are not kept: reading them back would take longer than it saves."""

OFF = "off"
"""The setting that means no cache."""

_ABOUT = "about"
_SCANNED = "scanned"
_DIGEST_BYTES = 32
_KEPT_AFTER_TRIM = 0.75
_SCAN_EVERY_SECONDS = 3600.0
_SCAN_EVERY_BYTES = 64 << 20
_TOUCH_AFTER_SECONDS = 600.0
_STALE_SECONDS = 3600.0
"""Age of unfinished files that nobody will finish."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a lookup gave.

    Attributes:
        content: the bytes; None for a miss.
        reason: why it is a miss; "hit" if it is none.
    """

    content: bytes | None
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a cache holds.

    Attributes:
        entries: how many.
        bytes: what they take.
        realms: what the entries depend on, in words, and how many entries each has.
    """

    entries: int
    bytes: int
    realms: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    bytes: int
    used: float


class Cache:
    """The entries of one directory; safe to use from many threads and processes.

    Attributes:
        directory: where it is; made when something is first put there.
        refused: why the last ``put`` kept nothing; None if it did.
    """

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(os.path.expanduser(directory))
        self.refused: str | None = None
        self._written = 0

    def get(self, realm: str, key: str) -> Lookup:
        """The bytes put under a key, which is a word of letters and digits."""
        try:
            with _opened(os.path.join(self.directory, _name(realm))) as directory:
                content = _read(directory, key)
        except FileNotFoundError:
            return Lookup(None, self._reason_of_absence(realm, key))
        except OSError as error:
            return Lookup(None, f"can't be read: {error.strerror}")
        except _Untrusted as error:
            return Lookup(None, str(error))
        digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if len(digest) < _DIGEST_BYTES or digest != _digest(realm, key, rest):
            return Lookup(None, "corrupt: the hash of the entry is not that of its content")
        return Lookup(rest, "hit")

    def put(self, realm: str, key: str, content: bytes) -> bool:
        """Keeps bytes under a key; False, with the reason in ``refused``, if that can't be."""
        if len(content) > MAX_ENTRY_BYTES:
            self.refused = f"not kept: it takes {len(content):,} bytes"
            return False
        try:
            self._make_room(len(content))
            self._write(realm, key, content)
        except OSError as error:
            self.refused = f"not kept: {error.strerror}"
            return False
        except _Untrusted as error:
            self.refused = f"not kept: {error}"
            return False
        self.refused = None
        return True

    def usage(self) -> Usage:
        """What is there.

        Raises:
            OSError: if the directory can't be read.
        """
        realms: list[tuple[str, int]] = []
        total = count = 0
        for realm in self._realms():
            entries = [*_entries(realm)]
            count += len(entries)
            total += sum(entry.bytes for entry in entries)
            realms.append((_about(realm), len(entries)))
        return Usage(count, total, tuple(realms))

    def clear(self) -> int:
        """Removes every entry; gives how many there were.

        Raises:
            OSError: if something can't be removed.
        """
        realms = [*self._realms()]
        count = sum(1 for realm in realms for _ in _entries(realm))
        for realm in realms:
            shutil.rmtree(realm)
        return count

    def trim(self, bound: int = MAX_BYTES) -> None:
        """Removes what was used longest ago until the rest is well below the bound.

        Raises:
            OSError: if the directory can't be read.
        """
        entries = [entry for realm in self._realms() for entry in _entries(realm)]
        total = sum(entry.bytes for entry in entries)
        if total > bound:
            entries.sort(key=lambda entry: entry.used)
            for entry in entries:
                if total <= bound * _KEPT_AFTER_TRIM:
                    break
                _remove(entry.path)
                total -= entry.bytes
        stale = time.time() - _STALE_SECONDS
        for realm in self._realms():
            _remove_leftovers(realm, stale)

    # --- pieces ----------------------------------------------------------------------------------

    def _reason_of_absence(self, realm: str, key: str) -> str:
        own = _name(realm)
        for other in self._realms():
            if os.path.basename(other) != own and os.path.exists(os.path.join(other, key)):
                name = _about(other)
                if name == realm.partition("\n")[0]:
                    name = "other features or versions"
                return f"no entry, but one for {name}"
        return "no entry"

    def _realms(self) -> Iterator[str]:
        """The subdirectories of realms."""
        try:
            with os.scandir(self.directory) as found:
                yield from sorted(
                    item.path
                    for item in found
                    if item.is_dir(follow_symlinks=False) and _is_digest(item.name)
                )
        except (FileNotFoundError, NotADirectoryError):
            return

    def _make_room(self, size: int) -> None:
        """Trims if that was not done for long, or this process has written much since."""
        _make_directory(self.directory)
        self._written += size
        mark = os.path.join(self.directory, _SCANNED)
        try:
            age = time.time() - os.stat(mark).st_mtime
        except FileNotFoundError:
            age = 0.0
            _touch(mark)
        if age > _SCAN_EVERY_SECONDS or self._written > _SCAN_EVERY_BYTES:
            _touch(mark)
            self._written = 0
            self.trim()

    def _write(self, realm: str, key: str, content: bytes) -> None:
        path = os.path.join(self.directory, _name(realm))
        _make_directory(path)
        with _opened(path) as directory:
            if not os.path.exists(os.path.join(path, _ABOUT)):
                _publish(directory, _ABOUT, realm.encode())
            _publish(directory, key, _digest(realm, key, content), content)


class _Untrusted(Exception):
    """A directory or file that somebody else may have written."""


def _name(realm: str) -> str:
    return hashlib.sha256(realm.encode()).hexdigest()[:16]


def _is_digest(name: str) -> bool:
    return len(name) == 16 and not set(name).difference("0123456789abcdef")


def _digest(realm: str, key: str, content: bytes) -> bytes:
    hasher = hashlib.sha256(f"{len(realm)} {realm} {key} {len(content)} ".encode())
    hasher.update(content)
    return hasher.digest()


def _make_directory(path: str) -> None:
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        os.makedirs(parent, mode=0o700, exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A descriptor of a realm's directory, if it and the one around it are this user's alone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_owner(os.stat("..", dir_fd=descriptor), "the directory")
        _check_owner(os.fstat(descriptor), "the directory")
        yield descriptor
    finally:
        os.close(descriptor)


def _check_owner(status: os.stat_result, what: str) -> None:
    if status.st_uid != os.geteuid():
        raise _Untrusted(f"{what} belongs to another user")
    if status.st_mode & 0o022:
        raise _Untrusted(f"{what} is writable for other users")


def _read(directory: int, name: str) -> bytes:
    descriptor = os.open(name, _READ, dir_fd=directory)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _Untrusted("the entry is no regular file")
        _check_owner(status, "the entry")
        if status.st_size > MAX_ENTRY_BYTES + _DIGEST_BYTES:
            raise _Untrusted("the entry is larger than any that is written")
        if time.time() - status.st_mtime > _TOUCH_AFTER_SECONDS:
            _touch(name, directory)
        return file.read()


def _touch(name: str, directory: int | None = None) -> None:
    """Marks a file as used now; on a disk that takes no writes its age just stays."""
    try:
        if directory is None:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.utime(name, dir_fd=directory)
    except PermissionError:
        return
    except OSError as error:
        if error.errno != errno.EROFS:
            raise


def _publish(directory: int, name: str, *parts: bytes) -> None:
    """Writes a file of these parts that appears at once and whole."""
    temporary = f".{name[:32]}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise


def _entries(realm: str) -> Iterator[_Entry]:
    """The entries of a realm's directory; what vanishes meanwhile is passed over."""
    try:
        with os.scandir(realm) as found:
            for item in found:
                if item.name.startswith(".") or item.name == _ABOUT:
                    continue
                try:
                    status = item.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                yield _Entry(item.path, status.st_size, status.st_mtime)
    except FileNotFoundError:
        return


def _about(realm: str) -> str:
    """The name of a realm."""
    try:
        with open(os.path.join(realm, _ABOUT), "rb") as file:
            return file.readline(1 << 16).decode(errors="replace").strip()
    except OSError:
        return "an unknown machine"


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _remove_leftovers(realm: str, before: float) -> None:
    """Unfinished files, and the directory of a realm that has no entries."""
    kept = 0
    with os.scandir(realm) as found:
        for item in found:
            if not item.name.startswith("."):
                kept += item.name != _ABOUT
                continue
            try:
                is_old = item.stat(follow_symlinks=False).st_mtime < before
            except FileNotFoundError:
                continue
            if is_old:
                _remove(item.path)
            else:
                kept += 1
    if not kept:
        shutil.rmtree(realm, ignore_errors=True)


# --- which cache ---------------------------------------------------------------------------------


def default_directory() -> str | None:
    """Where the cache of this user lies unless options say otherwise; None for one without home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser(os.path.join("~", ".cache"))
    return os.path.join(base, "graphc") if os.path.isabs(base) else None


@cache
def _cache_in(directory: str) -> Cache:
    return Cache(directory)


def cache_of(setting: str | None) -> Cache | None:
    """The cache that the option ``cache`` asks for: None is the default directory."""
    directory = default_directory() if setting is None else setting
    return None if directory is None or directory == OFF else _cache_in(directory)


_CURRENT: ContextVar[str | None] = ContextVar("graphc_cache", default=OFF)


@contextmanager
def caching(setting: str | None) -> Iterator[None]:
    """What is compiled in the block uses the cache that the option ``cache`` asks for."""
    token = _CURRENT.set(setting)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_cache() -> Cache | None:
    """The cache of the block this runs in; outside of any there is none."""
    return cache_of(_CURRENT.get())
