"""Feature detection on x86-64 by ``cpuid`` and ``xgetbv`` (Intel's and AMD's manuals)."""

from __future__ import annotations

from collections import defaultdict

from graphc.base.target import LEVELS, OSXSAVE
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.routine import Routine
from graphc.codegen.llvm.types import I32, I64

_REGISTERS = ("eax", "ebx", "ecx", "edx")
_EXTENDED = 0x80000000
"""The first of the leaves that AMD began with."""


def emit_cpu_level(module: ModuleEmitter, symbol: str) -> None:
    """Defines ``i64 symbol()``: the psABI level of the processor, 1 to 4."""
    r = Routine(module, symbol, {}, I64)
    leaves = sorted({bit.leaf for needs in LEVELS.values() for bit in needs.features.values()})
    for first in (0, _EXTENDED):
        greatest = max(leaf for leaf in leaves if (leaf >= _EXTENDED) == (first > 0))
        with r.when(_cpuid(r, first)["eax"] < greatest):
            r.give(1)
    found = {leaf: _cpuid(r, leaf) for leaf in leaves}
    for level, needs in enumerate(LEVELS.values(), start=1):
        masks: dict[tuple[int, str], int] = defaultdict(int)
        for bit in (*needs.features.values(), *([OSXSAVE] if needs.states else [])):
            masks[bit.leaf, bit.register] |= 1 << bit.bit
        for (leaf, register), mask in masks.items():
            with r.when((found[leaf][register] & mask).differs(mask)):
                r.give(level - 1)
        if needs.states:
            # only behind the test of OSXSAVE: without it the instruction is none
            with r.when((_kept(r) & needs.states).differs(needs.states)):
                r.give(level - 1)
    r.finish(len(LEVELS))


def _cpuid(r: Routine, leaf: int) -> dict[str, Reg]:
    """The registers that the instruction fills in, as numbers without sign."""
    result = "{ i32, i32, i32, i32 }"
    whole = r.fresh("cpuid")
    places = '"={ax},={bx},={cx},={dx},{ax},{cx}"'
    r.line(f'{whole} = call {result} asm sideeffect "cpuid", {places}(i32 {leaf}, i32 0)')
    return {
        name: _wide(r, f"extractvalue {result} {whole}, {n}") for n, name in enumerate(_REGISTERS)
    }


def _kept(r: Routine) -> Reg:
    """The registers that the system keeps for each thread: ``xgetbv``."""
    whole = r.fresh("kept")
    r.line(
        f'{whole} = call {{ i32, i32 }} asm sideeffect ".byte 0x0f, 0x01, 0xd0", '
        '"={ax},={dx},{cx}"(i32 0)'
    )
    return _wide(r, f"extractvalue {{ i32, i32 }} {whole}, 0")


def _wide(r: Routine, text: str) -> Reg:
    return r.convert("zext", r.assign(I32, text), "i64")


__all__ = ["emit_cpu_level"]
