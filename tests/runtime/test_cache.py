"""The cache on disk: entries, and what is taken from it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools import child_environment

from graphc.base.errors import GraphError
from graphc.base.options import Options
from graphc.base.target import host, named
from graphc.runtime import cache as caches
from graphc.runtime.cache import Cache, cache_of, caching, default_directory
from graphc.runtime.jit import compile_object, load

TEXT = "define i64 @answer() {\n  ret i64 42\n}\n"
KEY = "0" * 64


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"))


def files(cache: Cache) -> list[Path]:
    """The files of all entries."""
    found = Path(cache.directory).glob("*/*")
    return sorted(path for path in found if path.name != "about" and path.name[0] != ".")


# --- entries -------------------------------------------------------------------------------------


def test_what_was_put_is_found_again_and_nothing_else(cache: Cache) -> None:
    assert cache.get("here", KEY).reason == "no entry"
    assert cache.put("here", KEY, b"content")
    assert (cache.get("here", KEY).content, cache.get("here", KEY).reason) == (b"content", "hit")
    assert cache.get("here", "1" * 64).reason == "no entry"
    assert Cache(cache.directory).get("here", KEY).content == b"content"
    assert cache.put("here", KEY, b"") and cache.get("here", KEY).content == b""


def test_another_realm_is_a_miss_that_names_whose_entry_there_is(cache: Cache) -> None:
    cache.put("objects for old\n+sse", KEY, b"old")
    assert cache.get("objects for new\n+avx", KEY).reason == "no entry, but one for objects for old"
    found = cache.get("objects for old\n+avx", KEY)
    assert (
        found.content is None and found.reason == "no entry, but one for other features or versions"
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: bytes(len(content)),
    ],
)
def test_damaged_entries_are_misses_and_are_replaced(cache: Cache, damage: object) -> None:
    cache.put("here", KEY, b"content")
    (path,) = files(cache)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    found = cache.get("here", KEY)
    assert found.content is None and found.reason.startswith("corrupt")
    assert cache.put("here", KEY, b"content") and cache.get("here", KEY).content == b"content"


def test_an_entry_under_another_key_or_realm_is_corrupt(cache: Cache) -> None:
    cache.put("here", KEY, b"content")
    cache.put("there", KEY, b"other")
    here, there = sorted(files(cache), key=lambda path: path.read_bytes()[-5:] == b"other")
    here.with_name("1" * 64).write_bytes(here.read_bytes())
    there.write_bytes(here.read_bytes())
    for realm, key in (("here", "1" * 64), ("there", KEY)):
        assert cache.get(realm, key).reason.startswith("corrupt")


def test_files_are_their_owners_alone(cache: Cache) -> None:
    mask = os.umask(0)
    try:
        cache.put("here", KEY, b"content")
    finally:
        os.umask(mask)
    for path in (Path(cache.directory), *Path(cache.directory).glob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert [stat.S_IMODE(path.stat().st_mode) for path in files(cache)] == [0o600]


@pytest.mark.parametrize("place", ["cache", "realm", "entry"])
def test_what_others_may_write_is_not_trusted(cache: Cache, place: str) -> None:
    cache.put("here", KEY, b"content")
    (path,) = files(cache)
    chosen = {"cache": path.parent.parent, "realm": path.parent, "entry": path}[place]
    chosen.chmod(0o777)
    found = cache.get("here", KEY)
    assert found.content is None and "writable for other users" in found.reason
    assert cache.put("here", KEY, b"content") is (place == "entry")
    assert place == "entry" or "writable for other users" in str(cache.refused)


def test_what_belongs_to_others_is_not_trusted(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put("here", KEY, b"content")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    found = cache.get("here", KEY)
    assert found.content is None and "belongs to another user" in found.reason
    assert not cache.put("here", "1" * 64, b"content")


def test_links_and_other_things_in_the_place_of_entries_are_misses(cache: Cache) -> None:
    cache.put("here", KEY, b"content")
    (path,) = files(cache)
    path.rename(path.with_name("2" * 64))
    path.symlink_to(path.with_name("2" * 64))
    assert cache.get("here", KEY).content is None
    path.unlink()
    os.mkfifo(path)
    path.chmod(0o600)
    assert cache.get("here", KEY).reason == "the entry is no regular file"
    path.unlink()
    path.mkdir()
    assert cache.get("here", KEY).content is None
    assert not cache.put("here", KEY, b"content") and "not kept" in str(cache.refused)
    assert not [*path.parent.glob(".*")]


def test_a_place_that_cannot_be_a_directory_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        cache = Cache(str(directory))
        assert cache.get("here", KEY).content is None
        assert not cache.put("here", KEY, b"content") and "not kept" in str(cache.refused)


def test_a_full_disk_leaves_nothing_behind(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put("here", KEY, b"content")

    def full(*arguments: object, **named_ones: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", full)
    assert not cache.put("here", "1" * 64, b"content")
    assert cache.refused == "not kept: No space left on device"
    assert [path.name for path in files(cache)] == [KEY]
    monkeypatch.undo()
    assert cache.put("here", "1" * 64, b"content") and cache.refused is None


def test_entries_that_are_too_large_are_not_kept(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "MAX_ENTRY_BYTES", 10)
    assert cache.put("here", KEY, bytes(10)) and cache.get("here", KEY).content == bytes(10)
    assert not cache.put("here", KEY, bytes(11))
    assert cache.refused == "not kept: it takes 11 bytes"


def test_what_was_used_longest_ago_goes_first(cache: Cache) -> None:
    for number in range(10):
        cache.put("here", f"{number:064}", bytes(1000))
    now = time.time()
    for number, path in enumerate(files(cache)):
        os.utime(path, (now - 10_000 + number, now - 10_000 + number))
    assert cache.get("here", f"{0:064}").content is not None  # which marks it as used
    cache.trim(bound=6 * 1032)
    assert [int(path.name) for path in files(cache)] == [0, 7, 8, 9]
    cache.trim(bound=6 * 1032)
    assert len(files(cache)) == 4


def test_the_bound_is_looked_after_now_and_then(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed = []
    monkeypatch.setattr(cache, "trim", lambda: trimmed.append(1))
    cache.put("here", KEY, bytes(1000))
    cache.put("here", KEY, bytes(1000))
    assert not trimmed
    old = time.time() - 2 * 3600
    os.utime(Path(cache.directory) / "scanned", (old, old))
    cache.put("here", KEY, bytes(1000))
    assert len(trimmed) == 1
    cache.put("here", KEY, bytes(1000))
    assert len(trimmed) == 1
    for _ in range(3):
        cache.put("here", KEY, bytes(30 << 20))
    assert len(trimmed) == 2


def test_unfinished_files_and_empty_realms_are_swept(cache: Cache) -> None:
    cache.put("here", KEY, b"content")
    cache.put("there", KEY, b"content")
    directories = {path.parent for path in files(cache)}
    for directory in directories:
        (directory / ".young").write_bytes(b"x")
        (directory / ".old").write_bytes(b"x")
        os.utime(directory / ".old", (1, 1))
    cache.trim()
    left = {path.name for directory in directories for path in directory.iterdir()}
    assert left == {"about", KEY, ".young"}
    for path in files(cache):
        path.unlink()
    for directory in directories:
        (directory / ".young").unlink()
    cache.trim()
    assert not any(directory.exists() for directory in directories)


def test_usage_and_clearing(cache: Cache) -> None:
    assert cache.usage().entries == 0 and cache.clear() == 0
    cache.put("here\nfeatures", KEY, b"content")
    cache.put("here\nfeatures", "1" * 64, b"content")
    usage = cache.usage()
    assert (usage.entries, usage.bytes, usage.realms) == (2, 2 * (32 + 7), (("here", 2),))
    assert cache.clear() == 2 and cache.usage().entries == 0
    assert cache.get("here\nfeatures", KEY).reason == "no entry"


def test_processes_that_write_and_read_at_once_never_see_half_an_entry(tmp_path: Path) -> None:
    code = (
        "import sys; from graphc.runtime.cache import Cache\n"
        "cache = Cache(sys.argv[1])\n"
        "for round in range(40):\n"
        "    content = bytes([round % 7]) * 300_000\n"
        "    assert cache.put('here', '0' * 64, content), cache.refused\n"
        "    found = cache.get('here', '0' * 64)\n"
        "    assert found.reason == 'hit', found.reason\n"
        "    assert found.content == found.content[:1] * 300_000\n"
    )
    environment = child_environment()
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=environment)
        for _ in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]


# --- which cache ---------------------------------------------------------------------------------


def test_the_option_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_of("off") is None
    assert Options().cache is None
    assert Options.from_environment({"GRAPHC": "cache=off"}).cache == "off"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == str(tmp_path / "graphc")
    for nothing in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", nothing)
        monkeypatch.setenv("HOME", str(tmp_path))
        found = cache_of(None)
        assert found is not None and found.directory == str(tmp_path / ".cache" / "graphc")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache_of(None) is None
    with pytest.raises(GraphError, match="a directory"):
        Options(cache="")
    with pytest.raises(GraphError, match="write cache=off"):
        Options.from_environment({"GRAPHC": "cache"})


# --- objects -------------------------------------------------------------------------------------


def test_objects_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with caching(str(tmp_path)):
        first = compile_object(TEXT)
        monkeypatch.setattr("graphc.runtime.jit._emitted", None)
        assert compile_object(TEXT) == first
        assert load(TEXT, ("answer",)).addresses["answer"]
        with caching("off"), pytest.raises(TypeError):
            compile_object(TEXT)
    with pytest.raises(TypeError):
        compile_object(TEXT)


def test_objects_are_not_taken_for_another_target(tmp_path: Path) -> None:
    targets = [host(), host().without_fma(), named("x86-64-v2"), named("x86-64-v3")]
    text = "define <8 x float> @f(<8 x float> %x) {\n  ret <8 x float> %x\n}\n"
    with caching(str(tmp_path)):
        for target in dict.fromkeys(targets):
            compile_object(text, target)
    assert Cache(str(tmp_path)).usage().entries == len(set(targets))


def test_a_damaged_object_is_compiled_again(tmp_path: Path) -> None:
    with caching(str(tmp_path)):
        first = compile_object(TEXT)
        (path,) = files(Cache(str(tmp_path)))
        path.write_bytes(path.read_bytes()[:-3])
        assert compile_object(TEXT) == first
        assert path.read_bytes().endswith(first)


# --- whose directory it is -----------------------------------------------------------------------

NOBODY = 65534
"""The number of a user without rights."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to give files to another user")


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """All that is below a folder, with sizes and times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found[str(path)] = status.st_size, status.st_mtime_ns
    return found


def old_entries(cache: Cache) -> None:
    """What trimming would remove: entries, unfinished files, and an old mark of the last scan."""
    for number in range(4):
        assert cache.put("here", f"{number:064}", bytes(1000))
    for path in (*files(cache), Path(cache.directory) / "scanned"):
        os.utime(path, (1, 1))
    (files(cache)[0].parent / ".unfinished").write_bytes(b"x")
    os.utime(files(cache)[0].parent / ".unfinished", (1, 1))


def assert_refused(cache: Cache, where: Path, reason: str) -> None:
    """Nothing is read, written, marked or removed there."""
    before = listing(where)
    for realm, key in (("here", f"{0:064}"), ("new", KEY)):
        found = cache.get(realm, key)
        assert found.content is None and reason in found.reason
        assert not cache.put(realm, key, b"content") and reason in str(cache.refused)
    for work in (cache.trim, cache.usage, cache.clear, lambda: cache.trim(bound=0)):
        with pytest.raises(PermissionError, match=reason):
            work()
    assert listing(where) == before


@as_root
def test_fault_19_a_folder_of_another_user_is_left_alone(cache: Cache, tmp_path: Path) -> None:
    old_entries(cache)
    os.chown(cache.directory, NOBODY, NOBODY)
    assert_refused(cache, tmp_path, "belongs to another user")


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_fault_19_a_folder_that_others_may_write_is_left_alone(
    cache: Cache, tmp_path: Path, mode: int
) -> None:
    old_entries(cache)
    os.chmod(cache.directory, mode)
    assert_refused(cache, tmp_path, "writable for other users")


@as_root
def test_fault_19_an_empty_folder_of_another_user_is_left_alone(tmp_path: Path) -> None:
    made = tmp_path / "cache"
    made.mkdir()
    os.chown(made, NOBODY, NOBODY)
    assert_refused(Cache(str(made)), tmp_path, "belongs to another user")


@as_root
def test_fault_19_a_link_of_another_user_is_not_followed(cache: Cache, tmp_path: Path) -> None:
    old_entries(cache)
    link = tmp_path / "link"
    link.symlink_to(cache.directory)
    assert Cache(str(link)).get("here", f"{0:064}").reason == "hit"
    assert Cache(str(link)).put("here", KEY, b"content")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert_refused(Cache(str(link)), tmp_path, "a link of another user")
    chain = tmp_path / "chain"
    chain.symlink_to(link)
    assert_refused(Cache(str(chain)), tmp_path, "a link of another user")


def test_links_that_lead_in_a_circle_are_a_miss(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    cache = Cache(str(tmp_path / "a"))
    assert "links" in cache.get("here", KEY).reason and not cache.put("here", KEY, b"content")


@pytest.mark.parametrize("name", ["scanned", "about", "realm", "entry"])
def test_fault_19_no_link_within_is_followed(cache: Cache, tmp_path: Path, name: str) -> None:
    """What it names is neither made, written, marked as used nor removed."""
    cache.put("here", KEY, b"content")
    (entry,) = files(cache)
    place = {
        "scanned": Path(cache.directory) / "scanned", "about": entry.parent / "about",
        "realm": entry.parent, "entry": entry,
    }[name]  # fmt: skip
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_bytes(b"victim")
    (outside / KEY).write_bytes(entry.read_bytes())
    for path in outside.iterdir():
        os.utime(path, (1, 1))
    os.utime(outside, (1, 1))
    before = listing(tmp_path / "outside")
    for target in ("victim", "missing"):
        if place.is_dir() and not place.is_symlink():
            for path in place.iterdir():
                path.unlink()
            place.rmdir()
        else:
            place.unlink(missing_ok=True)
        place.symlink_to(outside if name == "realm" else outside / target)
        assert name == "scanned" or name == "about" or cache.get("here", KEY).content is None
        cache.put("here", KEY, b"new")
        cache.usage()
        cache.trim(bound=0)
        cache.clear()
        assert listing(outside) == before and not (outside / "missing").exists()
        entry.parent.mkdir(exist_ok=True) if name in ("about", "entry") else None


@as_root
def test_fault_19_a_realm_of_another_user_is_left_alone(cache: Cache, tmp_path: Path) -> None:
    old_entries(cache)
    realm = files(cache)[0].parent
    os.chown(realm, NOBODY, NOBODY)
    before = listing(realm)
    assert cache.get("here", f"{0:064}").reason == "the directory belongs to another user"
    assert not cache.put("here", KEY, b"content")
    with pytest.raises(PermissionError):
        cache.trim(bound=0)
    assert listing(realm) == before


def test_fault_19_a_directory_that_is_replaced_meanwhile_is_not_written_to(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was checked is what is used: names are looked up in descriptors."""
    cache.put("here", KEY, b"content")
    outside = tmp_path / "outside"
    outside.mkdir()
    check, moved = caches._check_owner, tmp_path / "moved"

    def replaced(status: os.stat_result, what: str) -> None:
        check(status, what)
        if not moved.exists():
            os.rename(cache.directory, moved)
            os.symlink(outside, cache.directory)

    monkeypatch.setattr(caches, "_check_owner", replaced)
    assert cache.put("there", KEY, b"content")
    assert not [*outside.iterdir()] and len([*moved.glob("*/*")]) == 4
