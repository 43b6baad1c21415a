"""Machine code of a program's text, beside what it calls."""

from __future__ import annotations

from functools import cache

from graphc.base.llvm import uninterrupted
from graphc.base.target import Target, host
from graphc.codegen.native.plan_walker import ProgramText, emit_walker
from graphc.plan.abi import WALKER, WORKER
from graphc.runtime.code import Code
from graphc.runtime.jit import Library, compile_object, key_of, shared_library


def load_code(text: ProgramText, target: Target) -> Code:
    """Compiles the kernels' text and loads it beside what it calls and the loop over steps."""

    def loaded() -> Code:
        libraries = [_shared(walker_text(), (WALKER, WORKER), host())]
        imports: dict[str, int] = {}
        for library in text.libraries.values():
            found = _shared(library.text, library.exports, target)
            libraries.append(found)
            imports |= found.addresses
        for module in text.modules:
            image = compile_object(module.text, target, module.glue)
            libraries.append(Library(image, module.symbols, imports))
        return Code.of(libraries, text.symbols)

    return uninterrupted(loaded)


@cache
def walker_text() -> str:
    """The LLVM text of the native loop, which serves every program."""
    return emit_walker(host()).text


def _shared(text: str, symbols: tuple[str, ...], target: Target) -> Library:
    """A library that all programs of the process share, compiled where it is not there yet."""
    found = shared_library(symbols, key_of(text), target, lambda: compile_object(text, target))
    assert found is not None, "what is compiled is there"
    return found


__all__ = ["load_code", "walker_text"]
