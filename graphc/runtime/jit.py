"""LLVM text to machine code in this process.

llvmlite is serialised by one lock. Libraries get fresh names, since LLJIT never forgets one. Code
stays loaded as long as the ``Library`` lives. Objects are taken from the cache on disk, and kept
there, where there is one (``graphc.runtime.cache``).
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from graphc.base.target import Target, host
from graphc.runtime.cache import current_cache

_OPTIMIZE, _TRANSLATE = 1, 0
"""LLVM's levels of optimisation of its code generator: the usual one, and that of glue."""

_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    # a child must not be born while another thread, which it will lack, is inside of LLVM
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )
_COUNTER = itertools.count()


class _Engine:
    """The process-wide LLJIT, made at first use."""

    compiler: Any = None

    @classmethod
    def get(cls) -> Any:
        if cls.compiler is None:
            initialize()
            cls.compiler = llvm.create_lljit_compiler(_machine(host(), jit=True))
        return cls.compiler


def initialize() -> None:
    """Registers LLVM's native target; may be called again."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


def _machine(target: Target, jit: bool = False, level: int = _OPTIMIZE) -> Any:
    if target.architecture != host().architecture:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=level,
        # code of WebAssembly does not lie in memory, so nothing in it moves
        reloc="static" if target.architecture == "wasm32" else "pic",
        codemodel="small",
        jit=jit,
    )


@lru_cache(maxsize=16)
def _emitter(target: Target, level: int) -> Any:
    """What makes a target's code, again and again, under the lock."""
    return _machine(target, level=level)


def _parsed(text: str, target: Target, level: int = _OPTIMIZE) -> tuple[Any, Any]:
    """A module of LLVM text for a target, and the machine that makes its code."""
    initialize()
    module = llvm.parse_assembly(text, llvm.create_context())
    machine = _emitter(target, level)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return module, machine


def realm_of(target: Target, glue: bool = False) -> str:
    """What objects for a target depend on beside their text, in words."""
    level = _TRANSLATE if glue else _OPTIMIZE
    version = ".".join(map(str, llvm.llvm_version_info))
    return (
        f"objects for {target.cpu}, LLVM {version} of llvmlite {llvmlite.__version__}\n"
        f"{target.triple}, level {level}, {target.features}"
    )


def key_of(text: str) -> str:
    """The key of a module's object in the cache."""
    return hashlib.sha256(text.encode()).hexdigest()


def compile_object(text: str, target: Target | None = None, glue: bool = False) -> bytes:
    """Machine code for a module of LLVM text, as a relocatable object.

    No mid-end passes run: vectors are explicit, so they would take time and find little. Glue is
    translated instruction by instruction.
    """
    chosen = target or host()
    cache = current_cache()
    if cache is None:
        return _emitted(text, chosen, glue)
    realm, key = realm_of(chosen, glue), key_of(text)
    known = cache.get(realm, key).content
    if known is None:
        known = _emitted(text, chosen, glue)
        cache.put(realm, key, known)
    return known


def _emitted(text: str, target: Target, glue: bool) -> bytes:
    with _LOCK:
        module, machine = _parsed(text, target, _TRANSLATE if glue else _OPTIMIZE)
        result: bytes = machine.emit_object(module)
        return result


def assembly(text: str, target: Target | None = None) -> str:
    """The assembly LLVM makes of a module, for people."""
    with _LOCK:
        module, machine = _parsed(text, target or host())
        result: str = machine.emit_assembly(module)
        return result


class Library:
    """An object loaded into the process; unloaded when the last reference dies.

    Attributes:
        addresses: entry address by symbol.
    """

    def __init__(
        self, image: bytes, symbols: Iterable[str], imports: Mapping[str, int] | None = None
    ) -> None:
        """Loads; ``imports`` are addresses of what the object calls, beside this process's own.

        A symbol that the object lacks, or needs and nobody has, raises RuntimeError.
        """
        names = tuple(symbols)
        with _LOCK:
            builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
            for name, address in (imports or {}).items():
                builder.import_symbol(name, address)
            for name in names:
                builder.export_symbol(name)
            self._tracker = builder.link(_Engine.get(), f"graphc_{next(_COUNTER)}")
            self.addresses: dict[str, int] = {name: self._tracker[name] for name in names}

    def function(self, symbol: str, *parameters: Any, result: Any = None) -> Any:
        """The symbol as a ctypes function (which releases the interpreter lock)."""
        return ctypes.CFUNCTYPE(result, *parameters)(self.addresses[symbol])


def load(
    text: str,
    symbols: Iterable[str],
    target: Target | None = None,
    imports: Mapping[str, int] | None = None,
) -> Library:
    """Compiles a module, or takes its object from the cache, and loads it.

    The text should be the same in every process: addresses are for ``imports``, else the cache
    fills with what nobody finds again.
    """
    return Library(compile_object(text, target), symbols, imports)


_SHARED: dict[tuple[tuple[str, ...], str, Target], Library] = {}


def shared_library(
    symbols: tuple[str, ...], key: str, target: Target, image: Callable[[], bytes | None]
) -> Library | None:
    """Code that many programs call, loaded once in a process; None if there is no image of it.

    ``key`` is that of its text, from which ``image`` gives the object.
    """
    known = _SHARED.get((symbols, key, target))
    if known is None:
        found = image()
        if found is None:
            return None
        known = _SHARED.setdefault((symbols, key, target), Library(found, symbols))
    return known
