"""Fault 15: Ctrl-C always arrives as a KeyboardInterrupt, and leaves everything whole.

Python can only print an error that arises in a destructor or in a callback of a weak reference, so
none of ours is written in Python.
"""

from __future__ import annotations

import ast
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from at_once import at_once
from tools import ROOT, child_environment, lean_environment, script_output

import graphc as gx
from graphc.aot.publish import publish
from graphc.base import llvm
from graphc.base.weak import WeakBag, WeakTable
from graphc.ir.dims.expressions import symbol
from graphc.ir.text.files import replace_file
from graphc.runtime import entry, jit
from graphc.runtime.cache import Cache
from graphc.runtime.interrupt import handler, interruptible


def stressed(count: int, seed: int) -> None:
    told = script_output("interrupt_stress.py", count, seed)
    assert told == "0 lost []\n", told


def test_fault_15_no_interrupt_of_random_moments_is_lost() -> None:
    stressed(50, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_fault_15_no_interrupt_of_1000_random_moments_is_lost(seed: int) -> None:
    stressed(1000, seed)


def called_while_dying(drop: str, names: dict[str, object]) -> list[str]:
    """The functions of Python that run while a name is deleted."""
    ran: list[str] = []
    code = compile(f"del {drop}", "dying", "exec")
    sys.setprofile(
        lambda frame, event, argument: ran.append(frame.f_code.co_name) if event == "call" else None
    )
    exec(code, names)
    sys.setprofile(None)
    return [name for name in ran if name != "<module>"]


def test_fault_15_no_code_runs_where_things_die() -> None:
    """Results, programs, sessions, symbols of dims, and what is kept of them."""
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float32", name="x")
        y = gx.tanh(x * 3.0)
    session = gx.Session(graph)
    executable = session.compile(y, [x])
    results = [executable(np.ones(1 << 19, np.float32)) for _ in range(3)]
    names: dict[str, object] = {
        "results": results, "executable": executable, "session": session, "graph": graph,
        "x": x, "y": y, "dim": symbol("of_this_test_alone") * 3 + 1,
        "library": jit.load("define void @f() {\n ret void\n}\n", ("f",)),
    }  # fmt: skip
    del results, executable, session, graph, x, y
    gc.collect()
    for name in list(names):
        assert called_while_dying(name, names) == [], name


def test_what_is_known_weakly_is_forgotten() -> None:
    class Thing:
        pass

    bag: WeakBag[Thing] = WeakBag()
    table: WeakTable[str, Thing] = WeakTable()
    one, two = Thing(), Thing()
    for name, thing in (("one", one), ("two", two)):
        bag.add(thing)
        assert table.setdefault(name, thing) is thing
    assert table.setdefault("one", two) is one and list(bag) == [one, two] and len(table) == 2
    del one, thing
    assert list(bag) == [two] and table.get("one") is None and len(table) == 1
    new = Thing()
    assert table.setdefault("one", new) is new and table.get("one") is new
    bag.add(new)
    assert list(bag) == [two, new] and len(bag._entries) == 2


def test_an_interrupt_ends_the_wait_for_llvm_and_not_the_work() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> int:
        assert threading.current_thread() is not threading.main_thread()
        begun.set()
        assert may_end.wait(60)
        ended.set()
        return 1

    def interrupt() -> None:
        assert begun.wait(60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        llvm.within(work)
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(60)
    assert llvm.within(lambda: 2) == 2
    sender.join()


def test_errors_of_llvm_reach_who_asked_and_hold_nothing_of_it() -> None:
    with pytest.raises(RuntimeError, match="expected") as caught:
        jit.compile_object("define nonsense")
    frame = caught.tb
    while frame.tb_next is not None:
        frame = frame.tb_next
        if "llvmlite" in frame.tb_frame.f_code.co_filename:
            assert not frame.tb_frame.f_locals
    with pytest.raises(RuntimeError):
        jit.Library(jit.compile_object("define void @f() {\n ret void\n}\n"), ("missing",))


def test_an_interrupt_around_a_native_run_leaves_the_handler_as_it_was() -> None:
    native = handler(None)
    before = signal.getsignal(signal.SIGINT)

    def interrupted(flag: int | None) -> int:
        signal.raise_signal(signal.SIGINT)
        assert native.flag.value == 1
        return 3

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            interruptible(native, interrupted)
        assert signal.getsignal(signal.SIGINT) is before and native.flag.value == 0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interruptible(native, lambda flag: 4) == 4


def test_no_destructor_of_ours_is_written_in_python() -> None:
    for package in ("graphc", "passes"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                assert not (isinstance(node, ast.FunctionDef) and node.name == "__del__"), path


# --- memory --------------------------------------------------------------------------------------

GROWTH = """
import ctypes, gc, sys
import numpy as np
import graphc as gx

def compiled(number):
    with gx.Graph():
        x = gx.placeholder((None,), name="x")
        y = gx.tanh(x * float(number) + 1.0)
    gx.Session(x.graph, options=gx.Options(optimize=1)).run(y, {x: np.ones(8, np.float32)})

def grown(first, count):
    for number in range(first, first + count):
        compiled(number)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4096

count = int(sys.argv[1])
before = grown(1, count)
print(grown(10_000, count) - before)
"""


def growth(count: int, cache: str) -> float:
    """The bytes that stay for each of so many further programs."""
    command = [sys.executable, "-c", GROWTH, str(count)]
    environment = lean_environment(child_environment(GRAPHC=f"cache={cache}"))
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=True
    )
    return int(done.stdout) / count


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["off", "on disk"])
def test_fault_15_1000_distinct_programs_leave_no_memory_behind(tmp_path: Path, cache: str) -> None:
    """10 KB stayed for each; LLVM forgets the libraries of an engine when that ends. Fewer programs
    say little: the first 150 fill caches of the process, 6 to 11 KB each."""
    assert growth(1000, "off" if cache == "off" else str(tmp_path)) < 2000


def test_fault_15_an_engine_ends_with_the_last_of_its_libraries() -> None:
    image = jit.compile_object("define i32 @f() {\n ret i32 7\n}\n")
    libraries = [jit.Library(image, ("f",)) for _ in range(3 * jit._LIBRARIES)]
    engine = jit._Engine.current
    middle = libraries[jit._LIBRARIES + jit._LIBRARIES // 2]
    owned: dict[Any, Any] = {owner(): loaded for owner, loaded in llvm._OWNED.items()}
    of_middle = owned.pop(middle)._engine
    owned.clear()
    assert of_middle is not engine
    del libraries
    llvm.free()
    assert middle.function("f", result=ctypes.c_int)() == 7 and not of_middle._jit.closed
    del middle
    llvm.free()
    assert of_middle._jit.closed


def test_fault_15_what_waits_to_be_freed_is_bounded() -> None:
    """Nobody compiles in the background here."""
    image = jit.compile_object("define i32 @f() {\n ret i32 7\n}\n")
    for _ in range(3 * llvm._MOST_DEAD):
        jit.Library(image, ("f",))
        assert len(llvm._DEAD) <= llvm._MOST_DEAD


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_fault_15_an_interrupt_at_the_end_of_writing_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Nothing that is cleaned up then takes its place, and no file is left half written."""
    replace = os.replace

    def interrupted(*arguments: Any, **named: Any) -> None:
        if moment == "after":
            replace(*arguments, **named)
        raise KeyboardInterrupt

    (tmp_path / "file").write_bytes(b"old")
    cache = Cache(str(tmp_path / "cache"))
    cache.put("here", "0", b"old")
    monkeypatch.setattr(os, "replace", interrupted)
    expected = b"new" if moment == "after" else b"old"
    with pytest.raises(KeyboardInterrupt):
        replace_file(str(tmp_path / "file"), lambda file: file.write(b"new"))
    with pytest.raises(KeyboardInterrupt):
        cache.put("here", "0", b"new")
    assert (tmp_path / "file").read_bytes() == cache.get("here", "0").content == expected
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize("moment", range(4))
def test_fault_15_an_interrupt_while_a_library_is_replaced_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """It comes before or after either of the two renames."""
    path = str(tmp_path / "library")
    publish(path, {"a.json": b"{old"}, b"{")
    rename, count = os.rename, [0]

    def interrupted(*arguments: Any) -> None:
        number, count[0] = count[0], count[0] + 1
        if number == moment / 2:
            raise KeyboardInterrupt
        rename(*arguments)
        if number == (moment - 1) / 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish(path, {"a.json": b"{new"}, b"{")
    content = (tmp_path / "library" / "a.json").read_bytes()
    assert content == (b"{new" if moment == 3 else b"{old")
    assert [item.name for item in tmp_path.iterdir()] == ["library"]


def test_threads_that_are_the_first_to_call_natively_share_the_code() -> None:
    """Whoever lost the race had code that was unloaded."""
    entry._compiled.cache_clear()
    found: list[Any] = []
    at_once(*[lambda: found.append(entry._compiled())] * 4)
    assert len({made[:2] for made in found}) == 1
