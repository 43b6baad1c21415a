"""From an executable to a library: its programs, its weights and what it says of itself.

Invariant: the same graph, options and target give the same text and the same weights, on any
machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.aot.families import Family
from graphc.aot.native.interface import Interface
from graphc.aot.native.module import Variant, library_text, signature_text
from graphc.aot.native.records import aligned, areas_bytes, counts_of
from graphc.aot.signature import IDENTIFIER
from graphc.aot.tables import MAX_THREADS, LibraryTables, bounds_of, symbol_names, tables_of
from graphc.base.errors import GraphError, UnsupportedError
from graphc.base.source import caller
from graphc.base.target import Target
from graphc.base.words import is_count, shown
from graphc.compiling.compiled import Levels
from graphc.compiling.compiler import levels_of
from graphc.compiling.extraction import Extraction
from graphc.frontend.structure import leaves
from graphc.ir.attributes import Array, Payload
from graphc.ir.dtypes import STORAGE_NAMES
from graphc.ir.graph import Node
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.ir import walk
from graphc.kernel.routines.lapack import LAPACK
from graphc.ops.source import constant_op
from graphc.plan.ir import Launch, Plan
from graphc.plan.tables import PlanTables
from graphc.session.executable import Export

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "bfloat16", "complex64", "complex128", *STORAGE_NAMES,
)  # fmt: skip
"""The numbers that dtypes have in the C interface."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input, an output or a variable of a library.

    Attributes:
        name: as the user gave it, or one made of its position.
        type: dtype and symbolic shape.
        feed: which feed of the plan it is; -1 for none.
        output: which output of the plan it is, or gets as its new value; -1 for none.
    """

    name: str
    type: TensorType
    feed: int = -1
    output: int = -1


class Weights:
    """The arrays of a library in one block, equal ones once, each where ``aligned`` puts it."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.offsets: list[int] = []
        self.bytes = 0
        self._known: dict[Payload, int] = {}

    def place(self, array: Array) -> int:
        """Where an array lies."""
        payload = Payload(array)
        known = self._known.get(payload)
        if known is None:
            known = self._known[payload] = self.bytes
            self.arrays.append(array)
            self.offsets.append(known)
            self.bytes = aligned(known + max(array.nbytes, 1))
        return known

    def block(self) -> bytes:
        """The whole."""
        parts: list[bytes] = []
        for array in self.arrays:
            parts += (array.tobytes(), bytes(aligned(max(array.nbytes, 1)) - array.nbytes))
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Design:
    """What is to be built.

    Attributes:
        name: prefix of the symbols.
        family: the processors it has programs for.
        threads: whether kernels may run on several threads.
        embeds: whether the weights are part of the library.
        freezes: whether variables become constants; None where the executable writes none.
        dims: bounds of symbolic dims, by name.
    """

    name: str
    family: Family
    threads: bool = True
    embeds: bool = True
    freezes: bool | None = None
    dims: Mapping[str, tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """A library before it is compiled.

    Attributes:
        extraction: the graph, variables frozen if they are to be.
        inputs, outputs, variables: in the order of the C interface.
        initial: the values of the variables.
        levels: what each target's program went through.
        variants: each target's program.
        context_bytes: of a context of the largest of them.
        weights: all constants and initial values.
        symbols: name and bounds of each symbolic dim.
    """

    extraction: Extraction
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    variables: tuple[Tensor, ...]
    initial: tuple[Array, ...]
    levels: tuple[Levels, ...]
    variants: tuple[Variant, ...]
    context_bytes: int
    weights: Weights
    symbols: tuple[tuple[str, int, int], ...]


_RESERVED = ("graphc", "pthread")
"""A library has a ``graphc_signature``, and calls the system's ``pthread_create``."""
_LONGEST = 200


def check_name(name: str) -> None:
    """Refuses what can't begin the names of C functions.

    Raises:
        GraphError: naming it.
    """
    hint = "use letters, digits and _, a letter first: it begins the names of its functions"
    if isinstance(name, str) and name.lower() in _RESERVED:
        hint = f"give another name=: there are other functions that begin with {name}_"
    elif isinstance(name, str) and IDENTIFIER.fullmatch(name):
        if len(name) <= _LONGEST:
            return
        hint = f"use no more than {_LONGEST} characters: it becomes a part of names of files"
    raise GraphError(
        f"name={shown(name)} can't be the name of a library", where=caller(), hint=hint
    )


def content_of(exported: Export, design: Design) -> Content:
    """Compiles what is exported for each target of a design, as far as LLVM text.

    Raises:
        GraphError: for bounds of dims that are not the program's.
        UnsupportedError: if the program calls LAPACK, naming the operations that do and the line of
            the first.
    """
    extraction, values = exported.extraction, exported.variables
    freezes = not extraction.written if design.freezes is None else design.freezes
    if freezes:
        kept = set(extraction.written)
        extraction = _frozen(extraction, {v: a for v, a in values.items() if v not in kept})
    options = replace(exported.options, threads=MAX_THREADS if design.threads else 1)
    levels = [levels_of(extraction, options, target) for _, _, target in design.family.programs]
    _refuse_lapack(levels[0].plan)
    inputs, outputs, variables = _tensors(exported, extraction)
    feed_of = {value: n for n, value in enumerate(extraction.feeds)}
    read = [n for n, value in enumerate(exported.feeds) if value in feed_of]
    order = sorted(read, key=lambda n: feed_of[exported.feeds[n]])
    rows = [(tensor.feed, tensor.output) for tensor in variables]
    further = [dim for tensor in inputs for dim in tensor.type.shape]
    tables = [tables_of(level.plan, order, rows, further) for level in levels]
    symbols = _symbols(tables[0].plan, {} if design.dims is None else design.dims)
    remaining = dict.fromkeys((*extraction.states, *extraction.written))
    initial = tuple(values[key] for key in remaining)
    weights = Weights()
    variants: list[Variant] = []
    total = 0
    for program, level, table in zip(design.family.programs, levels, tables, strict=True):
        variant, size = _variant(
            program, level, table, (inputs, outputs, variables), initial, symbols, weights
        )
        variants.append(variant)
        total = max(total, size)
    return Content(
        extraction, inputs, outputs, variables, initial, tuple(levels), tuple(variants), total,
        weights, symbols,
    )  # fmt: skip


def _refuse_lapack(plan: Plan) -> None:
    calls = [
        (part.routine, step.where)
        for step in plan.steps
        if isinstance(step, Launch)
        for part in walk(plan.kernels[step.kernel].body)
        if part.routine in LAPACK
    ]
    if calls:
        names = sorted({name for name, _ in calls})
        raise UnsupportedError(
            f"libraries hold no LAPACK, which {' and '.join(names)} need{'s' * (len(names) == 1)}",
            where=calls[0][1],
            hint="run the program in a session, or compute this part outside of the library",
        )


def text_of(
    content: Content, design: Design, head: tuple[bytes, int, int], weights: str, digest: bytes
) -> str:
    """The LLVM text of a library.

    Args:
        content: the library.
        design: how it is built.
        head: of the file of weights the first bytes, where arrays begin and its size.
        weights: text that defines the embedded weights.
        digest: of what the library says of itself.
    """
    base = design.family.base
    programs = [(variant.symbol, variant.level) for variant in content.variants]
    interface = interface_of(design, programs, content.context_bytes, head, digest)
    signature = signature_text(
        content.symbols,
        {
            "input": _described(content.inputs),
            "output": _described(content.outputs),
            "variable": _described(content.variables),
        },
        " ".join(label for label, _, _ in design.family.programs),
        base,
    )
    text = library_text(interface, content.variants, base, signature, weights)
    return text


def interface_of(
    design: Design,
    programs: Sequence[tuple[str, int]],
    total: int,
    head: tuple[bytes, int, int],
    digest: bytes,
) -> Interface:
    """The functions of a library."""
    base = design.family.base
    first, start, size = head
    return Interface(
        name=design.name,
        context_bytes=total,
        programs=programs,
        pool="graphc_pool" if design.threads else None,
        weights=f"{design.name}_weights" if design.embeds else None,
        weights_bytes=size,
        weights_head=first,
        weights_start=start,
        digest=digest,
        hosted=design.family.is_hosted,
        is_linux=base.system == "linux",
        linkage="dllexport" if base.system == "windows" else "",
    )


# --- parts ---------------------------------------------------------------------------------------


def _frozen(extraction: Extraction, values: Mapping[Value, Array]) -> Extraction:
    """The same with constants for these variables."""
    graph = extraction.graph
    inputs = graph.inputs[: len(extraction.feeds)]
    states = graph.inputs[len(extraction.feeds) :]
    nodes: list[Node] = []
    kept: list[Value] = []
    for state, value in zip(extraction.states, states, strict=True):
        array = values.get(state)
        if array is None:
            kept.append(value)
            continue
        attributes = {"value": Payload(array)}
        nodes.append(Node(constant_op, (), attributes, (value,)))
    remaining = tuple(state for state in extraction.states if state not in values)
    new = graph.with_parts(inputs=(*inputs, *kept), nodes=(*nodes, *graph.nodes))
    return replace(extraction, graph=new, states=remaining)


def _tensors(
    exported: Export, extraction: Extraction
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    feed_of = {value: n for n, value in enumerate(extraction.feeds)}
    inputs = [
        Tensor(value.name or f"input_{n}", value.type, feed_of.get(value, -1))
        for n, value in enumerate(exported.feeds)
    ]
    fetched = [leaf for leaf in leaves(exported.fetches) if isinstance(leaf, Value)]
    outputs = [
        Tensor(value.name or f"output_{n}", value.type, -1, n) for n, value in enumerate(fetched)
    ]
    read = {value: n for n, value in enumerate(extraction.states, len(extraction.feeds))}
    written = {value: n for n, value in enumerate(extraction.written, len(fetched))}
    keys = dict.fromkeys((*extraction.states, *extraction.written))
    variables = [
        Tensor(name or f"variable_{n}", value.type, read.get(value, -1), written.get(value, -1))
        for n, (value, name) in enumerate((value, value.name) for value in keys)
    ]
    return tuple(inputs), tuple(outputs), tuple(variables)


def _symbols(
    tables: PlanTables, declared: Mapping[str, tuple[int, int]]
) -> tuple[tuple[str, int, int], ...]:
    names = symbol_names(tables)
    if not isinstance(declared, Mapping):
        raise GraphError(
            f"dims={shown(declared)}",
            where=caller(),
            hint="give bounds by name, dims={'batch': (1, 64)} for one",
        )
    unknown = [name for name in declared if name not in names]
    if unknown:
        raise GraphError(
            f"dims={shown(declared)} names {unknown[0]!r}; the symbolic dims are "
            f"{', '.join(names) or 'none'}",
            where=caller(),
            hint="give bounds for symbolic dims only",
        )
    possible = {
        name: bounds_of(symbol) for name, symbol in zip(names, tables.symbols, strict=True)
    }
    for name, given in declared.items():
        least, greatest = possible[name]
        match given:
            case (low, high) if is_count(low, least) and is_count(high, low) and high <= greatest:
                possible[name] = low, high
            case _:
                raise GraphError(
                    f"dims={shown(declared)}: {name} can't have the bounds {shown(given)}",
                    where=caller(),
                    hint=f"give its least and its greatest size, from {least} to {greatest}",
                )
    return tuple((name, *sizes) for name, sizes in possible.items())


def _variant(
    program: tuple[str, int, Target],
    levels: Levels,
    tables: LibraryTables,
    tensors: tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]],
    initial: Sequence[Array],
    symbols: Sequence[tuple[str, int, int]],
    weights: Weights,
) -> tuple[Variant, int]:
    """A program, and the bytes of its contexts; what it needs is given its place in the weights.

    ``tensors`` are inputs, outputs and variables.
    """
    place, number = weights.place, tables.plan.number
    inputs, outputs, variables = tensors
    constants = [place(array) for array in tables.constants]
    every = (*inputs, *outputs, *variables)
    shapes = [[number(dim) for dim in tensor.type.shape] for tensor in every]
    in_bytes = [number(tensor.type.bytes) for tensor in inputs]
    out_bytes = [number(tensor.type.bytes) for tensor in outputs]
    counts = counts_of(tables, len(in_bytes), len(out_bytes), len(variables))
    size = areas_bytes(counts)
    rows = []
    for tensor, array in zip(variables, initial, strict=True):
        block, second = size, 0
        size += aligned(max(array.nbytes, 1))
        if tensor.output >= 0:
            second = block
            if tables.commit < 0:
                second = size
                size += aligned(max(array.nbytes, 1))
        rows.append((place(array), array.nbytes, block, second))
    bounds = [(lower, upper) for _, lower, upper in symbols]
    variant = Variant(
        *program, levels.text, tables, bounds, constants, rows, shapes, in_bytes, out_bytes,
    )  # fmt: skip
    return variant, size


def _described(tensors: Sequence[Tensor]) -> list[tuple[str, int, list[str]]]:
    return [
        (t.name, DTYPES.index(t.type.dtype.name), [str(dim) for dim in t.type.shape])
        for t in tensors
    ]


__all__ = ["Content", "Design", "Tensor", "Weights", "check_name", "content_of", "text_of"]
