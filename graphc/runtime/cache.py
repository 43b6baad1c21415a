"""A directory of compiled things, shared by all processes of one user.

Invariant: a lookup gives exactly the bytes that were put under that realm and key, or a miss with
the reason; no state of the disk is an error. An entry begins with a hash of its realm, key and
content, so one that is truncated, edited or moved is a miss. Entries hold machine code, and a hash
proves no origin: that nobody else wrote them rests on the directory, which must belong to this
user and be writable for nobody else, as must each entry. That is checked of what is open, before
anything is read, written or removed; from there on names are looked up in descriptors and no link
is followed.

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
from contextlib import ExitStack, contextmanager, suppress
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

_MOST_LINKS = 8
"""Links that may lead to the directory, one to the next."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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
    """An entry: the directory of its realm, its name there, its size, and when it was last used."""

    realm: str
    name: str
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
            with _opened(self.directory) as base:
                try:
                    with _inside(base, _name(realm)) as directory:
                        content = _read(directory, key)
                except FileNotFoundError:
                    return Lookup(None, _reason_of_absence(base, realm, key))
        except FileNotFoundError:
            return Lookup(None, "no entry")
        except _Untrusted as error:
            return Lookup(None, error.strerror)
        except OSError as error:
            return Lookup(None, f"can't be read: {error.strerror}")
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
            _make_directory(self.directory)
            with _opened(self.directory) as base:
                self._make_room(base, len(content))
                _write(base, realm, key, content)
        except OSError as error:
            self.refused = f"not kept: {error.strerror}"
            return False
        self.refused = None
        return True

    def usage(self) -> Usage:
        """What is there.

        Raises:
            OSError: if the directory can't be read, or isn't this user's alone.
        """
        realms: list[tuple[str, int]] = []
        total = count = 0
        with self._present() as base:
            if base is None:
                return Usage(0, 0, ())
            for realm in _realms(base):
                entries = _entries(base, realm)
                count += len(entries)
                total += sum(entry.bytes for entry in entries)
                realms.append((_about(base, realm), len(entries)))
        return Usage(count, total, tuple(realms))

    def clear(self) -> int:
        """Removes every entry; gives how many there were.

        Raises:
            OSError: if something can't be removed, or isn't this user's alone.
        """
        count = 0
        with self._present() as base:
            if base is None:
                return 0
            for realm in _realms(base):
                count += len(_entries(base, realm))
                shutil.rmtree(realm, dir_fd=base)
        return count

    def trim(self, bound: int = MAX_BYTES) -> None:
        """Removes what was used longest ago until the rest is well below the bound.

        Raises:
            OSError: if the directory can't be read, or isn't this user's alone.
        """
        with self._present() as base:
            if base is not None:
                _trim(base, bound)

    # --- pieces ----------------------------------------------------------------------------------

    @contextmanager
    def _present(self) -> Iterator[int | None]:
        """The directory as a descriptor; None where there is none."""
        with ExitStack() as opened:
            try:
                base = opened.enter_context(_opened(self.directory))
            except (FileNotFoundError, NotADirectoryError):
                base = None
            yield base

    def _make_room(self, base: int, size: int) -> None:
        """Trims if that was not done for long, or this process has written much since."""
        self._written += size
        try:
            mark = os.stat(_SCANNED, dir_fd=base, follow_symlinks=False)
            age = time.time() - mark.st_mtime
        except FileNotFoundError:
            age = 0.0
            _mark(base)
        if age > _SCAN_EVERY_SECONDS or self._written > _SCAN_EVERY_BYTES:
            _mark(base)
            self._written = 0
            self.trim()


class _Untrusted(PermissionError):
    """A directory or file that somebody else may have written."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EPERM, text)
        self.strerror: str = text


def _name(realm: str) -> str:
    return hashlib.sha256(realm.encode()).hexdigest()[:16]


def _is_digest(name: str) -> bool:
    return len(name) == 16 and not set(name).difference("0123456789abcdef")


def _digest(realm: str, key: str, content: bytes) -> bytes:
    hasher = hashlib.sha256(f"{len(realm)} {realm} {key} {len(content)} ".encode())
    hasher.update(content)
    return hasher.digest()


# --- directories ---------------------------------------------------------------------------------


def _make_directory(path: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A descriptor of the directory, if it is this user's alone.

    It may be a link, if that is this user's or the system's own.
    """
    descriptor = _directory_at(path)
    try:
        _check_owner(os.fstat(descriptor), "the directory")
        yield descriptor
    finally:
        os.close(descriptor)


