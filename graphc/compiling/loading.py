"""Machine code of a program's text, beside what it calls."""

from __future__ import annotations

from functools import cache

from graphc.base.llvm import uninterrupted
from graphc.base.target import Target, host
from graphc.codegen.llvm.module import Module
from graphc.codegen.native.plan_walker import ProgramText, emit_walker
from graphc.plan.abi import WALKER, WORKER
from graphc.runtime.code import Code
from graphc.runtime.jit import Library, compile_object, key_of, shared_library


def load_code(text: ProgramText, target: Target) -> Code:
    """Compiles the kernels' text and loads it beside what it calls and the loop over steps."""

    def loaded() -> Code:
        libraries = [_shared(_walker(), (WALKER, WORKER), host())]
        imports: dict[str, int] = {}
        for module in text.libraries.values():
            found = _shared(module, module.exports, target)
            libraries.append(found)
            imports |= found.addresses
        for own in text.modules:
            image = compile_object(own.text, target, own.glue)
            libraries.append(Library(image, own.symbols, imports))
        return Code.of(libraries, text.symbols)

    return uninterrupted(loaded)


def walker_text() -> str:
    """The LLVM text of the native loop, which serves every program."""
    return _walker().text


@cache
def _walker() -> Module:
    return emit_walker(host())


@cache
def _shared(module: Module, symbols: tuple[str, ...], target: Target) -> Library:
    """A library that all programs of the process share, compiled where it is not there yet.

    Each is one module in a process. To spell and hash its text takes longer than to make that of
    a program's kernels.
    """
    text = module.text
    found = shared_library(symbols, key_of(text), target, lambda: compile_object(text, target))
    assert found is not None, "what is compiled is there"
    return found


__all__ = ["load_code", "walker_text"]
