"""LLVM text to machine code in this process.

Libraries get fresh names, since LLJIT never forgets one, nor the 9 KB that it keeps for each; so
an engine loads some libraries, and ends with the last of them. Code stays loaded as long as the
``Library`` lives, and some time longer (``graphc.base.llvm.free``). Objects are taken from the
cache on disk, and kept there, where there is one (``graphc.runtime.cache``).
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache, partial
from typing import Any

from graphc.base import lapack
from graphc.base.llvm import binding, ends_with, within
from graphc.base.target import Target, host
from graphc.runtime.cache import current_cache

_OPTIMIZE, _TRANSLATE = 1, 0
"""LLVM's levels of optimisation of its code generator: the usual one, and that of glue."""

_LIBRARIES = 32
"""What one engine loads. To make one takes 1 ms and 113 KB, a library a quarter of a millisecond;
one library that lives on keeps what its engine has of all others."""

_COUNTER = itertools.count()


class _Engine:
    """An LLJIT and what it has loaded; used under the lock of LLVM.

    Attributes:
        current: the one that loads libraries, made at first use.
    """

    current: _Engine | None = None

    def __init__(self) -> None:
        initialize()
        self._jit = binding().create_lljit_compiler(_machine(host(), jit=True))
        self._loaded = self._alive = 0

    @classmethod
    def load(
        cls, image: bytes, symbols: Iterable[str], imports: Mapping[str, int]
    ) -> tuple[dict[str, int], _Loaded]:
        """The addresses of an object's symbols, and what is to be closed in the end."""
        engine = cls.current
        if engine is None or engine._loaded == _LIBRARIES:
            full, engine = engine, cls()
            cls.current = engine
            if full is not None:
                full._end()
        builder = binding().JITLibraryBuilder().add_object_img(image).add_current_process()
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in symbols:
            builder.export_symbol(name)
        engine._loaded += 1
        tracker = builder.link(engine._jit, f"graphc_{next(_COUNTER)}")
        engine._alive += 1
        return {name: tracker[name] for name in symbols}, _Loaded(engine, tracker)

    def leave(self) -> None:
        """One of its libraries is gone."""
        self._alive -= 1
        self._end()

    def _end(self) -> None:
        """Ends if it has no library, and will have none."""
        if not self._alive and self is not _Engine.current:
            self._jit.close()


class _Loaded:
    """A library as its engine has it."""

    def __init__(self, engine: _Engine, tracker: Any) -> None:
        self._engine, self._tracker = engine, tracker

    def close(self) -> None:
        """Unloads it."""
        self._tracker.close()
        self._engine.leave()


def initialize() -> None:
    """Registers LLVM's native target; may be called again."""
    llvm = binding()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


def _machine(target: Target, jit: bool = False, level: int = _OPTIMIZE) -> Any:
    llvm = binding()
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
    llvm = binding()
    initialize()
    module = llvm.parse_assembly(text, llvm.create_context())
    machine = _emitter(target, level)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return module, machine


def realm_of(target: Target, glue: bool = False) -> str:
    """What objects for a target depend on beside their text, in words."""
    level = _TRANSLATE if glue else _OPTIMIZE
    return (
        f"objects for {target.cpu}, {_versions()}\n"
        f"{target.triple}, level {level}, {target.features}"
    )


@cache
def _versions() -> str:
    """Those of LLVM and llvmlite."""
    llvm = within(binding)
    import llvmlite

    version = ".".join(map(str, llvm.llvm_version_info))
    return f"LLVM {version} of llvmlite {llvmlite.__version__}"


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
    made: bytes = within(partial(_made, "emit_object", text, target, glue))
    return made


def assembly(text: str, target: Target | None = None) -> str:
    """The assembly LLVM makes of a module, for people."""
    made: str = within(partial(_made, "emit_assembly", text, target or host()))
    return made


def _made(what: str, text: str, target: Target, glue: bool = False) -> Any:
    module, machine = _parsed(text, target, _TRANSLATE if glue else _OPTIMIZE)
    return getattr(machine, what)(module)


class Library:
    """An object loaded into the process; unloaded some time after the last reference dies.

    Attributes:
        addresses: entry address by symbol.
    """

    def __init__(
        self, image: bytes, symbols: Iterable[str], imports: Mapping[str, int] | None = None
    ) -> None:
        """Loads; ``imports`` are addresses of what the object calls, beside this process's own and
        those of LAPACK.

        A symbol that the object lacks, or needs and nobody has, raises RuntimeError.
        """
        given = imports or {}
        calls = lapack.names_in(image)
        if calls:
            given = {**given, **lapack.addresses(calls)}
        load = partial(_Engine.load, image, tuple(symbols), given)
        self.addresses = within(partial(self._keep, load))

    def _keep(self, load: Callable[[], tuple[dict[str, int], _Loaded]]) -> dict[str, int]:
        addresses, loaded = load()
        ends_with(self, loaded)
        return addresses

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
