"""The routines ``sort`` and ``argsort``."""

from __future__ import annotations

from graphc.base.tuning.routines import ROUTINES
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.routines.keys import ROW, Entries
from graphc.codegen.routines.network import ROWS, emit_network, emit_vector
from graphc.codegen.routines.quick import emit_quick
from graphc.codegen.routines.radix import emit_radix
from graphc.codegen.routines.ranks import emit_ranks
from graphc.ir.dtypes import DType


def emit_sort(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (source, target, length, descending, room): values in order."""
    _emit(module, name, Entries(dtypes[0], places=False))


def emit_argsort(module: ModuleEmitter, name: str, dtypes: tuple[DType, ...]) -> None:
    """Defines (source, target, length, descending, room): their places, ties as they came."""
    _emit(module, name, Entries(dtypes[0], places=True))


def _emit(module: ModuleEmitter, name: str, entries: Entries) -> None:
    f = Builder(module, name, "*source *target length descending *room", internal=False)
    source, target, length, descending, room = f.given(
        "source", "target", "length", "descending", "room"
    )
    f.call(emit_any(module, name, entries), None, source, target, length, -descending, room)
    f.finish()


def emit_any(module: ModuleEmitter, name: str, entries: Entries) -> str:
    """Defines (source, target, length, inverted, room): a row by what is fastest at its length.

    Words of less than 32 bits are few digits.
    """
    if entries.words != 1:
        return _emit_pairs(module, name, entries)
    if entries.word.bits < 32:
        return emit_radix(module, f"{name}_radix", entries)
    radix = "" if module.target.has_compress else emit_radix(module, f"{name}_radix", entries)
    f = Builder(module, f"{name}_row", ROW)
    *operands, room = f.given("source", "target", "length", "inverted", "room")
    length = operands[2]
    lanes = max(4, min(16, module.target.vector_bits // entries.word.bits))
    network = emit_network(module, f"{name}_network", entries, lanes)
    by_length = [(ROWS, emit_vector(module, f"{name}_vector", entries, ROWS))]
    if lanes > 4:
        half = lanes // 2
        short = emit_network(module, f"{name}_short", entries, half)
        by_length.append((ROWS * half, short))
    longest, last = ROUTINES.longest_network, radix
    if module.target.has_compress:
        longest = ROUTINES.quick_words
        last = emit_quick(module, f"{name}_quick", entries, lanes, f"{name}_network")
    for limit, function in (*by_length, (longest, network)):
        fits = length <= limit
        with f.when(fits):
            f.call(function, None, *operands, room)
        f.leave_if(fits)
    f.call(last, None, *operands, room)
    f.finish()
    return f.name


def _emit_pairs(module: ModuleEmitter, name: str, entries: Entries) -> str:
    """The same for entries of two words, which no vectors hold."""
    radix = emit_radix(module, f"{name}_radix", entries)
    ranks = emit_ranks(module, f"{name}_ranks", entries)
    f = Builder(module, f"{name}_row", ROW)
    operands = f.given("source", "target", "length", "inverted", "room")
    is_short = operands[2] <= ROUTINES.few_ranks
    with f.when(is_short):
        f.call(ranks, None, *operands)
    f.leave_if(is_short)
    f.call(radix, None, *operands)
    f.finish()
    return f.name


__all__ = ["emit_any", "emit_argsort", "emit_sort"]
