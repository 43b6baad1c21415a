"""A whole library as one module of LLVM text: programs for several processors and what calls them.

The module is made for the plainest processor of its family, and each program's functions say for
which they are made, so that one object holds them all. Invariant: only the functions of the
interface can be seen from outside, so that two libraries stand beside each other in a process, and
nothing in the text depends on the machine that it is written on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from graphc.aot.native.binding import SHOWN, emit_binding
from graphc.aot.native.interface import CPU_LEVEL, Interface, emit_interface
from graphc.aot.native.records import CONTEXT, PROGRAM, counts_of
from graphc.aot.native.running import emit_running
from graphc.aot.tables import MARK, LibraryTables, symbol_names
from graphc.base.target import Target
from graphc.codegen.llvm.dims import emit_dims
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import (
    EMPTY,
    Function,
    Line,
    Module,
    ModuleEmitter,
    joined,
    pieces_of,
    symbol,
)
from graphc.codegen.llvm.routine import words
from graphc.codegen.llvm.types import I1, I64, PTR
from graphc.codegen.native.cpuid import emit_cpu_level
from graphc.codegen.native.plan_walker import ProgramText, emit_walker
from graphc.codegen.native.python_entry import emit_entry
from graphc.ir.dims.expressions import DimExpr
from graphc.plan.abi import GUARD_FIELDS, POOL_BYTES
from graphc.plan.tables import PlanTables
from graphc.runtime.interrupt import handler_module


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A program for one kind of processor.

    Attributes:
        label: part of its symbols.
        level: what the processor must be able to do; 0 for anything of the target's family.
        target: what its kernels are made for.
        text: its kernels.
        tables: its plan.
        bounds: the least and greatest size of each symbol.
        constants: where each constant lies in the weights.
        variables: rows of ``records.VARIABLE_FIELDS``.
        shapes: numbers of the dims of each input, then output, then variable.
        input_bytes, output_bytes: numbers of their sizes.
    """

    label: str
    level: int
    target: Target
    text: ProgramText
    tables: LibraryTables
    bounds: Sequence[tuple[int, int]]
    constants: Sequence[int]
    variables: Sequence[tuple[int, int, int, int]]
    shapes: Sequence[Sequence[int]]
    input_bytes: Sequence[int]
    output_bytes: Sequence[int]

    @property
    def symbol(self) -> str:
        """Of its program."""
        return f"graphc_program_{self.label}"


def library_text(
    interface: Interface, variants: Sequence[Variant], base: Target, signature: str, weights: str
) -> str:
    """The module.

    Args:
        interface: its functions.
        variants: its programs.
        base: the processor that all else is made for.
        signature: text that defines ``@graphc_signature``.
        weights: text that defines the embedded weights; empty where they are in a file.
    """
    module = ModuleEmitter(base)
    emit_binding(module, interface.pool)
    emit_running(module)
    emit_interface(module, interface)
    if any(level for _, level in interface.programs):
        emit_cpu_level(module, CPU_LEVEL)
    heads = [CONTEXT.definition, PROGRAM.definition]
    attributes: list[str] = []
    modules = [module.module(), emit_walker(base, interface.pool is not None)]
    for number, variant in enumerate(variants):
        modules += _variant_modules(variant, number)
        attributes.append(
            f"attributes #{number} = {{ nounwind "
            f'"target-cpu"="{variant.target.cpu}" "target-features"="{variant.target.features}" }}'
        )
    if interface.pool is not None:
        heads.append(_pool_text(interface.pool))
    if interface.is_linux:
        modules += [emit_entry(base, "internal"), handler_module("internal")]
    exported = set(interface.exported())
    parts = [
        part.hidden() if isinstance(part, Function) and part.name not in exported else part
        for part in joined(modules).parts
    ]
    whole = Module(tuple(parts)).text
    return "\n".join((*heads, signature, weights, whole, *attributes, ""))


# --- programs ------------------------------------------------------------------------------------


def _variant_modules(variant: Variant, number: int) -> list[Module]:
    """The kernels of a program, and its tables, under symbols of their own."""
    program = variant.text.joined()
    own = program.renamed({name: f"{variant.label}.{name}" for name in program.symbols})
    parts = [
        replace(part, attributes=f"{part.attributes} #{number}")
        if isinstance(part, Function)
        else part
        for part in own.parts
    ]
    kernels = [f"{variant.label}.{symbol}" for symbol in variant.text.symbols]
    return [Module(tuple(parts)), _program_module(variant, kernels)]


