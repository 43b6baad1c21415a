"""Writing libraries: code, header, weights, signature and a module for NumPy in a directory."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graphc import __version__
from graphc.aot.artifact import FORMAT, FORMAT_VERSION, MARK, digest_of, signed
from graphc.aot.families import Family, family_of
from graphc.aot.header import header_text
from graphc.aot.library import (
    Content,
    Design,
    Tensor,
    check_name,
    content_of,
    interface_of,
    text_of,
)
from graphc.aot.link import library_name, link
from graphc.aot.publish import publish
from graphc.aot.python_file import check_module_name, python_text
from graphc.aot.tables import MAX_THREADS
from graphc.aot.weights import METADATA, PADDING, embedding, filled, weights_file
from graphc.base.errors import GraphError, UnsupportedError
from graphc.base.paths import FileUse, check_writable, path_text
from graphc.base.source import Location, caller
from graphc.base.target import CACHE_LINE
from graphc.base.words import shown
from graphc.frontend.structure import leaves
from graphc.frontend.structure_data import structure_data
from graphc.ir.dims.expressions import at_hint, evaluate, symbol_name
from graphc.ir.value import Value
from graphc.ops.host import refuse_host_calls
from graphc.plan.ir import Plan
from graphc.plan.memory import offsets_for_sizes
from graphc.plan.printer import symbols_in
from graphc.plan.serialize import plan_text
from graphc.runtime.jit import compile_object
from graphc.session.executable import Executable, Export

Kind = Literal["shared", "object", "package"]

KINDS: tuple[Kind, ...] = ("shared", "object", "package")


@dataclass(frozen=True, slots=True)
class Order:
    """What a caller of ``graphc.aot.compile`` asked for."""

    kind: Kind
    target: str
    threads: bool
    embed_weights: bool
    dims: Mapping[str, tuple[int, int]]
    variants: Collection[str]
    name: str | None
    freeze: bool | None


def write_library(exe: Executable, path: str | os.PathLike[str], order: Order) -> None:
    """Writes a library; see ``graphc.aot.compile``."""
    name = order.name if order.name is not None else _name_of(path)
    check_name(name)
    if order.kind not in KINDS:
        raise GraphError(
            f"kind={shown(order.kind)}", where=caller(), hint=f"known are {', '.join(KINDS)}"
        )
    check_writable(path, "a library", folder=True)
    for option, value in (("threads", order.threads), ("embed_weights", order.embed_weights)):
        if not isinstance(value, bool):
            raise GraphError(
                f"{option}={shown(value)}", where=caller(), hint="it must be True or False"
            )
    if order.freeze is not None and not isinstance(order.freeze, bool):
        raise GraphError(
            f"freeze={shown(order.freeze)}", where=caller(), hint="it must be True, False or None"
        )
    family = family_of(order.target, order.variants)
    if not order.embed_weights and family.base.system == "windows":
        raise UnsupportedError(
            "a library for Windows can't map a file of weights",
            where=caller(),
            hint="leave embed_weights at True",
        )
    with_module = order.kind == "shared" and family.is_hosted
    if with_module:
        check_module_name(name)
    exported = exe.exported()
    refuse_host_calls(exported.extraction.graph.nodes, "a library")
    structure = structure_data(exported.fetches)
    design = Design(
        name, family, order.threads and family.base.has_threads, order.embed_weights,
        order.freeze, order.dims,
    )  # fmt: skip
    content = content_of(exported, design)
    nothing = (b"", 0, 0)
    library = f"{name}.o" if order.kind != "shared" else library_name(name, family.base)
    stored, head = None, nothing
    files: dict[str, bytes] = {}
    if design.embeds:
        weights = content.weights.block()
    else:
        start, block = weights_file(content.weights, _array_names(content))
        head = (start, len(start), len(start) + len(block))
        stored, weights = f"{name}.safetensors", start + block
        files[stored] = weights
    data = _data(exported, content, design, order, family)
    data["structure"], data["library"] = structure, library
    content_hash = hashlib.sha256(weights).hexdigest()
    data["weights"] = {"file": stored, "start": head[1], "sha256": content_hash}
    digest = digest_of(data)
    code = _compiled(content, design, family, head, weights, digest)
    if order.kind == "shared":
        names = interface_of(design, (), 0, nothing, b"").exported()
        code = link([code], names, family.base, name)
    files[library] = code
    files[f"{name}.h"] = header_text(content, design, family.is_hosted).encode()
    if with_module:
        files[f"{name}.py"] = python_text(content, design, library, stored, digest).encode()
    data["files"] = {
        each: {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
        for each, text in files.items()
    }
    with FileUse(path, "a library", "written") as directory:
        publish(directory, {**files, f"{name}.json": signed(data)}, MARK)


def _name_of(path: str | os.PathLike[str]) -> str:
    """The name of a library that is written to a directory of this name."""
    given = os.path.basename(os.path.abspath(path_text(path, "a library")))
    name = re.sub(r"\W", "_", given.split(".", 1)[0], flags=re.ASCII)
    return name if re.match(r"[A-Za-z]", name) else f"graph_{name}"


def _compiled(
    content: Content,
    design: Design,
    family: Family,
    head: tuple[bytes, int, int],
    embedded: bytes,
    digest: bytes,
) -> bytes:
    """The object."""
    if not design.embeds:
        return compile_object(text_of(content, design, head, "", digest), family.base)
    weights = embedding(f"{design.name}_weights", len(embedded))
    image = compile_object(text_of(content, design, head, weights, digest), family.base)
    return filled(image, embedded)


def _array_names(content: Content) -> list[str]:
    """A name for each array of the weights: that of its variable, or of its place."""
    offsets = {
        content.weights.place(array): tensor.name
        for tensor, array in zip(content.variables, content.initial, strict=True)
    }
    # what a file says of itself, and what lies between arrays
    names = dict.fromkeys([METADATA])
    for number, offset in enumerate(content.weights.offsets):
        name = offsets.get(offset, f"constant.{number}")
        while name in names or name.endswith(PADDING):
            name += f".{number}"
        names[name] = None
    return [*names][1:]


# --- what it says of itself ----------------------------------------------------------------------


def _data(
    exported: Export, content: Content, design: Design, order: Order, family: Family
) -> dict[str, Any]:
    options = exported.options
    results: list[int | None] = []
    count = 0
    for leaf in leaves(exported.fetches):
        results.append(count if isinstance(leaf, Value) else None)
        count += isinstance(leaf, Value)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "graphc_version": __version__,
        "name": design.name,
        "kind": order.kind,
        "target": {"name": order.target, "triple": family.base.triple},
        "numerics": options.numerics,
        "fast_math": sorted(options.fast_math),
        "threads": design.threads,
        "dims": [list(symbol) for symbol in content.symbols],
        "arguments": [_tensor(tensor) for tensor in content.inputs],
        "outputs": [_tensor(tensor) for tensor in content.outputs],
        "variables": [_tensor(tensor) for tensor in content.variables],
        "results": results,
        "programs": [
            {
                "name": label,
                "level": level,
                "kernels": len(levels.plan.kernels),
                "workspace": _workspace(levels.plan),
                "constants": [
                    [slot, content.weights.place(array), array.dtype.name, list(array.shape)]
                    for slot, array in levels.plan.constants.items()
                ],
                **_plan(levels.plan),
            }
            for (label, level, _), levels in zip(family.programs, content.levels, strict=True)
        ],
        "initial": [content.weights.place(array) for array in content.initial],
        "weight_bytes": content.weights.bytes,
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.type.dtype.name,
        "shape": [dim if isinstance(dim, int) else str(dim) for dim in tensor.type.shape],
        "read": tensor.feed if tensor.feed >= 0 else None,
        "written": tensor.output if tensor.output >= 0 else None,
    }


def _workspace(plan: Plan) -> dict[str, Any]:
    """What the workspace takes on one thread, at the sizes planned for."""
    layout = plan.layout
    assert layout is not None, "a plan is placed before it is exported"
    dims = {symbol_name(symbol): at_hint(symbol) for symbol in symbols_in(plan)}
    sizes = []
    for slot in layout.slots:
        size = evaluate(plan.slots[slot].type.bytes, dims)
        alone = plan.slots[slot].copies == 1
        sizes.append(size if alone else -(-size // CACHE_LINE) * CACHE_LINE)
    _, peak = offsets_for_sizes(layout.solution, sizes)
    return {"dims": dims, "threads": 1, "bytes": peak + CACHE_LINE if peak else 0}


def _plan(plan: Plan) -> dict[str, Any]:
    """The plan, with the user's lines beside it; of their files only the names."""
    lines: dict[tuple[Any, ...], int] = {}

    def number_of(where: Location) -> int:
        name = os.path.basename(where.filename.replace("\\", "/"))
        return lines.setdefault((name, where.line, where.column, where.end_column), len(lines))

    text = plan_text(plan, number_of)
    return {"plan": text, "lines": [list(line) for line in lines]}


__all__ = ["KINDS", "MAX_THREADS", "Kind", "Order", "write_library"]