def _directory_at(path: str) -> int:
    for _ in range(_MOST_LINKS):
        link = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(link)
            if not stat.S_ISLNK(status.st_mode):
                # what was looked at is what is opened
                return os.open(".", _DIRECTORY, dir_fd=link)
            if status.st_uid not in (os.geteuid(), 0):
                raise _Untrusted("the directory is a link of another user")
            path = os.path.join(os.path.dirname(path), os.readlink("", dir_fd=link))
        finally:
            os.close(link)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


@contextmanager
def _inside(base: int, name: str) -> Iterator[int]:
    """A descriptor of a realm's directory, if it is this user's alone."""
    descriptor = os.open(name, _DIRECTORY, dir_fd=base)
    try:
        _check_owner(os.fstat(descriptor), "the directory")
        yield descriptor
    finally:
        os.close(descriptor)


def _check_owner(status: os.stat_result, what: str) -> None:
    if status.st_uid != os.geteuid():
        raise _Untrusted(f"{what} belongs to another user")
    if status.st_mode & 0o022:
        raise _Untrusted(f"{what} is writable for other users")


def _realms(base: int) -> list[str]:
    """The names of the directories of realms."""
    with os.scandir(base) as found:
        return sorted(
            item.name
            for item in found
            if _is_digest(item.name) and item.is_dir(follow_symlinks=False)
        )


def _entries(base: int, realm: str) -> list[_Entry]:
    """The entries of a realm; what vanishes meanwhile is passed over."""
    entries = []
    with suppress(FileNotFoundError), _inside(base, realm) as directory:
        with os.scandir(directory) as found:
            names = [item.name for item in found if not item.name.startswith(".")]
        for name in names:
            if name != _ABOUT and (status := _status(directory, name)) is not None:
                entries.append(_Entry(realm, name, status.st_size, status.st_mtime))
    return entries


def _status(directory: int, name: str) -> os.stat_result | None:
    """Of what has a name, be it a link; None if nothing has."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


# --- entries -------------------------------------------------------------------------------------


def _reason_of_absence(base: int, realm: str, key: str) -> str:
    own = _name(realm)
    for other in _realms(base):
        if other == own:
            continue
        with _inside(base, other) as directory:
            is_there = _status(directory, key) is not None
        if is_there:
            name = _about(base, other)
            if name == realm.partition("\n")[0]:
                name = "other features or versions"
            return f"no entry, but one for {name}"
    return "no entry"


def _write(base: int, realm: str, key: str, content: bytes) -> None:
    name = _name(realm)
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=base)
    with _inside(base, name) as directory:
        if _status(directory, _ABOUT) is None:
            _publish(directory, _ABOUT, realm.encode())
        _publish(directory, key, _digest(realm, key, content), content)


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
            _touch(descriptor)
        return file.read()


def _touch(descriptor: int) -> None:
    """Marks a file as used now; on a disk that takes no writes its age just stays."""
    try:
        os.utime(descriptor)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise


def _mark(base: int) -> None:
    """Notes that the directory is scanned now."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(_SCANNED, flags, 0o600, dir_fd=base)
    try:
        _touch(descriptor)
    finally:
        os.close(descriptor)


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
        # an interrupt may come when it has its name already
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _about(base: int, realm: str) -> str:
    """The name of a realm."""
    try:
        with _inside(base, realm) as directory:
            content = _read(directory, _ABOUT)
    except OSError:
        return "an unknown machine"
    return content.partition(b"\n")[0].decode(errors="replace").strip()


def _trim(base: int, bound: int) -> None:
    """Removes what was used longest ago, and what nobody will finish."""
    realms = _realms(base)
    entries = [entry for realm in realms for entry in _entries(base, realm)]
    total = sum(entry.bytes for entry in entries)
    if total > bound:
        entries.sort(key=lambda entry: entry.used)
        for entry in entries:
            if total <= bound * _KEPT_AFTER_TRIM:
                break
            with suppress(FileNotFoundError), _inside(base, entry.realm) as directory:
                os.unlink(entry.name, dir_fd=directory)
            total -= entry.bytes
    stale = time.time() - _STALE_SECONDS
    for realm in realms:
        with suppress(FileNotFoundError):
            _remove_leftovers(base, realm, stale)


def _remove_leftovers(base: int, realm: str, before: float) -> None:
    """Unfinished files, and the directory of a realm that has no entries."""
    kept = 0
    with _inside(base, realm) as directory:
        with os.scandir(directory) as found:
            names = [item.name for item in found]
        for name in names:
            status = _status(directory, name) if name.startswith(".") else None
            if status is not None and status.st_mtime < before:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
            else:
                kept += name != _ABOUT
    if not kept:
        shutil.rmtree(realm, ignore_errors=True, dir_fd=base)


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