def _program_module(variant: Variant, kernels: Sequence[str]) -> Module:
    module = ModuleEmitter(variant.target)
    tables = variant.tables
    plan = tables.plan
    counts = counts_of(
        tables, len(variant.input_bytes), len(variant.output_bytes), len(variant.variables)
    )
    label = variant.label
    evaluate = f"{label}.sizes"
    _emit_sizes(module, evaluate, plan)
    names = [
        module.string(f"the size of dim {name} is {MARK}, it must be {MARK} to {MARK}")
        for name in symbol_names(plan)
    ]
    messages = [module.string(text) for text in tables.messages]
    ends = accumulate(map(len, variant.shapes), initial=len(variant.shapes) + 1)
    shapes = [*ends, *chain.from_iterable(variant.shapes)]
    assert all(numbers <= SHOWN for numbers in plan.guards[GUARD_FIELDS - 1 :: GUARD_FIELDS])
    content: dict[str, str] = {
        "bounds_at": words([bound for pair in variant.bounds for bound in pair], 64),
        "symbol_messages_at": _addresses(names),
        "slots_at": words(tables.slots),
        "entries_at": words(plan.entries),
        "cells_at": words(plan.cells),
        "steps_at": words(plan.steps),
        "idle_at": words(plan.idle),
        "idle_sizes_at": words(plan.idle_sizes),
        "buffers_at": words(plan.buffers),
        "copies_at": words(plan.copies),
        "roots_at": words(tables.roots),
        "alignments_at": words(tables.alignments),
        "order_at": words(tables.order),
        "starts_at": words(tables.starts),
        "below_at": words(tables.below),
        "guards_at": words(plan.guards),
        "shown_at": words(plan.shown),
        "cuts_at": words(plan.cuts),
        "groups_at": words(plan.groups),
        "works_at": words(plan.works),
        "group_bounds_at": words(plan.bounds, 64),
        "sites_at": words(tables.sites),
        "messages_at": _addresses(messages),
        "of_matrices_at": words([int(flag) for flag in tables.of_matrices]),
        "constants_at": words(variant.constants, 64),
        "input_bytes_at": words(variant.input_bytes),
        "output_bytes_at": words(variant.output_bytes),
        "variables_at": words([word for row in variant.variables for word in row], 64),
        "shapes_at": words(shapes),
        "kernels": _addresses(kernels),
    }
    lines = {
        f"{label}.table.{name}": f"internal constant {text}, align 8"
        for name, text in content.items()
    }
    fields = []
    for name, type_ in PROGRAM.fields.items():
        if type_ is I64:
            fields.append(f"i64 {counts[name]}")
        else:
            target = evaluate if name == "evaluate" else f"{label}.table.{name}"
            fields.append(f"ptr {symbol(target)}")
    lines[variant.symbol] = f"internal constant %{PROGRAM.name} {{ {', '.join(fields)} }}"
    defined = (
        Line(name, pieces_of(f"{symbol(name)} = {text}")) for name, text in lines.items()
    )
    return Module((*module.module().parts, EMPTY, *defined))


def _addresses(symbols: Iterable[str]) -> str:
    items = [f"ptr {symbol(name)}" for name in symbols]
    return f"[{len(items)} x ptr] [{', '.join(items)}]"


def _emit_sizes(module: ModuleEmitter, name: str, tables: PlanTables) -> None:
    """``i1 symbol(symbols, sizes)``: the values of all dims; true where one exceeds an int64."""
    e = FunctionEmitter(module, name, {"symbols": PTR, "sizes": PTR}, I1)
    known: dict[DimExpr, Reg] = {}
    for number, dim in enumerate(tables.symbols):
        at = e.at(e.parameter("symbols"), "i64", number)
        known[dim] = e.load(at, I64, 8)
    flags = emit_dims(e, tables.dims, known, e.parameter("sizes"))
    e.finish(flags)


# --- text ----------------------------------------------------------------------------------------


def _pool_text(symbol: str) -> str:
    return f"@{symbol} = internal global [{POOL_BYTES} x i8] zeroinitializer, align 64"


def signature_text(
    symbols: Sequence[tuple[str, int, int]],
    tensors: Mapping[str, Sequence[tuple[str, int, Sequence[str]]]],
    target: str,
    base: Target,
) -> str:
    """Defines ``@graphc_signature``; see the header for its types.

    Args:
        symbols: name and bounds of each dim.
        tensors: "input", "output", "variable": name, number of the dtype and shape of each.
        target: the names of the processors it has programs for.
        base: the processor that all else is made for.
    """
    module = ModuleEmitter(base)
    lines: list[str] = []

    def listed(name: str, items: Sequence[str], type_: str) -> str:
        lines.append(
            f"@graphc_signature.{name} = internal constant [{len(items)} x {type_}] "
            f"[{', '.join(f'{type_} {item}' for item in items)}]"
        )
        return f"ptr @graphc_signature.{name}"

    dims = [
        f"{{ ptr @{module.string(name)}, i64 {lower}, i64 {upper} }}"
        for name, lower, upper in symbols
    ]
    tables = [listed("dim", dims, "{ ptr, i64, i64 }")]
    counts = [f"i32 {len(symbols)}"]
    for kind, infos in tensors.items():
        rows = [
            f"{{ ptr @{module.string(name)}, ptr @{module.string(', '.join(shape))}, i32 {dtype}, "
            f"i32 {len(shape)} }}"
            for name, dtype, shape in infos
        ]
        tables.append(listed(kind, rows, "{ ptr, ptr, i32, i32 }"))
        counts.append(f"i32 {len(infos)}")
    fields = [*counts, *tables, f"ptr @{module.string(target)}"]
    types = ", ".join(["i32"] * len(counts) + ["ptr"] * (len(tables) + 1))
    lines.append(f"@graphc_signature = internal constant {{ {types} }} {{ {', '.join(fields)} }}")
    return "\n".join((module.text(), *lines))


__all__ = ["Variant", "library_text", "signature_text"]
